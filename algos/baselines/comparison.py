r"""A comparison of assignment methods on the same scores, in one record.

Problem: ``max sum_i s_{i, y_i}  s.t.  l_k <= n_k <= u_k`` again. Methods differ in their promises:
some always keep the bounds, others only move towards them. A table of objectives alone would favor
methods that break the bounds, so every record states three numbers,

* `objective`, what the labels achieve,
* `violation`, by how many samples they break the bounds, and
* `upper_bound`, ``D(pi)`` of the method's own prices: *no* labels inside the bounds reach higher.

============  ===============================================  =========  =======================
name          method                                           in bounds  module
============  ===============================================  =========  =======================
greedy        ``argmax_k s_ik``, no prices                     no         none
online        primal-dual, one pass, caps and completion       yes        `assignment`
offline       labels to a proven gap of 1e-4                   yes        `offline`
exact         optimal labels                                   yes        `offline`
sinkhorn      entropic transport to convergence, epsilon 0.01  no         `sinkhorn_transport`
swav          three rounds of Sinkhorn, epsilon 0.05           no         `sinkhorn_transport`
entropy       SeCu's entropy variant, as published             no         `entropy`
sign          sign rule of expert balancing, ten passes        no         `sign_rule`
============  ===============================================  =========  =======================

Soft methods determine prices up to a constant. With lower and upper bounds the constant changes D:
`level_prices` finds the best one.

=====================  ================  =======  ================================================
paper                  here              shape    meaning
=====================  ================  =======  ================================================
:math:`s_{i,k}`        ``scores``        (n, k)   to maximize
:math:`\rho - \rho'`   ``prices``        (k,)     pi, in units of score, float64
D                      ``upper_bound``   ()       `certificates.dual_value`
=====================  ================  =======  ================================================
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import array_api_compat as compat

from ..bounds.sizes import SizeBounds, check_bounds
from ..core.checks import (
    check_choice,
    check_finite,
    check_kind,
    check_real,
    check_same_place,
    check_shape,
    shown,
)
from ..core.errors import InvalidTypeError, InvalidValueError
from ..core.segments import segment_counts
from ..core.types import Array
from ..offline.assignment import assign_exact, assign_offline
from ..online.assignment import assign
from ..online.certificates import dual_value, objective, violation
from .entropy import assign_entropy, published_rule
from .sign_rule import SignRule, assign_sign_rule
from .sinkhorn_transport import SWAV, SinkhornOptions, sinkhorn

__all__ = [
    "METHODS",
    "Comparison",
    "Method",
    "compare_assignments",
    "level_prices",
    "record",
    "table",
    "target_shares",
]


class Comparison(NamedTuple):
    """The result of one method on one problem.

    Attributes
    ----------
    method : str
    labels : (n,) int64 array
    prices : (k,) float64 array
        Prices of the method, at their best level.
    counts : (k,) int64 array
    objective : float
        ``sum_i s_{i, y_i}``, in units of score. Comparable only if `violation` is 0.
    upper_bound : float
        No labels *inside the bounds* have a larger objective.
    violation : int
        Largest number of samples by which a cluster is outside its bounds.
    guaranteed : bool
        Whether the method promises a violation of 0 for any scores.
    """

    method: str
    labels: Array
    prices: Array
    counts: Array
    objective: float
    upper_bound: float
    violation: int
    guaranteed: bool


class Method(NamedTuple):
    """A method that gives labels and prices, and whether its labels always satisfy the bounds."""

    solve: Callable[[Array, SizeBounds], tuple[Array, Array]]
    guaranteed: bool


def target_shares(bounds: SizeBounds) -> Array:
    """Return target shares for methods without intervals, ``l + t (u - l)``.

    The number t makes them add up to 1; equal bounds for all clusters give 1 / k. A cluster that
    may hold no sample gets a thousandth of one, since a soft method cannot exclude it.

    Parameters
    ----------
    bounds : SizeBounds of a known number of samples

    Returns
    -------
    (k,) float64 array, positive, of sum 1

    Examples
    --------
    >>> from dualclust.algos.bounds.sizes import SizeBounds
    >>> target_shares(SizeBounds.from_counts([0, 4, 4], [2, 6, 4], n_samples=10))
    array([0.1, 0.5, 0.4])
    """
    n = _known_length(bounds)
    xp = compat.array_namespace(bounds.lower)
    low, high = (xp.astype(b, xp.float64) for b in (bounds.lower, bounds.upper))
    width = float(xp.sum(high - low))
    t = (n - float(xp.sum(low))) / width if width > 0 else 0.0
    sizes = xp.clip(low + t * (high - low), min=1e-3)
    return sizes / xp.sum(sizes)


def level_prices(prices: Array, bounds: SizeBounds) -> Array:
    """Shift prices by the constant that minimizes `certificates.dual_value`.

    Parameters
    ----------
    prices : (k,) real array, finite
    bounds : SizeBounds of a known number of samples

    Returns
    -------
    (k,) float64 array
        They give the same labels, and one entry is 0 (a kink of D).

    Notes
    -----
    Along ``pi + c`` the value D is convex and piecewise linear. Its slope is ``n`` minus the lower
    bounds of the clusters above 0 and the upper bounds of those below: an integer, hence exact.
    Cost O(k log k).

    Examples
    --------
    >>> import numpy as np
    >>> from dualclust.algos.bounds.sizes import SizeBounds
    >>> bounds = SizeBounds.from_counts([1, 1, 1], [3, 3, 3], n_samples=6)
    >>> level_prices(np.asarray([0.75, 0.5, 0.0]), bounds)
    array([ 0.25,  0.  , -0.5 ])
    """
    n = _known_length(bounds)
    xp = check_real("prices", prices)
    check_same_place(prices=prices, bounds=bounds.lower)
    check_shape("prices", prices, (bounds.n_clusters,))
    pi = xp.astype(prices, xp.float64)
    # The bounds implied by those of the other clusters, as in `price_of_bounds`.
    low = xp.maximum(bounds.lower, n - (xp.sum(bounds.upper) - bounds.upper))
    high = xp.minimum(bounds.upper, n - (xp.sum(bounds.lower) - bounds.lower))
    order = xp.argsort(pi, descending=True, stable=True)
    low, high = xp.take(low, order), xp.take(high, order)
    # Just beyond the m-th kink, the m + 1 highest prices are above 0 and the others below.
    slope = n - xp.cumulative_sum(low) - (xp.sum(high) - xp.cumulative_sum(high))
    kink = xp.argmax(xp.astype(slope >= 0, xp.int8))
    return pi - xp.take(xp.take(pi, order), xp.reshape(kink, (1,)))


def record(
    method: str,
    scores: Array,
    labels: Array,
    prices: Array,
    bounds: SizeBounds,
    *,
    guaranteed: bool = False,
) -> Comparison:
    """Evaluate labels and prices from any source.

    Parameters
    ----------
    method : str
        Name for the record.
    scores : (n, k) real array
        Finite; n = ``bounds.n_samples``.
    labels : (n,) int64 array
    prices : (k,) real array
        Zeros for a method without prices. Any prices give a valid upper bound.
    bounds : SizeBounds
    guaranteed : bool
        Whether the method promises the bounds; labels that break the promise are refused.

    Returns
    -------
    Comparison

    Raises
    ------
    InvalidValueError
        For a shape that does not fit, entries that are not finite, or labels outside the bounds
        despite `guaranteed`.
    """
    xp = check_real("scores", scores)
    _, k = check_shape("scores", scores, (_known_length(bounds), bounds.n_clusters))
    check_same_place(scores=scores, labels=labels, prices=prices, bounds=bounds.lower)
    check_finite("scores", scores)
    check_finite("prices", prices)
    value = objective(scores, labels)  # checks the labels
    counts = segment_counts(xp.astype(labels, xp.int64), n_segments=k)
    pi = level_prices(prices, bounds)
    outside = violation(counts, bounds)
    if guaranteed and outside > 0:
        msg = (
            f"labels of {method!r} must be inside the bounds, as guaranteed=True says; a cluster "
            f"is {outside} samples outside. To fix this, pass guaranteed=False"
        )
        raise InvalidValueError(msg)
    bound = dual_value(scores, pi, bounds)
    return Comparison(method, labels, pi, counts, value, bound, outside, guaranteed)


def compare_assignments(
    scores: Array,
    bounds: SizeBounds,
    *,
    names: Sequence[str] | None = None,
    others: Mapping[str, Method] | None = None,
) -> tuple[Comparison, ...]:
    """Run methods on the same scores and bounds, and evaluate them by the same measures.

    Parameters
    ----------
    scores : (n, k) real array
        Finite, float32 or wider; n = ``bounds.n_samples``.
    bounds : SizeBounds
        On the library and device of `scores`.
    names : sequence of str, optional
        Names in `METHODS` and `others`; all by default.
    others : mapping of names to `Method`, optional
        Your own methods; a name in `METHODS` replaces that method.

    Returns
    -------
    tuple of Comparison
        In the order of `names`.

    Raises
    ------
    InvalidValueError
        For an unknown name, and as `record` does.

    Notes
    -----
    Cost: that of the methods. "exact" costs most; "entropy" and "sign" run one Python round per
    batch. Defaults suit scores that differ by about 1 between clusters, as cosines do.

    Examples
    --------
    >>> import numpy as np
    >>> from dualclust.algos.bounds.sizes import SizeBounds
    >>> scores = np.asarray([[0.9, 0.1], [0.8, 0.1], [0.6, 0.5]])
    >>> bounds = SizeBounds.from_counts([1, 1], n_samples=3)
    >>> print(table(compare_assignments(scores, bounds, names=["greedy", "exact"])))
    method  objective  upper bound  violation  guaranteed
    greedy     2.3000       2.3000          1          no
    exact      2.2000       2.2000          0         yes
    """
    check_real("scores", scores)
    check_shape("scores", scores, (_known_length(bounds), bounds.n_clusters))
    check_same_place(scores=scores, bounds=bounds.lower)
    check_finite("scores", scores)
    methods = {**METHODS, **_methods(others)}
    if names is None:
        names = list(methods)
    elif isinstance(names, str) or not isinstance(names, Sequence):
        msg = f"names must be a list of names, got {shown(names)}. To fix this, pass a list"
        raise InvalidTypeError(msg)
    for name in names:
        check_choice("names", name, tuple(methods))
    found = []
    for name in names:
        labels, prices = methods[name].solve(scores, bounds)
        done = record(name, scores, labels, prices, bounds, guaranteed=methods[name].guaranteed)
        found.append(done)
    return tuple(found)


def _methods(others: Mapping[str, Method] | None) -> dict[str, Method]:
    """Check the caller's methods and return them as a dict."""
    if others is None:
        return {}
    if not isinstance(others, Mapping):
        msg = f"others must map names to methods, got {shown(others)}. To fix this, pass a dict"
        raise InvalidTypeError(msg)
    for name, method in others.items():
        fix = "pass dualclust.algos.baselines.Method(solve, guaranteed)"
        check_kind(f"others[{name!r}]", method, Method, fix)
    return dict(others)


