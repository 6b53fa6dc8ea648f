r"""Shares, prices and the bound of the linear program of loads: the passes of `assignment`.

Problem: minimize over the prices of a unit of load

``D(pi) = sum_i max_k (s_ik + w_i pi_k) - sum_k (L_k pi_k^+ - U_k pi_k^-)``,

which no labels with loads inside are worth more than. Rows of sizes w are rows of size 1 with the
scores ``s_i / w_i``, each w_i times, so that the parts of the plain solver do the work on a
*sample by size*: rows drawn evenly from the running sum of the sizes.

1. *Region*: prices and their errors, learned as in the plain problem from a sample by size, or
   around prices that are given.
2. *Candidates* of one pass over the scores with prices added, in units of size.
3. *Newton's method* on the rows that are left, as a sample by size; loads of the others are exact.
4. *Program*: a corner by HiGHS of the rows that nearly tie, with more rows and pairs until no
   candidate is worth more. Prices stay in the region, because what is missing can be bought there.
5. *Proof*: D in a pass over all scores. Where the program gains less, the next region is wider.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import array_api_compat as compat

from ...bounds.loads import loads_of
from ...bounds.sizes import SizeBounds
from ...core.errors import InvalidValueError
from ...core.reads import read
from ...core.segments import segment_counts
from ...core.types import Array
from ...scores.blocks import row_blocks
from ...scores.sources import subsample
from ...scores.statistics import PART_ROWS, lead, places_of, scores_at, strided_ids
from .._all_scores import losses
from .._candidates import TrustRegion, all_candidates, collect_candidates
from .._proof import rounding_of
from .._smoothed_dual import RefinedPrices, SmoothedDual, refine_prices
from .._trust_region import initial_region
from ._corners import BestCorner, FreeRows, best_corner
from ._infeasible import check_shares_exist
from ._problem import Problem, in_size
from ._program import Shared

__all__ = ["Found", "solved"]

SMALL, FULL = 2**12, 2**18
"""Scores up to which the program has them all, and up to which rows keep all clusters."""

WIDTH, GROWTH, MOST_PASSES = 16, 4, 12
"""Candidates of a row at first, their growth where some were cut off, and passes before all rows
keep all clusters."""

CLAMPED, WIDEN, NARROW = 1.0 - 1e-9, 4.0, 0.5
"""Share of the radius from which on a price is clamped, and what happens to the radius of a price
that was, and that was not. Where rows keep all clusters, all radii of Newton's method are wider."""

TEMPERATURE, REHEATED, ON_BORDER = 0.03125, 4.0, 4.0
"""First temperature of Newton's method in mean radii, that of the second time in units of the last
one, and rows of each cluster that nearly tie where it ends."""

WINDOW, NO_WINDOW = 8.0, 2.0**200
"""Lead of rows that the program has at first, in units of the last temperature, and one that all
rows have, whose products with sizes are finite."""

FREE_SHARE = 0.1
"""Share of the rows that are left around prices that are given."""

PROGRAM_GAP = 1e-9
"""Of the sum of absolute scores: what the program's shares may lack where it counts as solved."""


class Found(NamedTuple):
    """A corner of the program, and its proof.

    Labels are those of the largest share. `bound` is what no labels with loads inside are worth
    more than, `objective` what these are worth, and `size` the sum of their absolute scores.
    """

    labels: Array
    shared: list[Shared]
    prices: Array
    objective: float
    size: float
    bound: float
    is_solved: bool


def solved(problem: Problem, prices: Array | None) -> Found:
    """Steps 1 to 5: a corner of the program, and the proof that it is the best."""
    n, k = problem.source.group.n_total, problem.source.n_clusters
    region, width, n_passes = _first_region(problem, prices), WIDTH, 0
    while True:
        is_whole = n * k <= FULL or n_passes >= MOST_PASSES or k == 1
        done, is_truncated = _pass(problem, region, None if is_whole else width)
        if not done.is_stuck:
            found = _proven(problem, done)
            if found.is_solved or is_whole:
                return found
        elif is_whole or n_passes == 0:
            check_shares_exist(problem.source, problem.sizes, problem.lower, problem.upper)
            if is_whole and prices is not None:  # given ones, which are too far off to leave digits
                return solved(problem, None)
            if is_whole:
                msg = (
                    "bounds must be wider than 1e-7 of the largest size, got some that HiGHS "
                    "cannot tell from others. To fix this, widen them"
                )
                raise InvalidValueError(msg)
        n_passes += 1
        width = GROWTH * width if is_truncated else width
        region = _next_region(region, done.prices)


