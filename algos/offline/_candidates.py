r"""Which clusters can be the best ones of a sample, for all prices of an interval at once.

Problem: the solvers look again and again for ``argmax_k s_ik + pi_k``, while the prices pi move
little. For prices in a box ``low <= pi <= high``, cluster k can be the best one of sample i only if

``s_ik + high_k >= max_j (s_ij + low_j)``.

Most samples are left with one cluster: their label is settled for every price in the box. The
others, the *open* ones, keep a list of a few clusters, and the whole problem shrinks to these lists
and the counts of the settled samples. A list is cut at a width; what was cut off is worth at most
the *cut*, the largest ``s_ik + high_k`` not listed, which keeps every upper bound valid.

=================  =============  ==========  =====================================================
symbol             here           shape       meaning
=================  =============  ==========  =====================================================
:math:`s_{i,k}`    ``scores``     (b, k)      one block
\-                 ``clusters``   (b, w)      listed clusters; -1 where there are fewer
\-                 ``values``     (b, w)      their scores; -inf where there are fewer
\-                 ``found``      (b,)        clusters that can be the best: 1 settles the sample
\-                 ``cuts``       (b,)        what a cluster not listed can be worth; -inf if none
=================  =============  ==========  =====================================================
"""

from __future__ import annotations

import math
from typing import NamedTuple

import array_api_compat as compat

from ...backends import kernel
from ..bounds.farkas import FarkasVector
from ..bounds.forbidden_pairs import infeasible
from ..core.errors import InvalidValueError
from ..core.segments import segment_sum
from ..core.types import Array
from ..scores.sources import ScoreSource, block_rows
from ..scores.units import ScoresOutOfRangeError, check_range

__all__ = ["Listing", "ListsTooLongError", "list_all", "list_open", "shortlist"]

_Part = tuple[Array, ...]

SLACK = 8.0
"""Units in the last place by which lists are longer than they need be, against rounding."""

JOINED = 256
"""Blocks whose lists are joined as a pass goes along."""

NOT_FINITE, NO_CLUSTER, OUT_OF_RANGE = 0, 1, 2
"""What can be wrong with a row."""


class ListsTooLongError(Exception):
    """More samples are open than memory has lists for: the box has to be narrower."""


class Listing(NamedTuple):
    """All samples for prices in a box: labels of the settled ones, lists of the open ones.

    Lists, cuts and settled counts are those of all ranks; labels are of this rank.

    Attributes
    ----------
    labels : (n,) int32 array
        Best cluster in the middle of the box: final for the settled samples of this rank.
    is_open : (n,) bool array
        Samples of this rank that have a list.
    first_open : int
        Place of this rank's first list among all.
    clusters : (m, w) int32 array
    values : (m, w) array
    cuts : (m,) float64 array
    settled : (k,) int64 array
        Counts of the settled samples.
    settled_value, settled_size : float
        Sum of their scores, and of the absolute values of those.
    low, high : (k,) float64 array
        The box.
    """

    labels: Array
    is_open: Array
    first_open: int
    clusters: Array
    values: Array
    cuts: Array
    settled: Array
    settled_value: float
    settled_size: float
    low: Array
    high: Array


@kernel
def shortlist(
    scores: Array, low: Array, high: Array, *, width: int
) -> tuple[Array, Array, Array, Array]:
    """List, for each row, the clusters that can be best; returns clusters, values, found, cuts.

    Listed in falling order of the most that each can be worth. Ties begin at another cluster in
    each row, so that rows which are alike do not all list the same few clusters. A row that holds
    NaN or plus infinity, or nothing but minus infinity, has ``found`` 0.
    """
    xp = compat.array_namespace(scores)
    k = scores.shape[1]
    width = min(width, k)
    eps = xp.finfo(scores.dtype).eps
    largest = float(xp.max(xp.maximum(xp.abs(low), xp.abs(high))))
    low, high = xp.astype(low, scores.dtype), xp.astype(high, scores.dtype)
    best = xp.max(scores + low, axis=1)
    usable = xp.isfinite(best) & xp.all(scores < math.inf, axis=1)  # false for NaN too
    best = xp.where(usable, best, xp.zeros_like(best))
    reach = best - (SLACK * eps) * (xp.abs(best) + largest)
    at_most = scores + high
    inside = (at_most >= reach[:, None]) & usable[:, None]
    found = xp.sum(xp.astype(inside, xp.int64), axis=1)
    key = xp.where(inside, at_most, xp.full_like(scores, -math.inf))
    # Row i breaks its ties from cluster i on.
    device = compat.device(scores)
    turned = xp.arange(scores.shape[0], dtype=xp.int64, device=device)[:, None]
    turned = (turned + xp.arange(k, dtype=xp.int64, device=device)) % k
    order = xp.argsort(
        xp.take_along_axis(key, turned, axis=1), axis=1, descending=True, stable=True
    )
    order = xp.take_along_axis(turned, order, axis=1)
    kept, rest = order[:, :width], order[:, width:]
    listed = xp.take_along_axis(inside, kept, axis=1)
    clusters = xp.where(listed, kept, xp.full_like(kept, -1))
    values = xp.take_along_axis(scores, kept, axis=1)
    values = xp.where(listed, values, xp.full_like(values, -math.inf))
    cuts = xp.full_like(best, -math.inf)
    if width < k:
        cuts = xp.max(xp.take_along_axis(key, rest, axis=1), axis=1)
    return xp.astype(clusters, xp.int32), values, found, xp.astype(cuts, xp.float64)


