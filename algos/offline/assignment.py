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
   new prices follows, no wider than lists that memory holds can be right in (`list_widths`).
5. *Online passes* (`streamed`), where such lists have allowed no labels.

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

import array_api_compat as compat

from ..bounds.forbidden_pairs import check_feasible
from ..bounds.sizes import SizeBounds
from ..core.checks import check_finite, check_interval, check_real, check_same_place, check_shape
from ..core.errors import InvalidValueError
from ..core.types import Array
from ..scores.sources import (
    ScoreSource,
    block_rows,
    check_weights,
    score_source,
    times_power_of_two,
)
from ..scores.units import ScoresOutOfRangeError, in_range, rescaled
from ._candidates import ListsTooLongError, list_all, list_open
from ._fallback import assign_streamed
from ._learning import may_be_free, median, score_range, strided_ids
from ._reduced import OfflineAssignment, in_unit, solve_lists, solve_ties
from ._trust_region import PriceBox, first_box, next_box
from ._widths import widest_box

__all__ = ["OfflineAssignment", "assign_exact", "assign_offline", "assign_source"]

FULL_ENTRIES = 2**16  # scores up to which lists hold all clusters
WIDTH, NARROW, MANY_ROWS = 8, 3, 2**22  # of lists, and for so many samples narrower ones
MOST_PASSES, FEW_PASSES = 10, 5  # over all scores; where lists fill the memory
LISTED_ENTRIES = 2**25  # of all lists at most: 256 MiB of clusters and scores
LAST_ENTRIES = 2**27  # scores up to which all are listed where nothing else has helped
RETRY_ENTRIES = 2**22  # scores up to which all are listed where lists have not proven the gap
FEW_ROWS = 2**10  # rows that say in what unit to compute
SAMPLE = 2**12  # rows that say what lists will hold
LEAST = 1e-3  # share of its radius below which a box is not worth it: most rows tie
PATIENCE, ROUGH = 3, 1e-2  # passes after which labels with such a gap will do


