r"""Labels of all rows from the slots of the free ones, and a proof of how good they are.

Problem: given slots among the candidates and prices pi, bound what any labels inside the bounds can
be worth more. The bound minus the objective is added up from terms that are never negative:

1. *Regret*: what each free row loses by its label, ``max_k (s_ik + pi_k) - (s_iy + pi_y)``, over
   its candidates and what truncation has left out. Fixed rows lose nothing inside the region.
2. *Slackness*: what each price pays for a bound that is not reached, ``pi_k (n_k - l_k)`` or
   ``-pi_k (u_k - n_k)``.

3. *Rounding*: prices that paths have left carry the rounding error of the largest price on the
   way. A loss below this error and below that of the objective counts as 0. Any other is rounded
   up.

Both terms are added up from differences, each rounded once (`core.error_free`). The difference of
the two values, in which everything else cancels, would be lost in the rounding of large scores or
prices. Weak duality holds for any prices, wherever they came from.

=====================  ===============  =======  =================================================
paper                  here             shape    meaning
=====================  ===============  =======  =================================================
:math:`\rho - \rho'`   ``prices``       (k,)     in units of score, float64
:math:`y_i`            ``labels``       (n,)     of this rank's rows
:math:`D(\pi)`         ``upper_bound``  ()       no labels inside the bounds are worth more
=====================  ===============  =======  =================================================
"""

from __future__ import annotations

import math
from itertools import accumulate
from typing import Any, NamedTuple, TypeVar

import array_api_compat as compat

from ...backends import kernel
from ..bounds.sizes import SizeBounds, implied_bounds
from ..core.error_free import sum_of_differences
from ..core.errors import InvalidValueError
from ..core.precision import times_power_of_two
from ..core.reads import read, unread
from ..core.segments import segment_counts
from ..core.types import Array
from ..core.workers import map_in_order
from ..scores.blocks import row_blocks
from ..scores.sources import largest_score
from ..scores.statistics import ScoresOutOfRangeError
from ._candidates import Candidates, row_slices, rows_at_once
from ._options import SolverOptions

__all__ = [
    "OfflineAssignment",
    "best_of",
    "in_unit",
    "proven",
    "regrets",
    "relative_gap",
    "rounding_of",
]

EPS, ROUNDINGS = 2.0**-52, 64.0
"""Spacing of float64 at 1, and by how many of them, relative to its terms, a sum may be off."""

Result = TypeVar("Result", bound=Any)  # OfflineAssignment, or what has its fields and more

SMALLEST = 2.0**-1074
"""Smallest positive float64: a gap that is not 0 stays above 0."""


class OfflineAssignment(NamedTuple):
    """Labels inside their bounds, and how far they can be from the best ones.

    Attributes
    ----------
    labels : (n,) int64 array
        Of this rank's rows.
    counts : (k,) int64 array
        Of all rows.
    prices : (k,) float64 array
        What `upper_bound` was proven with; a start for a similar problem.
    objective : float
        ``sum_i s_{i, y_i}``, in units of score; weighted if there are weights.
    upper_bound : float
        No labels inside the bounds have a larger objective.
    rounding : float
        By how much the additions can be off that led to either.
    violation : int
        Samples by which the worst cluster is outside its bounds: 0.
    gap : float
        What the best labels can be worth more, at most, relative to ``sum_i |s_{i, y_i}|``: the
        objective's absolute value, unless scores have both signs. Relative to the upper bound where
        that is larger. 0 for labels proven optimal, up to the rounding of the prices, which may
        hide 2^-46 of that sum, 1.4e-14, and no more. So an optimum of 0 has a gap of 0, and an
        objective near 0, because positive and negative scores cancel, one that means something.
    phase : str
        What has found the labels, by the lines of Algorithm 1 (docs/math/assignment.md): "ties",
        "few clusters", "candidates", "online passes", "all scores"; empty in a k-means state.
    """

    labels: Array
    counts: Array
    prices: Array
    objective: float
    upper_bound: float
    rounding: float
    violation: int
    gap: float
    phase: str = ""

    @property
    def status(self) -> str:
        """Proven: "optimal", or "within gap"."""
        return "optimal" if self.gap == 0.0 else "within gap"


