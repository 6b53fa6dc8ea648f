r"""Rows of one candidate are fixed, the others are free: what a look at some rows leaves of them.

Problem: for the prices of a trust region most rows have one candidate (`_candidates`). Of these
only the counts and the value of their scores matter; the others keep their lists.

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

from typing import NamedTuple

import array_api_compat as compat

from ..core.reads import read
from ..core.segments import segment_sum
from ..core.types import Array
from ..scores.statistics import check_range

__all__ = ["Block", "Part", "fix_rows", "free_rows", "join"]


class Block(NamedTuple):
    """What is known of the rows of a block; the last two are of the fixed rows."""

    clusters: Array
    values: Array
    n_candidates: Array
    truncation: Array
    counts: Array
    sums: Array


class Part(NamedTuple):
    """What is kept of some blocks: arrays named as in `Candidates`, to be joined by rows."""

    labels: Array
    is_free: Array
    clusters: Array
    values: Array
    truncation: Array
    counts: Array
    sums: Array


def fix_rows(
    names: Array, values: Array, n_candidates: Array, truncation: Array, n_clusters: int
) -> Block:
    """Count the rows of a block that have one candidate, and add up their scores. Reads nothing."""
    xp = compat.array_namespace(values)
    labels, is_fixed = names[:, 0], n_candidates == 1
    fixed = xp.astype(xp.where(is_fixed, labels, xp.full_like(labels, n_clusters)), xp.int64)
    ones = xp.ones_like(fixed)[:, None]
    counts = segment_sum(ones, fixed, n_segments=n_clusters + 1)[:n_clusters, 0]
    best = xp.astype(values[:, 0], xp.float64)
    fixed_values = xp.where(n_candidates > 1, xp.zeros_like(best), best)
    sums = xp.stack([xp.sum(fixed_values), xp.sum(xp.abs(fixed_values))])
    return Block(names, values, n_candidates, truncation, counts[None, :], sums[None, :])


def free_rows(looks: list[Block], largest: float) -> tuple[Part, int]:
    """Return what is kept of some blocks, and the first row with something wrong, or -1.

    `largest` is the largest price of the region, in size.
    """
    xp = compat.array_namespace(looks[0].clusters)
    columns = [c[0] if len(c) == 1 else xp.concat(c) for c in zip(*looks, strict=True)]
    names, values, n_candidates, truncation, counts, sums = columns
    labels, is_free = names[:, 0], n_candidates > 1
    n_wrong, m = read(
        xp.sum(xp.astype(n_candidates == 0, xp.int64)), xp.sum(xp.astype(is_free, xp.int64))
    )
    bad = int(xp.argmin(n_candidates)) if n_wrong else -1
    # Free rows come first by a sort: not every library has boolean indices.
    free = xp.argsort(xp.astype(is_free, xp.int8), descending=True, stable=True)[: int(m)]
    best = values[:, 0]
    clusters, values, truncation = (
        xp.take(array, free, axis=0) for array in (names, values, truncation)
    )
    truncation = _rounded_up(truncation, largest, float(xp.finfo(values.dtype).eps))
    if bad < 0 and not check_range(xp.concat([best, xp.reshape(values, (-1,))])):
        bad = 0
    return Part(labels, is_free, clusters, values, truncation, counts, sums), bad


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
