r"""Where the best prices can be: a trust region, learned on samples that grow.

Problem: a region of prices that holds the optimal ones of ``max sum_i s_{i, y_i}``,
``l_k <= n_k <= u_k`` with high probability, and is small, at a fraction of the cost of one look at
all scores. On m of n rows the bounds are ``(m / n) l_k`` and ``(m / n) u_k``.

1. *Start* on a small sample: prices by online passes (`_online_passes`) or as given, and a radius
   within which a typical row tells a few clusters apart.
2. *Refine* on the sample: collect the candidates of the region, and run Newton's method on the
   smoothed dual inside it.
3. *Accept* prices of which none stands at the edge, or few on a sample after the first: these keep
   their radius. The counts of a sample scatter by about ``sqrt(n_k)`` each; that scatter, through
   the inverse curvature of the dual, is the error of the prices (`_smoothed_dual.price_errors`) and
   makes the next radius. A region that held all prices of a sample after the first is wide enough:
   where hardly a row lies near a border, errors are what was known before, times deviations.
4. *Grow* the region otherwise where prices stand at its edge, and repeat 2, from a temperature at
   which the other prices stay where they are.
5. *Move* it instead where candidates are often truncated. So many clusters nearly tie there that a
   large region hides the clusters that rows have to go to, and prices run away: the region becomes
   as small as candidates can tell clusters apart (`_region_from_rows`), and follows the prices.
6. *Repeat* from 2 on a sample of eight times the rows, where the error is about a third, until a
   sample would cost as much as all rows do. Once prices were accepted without an edge or a move,
   the average of one online pass over the sample takes the place of 2 to 5 (`_averaged_prices`),
   unless it is in doubt, or no engine passes over rows on this library.

Whether the region was right, the proof says in the end; a wrong one costs time.

=================  ===============  =========  ====================================================
symbol             here             shape      meaning
=================  ===============  =========  ====================================================
:math:`\pi_k`      ``center``       (k,)       of the region, float64, in units of score
:math:`r_k`        ``radius``       (k,)       half its width
:math:`m`          ``n_sample``     ()         rows of a sample
=================  ===============  =========  ====================================================
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import array_api_compat as compat

from ..bounds.sizes import SizeBounds
from ..core.types import Array
from ..online.assignment import relaxed
from ..scores.sources import ScoreSource, subsample
from ..scores.statistics import kept_in_memory, median, score_range, strided_ids
from ._averaged_prices import averaged_region, passes_are_fast
from ._candidates import Candidates, TrustRegion, collect_candidates, next_region
from ._cooling import COOLING, LEAST_TEMPERATURE, refine_prices
from ._online_passes import learn_prices
from ._options import DEFAULT_OPTIONS, SolverOptions
from ._region_from_rows import RegionLimit, brought_near, initial_radius, largest_radius
from ._smoothed_dual import Problem, RefinedPrices, price_errors

__all__ = ["initial_region"]


class _Sample(NamedTuple):
    """A part of all rows as a problem of its own; nothing of it changes while it is solved.

    Bounds are in samples, and may be fractions of one; `max_radius` is in units of score. As many
    prices as `few` may stand at the edge of a region that is right for the others.
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
    n_left: int
    n_moves: int
    temperature: float


class _Look(NamedTuple):
    """What a sample says about a region; steps 3 to 5 judge it."""

    candidates: Candidates
    problem: Problem
    refined: RefinedPrices
    at_edge: Array


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
    before, rows_of_sample = first.group.n_total, _kept(first, bounds, options)
    prices = _learned(rows_of_sample, bounds, options) if prices is None else prices
    some_rows = rows_of_sample.block(0, min(before, options.range_rows))
    prices = brought_near(some_rows, prices, bounds)
    max_radius = 2.0 * score_range(some_rows)
    region = TrustRegion(prices, initial_radius(some_rows, prices, options))
    if before == n or is_over():
        return region
    sample = _sample(rows_of_sample, bounds, n, max_radius, 0.0)  # no price is right at first
    region, is_tied, is_settled = _refine_on(sample, region, options.initial_attempts, options)
    for rows in larger:  # step 6
        if is_tied or is_over():
            break
        averaged = None
        if is_settled and passes_are_fast(bounds.lower):
            averaged = averaged_region(rows, bounds, region, before, options=options)
        if averaged is not None:
            region = averaged
        else:
            rows_of_sample = _kept(rows, bounds, options)
            sample = _sample(rows_of_sample, bounds, n, max_radius, options.edge_share * k)
            region, is_tied, is_settled = _refine_on(sample, region, options.attempts, options)
        before = rows.group.n_total
    return region


