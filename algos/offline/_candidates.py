r"""Which clusters can be best for a sample, for all prices of a trust region at once.

Problem: the solvers compute again and again ``argmax_k s_ik + pi_k``, while the prices pi move
little. For prices in a trust region ``low <= pi <= high``, cluster k can be best for sample i only
if

``s_ik + high_k >= max_j (s_ij + low_j)``.

One pass over the scores, a block of rows at a time, shrinks the problem:

1. *Select* the candidates of each row: the clusters that satisfy the inequality.
2. *Fix* the rows with one candidate (fixed variables): only their counts matter.
3. *Keep* the candidates of the other rows, the *free* ones, truncated to the `width` that can be
   worth most. The largest ``s_ik + high_k`` left out keeps every upper bound valid.
4. *Join* the blocks of all ranks into one record that every rank holds. How much memory it may take
   is `SolverOptions.max_entries`, by default 256 MiB or 8 bytes a row, up to 1 GiB; beyond it,
   `TooManyCandidatesError`.

=================  ================  =======  ====================================================
symbol             here              shape    meaning
=================  ================  =======  ====================================================
:math:`s_{i,k}`    ``scores``        (b, k)   one block
\-                 ``clusters``      (b, w)   candidates; -1 where there are fewer
\-                 ``values``        (b, w)   their scores; -inf where there are fewer
\-                 ``n_candidates``  (b,)     before truncation: 1 fixes the row
\-                 ``truncation``    (b,)     worth of a truncated cluster at most; -inf if none
=================  ================  =======  ====================================================
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

import array_api_compat as compat

from ...backends import kernel
from ..core.reads import entries, on_host
from ..core.types import Array
from ..core.workers import map_in_order
from ..scores.blocks import block_rows, row_blocks
from ..scores.sources import Group, ScoreSource
from ..scores.statistics import check_range, median
from ._free_rows import (
    OUT_OF_RANGE,
    SLACK,
    Part,
    agree,
    free_rows,
    join,
    what_is_wrong,
)
from ._options import SolverOptions
from ._smoothed_dual import SmoothedDual

__all__ = [
    "GROWTH",
    "Candidates",
    "TooManyCandidatesError",
    "TrustRegion",
    "all_candidates",
    "candidates_of_blocks",
    "collect_candidates",
    "next_region",
    "row_slices",
    "rows_at_once",
    "select_candidates",
]

CLAMPED = 1.0 - 1e-9
"""Share of the radius from which on a price counts as clamped, against rounding."""

GROWTH, SHRINKAGE = 2.0, 0.25
"""Of the radius of a price that the region clamped, and of others. Growth by 2 to 8 differs little;
without shrinkage warm starts take 1.7 times as long (benchmarks/results/ablation.md)."""

LARGEST_RADIUS = 2.0**300
"""Radius from which on a region does not grow: scores are below 2^200."""

JOINED_BLOCKS = 256
"""Blocks that are joined at a time while a pass goes on; see `join`."""

DEVICE_ROWS = 2**21
"""Rows that are taken at a time away from the host, where each time is a read or two: 128 MiB for
eight candidates."""


class TooManyCandidatesError(Exception):
    """Free rows have more candidates than memory holds: the trust region has to be smaller."""


class TrustRegion(NamedTuple):
    """Prices ``center - radius`` to ``center + radius``, (k,) float64 arrays."""

    center: Array
    radius: Array

    @property
    def box(self) -> tuple[Array, Array]:
        """Its lower and its upper bound."""
        return self.center - self.radius, self.center + self.radius


def next_region(
    region: TrustRegion, prices: Array, *, is_moving: bool = False, is_stuck: bool = False
) -> TrustRegion:
    """Center the region on better prices: larger where it clamped them, smaller elsewhere.

    If paths failed in one that moves, all radii double: fewer candidates would allow no labels
    either.

    A region that `is_moving` over several passes shrinks only once it clamps no price: unconverged
    prices move their neighbors. Where clusters compete for the same rows, none of them moves
    farther in a pass than the others may. So no radius of it is less than the last step, times
    what a region grows by.
    """
    xp = compat.array_namespace(prices)
    moved = xp.abs(prices - region.center)
    clamped = moved >= region.radius * CLAMPED
    # Passes that go on growing a region must not overflow.
    moved, known = (xp.clip(v, max=LARGEST_RADIUS) for v in (moved, region.radius))
    rest = SHRINKAGE * region.radius
    if is_moving and bool(xp.any(clamped)):
        rest = xp.clip(region.radius, max=median(region.radius))
        rest = xp.maximum(rest, GROWTH * moved)
    if is_stuck:
        rest = GROWTH * known
    return TrustRegion(prices, xp.where(clamped, GROWTH * xp.maximum(moved, known), rest))


class Candidates(NamedTuple):
    """All rows in a trust region: labels (of this rank's rows), and candidates of the free ones.

    Attributes
    ----------
    labels : (n,) int32 array
        Best cluster in the middle of the region: final for the fixed rows.
    is_free : (n,) bool array
        Rows of this rank with more than one candidate.
    first_free : int
        Place of this rank's first free row among those of all ranks.
    clusters : (m, w) int32 array
        Candidates of the free rows.
    values : (m, w) array
        Their scores.
    truncation : (m,) float64 array
        What a cluster that is no candidate can be worth at most.
    fixed_counts : (k,) int64 array
        Counts of the fixed rows.
    fixed_value, fixed_size : float
        Sum of their scores, and of the absolute values of those.
    low, high : (k,) float64 array
        The trust region.
    """

    labels: Array
    is_free: Array
    first_free: int
    clusters: Array
    values: Array
    truncation: Array
    fixed_counts: Array
    fixed_value: float
    fixed_size: float
    low: Array
    high: Array

    @property
    def is_truncated(self) -> Array:
        """Which free rows have lost a candidate to the width, (m,) bool."""
        return self.truncation > -math.inf

    def truncated_share(self, n_rows: int) -> float:
        """Share of all rows, of all ranks, that have lost a candidate to the width."""
        xp = compat.array_namespace(self.truncation)
        return int(xp.sum(xp.astype(self.is_truncated, xp.int64))) / n_rows

    def clamped(self, prices: Array) -> Array:
        """Which prices are at a bound of the region, or beyond, (k,) bool."""
        return (prices <= self.low) | (prices >= self.high)

    def smoothed_dual(self, lower: Array, upper: Array) -> SmoothedDual:
        """The smoothed dual, for bounds in samples, whole or not."""
        xp = compat.array_namespace(lower)
        fixed, lower, upper = (xp.astype(v, xp.float64) for v in (self.fixed_counts, lower, upper))
        return SmoothedDual(
            values=self.values,
            clusters=self.clusters,
            fixed_counts=fixed,
            lower=lower,
            upper=upper,
            low=self.low,
            high=self.high,
        )


def rows_at_once(like: Array, options: SolverOptions) -> int:
    """Return how many rows are gone over at a time, where an array is."""
    return options.chunk_rows if on_host(like) else DEVICE_ROWS


def row_slices(candidates: Candidates, options: SolverOptions) -> Iterator[slice]:
    """Yield the free rows of all ranks, as many at a time as the options say."""
    rows = rows_at_once(candidates.values, options)
    for start, stop in row_blocks(candidates.clusters.shape[0], rows):
        yield slice(start, stop)


@kernel
def select_candidates(
    scores: Array, low: Array, high: Array, *, width: int
) -> tuple[Array, Array, Array, Array]:
    """Select the candidates of each row; returns clusters, values, n_candidates and truncation.

    Candidates are in falling order of the most that each can be worth. Ties begin at another
    cluster in each row, so that rows which are alike do not all keep the same few clusters. A row
    that holds NaN or plus infinity, or nothing but minus infinity, has ``n_candidates`` 0.
    """
    xp = compat.array_namespace(scores)
    k = scores.shape[1]
    width = min(width, k)
    eps = xp.finfo(scores.dtype).eps
    largest = float(xp.max(xp.maximum(xp.abs(low), xp.abs(high))))
    low, high = xp.astype(low, scores.dtype), xp.astype(high, scores.dtype)
    best = xp.max(scores + low, axis=1)
    usable = xp.isfinite(best) & xp.all(scores < math.inf, axis=1)  # false for NaN too
    most = 0.5 * xp.finfo(scores.dtype).max  # a pass refuses larger scores anyway
    best = xp.where(usable, best, xp.zeros_like(best))
    threshold = xp.clip(best, min=-most) - (SLACK * eps) * (xp.abs(best) + largest)
    threshold = xp.minimum(threshold, best)
    at_most = scores + high
    selected = (at_most >= threshold[:, None]) & usable[:, None]
    n_candidates = xp.sum(xp.astype(selected, xp.int64), axis=1)
    key = xp.where(selected, at_most, xp.full_like(scores, -math.inf))
    # Row i breaks its ties from cluster i on.
    device = compat.device(scores)
    rotated = xp.arange(scores.shape[0], dtype=xp.int64, device=device)[:, None]
    rotated = (rotated + xp.arange(k, dtype=xp.int64, device=device)) % k
    order = xp.argsort(
        xp.take_along_axis(key, rotated, axis=1), axis=1, descending=True, stable=True
    )
    order = xp.take_along_axis(rotated, order, axis=1)
    kept, rest = order[:, :width], order[:, width:]
    is_candidate = xp.take_along_axis(selected, kept, axis=1)
    clusters = xp.where(is_candidate, kept, xp.full_like(kept, -1))
    values = xp.take_along_axis(scores, kept, axis=1)
    values = xp.where(is_candidate, values, xp.full_like(values, -math.inf))
    truncation = xp.full_like(best, -math.inf)
    if width < k:
        truncation = xp.max(xp.take_along_axis(key, rest, axis=1), axis=1)
    return xp.astype(clusters, xp.int32), values, n_candidates, xp.astype(truncation, xp.float64)


@kernel
def candidates_of_blocks(
    low: Array, high: Array, blocks: Iterable[Array], *, width: int
) -> tuple[Array, Array, Array, Array]:
    """Select the candidates of the rows of all blocks, of which only the last may have fewer rows.

    As `select_candidates` does, but an engine may count no more than ``width + 1`` of a row.
    """
    lists = [select_candidates(scores, low, high, width=width) for scores in blocks]
    clusters, values, n_candidates, truncation = (_whole([*c]) for c in zip(*lists, strict=True))
    return clusters, values, n_candidates, truncation


def collect_candidates(
    source: ScoreSource, low: Array, high: Array, *, width: int, max_entries: int | None = None
) -> Candidates:
    """Fix what one pass over the scores can fix, and collect the candidates of the other rows.

    Parameters
    ----------
    source : ScoreSource
    low, high : (k,) float64 array
        The trust region of the prices.
    width : int >= 2
        Most candidates of a row.
    max_entries : int, optional
        Most candidates of all rows of all ranks; no limit by default.

    Returns
    -------
    Candidates

    Raises
    ------
    InvalidValueError
        Naming the first row that holds NaN or plus infinity; on all ranks alike.
    InfeasibleBoundsError
        For a row that forbids every cluster, with the vector that proves it.
    ScoresOutOfRangeError
        If sums of scores would overflow.
    TooManyCandidatesError
        If free rows would have more than `max_entries` candidates; on all ranks alike.

    Notes
    -----
    Cost: O(n k), and O(1) more for each candidate. Memory: one block, and the candidates.
    Claims: docs/claims.md#C4.
    """
    xp, group = compat.array_namespace(low), source.group
    max_rows = math.inf if max_entries is None else max_entries // min(width, source.n_clusters)
    largest = float(xp.max(xp.maximum(xp.abs(low), xp.abs(high))))
    joined, parts = list[Part](), list[Part]()
    wrong, n_free, first = (-1, 0), 0, group.first_row
    rows = block_rows(source.n_clusters, like=low, is_alone=group.is_alone)
    edges = row_blocks(group.n_local, rows, at_least_one=True)
    n_at_once = 1 if on_host(low) else max(1, DEVICE_ROWS // rows)
    batches = iter(lambda: list(islice(edges, n_at_once)), [])

    def kept(at_once: list[tuple[int, int]]) -> tuple[Part, int]:
        blocks = (source.block(start, stop) for start, stop in at_once)
        lists = candidates_of_blocks(low, high, blocks, width=width)  # step 1
        sizes = [] if group.is_alone else [stop - start for start, stop in at_once]
        return free_rows(lists, sizes, source.n_clusters, largest)  # steps 2 and 3

    for part, bad in map_in_order(kept, batches, like=None if source.in_turn else low):
        parts.append(part)
        if bad >= 0:
            row = source.block(first - group.first_row + bad, first - group.first_row + bad + 1)
            wrong = first + bad, what_is_wrong(row[0, :])
            break
        first += part.labels.shape[0]
        n_free += part.clusters.shape[0]
        if n_free > max_rows:
            break
        if len(parts) == JOINED_BLOCKS:
            joined.append(join(parts))
            parts = []
    first_free, n_all = agree(source, wrong, n_free, like=low)
    if n_all > max_rows:
        raise TooManyCandidatesError
    columns = [list(column) for column in zip(*joined, *parts, strict=True)]
    del joined, parts, part
    # One at a time, so that no more than one of them is there twice.
    whole = (_whole(columns.pop(0)) for _ in range(len(columns)))
    return _of_all_ranks(Part(*whole), group, first_free, low, high)  # step 4


def _whole(parts: list[Array]) -> Array:
    """Blocks of rows as one array; a single block is not copied."""
    return parts[0] if len(parts) == 1 else compat.array_namespace(*parts).concat(parts)


def all_candidates(source: ScoreSource, *, like: Array) -> Candidates:
    """Make every cluster that a row may join its candidate: right for any prices, n k entries.

    `like` is an array of the library and device of the scores; errors are those of
    `collect_candidates`.
    """
    xp, group, k = compat.array_namespace(like), source.group, source.n_clusters
    device = compat.device(like)
    scores = xp.concat(list(source.map_blocks(source.block, like=like, at_least_one=True)))
    allowed, wrong = xp.isfinite(scores), (-1, 0)
    bad = ~xp.all(scores < math.inf, axis=1) | ~xp.any(allowed, axis=1)
    if bool(xp.any(bad)):
        first = int(xp.argmax(xp.astype(bad, xp.int8)))
        wrong = group.first_row + first, what_is_wrong(scores[first, :])
    elif not check_range(scores):
        wrong = group.first_row, OUT_OF_RANGE
    first_free, _ = agree(source, wrong, group.n_local, like=like)
    order = xp.argsort(scores, axis=1, descending=True, stable=True)
    is_candidate = xp.take_along_axis(allowed, order, axis=1)
    clusters = xp.astype(xp.where(is_candidate, order, xp.full_like(order, -1)), xp.int32)
    unlimited = xp.full((k,), math.inf, dtype=xp.float64, device=device)
    labels = xp.zeros((group.n_local,), dtype=xp.int32, device=device)
    part = Part(
        labels=labels,
        is_free=labels == 0,
        clusters=clusters,
        values=xp.take_along_axis(scores, order, axis=1),
        truncation=xp.full((group.n_local,), -math.inf, dtype=xp.float64, device=device),
        counts=xp.zeros((1, k), dtype=xp.int64, device=device),
        sums=xp.zeros((1, 2), dtype=xp.float64, device=device),
    )
    return _of_all_ranks(part, group, first_free, -unlimited, unlimited)


def _of_all_ranks(part: Part, group: Group, first_free: int, low: Array, high: Array) -> Candidates:
    """Join what the ranks have kept; floats are added up in the order of the rows."""
    xp = compat.array_namespace(low)
    sums = entries("sums", xp.reshape(group.gather(part.sums), (-1,)))
    value, size = math.fsum(sums[::2]), math.fsum(sums[1::2])
    return Candidates(
        labels=part.labels,
        is_free=part.is_free,
        first_free=first_free,
        clusters=group.gather(part.clusters),
        values=group.gather(part.values),
        truncation=group.gather(part.truncation),
        fixed_counts=xp.sum(group.gather(part.counts), axis=0),
        fixed_value=value,
        fixed_size=size,
        low=low,
        high=high,
    )
