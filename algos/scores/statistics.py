r"""The range of scores from a few rows, and a unit in which sums of scores stay finite.

Problem 1: solvers need lengths in units of score, from typical rows. `strided_ids` picks rows from
all over the data. `score_range` is the median difference of the scores in one row; a few outlying
rows do not move it.

Problem 2: the best labels do not depend on the unit of the scores, but float64 does. Two scores of
1e308 add up to infinity, and an infinite bound proves nothing. A weighted score that overflows is
taken for a forbidden pair, and below 2e-308 prices have fewer digits than scores.

1. *A few rows* show the largest score. Almost always it lies within 2^-100 ... 2^100, and nothing
   is done: finding the largest of all scores would cost as much as a pass.
2. *Otherwise* scores are multiplied by a power of two, which is exact, before anything is computed,
   and the results are multiplied back.
3. *If these few rows miss a row out of range*, a pass over the scores (`offline`) finds it, raises
   `ScoresOutOfRangeError`, and is repeated in another unit.

=================  ====================  ======  ================================================
symbol             here                  shape   meaning
=================  ====================  ======  ================================================
:math:`2^e`        ``source.exponent``   ()      unit: true scores are 2^e times those of a source
=================  ====================  ======  ================================================
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from functools import cache
from typing import TypeVar

import array_api_compat as compat

from ..core.checks import check_real, check_same_place
from ..core.errors import InvalidValueError
from ..core.precision import times_power_of_two
from ..core.reads import detached
from ..core.types import Array
from ..core.workers import map_in_order, map_parts, row_parts
from .blocks import row_blocks
from .sources import ScoreSource, largest_score, score_source

__all__ = [
    "FAR",
    "PART_ROWS",
    "ScoresOutOfRangeError",
    "allowed_pairs",
    "check_range",
    "in_range",
    "kept_in_memory",
    "largest_accepted",
    "lead",
    "map_taken",
    "median",
    "places_of",
    "rescaled",
    "score_range",
    "scores_at",
    "source_of_one_rank",
    "strided_ids",
]

FAR = 100
"""Largest exponent, of either sign, of scores that are not rescaled."""

LEAST_RANGE = 2.0**-900
"""Least range of scores; where rows differ by less, float64 hardly tells them apart."""

LARGEST = {32: 2.0**FAR, 64: 2.0**900}
"""Largest score that a pass accepts, by the bits of the dtype."""

PART_ROWS = 2**10
"""Rows of a block that become float64 at a time: what is made of them stays in a core's cache."""

TAKEN_ROWS = 2**8
"""Rows that are taken by their ids at a time, at least, where threads share them out."""

R = TypeVar("R")


class ScoresOutOfRangeError(Exception):
    """Scores are so large that sums of them would overflow: they need another unit."""


def strided_ids(n: int, m: int, like: Array) -> Array:
    """Return m different ids from all over 0 ... n-1, in steps of about n / golden ratio.

    Examples
    --------
    >>> import numpy as np
    >>> strided_ids(8, 5, np.zeros(1))
    array([0, 5, 2, 7, 4])
    """
    xp = compat.array_namespace(like)
    stride = round(n * (math.sqrt(5) - 1) / 2)
    while math.gcd(stride, n) != 1:
        stride += 1
    return (xp.arange(m, dtype=xp.int64, device=compat.device(like)) * stride) % n


