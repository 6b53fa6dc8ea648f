r"""Better prices of the few clusters that a small trust region keeps from where they have to go.

Problem: a region holds a few candidates per row, and the prices of some clusters lie far outside of
it. That is so where rows are missing in between: a cluster whose own rows are just too few for its
lower bound has to take rows from far away, and whether it has to, no sample tells. Its price then
jumps, and with it those of the clusters beside it, which compete for the same rows.

The dual value is convex in the prices, so that it may be minimized over some of them while the
others stay. Over a block g of clusters that is a small problem of the same kind, in which all other
clusters are one that has room for every row:

``min_{pi_g}  sum_i max(u_i, max_{k in g} s_ik + pi_k) + bounds``,   ``u_i = max_{k not in g}``.

1. *Blocks*: the clusters at the edge of the region, each with the two that are most often
   candidates beside it, or, to move together, with all that are in a tenth of its rows; blocks that
   overlap are one.
2. *Rows*: one pass over all scores keeps, for each block, the rows that are closest to it, twice
   as many as it will hold.
3. *Solve* each block by Newton's method, or shift its prices together (`_shared_shift`).

=====================  ===============  =======  =================================================
symbol                 here             shape    meaning
=====================  ===============  =======  =================================================
:math:`s_{i,k}`        ``block``        (b, k)   scores, a block of rows at a time
:math:`\pi`            ``prices``       (k,)     in units of score, float64
:math:`u_i`            ``outside``      (m,)     best priced score outside of the block
=====================  ===============  =======  =================================================
"""

from __future__ import annotations

import math
from itertools import accumulate
from typing import Any, NamedTuple

import array_api_compat as compat

from ..bounds.sizes import SizeBounds, implied_bounds
from ..core.reads import entries, read
from ..core.segments import segment_sum
from ..core.types import Array
from ..scores.nearest import best_clusters
from ..scores.sources import ScoreSource, score_source
from ..scores.statistics import score_range, strided_ids
from ._candidates import Candidates, all_candidates
from ._cooling import refine_prices
from ._options import SolverOptions
from ._shared_shift import best_shift

__all__ = ["MOST_AT_EDGE", "are_in", "blocks_at_edge", "reprice"]

NEIGHBORS, LEAST_SHARE = 2, 0.1
"""Clusters that join one at the edge: so many, each beside it in this share of its rows or more."""

MOST_IN_BLOCK = 8
"""Clusters of a block: a row of any block takes the memory of one of the largest."""

MOST_AT_EDGE = 0.25
"""Share of all clusters at the edge above which the region is wrong as a whole."""

COUNTED = 0.125
"""Pairs of a cluster at the edge and another that are counted at most, in candidates of a pass."""

COUNTED_ROWS, ROWS_EACH = 2**13, 32
"""Rows in which they are counted at most: so many, or so many a cluster."""

ROWS_KEPT = 2.0
"""Rows that a block keeps, in rows that it will hold: the sample that counts them is small."""

SOLVING = 2.5
"""What a score of a block takes while it is solved (40 bytes, measured), of two candidates."""


class _Kept(NamedTuple):
    """Rows that are close to a block: which, their scores in it, and their best value outside."""

    group: Array
    values: Array
    outside: Array


