r"""Where the best prices can be: learned on samples that grow, with their statistical error.

Problem: a box of prices that holds the optimal ones of ``max sum_i s_{i, y_i}, l_k <= n_k <= u_k``
with high probability, and is small, at a fraction of the cost of one look at all scores.

On m of n rows the bounds are ``(m / n) l_k`` and ``(m / n) u_k``. The counts of a sample scatter by
about ``sqrt(n_k)`` each, and that scatter, through the inverse curvature of the dual, is the error
of the prices (`smoothed_dual.price_errors`). Eight times the rows make it about a third: each level
lists its clusters in the box of the level before. Whether the box was right, the proof of `offline`
says in the end; a wrong one costs time. Where so many clusters nearly tie that lists are often cut,
a wide box hides the clusters that rows have to go to, and prices run away: then the box is made as
narrow as lists can tell clusters apart (`list_widths`), and follows the prices.

=================  ===============  =======  =====================================================
symbol             here             shape    meaning
=================  ===============  =======  =====================================================
:math:`\pi_k`      ``prices``       (k,)     middle of the box, float64, in units of score
:math:`r_k`        ``radius``       (k,)     half its width
:math:`m`          ``n_sample``     ()       rows of a level
=================  ===============  =======  =====================================================
"""

from __future__ import annotations

import math
from typing import NamedTuple

import array_api_compat as compat

from ..bounds.sizes import SizeBounds, relaxed
from ..core.types import Array
from ..scores.sources import ScoreSource, block_rows, score_source, subsample
from ._candidates import Listing, list_open
from ._learning import learn_prices, lift_idle, median, score_range, strided_ids
from ._smoothed_dual import Problem, price_errors, refine_prices
from ._widths import BoxLimit, widest_box

__all__ = ["PriceBox", "first_box", "held_back", "next_box", "problem_of"]

ROWS_PER_CLUSTER, FEWEST_ROWS, GROWTH = 16, 2**12, 8
WIDTH, WIDE_ROWS = 16, 2**18
REACH = 8  # clusters of a row that the first box is to tell apart
PASSES = 4
BORDER = 8.0  # samples a cluster keeps on its borders at least: fewer, and curvature is noise
DEVIATIONS = 4.0
NARROWER, SLOWLY, WIDER = 0.25, 2.0, 4.0
FIRST_TRIES, TRIES = 6, 2  # per level; the first is cheap, and starts from nowhere
KEPT_ENTRIES = 2**24  # scores of a sample that are kept for all passes over it
MOST_ENTRIES = 2**25  # of the lists of a level, at the width that they start with
LISTED_ENTRIES = 2**22  # of a sample's lists, where short ones were not enough
OFTEN = 0.1  # share of the rows with a cut list above which a box moves instead of widening
MOVES, HELD = 30, 0.02  # of such a box; share of the prices that it may still hold back
LEAST = 1e-4  # radius of a box that moves, in ranges of scores: most rows tie where it is smaller
SAMPLE = 1024


class PriceBox(NamedTuple):
    """Prices ``prices - radius`` to ``prices + radius``, (k,) float64 arrays."""

    prices: Array
    radius: Array


def first_box(source: ScoreSource, bounds: SizeBounds, prices: Array | None = None) -> PriceBox:
    """Prices learned on samples, and how far they can be off.

    Parameters
    ----------
    source : ScoreSource
    bounds : SizeBounds of a known number of samples
    prices : (k,) float64 array, optional
        Prices to start from, instead of online passes.

    Returns
    -------
    PriceBox

    Notes
    -----
    Cost: O(m k) for each level of m rows, a fraction of all. Guarantee: none; see the module.
    """
    xp, n, k = compat.array_namespace(bounds.lower), source.group.n_total, source.n_clusters
    m = least = min(n, max(FEWEST_ROWS, ROWS_PER_CLUSTER * k))
    sample = _sample(source, bounds, m)
    if prices is None:
        free = relaxed(bounds)._replace(upper=xp.full_like(bounds.upper, m), n_samples=m)
        prices = learn_prices(sample, free, n_passes=PASSES)
    rows = sample.block(0, min(m, SAMPLE))
    prices = lift_idle(rows, prices, bounds.lower)
    widest = 2.0 * score_range(rows)
    box = PriceBox(prices, _reach(rows, prices))
    while m < n:
        tries = TRIES if m > least else FIRST_TRIES
        box = _refine_on(sample, bounds, box, m / n, tries, widest)
        # A level of nearly all rows would cost as much as they do, and save nothing.
        if 4 * GROWTH * m >= 3 * n or GROWTH * m * WIDTH > MOST_ENTRIES:
            break
        m *= GROWTH
        sample = _sample(source, bounds, m)
    return box


def next_box(box: PriceBox, prices: Array, *, follow: bool = False) -> PriceBox:
    """A box around better prices: wider where they left the last one, narrower elsewhere.

    One of boxes that `follow` prices over several passes widens slowly, so that lists stay short,
    and becomes narrower only once no price is held back: those that travel pull others along.
    """
    xp = compat.array_namespace(prices)
    moved = xp.abs(prices - box.prices)
    outside = moved >= box.radius * (1.0 - 1e-9)
    wider, rest = WIDER, NARROWER * box.radius
    if follow:
        wider = SLOWLY
        if bool(xp.any(outside)):
            rest = xp.clip(box.radius, max=median(box.radius))  # those that have arrived
    return PriceBox(prices, xp.where(outside, wider * xp.maximum(moved, box.radius), rest))