def table(found: Sequence[Comparison]) -> str:
    """Format records as a plain-text table, one line each."""
    rows = [("method", "objective", "upper bound", "violation", "guaranteed")]
    for r in found:
        numbers = f"{r.objective:.4f}", f"{r.upper_bound:.4f}", str(r.violation)
        rows.append((r.method, *numbers, "yes" if r.guaranteed else "no"))
    widths = [max(len(row[c]) for row in rows) for c in range(len(rows[0]))]
    lines = (
        "  ".join(
            v.rjust(w) if c else v.ljust(w) for c, (v, w) in enumerate(zip(r, widths, strict=True))
        )
        for r in rows
    )
    return "\n".join(lines)


def _greedy(scores: Array, bounds: SizeBounds) -> tuple[Array, Array]:
    xp = compat.array_namespace(scores)
    labels = xp.astype(xp.argmax(scores, axis=1), xp.int64)
    return labels, xp.zeros_like(bounds.lower_share)


def _online(scores: Array, bounds: SizeBounds) -> tuple[Array, Array]:
    labels, state = assign(scores, bounds)
    return labels, state.duals.lower - state.duals.upper


def _offline(scores: Array, bounds: SizeBounds) -> tuple[Array, Array]:
    found = assign_offline(scores, bounds)
    return found.labels, found.prices