def list_open(
    source: ScoreSource, low: Array, high: Array, *, width: int, entries: int | None = None
) -> Listing:
    """One pass over the scores: settle what can be settled, list the rest.

    Parameters
    ----------
    source : ScoreSource
    low, high : (k,) float64 array
        The box of prices.
    width : int >= 2
        Longest list.
    entries : int, optional
        Most listed scores of all ranks; no limit by default.

    Returns
    -------
    Listing

    Raises
    ------
    InvalidValueError
        Naming the first row that holds NaN or plus infinity; on all ranks alike.
    InfeasibleBoundsError
        For a row that forbids every cluster, with the vector that proves it.
    ScoresOutOfRangeError
        If sums of scores would overflow.
    ListsTooLongError
        If the lists would have more than `entries` scores; on all ranks alike.

    Notes
    -----
    Cost O(n k) and, on top, O(1) for each listed cluster. Memory: one block, and the lists.
    Claims: docs/claims.md#C4.
    """
    xp, group = compat.array_namespace(low), source.group
    device = compat.device(low)
    most = math.inf if entries is None else entries // min(width, source.n_clusters)
    long, parts, wrong, n_open = [], [], (-1, 0), 0
    rows = block_rows(source.n_clusters)
    for start in range(0, max(group.n_local, 1), rows):
        stop = min(start + rows, group.n_local)
        scores = source.block(start, stop)
        part, bad = _list_block(scores, low, high, width)
        parts.append(part)
        if bad >= 0:
            wrong = group.first_row + start + bad, _what_is_wrong(scores[bad, :])
            break
        n_open += part[2].shape[0]
        if n_open > most:
            break
        if len(parts) == JOINED:
            long.append(_join(parts))
            parts = []
    _agree(group.gather(xp.asarray([wrong], dtype=xp.int64, device=device)), source.n_clusters)
    if entries is not None:
        of_all = group.gather(xp.asarray([n_open], dtype=xp.int64, device=device))
        if int(xp.sum(of_all)) > most:
            raise ListsTooLongError
    columns = [list(column) for column in zip(*long, *parts, strict=True)]
    del long, parts, part
    joined = []
    while columns:  # one at a time, so that no more than one of them is there twice
        joined.append(xp.concat(columns.pop(0)))
    labels, is_open, clusters, values, cuts, counts, sums = joined
    here = xp.asarray([[group.first_row, clusters.shape[0]]], dtype=xp.int64, device=device)
    of_ranks = group.gather(here)
    earlier = xp.astype(of_ranks[:, 0] < group.first_row, xp.int64)
    sums = group.gather(sums)
    value, size = (math.fsum(float(sums[i, j]) for i in range(sums.shape[0])) for j in range(2))
    return Listing(
        labels,
        is_open,
        int(xp.sum(earlier * of_ranks[:, 1])),
        group.gather(clusters),
        group.gather(values),
        group.gather(cuts),
        xp.sum(group.gather(counts), axis=0),
        value,
        size,
        low,
        high,
    )


def _join(parts: list[_Part]) -> _Part:
    """One long part of many short ones.

    Thousands of short arrays that live through a whole pass leave a heap full of holes, which is
    memory that the process never gives back.
    """
    xp = compat.array_namespace(parts[0][0])
    labels, is_open, clusters, values, cuts, counts, sums = zip(*parts, strict=True)
    return (
        xp.concat(labels),
        xp.concat(is_open),
        xp.concat(clusters),
        xp.concat(values),
        xp.concat(cuts),
        xp.sum(xp.concat(counts), axis=0, keepdims=True),
        xp.concat(sums),
    )


