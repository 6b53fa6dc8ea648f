r"""Parts shared by the k-means algorithms: cluster sums, centers, relocation of empty clusters.

*Sums.* ``sum_{y_i = k} w_i x_i`` and ``sum_{y_i = k} w_i`` in 64-bit integers (`exact_sums`), added
up block by block and over all ranks: the same bits for any split. They give the centers as
directions (CoKe Eq. 12) or as means.

*Empty clusters.* A cluster without samples has no mean. "relocate" moves its center to the sample
farthest from its own center (the next such cluster takes the next sample; ties go to the lowest
row). This does not lower the objective, since no sample has that label yet. "keep" leaves the
center.

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

import array_api_compat as compat

from ..bounds.sizes import entries
from ..core.exact_sums import (
    Grid,
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
from ._frame import Frame, blocks_of
from .centers import CenterSums, init_sums

__all__ = [
    "EMPTY",
    "Entries",
    "add_block",
    "best_centers",
    "gathered_sums",
    "move_empty",
    "over_ranks",
    "share_changed",
    "start_sums",
    "weighted_means",
    "weighted_sums",
]

EMPTY = ("relocate", "keep")


def start_sums(frame: Frame, n_clusters: int) -> CenterSums:
    """Return zero sums; with weights, they have the columns of `weighted_sums`."""
    xp, d = compat.array_namespace(frame.origin), frame.source.n_features
    columns = frame.grid.depth * (d if frame.weights is None else d + 1)
    return init_sums(n_clusters, columns, xp=xp, device=compat.device(frame.origin))


def weighted_sums(
    rows: Array,
    weights: Array,
    labels: Array,
    grid: Grid,
    *,
    n_clusters: int,
    check: bool = True,
) -> Array:
    """Return integer sums of ``w x`` and, in the last column of each limb, of ``w``.

    Parameters
    ----------
    rows : (b, d) real array
        Entries of at most the unit of the grid; they are divided by it.
    weights : (b,) float64 array
        In [0, 1].
    labels : (b,) int64 array
    grid : Grid
    n_clusters : int
    check : bool
        As in `sum_rows`.
    """
    xp = compat.array_namespace(rows)
    own = weights[:, None]
    products = xp.astype(rows, xp.float64) * (1.0 / grid.unit) * own
    columns = xp.concat([products, own], axis=1)
    inside = grid._replace(unit=1.0)
    return sum_rows(columns, labels, inside, n_clusters=n_clusters, check=check)


def weighted_means(sums: Array, grid: Grid) -> tuple[Array, Array]:
    """Return ``sum w x / sum w``, (k, d), and ``sum w``, (k,), of `weighted_sums`; 0 if w is 0."""
    xp = compat.array_namespace(sums)
    totals = sums_to_floats(sums, grid._replace(unit=1.0))
    weight = totals[:, -1]
    by = xp.where(weight > 0, weight, xp.ones_like(weight))
    return totals[:, :-1] / by[:, None] * grid.unit, weight


def add_block(
    sums: CenterSums, frame: Frame, block: Array, start: int, labels: Array
) -> CenterSums:
    """Add a block of this rank's raw rows, from row `start` on, to the sums of their clusters.

    On the host this checks the rows; elsewhere each block would be a read, and `Entries` looks at
    all blocks at once.
    """
    xp, k = compat.array_namespace(block), sums.counts.shape[0]
    if frame.weights is None:
        added = sum_rows(block, labels, frame.grid, n_clusters=k, check=on_host(block))
    else:
        first = frame.source.group.first_row + start
        own = frame.weights[first : first + block.shape[0]]
        check = on_host(block)
        added = weighted_sums(block, own, labels, frame.grid, n_clusters=k, check=check)
    ones = xp.ones((block.shape[0], 1), dtype=xp.int64, device=compat.device(block))
    counts = segment_sum(ones, labels, n_segments=k)[:, 0]
    return CenterSums(sums.sums + added, sums.counts + counts)


class Entries:
    """The largest entry of the blocks of a pass that are not on the host, checked by one read."""

    def __init__(self, frame: Frame) -> None:
        self.grid = frame.grid
        self.largest: Array | None = None

    def add(self, block: Array) -> None:
        """Look at a block of raw rows, unless `add_block` has checked it."""
        if on_host(block) or not block.shape[0]:
            return
        here = largest_entry(block)
        xp = compat.array_namespace(block)
        self.largest = here if self.largest is None else xp.maximum(self.largest, here)

    def check(self) -> None:
        """Raise if an entry was beyond the unit of the grid, or NaN."""
        if self.largest is not None:
            check_entries(self.largest, self.grid)


def gathered_sums(frame: Frame, labels: Array, n_clusters: int) -> CenterSums:
    """Return the sums over all rows of all ranks, given the labels of this rank's rows."""
    sums, entries_seen = start_sums(frame, n_clusters), Entries(frame)
    for block, start, stop in blocks_of(frame.raw, n_clusters):
        sums = add_block(sums, frame, block, start, labels[start:stop])
        entries_seen.add(block)
    entries_seen.check()
    return over_ranks(frame.source.group, sums)