def blocks_at_edge(
    candidates: Candidates, prices: Array, options: SolverOptions, *, together: bool = False
) -> list[list[int]]:
    """Return the clusters at the edge of the region and those beside them, in blocks (step 1).

    Parameters
    ----------
    candidates : Candidates
        Of the region.
    prices : (k,) float64 array
        The best ones in it.
    options : SolverOptions
    together : bool
        Whether all clusters beside one at the edge join it, not the nearest few alone.

    Returns
    -------
    list of lists of int
        None of them twice; empty where no price stands at the edge, or too many do.
    """
    xp, k = compat.array_namespace(prices), int(prices.shape[0])
    at_edge = entries("at_edge", xp.astype(candidates.at_edge(prices), xp.int64))
    edge = [cluster for cluster in range(k) if at_edge[cluster]]
    most = min(k if together else MOST_AT_EDGE * k, COUNTED * options.max_entries / k)
    if not 0 < len(edge) <= most:
        return []
    # How often each cluster is a candidate beside each at the edge, in some of the rows.
    n = int(candidates.clusters.shape[0])
    if n == 0:
        return _joined(edge, [])
    rows = strided_ids(n, min(n, max(COUNTED_ROWS, ROWS_EACH * k)), prices)
    clusters = xp.astype(xp.take(candidates.clusters, rows, axis=0), xp.int64)
    place = [-1] * (k + 1)  # the last one is that of -1, of rows with fewer candidates
    for i, cluster in enumerate(edge):
        place[cluster] = i
    device, n_pairs = compat.device(prices), len(edge) * k
    flat = xp.reshape(clusters % (k + 1), (-1,))
    places = xp.take(xp.asarray(place, dtype=xp.int64, device=device), flat)
    places = xp.reshape(places, clusters.shape)
    counts = xp.zeros((n_pairs + 1, 1), dtype=xp.int64, device=device)  # the last one: no pair
    for i in range(clusters.shape[1]):
        own = places[:, i : i + 1]
        keys = own * k + clusters
        keys = xp.where((own >= 0) & (clusters >= 0), keys, xp.full_like(keys, n_pairs))
        keys = xp.reshape(keys, (-1,))
        counts = counts + segment_sum(xp.ones_like(keys)[:, None], keys, n_segments=n_pairs + 1)
    table = xp.astype(xp.reshape(counts[:-1, :], (len(edge), k)), xp.float64)
    ids = xp.asarray(edge, dtype=xp.int64, device=device)[:, None]
    n_rows = xp.take_along_axis(table, ids, axis=1)  # in which it is a candidate itself
    is_other = xp.arange(k, dtype=xp.int64, device=device)[None, :] != ids
    share = xp.where(is_other, table / xp.clip(n_rows, min=1.0), xp.zeros_like(table))
    # A row has so few others that no more of them are in this share of the rows.
    at_most = math.ceil((clusters.shape[1] - 1) / LEAST_SHARE) if together else NEIGHBORS
    beside = xp.argsort(share, axis=1, descending=True, stable=True)[:, : min(at_most, k)]
    enough = xp.take_along_axis(share, beside, axis=1) >= LEAST_SHARE
    beside = xp.where(enough, beside, xp.full_like(beside, -1))
    found = entries("beside", xp.astype(xp.reshape(beside, (-1,)), xp.int64))
    each = len(found) // len(edge)
    pairs = [(c, other) for i, c in enumerate(edge) for other in found[each * i : each * (i + 1)]]
    return _joined(edge, pairs, most=k if together else MOST_IN_BLOCK)


def _joined(
    clusters: list[int], pairs: list[tuple[int, int]], *, most: int = MOST_IN_BLOCK
) -> list[list[int]]:
    """Join clusters that are paired into blocks of at most so many; -1 is none."""
    block_of = {cluster: [cluster] for cluster in clusters}
    for one, other in pairs:
        if other < 0:
            continue
        ours, theirs = block_of[one], block_of.get(other, [other])
        if ours is not theirs and len(ours) + len(theirs) <= most:
            ours.extend(theirs)
            block_of.update(dict.fromkeys(theirs, ours))
    return [block for cluster, block in sorted(block_of.items()) if block[0] == cluster]