def list_all(source: ScoreSource, *, like: Array) -> Listing:
    """Every sample with all the clusters that it may go to: right for any prices, n k scores long.

    Parameters
    ----------
    source : ScoreSource
    like : array
        Of the library and device of the scores.

    Raises
    ------
    InvalidValueError
        As `list_open`.
    """
    xp, group, k = compat.array_namespace(like), source.group, source.n_clusters
    rows, device = block_rows(k), compat.device(like)
    edges = range(0, max(group.n_local, 1), rows)
    scores = xp.concat([source.block(a, min(a + rows, group.n_local)) for a in edges])
    allowed = xp.isfinite(scores)
    bad = ~xp.all(scores < math.inf, axis=1) | ~xp.any(allowed, axis=1)
    wrong = (-1, 0)
    if scores.shape[0] and bool(xp.any(bad)):
        first = int(xp.argmax(xp.astype(bad, xp.int8)))
        wrong = group.first_row + first, _what_is_wrong(scores[first, :])
    elif not check_range(scores):
        wrong = group.first_row, OUT_OF_RANGE
    _agree(group.gather(xp.asarray([wrong], dtype=xp.int64, device=device)), k)
    order = xp.argsort(scores, axis=1, descending=True, stable=True)
    listed = xp.take_along_axis(allowed, order, axis=1)
    clusters = xp.astype(xp.where(listed, order, xp.full_like(order, -1)), xp.int32)
    zeros = xp.zeros((k,), dtype=xp.int64, device=device)
    far = xp.full((k,), math.inf, dtype=xp.float64, device=device)
    labels = xp.zeros((group.n_local,), dtype=xp.int32, device=device)
    return Listing(
        labels,
        labels == 0,
        group.first_row,
        group.gather(clusters),
        group.gather(xp.take_along_axis(scores, order, axis=1)),
        xp.full((group.n_total,), -math.inf, dtype=xp.float64, device=device),
        zeros,
        0.0,
        0.0,
        -far,
        far,
    )


def _list_block(scores: Array, low: Array, high: Array, width: int) -> tuple[_Part, int]:
    """What `list_open` keeps of a block, and the first row with which something is wrong, or -1."""
    xp = compat.array_namespace(scores)
    b, k = scores.shape
    names, values, found, cuts = shortlist(scores, low, high, width=width)
    bad = int(xp.argmin(found)) if b and bool(xp.any(found == 0)) else -1
    labels, is_open = names[:, 0], found > 1
    # Open rows first, by a sort: not every array library has boolean indices.
    m = int(xp.sum(xp.astype(is_open, xp.int64)))
    chosen = xp.argsort(xp.astype(is_open, xp.int8), descending=True, stable=True)[:m]
    settled = xp.astype(xp.where(found == 1, labels, xp.full_like(labels, k)), xp.int64)
    counts = segment_sum(xp.ones_like(settled)[:, None], settled, n_segments=k + 1)[:k, 0]
    firsts = values[:, 0]
    names, values, cuts = (xp.take(array, chosen, axis=0) for array in (names, values, cuts))
    cuts = _rounded_up(cuts, low, high, float(xp.finfo(scores.dtype).eps))
    if bad < 0 and b and not (check_range(firsts) and check_range(values)):
        bad = 0
    firsts = xp.astype(firsts, xp.float64)
    own = xp.where(is_open, xp.zeros_like(firsts), firsts)
    sums = xp.stack([xp.sum(own), xp.sum(xp.abs(own))])
    return (labels, is_open, names, values, cuts, counts[None, :], sums[None, :]), bad


def _rounded_up(cuts: Array, low: Array, high: Array, eps: float) -> Array:
    """Cuts that hold although a price, and its sum with a score, were rounded to nearest."""
    xp = compat.array_namespace(cuts)
    largest = float(xp.max(xp.maximum(xp.abs(low), xp.abs(high))))
    if largest == 0.0:
        return cuts
    finite = xp.isfinite(cuts)
    sizes = xp.abs(xp.where(finite, cuts, xp.zeros_like(cuts)))
    return xp.where(finite, cuts + eps * (sizes + largest), cuts)


def _what_is_wrong(row: Array) -> int:
    """Of a row that has no best cluster, or of which the best are out of range."""
    xp = compat.array_namespace(row)
    if not bool(xp.all(row < math.inf)):  # true for NaN too
        return NOT_FINITE
    return OUT_OF_RANGE if bool(xp.any(xp.isfinite(row))) else NO_CLUSTER


def _agree(wrong: Array, n_clusters: int) -> None:
    """Raise on every rank if any rank has found a row with which something is wrong."""
    found = [(int(wrong[i, 0]), int(wrong[i, 1])) for i in range(wrong.shape[0])]
    row, kind = min((pair for pair in found if pair[0] >= 0), default=(-1, 0))
    if row < 0:
        return
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
