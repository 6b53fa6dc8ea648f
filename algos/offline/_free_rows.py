r"""Rows of one candidate are fixed, the others are free: what is kept of some rows.

Problem: for the prices of a trust region most rows have one candidate (`_candidates`). Of these
only the counts and the value of their scores matter; the others keep their lists. In a smaller
region lists are shorter, and more rows are fixed.

Some rows no solver can label: one with NaN or plus infinity has no meaning, one with nothing but
minus infinity has no cluster, and one with scores that are too large needs another unit
(`scores.statistics`). Ranks agree on the first such row before any of them raises; in the same
message they say how many free rows they have.

=================  ================  =======  ====================================================
symbol             here             shape    meaning
=================  ================  =======  ====================================================
\-                 ``clusters``      (b, w)   candidates; -1 where there are fewer
\-                 ``values``        (b, w)   their scores; -inf where there are fewer
\-                 ``n_candidates``  (b,)     before truncation: 1 fixes the row
\-                 ``truncation``    (b,)     worth of a truncated cluster at most; -inf if none
=================  ================  =======  ====================================================
"""

from __future__ import annotations

import math
from itertools import accumulate, pairwise
from typing import NamedTuple

import array_api_compat as compat

from ...backends import kernel
from ..bounds.farkas import FarkasVector
from ..bounds.infeasibility import infeasible
from ..core.errors import InvalidValueError
from ..core.reads import entries, read
from ..core.segments import segment_counts
from ..core.types import Array
from ..scores.sources import ScoreSource, largest_score
from ..scores.statistics import ScoresOutOfRangeError, largest_accepted

__all__ = [
    "OUT_OF_RANGE",
    "SLACK",
    "Lists",
    "Part",
    "agree",
    "free_rows",
    "join",
    "split_rows",
    "what_is_wrong",
]

SLACK = 8.0
"""Units in the last place by which the inequality is relaxed, against rounding."""

NOT_FINITE, NO_CLUSTER, OUT_OF_RANGE = 0, 1, 2
"""What can be wrong with a row."""

Lists = tuple[Array, Array, Array, Array]
"""Candidates of some rows: clusters, values, n_candidates, truncation."""


class Part(NamedTuple):
    """What is kept of some rows: arrays named as in `Candidates`, to be joined by rows."""

    labels: Array
    is_free: Array
    clusters: Array
    values: Array
    truncation: Array
    counts: Array
    sums: Array


@kernel
def split_rows(
    clusters: Array,
    values: Array,
    n_candidates: Array,
    truncation: Array,
    *,
    n_clusters: int,
    largest: float,
    limit: float,
) -> tuple[Array, Array, Array, Array, Array, Array, Array, int]:
    """Count the fixed rows and add up their scores, and keep the lists of the free ones.

    `largest` is the largest price of the region, in size; `limit` is the largest score, in size,
    that may come first in a row or be kept. Returns what a `Part` holds, and the first row without
    a candidate, or 0 if a score is beyond the limit, or -1. Unless it is -1 the rest has no use.
    Of b rows, m of them free: (b,) and (b,); (m, w), (m, w) and (m,); (1, k) int64, (1, 2) float64.
    """
    xp = compat.array_namespace(values)
    labels, is_fixed, is_free = clusters[:, 0], n_candidates == 1, n_candidates > 1
    fixed = xp.astype(xp.where(is_fixed, labels, xp.full_like(labels, n_clusters)), xp.int64)
    counts = segment_counts(fixed, n_segments=n_clusters + 1)[:n_clusters]
    best, sums = values[:, 0], _fixed_sums(values, n_candidates)
    n_wrong, m = read(
        xp.sum(xp.astype(n_candidates == 0, xp.int64)), xp.sum(xp.astype(is_free, xp.int64))
    )
    bad = int(xp.argmin(n_candidates)) if n_wrong else -1
    # Free rows come first by a sort: not every library has boolean indices.
    free = xp.argsort(xp.astype(is_free, xp.int8), descending=True, stable=True)[: int(m)]
    clusters, values, truncation = (
        xp.take(array, free, axis=0) for array in (clusters, values, truncation)
    )
    truncation = _rounded_up(truncation, largest, float(xp.finfo(values.dtype).eps))
    if bad < 0 and not largest_score(xp.concat([best, xp.reshape(values, (-1,))])) <= limit:
        bad = 0
    return labels, is_free, clusters, values, truncation, counts[None, :], sums, bad


