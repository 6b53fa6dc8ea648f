r"""Where the best prices can be: a trust region, learned on samples that grow.

Problem: a region of prices that holds the optimal ones of ``max sum_i s_{i, y_i}``,
``l_k <= n_k <= u_k`` with high probability, and is small, at a fraction of the cost of a pass over
all scores. On m of n rows the bounds are ``(m / n) l_k`` and ``(m / n) u_k``.

1. *Start* on a small sample: prices by online passes (`_online_prices`) or as given, and a radius
   within which a typical row tells a few clusters apart.
2. *Refine* on the sample: collect the candidates of the region, and run Newton's method on the
   smoothed dual inside it.
3. *Accept* prices of which none is clamped, that is at a bound of the region, or few on a sample
   after the first: these keep their radius. The errors of the others make the next radius
   (`price_errors`). A region that held all prices of a sample after the first is wide enough: where
   hardly a row is fractional, errors are what was known before, times deviations.
4. *Grow* the region otherwise where it clamps prices, and repeat 2, from a temperature at which the
   other prices stay where they are.
5. *Move* it instead where candidates are often truncated. So many clusters nearly tie there that a
   large region hides the clusters that rows have to go to, and prices diverge: the region becomes
   as small as candidates can tell clusters apart (`_region_from_rows`), and follows the prices.
6. *Repeat* from 2 on a sample of eight times the rows, where the error is about a third, until a
   sample would cost as much as all rows do. The average of one online pass over the sample takes
   the place of 2 to 5 (`_online_prices`), unless it is in doubt, as after a region that clamped
   prices or moved, or no engine passes over rows on this library.

Whether the region was right, the proof says in the end; a wrong one costs time.

=================  ===============  =========  ====================================================
symbol             here             shape      meaning
=================  ===============  =========  ====================================================
:math:`\pi_k`      ``center``       (k,)       of the region, float64, in units of score
:math:`r_k`        ``radius``       (k,)       half its width
:math:`m`          ``m``            ()         rows of a sample
=================  ===============  =========  ====================================================
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import array_api_compat as compat

from ..bounds.sizes import SizeBounds
from ..core.random import random_signs
from ..core.types import Array
from ..scores.sources import ScoreSource, subsample
from ..scores.statistics import kept_in_memory, median, score_range, strided_ids
from ._candidates import GROWTH, Candidates, TrustRegion, collect_candidates, next_region
from ._near_host import beside, is_dense, near_host
from ._online_prices import averaged_region, learn_prices, passes_are_fast
from ._options import DEFAULT_OPTIONS, SolverOptions
from ._region_from_rows import initial_radius, largest_radius, repair_prices
from ._smoothed_dual import (
    LEAST_TEMPERATURE,
    RefinedPrices,
    SmoothedDual,
    evaluate,
    linear_solver,
    refine_prices,
)

__all__ = ["initial_region", "price_errors"]

SAMPLE_PART = 4
"""What part of all rows the first sample is at most, where clusters ask for no more."""

SAMPLE_GROWTH = 8
"""Rows of a sample over those of the one before: the error of the prices falls to a third."""

KEPT_SCORES = 2**24
"""Scores of a sample up to which they are kept for all passes over it: 64 MiB of float32."""

TEMPERATURE = 0.25
"""First temperature on a sample, in mean radii. At 1 a mixture takes four times as long, at a
sixteenth twice (benchmarks/results/ablation.md)."""

ATTEMPTS, MOVES = 6, 10
"""Regions tried on one sample that grow, and that move."""

LEAST_FRACTIONAL = 8.0
"""Fractional rows per cluster at which a small sample is solved: the errors of its prices are found
from these rows, and from fewer come out too small. Normal rows in 200 clusters take 1.8 times as
long without (docs/decisions/0080-fewer-numbers.md)."""

OFTEN_TRUNCATED = 0.5
"""Share of the rows with truncated candidates above which the region moves, not grows: at a tenth,
regions of heavy tails move for nothing (benchmarks/results/ablation.md)."""

DRAWS, KEY = 8, 0
"""Draws of the scatter of counts, and their seed."""

FAR_INSIDE = 4.0
"""Standard deviations of a count: so far from its bounds it does not leave them."""


class _Sample(NamedTuple):
    """A part of all rows as a problem of its own; nothing of it changes while it is solved.

    Bounds are in rows, and may be fractions of one; `max_radius` is in units of score. As many
    prices as `few` may be clamped by a region that is right for the others.
    """

    source: ScoreSource
    share: float
    lower: Array
    upper: Array
    max_radius: float
    few: float


class _Attempt(NamedTuple):
    """The region to be tried next, and from which temperature; and what has been tried before."""

    region: TrustRegion
    width: int
    n_tried: int = 1
    n_moves: int = 0
    temperature: float = math.inf


class _Refined(NamedTuple):
    """What a sample says about a region; steps 3 to 5 judge it."""

    candidates: Candidates
    problem: SmoothedDual
    refined: RefinedPrices
    clamped: Array
    n_clamped: int


def initial_region(
    source: ScoreSource,
    bounds: SizeBounds,
    prices: Array | None = None,
    options: SolverOptions = DEFAULT_OPTIONS,
    *,
    is_over: Callable[[], bool] = lambda: False,
) -> TrustRegion:
    """Learn prices on samples, and how far they can be off.

    Parameters
    ----------
    source : ScoreSource
    bounds : SizeBounds of a known number of samples
    prices : (k,) float64 array, optional
        Prices to start from, instead of online passes.
    options : SolverOptions
    is_over : callable, optional
        Asked between samples: whether the time is up.

    Returns
    -------
    TrustRegion

    Notes
    -----
    Cost: O(m k) for each sample of m rows, a fraction of all. Guarantee: none; see the module.
    """
    n, k = source.group.n_total, source.n_clusters
    ids = (strided_ids(n, m, bounds.lower) for m in _sample_sizes(n, k, options))
    first, *larger = (subsample(source, some) for some in ids)
    # Step 1: start.
    before, rows_of_sample = first.group.n_total, _kept(first, bounds)
    some_rows = rows_of_sample.block(0, min(before, options.typical_rows))
    scale = score_range(some_rows)
    if prices is None:
        prices = learn_prices(rows_of_sample, bounds, options, scale=scale)
    prices = repair_prices(some_rows, prices, bounds)
    max_radius = 2.0 * scale
    region = TrustRegion(prices, initial_radius(some_rows, prices, scale=scale))
    if before == n or is_over():
        return region
    sample = _sample(rows_of_sample, bounds, n, max_radius, 0.0)  # no price is right at first
    region = _refine_on(sample, region, options)
    for rows in larger:  # step 6
        if is_over():
            break
        averaged = None
        if passes_are_fast(bounds.lower):
            averaged = averaged_region(rows, bounds, region, before)
        if averaged is not None:
            region = averaged
        else:
            sample = _sample(_kept(rows, bounds), bounds, n, max_radius, options.edge_share * k)
            region = _refine_on(sample, region, options)
        before = rows.group.n_total
    return region


def _sample_sizes(n: int, k: int, options: SolverOptions) -> list[int]:
    """Rows of the samples: one of nearly all rows would cost as much as they do, and save nothing.

    There is one sample at least, which may have all rows.
    """
    few = min(options.min_sample_rows, n // SAMPLE_PART)
    sizes = [min(n, max(few, options.sample_rows_per_cluster * k))]
    while True:
        m = SAMPLE_GROWTH * sizes[-1]
        if 4 * m >= 3 * n or m * options.sample_width > options.sample_entries:
            return sizes
        sizes.append(m)


def _sample(
    rows_of_sample: ScoreSource, bounds: SizeBounds, n: int, max_radius: float, few: float
) -> _Sample:
    """A sample of n rows as a problem of its own, with its share of the bounds."""
    xp, share = compat.array_namespace(bounds.lower), rows_of_sample.group.n_total / n
    lower, upper = (share * xp.astype(v, xp.float64) for v in (bounds.lower, bounds.upper))
    return _Sample(rows_of_sample, share, lower, upper, max_radius, few)


def _kept(sample: ScoreSource, bounds: SizeBounds) -> ScoreSource:
    """A sample whose scores are kept where they are few: they are read several times."""
    is_small = sample.group.n_total * sample.n_clusters <= KEPT_SCORES
    return kept_in_memory(sample, like=bounds.lower) if is_small else sample


def _refine_on(sample: _Sample, region: TrustRegion, options: SolverOptions) -> TrustRegion:
    """Steps 2 to 5: the region of the best prices."""
    xp = compat.array_namespace(region.center)
    following: _Attempt | None = _Attempt(region, options.sample_width)
    while following is not None:
        attempt = following
        found = _refined(sample, attempt)  # step 2
        following = _next_attempt(sample, attempt, found, options)  # steps 3 to 5
    errors = price_errors(found.problem, found.refined, sample.share)
    radius, held = options.deviations * errors + 2.0 * found.refined.temperature, attempt.region
    # More rows than the first sample's tell no less than the region that held their prices.
    if sample.few and found.n_clamped == 0:
        radius = xp.minimum(radius, held.radius)
    return TrustRegion(found.refined.prices, xp.where(found.clamped, held.radius, radius))


def _refined(sample: _Sample, attempt: _Attempt) -> _Refined:
    """Step 2: the best prices in the region, and which of them it clamps."""
    region, m = attempt.region, sample.source.group.n_total
    xp, k = compat.array_namespace(region.center), sample.source.n_clusters
    candidates = collect_candidates(sample.source, *region.box, width=attempt.width)
    problem = candidates.smoothed_dual(sample.lower, sample.upper)
    start = float(xp.mean(region.radius)) * TEMPERATURE
    # Prices of an attempt before this one are best already, but for those that it clamped.
    start = max(min(start, attempt.temperature), LEAST_TEMPERATURE)
    # Counts of m / k rows scatter by the root of that: a smoothing of as many does not show.
    fractional = max(math.sqrt(m * k), LEAST_FRACTIONAL * (1.0 - sample.share) * k)
    refined = refine_prices(problem, region.center, start=start, fractional=fractional)
    clamped = candidates.clamped(refined.prices)
    n_clamped = int(xp.sum(xp.astype(clamped, xp.int64)))
    return _Refined(candidates, problem, refined, clamped, n_clamped)


def _next_attempt(
    sample: _Sample, attempt: _Attempt, found: _Refined, options: SolverOptions
) -> _Attempt | None:
    """Steps 3 to 5: the next attempt, or None to end with what this one has found."""
    prices, few = found.refined.prices, sample.few
    if found.n_clamped == 0:  # step 3: accept
        return None
    if attempt.n_moves:  # step 5: move on
        few = options.edge_share * sample.source.n_clusters
        if attempt.n_moves > MOVES or found.n_clamped < few:
            return None
        return _small(sample, attempt, next_region(attempt.region, prices, is_moving=True), options)
    if found.candidates.truncated_share(sample.source.group.n_total) > OFTEN_TRUNCATED:
        return _small(sample, attempt, attempt.region, options)  # the prices are of no use
    if attempt.n_tried == ATTEMPTS or found.n_clamped <= few:
        return None
    grown = TrustRegion(prices, _grown(attempt.region, found.clamped, sample.max_radius))  # step 4
    n_tried, temperature = attempt.n_tried + 1, found.refined.temperature
    return attempt._replace(region=grown, n_tried=n_tried, temperature=temperature)


def _small(
    sample: _Sample, attempt: _Attempt, region: TrustRegion, options: SolverOptions
) -> _Attempt | None:
    """Step 5: the region as large as candidates can tell clusters apart; None if all rows tie."""
    m = sample.source.group.n_total
    rows = sample.source.block(0, min(m, options.typical_rows))
    limit = largest_radius(rows, region.center, n_rows=m, max_entries=options.max_entries)
    if limit.radius == 0.0:
        return None
    share = min(limit.radius, sample.max_radius) / median(region.radius)
    region = TrustRegion(region.center, share * region.radius)
    return _Attempt(region, limit.width, n_moves=attempt.n_moves + 1)


def _grown(region: TrustRegion, clamped: Array, max_radius: float) -> Array:
    """Step 4: the radius, larger for clamped prices, but no larger than scores differ."""
    xp = compat.array_namespace(clamped)
    most = max(max_radius, float(xp.max(region.radius)))
    return xp.where(clamped, xp.clip(GROWTH * region.radius, max=most), region.radius)


def price_errors(problem: SmoothedDual, found: RefinedPrices, share: float) -> Array:
    """Return how far prices learned on a sample are off, as a standard deviation per cluster.

    Counts of a sample scatter by about ``sqrt(n_k)``, and a scatter dn of the counts moves the
    prices by ``curvature^-1 dn``. The result is the root mean square over a few draws of signs. It
    is never below the mean of all clusters, and never far above the radius of the box, which enters
    as the standard deviation known before.

    Parameters
    ----------
    problem : SmoothedDual
    found : RefinedPrices
        Of `refine_prices`, with some rows left fractional.
    share : float in [0, 1]
        Share of all samples that the sample has: 1 leaves no error.

    Returns
    -------
    (k,) float64 array, in units of score
    """
    xp, problem = compat.array_namespace(found.prices), near_host(problem)
    (prices,) = beside(problem.low, found.prices)
    point = evaluate(problem, prices, found.temperature)
    scatter = xp.sqrt(xp.clip(point.counts, min=1.0) * (1.0 - share))
    # Bounds hold a price near 0 only as long as counts stay inside them, and these scatter.
    inside = xp.minimum(point.counts - problem.lower, problem.upper - point.counts)
    corner = xp.where(inside > FAR_INSIDE * scatter, point.corner, xp.zeros_like(prices))
    point = point._replace(corner=corner)
    known = float(xp.mean((problem.high - problem.low) / 2.0))
    known = max(known, 2.0**-52 * point.temperature)  # a region may have no extent at all
    prior = point.temperature * xp.mean(scatter) / known
    ones = xp.ones_like(prices)
    solve = linear_solver(point, ones, prior * ones, problem)
    k, device, total = prices.shape[0], compat.device(prices), xp.zeros_like(prices)
    draws = random_signs((DRAWS, k), key=KEY, xp=xp, device=device) * scatter
    draws = draws - xp.stack([xp.mean(draws[i, :]) for i in range(DRAWS)])[:, None]
    together = is_dense(k, like=problem.values)
    moves = solve(draws) if together else xp.stack([solve(draws[i, :]) for i in range(DRAWS)])
    unit = xp.max(xp.abs(moves))  # of squares that would overflow or vanish
    unit = xp.where((unit == 0.0) | ((1e-150 < unit) & (unit < 1e150)), xp.ones_like(unit), unit)
    for i in range(DRAWS):
        total = total + (moves[i, :] / unit) * (moves[i, :] / unit)
    square = total / DRAWS
    return beside(found.prices, unit * xp.sqrt(xp.maximum(square, xp.mean(square))))[0]