def best_of(*found: OfflineAssignment | None) -> OfflineAssignment | None:
    """Return the labels of the smallest gap, the first of equals; None if there are none."""
    return min((one for one in found if one is not None), key=lambda one: one.gap, default=None)


@kernel
def regrets(values: Array, clusters: Array, prices: Array, slots: Array) -> Array:
    """Return what each row loses by its label at these prices, beside its best candidate.

    Parameters
    ----------
    values : (m, w) real array
        Scores of the candidates; minus infinity after the last one of a row.
    clusters : (m, w) int32 array
        The candidates; -1 after the last one, and at least one in each row.
    prices : (k,) float64 array
    slots : (m,) int64 array
        Place of the label among the candidates.

    Returns
    -------
    (m,) float64 array
        ``max_j (s_ij - s_iy) + (pi_j - pi_y)``, never negative. Each term is rounded once
        (`core.error_free`): prices that are large beside the scores hide nothing. O(1) each.

    Examples
    --------
    >>> import numpy as np
    >>> clusters = np.asarray([[2, 0], [1, -1]], dtype=np.int32)
    >>> values = np.asarray([[5.0, 4.0], [3.0, -np.inf]])
    >>> regrets(values, clusters, np.asarray([2.0, 0.5, 0.0]), np.asarray([0, 0]))
    array([1., 0.])
    """
    xp = compat.array_namespace(prices)
    is_candidate, names = clusters >= 0, xp.astype(xp.clip(clusters, min=0), xp.int64)
    price = xp.reshape(xp.take(prices, xp.reshape(names, (-1,))), names.shape)
    score, place = xp.astype(values, xp.float64), slots[:, None]
    own, own_price = (xp.take_along_axis(part, place, axis=1) for part in (score, price))
    score = xp.where(is_candidate, score, own)
    price = xp.where(is_candidate, price, own_price)
    return xp.max(sum_of_differences(score, own, price, own_price), axis=1)


class _Loss(NamedTuple):
    """What rows lose by their labels, and how many of them lose anything."""

    lost: float
    n_rows: int


def _regret_of(
    candidates: Candidates, rows: slice, slots: Array, prices: Array, *, whole: bool
) -> tuple[_Loss, _Loss]:
    """Add up what rows lose by their labels at these prices, once for each problem.

    For that of the candidates alone; and for the `whole` problem, where truncated clusters count.
    """
    xp = compat.array_namespace(prices)
    lists, slots = (candidates.values[rows, :], candidates.clusters[rows, :]), slots[rows]
    regret = regrets(*lists, prices, slots)
    found = [regret]
    if whole:
        score, cluster = (xp.take_along_axis(v, slots[:, None], axis=1)[:, 0] for v in lists)
        price = xp.take(prices, xp.astype(cluster, xp.int64))
        found.append(xp.maximum(regret, _beyond(candidates.truncation[rows], score, price)))
    losing = (xp.sum(xp.astype(one > 0.0, xp.int64)) for one in found)
    sums = read(*(xp.sum(one) for one in found), *losing)
    lost, n_rows = sums[: len(found)], sums[len(found) :]
    return _Loss(lost[0], int(n_rows[0])), _Loss(lost[-1], int(n_rows[-1]))


def _beyond(truncation: Array, score: Array, price: Array) -> Array:
    """What a truncated cluster can be worth more than the label, at most; 0 without one."""
    xp = compat.array_namespace(price)
    is_cut, zero = truncation > -math.inf, xp.zeros_like(price)
    worth = xp.where(is_cut, truncation, zero)
    worth = sum_of_differences(worth, xp.astype(score, xp.float64), zero, price)
    return xp.where(is_cut, worth, zero)


class _Part(NamedTuple):
    """Candidates chosen by some free rows, and what they are worth."""

    chosen: Array
    counts: Array
    objective: Array | float
    size: Array | float