def reprice(
    source: ScoreSource,
    bounds: SizeBounds,
    prices: Array,
    blocks: list[list[int]],
    options: SolverOptions,
    *,
    together: bool = False,
) -> Array:
    """Minimize the dual value over the prices of each block, the others as they are.

    Parameters
    ----------
    source : ScoreSource
        All rows.
    bounds : SizeBounds
        Of all rows.
    prices : (k,) float64 array
    blocks : list of lists of int
        Of `blocks_at_edge`.
    options : SolverOptions
    together : bool
        Whether the prices of a block keep their differences (`_shared_shift`).

    Returns
    -------
    (k,) float64 array

    Notes
    -----
    Cost: O(n k) for one pass. Memory: about that of `options.max_entries` candidates, on every
    rank, and twice that for the largest block while it is solved. Blocks for which there is no
    room, or that fewer rows may join than must, keep their prices, and with none left those given
    come back. Guarantee: none, as the blocks move at once; what prices are worth, a pass proves.
    """
    xp, k = compat.array_namespace(prices), source.n_clusters
    if blocks:
        blocks, limits = _thresholds(source, bounds, prices, blocks, options, together=together)
    if not blocks:
        return prices
    # Of a group one value is kept; of blocks, those of fewer clusters repeat their first.
    device, width = compat.device(prices), 1 if together else max(map(len, blocks))
    columns = [[block[min(j, len(block) - 1)] for block in blocks] for j in range(width)]
    members = xp.asarray(columns, dtype=xp.int64, device=device)
    elsewhere = xp.where(are_in(blocks, prices), xp.full_like(prices, -math.inf), prices)
    ids = xp.arange(len(blocks), dtype=xp.int64, device=device)

    in_order = xp.asarray([c for block in blocks for c in block], dtype=xp.int64, device=device)
    stops = list(accumulate(map(len, blocks)))

    def of_each(scores: Array) -> Array:  # of groups, whose sizes may differ by hundreds
        priced = xp.take(scores, in_order, axis=1) + xp.take(prices, in_order)
        ranges = zip([0, *stops], stops, strict=False)
        return xp.stack([xp.max(priced[:, a:b], axis=1) for a, b in ranges], axis=1)

    def close(start: int, stop: int) -> _Kept:  # step 2
        scores = source.block(start, stop)
        _, free = best_clusters(scores, elsewhere)
        inside = of_each(scores) if together else _best_in(scores, prices, members)
        first = xp.astype(xp.argmax(inside, axis=1), xp.int64)[:, None]
        most = xp.take_along_axis(inside, first, axis=1)[:, 0]
        best = xp.maximum(free, most)
        kept = _places(best[:, None] - inside <= limits)
        rows, group = kept // len(blocks), kept % len(blocks)
        # Outside of the block that has the best cluster of a row is its second best.
        others = xp.where(ids == first, xp.full_like(inside, -math.inf), inside)
        second = xp.maximum(free, xp.max(others, axis=1))
        is_first = xp.take(first[:, 0], rows) == group
        outside = xp.where(is_first, xp.take(second, rows), xp.take(best, rows))
        if together:
            return _Kept(group, xp.take(xp.reshape(inside, (-1,)), kept)[:, None], outside)
        wanted = xp.take(members, group, axis=1).T
        values = xp.take(xp.reshape(scores, (-1,)), xp.reshape(rows[:, None] * k + wanted, (-1,)))
        return _Kept(group, xp.reshape(values, (-1, width)), outside)

    parts = source.map_blocks(close, like=prices, at_least_one=True)
    columns = [list(column) for column in zip(*parts, strict=True)]
    gather = source.group.gather
    # One at a time, so that no more than one of them is there twice.
    found = _Kept(*(gather(xp.concat(columns.pop(0))) for _ in range(len(columns))))
    order = xp.argsort(found.group, stable=True)
    edges = xp.searchsorted(
        xp.take(found.group, order), xp.arange(len(blocks) + 1, dtype=xp.int64, device=device)
    )
    ends = entries("edges", xp.astype(edges, xp.int64))
    if together:
        return _moved(found, order, ends, bounds, prices, blocks)
    for block, first, last in zip(blocks, ends, ends[1:], strict=False):
        rows = order[int(first) : int(last)]
        some = xp.concat(
            [
                xp.astype(xp.take(found.values, rows, axis=0)[:, : len(block)], xp.float64),
                xp.take(found.outside, rows)[:, None],
            ],
            axis=1,
        )
        prices = _solved(some, bounds, prices, block, options)  # step 3
    return prices


def are_in(blocks: list[list[int]], prices: Array) -> Array:
    """Which clusters belong to a block, (k,) bool."""
    xp, members = compat.array_namespace(prices), {c for block in blocks for c in block}
    found = [cluster in members for cluster in range(prices.shape[0])]
    return xp.asarray(found, dtype=xp.bool, device=compat.device(prices))


def _places(chosen: Array) -> Array:
    """Places of what is true, counted along the rows; one read from a device."""
    xp = compat.array_namespace(chosen)
    flat = xp.astype(xp.reshape(chosen, (-1,)), xp.int8)
    (count,) = read(xp.sum(xp.astype(flat, xp.int64)))
    return xp.argsort(flat, descending=True, stable=True)[: int(count)]


def _best_in(scores: Array, prices: Array, members: Array) -> Array:
    """Best priced score of each row in each group: `members` is (width, groups)."""
    xp = compat.array_namespace(scores)
    best: Array | None = None
    for j in range(members.shape[0]):
        ids = members[j, :]
        here = xp.take(scores, ids, axis=1) + xp.take(prices, ids)
        best = here if best is None else xp.maximum(best, here)
    return best