def free_rows(lists: Lists, sizes: list[int], n_clusters: int, largest: float) -> tuple[Part, int]:
    """Return what is kept of some rows, and the first row with something wrong, or -1.

    `largest` is the largest price of the region, in size. Blocks of several `sizes` have a sum
    each, so that none depends on which come together.
    """
    xp, (_, values, n_candidates, _) = compat.array_namespace(lists[0]), lists
    limit = largest_accepted(values)
    *kept, bad = split_rows(*lists, n_clusters=n_clusters, largest=largest, limit=limit)
    part = Part(*kept)
    if len(sizes) > 1:
        slices = [slice(*pair) for pair in pairwise(accumulate(sizes, initial=0))]
        sums = [_fixed_sums(values[some, :], n_candidates[some]) for some in slices]
        part = part._replace(sums=xp.concat(sums))
    return part, bad


def _fixed_sums(values: Array, n_candidates: Array) -> Array:
    """Add up the scores of the fixed rows, and their absolute values: (1, 2) float64."""
    xp, best = compat.array_namespace(values), values[:, 0]
    of_fixed = xp.where(n_candidates == 1, best, xp.zeros_like(best))
    of_fixed = xp.astype(of_fixed, xp.float64)
    return xp.stack([xp.sum(of_fixed), xp.sum(xp.abs(of_fixed))])[None, :]


def _rounded_up(truncation: Array, largest: float, eps: float) -> Array:
    """Raise what truncated clusters are worth by the rounding of a price and of its sum."""
    xp = compat.array_namespace(truncation)
    if largest == 0.0:
        return truncation
    finite = xp.isfinite(truncation)
    sizes = xp.abs(xp.where(finite, truncation, xp.zeros_like(truncation)))
    return xp.where(finite, truncation + eps * (sizes + largest), truncation)


def join(parts: list[Part]) -> Part:
    """Make one long part of many short ones.

    Thousands of short arrays that live through a whole pass leave a heap full of holes, which is
    memory that the process never gives back.
    """
    xp = compat.array_namespace(parts[0].labels)
    whole = Part(*(xp.concat(column) for column in zip(*parts, strict=True)))
    return whole._replace(counts=xp.sum(whole.counts, axis=0, keepdims=True))


def what_is_wrong(row: Array) -> int:
    """Tell why a row has no best cluster, or one whose score is out of range."""
    xp = compat.array_namespace(row)
    if not bool(xp.all(row < math.inf)):  # true for NaN too
        return NOT_FINITE
    return OUT_OF_RANGE if bool(xp.any(xp.isfinite(row))) else NO_CLUSTER


def agree(
    source: ScoreSource, wrong: tuple[int, int], n_free: int, *, like: Array
) -> tuple[int, int]:
    """Raise on every rank if any rank has met a row with which something is wrong.

    Returns the place of this rank's first free row among those of all ranks, and their number.
    """
    xp, group, n_clusters = compat.array_namespace(like), source.group, source.n_clusters
    here = [[group.first_row, n_free, *wrong]]
    facts, width = here[0], len(here[0])
    if not group.is_alone:
        of_ranks = group.gather(xp.asarray(here, dtype=xp.int64, device=compat.device(like)))
        facts = entries("ranks", xp.reshape(of_ranks, (-1,)))
    firsts, frees, *found = (facts[i::width] for i in range(width))
    earlier = (m for first, m in zip(firsts, frees, strict=True) if first < group.first_row)
    pairs = (pair for pair in zip(*found, strict=True) if pair[0] >= 0)
    row, kind = min(pairs, default=(-1, 0))
    if row < 0:
        return sum(earlier), sum(frees)
    if kind == OUT_OF_RANGE:
        raise ScoresOutOfRangeError
    if kind == NO_CLUSTER:
        none = (0,) * n_clusters
        raise infeasible(FarkasVector(none, none, 0, None, row))
    msg = (
        f"scores must be finite, or minus infinity for a forbidden pair: row {row} is not so. "
        f"To fix this, check the features and centers behind that row, or drop it"
    )
    raise InvalidValueError(msg)