def proven(
    candidates: Candidates,
    slots: Array,
    prices: Array,
    bounds: SizeBounds,
    scale: float,
    options: SolverOptions,
    *,
    or_zero: bool = False,
) -> tuple[OfflineAssignment, float]:
    """Return the labels of all rows, with objective and upper bound; and what their labels lose.

    The second is 0 unless the window of the paths was too small. Prices carry the rounding of
    numbers as large as `scale`, once for each row that loses something. It may be more than labels
    are worth; prices of 0 have none, and with `or_zero` they prove the bound where theirs is less.
    """
    xp, k = compat.array_namespace(prices), prices.shape[0]

    def of_part(rows: slice) -> _Part:
        slot = slots[rows][:, None]
        lists = candidates.values[rows, :], candidates.clusters[rows, :]
        value, chosen = (xp.take_along_axis(part, slot, axis=1)[:, 0] for part in lists)
        value, label = xp.astype(value, xp.float64), xp.astype(chosen, xp.int64)
        counts = segment_counts(label, n_segments=k)
        return _Part(chosen, counts, unread(xp.sum(value)), unread(xp.sum(xp.abs(value))))

    counts, chosen = candidates.fixed_counts, [candidates.clusters[:0, 0]]
    objective, size = candidates.fixed_value, candidates.fixed_size
    for part in map_in_order(of_part, row_slices(candidates, options), like=prices):
        chosen.append(part.chosen)
        counts = counts + part.counts
        objective, size = objective + part.objective, size + part.size
    outside = xp.max(xp.maximum(bounds.lower - counts, counts - bounds.upper))
    inside, *unread_facts = _inside(candidates, prices, counts, bounds)
    objective, size, outside, *facts = read(objective, size, outside, *unread_facts)

    def lost_at(inside: Array, prices: Array, scale: float, *facts: float) -> tuple[float, float]:
        loss, misplaced = _lost(candidates, slots, inside, prices, scale, options, *facts)
        if not math.isfinite(size + loss.lost):
            raise ScoresOutOfRangeError
        # Step 3: rounding explains a loss, up to that of the objective; else it is rounded up.
        is_explained = loss.lost <= rounding_of(min(scale * loss.n_rows, size))
        return 0.0 if is_explained else loss.lost + rounding_of(loss.lost), misplaced

    lost, misplaced = lost_at(inside, prices, scale, *facts)
    if lost > 0.0 and or_zero:
        zero = xp.zeros_like(prices)
        at_zero, *unread_facts = _inside(candidates, zero, counts, bounds)
        less, _ = lost_at(at_zero, zero, 0.0, *read(*unread_facts))
        if objective + less < objective + lost:
            lost, inside = less, at_zero
    assignment = OfflineAssignment(
        labels=_labels_of_all_rows(candidates, xp.concat(chosen), options),
        counts=counts,
        prices=inside,
        objective=objective,
        upper_bound=objective + lost,
        rounding=2.0 * rounding_of(size),
        violation=max(0, int(outside)),
        gap=relative_gap(lost, size, objective + lost),
        phase="candidates",
    )
    return assignment, misplaced


def _inside(
    candidates: Candidates, prices: Array, counts: Array, bounds: SizeBounds
) -> tuple[Array, Array, Array]:
    """Prices where the bound is valid; what they pay for bounds (step 2), and whether others do."""
    xp = compat.array_namespace(prices)
    inside = xp.clip(prices, candidates.low, candidates.high)
    return inside, _slackness(inside, counts, bounds), xp.any(inside != prices)


def _lost(
    candidates: Candidates,
    slots: Array,
    inside: Array,
    prices: Array,
    scale: float,
    options: SolverOptions,
    slack: float,
    is_outside: float,
) -> tuple[_Loss, float]:
    """Steps 1 and 2: what labels lose at prices inside the region, and at others but rounding."""

    def of_part(rows: slice) -> tuple[_Loss, float]:
        is_cut = _any_truncated(candidates, rows)
        alone, regret = _regret_of(candidates, rows, slots, inside, whole=is_cut)
        if is_outside:
            alone, _ = _regret_of(candidates, rows, slots, prices, whole=False)
        return regret, max(alone.lost - rounding_of(scale * alone.n_rows), 0.0)

    lost, n_terms, misplaced = 0.0, 0, 0.0
    for regret, more in map_in_order(of_part, row_slices(candidates, options), like=prices):
        lost, n_terms = lost + regret.lost, n_terms + regret.n_rows
        misplaced += more
    return _Loss(lost + slack, n_terms + (slack != 0.0)), misplaced


def _any_truncated(candidates: Candidates, rows: slice) -> bool:
    """Whether some of these rows have lost a candidate: without one, the whole says the same."""
    xp = compat.array_namespace(candidates.truncation)
    return bool(xp.any(candidates.is_truncated[rows]))