def _is_clamped(region: TrustRegion, prices: Array) -> Array:
    """Which prices are at an end of the region, (k,) bool."""
    xp = compat.array_namespace(prices)
    return xp.abs(prices - region.center) >= CLAMPED * region.radius


def _next_region(region: TrustRegion, prices: Array) -> TrustRegion:
    """Around better prices: wider where they were clamped, else narrower."""
    xp, radius = compat.array_namespace(prices), region.radius
    is_clamped = _is_clamped(region, prices)
    return TrustRegion(prices, xp.where(is_clamped, WIDEN * radius, NARROW * radius))


def _by_size(sizes: Array, m: int) -> Array:
    """Return m rows drawn evenly from the running sum of the sizes, (m,) int64."""
    xp = compat.array_namespace(sizes)
    ends = xp.cumulative_sum(sizes)
    steps = xp.arange(m, dtype=xp.float64, device=compat.device(sizes)) + 0.5
    places = xp.searchsorted(ends, steps * (ends[-1] / m))
    return xp.clip(xp.astype(places, xp.int64), max=sizes.shape[0] - 1)


def _first_region(problem: Problem, prices: Array | None) -> TrustRegion:
    """Step 1: prices and how far they may be off."""
    xp, k = compat.array_namespace(problem.lower), problem.source.n_clusters
    n, zero = problem.source.group.n_total, xp.zeros_like(problem.lower)
    start = zero if prices is None else prices
    (total,) = read(xp.sum(problem.sizes))
    if n * k <= SMALL or k == 1 or total == 0.0:
        return TrustRegion(start, zero + 1.0)
    if prices is None:
        drawn = subsample(in_size(problem, None), _by_size(problem.sizes, n))
        low, high = (n / total * b for b in (problem.lower, problem.upper))
        low = xp.clip(xp.astype(xp.floor(low), xp.int64), min=0)
        high, device = xp.astype(xp.ceil(high), xp.int64), compat.device(low)
        try:
            counts = SizeBounds.from_counts(low, high, n_samples=n, xp=xp, device=device)
            return initial_region(drawn, counts)
        except InvalidValueError:  # of a sample; what is wrong with all rows, the passes say
            pass
    some = in_size(problem, start).take(strided_ids(n, min(n, 2**12), zero))
    return TrustRegion(start, zero + 0.5 * lead(some, FREE_SHARE))


class _Lists(NamedTuple):
    """Labels at the prices, which rows have several candidates, these, and whether some are cut."""

    labels: Array
    is_free: Array
    names: Array
    is_truncated: bool


def _lists(problem: Problem, region: TrustRegion, width: int | None) -> _Lists:
    """Step 2: candidates, without their scores, which are in units of size there."""
    xp, (center, radius) = compat.array_namespace(region.center), region
    if width is None:
        found = all_candidates(problem.source, like=center)
    else:
        width = min(width, problem.source.n_clusters)
        found = collect_candidates(in_size(problem, center), -radius, radius, width=width)
    most = 1
    if found.clusters.shape[0]:  # those of a row come first
        most = int(xp.max(xp.sum(xp.astype(found.clusters >= 0, xp.int64), axis=1)))
    names = xp.astype(found.clusters[:, :most], xp.int64)
    labels = xp.astype(found.labels, xp.int64)
    return _Lists(labels, found.is_free, names, bool(xp.any(found.is_truncated)))