def assign_offline(
    scores: Array,
    bounds: SizeBounds,
    *,
    prices: Array | None = None,
    weights: Array | None = None,
    tol: float = 1e-4,
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
    tol : float in [0, 1]
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
    >>> from dualclust.algos.bounds.sizes import SizeBounds
    >>> scores = np.asarray([[0.9, 0.1], [0.8, 0.1], [0.6, 0.5]])
    >>> found = assign_offline(scores, SizeBounds.from_counts([1, 1], n_samples=3))
    >>> found.labels, round(found.objective, 3), found.status
    (array([0, 0, 1]), 2.2, 'optimal')
    """
    check_real("scores", scores)
    n, _ = check_shape("scores", scores, (bounds.n_samples or "n", bounds.n_clusters))
    check_same_place(scores=scores, bounds=bounds.lower, prices=prices, weights=weights)
    weights = None if weights is None else check_weights("weights", weights, n)
    return assign_source(score_source(scores, weights), bounds, prices=prices, tol=tol)


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

    Notes
    -----
    Claims: docs/claims.md#S12, #C3, #C4, #C13, #C30.

    Examples
    --------
    >>> import numpy as np
    >>> from dualclust.algos.bounds.sizes import SizeBounds
    >>> scores = np.asarray([[0.9, 0.1, 0.0], [0.8, 0.7, 0.0], [0.7, 0.6, 0.5]])
    >>> found = assign_exact(scores, SizeBounds.from_counts([1, 1, 1], n_samples=3))
    >>> found.labels, round(found.objective, 3), round(found.upper_bound, 3)
    (array([0, 1, 2]), 2.1, 2.1)
    """
    return assign_offline(scores, bounds, prices=prices, weights=weights, tol=0.0)


def assign_source(
    source: ScoreSource,
    bounds: SizeBounds,
    *,
    prices: Array | None = None,
    tol: float = 1e-4,
) -> OfflineAssignment:
    """`assign_offline` for any source of scores, also for rows that are shared out over ranks.

    Parameters
    ----------
    source : ScoreSource
        Of a matrix, or of features and centers (`score_sources`).
    bounds : SizeBounds
        Of all rows of all ranks.
    prices, tol
        As in `assign_offline`.

    Returns
    -------
    OfflineAssignment
        Labels of this rank's rows; everything else is of all rows, and the same on all ranks,
        however many there are.

    Notes
    -----
    Memory: one block of scores, 8 bytes for each label, and the lists of the samples not settled:
    at most 2^25 listed scores, of 8 bytes each and about as much again while they are solved. With
    a tolerance of 0 there is no such limit. Where lists of that size do not prove the gap, the best
    labels found are returned, with their gap; where they allow no labels, those of online passes
    (`streamed`), which need all rows on one rank.
    """
    n, k = source.group.n_total, source.n_clusters
    if bounds.n_samples is None:
        msg = "bounds must be of a known number of samples, got those of a stream"
        raise InvalidValueError(msg)
    if bounds.n_samples != n:
        msg = (
            f"bounds must be of the {n} rows of the source, got those of {bounds.n_samples} "
            f"samples. To fix this, make them with n_samples={n}"
        )
        raise InvalidValueError(msg)
    check_shape("bounds.lower", bounds.lower, (k,))
    check_interval("tol", tol, 0.0, 1.0)
    xp = compat.array_namespace(bounds.lower)
    if prices is not None:
        check_shape("prices", prices, (k,))
        check_finite("prices", prices)
        prices = xp.astype(prices, xp.float64)
    if n:
        source = in_range(source, strided_ids(n, min(n, FEW_ROWS), bounds.lower))
    try:
        found = _solved(source, bounds, prices, tol)
    except ScoresOutOfRangeError:  # a row that the sample did not have
        source = rescaled(source)
        found = _solved(source, bounds, prices, tol)
    return in_unit(found, source.exponent)


def _solved(
    source: ScoreSource, bounds: SizeBounds, prices: Array | None, tol: float
) -> OfflineAssignment:
    """`assign_source` in the unit of the source."""
    n, k = source.group.n_total, source.n_clusters
    xp = compat.array_namespace(bounds.lower)
    if prices is not None:
        prices = times_power_of_two(prices, -source.exponent)
    if n * k <= FULL_ENTRIES:
        return _solve_in_full(source, bounds, prices)
    if prices is None and may_be_free(source, bounds):
        found = _without_prices(source, bounds)
        if found is not None and found.gap <= tol:
            return found
    exact, best = tol == 0.0, None
    box = first_box(source, bounds, prices)
    width = WIDTH if n <= MANY_ROWS else NARROW
    limited, least, good = not exact and n * WIDTH > LISTED_ENTRIES, math.inf, box.prices
    for turn in range(MOST_PASSES):
        if limited:
            if turn >= FEW_PASSES and not exact:
                break
            box, width = _within_memory(source, box, width)
        low, high = box.prices - box.radius, box.prices + box.radius
        try:
            entries = None if exact else LISTED_ENTRIES
            listing = list_open(source, low, high, width=width, entries=entries)
        except ListsTooLongError:
            limited, box = True, PriceBox(box.prices, box.radius / 2.0)
            continue
        hopeless = max(tol, ROUGH) if turn >= PATIENCE and not exact else tol
        found, prices, bound = solve_lists(listing, bounds, box, tol, hopeless=hopeless)
        if bound < least:
            least, good = bound, prices
        if found is not None:
            best = found if best is None or found.gap < best.gap else best
            if found.gap <= tol:
                return found
        n_cut = int(xp.sum(xp.astype(listing.cuts > -math.inf, xp.int64)))
        if n_cut and not limited:
            width *= 2
            limited = not exact and n * width > LISTED_ENTRIES
        limited = limited or (turn > 0 and found is None)
        box = next_box(box, prices, follow=limited)
        del listing, found  # before the next pass makes lists as long
    if best is not None and not exact and n * k > RETRY_ENTRIES:
        return best
    if n * k > LAST_ENTRIES and not exact:
        streamed = assign_streamed(source, bounds, good)
        if streamed is not None:
            return streamed
    return _solve_in_full(source, bounds, prices)


def _without_prices(source: ScoreSource, bounds: SizeBounds) -> OfflineAssignment | None:
    """Best labels of all, if they, with ties broken the right way, are inside the bounds."""
    xp = compat.array_namespace(bounds.lower)
    zero = xp.zeros(bounds.lower.shape, dtype=xp.float64, device=compat.device(bounds.lower))
    try:
        listing = list_open(source, zero, zero, width=WIDTH, entries=LISTED_ENTRIES)
    except ListsTooLongError:
        return None
    return solve_ties(listing, bounds)


def _within_memory(source: ScoreSource, box: PriceBox, width: int) -> tuple[PriceBox, int]:
    """The box, made so narrow that its lists fit into memory, and their width.

    Where most rows tie no box is narrow enough: then only longer lists can help.
    """
    n = source.group.n_total
    rows = source.take(strided_ids(n, min(n, SAMPLE), box.prices))
    wanted = median(box.radius)  # some, that travel, may be much wider
    limit = widest_box(rows, box.prices, n_rows=n, entries=LISTED_ENTRIES, wanted=wanted)
    if limit.radius <= LEAST * wanted:
        return box, 2 * width if 2 * width * n <= LISTED_ENTRIES else width
    narrower = limit.radius / wanted if limit.radius < wanted else 1.0
    return PriceBox(box.prices, narrower * box.radius), limit.width


def _solve_in_full(
    source: ScoreSource, bounds: SizeBounds, prices: Array | None
) -> OfflineAssignment:
    """The optimum from lists of all clusters: for few scores, or where nothing else has helped."""
    xp = compat.array_namespace(bounds.lower)
    listing = list_all(source, like=bounds.lower)
    if prices is None:
        prices = xp.zeros(bounds.lower.shape, dtype=xp.float64, device=compat.device(bounds.lower))
    box = PriceBox(prices, xp.full_like(prices, 2.0 * score_range(listing.values)))
    found, _, _ = solve_lists(listing, bounds, box, 0.0)
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
