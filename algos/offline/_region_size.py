"""How large a trust region may be: by the leads of some rows, sorted.

A row's *lead* over a cluster is what its best priced score is ahead of that cluster's. Where prices
move by at most r, only clusters with a lead of at most 2 r can become the best one: the leads of
rows that stand for all say how many candidates a radius makes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import array_api_compat as compat

from ..core.types import Array
from ..core.workers import map_in_order, row_parts
from ..scores.statistics import median, score_range
from ._options import DEFAULT_OPTIONS, SolverOptions

__all__ = ["RegionLimit", "initial_radius", "largest_radius"]

SMALLEST = 2.0**-500
"""Stands for a radius of 0, so that a lead of 0 over it is 0."""

LEAST_REACH = 1e-6
"""Radius of the first region at least, in ranges of scores: where typical rows tie."""

PART_ENTRIES = 2**16
"""Scores of a part of the rows at least, which a thread sorts."""


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
    options: SolverOptions = DEFAULT_OPTIONS,
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
    options : SolverOptions

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
    xp, k, widths = compat.array_namespace(prices), prices.shape[0], options.limit_widths

    def leads(rows: Array) -> Array:
        priced = xp.astype(rows, xp.float64) + prices
        lead = xp.max(priced, axis=1, keepdims=True) - priced
        if shape is not None:  # in the mean of the radii of a cluster and of the best one
            first = xp.take(shape, xp.argmax(priced, axis=1))
            lead = lead / xp.clip((first[:, None] + shape) / 2.0, min=SMALLEST)
        return xp.sort(lead, axis=1, stable=False)[:, 1 : min(k, max(widths) + 1)]

    apart = _of_rows(leads, scores)
    apart = xp.where(xp.isfinite(apart), apart, xp.full_like(apart, math.inf))  # forbidden pairs
    b, columns = apart.shape
    apart = xp.sort(apart, axis=0, stable=False)
    best = RegionLimit(0.0, min(widths[0], k))
    for width in widths:
        if width > k or b == 0 or best.radius >= wanted:
            break
        radius = math.inf
        share = max_entries / (n_rows * width)  # of the rows that may be free
        if share < 1.0:
            scatter = deviations * math.sqrt(share * (1.0 - share) * b)
            radius = float(apart[max(int(share * b - scatter), 0), 0]) / 2.0
        if width <= columns:
            n_truncated = int(options.limit_truncated * b)
            radius = min(radius, float(apart[n_truncated, width - 1]) / 2.0)
        if radius > best.radius:
            best = RegionLimit(radius, width)
    return best


def initial_radius(scores: Array, prices: Array, options: SolverOptions) -> Array:
    """Step 1: the radius within which a typical row has a few candidates, the same for all."""
    xp = compat.array_namespace(prices)
    # A forbidden pair is replaced by the smallest score, so that differences are finite.
    floor = xp.min(xp.where(xp.isfinite(scores), scores, xp.zeros_like(scores)))
    n_clusters = min(options.initial_clusters + 1, prices.shape[0])

    def apart(rows: Array) -> Array:
        priced = xp.astype(xp.maximum(rows, floor), xp.float64) + prices
        falling = xp.sort(priced, axis=1, descending=True, stable=False)
        return falling[:, 0] - falling[:, n_clusters - 1]

    least = LEAST_REACH * score_range(scores)
    return xp.full_like(prices, max(median(_of_rows(apart, scores)) / 2.0, least))


def _of_rows(function: Callable[[Array], Array], scores: Array) -> Array:
    """Apply a function of each row by itself to all rows; the workers share them out."""
    least = max(1, PART_ENTRIES // max(scores.shape[1], 1))
    parts = row_parts(scores.shape[0], least, like=scores)
    found = map_in_order(lambda rows: function(scores[rows, :]), parts, like=scores)
    return compat.array_namespace(scores).concat(list(found))