def median(values: Array) -> float:
    """Return the upper median of an (n,) array; 0 if it is empty."""
    xp, n = compat.array_namespace(values), values.shape[0]
    return float(xp.sort(values)[n // 2]) if n else 0.0


def score_range(scores: Array) -> float:
    """Return the median of largest minus smallest score over rows where they differ, or 1.

    At least `LEAST_RANGE`, so that steps and temperatures, which are parts of it, are not 0.
    """
    xp = compat.array_namespace(scores)

    def of_part(rows: Array) -> Array:
        finite = xp.isfinite(rows)
        low = xp.min(xp.where(finite, rows, xp.full_like(rows, math.inf)), axis=1)
        high = xp.astype(xp.max(rows, axis=1), xp.float64)
        low = xp.astype(low, xp.float64)
        # None of a row without a finite score, or whose difference would overflow.
        is_finite = 0.5 * high - 0.5 * low < 0.5 * sys.float_info.max
        is_finite = is_finite & xp.isfinite(low)
        none = xp.zeros_like(low)
        return xp.where(is_finite, high, none) - xp.where(is_finite, low, none)

    ranges = xp.concat(list(map_parts(of_part, scores)))
    n = ranges.shape[0]
    if not n:
        return 1.0
    n_equal = xp.sum(xp.astype(ranges == 0.0, xp.int64))  # they come first
    middle = xp.clip(n_equal + (n - n_equal) // 2, max=n - 1)
    found = xp.take(xp.sort(ranges), xp.reshape(middle, (1,)))
    return max(float(xp.reshape(found, ())) or 1.0, LEAST_RANGE)


def lead(scores: Array, share: float) -> float:
    """Return the lead of a row's best score that this share of the rows do not have.

    Of rows whose best score leads by something finite; if none does, `score_range`.

    Examples
    --------
    >>> import numpy as np
    >>> lead(np.asarray([[3.0, 1.0], [1.0, 5.0], [2.0, 2.0]]), 0.5)
    4.0
    """
    xp = compat.array_namespace(scores)
    ordered = xp.sort(scores, axis=1, descending=True)
    leads = ordered[:, 0] - ordered[:, 1]
    leads = xp.sort(xp.take(leads, places_of((leads > 0.0) & xp.isfinite(leads))))
    m = leads.shape[0]
    return float(leads[int(share * m)]) if m else score_range(scores)


def check_range(values: Array) -> bool:
    """Tell whether sums of any number of these scores, and of prices like them, stay finite."""
    return largest_score(values) <= largest_accepted(values)


def largest_accepted(values: Array) -> float:
    """Return the largest score, in size, that a pass accepts in the dtype of these."""
    xp = compat.array_namespace(values)
    return LARGEST.get(xp.finfo(values.dtype).bits, LARGEST[32])


def map_taken(function: Callable[[Array], R], source: ScoreSource, ids: Array) -> Iterator[R]:
    """Yield ``function(rows)`` of the rows with some ids, a part at a time, in order.

    Threads share out the parts of a single rank; several ranks take all these rows at once.

    Examples
    --------
    >>> import numpy as np
    >>> from dualclust.algos.scores.sources import score_source
    >>> source = score_source(np.asarray([[1.0, 2.0], [5.0, 0.0], [3.0, 4.0]]))
    >>> [rows.tolist() for rows in map_taken(lambda rows: rows, source, np.asarray([2, 0]))]
    [[[3.0, 4.0], [1.0, 2.0]]]
    """
    is_shared, m = source.group.is_alone and not source.in_turn, int(ids.shape[0])
    parts = row_parts(m, TAKEN_ROWS if is_shared else max(m, 1), like=ids)
    like = ids if is_shared else None
    return map_in_order(lambda part: function(source.take(ids[part])), parts, like=like)


def in_range(source: ScoreSource, ids: Array) -> ScoreSource:
    """Return the source, in another unit if the rows `ids` need it.

    Parameters
    ----------
    source : ScoreSource
    ids : (m,) int64 array
        A few rows of all ranks.

    Returns
    -------
    ScoreSource
    """
    largest = max(map_taken(largest_score, source, ids))
    if largest > 0.0 and abs(math.frexp(largest)[1]) <= FAR:
        return source
    return rescaled(source)


def rescaled(source: ScoreSource) -> ScoreSource:
    """Return the source in float64, in a unit in which its largest finite score is in range.

    Parameters
    ----------
    source : ScoreSource

    Returns
    -------
    ScoreSource
        The same on all ranks. Scores keep all digits unless they are below 2^-1122 times the
        largest.

    Notes
    -----
    Cost: one pass over all scores.

    Examples
    --------
    >>> import numpy as np
    >>> from dualclust.algos.scores.sources import score_source
    >>> found = rescaled(score_source(np.asarray([[2.0**1023, 1.0]])))
    >>> found.exponent, found.block(0, 1) == [[2.0**99, 2.0**-924]]
    (924, array([[ True,  True]]))
    """
    group, empty = source.group, source.block(0, 0)
    sizes = source.map_blocks(
        lambda start, stop: largest_score(source.block(start, stop)), like=empty
    )
    here = max(sizes, default=0.0)
    xp, device = compat.array_namespace(empty), compat.device(empty)
    of_ranks = group.gather(xp.asarray([here], dtype=xp.float64, device=device))
    largest = math.frexp(float(xp.max(of_ranks)))[1]
    exponent = max(largest - FAR, 0) + min(largest + FAR, 0)

    def scaled(block: Array) -> Array:
        return times_power_of_two(xp.astype(block, xp.float64), -exponent)

    return source._replace(
        block=lambda start, stop: scaled(source.block(start, stop)),
        take=lambda ids: scaled(source.take(ids)),
        exponent=source.exponent + exponent,
    )


def allowed_pairs(source: ScoreSource) -> Array:
    """Return which pairs are not forbidden, (n, k) bool of all ranks."""
    like = source.block(0, 0)
    xp = compat.array_namespace(like)

    def allowed(start: int, stop: int) -> Array:
        return xp.isfinite(source.block(start, stop))

    parts = list(source.map_blocks(allowed, like=like, at_least_one=True))
    return source.group.gather(xp.concat(parts))


def kept_in_memory(source: ScoreSource, *, like: Array) -> ScoreSource:
    """Multiply all blocks now, and return a source that reads them from memory.

    Parameters
    ----------
    source : ScoreSource
        All ranks call together.
    like : array
        Of the library and device of the scores.

    Returns
    -------
    ScoreSource
        Its ``block(start, stop)`` is for rows that there are, 0 <= start <= stop <= n_local. Rows
        by id are those of the blocks, to the last bit, on one rank as on several.

    Notes
    -----
    Blocks are kept as they are: rows of one block need no copy. Memory: the scores of this rank,
    and those of all ranks on several, or once rows are asked for by id.
    """
    xp, group = compat.array_namespace(like), source.group
    found = source.map_blocks(source.block, like=like, at_least_one=True)
    blocks = [detached(block) for block in found]
    rows = max(1, blocks[0].shape[0])  # of all blocks but the last

    def block(start: int, stop: int) -> Array:
        first = min(start // rows, len(blocks) - 1)
        edges = [(i, i * rows) for i in range(first, max(math.ceil(stop / rows), first + 1))]
        parts = [blocks[i][max(start - a, 0) : min(stop - a, rows), :] for i, a in edges]
        return parts[0] if len(parts) == 1 else xp.concat(parts)

    @cache
    def whole() -> Array:
        return group.gather(xp.concat(blocks))

    if not group.is_alone:
        whole()  # all ranks are here now, and rows by id wait for none
    return source._replace(
        block=block,
        take=lambda ids: xp.take(whole(), ids, axis=0),
        in_turn=False,
    )


def places_of(mask: Array) -> Array:
    """Return where an (n,) bool array is true, (m,) int64, in order.

    By a sort, because not every library has shapes that depend on data.

    Examples
    --------
    >>> import numpy as np
    >>> places_of(np.asarray([False, True, False, True]))
    array([1, 3])
    """
    xp = compat.array_namespace(mask)
    order = xp.argsort(xp.astype(mask, xp.int8), descending=True, stable=True)
    return xp.astype(order[: int(xp.sum(xp.astype(mask, xp.int64)))], xp.int64)


def scores_at(source: ScoreSource, rows: Array, names: Array) -> Array:
    """Return scores of some rows (m,) in the clusters (m, w) that are named, float64.

    Names are of int64, -1 for none, whose scores are minus infinity. O(m w) memory.

    Examples
    --------
    >>> import numpy as np
    >>> source = score_source(np.asarray([[1.0, 2.0], [3.0, 4.0]]))
    >>> scores_at(source, np.asarray([1]), np.asarray([[1, -1]]))
    array([[  4., -inf]])
    """
    xp, parts = compat.array_namespace(names), list[Array]()
    for start, stop in row_blocks(int(rows.shape[0]), PART_ROWS, at_least_one=True):
        some, own = xp.astype(source.take(rows[start:stop]), xp.float64), names[start:stop, :]
        values = xp.take_along_axis(some, xp.clip(own, min=0), axis=1)
        parts.append(xp.where(own >= 0, values, xp.full_like(values, -math.inf)))
    return xp.concat(parts)


def source_of_one_rank(
    scores: Array | ScoreSource, weights: Array | None = None, **others: Array | None
) -> ScoreSource:
    """Return the source of scores that a function takes as an array or as a source of one rank.

    Parameters
    ----------
    scores : (n, k) real array, or ScoreSource
    weights : (n,) real array, optional
        Of an array alone: a source has its own.
    **others : arrays, or None
        What must be where an array of scores is, by the names of the arguments.

    Raises
    ------
    InvalidValueError, InvalidTypeError, DeviceMismatchError
        For weights beside a source, a source of several ranks, and places that differ.

    Examples
    --------
    >>> import numpy as np
    >>> source_of_one_rank(np.zeros((3, 2))).n_clusters
    2
    """
    if not isinstance(scores, ScoreSource):
        check_real("scores", scores)
        check_same_place(scores=scores, **others)
        return score_source(scores, weights)
    if weights is not None:
        msg = (
            "weights must be those of the source, got others. To fix this, give them to the source"
        )
        raise InvalidValueError(msg)
    if not scores.group.is_alone:
        msg = "scores must be of one rank, got those of several. To fix this, gather them first"
        raise InvalidValueError(msg)
    return scores
