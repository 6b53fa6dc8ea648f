r"""Labels of all rows from the slots of the free ones, and a proof of how good they are.

Problem: given slots among the candidates and prices pi, bound what any labels inside the bounds can
be worth more. The bound minus the objective is added up from terms that are never negative:

1. *Regret*: what each free row loses by its label, ``max_k (s_ik + pi_k) - (s_iy + pi_y)``, over
   its candidates and what truncation has left out. Fixed rows lose nothing inside the region.
2. *Slackness*: what each price pays for a bound that is not reached, ``pi_k (n_k - l_k)`` or
   ``-pi_k (u_k - n_k)``.

Scores are counted from each row's first candidate. The difference of the two values, in which
everything else cancels, would be lost in the rounding of large scores. What rounding alone explains
of the sum is not counted: weak duality holds for these prices, wherever they came from, so numbers
on their way explain no more than scores and prices of the labels themselves do.

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
from typing import NamedTuple

import array_api_compat as compat

from ...backends import kernel
from ..bounds.sizes import SizeBounds, implied_bounds
from ..core.errors import InvalidValueError
from ..core.reads import read, unread
from ..core.segments import segment_sum
from ..core.types import Array
from ..core.workers import map_in_order
from ..scores.blocks import row_blocks
from ..scores.sources import ScoreSource, largest_score, times_power_of_two
from ..scores.statistics import ScoresOutOfRangeError
from ._candidates import Candidates, row_slices
from ._options import SolverOptions

__all__ = [
    "OfflineAssignment",
    "Problem",
    "best_priced",
    "in_unit",
    "proven",
    "relative_gap",
    "rounding_of",
]

EPS, ROUNDINGS = 2.0**-52, 64.0
"""Spacing of float64 at 1, and by how many of them, relative to its terms, a sum may be off."""

SMALLEST = 2.0**-1074
"""Smallest positive float64: a gap that is not 0 stays above 0."""


class Problem(NamedTuple):
    """What is to be solved; scores and prices are in the unit of the source.

    Attributes
    ----------
    source : ScoreSource
    bounds : SizeBounds
        Of all rows of all ranks.
    tol : float
        Relative gap to prove; 0 for the optimum.
    options : SolverOptions
    reach : (k,) float64 array, or None
        About how far the best prices can be from those given; None where that is not known.
    """

    source: ScoreSource
    bounds: SizeBounds
    tol: float
    options: SolverOptions
    reach: Array | None = None

    @property
    def is_exact(self) -> bool:
        """Whether the optimum is asked for, whatever memory it takes."""
        return self.tol == 0.0

    @property
    def is_cut(self) -> bool:
        """Whether memory cuts the trust region from the start."""
        n, options = self.source.group.n_total, self.options
        return not self.is_exact and n * options.pass_width > options.max_entries

    def most_passes(self, *, is_limited: bool) -> int:
        """Return how many passes there are at most: fewer in a region that shrinks.

        Unless the optimum is asked for, or what they leave is ended by all scores.
        """
        options = self.options
        may_end_full = self.is_exact or self.n_scores <= options.last_entries
        if may_end_full or not is_limited:
            return options.max_passes
        return min(options.max_passes, options.max_limited_passes)

    @property
    def n_scores(self) -> int:
        """Scores of all ranks."""
        return self.source.group.n_total * self.source.n_clusters


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
        that is larger. 0 for labels proven optimal, up to the rounding in comparing the clusters of
        a row. So an optimum of 0 has a gap of 0, and an objective near 0, because positive and
        negative scores cancel, one that means something.
    """

    labels: Array
    counts: Array
    prices: Array
    objective: float
    upper_bound: float
    rounding: float
    violation: int
    gap: float

    @property
    def status(self) -> str:
        """Proven: "optimal", or "within gap"."""
        return "optimal" if self.gap == 0.0 else "within gap"


