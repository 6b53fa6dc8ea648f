r"""Certificates of an online assignment, from its duals and its labels.

*Sizes.* A dual rises by ``h (m gamma / N - c_k)`` per step, and clipping at 0 can only raise it
further. Adding up gives, for any part of a pass, any order, any batch size and any rule that chose
the labels,

``n_k >= m gamma_k / N  - (rho_k^end  - rho_k^start)  / h``
``n_k <= m gamma'_k / N + (rho'_k^end - rho'_k^start) / h``

so bounded duals mean small violations. (The inequalities are exact. The projection of CoKe's
Theorem 1 destroys them.)

*Value.* For any prices ``pi = rho - rho'``, of either sign, weak duality gives

``OPT <= D(pi) = sum_i max_k (s_ik + pi_k) - sum_k max(pi_k, 0) l_k + sum_k max(-pi_k, 0) u_k``

because an assignment inside the bounds has ``sum_k pi_k n_k >= sum_k pi+_k l_k - pi-_k u_k``. The
gap between D and what was achieved bounds how far the labels are from the best ones.

=========================  ==========================  =======  ==============================
paper                      here                        shape    meaning
=========================  ==========================  =======  ==============================
:math:`\mathcal{V}(\mu)`   `violation`                 ()       largest count outside a bound
:math:`\rho - \rho'`       ``prices``                  (k,)     in units of score
=========================  ==========================  =======  ==============================
"""

from __future__ import annotations

import math
import sys
from fractions import Fraction
from typing import NamedTuple

import array_api_compat as compat

from ..bounds.sizes import SizeBounds, check_bounds, implied_bounds
from ..core.checks import (
    check_integral,
    check_kind,
    check_labels,
    check_real,
    check_same_place,
    check_shape,
    check_values,
)
from ..core.error_free import sum_rounded_up, two_sum
from ..core.errors import InvalidValueError
from ..core.reads import entries
from ..core.types import Array
from .assignment import AssignmentState

__all__ = [
    "SizeCertificate",
    "dual_value",
    "margins",
    "objective",
    "size_certificate",
    "violation",
]


class SizeCertificate(NamedTuple):
    """Proven bounds on the counts of a pass: ``at_least <= counts <= at_most``, (k,) float64."""

    at_least: Array
    at_most: Array


def size_certificate(state: AssignmentState, bounds: SizeBounds) -> SizeCertificate:
    """Return the bounds on cluster sizes that the duals alone prove, at any time of a pass.

    Parameters
    ----------
    state : AssignmentState
        After any number of samples, at least one.
    bounds : SizeBounds
        The bounds of the assignment.

    Returns
    -------
    SizeCertificate
        Both sides allow for the rounding of the additions in the duals. A dual of free sign is
        never clipped, so it gives the count itself, and both sides agree.

    Raises
    ------
    InvalidValueError
        Before the first sample of a pass, and after steps that leave no certificate: with the l1
        projection, divided by the batch length, or of different sizes in one pass.

    Notes
    -----
    Claims: docs/claims.md#R1, #T2.

    Examples
    --------
    >>> import numpy as np
    >>> from dualclust.algos.online.assignment import assign
    >>> from dualclust.algos.bounds.sizes import SizeBounds
    >>> bounds = SizeBounds.from_ratios(2, n_samples=4, lower=0.5)
    >>> labels, state = assign(np.asarray([[1.0, 0.0]] * 4), bounds)
    >>> bool(np.all(size_certificate(state, bounds).at_least <= state.counts))
    True
    """
    check_kind("state", state, AssignmentState, "take the one that assign returns")
    check_bounds(bounds)
    h = state.step_size
    if h is None or math.isnan(h):
        why = (
            "before its first sample"
            if h is None
            else "after a projection, steps divided by the batch length, or mixed steps"
        )
        msg = (
            f"state must come from one pass with one step size: there is no certificate {why}. "
            f"To fix this, use measured_steps, the same for the whole pass"
        )
        raise InvalidValueError(msg)
    xp = compat.array_namespace(state.counts)
    check_same_place(state=state.counts, bounds=bounds.lower)
    (rho, rho_up), (rho_0, rho_up_0) = state.duals, state.start
    slack = _rounding(state, h)
    at_least = state.seen * bounds.lower_share - (rho - rho_0) / h
    at_most = state.seen * bounds.upper_share + (rho_up - rho_up_0) / h
    if state.free_sign:
        return SizeCertificate(at_least - slack, at_least + slack)
    return SizeCertificate(xp.clip(at_least - slack, min=0.0), at_most + slack)