def _pass(problem: Problem, region: TrustRegion, width: int | None) -> tuple[BestCorner, bool]:
    """Steps 2 to 4: a corner of all rows, and whether some have lost candidates to the width.

    Without a width all clusters are candidates of all rows.
    """
    xp, (prices, radius) = compat.array_namespace(problem.lower), region
    labels, is_free, names, is_truncated = _lists(problem, region, width)
    rows = places_of(is_free)
    alone = xp.where(is_free, xp.zeros_like(problem.sizes), problem.sizes)
    fixed = loads_of(alone, labels, problem.source.n_clusters)
    if not rows.shape[0]:
        moves = xp.where(fixed < problem.lower, radius, xp.zeros_like(radius))
        moves = xp.where(fixed > problem.upper, -radius, moves)
        found = BestCorner(labels, [], prices + moves, bool(xp.any(moves != 0.0)))
        return found, is_truncated
    values, sizes = scores_at(problem.source, rows, names), xp.take(problem.sizes, rows)
    free = FreeRows(names, values, sizes, fixed, problem.lower, problem.upper)
    box, window = None if width is None else region.box, NO_WINDOW
    if width is None:
        region = region._replace(radius=WIDEN * radius)
    if width is not None or math.prod(values.shape) > SMALL:
        prices, window = _newton(free, xp.take(problem.divisors, rows), region)
    if width is not None and bool(xp.any(_is_clamped(region, prices))):
        return BestCorner(labels, [], prices, True), is_truncated
    found = best_corner(free, prices, window, box)
    place = xp.clip(xp.cumulative_sum(xp.astype(is_free, xp.int64)) - 1, min=0)
    labels = xp.where(is_free, xp.take(found.clusters, place), labels)
    shared = [row._replace(row=int(rows[row.row])) for row in found.shared]
    return found._replace(clusters=labels, shared=shared), is_truncated


def _newton(free: FreeRows, divisors: Array, region: TrustRegion) -> tuple[Array, float]:
    """Step 3: prices, and the lead in units of size up to which rows nearly tie there."""
    xp, (m, _) = compat.array_namespace(free.values), free.values.shape
    (total,) = read(xp.sum(free.sizes))
    if total == 0.0:
        return region.center, 0.0
    drawn, rate = _by_size(free.sizes, m), m / total
    low, high = region.box
    dual = SmoothedDual(
        values=xp.take(free.values, drawn, axis=0) / xp.take(divisors, drawn)[:, None],
        clusters=xp.astype(xp.take(free.names, drawn, axis=0), xp.int32),
        fixed_counts=rate * free.fixed,
        lower=rate * free.lower,
        upper=rate * free.upper,
        low=low,
        high=high,
    )
    (mean,) = read(xp.mean(region.radius))
    k, least = region.center.shape[0], math.inf
    refined = RefinedPrices(region.center, TEMPERATURE * mean)
    for times in (1.0, REHEATED):
        # Loads at these prices are those of all rows: only what changes is that of a sample.
        labels = free.at(xp.argmax(free.priced(refined.prices), axis=1))
        some = segment_counts(xp.take(labels, drawn), n_segments=k)
        known = rate * (free.fixed + loads_of(free.sizes, labels, k))
        dual = dual._replace(fixed_counts=known - xp.astype(some, xp.float64))
        begun = times * refined.temperature
        refined = refine_prices(dual, refined.prices, start=begun, fractional=ON_BORDER * k)
        least = min(least, refined.temperature)
    return refined.prices, WINDOW * least


def _proven(problem: Problem, done: BestCorner) -> Found:
    """Step 5: the dual value, from what rows lose by these labels and prices pay for loads."""
    xp, prices = compat.array_namespace(done.prices), done.prices

    def of_part(scores: Array, start: int, stop: int) -> list[float]:
        added = problem.sizes[start:stop, None] * prices
        lost, own = losses(scores, added, done.clusters[start:stop])
        return read(xp.sum(lost), xp.sum(own), xp.sum(xp.abs(own)))

    def of_block(start: int, stop: int) -> list[float]:
        scores = problem.source.block(start, stop)
        edges = row_blocks(stop - start, PART_ROWS, at_least_one=True)
        parts = [of_part(scores[a:b, :], start + a, start + b) for a, b in edges]
        return [math.fsum(column) for column in zip(*parts, strict=True)]

    blocks = list(problem.source.map_blocks(of_block, like=prices, at_least_one=True))
    lost, objective, size = (math.fsum(part) for part in zip(*blocks, strict=True))
    loads = loads_of(problem.sizes, done.clusters, prices.shape[0])
    paid = xp.where(
        prices > 0.0, prices * (loads - problem.lower), -prices * (problem.upper - loads)
    )
    # Bounds are 2^-40 of all sizes wider than those given, which pays for rounding.
    (slack,) = read(xp.sum(paid))
    lost += slack
    moved = math.fsum(
        share * value
        for row in done.shared
        for share, value in zip(row.shares, row.values, strict=True)
    )
    own = math.fsum(row.values[row.shares.index(max(row.shares))] for row in done.shared)
    is_solved = lost - (moved - own) <= PROGRAM_GAP * size
    bound = objective + lost + rounding_of(abs(lost))
    return Found(done.clusters, done.shared, prices, objective, size, bound, is_solved)