def over_ranks(group: Group, sums: CenterSums) -> CenterSums:
    """Add up the sums of all ranks."""
    xp = compat.array_namespace(sums.sums)
    return CenterSums(*(xp.sum(group.gather(part[None, ...]), axis=0) for part in sums))


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


def move_empty(frame: Frame, labels: Array, centers: Array, movable: Array) -> Array:
    """Move the centers of the movable clusters to the rows farthest from their own centers.

    Parameters
    ----------
    labels : (n_local,) int64 array
    centers : (k, d) array
    movable : (k,) bool array

    Returns
    -------
    (k, d) array
        A center stays if no row is left that lies off its own center by more than rounding.

    Notes
    -----
    Reads all rows once more, but only if a cluster is movable.
    """
    xp, group = compat.array_namespace(centers), frame.source.group
    k, d = centers.shape
    which = [j for j, empty in enumerate(entries("movable", xp.astype(movable, xp.int64))) if empty]
    if not which:
        return centers
    device = compat.device(centers)
    far = xp.zeros((0,), dtype=xp.float64, device=device)
    ids = xp.zeros((0,), dtype=xp.int64, device=device)
    for block, start, stop in blocks_of(frame.raw, k):
        apart = (block - xp.take(centers, labels[start:stop], axis=0)) * (1.0 / frame.unit)
        squared = xp.sum(xp.astype(apart, xp.float64) ** 2, axis=1)
        first = group.first_row + start
        if frame.weights is not None:
            squared = squared * frame.weights[first : group.first_row + stop]
        place = xp.arange(first, group.first_row + stop, dtype=xp.int64, device=device)
        far, ids = _farthest(xp.concat([far, squared]), xp.concat([ids, place]), len(which))
    far, ids = _farthest(group.gather(far), group.gather(ids), len(which))
    rows = frame.raw.take(ids)
    rows = project_sphere(rows) if frame.spherical else rows
    # Differences that the dtype of a center, or the grid of the sums, cannot resolve.
    largest = 1.0 + float(xp.max(xp.abs(frame.origin))) / frame.unit
    noise = max(
        float(xp.finfo(centers.dtype).eps) * largest, 0.5 ** (frame.grid.bits * frame.grid.depth)
    )
    distances, index = entries("far", far), list(range(k))
    for turn, j in enumerate(which):
        if turn < len(distances) and distances[turn] > 16.0 * d * noise * noise:
            index[j] = k + turn
    index = xp.asarray(index, dtype=xp.int64, device=device)
    return xp.take(xp.concat([centers, xp.astype(rows, centers.dtype)]), index, axis=0)


def share_changed(group: Group, labels: Array, previous: Array) -> float:
    """Return the share of all rows of all ranks whose label changed."""
    xp = compat.array_namespace(labels)
    changed = xp.sum(xp.astype(labels != previous, xp.int64))
    return int(xp.sum(group.gather(xp.reshape(changed, (1,))))) / group.n_total


def _farthest(far: Array, ids: Array, m: int) -> tuple[Array, Array]:
    """Return the m largest, in falling order; ids ascend, so a stable sort breaks ties by id."""
    xp = compat.array_namespace(far)
    order = xp.argsort(far, descending=True, stable=True)[:m]
    return xp.take(far, order), xp.take(ids, order)