@kernel
def best_priced(values: Array, clusters: Array, prices: Array) -> Array:
    """Return what the best candidate of each row is worth, counted from the score of the first.

    Parameters
    ----------
    values : (m, w) real array
        Scores of the candidates; minus infinity after the last one of a row.
    clusters : (m, w) int32 array
        The candidates; -1 after the last one, and at least one in each row.
    prices : (k,) float64 array

    Returns
    -------
    (m,) float64 array
        ``max_j (s_ij - s_i0) + pi_j``.

    Notes
    -----
    Cost: O(1) for each candidate.

    Examples
    --------
    >>> import numpy as np
    >>> clusters = np.asarray([[2, 0], [1, -1]], dtype=np.int32)
    >>> values = np.asarray([[5.0, 4.0], [3.0, -np.inf]])
    >>> best_priced(values, clusters, np.asarray([2.0, 0.5, 0.0]))
    array([1. , 0.5])
    """
    return compat.array_namespace(prices).max(_priced(values, clusters, prices), axis=1)


def _priced(values: Array, clusters: Array, prices: Array, *, sizes: bool = False) -> Array:
    """Scores plus prices, counted from the first candidate; or the sizes of the terms."""
    xp = compat.array_namespace(prices)
    clusters = xp.astype(xp.clip(clusters, min=0), xp.int64)
    price = xp.reshape(xp.take(prices, xp.reshape(clusters, (-1,))), clusters.shape)
    values = xp.astype(values, xp.float64)
    values = values - values[:, :1]
    return xp.abs(values) + xp.abs(price) if sizes else values + price


def _regrets(
    candidates: Candidates,
    rows: slice,
    chosen: tuple[Array, Array],
    prices: Array,
    scale: float,
    *,
    whole: bool,
) -> tuple[float, float]:
    """What rows lose by their labels at these prices, and what rounding explains of that.

    `chosen` are the scores of the labels, float64, and the labels. Of the `whole` problem, where
    truncated clusters count, or beside the candidates alone. Prices carry the rounding of `scale`,
    which explains no more than scores and prices of the labels do.
    """
    xp = compat.array_namespace(prices)
    lists, (score, cluster) = (candidates.values[rows, :], candidates.clusters[rows, :]), chosen
    price = xp.take(prices, cluster)
    first = xp.astype(candidates.values[rows, 0], xp.float64)
    label = score - first + price
    regret = best_priced(*lists, prices) - label
    if whole:
        beyond = candidates.truncation[rows] - first
        regret = xp.maximum(regret, beyond - label)
    is_lost = xp.astype(regret > 0.0, xp.int8)
    size = xp.sum(xp.abs(score) + xp.abs(price))
    lost, n_lost, size = read(xp.sum(regret), xp.sum(xp.astype(is_lost, xp.int64)), size)
    if lost == 0.0:
        return 0.0, 0.0
    # Few rows lose anything: only they are looked at again.
    some = xp.argsort(is_lost, descending=True, stable=True)[: int(n_lost)]
    scores, clusters = (xp.take(part, some, axis=0) for part in lists)
    values, label = _priced(scores, clusters, prices), xp.take(label, some)
    sizes = _priced(scores, clusters, prices, sizes=True)
    # Only clusters that look better than the label can have been rounded up.
    zero = xp.zeros_like(values)
    most = xp.max(xp.where(values >= label[:, None], sizes, zero), axis=1)
    if whole:
        truncation = xp.take(candidates.truncation[rows], some)
        over = xp.take(beyond, some) > label
        most = xp.maximum(most, xp.where(over, xp.abs(truncation), zero[:, 0]))
    return lost, rounding_of(float(xp.sum(most)) + min(scale * n_lost, size))


class _Part(NamedTuple):
    """Candidates chosen by some free rows, what they are worth, and what they lose.

    `misplaced` is what the candidates alone say that they lose.
    """

    chosen: Array
    counts: Array
    objective: Array | float
    size: Array | float
    lost: float
    explained: float
    misplaced: float


