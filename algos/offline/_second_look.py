r"""Candidates of a region inside one that was looked at: only truncated rows are read again.

Problem: a pass often leaves a few rows with more candidates than it keeps, and these alone keep
its labels from being proven. Better prices are known by then, and a smaller region around them. A
second pass would read all scores to say what the first has said: whatever

``s_ik + high_k < max_j (s_ij + low_j)``

has ruled out for a region, it rules out for all regions inside, where highs are lower and lows are
higher. So fixed rows stay fixed, and on the list of a row that has lost no candidate are all that
can be best, the best one of the right-hand side included.

1. *Narrow* the lists of the free rows, by the same inequality over the list alone.
2. *Read* the rows again that have lost a candidate, and select theirs anew.
3. *Fix* the rows with one candidate, and keep the others (`_free_rows`).

=================  ================  =======  ====================================================
symbol             here             shape    meaning
=================  ================  =======  ====================================================
:math:`s_{i,k}`    ``values``        (b, w)   scores of the candidates of some free rows
\-                 ``clusters``      (b, w)   these candidates; -1 where there are fewer
\-                 ``ids``           (m,)     of the free rows of all ranks, in their order
=================  ================  =======  ====================================================
"""

from __future__ import annotations

import math

import array_api_compat as compat

from ..core.reads import entries, on_host, read
from ..core.types import Array
from ..scores.blocks import MOST_ROWS, block_rows, map_blocks, row_blocks
from ..scores.sources import Group, ScoreSource
from ..scores.statistics import ScoresOutOfRangeError
from ._candidates import (
    DEVICE_ROWS,
    Candidates,
    TooManyCandidatesError,
    TrustRegion,
    collect_candidates,
    select_candidates,
)
from ._free_rows import Lists, Part, free_rows, join, narrow_candidates
from ._options import SolverOptions

__all__ = ["candidates_in", "leaves_the_part", "look_again", "may_look_again"]


def candidates_in(
    source: ScoreSource,
    region: TrustRegion,
    known: Candidates | None,
    *,
    width: int,
    max_entries: int | None,
) -> tuple[Candidates, TrustRegion]:
    """Return the candidates of a region by a pass, or by a second look at those of its last one.

    Parameters and errors are those of `collect_candidates` and `look_again`. Of the region, a
    second look takes the part that lies in the one of `known`, and returns it as well.

    Examples
    --------
    >>> import numpy as np
    >>> from dualclust.algos.scores.sources import score_source
    >>> source, prices = score_source(np.asarray([[1.0, 0.6], [0.0, 1.0]])), np.zeros(2)
    >>> wide, narrow = (TrustRegion(prices, prices + radius) for radius in (0.3, 0.1))
    >>> found, _ = candidates_in(source, wide, None, width=2, max_entries=None)
    >>> again, _ = candidates_in(source, narrow, found, width=2, max_entries=None)
    >>> found.fixed_counts.tolist(), again.fixed_counts.tolist()
    ([0, 1], [1, 1])
    """
    xp = compat.array_namespace(region.center)
    low, high = region.center - region.radius, region.center + region.radius
    if known is None:
        found = collect_candidates(source, low, high, width=width, max_entries=max_entries)
        return found, region
    low, high = xp.maximum(low, known.low), xp.minimum(high, known.high)
    found = look_again(source, known, low, high, width=width, max_entries=max_entries)
    return found, TrustRegion(0.5 * (low + high), 0.5 * (high - low))


def may_look_again(
    candidates: Candidates, prices: Array, n_rows: int, options: SolverOptions
) -> bool:
    """Tell whether a second look may be enough: few rows were truncated, no price is at the edge.

    Examples
    --------
    >>> import numpy as np
    >>> from dualclust.algos.offline._options import DEFAULT_OPTIONS
    >>> from dualclust.algos.scores.sources import score_source
    >>> source, prices = score_source(np.zeros((5, 3))), np.zeros(3)
    >>> low, high = prices - 1.0, prices + 1.0
    >>> found = [collect_candidates(source, low, high, width=width) for width in (2, 3)]
    >>> [may_look_again(each, prices, 5, DEFAULT_OPTIONS) for each in found]
    [False, True]
    """
    xp = compat.array_namespace(prices)
    n_cut, n_at_edge = read(
        xp.sum(xp.astype(candidates.is_truncated, xp.int64)),
        xp.sum(xp.astype(candidates.at_edge(prices), xp.int64)),
    )
    return n_at_edge == 0 and n_cut <= options.few_truncated * n_rows


def leaves_the_part(candidates: Candidates, prices: Array, region: TrustRegion) -> bool:
    """Tell whether a price stands at an edge of a second look that is inside the region.

    Examples
    --------
    >>> import numpy as np
    >>> from dualclust.algos.scores.sources import score_source
    >>> prices, ones = np.asarray([1.0, 0.0]), np.ones(2)
    >>> found = collect_candidates(score_source(np.eye(2)), -ones, ones, width=2)
    >>> whole, larger = (TrustRegion(0.0 * ones, radius * ones) for radius in (1.0, 2.0))
    >>> leaves_the_part(found, prices, whole), leaves_the_part(found, prices, larger)
    (False, True)
    """
    xp, (center, radius) = compat.array_namespace(prices), region
    is_inner = (candidates.low > center - radius) | (candidates.high < center + radius)
    return bool(xp.any(candidates.at_edge(prices) & is_inner))


