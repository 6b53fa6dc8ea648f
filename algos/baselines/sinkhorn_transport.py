r"""Soft assignment with prescribed cluster sizes: entropic optimal transport, in the log domain.

Problem (SeLa; SwAV section 3.1): over soft labels ``Q >= 0`` whose rows sum to 1,

maximize ``sum_ij Q_ij s_ij + epsilon H(Q)``   subject to   ``sum_i Q_ij = n r_j``,

with ``H(Q) = -sum_ij Q_ij log Q_ij``. The solution is a softmax under prices,

``Q_ij = exp((s_ij + pi_j - v_i) / epsilon)``,
``v_i = epsilon log sum_j exp((s_ij + pi_j) / epsilon)``

and Sinkhorn's iteration finds the prices by correcting the column sums again and again:

``pi_j <- pi_j + epsilon log(n r_j / sum_i Q_ij)``.

It is exact block ascent on the dual, so the prices also serve the hard problem: for bounds
``n_j = n r_j``, their `certificates.dual_value` is an upper bound after any number of iterations,
and at convergence at most ``epsilon n log k`` above the optimum. But the iteration guarantees no
sizes: the *soft* columns sum to ``n r_j``, the counts of the largest entries do not.

==================================  =====================  =======  ==============================
papers                              here                   shape    meaning
==================================  =====================  =======  ==============================
:math:`Z^\top C`; log p             ``scores``             (n, k)   to maximize
:math:`\varepsilon`; 1 / lambda     ``epsilon``            ()       temperature, in units of score
:math:`\mathbf{1}/K`; r             ``shares``             (k,)     target shares of the samples
``epsilon log u``                   ``prices``             (k,)     pi, in units of score, float64
Q n                                 `soft_plan`            (n, k)   rows sum to 1
==================================  =====================  =======  ==============================

SwAV's code normalizes the columns of ``exp(s / epsilon)`` before any row, and stops after three
rounds: `SWAV`. In the log domain nothing overflows, however small epsilon is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import array_api_compat as compat
import array_api_extra as xpx

from ..core.checks import (
    check_count,
    check_finite,
    check_interval,
    check_kind,
    check_real,
    check_same_place,
    check_shape,
    check_values,
)
from ..core.errors import InvalidValueError
from ..core.precision import at_least_float32
from ..core.types import Array, Namespace

__all__ = ["SWAV", "Sinkhorn", "SinkhornOptions", "sinkhorn", "soft_plan"]

BLOCK_ENTRIES = 2**17  # scores held in float64 at a time: 1 MiB, which stays in the cache
NOTHING = -800.0  # its exponential is 0
SMALLEST = 1e-300  # below this, epsilon times a logarithm has no digits
LARGEST = 1e300  # differences of scores up to this size do not overflow


@dataclass(frozen=True, slots=True)
class SinkhornOptions:
    """Temperature, stopping rule and order of the iteration.

    Parameters
    ----------
    epsilon : float in [1e-300, 1e300]
        Temperature, in units of score. A smaller one comes nearer to the hard optimum, but needs
        more iterations: start from the prices of a larger one.
    max_iter : int >= 1
    tol : float >= 0
        Stop once `Sinkhorn.residual` is no larger. At 0, all `max_iter` iterations run, and only
        values of `shares` are read back from the device, as a training step requires.
    columns_first : bool
        Whether a start without prices normalizes the columns of ``exp(s / epsilon)`` before the
        rows, as SwAV does.
    """

    epsilon: float = 0.05
    max_iter: int = 1000
    tol: float = 1e-6
    columns_first: bool = False

    def __post_init__(self) -> None:
        check_interval("epsilon", self.epsilon, SMALLEST, LARGEST)
        check_count("max_iter", self.max_iter, 1)
        check_interval("tol", self.tol, 0.0, math.inf)


SWAV = SinkhornOptions(epsilon=0.05, max_iter=3, tol=0.0, columns_first=True)
"""SwAV's setting: three rounds, columns before rows, epsilon 0.05."""


