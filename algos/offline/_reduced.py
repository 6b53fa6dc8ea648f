r"""Labels from the lists of one pass over the scores, and what they prove about all of it.

Problem: `shortlists` has settled the samples whose best cluster is the same for all prices of a box
and listed a few clusters for the others. Find the best labels inside the bounds,

maximize ``sum_i s_{i, y_i}``   subject to   ``l_k <= n_k <= u_k``,

if every open sample takes a listed cluster, and an upper bound on what any labels are worth.
Newton's method on the smoothed dual (`smoothed_dual`) finds prices, chains of moves (`transport`)
labels. For prices inside the box, a sample is worth at most the better of its best listed cluster
and its cut.

What labels lack of the bound is added up from terms that are never negative: what each sample loses
by its label, ``max_k (s_ik + pi_k) - (s_iy + pi_y)``, with scores counted from the first in its
list, and what each price pays for a bound that is not reached. The difference of the two sums, in
which everything else cancels, would be lost in the rounding of rows with large scores.

=====================  ===============  =======  =================================================
paper                  here             shape    meaning
=====================  ===============  =======  =================================================
:math:`\rho - \rho'`   ``prices``       (k,)     in units of score, float64
:math:`y_i`            ``labels``       (n,)     of this rank's samples
:math:`D(\pi)`         ``upper_bound``  ()       no labels inside the bounds are worth more
=====================  ===============  =======  =================================================
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import array_api_compat as compat

from ..bounds.sizes import SizeBounds
from ..core.errors import InvalidValueError
from ..core.segments import segment_sum
from ..core.types import Array
from ..online.certificates import implied_bounds, price_of_bounds, violation
from ..scores.sources import largest_score, times_power_of_two
from ..scores.units import ScoresOutOfRangeError
from ._augmenting_paths import shortest_moves
from ._candidates import Listing
from ._smoothed_dual import Problem, refine_prices, soft_counts
from ._trust_region import PriceBox, held_back, problem_of

__all__ = ["OfflineAssignment", "in_unit", "relative_gap", "rounding_of", "solve_lists"]

CHUNK = 2**18  # lists that are added up at a time
BORDER = 2.0  # samples a cluster has on its borders when the chains take over
WINDOW, WIDER, WINDOWS = 4.0, 8.0, 4  # of the chains, in units of T
HELD = 0.02  # share of the prices at an edge of the box above which the chains would be in vain
STRANDED = 0.25  # samples for each cluster that chains may have to move because of that
EPS, ROUNDINGS = 2.0**-52, 64.0
SMALLEST = 2.0**-1074


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


def solve_lists(
    listing: Listing,
    bounds: SizeBounds,
    box: PriceBox,
    tol: float,
    *,
    hopeless: float | None = None,
) -> tuple[OfflineAssignment | None, Array, float]:
    """Newton's method, then chains in windows that grow.

    Parameters
    ----------
    listing : Listing
        Of `box`.
    bounds : SizeBounds
        Of all rows.
    box : PriceBox
    tol : float
        Relative gap at which wider windows are not tried.
    hopeless : float, optional
        Relative gap above which no labels are sought, `tol` by default.

    Returns
    -------
    found : OfflineAssignment or None
        None where the lists allow no labels, or prove too little.
    prices : (k,) float64 array
        The best in the box.
    bound : float
        What labels can be worth at most by these prices.

    Notes
    -----
    Claims: docs/claims.md#C4, #R6.
    """
    hopeless = tol if hopeless is None else hopeless
    xp = compat.array_namespace(box.prices)
    problem = problem_of(listing, bounds.lower, bounds.upper)
    start = max(float(xp.mean(box.radius)) / 8.0, 1e-290)  # it, and parts of it, divide
    refined = refine_prices(problem, box.prices, start=start, border=BORDER)
    prices, window = refined.prices, WINDOW * refined.temperature
    beyond, worth, size = _beyond_lists(listing, prices)
    bound = worth + beyond + price_of_bounds(prices, bounds)
    bound += float(xp.sum(xp.astype(listing.settled, xp.float64) * prices))
    held = held_back(listing, prices)
    n_held = int(xp.sum(xp.astype(held, xp.int64)))
    if beyond > hopeless * size or n_held > HELD * prices.shape[0]:
        return None, prices, bound
    stranded = _stranded(problem, prices, held, refined.temperature) if n_held else 0.0
    if stranded > STRANDED * prices.shape[0]:  # a chain for each of them, and each a long one
        return None, prices, bound
    lower, upper = bounds.lower - listing.settled, bounds.upper - listing.settled
    # No listed cluster is further behind than this: a wider window would change nothing.
    widest = 2.0 * float(xp.max(listing.high - listing.low))
    for turn in range(WINDOWS + 1):
        slots, moved, _, stuck = shortest_moves(
            listing.values,
            listing.clusters,
            prices,
            lower=lower,
            upper=upper,
            window=window if turn < WINDOWS else math.inf,
        )
        if stuck and window > widest:
            break
        window *= WIDER
        if stuck:
            continue
        # Prices that went up and down again are off by the rounding of the largest on the way.
        scale = max(largest_score(refined.prices), largest_score(moved))
        prices = xp.where(xp.abs(moved) <= rounding_of(scale), xp.zeros_like(moved), moved)
        found, misplaced = _proven(listing, slots, prices, bounds, scale)
        if misplaced <= tol / 8.0 * max(size, abs(found.upper_bound)):
            break
    return (None if stuck else found), prices, bound


def solve_ties(listing: Listing, bounds: SizeBounds) -> OfflineAssignment | None:
    """Labels for prices of 0, from lists of the clusters that tie there; None if there are none."""
    xp = compat.array_namespace(bounds.lower)
    zero = xp.zeros_like(listing.low)
    slots, _, _, stuck = shortest_moves(
        listing.values,
        listing.clusters,
        zero,
        lower=bounds.lower - listing.settled,
        upper=bounds.upper - listing.settled,
        window=0.0,
    )
    return None if stuck else _proven(listing, slots, zero, bounds, 0.0)[0]


def _stranded(problem: Problem, prices: Array, held: Array, temperature: float) -> float:
    """Samples by which clusters miss their bounds because the box holds their prices back."""
    xp = compat.array_namespace(prices)
    _, counts, _, _ = soft_counts(problem.values, problem.clusters, prices, temperature=temperature)
    aim = xp.where(prices > 0.0, problem.lower, problem.upper)
    missing = xp.abs(counts + problem.settled - aim)
    return float(xp.sum(xp.where(held, missing, xp.zeros_like(missing))))


def _beyond_lists(listing: Listing, prices: Array) -> tuple[float, float, float]:
    """By how much what was cut from the lists can be worth more than the best listed clusters.

    Also what the best listed clusters are worth, and about how large the objective is.
    """
    xp, beyond = compat.array_namespace(prices), 0.0
    worth, size = listing.settled_value, listing.settled_size
    for rows in _chunks(listing):
        first = xp.astype(listing.values[rows, 0], xp.float64)
        best = xp.max(_priced(listing, rows, prices), axis=1)
        beyond += float(xp.sum(xp.clip(listing.cuts[rows] - first - best, min=0.0)))
        worth += float(xp.sum(first + best))
        size += float(xp.sum(xp.abs(first)))
    return beyond, worth, size


def _chunks(listing: Listing) -> Iterator[slice]:
    """Lists that are added up at a time: whatever is made of them in float64 is small."""
    m = listing.clusters.shape[0]
    for i in range(0, m, CHUNK):
        yield slice(i, min(i + CHUNK, m))


def _priced(listing: Listing, rows: slice, prices: Array, *, sizes: bool = False) -> Array:
    """Scores, counted from the first of each list, plus prices; or the sizes of the two terms."""
    xp = compat.array_namespace(prices)
    listed = xp.astype(xp.clip(listing.clusters[rows, :], min=0), xp.int64)
    own = xp.reshape(xp.take(prices, xp.reshape(listed, (-1,))), listed.shape)
    values = xp.astype(listing.values[rows, :], xp.float64)
    values = values - values[:, :1]
    return xp.abs(values) + xp.abs(own) if sizes else values + own


def _regrets(
    listing: Listing, rows: slice, slot: Array, prices: Array, scale: float, *, cuts: bool
) -> tuple[float, float]:
    """What samples lose by their labels at these prices, and what rounding explains of that."""
    xp = compat.array_namespace(prices)
    priced = _priced(listing, rows, prices)
    own = xp.take_along_axis(priced, slot, axis=1)
    regret = xp.max(priced, axis=1) - own[:, 0]
    if cuts:
        cut = listing.cuts[rows] - xp.astype(listing.values[rows, 0], xp.float64)
        regret = xp.maximum(regret, cut - own[:, 0])
    lost = float(xp.sum(regret))
    if lost == 0.0:
        return 0.0, 0.0
    # Only clusters that look better than the label can have been rounded up.
    sizes, zero = _priced(listing, rows, prices, sizes=True), xp.zeros_like(priced)
    most = xp.max(xp.where(priced >= own, sizes, zero), axis=1)
    if cuts:
        over = xp.where(cut > own[:, 0], xp.abs(listing.cuts[rows]), zero[:, 0])
        most = xp.maximum(most, over)
    most = xp.where(regret > 0.0, most + scale, zero[:, 0])
    return lost, rounding_of(float(xp.sum(most)))


def _proven(
    listing: Listing, slots: Array, prices: Array, bounds: SizeBounds, scale: float
) -> tuple[OfflineAssignment, float]:
    """Labels of all samples, with objective and upper bound; and what samples lose by their labels.

    The second is 0 unless the window of the chains was too narrow. Prices carry the rounding of
    numbers as large as `scale`.
    """
    xp, k = compat.array_namespace(prices), prices.shape[0]
    # Lists and settled samples speak for prices inside the box only.
    inside = xp.clip(prices, listing.low, listing.high)
    is_inside = bool(xp.all(inside == prices))
    counts, chosen = listing.settled, [listing.clusters[:0, 0]]
    objective, size = listing.settled_value, listing.settled_size
    lost = explained = misplaced = 0.0
    for rows in _chunks(listing):
        slot = slots[rows][:, None]
        own = xp.take_along_axis(listing.values[rows, :], slot, axis=1)[:, 0]
        own = xp.astype(own, xp.float64)
        chosen.append(xp.take_along_axis(listing.clusters[rows, :], slot, axis=1)[:, 0])
        label = xp.astype(chosen[-1], xp.int64)
        ones = xp.ones_like(label)[:, None]
        counts = counts + segment_sum(ones, label, n_segments=k)[:, 0]
        objective += float(xp.sum(own))
        size += float(xp.sum(xp.abs(own)))
        parts = _regrets(listing, rows, slot, inside, scale, cuts=True)
        lost, explained = lost + parts[0], explained + parts[1]
        if not is_inside or parts[0] > 0.0:
            parts = _regrets(listing, rows, slot, prices, scale, cuts=False)
        misplaced += max(parts[0] - parts[1], 0.0)
    parts = _unused(inside, counts, bounds, scale)
    lost, explained = lost + parts[0], explained + parts[1]
    if not math.isfinite(size + lost):
        raise ScoresOutOfRangeError
    lost = lost if lost > explained else 0.0
    found = OfflineAssignment(
        _labels(listing, xp.concat(chosen)),
        counts,
        inside,
        objective,
        objective + lost,
        rounding_of(size + float(xp.sum(xp.abs(inside) * xp.astype(counts, xp.float64)))),
        violation(counts, bounds),
        relative_gap(lost, size, objective + lost),
    )
    return found, misplaced


def _unused(prices: Array, counts: Array, bounds: SizeBounds, scale: float) -> tuple[float, float]:
    """What prices pay for bounds that are not reached, and what rounding explains of that."""
    xp = compat.array_namespace(prices)
    low, high = implied_bounds(bounds)
    missed = xp.where(prices > 0.0, counts - low, high - counts)
    missed = xp.astype(xp.where(prices == 0.0, xp.zeros_like(missed), missed), xp.float64)
    lost = float(xp.sum(xp.abs(prices) * missed))
    if lost == 0.0:
        return 0.0, 0.0
    return lost, rounding_of(scale)


def _labels(listing: Listing, chosen: Array) -> Array:
    """Labels of this rank's samples: settled ones as they were, open ones as chosen."""
    xp, n, last = compat.array_namespace(chosen), listing.labels.shape[0], chosen.shape[0] - 1
    if last < 0:
        return xp.astype(listing.labels, xp.int64)
    parts, place = [xp.astype(listing.labels[:0], xp.int64)], listing.first_open
    for i in range(0, n, CHUNK):
        rows = slice(i, min(i + CHUNK, n))
        is_open = xp.astype(listing.is_open[rows], xp.int64)
        places = xp.clip(xp.cumulative_sum(is_open) - 1 + place, 0, last)
        label = xp.where(is_open > 0, xp.take(chosen, places), listing.labels[rows])
        parts.append(xp.astype(label, xp.int64))
        place += int(xp.sum(is_open))
    return xp.concat(parts)