def look_again(
    source: ScoreSource,
    known: Candidates,
    low: Array,
    high: Array,
    *,
    width: int,
    max_entries: int | None = None,
) -> Candidates:
    """Return the candidates of a smaller region, as `collect_candidates` would by a pass.

    Parameters
    ----------
    source : ScoreSource
        The one that `known` is of.
    known : Candidates
        Of a region that holds the smaller one.
    low, high : (k,) float64 array
        The smaller region of the prices.
    width : int
        Most candidates of a row; at least as many as `known` keeps.
    max_entries : int, optional
        Most candidates of all rows of all ranks; no limit by default.

    Returns
    -------
    Candidates
        Those of a pass, but for the order of a row's candidates, for which of those that tie a
        truncated row keeps, and for the rounding of the products of rows that are read again.

    Raises
    ------
    TooManyCandidatesError
        If free rows would have more than `max_entries` candidates; on all ranks alike.
    ScoresOutOfRangeError
        If a row that is read again has other scores than before, which are NaN or too large.

    Notes
    -----
    Memory: one block of scores, and the candidates beside those of `known`.
    Cost: O(m w) for m free rows of w candidates, and O(k) for each truncated row. All ranks look at
    the free rows of all, so that nothing depends on their number.
    Claims: docs/claims.md#C4.
    """
    xp, group, k = compat.array_namespace(low), source.group, source.n_clusters
    width, ids = min(width, k), _ids_of_free_rows(known, group)
    largest = float(xp.max(xp.maximum(xp.abs(low), xp.abs(high))))

    def look(start: int, stop: int) -> Part:
        rows = slice(start, stop)
        is_cut = known.is_truncated[rows]
        lists = known.values[rows, :], known.clusters[rows, :]
        selected = narrow_candidates(*lists, low, high, width=width)  # step 1
        (n_cut,) = read(xp.sum(xp.astype(is_cut, xp.int64)))
        if n_cut:
            cut = xp.argsort(xp.astype(is_cut, xp.int8), descending=True, stable=True)[: int(n_cut)]
            cut = xp.take(ids[rows], cut)
            parts = [
                select_candidates(source.take(cut[a:b]), low, high, width=width)  # step 2
                for a, b in row_blocks(int(n_cut), block_rows(k, like=low))
            ]
            selected = _in_place(selected, parts, is_cut)
        part, bad = free_rows([selected], k, largest)  # step 3
        if bad >= 0:  # not the scores of the first look: a pass tells what is wrong
            raise ScoresOutOfRangeError
        return part

    parts = map_blocks(
        look,
        ids.shape[0],
        MOST_ROWS if on_host(low) else DEVICE_ROWS,
        like=None if source.in_turn or not group.is_alone else low,
        at_least_one=True,
    )
    part = join(list(parts))
    if max_entries is not None and part.clusters.shape[0] * width > max_entries:
        raise TooManyCandidatesError
    own = [_of_rank(known, values) for values in (part.labels, part.is_free)]
    sums = entries("sums", xp.reshape(part.sums, (-1,)))
    return Candidates(
        labels=xp.where(known.is_free, own[0], known.labels),
        is_free=known.is_free & own[1],
        first_free=int(xp.sum(xp.astype(part.is_free[: known.first_free], xp.int64))),
        clusters=part.clusters,
        values=part.values,
        truncation=part.truncation,
        fixed_counts=known.fixed_counts + part.counts[0, :],
        fixed_value=math.fsum([known.fixed_value, *sums[::2]]),
        fixed_size=math.fsum([known.fixed_size, *sums[1::2]]),
        low=low,
        high=high,
    )


def _ids_of_free_rows(known: Candidates, group: Group) -> Array:
    """Return the places of the free rows among the rows of all ranks, in order, (m,) int64."""
    xp = compat.array_namespace(known.is_free)
    n_own = int(xp.sum(xp.astype(known.is_free, xp.int64)))
    own = xp.argsort(xp.astype(known.is_free, xp.int8), descending=True, stable=True)[:n_own]
    return group.gather(xp.astype(own, xp.int64) + group.first_row)


def _in_place(selected: Lists, anew: list[Lists], is_cut: Array) -> Lists:
    """Put what was selected anew in the place of the rows that were truncated."""
    xp = compat.array_namespace(is_cut)
    n, device = is_cut.shape[0], compat.device(is_cut)
    after = n - 1 + xp.cumulative_sum(xp.astype(is_cut, xp.int64))
    place = xp.where(is_cut, after, xp.arange(n, dtype=xp.int64, device=device))
    clusters, values, n_candidates, truncation = (
        xp.take(xp.concat(column), place, axis=0) for column in zip(selected, *anew, strict=True)
    )
    return clusters, values, n_candidates, truncation


def _of_rank(known: Candidates, values: Array) -> Array:
    """Return what is said of this rank's free rows at their places among all of its rows."""
    xp = compat.array_namespace(values)
    (n,) = values.shape
    if n == 0:
        return xp.zeros(known.is_free.shape, dtype=values.dtype, device=compat.device(values))
    place = xp.cumulative_sum(xp.astype(known.is_free, xp.int64)) - 1 + known.first_free
    return xp.take(values, xp.clip(place, 0, n - 1))