class Sinkhorn(NamedTuple):
    """Prices for the target sizes, and the resulting labels.

    Attributes
    ----------
    prices : (k,) float64 array
        In units of score; `soft_plan` turns them into soft labels, later calls can start from them.
    labels : (n,) int64 array
        Largest entry of each row of the plan; ties go to the lowest index.
    residual : () float64 array
        ``sum_j |sum_i Q_ij - n r_j| / n`` of these prices, from 0 to 2.
    n_iter : int
        Number of column updates.
    """

    prices: Array
    labels: Array
    residual: Array
    n_iter: int


def sinkhorn(
    scores: Array,
    *,
    shares: Array | None = None,
    options: SinkhornOptions | None = None,
    prices: Array | None = None,
) -> Sinkhorn:
    """Find prices under which soft clusters get their target sizes, by Sinkhorn's iteration.

    Parameters
    ----------
    scores : (n, k) real array
        Finite, n and k at least 1; a torch tensor must be detached. Any precision: computed in
        float64, a block of rows at a time.
    shares : (k,) real array, optional
        Target shares r, positive; they are divided by their sum. Uniform by default.
    options : SinkhornOptions, optional
    prices : (k,) float64 array, optional
        Prices to start from, those of a similar problem or of a larger epsilon. Zeros by default.

    Returns
    -------
    Sinkhorn

    Raises
    ------
    InvalidValueError
        For a shape that is not (n, k), no row or no column, or an option out of its range. If
        ``options.tol > 0``, also for an entry that is not finite (otherwise no value is read back).
    InvalidTypeError
        For a dtype that is not real floating.
    DeviceMismatchError
        For `shares` or `prices` on another device or of another library.

    Notes
    -----
    Guarantee: none on counts. ``dual_value`` of the prices bounds every assignment inside the
    bounds; see the module. Scores beyond 1e300 count as 1e300.
    Cost: O(n k) per iteration, two exponentials per entry; O(k) memory beyond the labels and one
    block, for any n.
    Source: SwAV (Caron et al. 2020) section 3.1; SeLa (Asano et al. 2020) Eq. 7 and 8; Cuturi
    (2013). With all prices 0 the labels are greedy (claim S7).
    Claims: docs/claims.md#S7.

    Examples
    --------
    Both samples prefer cluster 0; the one that prefers it less goes.

    >>> import numpy as np
    >>> scores = np.asarray([[0.9, 0.1], [0.8, 0.6]])
    >>> found = sinkhorn(scores)
    >>> found.labels, bool(found.residual < 1e-6)
    (array([0, 1]), True)
    >>> soft_plan(scores, found.prices, epsilon=0.05).round(3)
    array([[0.998, 0.002],
           [0.002, 0.998]])
    """
    xp, n, k = _check(scores)
    options = SinkhornOptions() if options is None else options
    check_kind(
        "options", options, SinkhornOptions, "pass dualclust.algos.baselines.SinkhornOptions(...)"
    )
    if options.tol > 0:
        check_finite("scores", scores)
    check_same_place(scores=scores, shares=shares, prices=prices)
    device = compat.device(scores)
    r = xp.ones((k,), dtype=xp.float64, device=device)
    if shares is not None:
        check_real("shares", shares)
        check_shape("shares", shares, (k,))
        check_values("shares", shares)
        r = xp.astype(shares, xp.float64)
        if not bool(xp.all(xp.isfinite(r) & (r > 0))):
            msg = (
                "shares must be positive and finite. "
                "To fix this, leave out the columns of clusters that take no sample"
            )
            raise InvalidValueError(msg)
    r = r / xp.max(r)  # their sum could overflow
    r = r / xp.sum(r)
    epsilon, n_iter = options.epsilon, 0
    target = epsilon * (xp.log(r) + math.log(n))
    if prices is not None:
        check_real("prices", prices)
        check_shape("prices", prices, (k,))
        if options.tol > 0:
            check_finite("prices", prices)
        pi = xp.astype(prices, xp.float64)
    else:
        pi = xp.zeros((k,), dtype=xp.float64, device=device)
        if options.columns_first:
            pi = target - _column_mass(scores, pi, epsilon, normalized=False)
            n_iter = 1
    while True:
        mass = _column_mass(scores, pi, epsilon)
        residual = xp.sum(xp.abs(_exp(mass, epsilon) / n - r))
        if n_iter == options.max_iter or (options.tol > 0 and float(residual) <= options.tol):
            break
        pi = pi + (target - mass)
        n_iter += 1
    labels = [xp.argmax(block + pi, axis=1) for block in _blocks(xp, scores)]
    return Sinkhorn(pi, xp.astype(xp.concat(labels), xp.int64), residual, n_iter)