def _thresholds(
    source: ScoreSource,
    bounds: SizeBounds,
    prices: Array,
    blocks: list[list[int]],
    options: SolverOptions,
    *,
    together: bool,
) -> tuple[list[list[int]], Array]:
    """Blocks for whose rows there is room, and how far behind the best these rows may be."""
    xp, n, device = compat.array_namespace(prices), source.group.n_total, compat.device(prices)
    rows = source.take(strided_ids(n, min(n, options.memory_rows), prices))
    label, best = best_clusters(rows, prices)
    m, item = int(rows.shape[0]), xp.finfo(rows.dtype).bits / 64
    seen = segment_sum(xp.ones_like(label)[:, None], label, n_segments=source.n_clusters)[:, 0]
    low, high = (xp.astype(v, xp.float64) for v in implied_bounds(bounds))
    # What a cluster will hold: what it holds, but for its bounds.
    holds = xp.clip(xp.astype(seen, xp.float64) * (n / m), low, high)
    limits, kept, n_rows, most = list[float](), list[list[int]](), 0.0, options.max_entries
    for block in sorted(blocks, key=len):
        ids = xp.asarray(block, dtype=xp.int64, device=device)
        (wanted,) = read(xp.sum(xp.take(holds, ids)))
        place = min(max(math.ceil(ROWS_KEPT * wanted / n * m), 1), m) - 1
        lead = xp.sort(best - _best_in(rows, prices, ids[:, None])[:, 0])
        may_join = xp.sum(xp.astype(xp.isfinite(lead), xp.int64))
        last = xp.clip(xp.minimum(may_join, xp.full_like(may_join, place + 1)) - 1, min=0)
        wanted_lead = lead[last]
        near = xp.sum(xp.astype(lead <= wanted_lead, xp.int64))
        limit, n_near = read(wanted_lead, near)
        own = n_near / m * n
        # Of a group only the best value is kept, and its lead while they are sorted.
        has_room = (n_rows + own) * (4.0 if together else item * len(block) + 2.0) <= most
        is_solvable = together or own * (len(block) + 1) * SOLVING <= most
        if math.isfinite(limit) and has_room and is_solvable:
            kept.append(block)
            limits.append(limit)
            n_rows += own
    return kept, xp.asarray(limits, dtype=xp.float64, device=device)


def _moved(
    found: _Kept,
    order: Array,
    ends: list[Any],
    bounds: SizeBounds,
    prices: Array,
    blocks: list[list[int]],
) -> Array:
    """Shift the prices of each block together to where the dual value is least (step 3)."""
    xp, device = compat.array_namespace(prices), compat.device(prices)
    shifts = [0.0] * prices.shape[0]
    leads = xp.take(xp.astype(found.outside - found.values[:, 0], xp.float64), order)
    for block, first, last in zip(blocks, ends, ends[1:], strict=False):
        ids = xp.asarray(block, dtype=xp.int64, device=device)
        of_block = (xp.take(v, ids) for v in (prices, bounds.lower, bounds.upper))
        shift = best_shift(leads[int(first) : int(last)], *of_block)
        for cluster in block:
            shifts[cluster] = shift
    return prices + xp.asarray(shifts, dtype=xp.float64, device=device)


def _solved(
    scores: Array, bounds: SizeBounds, prices: Array, block: list[int], options: SolverOptions
) -> Array:
    """Put the best prices of a block in their places: its scores, and the best value outside."""
    xp, m, b = compat.array_namespace(prices), float(scores.shape[0]), len(block)
    ids = xp.asarray(block, dtype=xp.int64, device=compat.device(prices))
    zero = xp.zeros((1,), dtype=xp.float64, device=compat.device(prices))
    lower, upper = (xp.astype(xp.take(v, ids), xp.float64) for v in (bounds.lower, bounds.upper))
    (can_leave,) = read(xp.sum(xp.astype(xp.isfinite(scores[:, b]), xp.int64)))
    if m < float(xp.sum(lower)) or not can_leave:  # a price of what nobody takes has no least value
        return prices
    problem = all_candidates(score_source(scores), like=prices).problem(
        xp.concat([lower, zero]), xp.concat([upper, zero + m])
    )
    found = refine_prices(
        problem,
        xp.concat([xp.take(prices, ids), zero]),
        start=2.0 * score_range(scores) * options.pass_temperature,
        border=options.path_undecided,
    ).prices
    place = xp.arange(prices.shape[0], dtype=xp.int64, device=compat.device(prices))
    for i, cluster in enumerate(block):
        prices = xp.where(place == cluster, found[i] - found[b], prices)
    return prices
