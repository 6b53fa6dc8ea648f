r"""Assignment with all samples at hand: labels inside the bounds, and a proof of how good they are.

Problem (CoKe Eq. 6 with both bounds), for scores in memory or multiplied a block at a time:

maximize ``sum_i s_{i, y_i}``   subject to   ``l_k <= n_k <= u_k``.

1. *Prices on samples* that grow by eights: online passes (`price_learning`) on the first, then
   Newton's method on the smoothed dual (`smoothed_dual`), which also says how far the prices of a
   sample can be from those of all rows.
2. *One pass over all rows* settles every sample whose best cluster is the same for all prices that
   are still possible, and lists a few clusters for the others (`shortlists`).
3. *Newton's method on the lists*, then *chains of moves* (`transport`), which end with counts
   inside the bounds and with optimal prices.
4. *Proof*: if these prices are inside the box of the pass and nothing cut from a list is worth more
   than the best in it, the labels are optimal for the whole problem. Otherwise the bound is as far
   away as the samples in question make it, and, if that is too far, a pass with a box around the
   new prices follows.

=====================  ===============  =======  =================================================
paper                  here             shape    meaning
=====================  ===============  =======  =================================================
:math:`s_{i,k}`        ``scores``       (n, k)   or a `ScoreSource`; minus infinity forbids a pair
:math:`\rho - \rho'`   ``prices``       (k,)     in units of score, float64
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
from .checks import check_finite, check_interval, check_real, check_same_place, check_shape
from .errors import InvalidValueError
from .feasibility import check_feasible
from .price_box import PriceBox, first_box, held_back, next_box, problem_of
from .price_learning import score_range
from .score_sources import ScoreSource, block_rows, check_weights, score_source
from .segments import segment_sum
from .shortlists import Listing, list_all, list_open
from .smoothed_dual import refine_prices
from .transport import shortest_moves

__all__ = ["OfflineAssignment", "assign_exact", "assign_offline", "solve"]

FULL_ENTRIES = 2**16  # scores up to which lists hold all clusters
WIDTH, NARROW, MANY_ROWS = 8, 3, 2**22  # of lists, and for so many samples narrower ones
MOST_PASSES = 10
CHUNK = 2**18  # lists that are added up at a time
BORDER = 2.0  # samples a cluster has on its borders when the chains take over
WINDOW, WIDER, WINDOWS = 4.0, 8.0, 4  # of the chains, in units of T
HELD = 0.02  # share of the prices at an edge of the box above which the chains would be in vain
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


def assign_offline(
    scores: Array,
    bounds: SizeBounds,
    *,
    prices: Array | None = None,
    weights: Array | None = None,
    tolerance: float = 1e-4,
) -> OfflineAssignment:
    """Labels for a matrix of scores, every cluster size inside its bounds, to a proven gap.

    Parameters
    ----------
    scores : (n, k) real array
        Finite, or minus infinity where a sample must not go; n = ``bounds.n_samples``. Half
        precision is computed in float32.
    bounds : SizeBounds
        On the library and device of `scores`.
    prices : (k,) float64 array, optional
        Where to start, such as those of a similar problem: they save the learning on samples.
    weights : (n,) real array, optional
        At least 0: the objective is ``sum_i w_i s_{i, y_i}``. Sizes count samples, whatever their
        weight.
    tolerance : float in [0, 1]
        Relative gap to prove; 0 for the optimum.

    Returns
    -------
    OfflineAssignment

    Raises
    ------
    InfeasibleBoundsError
        If forbidden pairs leave no labels inside the bounds; with the clusters that prove it.
    InvalidValueError, InvalidTypeError, DeviceMismatchError
        For NaN, plus infinity, and shapes, dtypes or places that do not fit.

    Notes
    -----
    Guarantee: ``lower <= counts <= upper``; the gap is proven, by weak duality.
    Cost: O(n k) for one pass or a few, and O(n) memory beside the scores.
    Source: CoKe Eq. 6; the method is ours (docs/decisions/0009-lists.md).

    Examples
    --------
    Cluster 0 may keep two of three; the one that loses least by moving is the last.

    >>> import numpy as np
    >>> from dualclust.algos.bounds import from_counts
    >>> scores = np.asarray([[0.9, 0.1], [0.8, 0.1], [0.6, 0.5]])
    >>> found = assign_offline(scores, from_counts([1, 1], n_samples=3))
    >>> found.labels, round(found.objective, 3), found.status
    (array([0, 0, 1]), 2.2, 'optimal')
    """
    check_real("scores", scores)
    n, _ = check_shape("scores", scores, (bounds.n_samples or "n", bounds.n_clusters))
    check_same_place(scores=scores, bounds=bounds.lower, prices=prices, weights=weights)
    weights = None if weights is None else check_weights("weights", weights, n)
    return solve(score_source(scores, weights), bounds, prices=prices, tolerance=tolerance)


def assign_exact(
    scores: Array,
    bounds: SizeBounds,
    *,
    prices: Array | None = None,
    weights: Array | None = None,
) -> OfflineAssignment:
    """Best labels of all that keep every cluster size inside its bounds.

    As `assign_offline` with a tolerance of 0: the upper bound equals the objective to rounding,
    which is the proof. Where several optima exist, which one is found is not specified.

    Examples
    --------
    >>> import numpy as np
    >>> from dualclust.algos.bounds import from_counts
    >>> scores = np.asarray([[0.9, 0.1, 0.0], [0.8, 0.7, 0.0], [0.7, 0.6, 0.5]])
    >>> found = assign_exact(scores, from_counts([1, 1, 1], n_samples=3))
    >>> found.labels, round(found.objective, 3), round(found.upper_bound, 3)
    (array([0, 1, 2]), 2.1, 2.1)
    """
    return assign_offline(scores, bounds, prices=prices, weights=weights, tolerance=0.0)


def solve(
    source: ScoreSource,
    bounds: SizeBounds,
    *,
    prices: Array | None = None,
    tolerance: float = 1e-4,
) -> OfflineAssignment:
    """`assign_offline` for any source of scores, also for rows that are shared out over ranks.

    Parameters
    ----------
    source : ScoreSource
        Of a matrix, or of features and centers (`score_sources`).
    bounds : SizeBounds
        Of all rows of all ranks.
    prices, tolerance
        As in `assign_offline`.

    Returns
    -------
    OfflineAssignment
        Labels of this rank's rows; everything else is of all rows, and the same on all ranks,
        however many there are.

    Notes
    -----
    Memory: one block of scores, 8 bytes for each label, and the lists of the samples not settled.
    """
    n, k = source.group.n_total, source.n_clusters
    if bounds.n_samples is None:
        msg = "bounds must be of a known number of samples, got those of a stream"
        raise InvalidValueError(msg)
    check_shape("bounds.lower", bounds.lower, (k,))
    check_interval("tolerance", tolerance, 0.0, 1.0)
    xp = compat.array_namespace(bounds.lower)
    if prices is not None:
        check_shape("prices", prices, (k,))
        check_finite("prices", prices)
        prices = xp.astype(prices, xp.float64)
    if n * k <= FULL_ENTRIES:
        return _solve_in_full(source, bounds, prices)
    box, best = first_box(source, bounds, prices), None
    width = WIDTH if n <= MANY_ROWS else NARROW
    for _ in range(MOST_PASSES):
        low, high = box.prices - box.radius, box.prices + box.radius
        listing = list_open(source, low, high, width=width)
        found, prices = _solve_lists(listing, bounds, box, tolerance)
        if found is not None:
            best = found if best is None or found.gap < best.gap else best
            if found.gap <= tolerance or found.status == "optimal":
                return found
        if bool(xp.any(listing.cuts > -math.inf)):
            width *= 2
        box = next_box(box, prices)
    if best is not None and tolerance > 0.0:
        return best
    return _solve_in_full(source, bounds, prices)


def _solve_in_full(
    source: ScoreSource, bounds: SizeBounds, prices: Array | None
) -> OfflineAssignment:
    """The optimum from lists of all clusters: for few scores, or where nothing else has helped."""
    xp = compat.array_namespace(bounds.lower)
    listing = list_all(source, like=bounds.lower)
    if prices is None:
        prices = xp.zeros(bounds.lower.shape, dtype=xp.float64, device=compat.device(bounds.lower))
    box = PriceBox(prices, xp.full_like(prices, 2.0 * score_range(listing.values)))
    found, _ = _solve_lists(listing, bounds, box, 0.0)
    if found is None:
        check_feasible(_allowed(source), bounds.lower, bounds.upper)
        msg = "scores differ too much for float64: no labels were found, although some are inside"
        raise InvalidValueError(msg)
    return found


def _allowed(source: ScoreSource) -> Array:
    """Which pairs are not forbidden, (n, k) of all ranks."""
    rows, n = block_rows(source.n_clusters), source.group.n_local
    blocks = [source.block(a, min(a + rows, n)) for a in range(0, max(n, 1), rows)]
    xp = compat.array_namespace(blocks[0])
    return source.group.gather(xp.concat([xp.isfinite(block) for block in blocks]))


def _solve_lists(
    listing: Listing, bounds: SizeBounds, box: PriceBox, tolerance: float
) -> tuple[OfflineAssignment | None, Array]:
    """Newton's method, then chains in windows that grow.

    Without an assignment where the lists allow none, or cannot prove enough about any.
    """
    xp = compat.array_namespace(box.prices)
    problem = problem_of(listing, bounds.lower, bounds.upper)
    start = float(xp.mean(box.radius)) / 8.0
    refined = refine_prices(problem, box.prices, start=start, border=BORDER)
    prices, window = refined.prices, WINDOW * refined.temperature
    beyond, worth = _beyond_lists(listing, prices)
    held = int(xp.sum(xp.astype(held_back(listing, prices), xp.int64)))
    if beyond > tolerance * abs(worth) or held > HELD * prices.shape[0]:
        return None, prices
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
    return (None if stuck else found), prices


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
        ROUNDINGS * EPS * size,
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