def soft_plan(scores: Array, prices: Array, *, epsilon: float) -> Array:
    """Return soft labels under prices, ``Q_ij = softmax_j((s_ij + pi_j) / epsilon)``.

    Parameters
    ----------
    scores : (n, k) real array
    prices : (k,) float64 array
        From `sinkhorn`.
    epsilon : float > 0
        The temperature of the prices.

    Returns
    -------
    (n, k) array
        Rows sum to 1; the dtype of `scores`, but at least float32. For a moment, a block is in
        memory in addition to the whole plan.

    Examples
    --------
    >>> import numpy as np
    >>> soft_plan(np.asarray([[1e308, 0.0]]), np.asarray([0.0, 0.0]), epsilon=1e-3)
    array([[1., 0.]])
    """
    xp, _, k = _check(scores)
    check_same_place(scores=scores, prices=prices)
    check_real("prices", prices)
    check_shape("prices", prices, (k,))
    check_interval("epsilon", epsilon, SMALLEST, LARGEST)
    dtype = at_least_float32(scores[:0, :]).dtype
    plan, first = xp.empty(scores.shape, dtype=dtype, device=compat.device(scores)), 0
    for block in _blocks(xp, scores):
        stop = first + block.shape[0]
        rows = xp.astype(_exp(_log_plan(xp, block + prices, epsilon), epsilon), dtype)
        plan, first = xpx.at(plan)[first:stop, :].set(rows), stop  # no second plan in memory
    return plan


def _column_mass(scores: Array, pi: Array, epsilon: float, *, normalized: bool = True) -> Array:
    """Return ``epsilon log sum_i Q_ij``, (k,), in units of score, where a small epsilon is safe.

    Unless `normalized`, Q is ``exp((s + pi) / epsilon)``, and rows are not normalized.
    """
    xp = compat.array_namespace(scores)
    top = xp.full((scores.shape[1],), -math.inf, dtype=xp.float64, device=compat.device(scores))
    total = xp.zeros_like(top)
    for block in _blocks(xp, scores):
        terms = _log_plan(xp, block + pi, epsilon) if normalized else block + pi
        higher = xp.maximum(top, xp.max(terms, axis=0))
        total = total * _exp(top - higher, epsilon)
        total = total + xp.sum(_exp(terms - higher, epsilon), axis=0)
        top = higher
    return top + epsilon * xp.log(total)


def _log_plan(xp: Namespace, priced: Array, epsilon: float) -> Array:
    """Return ``epsilon log Q`` of a block of rows; at most 0."""
    below = priced - xp.max(priced, axis=1, keepdims=True)
    spread = epsilon * xp.log(xp.sum(_exp(below, epsilon), axis=1, keepdims=True))
    # Not priced - v: for large scores, the spread would vanish in the rounding of v.
    return below - spread


def _exp(x: Array, epsilon: float) -> Array:
    """Return ``exp(x / epsilon)`` for x <= 0 or about 0; the division does not overflow."""
    xp = compat.array_namespace(x)
    return xp.exp(xp.clip(x, min=NOTHING * epsilon) / epsilon)


def _blocks(xp: Namespace, scores: Array) -> Iterator[Array]:
    n, k = scores.shape
    rows = max(1, BLOCK_ENTRIES // k)
    for first in range(0, n, rows):
        block = xp.astype(scores[first : min(first + rows, n), :], xp.float64)
        wide = xp.finfo(scores.dtype).bits > 32
        yield xp.clip(block, min=-LARGEST, max=LARGEST) if wide else block


def _check(scores: Array) -> tuple[Namespace, int, int]:
    xp = check_real("scores", scores)
    n, k = check_shape("scores", scores, ("n", "k"))
    if n == 0 or k == 0:
        msg = (
            f"scores must have at least one row and one column, got shape {(n, k)}"
            ". To fix this, pass at least one"
        )
        raise InvalidValueError(msg)
    return xp, n, k