def relative_gap(lost: float, size: float, upper_bound: float) -> float:
    """Gap of labels that lack at most `lost` of the best; `size` is ``sum_i |s_{i, y_i}|``."""
    return max(lost / max(size, abs(upper_bound)), SMALLEST) if lost > 0.0 else 0.0


def in_unit(found: OfflineAssignment, exponent: int) -> OfflineAssignment:
    """A result for scores that are ``2**exponent`` times those it was found for.

    Raises
    ------
    InvalidValueError
        If the objective, the bound or a price does not fit into float64.
    """
    if exponent == 0:
        return found
    try:
        objective, upper_bound, rounding = (
            math.ldexp(v, exponent) for v in (found.objective, found.upper_bound, found.rounding)
        )
        math.ldexp(largest_score(found.prices), exponent)
    except OverflowError:
        msg = (
            "scores must have a sum that float64 holds, got one of more than 1e308. To fix this, "
            "divide all scores, or all weights, by the same number: the labels stay the same"
        )
        raise InvalidValueError(msg) from None
    prices = times_power_of_two(found.prices, exponent)
    return found._replace(
        prices=prices,
        objective=objective,
        upper_bound=upper_bound,
        rounding=rounding + SMALLEST,
    )


def rounding_of(size: float) -> float:
    """What the additions can be off by, for terms of absolute values that add up to `size`."""
    return ROUNDINGS * EPS * size
