r"""Center and radius of a trust region, from a sample of rows.

Problem: prices that online passes have learned order the clusters well, and may leave one so low
that it is best for no row, and all of them far above or below 0; and a region around them is of use
only where it leaves few clusters to choose from.

1. *Raise* the price of each cluster that is best for no row, until it is for one
   (`raise_empty_clusters`).
2. *Shift* all prices by the number that makes the dual value
   ``D(pi) = sum_i max_k (s_ik + pi_k) - sum_k pi+_k l_k + sum_k pi-_k u_k`` least, which changes no
   label (`optimal_shift`).
3. *Measure*: a row's *lead* over a cluster is what its best priced score is ahead of that
   cluster's. Where prices move by at most r, only clusters with a lead of at most 2 r can become
   the best one: the leads of rows that stand for all, sorted, say how many candidates a radius
   makes (`initial_radius`, `largest_radius`, `candidate_counts`). A region shrinks until its
   candidates fit into memory (`within_memory`), or rows keep more of them (`wide_enough`).

Prices that a caller gives may be anything: those out of scale are dropped (`usable_prices`).

=====================  ===============  =======  =================================================
paper                  here             shape    meaning
=====================  ===============  =======  =================================================
:math:`s_{i,k}`        ``scores``       (b, k)   of some rows
:math:`\pi_k`          ``prices``       (k,)     in units of score, float64
:math:`l_k, u_k`       ``bounds``       (k,)     least and largest size of a cluster
:math:`r`              ``radius``       ()       in units of score
=====================  ===============  =======  =================================================
"""

from __future__ import annotations

import math
from functools import reduce
from typing import NamedTuple

import array_api_compat as compat

from ..bounds.sizes import SizeBounds
from ..core.precision import times_power_of_two
from ..core.types import Array
from ..core.workers import map_parts
from ..scores.sources import ScoreSource
from ..scores.statistics import map_taken, median, score_range, strided_ids
from ._candidates import TrustRegion, select_candidates
from ._options import SolverOptions

__all__ = [
    "LEAST_RADIUS",
    "WIDEST",
    "RegionLimit",
    "candidate_counts",
    "initial_radius",
    "largest_radius",
    "optimal_shift",
    "raise_empty_clusters",
    "repair_prices",
    "usable_prices",
    "usable_radius",
    "wide_enough",
    "within_memory",
]

SMALLEST, LARGEST = 2.0**-500, 2.0**100
"""Of a radius in the unit of the source: a lead of 0 over the first is 0, and sums of the second
with scores of float32 are finite."""

TYPICAL_CLUSTERS = 8
"""Clusters of a typical row that the first trust region holds; 4 and 16 cost the same."""

LEAST_RADIUS = 1e-6
"""Radius of the first region at least, in ranges of scores: where typical rows tie."""

FEW_ROWS = 64
"""Rows whose range of scores prices given by a caller are compared with; and of which candidates
are counted, at least."""

LARGEST_EXPONENT = 24
"""Exponent of a given price, in ranges of scores, above which it is no start: in float32 it rounds
by as much."""

WIDTHS, TRUNCATED = (4, 8, 16, 32), 0.02
"""Candidates per row among which the one that allows the largest radius is chosen, and the share of
the rows whose candidates may be truncated at it: at a tenth, heavy tails take twice as long."""

DEVIATIONS = 3.0
"""Of the number of candidates, as some rows tell it: a pass that finds too many is lost."""

TIED = 1e-3
"""Share of its radius below which a trust region is not worth it: most rows tie."""

ONE_IN, WIDEST, LONG = 16, 64, 0.05
"""Of so many rows the candidates of one are counted; candidates of a row at most, in the first
pass of a given radius; share of the rows that may have more: the bound stays valid for them."""


class RegionLimit(NamedTuple):
    """Radius of a region in units of score, and the candidates per row to go with it."""

    radius: float
    width: int