def held_back(listing: Listing, prices: Array) -> Array:
    """Which prices stand at an edge of the box, or beyond, (k,) bool."""
    return (prices <= listing.low) | (prices >= listing.high)


def problem_of(listing: Listing, lower: Array, upper: Array) -> Problem:
    """The lists as a problem of `smoothed_dual`, for bounds in samples, whole or not."""
    xp = compat.array_namespace(lower)
    settled, low, high = (xp.astype(v, xp.float64) for v in (listing.settled, lower, upper))
    return Problem(listing.values, listing.clusters, settled, low, high, listing.low, listing.high)


def _sample(source: ScoreSource, bounds: SizeBounds, m: int) -> ScoreSource:
    """Some rows from all over the data; their scores are kept where they are few."""
    n, k = source.group.n_total, source.n_clusters
    sample = subsample(source, strided_ids(n, m, bounds.lower))
    if m * k > KEPT_ENTRIES:
        return sample
    xp, rows = compat.array_namespace(bounds.lower), block_rows(k)
    blocks = [sample.block(a, min(a + rows, m)) for a in range(0, m, rows)]
    return score_source(xp.concat(blocks))


def _refine_on(
    sample: ScoreSource,
    bounds: SizeBounds,
    box: PriceBox,
    share: float,
    tries: int,
    widest: float,
) -> PriceBox:
    """The box of the best prices, by Newton's method on the lists of a sample.

    A box that holds prices back becomes wider, or, where its lists are often cut, moves.
    """
    xp, m, k = compat.array_namespace(box.prices), sample.group.n_total, sample.n_clusters
    # Counts of m / k samples scatter by the root of that: a smoothing of as many does not show.
    border = max(BORDER, math.sqrt(m / k))
    width = WIDTH if m <= WIDE_ROWS else WIDTH // 2
    lower, upper = (share * xp.astype(v, xp.float64) for v in (bounds.lower, bounds.upper))
    moves = 0
    while True:
        low, high = box.prices - box.radius, box.prices + box.radius
        listing = list_open(sample, low, high, width=width)
        problem = problem_of(listing, lower, upper)
        start = max(float(xp.mean(box.radius)) / 4.0, 1e-290)  # it, and parts of it, divide
        found = refine_prices(problem, box.prices, start=start, border=border)
        held = held_back(listing, found.prices)
        n_held = int(xp.sum(xp.astype(held, xp.int64)))
        if n_held == 0:
            break
        if moves == 0 and _often_cut(listing, m):
            limit = _limit(sample, box.prices)
            if limit.radius > LEAST * widest:
                moves, width = 1, limit.width  # what was found is of no use
                box = PriceBox(box.prices, xp.clip(box.radius, max=limit.radius))
                continue
        if moves:
            if moves > (MOVES if m <= WIDE_ROWS else tries) or n_held < HELD * k:
                break
            box, moves = next_box(box, found.prices, follow=True), moves + 1
            limit = _limit(sample, box.prices)
            if limit.radius <= LEAST * widest:  # most rows tie here: no box tells them apart
                break
            width, middle = limit.width, median(box.radius)
            box = box._replace(radius=box.radius * (min(limit.radius, widest) / middle))
            continue
        tries -= 1
        if tries == 0:
            break
        box = PriceBox(found.prices, _widened(box, held, widest))
    errors = price_errors(problem, found, share)
    radius = DEVIATIONS * errors + 2.0 * found.temperature
    return PriceBox(found.prices, xp.where(held, _widened(box, held, widest), radius))


def _often_cut(listing: Listing, m: int) -> bool:
    """Whether lists hide the clusters that rows have to go to."""
    xp = compat.array_namespace(listing.cuts)
    return int(xp.sum(xp.astype(listing.cuts > -math.inf, xp.int64))) > OFTEN * m


def _limit(sample: ScoreSource, prices: Array) -> BoxLimit:
    """What lists of a sample can tell apart around these prices."""
    m = sample.group.n_total
    rows = sample.block(0, min(m, SAMPLE))
    return widest_box(rows, prices, n_rows=m, entries=LISTED_ENTRIES)


def _widened(box: PriceBox, held: Array, widest: float) -> Array:
    """Radius of a box that held some prices back: no farther than scores differ."""
    xp = compat.array_namespace(held)
    wider = xp.clip(WIDER * box.radius, max=max(widest, float(xp.max(box.radius))))
    return xp.where(held, wider, box.radius)


def _reach(scores: Array, prices: Array) -> Array:
    """Radius within which a row tells apart about `REACH` clusters, the same for all."""
    xp = compat.array_namespace(prices)
    # A forbidden pair is as far as a row can tell: finite, so that the difference is a number.
    floor = xp.min(xp.where(xp.isfinite(scores), scores, xp.zeros_like(scores)))
    priced = xp.astype(xp.maximum(scores, floor), xp.float64) + prices
    falling = xp.sort(priced, axis=1, descending=True)[:, : min(REACH + 1, prices.shape[0])]
    apart = falling[:, 0] - falling[:, -1]
    least = 1e-6 * score_range(scores)
    return xp.full_like(prices, max(median(apart) / 2.0, least))
