r"""The best corner of the linear program of loads on the candidates of rows, by few programs.

Problem: HiGHS takes seconds for all candidates, of which nearly all are never used. From prices
that are nearly right:

1. *Solve* the program of the pairs that nearly tie. Load that is missing, or too much, can be
   bought at the ends of the box in which the candidates are valid.
2. *Add* the pairs that are worth more at the new prices than those that the program has, and solve
   again until there are none (column generation).

==============  ==============  =======  ==================================================
symbol          here            shape    meaning
==============  ==============  =======  ==================================================
:math:`s_{ij}`  ``values``      (m, w)   scores of the candidates of each row
:math:`w_i`     ``sizes``       (m,)
:math:`\pi_k`   ``prices``      (k,)     of a unit of load
==============  ==============  =======  ==================================================
"""

from __future__ import annotations

import math
from typing import NamedTuple

import array_api_compat as compat

from ...bounds.loads import loads_of
from ...core.reads import entries, read
from ...core.types import Array
from ...scores.statistics import places_of
from ._program import TOLERANCE, Corner, Program, Shared, corner_of

__all__ = ["BestCorner", "FreeRows", "best_corner"]

RAISE, MOST_RAISES = 8.0, 12
"""Growth of how far prices move where they have no box, and how often it grows."""

NEAR = 1e-11
"""Of the scores of a row: a candidate that is worth so little more is none."""


class FreeRows(NamedTuple):
    """Rows with several candidates, what the others add to loads, and bounds on all loads.

    Attributes
    ----------
    names : (m, w) int64 array
        Clusters; -1 after the last one of a row.
    values : (m, w) float64 array
        Scores; minus infinity after the last one.
    sizes : (m,) float64 array
    fixed, lower, upper : (k,) float64 arrays
    """

    names: Array
    values: Array
    sizes: Array
    fixed: Array
    lower: Array
    upper: Array

    def priced(self, prices: Array) -> Array:
        """The scores with prices of load added, (m, w)."""
        xp, shape = compat.array_namespace(prices), self.names.shape
        each = xp.take(prices, xp.reshape(xp.clip(self.names, min=0), (-1,)))
        return self.values + self.sizes[:, None] * xp.reshape(each, shape)

    def at(self, slots: Array) -> Array:
        """The clusters in some places of the rows, (m,)."""
        xp = compat.array_namespace(slots)
        return xp.take_along_axis(self.names, slots[:, None], axis=1)[:, 0]


class BestCorner(NamedTuple):
    """Clusters of the largest shares, rows with several, prices, and whether load is bought."""

    clusters: Array
    shared: list[Shared]
    prices: Array
    is_stuck: bool


def best_corner(
    free: FreeRows, prices: Array, window: float, box: tuple[Array, Array] | None
) -> BestCorner:
    """Steps 1 and 2, from prices in the box; rows nearly tie that lead by `window` of their size.

    Without a box all clusters are candidates, and prices move as far as they have to.
    """
    if box is not None:
        return _with_columns(free, prices, window, (box[1] - prices, prices - box[0]))
    xp, priced = compat.array_namespace(prices), free.priced(prices)
    behind = xp.max(priced, axis=1)[:, None] - priced
    behind = xp.where(xp.isfinite(behind), behind, xp.zeros_like(behind))
    largest, size = read(xp.max(behind), xp.max(free.sizes))
    limit = 2.0 * (largest or 1.0) / (size or 1.0)
    for _ in range(MOST_RAISES):
        found = _with_columns(free, prices, window, (0.0 * prices + limit,) * 2)
        if not found.is_stuck:
            break
        limit = RAISE * limit
    return found


def _with_columns(
    free: FreeRows, start: Array, window: float, limits: tuple[Array, Array]
) -> BestCorner:
    """Steps 1 and 2: prices change by no more than the limits, up and down."""
    xp, device = compat.array_namespace(start), compat.device(start)
    priced = free.priced(start)
    best = xp.max(priced, axis=1)
    behind = best[:, None] - priced
    kept = behind <= window * free.sizes[:, None]
    tol = NEAR * (xp.abs(best) + xp.abs(xp.max(free.values, axis=1)))
    while True:
        slots = xp.argmax(xp.where(kept, priced, xp.full_like(priced, -math.inf)), axis=1)
        is_border = xp.sum(xp.astype(kept, xp.int64), axis=1) > 1
        program = _program(free, behind, kept, is_border, slots, start, limits)
        corner = corner_of(program)
        prices = start + xp.asarray(corner.changes, dtype=xp.float64, device=device)
        now = free.priced(prices)
        inside = xp.max(xp.where(kept, now, xp.full_like(now, -math.inf)), axis=1)
        new = (now > (inside + tol)[:, None]) & ~kept
        if not bool(xp.any(new)):
            break
        kept = kept | new
    clusters, shared = _read(free, is_border, free.at(slots), program, corner)
    return BestCorner(clusters, shared, prices, corner.is_stuck)


def _program(
    free: FreeRows,
    behind: Array,
    kept: Array,
    is_border: Array,
    slots: Array,
    prices: Array,
    limits: tuple[Array, Array],
) -> Program:
    """The program of the pairs that are kept, of the rows that have several."""
    xp = compat.array_namespace(prices)
    alone = xp.where(is_border, xp.zeros_like(free.sizes), free.sizes)
    base = free.fixed + loads_of(alone, free.at(slots), prices.shape[0])
    pairs = places_of(xp.reshape(kept & is_border[:, None], (-1,)))
    rows = pairs // kept.shape[1]
    number = xp.cumulative_sum(xp.astype(is_border, xp.int64)) - 1
    names, gains = (xp.take(xp.reshape(v, (-1,)), pairs) for v in (free.names, -behind))
    sizes = xp.take(free.sizes, rows)
    loads = free.lower - base, free.upper - base
    lists = (xp.take(number, rows), names, gains, sizes, prices, *loads, *limits)
    return Program(*(entries("program", part) for part in lists))


def _read(
    free: FreeRows, is_border: Array, clusters: Array, program: Program, corner: Corner
) -> tuple[Array, list[Shared]]:
    """Clusters of the largest shares, and the rows that have several."""
    xp, device = compat.array_namespace(clusters), compat.device(clusters)
    parts: list[dict[int, float]] = []
    for row, cluster, share in zip(program.rows, program.clusters, corner.shares, strict=True):
        if row == len(parts):
            parts.append({})
        parts[row][cluster] = share
    shared = []
    if parts:
        best = xp.asarray([max(p, key=p.__getitem__) for p in parts], dtype=xp.int64, device=device)
        number = xp.clip(xp.cumulative_sum(xp.astype(is_border, xp.int64)) - 1, min=0)
        clusters = xp.where(is_border, xp.take(best, number), clusters)
        ids = entries("rows", places_of(is_border))
        for row, part in zip(ids, parts, strict=True):
            shares = {cluster: share for cluster, share in part.items() if share > TOLERANCE}
            if len(shares) > 1:
                lists = (entries("row", v[row, :]) for v in (free.names, free.values))
                worth = dict(zip(*lists, strict=True))
                values = [worth[cluster] for cluster in shares]
                size = float(free.sizes[row])
                shared.append(Shared(row, size, list(shares), list(shares.values()), values))
    return clusters, shared