def _exact(scores: Array, bounds: SizeBounds) -> tuple[Array, Array]:
    found = assign_exact(scores, bounds)
    return found.labels, found.prices


def _sinkhorn(scores: Array, bounds: SizeBounds) -> tuple[Array, Array]:
    options = SinkhornOptions(epsilon=0.01)
    found = sinkhorn(scores, shares=target_shares(bounds), options=options)
    return found.labels, found.prices


def _swav(scores: Array, bounds: SizeBounds) -> tuple[Array, Array]:
    found = sinkhorn(scores, shares=target_shares(bounds), options=SWAV)
    return found.labels, found.prices


def _entropy(scores: Array, bounds: SizeBounds) -> tuple[Array, Array]:
    found = assign_entropy(scores, published_rule(_known_length(bounds)))
    return found.labels, found.prices


def _sign(scores: Array, bounds: SizeBounds) -> tuple[Array, Array]:
    n = _known_length(bounds)
    rule = SignRule(step_size=1e-2, batch_size=max(1, min(1024, n // 10)))
    xp = compat.array_namespace(bounds.lower)
    low, high = (xp.astype(b, xp.float64) / n for b in (bounds.lower, bounds.upper))
    found = assign_sign_rule(scores, rule, shares=low, upper_shares=high, n_passes=10)
    return found.labels, found.bias


def _known_length(bounds: SizeBounds) -> int:
    check_bounds(bounds)
    if bounds.n_samples is None:
        msg = "bounds must be of a known number of samples, got those of a stream"
        raise InvalidValueError(msg)
    return bounds.n_samples


METHODS: Mapping[str, Method] = MappingProxyType(
    {
        "greedy": Method(_greedy, False),
        "online": Method(_online, True),
        "offline": Method(_offline, True),
        "exact": Method(_exact, True),
        "sinkhorn": Method(_sinkhorn, False),
        "swav": Method(_swav, False),
        "entropy": Method(_entropy, False),
        "sign": Method(_sign, False),
    }
)
"""The methods of the table above, with their default options."""