def proven(
    candidates: Candidates,
    slots: Array,
    prices: Array,
    bounds: SizeBounds,
    scale: float,
    options: SolverOptions,
) -> tuple[OfflineAssignment, float]:
    """Return the labels of all rows, with objective and upper bound; and what their labels lose.

    The second is 0 unless the window of the paths was too small. Prices carry the rounding of
    numbers as large as `scale`, which explains no more than `rounding` does.
    """
    xp, k = compat.array_namespace(prices), prices.shape[0]
    # Candidates and fixed rows speak for prices inside the region only.
    inside = xp.clip(prices, candidates.low, candidates.high)
    is_outside = bool(xp.any(inside != prices))

    def of_part(rows: slice) -> _Part:
        lists = candidates.values[rows, :], candidates.clusters[rows, :]
        slot = slots[rows][:, None]
        value, chosen = (xp.take_along_axis(part, slot, axis=1)[:, 0] for part in lists)
        value, label = pair = xp.astype(value, xp.float64), xp.astype(chosen, xp.int64)
        counts = segment_sum(xp.ones_like(label)[:, None], label, n_segments=k)[:, 0]
        lost, explained = regret = _regrets(candidates, rows, pair, inside, scale, whole=True)
        if is_outside or (lost > 0.0 and _any_truncated(candidates, rows)):
            regret = _regrets(candidates, rows, pair, prices, scale, whole=False)
        return _Part(
            chosen=chosen,
            counts=counts,
            objective=unread(xp.sum(value)),
            size=unread(xp.sum(xp.abs(value))),
            lost=lost,
            explained=explained,
            misplaced=max(regret[0] - regret[1], 0.0),
        )

    counts, chosen = candidates.fixed_counts, [candidates.clusters[:0, 0]]
    objective, size = candidates.fixed_value, candidates.fixed_size
    lost = explained = misplaced = 0.0
    for part in map_in_order(of_part, row_slices(candidates, options), like=prices):
        chosen.append(part.chosen)
        counts = counts + part.counts
        objective, size = objective + part.objective, size + part.size
        lost, explained = lost + part.lost, explained + part.explained  # step 1: regret
        misplaced += part.misplaced
    slack = _slackness(inside, counts, bounds)  # step 2: slackness
    outside = xp.max(xp.maximum(bounds.lower - counts, counts - bounds.upper))
    priced_size = xp.sum(xp.abs(inside) * xp.astype(counts, xp.float64))
    objective, size, slack, priced_size, outside = read(
        objective, size, slack, priced_size, outside
    )
    lost = lost + slack
    explained = explained + (rounding_of(min(scale, size + priced_size)) if slack != 0.0 else 0.0)
    if not math.isfinite(size + lost):
        raise ScoresOutOfRangeError
    lost = lost if lost > explained else 0.0
    assignment = OfflineAssignment(
        labels=_labels_of_all_rows(candidates, xp.concat(chosen), options),
        counts=counts,
        prices=inside,
        objective=objective,
        upper_bound=objective + lost,
        rounding=rounding_of(size + priced_size),
        violation=max(0, int(outside)),
        gap=relative_gap(lost, size, objective + lost),
    )
    return assignment, misplaced


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
    edges = list(row_blocks(candidates.labels.shape[0], options.chunk_rows))
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
    """
    largest = max(size, abs(upper_bound))
    if lost >= 2.0 * largest:
        return 2.0 if lost > 0.0 else 0.0
    return max(lost / largest, SMALLEST) if lost > 0.0 else 0.0


def in_unit(assignment: OfflineAssignment, exponent: int) -> OfflineAssignment:
    """Return the result for scores that are ``2**exponent`` times those it was solved for.

    Raises
    ------
    InvalidValueError
        If the objective, the bound or a price does not fit into float64.
    """
    if exponent == 0:
        return assignment
    counts = assignment.counts
    # A score far below the largest has lost digits in this unit: one in each row.
    lost = SMALLEST * float(compat.array_namespace(counts).sum(counts))
    values = assignment.objective, assignment.upper_bound, assignment.rounding + lost
    try:
        objective, upper_bound, rounding = (math.ldexp(v, exponent) for v in values)
        math.ldexp(largest_score(assignment.prices), exponent)
    except OverflowError:
        msg = (
            "scores must have a sum that float64 holds, got one of more than 1e308. To fix this, "
            "divide all scores, or all weights, by the same number: the labels stay the same"
        )
        raise InvalidValueError(msg) from None
    prices = times_power_of_two(assignment.prices, exponent)
    return assignment._replace(
        prices=prices,
        objective=objective,
        upper_bound=upper_bound,
        rounding=rounding + SMALLEST,
    )


def rounding_of(size: float) -> float:
    """Return what sums can be off by, for terms of absolute values that add up to `size`."""
    return ROUNDINGS * EPS * size