def _rounding(state: AssignmentState, h: float) -> Array:
    """Bound the accumulated rounding, in samples: at most `seen` updates of four operations.

    A dual starts at rho_0 and rises by at most h per sample, so it never exceeds rho_0 + h seen.
    """
    xp = compat.array_namespace(state.counts)
    start = xp.maximum(xp.abs(state.start.lower), xp.abs(state.start.upper))
    eps: float = xp.finfo(xp.float64).eps
    return 4.0 * eps * (state.seen + 1) * (1.0 + start / h + state.seen)


def violation(counts: Array, bounds: SizeBounds) -> int:
    """Return the largest number of samples by which a cluster lies outside its bounds, or 0.

    Parameters
    ----------
    counts : (k,) int64 array
    bounds : SizeBounds of a known number of samples

    Returns
    -------
    int

    Notes
    -----
    Source: CoKe section 3.2.1 for lower bounds; here for both bounds.
    """
    check_bounds(bounds)
    if bounds.n_samples is None:
        msg = (
            "bounds must be of a known number of samples, got those of a stream"
            ". To fix this, give n_samples to the bounds"
        )
        raise InvalidValueError(msg)
    xp = check_integral("counts", counts)
    check_same_place(counts=counts, bounds=bounds.lower)
    check_labels("counts", counts, bounds.n_clusters, sys.maxsize)
    outside = xp.maximum(bounds.lower - counts, counts - bounds.upper)
    return max(0, int(xp.max(outside)))


def objective(scores: Array, labels: Array) -> float:
    """Return the value of an assignment, ``sum_i s_{i, y_i}``, summed in float64.

    Parameters
    ----------
    scores : (n, k) real array
    labels : (n,) int64 array

    Returns
    -------
    float, in units of score

    Notes
    -----
    Claims: docs/claims.md#R6.
    """
    xp = check_real("scores", scores)
    check_values("scores", scores)
    n, k = check_shape("scores", scores, ("n", "k"))
    check_same_place(scores=scores, labels=labels)
    check_labels("labels", labels, n, k)
    chosen = xp.take_along_axis(scores, xp.astype(labels, xp.int64)[:, None], axis=1)
    return float(xp.sum(xp.astype(chosen, xp.float64)))