def largest_radius(
    scores: Array,
    prices: Array,
    *,
    n_rows: int,
    max_entries: int,
    wanted: float = math.inf,
    shape: Array | None = None,
    deviations: float = 0.0,
) -> RegionLimit:
    """Return the largest radius at which the candidates of `n_rows` rows fit, few truncated.

    A row is free in the region ``pi +- r`` if its two best priced scores differ by at most 2 r, and
    its w candidates are truncated if its best and its (w + 1)-th do. Where hundreds of clusters
    nearly tie, a large region frees all rows and truncates all candidates: what is found on them
    says nothing. Prices that are farther off than this radius get there in several regions.

    Parameters
    ----------
    scores : (b, k) real array
        Some of the rows; minus infinity where a pair is forbidden.
    prices : (k,) float64 array
        Center of the region.
    n_rows : int
    max_entries : int
        Candidates of all rows; at least ``4 n_rows`` for the radius to be of use.
    wanted : float
        Radius that is enough: the fewest candidates per row that allow it are taken.
    shape : (k,) float64 array, optional
        Radii of the clusters in units of the radius that is sought, at least 0; 1 by default.
    deviations : float
        By how many standard deviations of the number of free rows, which scatters from one choice
        of `scores` to the next, it is to stay below what fits.

    Returns
    -------
    RegionLimit
        Of a radius above 0, unless most rows tie.

    Notes
    -----
    Cost: O(b k log k). The rows are taken for typical: the entries are those expected, or those
    that `deviations` leave room for.

    Examples
    --------
    >>> import numpy as np
    >>> scores = np.linspace(0.0, 1.0, 101)[None, :]  # each a hundredth from the next
    >>> limit = largest_radius(scores, np.zeros(101), n_rows=10, max_entries=320)
    >>> limit.width, round(limit.radius, 2)
    (32, 0.16)
    """
    xp, k = compat.array_namespace(prices), prices.shape[0]

    def leads(rows: Array) -> Array:
        priced = xp.astype(rows, xp.float64) + prices
        best = xp.max(priced, axis=1, keepdims=True)  # of a row that may join none: -inf
        lead = xp.where(xp.isfinite(best), best, xp.zeros_like(best)) - priced
        if shape is not None:  # in the mean of the radii of a cluster and of the best one
            first = xp.take(shape, xp.argmax(priced, axis=1))
            lead = lead / xp.clip((first[:, None] + shape) / 2.0, min=SMALLEST)
        return xp.sort(lead, axis=1, stable=False)[:, 1 : min(k, WIDTHS[-1] + 1)]

    apart = xp.concat(list(map_parts(leads, scores)))
    b, columns = apart.shape
    apart = xp.sort(apart, axis=0, stable=False)
    best = RegionLimit(0.0, min(WIDTHS[0], k))
    for width in WIDTHS:
        if width > k or b == 0 or best.radius >= wanted:
            break
        radius = math.inf
        share = max_entries / (n_rows * width)  # of the rows that may be free
        if share < 1.0 and columns:
            scatter = deviations * math.sqrt(share * (1.0 - share) * b)
            radius = float(apart[max(int(share * b - scatter), 0), 0]) / 2.0
        if width <= columns:
            n_truncated = min(int(TRUNCATED * b), b - 1)
            radius = min(radius, float(apart[n_truncated, width - 1]) / 2.0)
        if radius > best.radius:
            best = RegionLimit(radius, width)
    return best


def within_memory(
    source: ScoreSource, region: TrustRegion, width: int, options: SolverOptions
) -> tuple[TrustRegion, int]:
    """Shrink the region until its candidates fit into memory, or widen rows if most of them tie.

    Parameters
    ----------
    source : ScoreSource
    region : TrustRegion
    width : int
        Candidates of a row.
    options : SolverOptions

    Returns
    -------
    region : TrustRegion
    width : int
    """
    (center, radius), n, most = region, source.group.n_total, options.max_entries
    rows = source.take(strided_ids(n, min(n, options.typical_rows), center))
    wanted = median(radius)  # some, of unconverged prices, may be much larger: the shape says so
    limit = largest_radius(
        rows,
        center,
        n_rows=n,
        max_entries=most,
        wanted=wanted,
        shape=None if wanted == 0.0 else radius / wanted,
        deviations=0.0 if rows.shape[0] == n else DEVIATIONS,
    )
    if limit.radius <= TIED * wanted:
        return region, 2 * width if 2 * width * n <= most else width
    share = limit.radius / wanted if limit.radius < wanted else 1.0
    return TrustRegion(center, share * radius), limit.width