def _sample_sizes(n: int, k: int, options: SolverOptions) -> list[int]:
    """Rows of the samples: one of nearly all rows would cost as much as they do, and save nothing.

    There is one sample at least, which may have all rows.
    """
    few = min(options.min_sample_rows, n // options.sample_part)
    sizes = [min(n, max(few, options.sample_rows_per_cluster * k))]
    while True:
        m = options.sample_growth * sizes[-1]
        if 4 * m >= 3 * n or m * _width(m, options) > options.sample_entries:
            return sizes
        sizes.append(m)


def _learned(rows_of_sample: ScoreSource, bounds: SizeBounds, options: SolverOptions) -> Array:
    """Prices of online passes over the first sample."""
    xp, m = compat.array_namespace(bounds.lower), rows_of_sample.group.n_total
    free = relaxed(bounds)._replace(upper=xp.full_like(bounds.upper, m), n_samples=m)
    return learn_prices(rows_of_sample, free, n_passes=options.online_passes, options=options)


def _sample(
    rows_of_sample: ScoreSource, bounds: SizeBounds, n: int, max_radius: float, few: float
) -> _Sample:
    """A sample of n rows as a problem of its own, with its share of the bounds."""
    xp, share = compat.array_namespace(bounds.lower), rows_of_sample.group.n_total / n
    lower, upper = (share * xp.astype(v, xp.float64) for v in (bounds.lower, bounds.upper))
    return _Sample(rows_of_sample, share, lower, upper, max_radius, few)


def _kept(sample: ScoreSource, bounds: SizeBounds, options: SolverOptions) -> ScoreSource:
    """A sample whose scores are kept where they are few: they are looked at several times."""
    if sample.group.n_total * sample.n_clusters > options.kept_entries:
        return sample
    return kept_in_memory(sample, like=bounds.lower)


def _width(m: int, options: SolverOptions) -> int:
    """Return how many candidates a row of a sample of m rows has: fewer, once prices are known."""
    if m <= options.full_width_rows:
        return options.sample_width
    return max(2, options.sample_width // (4 if m <= options.large_pass_rows else 8))


def _refine_on(
    sample: _Sample, region: TrustRegion, n_attempts: int, options: SolverOptions
) -> tuple[TrustRegion, bool, bool]:
    """Steps 2 to 5: the region of the best prices, whether all rows tie, and whether it is settled.

    It is if it did not move, and no price stands at its edge.
    """
    xp, m = compat.array_namespace(region.center), sample.source.group.n_total
    attempt = _Attempt(
        region, _width(m, options), n_left=n_attempts, n_moves=0, temperature=math.inf
    )
    is_last = False
    while not is_last:
        look = _refined(sample, attempt, options)  # step 2
        attempt, is_last = _judged(sample, attempt, look, options)  # steps 3 to 5
    errors = price_errors(look.problem, look.refined, sample.share)
    radius = options.deviations * errors + 2.0 * look.refined.temperature
    n_at_edge = int(xp.sum(xp.astype(look.at_edge, xp.int64)))
    # More rows than the first sample's tell no less than the region that held their prices.
    if sample.few and n_at_edge == 0:
        radius = xp.minimum(radius, attempt.region.radius)
    left = attempt.region.radius  # of few prices: they have just left it
    if n_at_edge > sample.few:
        left = _grown(attempt.region, look.at_edge, sample.max_radius, options)
    n_truncated = int(xp.sum(xp.astype(look.candidates.is_truncated, xp.int64)))
    region = TrustRegion(look.refined.prices, xp.where(look.at_edge, left, radius))
    return region, n_truncated > options.tied_share * m, n_at_edge == 0 and not attempt.n_moves


def _refined(sample: _Sample, attempt: _Attempt, options: SolverOptions) -> _Look:
    """Step 2: the best prices in the region, and which of them stand at its edge."""
    region, m = attempt.region, sample.source.group.n_total
    xp, k = compat.array_namespace(region.center), sample.source.n_clusters
    candidates = collect_candidates(
        sample.source,
        region.center - region.radius,
        region.center + region.radius,
        width=attempt.width,
    )
    problem = candidates.problem(sample.lower, sample.upper)
    start = float(xp.mean(region.radius)) * options.sample_temperature
    # Prices of an attempt before this one are best already, but for those at its edge.
    start = max(min(start, attempt.temperature), LEAST_TEMPERATURE)
    # Counts of m / k rows scatter by the root of that: a smoothing of as many does not show.
    undecided = max(options.min_undecided, math.sqrt(m / k))
    refined = refine_prices(problem, region.center, start=start, border=undecided)
    return _Look(candidates, problem, refined, candidates.at_edge(refined.prices))


def _judged(
    sample: _Sample, attempt: _Attempt, look: _Look, options: SolverOptions
) -> tuple[_Attempt, bool]:
    """Steps 3 to 5: the next attempt, and whether to end with what this one has found."""
    xp, m = compat.array_namespace(look.at_edge), sample.source.group.n_total
    n_at_edge = int(xp.sum(xp.astype(look.at_edge, xp.int64)))
    if n_at_edge == 0:  # step 3: accept
        return attempt, True
    if attempt.n_moves:
        return _moved(sample, attempt, look.refined.prices, n_at_edge, options)
    n_truncated = int(xp.sum(xp.astype(look.candidates.is_truncated, xp.int64)))
    if n_truncated > options.truncated_often * m:  # step 5: what was found is of no use
        center, radius = attempt.region
        limit = _limit(sample, center, options)
        if limit.radius > options.min_moving_radius * sample.max_radius:
            region = TrustRegion(center, xp.clip(radius, max=limit.radius))
            return attempt._replace(
                region=region, width=limit.width, n_moves=1, temperature=math.inf
            ), False
    n_left = attempt.n_left - 1
    if n_left == 0 or n_at_edge <= sample.few:
        return attempt, True
    grown = _grown(attempt.region, look.at_edge, sample.max_radius, options)  # step 4
    region = TrustRegion(look.refined.prices, grown)
    warm = COOLING * look.refined.temperature
    return attempt._replace(region=region, n_left=n_left, temperature=warm), False


def _moved(
    sample: _Sample, attempt: _Attempt, prices: Array, n_at_edge: int, options: SolverOptions
) -> tuple[_Attempt, bool]:
    """Step 5: the region around the prices, as large as candidates can tell clusters apart."""
    m, k = sample.source.group.n_total, sample.source.n_clusters
    max_moves = options.max_moves if m <= options.full_width_rows else attempt.n_left
    if attempt.n_moves > max_moves or n_at_edge < options.edge_share * k:
        return attempt, True
    region = next_region(attempt.region, prices, is_moving=True, options=options)
    limit = _limit(sample, region.center, options)
    if limit.radius <= options.min_moving_radius * sample.max_radius:
        return attempt._replace(region=region), True  # most rows tie: no region helps
    share = min(limit.radius, sample.max_radius) / median(region.radius)
    region = region._replace(radius=region.radius * share)
    return attempt._replace(
        region=region, width=limit.width, n_moves=attempt.n_moves + 1, temperature=math.inf
    ), False


def _limit(sample: _Sample, center: Array, options: SolverOptions) -> RegionLimit:
    """How large a region around these prices the candidates of a sample allow."""
    m = sample.source.group.n_total
    rows = sample.source.block(0, min(m, options.range_rows))
    return largest_radius(
        rows, center, n_rows=m, max_entries=options.moving_entries, options=options
    )


def _grown(region: TrustRegion, at_edge: Array, max_radius: float, options: SolverOptions) -> Array:
    """Step 4: the radius, larger for prices at the edge, but no larger than scores differ."""
    xp = compat.array_namespace(at_edge)
    most = max(max_radius, float(xp.max(region.radius)))
    grown = xp.clip(options.region_growth * region.radius, max=most)
    return xp.where(at_edge, grown, region.radius)
