"""What a pass does about the prices that its region holds back: which move, and what that is worth.

Problem: a small region follows prices that travel by its radius a pass, and some have to go twenty
times as far. `_price_blocks` finds them while all others stay, by about two passes more. So it is
asked where memory cuts the region from the start, and else only if five passes have not ended the
search: many regions end it by themselves.

1. *Turns* (`blocks_of_pass`): groups of clusters move together in one pass, and clusters one by one
   in the next. A group that is full as a whole moves no cluster alone, and a cluster that travels
   alone moves no group.
2. *Judge* (`around_blocks`): blocks move at once, each as if the others stayed, and two that take
   each other's rows go too far. Of the prices before, those after and the middle, the next region
   is around those of the least dual value.
3. *Grow* where more prices stand at the edge than a region that is right would hold back: all of
   them travel, and a radius a pass is too slow.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import array_api_compat as compat

from ..bounds.sizes import SizeBounds, price_of_bounds
from ..core.reads import entries
from ..core.types import Array
from ..scores.nearest import best_clusters
from ..scores.sources import ScoreSource
from ..scores.statistics import median
from ._candidates import Candidates, TrustRegion
from ._options import SolverOptions
from ._price_blocks import MOST_AT_EDGE, are_in, blocks_at_edge, reprice

__all__ = ["Blocks", "around_blocks", "blocks_of_pass"]

FROM_PASS = 4
"""Passes before the first one after which blocks are looked for, where memory is not short."""

WORTH = 1e-9
"""Share of the dual value that other prices must be better by: more than its rounding."""


class Blocks(NamedTuple):
    """Clusters whose prices a pass has held back, and whether those of a block move together."""

    clusters: list[list[int]]
    together: bool = False


def blocks_of_pass(
    candidates: Candidates, prices: Array, n_passes: int, is_cut: bool, options: SolverOptions
) -> Blocks:
    """Return the blocks of clusters whose prices a pass has held back.

    Where memory cuts the region from the start, each price moves by itself. Else they take turns;
    groups of more than half of the clusters stay. `prices` are the best ones in the region of the
    candidates, and `n_passes` the passes before this one.
    """
    if is_cut:
        return Blocks(blocks_at_edge(candidates, prices, options))
    if n_passes < FROM_PASS:
        return Blocks([])
    is_odd = (n_passes - FROM_PASS) % 2 == 1
    if is_odd and (apart := blocks_at_edge(candidates, prices, options)):
        return Blocks(apart)
    groups = blocks_at_edge(candidates, prices, options, together=True)
    return Blocks([group for group in groups if 2 * len(group) <= prices.shape[0]], together=True)


def around_blocks(
    source: ScoreSource,
    bounds: SizeBounds,
    blocks: Blocks,
    region: TrustRegion,
    radius: Array,
    options: SolverOptions,
    *,
    judge: bool = False,
) -> TrustRegion:
    """Return the region around better prices of some blocks.

    `radius` is that of the last region, cut to its median here; where more than `MOST_AT_EDGE` of
    its prices stood at its edge, this grows. Where lists or memory limit the search,
    `within_memory` cuts what is too large. Clusters of blocks for which there is no room stay as
    they are in `region`, and so does all of it if there is room for none, or if `judge` is asked
    for and no prices are better: that takes one more pass.
    """
    clusters, together = blocks
    prices = reprice(source, bounds, region.center, clusters, options, together=together)
    if judge and prices is not region.center:
        prices = _least(source, bounds, region.center, prices)
    if prices is region.center:
        return region
    xp = compat.array_namespace(prices)
    left_out = are_in(clusters, prices) & (prices == region.center)
    small = xp.clip(radius, max=median(radius))
    at_edge = xp.astype(region.radius > radius, xp.float64)  # `next_region` lets these grow
    if float(xp.mean(at_edge)) > MOST_AT_EDGE:
        small = options.moving_growth * small
    return TrustRegion(prices, xp.where(left_out, region.radius, small))


def _least(source: ScoreSource, bounds: SizeBounds, before: Array, after: Array) -> Array:
    """Return the prices of the least dual value: those before, those after, or the middle."""
    xp, tried = compat.array_namespace(before), [before, after, 0.5 * (before + after)]

    def worth(start: int, stop: int) -> Array:
        scores = source.block(start, stop)
        best = [best_clusters(scores, prices)[1] for prices in tried]
        return xp.stack([xp.sum(xp.astype(b, xp.float64)) for b in best])[None, :]

    parts = xp.concat(list(source.map_blocks(worth, like=before, at_least_one=True)))
    sums = entries("sums", xp.reshape(source.group.gather(parts), (-1,)))
    duals = [
        math.fsum(sums[i :: len(tried)]) + price_of_bounds(prices, bounds)
        for i, prices in enumerate(tried)
    ]
    least = min(range(len(tried)), key=duals.__getitem__)
    is_better = duals[least] < duals[0] - WORTH * abs(duals[0])
    return tried[least] if is_better else before
