r"""Labels from the lists of one pass over the scores, and what they prove about all of it.

Problem: `shortlists` has settled the samples whose best cluster is the same for all prices of a box
and listed a few clusters for the others. Find the best labels inside the bounds,

maximize ``sum_i s_{i, y_i}``   subject to   ``l_k <= n_k <= u_k``,

if every open sample takes a listed cluster, and an upper bound on what any labels are worth.
Newton's method on the smoothed dual (`smoothed_dual`) finds prices, chains of moves (`transport`)
labels. For prices inside the box, a sample is worth at most the better of its best listed cluster
and its cut.

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

from ._typing import Array
from .bounds import SizeBounds
from .certificates import price_of_bounds, violation
from .price_box import PriceBox, held_back, problem_of
from .segments import segment_sum
from .shortlists import Listing
from .smoothed_dual import Problem, refine_prices, soft_counts
from .transport import shortest_moves

__all__ = ["OfflineAssignment", "rounding_of", "solve_lists"]

CHUNK = 2**18  # lists that are added up at a time
BORDER = 2.0  # samples a cluster has on its borders when the chains take over
WINDOW, WIDER, WINDOWS = 4.0, 8.0, 4  # of the chains, in units of T
HELD = 0.02  # share of the prices at an edge of the box above which the chains would be in vain
STRANDED = 0.25  # samples for each cluster that chains may have to move because of that
EPS, ROUNDINGS = 2.0**-52, 64.0


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
        How much of the difference of the two the additions alone can make.
    violation : int
        Samples by which the worst cluster is outside its bounds: 0.
    """

    labels: Array
    counts: Array
    prices: Array
    objective: float
    upper_bound: float
    rounding: float
    violation: int

    @property
    def gap(self) -> float:
        """``(upper_bound - objective) / max(|upper_bound|, |objective|)``, 0 for optimal labels."""
        size = max(abs(self.upper_bound), abs(self.objective))
        lost = self.upper_bound - self.objective
        return max(lost, 0.0) / size if size > 0.0 and lost > self.rounding else 0.0

    @property
    def status(self) -> str:
        """Proven: "optimal", or "within gap"."""
        return "optimal" if self.upper_bound - self.objective <= self.rounding else "within gap"


def solve_lists(
    listing: Listing,
    bounds: SizeBounds,
    box: PriceBox,
    tolerance: float,
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
    tolerance : float
        Relative gap at which wider windows are not tried.
    hopeless : float, optional
        Relative gap above which no labels are sought, `tolerance` by default.

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
    hopeless = tolerance if hopeless is None else hopeless
    xp = compat.array_namespace(box.prices)
    problem = problem_of(listing, bounds.lower, bounds.upper)
    start = max(float(xp.mean(box.radius)) / 8.0, 1e-290)  # it, and parts of it, divide
    refined = refine_prices(problem, box.prices, start=start, border=BORDER)
    prices, window = refined.prices, WINDOW * refined.temperature
    beyond, worth = _beyond_lists(listing, prices)
    bound = worth + beyond + price_of_bounds(prices, bounds)
    bound += float(xp.sum(xp.astype(listing.settled, xp.float64) * prices))
    held = held_back(listing, prices)
    n_held = int(xp.sum(xp.astype(held, xp.int64)))
    if beyond > hopeless * abs(worth) or n_held > HELD * prices.shape[0]:
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
        prices = moved
        found, misplaced = _proven(listing, slots, prices, bounds)
        if misplaced <= max(found.rounding, tolerance / 8.0 * abs(found.upper_bound)):
            break
    return (None if stuck else found), prices, bound


def _stranded(problem: Problem, prices: Array, held: Array, temperature: float) -> float:
    """Samples by which clusters miss their bounds because the box holds their prices back."""
    xp = compat.array_namespace(prices)
    _, counts, _, _ = soft_counts(problem.values, problem.clusters, prices, temperature=temperature)
    aim = xp.where(prices > 0.0, problem.lower, problem.upper)
    missing = xp.abs(counts + problem.settled - aim)
    return float(xp.sum(xp.where(held, missing, xp.zeros_like(missing))))


def _beyond_lists(listing: Listing, prices: Array) -> tuple[float, float]:
    """By how much what was cut from the lists can be worth more than the best listed clusters.

    Also what the best listed clusters are worth.
    """
    xp, beyond, worth = compat.array_namespace(prices), 0.0, listing.settled_value
    for rows in _chunks(listing):
        best = _best_listed(listing, rows, prices)
        beyond += float(xp.sum(xp.clip(listing.cuts[rows] - best, min=0.0)))
        worth += float(xp.sum(best))
    return beyond, worth


def _chunks(listing: Listing) -> Iterator[slice]:
    """Lists that are added up at a time: whatever is made of them in float64 is small."""
    m = listing.clusters.shape[0]
    for i in range(0, m, CHUNK):
        yield slice(i, min(i + CHUNK, m))


def _best_listed(listing: Listing, rows: slice, prices: Array) -> Array:
    xp = compat.array_namespace(prices)
    listed = xp.astype(xp.clip(listing.clusters[rows, :], min=0), xp.int64)
    own = xp.reshape(xp.take(prices, xp.reshape(listed, (-1,))), listed.shape)
    return xp.max(xp.astype(listing.values[rows, :], xp.float64) + own, axis=1)


def _proven(
    listing: Listing, slots: Array, prices: Array, bounds: SizeBounds
) -> tuple[OfflineAssignment, float]:
    """Labels of all samples, with objective and upper bound; and what samples lose by their labels.

    The second is 0 unless the window of the chains was too narrow.
    """
    xp, k = compat.array_namespace(prices), prices.shape[0]
    # Lists and settled samples speak for prices inside the box only.
    inside = xp.clip(prices, listing.low, listing.high)
    counts, chosen = listing.settled, [listing.clusters[:0, 0]]
    objective = size = misplaced = 0.0
    upper_bound = float(xp.sum(xp.astype(listing.settled, xp.float64) * inside))
    for rows in _chunks(listing):
        slot = slots[rows][:, None]
        own = xp.take_along_axis(listing.values[rows, :], slot, axis=1)[:, 0]
        own = xp.astype(own, xp.float64)
        chosen.append(xp.take_along_axis(listing.clusters[rows, :], slot, axis=1)[:, 0])
        label = xp.astype(chosen[-1], xp.int64)
        ones = xp.ones_like(label)[:, None]
        counts = counts + segment_sum(ones, label, n_segments=k)[:, 0]
        best = xp.maximum(_best_listed(listing, rows, inside), listing.cuts[rows])
        lost = _best_listed(listing, rows, prices) - own - xp.take(prices, label)
        objective += float(xp.sum(own))
        upper_bound += float(xp.sum(best))
        misplaced += float(xp.sum(lost))
        size += float(xp.sum(xp.abs(own)))
    objective += listing.settled_value
    upper_bound += listing.settled_value + price_of_bounds(inside, bounds)
    size += abs(listing.settled_value)
    size += float(xp.sum(xp.abs(inside) * xp.astype(counts, xp.float64)))
    found = OfflineAssignment(
        _labels(listing, xp.concat(chosen)),
        counts,
        inside,
        objective,
        upper_bound,
        rounding_of(size),
        violation(counts, bounds),
    )
    return found, misplaced


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


def rounding_of(size: float) -> float:
    """What the additions can be off by, for terms of absolute values that add up to `size`."""
    return ROUNDINGS * EPS * size
