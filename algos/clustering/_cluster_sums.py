r"""Sums of the rows of each cluster in a pass, and the centers that they give.

*Sums.* ``sum_{y_i = k} w_i x_i`` and ``sum_{y_i = k} w_i`` in 64-bit integers (`exact_sums`), added
up block by block and over all ranks: the same bits for any split. They give the centers as
directions (CoKe Eq. 12) or as means.

*Only what moved.* Integers have no rounding that could pile up. So on a host a pass takes the rows
whose label changed out of the sums of their old clusters and adds them to those of their new ones,
and gets the very sums that it would get from all rows.

*Any number of threads.* Each takes a partial sum that nobody holds, adds its block to it and puts
it back; which block went into which does not matter for integers.

=====================  =============  =========  ===============================================
symbol                 here           shape      meaning
=====================  =============  =========  ===============================================
:math:`x_i`            of `Frame`     (n, d)     rows as they are
:math:`w_i`            of `Frame`     (n,)       of all rows of all ranks, or None
:math:`y_i`            ``labels``     (n,)       of this rank's rows
:math:`c_k`            ``centers``    (k, d)     in the coordinates of the features
=====================  =============  =========  ===============================================
"""

from __future__ import annotations

from collections import deque

import array_api_compat as compat

from ..core.exact_sums import (
    Grid,
    add_rows,
    check_entries,
    largest_entry,
    means_of_sums,
    sum_rows,
    sums_to_floats,
)
from ..core.projections import project_sphere
from ..core.reads import on_host
from ..core.segments import segment_sum
from ..core.types import Array
from ..scores.sources import Group
from ._frame import Frame, map_rows
from .centers import CenterSums, init_sums

__all__ = [
    "PassSums",
    "best_centers",
    "gathered_sums",
    "over_ranks",
    "weighted_columns",
    "weighted_means",
    "weighted_sums",
]


class PassSums:
    """Sums of the rows of one pass, block by block, by any number of threads at once.

    Parameters
    ----------
    frame : Frame
    n_clusters : int
    before : (CenterSums, (n_local,) int64 array), optional
        Sums over all ranks, and the labels of this rank's rows that led to them: then only the rows
        whose label is another are looked at. Away from the host, where a choice of rows would be a
        read, it is not used.
    """

    def __init__(
        self, frame: Frame, n_clusters: int, before: tuple[CenterSums, Array] | None = None
    ) -> None:
        self.frame, self.n_clusters = frame, n_clusters
        self.before = before if on_host(frame.origin) else None
        self.partial: deque[CenterSums] = deque([self._zero()])
        self.largest: deque[Array] = deque()

    def add_block(self, block: Array, start: int, labels: Array) -> None:
        """Add consecutive raw rows of this rank with their labels, or what has changed of them.

        Parameters
        ----------
        block : (b, d) array
            This rank's rows from `start` on.
        start : int
        labels : (b,) int64 array
            Of these rows.

        Notes
        -----
        With `before`, rows that keep their label are passed over. Rows that are added are checked
        against the grid at once on the host; elsewhere each block would be a read, and `total`
        looks at all blocks together. Several threads may call this at once.
        """
        xp, frame = compat.array_namespace(block), self.frame
        weights, check = None, on_host(block)
        if frame.weights is not None:
            first = frame.source.group.first_row + start
            weights = frame.weights[first : first + block.shape[0]]
        if not check and block.shape[0]:
            self.largest.append(largest_entry(block))
        signs = xp.ones_like(labels)
        if self.before is not None:
            old = self.before[1][start : start + block.shape[0]]
            changed = xp.astype(labels != old, xp.int8)
            n_moved = int(xp.sum(xp.astype(changed, xp.int64)))
            if not n_moved:
                return
            # They come first by a sort: not every library has boolean indices.
            moved = xp.argsort(changed, descending=True)[:n_moved]
            block, signs = xp.take(block, moved, axis=0), xp.take(signs, moved)
            labels = xp.concat([xp.take(labels, moved), xp.take(old, moved)])
            block, signs = xp.concat([block, -block]), xp.concat([signs, -signs])
            if weights is not None:
                weights = xp.take(weights, moved)
                weights = xp.concat([weights, weights])
        self._add(block, weights, labels, signs, check)

    def total(self) -> CenterSums:
        """Return the sums over all ranks; raise for an entry beyond the grid's unit, or NaN."""
        if self.largest:
            xp = compat.array_namespace(self.frame.origin)
            check_entries(xp.max(xp.stack(list(self.largest))), self.frame.grid)
        sums = self.partial.pop()
        while self.partial:
            sums = _added(sums, self.partial.pop())
        sums = over_ranks(self.frame.source.group, sums)
        return sums if self.before is None else _added(self.before[0], sums)

    def _add(
        self, rows: Array, weights: Array | None, labels: Array, signs: Array, check: bool
    ) -> None:
        xp, grid, k = compat.array_namespace(rows), self.frame.grid, self.n_clusters
        if weights is not None:
            rows, grid = weighted_columns(rows, weights, signs, grid), grid._replace(unit=1.0)
        try:
            part = self.partial.pop()
        except IndexError:  # the other threads hold them all
            part = self._zero()
        counts = xp.reshape(segment_sum(signs[:, None], labels, n_segments=k), (k,))
        sums = add_rows(part.sums, rows, labels, grid, check=check)
        self.partial.append(CenterSums(sums, part.counts + counts))

    def _zero(self) -> CenterSums:
        frame = self.frame
        xp, d = compat.array_namespace(frame.origin), frame.source.n_features
        columns = frame.grid.depth * (d if frame.weights is None else d + 1)
        return init_sums(self.n_clusters, columns, xp=xp, device=compat.device(frame.origin))