def candidate_counts(source: ScoreSource, region: TrustRegion, options: SolverOptions) -> Array:
    """Return how many candidates some rows have in a region, (m,) int64, ascending.

    Of `typical_rows` rows, or of one in sixteen where these are fewer, but 64 at least.

    Examples
    --------
    >>> import numpy as np
    >>> from dualclust.algos.scores.sources import score_source
    >>> source = score_source(np.tile(np.asarray([0.9, 0.6, 0.1]), (2, 1)))
    >>> regions = [TrustRegion(np.zeros(3), np.full(3, r)) for r in (0.1, 0.2, 0.5)]
    >>> [candidate_counts(source, r, SolverOptions()).tolist() for r in regions]
    [[1, 1], [2, 2], [3, 3]]
    """
    xp, (low, high) = compat.array_namespace(region.center), region.box
    n = source.group.n_total
    some = strided_ids(n, min(options.typical_rows, n, max(n // ONE_IN, FEW_ROWS)), low)

    def counts(rows: Array) -> Array:
        _, _, n_candidates, _ = select_candidates(rows, low, high, width=2)
        return n_candidates

    return xp.sort(xp.concat(list(map_taken(counts, source, some))))


def wide_enough(counts: Array, width: int, most: float) -> int:
    """Return `width`, doubled until few of some rows have more candidates, up to `most`.

    Examples
    --------
    >>> import numpy as np
    >>> [wide_enough(np.asarray([3] * 96 + [c] * 4), 2, 64) for c in (3, 99)]
    [4, 4]
    """
    last = int((1.0 - LONG) * counts.shape[0])
    while width < int(counts[last]) and 2 * width <= most:
        width *= 2
    return width


def initial_radius(scores: Array, prices: Array, *, scale: float) -> Array:
    """Return the radius of a few candidates in a typical row; `scale` is the range of scores."""
    xp = compat.array_namespace(prices)
    # A forbidden pair is replaced by the smallest score, so that differences are finite.
    floor = xp.min(xp.where(xp.isfinite(scores), scores, xp.zeros_like(scores)))
    n_clusters = min(TYPICAL_CLUSTERS + 1, prices.shape[0])

    def apart(rows: Array) -> Array:
        priced = xp.astype(xp.maximum(rows, floor), xp.float64) + prices
        falling = xp.sort(priced, axis=1, descending=True, stable=False)
        return falling[:, 0] - falling[:, n_clusters - 1]

    typical = median(xp.concat(list(map_parts(apart, scores)))) / 2.0
    return xp.full_like(prices, max(typical, LEAST_RADIUS * scale))


def usable_prices(source: ScoreSource, prices: Array) -> Array | None:
    """Return given prices in the unit of the source, or None where scores vanish beside them.

    Examples
    --------
    >>> import numpy as np
    >>> from dualclust.algos.scores.sources import score_source
    >>> source = score_source(np.asarray([[1.0, 0.0], [0.5, 1.0]]))
    >>> usable_prices(source, np.asarray([0.5, 0.0]))
    array([0.5, 0. ])
    >>> usable_prices(source, np.asarray([1e17, 0.0])) is None
    True
    """
    xp, n = compat.array_namespace(prices), source.group.n_total
    rows = source.take(strided_ids(n, min(n, FEW_ROWS), prices))
    largest = math.frexp(float(xp.max(xp.abs(prices))))[1] - source.exponent
    if largest - math.frexp(score_range(rows))[1] > LARGEST_EXPONENT:
        return None
    return times_power_of_two(prices, -source.exponent)


def usable_radius(radius: Array, exponent: int) -> Array:
    """Return a radius in the unit of the source, neither too small for float64 nor too large.

    Examples
    --------
    >>> import numpy as np
    >>> usable_radius(np.asarray([2.0**900, 2.0**-800]), -700) == [LARGEST, 2.0**-100]
    array([ True,  True])
    """
    xp = compat.array_namespace(radius)
    most = math.ldexp(LARGEST, min(exponent, 900))  # what is larger would overflow
    radius = times_power_of_two(xp.clip(radius, max=most), -exponent)
    return xp.clip(radius, min=SMALLEST, max=LARGEST)


def repair_prices(scores: Array, prices: Array, bounds: SizeBounds) -> Array:
    """Return prices at which some rows find every cluster they need, and whose bound is least."""
    return optimal_shift(raise_empty_clusters(scores, prices, bounds.lower), bounds)


def raise_empty_clusters(scores: Array, prices: Array, lower: Array) -> Array:
    """Raise the price of each cluster that is best for no row until it is for one.

    An online pass can throw a cluster that everybody wants first far below the others, and its
    small steps do not bring it back. A cluster without a lower bound is raised to 0 at most.

    Parameters
    ----------
    scores : (b, k) real array
        Some rows.
    prices : (k,) float64 array
    lower : (k,) real array
        Lower bounds, of any unit.

    Returns
    -------
    (k,) float64 array

    Examples
    --------
    >>> import numpy as np
    >>> scores = np.asarray([[1.0, 0.5], [1.0, 0.0]])
    >>> raise_empty_clusters(scores, np.asarray([0.0, -3.0]), np.ones(2))
    array([0. , 0.5])
    """
    xp = compat.array_namespace(prices)

    def missing_among(rows: Array) -> Array:
        allowed = xp.isfinite(rows)
        priced = xp.astype(xp.where(allowed, rows, xp.zeros_like(rows)), xp.float64) + prices
        infinite = xp.full_like(priced, math.inf)
        best = xp.max(xp.where(allowed, priced, -infinite), axis=1, keepdims=True)
        best = xp.where(xp.isfinite(best), best, xp.zeros_like(best))
        return xp.min(xp.where(allowed, best - priced, infinite), axis=0)

    missing = reduce(xp.minimum, map_parts(missing_among, scores))
    missing = xp.where(xp.isfinite(missing), missing, xp.zeros_like(missing))
    most = xp.where(lower > 0, missing, xp.clip(-prices, min=0.0))
    return prices + xp.minimum(missing, most)


def optimal_shift(prices: Array, bounds: SizeBounds) -> Array:
    """Add the number to all prices that makes their upper bound least.

    The same number more for every price changes no label, but which bounds are paid for: prices
    learned from a cluster that everybody wants may all be far above 0. The upper bound is convex
    and piecewise linear in the number, with a corner where a price becomes 0.

    Parameters
    ----------
    prices : (k,) float64 array
    bounds : SizeBounds of a known number of samples

    Returns
    -------
    (k,) float64 array
        As given where no shift is better.

    Examples
    --------
    Nobody pays for a lower bound where one cluster pays for its upper one.

    >>> import numpy as np
    >>> from dualclust.algos.bounds.sizes import SizeBounds
    >>> bounds = SizeBounds.from_counts([1, 1, 1], [3, 3, 3], n_samples=6)
    >>> optimal_shift(np.asarray([-6.0, 4.0, 4.0]), bounds)
    array([-10.,   0.,   0.])
    """
    xp = compat.array_namespace(prices)
    order = xp.argsort(prices)
    rising = xp.take(prices, order)
    lower, upper = xp.take(bounds.lower, order), xp.take(bounds.upper, order)
    # With the i-th price at 0, those before it pay for upper bounds, those after it for lower ones.
    others = xp.cumulative_sum(upper) - upper + xp.sum(lower) - xp.cumulative_sum(lower)
    # What is left for it; inside its bounds the slopes change sign.
    free = bounds.n_samples - others
    is_best = (lower <= free) & (free <= upper)
    infinite = xp.full_like(rising, math.inf)
    least = float(xp.min(xp.where(is_best, rising, infinite)))
    most = float(xp.max(xp.where(is_best, rising, -infinite)))
    return prices - min(max(0.0, least), most)