def dual_value(scores: Array, prices: Array, bounds: SizeBounds) -> float:
    """Return an upper bound on the value of every assignment inside the bounds, from any prices.

    ``D(pi) = sum_i max_k (s_ik + pi_k) - sum_k pi+_k l_k + sum_k pi-_k u_k >= OPT``.

    Parameters
    ----------
    scores : (n, k) real array, finite
        All samples of a pass: n = ``bounds.n_samples``.
    prices : (k,) float64 array
        rho - rho' of `Duals`, or any other prices; better prices give a tighter bound.
    bounds : SizeBounds

    Returns
    -------
    float, in units of score
        Of these numbers, without an error but that of rounding up once: no labels inside the bounds
        are worth more, whatever the prices are. Infinity where it is beyond float64.

    Raises
    ------
    InvalidValueError
        If n is not ``bounds.n_samples``.

    Notes
    -----
    Cost O(n k), in blocks of rows. Source: weak duality of CoKe Eq. 6 with both bounds.
    Claims: docs/claims.md#S5, #C3, #R6, #T2.

    Examples
    --------
    >>> import numpy as np
    >>> from dualclust.algos.bounds.sizes import SizeBounds
    >>> scores = np.asarray([[1.0, 0.0], [1.0, 0.5]])  # best inside the bounds: 1.5
    >>> bounds = SizeBounds.from_counts([1, 1], n_samples=2)
    >>> dual_value(scores, np.asarray([0.0, 0.0]), bounds)
    2.0
    >>> dual_value(scores, np.asarray([0.0, 0.5]), bounds)
    1.5
    """
    xp = check_real("scores", scores)
    check_bounds(bounds)
    check_same_place(scores=scores, prices=prices, bounds=bounds.lower)
    check_real("prices", prices)
    check_values("scores", scores)
    n, k = check_shape("scores", scores, (bounds.n_samples or "n", bounds.n_clusters))
    check_shape("prices", prices, (k,))
    if bounds.n_samples is None:
        msg = (
            "bounds must be of a known number of samples, got those of a stream"
            ". To fix this, give n_samples to the bounds"
        )
        raise InvalidValueError(msg)
    try:
        terms = _price_terms(prices, bounds)
    except OverflowError:
        return math.inf
    rows = max(1, 2**22 // k)  # 32 MiB of float64 at a time
    for i in range(0, n, rows):
        score = xp.astype(scores[i : min(i + rows, n), :], xp.float64)
        is_finite, zero = xp.isfinite(score), xp.zeros_like(score)
        priced, error = two_sum(xp.where(is_finite, score, zero), prices)
        priced = xp.where(is_finite, priced, score)
        best = xp.max(priced, axis=1)
        # Rounding keeps the order: the best sum is among those that are rounded to the largest.
        is_best = (priced == best[:, None]) & is_finite
        error = xp.max(xp.where(is_best, error, xp.full_like(error, -math.inf)), axis=1)
        error = xp.where(xp.isfinite(error), error, zero[:, 0])
        terms += entries("best", best) + entries("error", error)
    return sum_rounded_up(terms)


def _price_terms(prices: Array, bounds: SizeBounds) -> list[float]:
    """``- sum_k pi+_k l_k + sum_k pi-_k u_k``, in floats that add up to it without an error."""
    low, high = (entries("bounds", bound) for bound in implied_bounds(bounds))
    terms = []
    for price, least, most in zip(entries("prices", prices), low, high, strict=True):
        if price == 0.0:
            continue
        exact = Fraction(price) * -(int(least) if price > 0.0 else int(most))
        terms.append(float(exact))
        terms.append(float(exact - Fraction(terms[-1])))
    return terms


def margins(scores: Array, prices: Array) -> Array:
    """Return the margin of each label: priced score of the best cluster minus that of the second.

    Parameters
    ----------
    scores : (n, k) real array
    prices : (k,) float64 array

    Returns
    -------
    (n,) float64 array, in units of score
        Infinite for a single cluster. For optimal prices, a margin is the loss of the objective if
        the sample takes its second choice and everything else stays.

    Examples
    --------
    >>> import numpy as np
    >>> margins(np.asarray([[0.75, 0.5], [0.5, 0.5]]), np.asarray([0.0, 0.125]))
    array([0.125, 0.125])
    """
    xp = check_real("scores", scores)
    n, k = check_shape("scores", scores, ("n", "k"))
    check_shape("prices", prices, (k,))
    check_same_place(scores=scores, prices=prices)
    check_real("prices", prices)
    clusters = xp.arange(k, dtype=xp.int64, device=compat.device(scores))
    parts = [xp.zeros((0,), dtype=xp.float64, device=compat.device(scores))]
    rows = max(1, 2**22 // k)
    for i in range(0, n, rows):
        priced = xp.astype(scores[i : min(i + rows, n), :], xp.float64) + prices
        first = xp.astype(xp.argmax(priced, axis=1), xp.int64)
        others = xp.where(clusters == first[:, None], xp.full_like(priced, -math.inf), priced)
        parts.append(xp.max(priced, axis=1) - xp.max(others, axis=1))
    return xp.concat(parts)