def gathered_sums(
    frame: Frame,
    labels: Array,
    n_clusters: int,
    before: tuple[CenterSums, Array] | None = None,
) -> CenterSums:
    """Return the sums over all rows of all ranks, given the labels of this rank's rows.

    Parameters
    ----------
    frame, n_clusters, before
        As in `PassSums`.
    labels : (n_local,) int64 array
    """
    sums = PassSums(frame, n_clusters, before)

    def add(block: Array, start: int, stop: int) -> None:
        sums.add_block(block, start, labels[start:stop])

    for _ in map_rows(add, frame.raw, n_clusters):
        pass
    return sums.total()


def _added(first: CenterSums, second: CenterSums) -> CenterSums:
    return CenterSums(first.sums + second.sums, first.counts + second.counts)


def over_ranks(group: Group, sums: CenterSums) -> CenterSums:
    """Add up the sums of all ranks."""
    xp = compat.array_namespace(sums.sums)
    return CenterSums(*(xp.sum(group.gather(part[None, ...]), axis=0) for part in sums))


def weighted_columns(rows: Array, weights: Array, signs: Array, grid: Grid) -> Array:
    """Return the columns of `weighted_sums`: ``w x`` in units of the grid, and ``w``.

    Parameters
    ----------
    rows, weights, grid
        As in `weighted_sums`.
    signs : (b,) int64 array
        1, or -1 for a row that leaves its cluster and comes with its sign changed: then ``w`` has
        its sign changed, too.
    """
    xp = compat.array_namespace(rows)
    own = weights[:, None]
    products = xp.astype(rows, xp.float64) * (1.0 / grid.unit) * own
    return xp.concat([products, own * xp.astype(signs, xp.float64)[:, None]], axis=1)


def weighted_sums(
    rows: Array,
    weights: Array,
    labels: Array,
    grid: Grid,
    *,
    n_clusters: int,
) -> Array:
    """Return integer sums of ``w x`` and, in the last column of each limb, of ``w``.

    Parameters
    ----------
    rows : (b, d) real array
        Entries of at most the unit of the grid, assumed; they are divided by it.
    weights : (b,) float64 array
        In [0, 1].
    labels : (b,) int64 array
    grid : Grid
    n_clusters : int
    """
    xp = compat.array_namespace(rows)
    columns = weighted_columns(rows, weights, xp.ones_like(labels), grid)
    inside = grid._replace(unit=1.0)
    return sum_rows(columns, labels, inside, n_clusters=n_clusters, check=False)


def weighted_means(sums: Array, grid: Grid) -> tuple[Array, Array]:
    """Return ``sum w x / sum w``, (k, d), and ``sum w``, (k,), of `weighted_sums`; 0 if w is 0."""
    xp = compat.array_namespace(sums)
    totals = sums_to_floats(sums, grid._replace(unit=1.0))
    weight = totals[:, -1]
    by = xp.where(weight > 0, weight, xp.ones_like(weight))
    return totals[:, :-1] / by[:, None] * grid.unit, weight


def best_centers(frame: Frame, sums: CenterSums, previous: Array) -> Array:
    """Return directions of sums, or means; a cluster without samples or weight keeps its center."""
    xp = compat.array_namespace(previous)
    if frame.weights is not None:
        means, weight = weighted_means(sums.sums, frame.grid)
    elif frame.spherical:  # a direction needs no division
        means, weight = sums_to_floats(sums.sums, frame.grid), sums.counts
    else:
        means, weight = means_of_sums(sums.sums, sums.counts, frame.grid), sums.counts
    if frame.spherical:
        return xp.astype(project_sphere(means, xp.astype(previous, xp.float64)), previous.dtype)
    return xp.where((weight > 0)[:, None], xp.astype(means, previous.dtype), previous)