def _slackness(prices: Array, counts: Array, bounds: SizeBounds) -> Array:
    """What prices pay for bounds that are not reached, without axes."""
    xp = compat.array_namespace(prices)
    low, high = implied_bounds(bounds)
    missed = xp.where(prices > 0.0, counts - low, high - counts)
    missed = xp.astype(xp.where(prices == 0.0, xp.zeros_like(missed), missed), xp.float64)
    return xp.sum(xp.abs(prices) * missed)


def _labels_of_all_rows(candidates: Candidates, chosen: Array, options: SolverOptions) -> Array:
    """Labels of this rank's rows: fixed ones as they were, free ones as chosen."""
    xp, last = compat.array_namespace(chosen), chosen.shape[0] - 1
    if last < 0:
        return xp.astype(candidates.labels, xp.int64)
    edges = list(row_blocks(candidates.labels.shape[0], rows_at_once(chosen, options)))
    n_free = (xp.sum(xp.astype(candidates.is_free[a:b], xp.int64)) for a, b in edges)
    places = accumulate(n_free, initial=candidates.first_free)  # of the first free row of a part

    def of_part(part: tuple[tuple[int, int], Array | int]) -> Array:
        (start, stop), first = part
        is_free = candidates.is_free[start:stop]
        place = xp.cumulative_sum(xp.astype(is_free, xp.int64)) + (first - 1)
        label = xp.take(chosen, xp.clip(place, 0, last))
        label = xp.where(is_free, label, candidates.labels[start:stop])
        return xp.astype(label, xp.int64)

    none = xp.astype(candidates.labels[:0], xp.int64)
    parts = list(zip(edges, places, strict=False))  # the last place is that after all rows
    return xp.concat([none, *map_in_order(of_part, parts, like=chosen)])


def relative_gap(lost: float, size: float, upper_bound: float) -> float:
    """Return the gap of labels that lack `lost` at most; `size` is ``sum_i |s_{i, y_i}|``.

    The best labels and these differ by no more than both are worth: a gap above 2 says nothing, and
    rounding alone can be infinitely many times a bound of 0.

    Examples
    --------
    >>> [relative_gap(lost, 2.0, -4.0) for lost in (-1.0, 0.0, 5e-324, 1.0, 9.0)]
    [0.0, 0.0, 5e-324, 0.25, 2.0]
    >>> relative_gap(1.0, 0.0, 0.0)
    2.0
    """
    if not lost > 0.0:
        return 0.0
    largest = max(size, abs(upper_bound))
    return 2.0 if lost >= 2.0 * largest else max(lost / largest, SMALLEST)


def in_unit(found: Result, exponent: int, coarsest: int = -1074) -> Result:
    """Return a result for scores ``2**exponent`` times those solved, once in ``2**coarsest``.

    Raises
    ------
    InvalidValueError
        If the objective, the bound or a price does not fit into float64.
    """
    coarsest = max(coarsest, exponent)
    if exponent == coarsest == 0:
        return found
    counts = found.counts
    # A score far below the largest has lost digits in its unit: one in each row.
    lost = SMALLEST * float(compat.array_namespace(counts).sum(counts))
    names, values = ("prices", "group_prices"), (found.objective, found.upper_bound, found.rounding)
    prices = {name: getattr(found, name) for name in names if hasattr(found, name)}
    what = "a sum"
    try:
        objective, upper_bound, rounding = (math.ldexp(v, exponent) for v in values)
        rounding += math.ldexp(lost, coarsest)
        what = "prices"
        math.ldexp(max(map(largest_score, prices.values())), exponent)
    except OverflowError:
        msg = (
            f"scores must have {what} that float64 holds, got one of more than 1e308. To fix this, "
            "divide all scores, or all weights, by the same number: the labels stay the same"
        )
        raise InvalidValueError(msg) from None
    moved: Result = found._replace(
        **{name: times_power_of_two(each, exponent) for name, each in prices.items()},
        objective=objective,
        upper_bound=upper_bound,
        rounding=rounding + SMALLEST,
    )
    return moved


def rounding_of(size: float) -> float:
    """Return what sums can be off by, for terms of absolute values that add up to `size`."""
    return ROUNDINGS * EPS * size
