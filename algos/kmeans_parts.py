r"""What the k-means algorithms share: cluster sums, centers, and what becomes of empty clusters.

*Sums.* ``sum_{y_i = k} w_i x_i`` and ``sum_{y_i = k} w_i`` in 64-bit integers (`centers`), added up
block by block and over all ranks: the same bits for any split. They give the centers as directions
(CoKe Eq. 12) or as means.

*Empty clusters.* A cluster without samples has no mean. "relocate" moves its center to the sample
farthest from its own center (the next one for the next such cluster; ties to the lowest row), which
lowers no objective: no sample has that label yet. "keep" leaves the center.

=====================  =============  =========  ===============================================
symbol                 here           shape      meaning
=====================  =============  =========  ===============================================
:math:`x_i`            of `Frame`     (n, d)     rows in the coordinates of the frame
:math:`w_i`            of `Frame`     (n,)       of all rows of all ranks, or None
:math:`y_i`            ``labels``     (n,)       of this rank's rows
:math:`c_k`            ``centers``    (k, d)     in the coordinates of the frame
=====================  =============  =========  ===============================================
"""

from __future__ import annotations

import array_api_compat as compat

from ._typing import Array
from .bounds import entries
from .centers import FRACTION_BITS, CenterSums, add_to_sums, init_sums
from .feature_frame import Frame, blocks_of
from .projections import project_sphere
from .score_sources import Group

__all__ = [
    "EMPTY",
    "add_block",
    "best_centers",
    "gathered_sums",
    "move_empty",
    "over_ranks",
    "share_changed",
    "start_sums",
    "weighted_columns",
    "weighted_totals",
]

EMPTY = ("relocate", "keep")


def start_sums(frame: Frame, n_clusters: int) -> CenterSums:
    """Sums of no row yet; with weights, the columns of `weighted_columns`."""
    xp, d = compat.array_namespace(frame.origin), frame.source.n_features
    columns = d if frame.weights is None else 2 * (d + 1)
    return init_sums(n_clusters, columns, xp=xp, device=compat.device(frame.origin))


def weighted_columns(rows: Array, weights: Array) -> Array:
    """``w x`` and ``w``, and what their rounding to integers leaves of them, (b, 2 d + 2) float64.

    Weights of very different size need the second half: a row with a millionth of the largest
    weight would keep 16 bits of its entries.

    Parameters
    ----------
    rows : (b, d) real array, entries in [-1, 1]
    weights : (b,) float64 array, entries in [0, 1]
    """
    xp = compat.array_namespace(rows)
    own = weights[:, None]
    products = xp.concat([xp.astype(rows, xp.float64) * own, own], axis=1)
    scaled = products * 2.0**FRACTION_BITS
    return xp.concat([products, scaled - xp.round(scaled)], axis=1)


def weighted_totals(sums: Array) -> tuple[Array, Array]:
    """Sums of ``w x``, (k, d), and of ``w``, (k,), in float64, from sums of `weighted_columns`."""
    xp = compat.array_namespace(sums)
    unit, m = 0.5**FRACTION_BITS, sums.shape[1] // 2
    parts = xp.astype(sums, xp.float64)
    totals = parts[:, :m] * unit + parts[:, m:] * (unit * unit)
    return totals[:, : m - 1], totals[:, m - 1]


def add_block(
    sums: CenterSums, frame: Frame, block: Array, start: int, labels: Array
) -> CenterSums:
    """Add rows of this rank, from row `start` on, to the sums of their clusters."""
    if frame.weights is None:
        return add_to_sums(sums, block, labels)
    first = frame.source.group.first_row + start
    own = frame.weights[first : first + block.shape[0]]
    return add_to_sums(sums, weighted_columns(block, own), labels)


def gathered_sums(frame: Frame, labels: Array, n_clusters: int) -> CenterSums:
    """Sums over all rows of all ranks, for labels of this rank's rows."""
    sums = start_sums(frame, n_clusters)
    for block, start, stop in blocks_of(frame.source, n_clusters):
        sums = add_block(sums, frame, block, start, labels[start:stop])
    return over_ranks(frame.source.group, sums)


def over_ranks(group: Group, sums: CenterSums) -> CenterSums:
    """Sums of all ranks from those of each."""
    xp = compat.array_namespace(sums.sums)
    return CenterSums(*(xp.sum(group.gather(part[None, ...]), axis=0) for part in sums))


def best_centers(frame: Frame, sums: CenterSums, previous: Array) -> Array:
    """Directions of the sums, or means; a cluster without samples, or weight, keeps its center."""
    xp = compat.array_namespace(previous)
    if frame.weights is None:
        total = xp.astype(sums.sums, xp.float64) * 0.5**FRACTION_BITS
        weight = xp.astype(sums.counts, xp.float64)
    else:
        total, weight = weighted_totals(sums.sums)
    if frame.spherical:
        return xp.astype(project_sphere(total, xp.astype(previous, xp.float64)), previous.dtype)
    means = total / xp.where(weight > 0, weight, xp.ones_like(weight))[:, None]
    return xp.where((weight > 0)[:, None], xp.astype(means, previous.dtype), previous)


def move_empty(frame: Frame, labels: Array, centers: Array, movable: Array) -> Array:
    """Put the centers of the movable clusters on the rows farthest from their own centers.

    Parameters
    ----------
    labels : (n_local,) int64 array
    centers : (k, d) array, in the coordinates of the frame
    movable : (k,) bool array

    Returns
    -------
    (k, d) array
        With the centers as they were where no row lies off its center by more than rounding.

    Notes
    -----
    Reads all rows once more, but only where a cluster is movable.
    """
    xp, group = compat.array_namespace(centers), frame.source.group
    k, d = centers.shape
    which = [j for j, empty in enumerate(entries("movable", xp.astype(movable, xp.int64))) if empty]
    if not which:
        return centers
    device = compat.device(centers)
    far = xp.zeros((0,), dtype=xp.float64, device=device)
    ids = xp.zeros((0,), dtype=xp.int64, device=device)
    for block, start, stop in blocks_of(frame.source, k):
        apart = block - xp.take(centers, labels[start:stop], axis=0)
        squared = xp.sum(xp.astype(apart, xp.float64) ** 2, axis=1)
        first = group.first_row + start
        if frame.weights is not None:
            squared = squared * frame.weights[first : group.first_row + stop]
        place = xp.arange(first, group.first_row + stop, dtype=xp.int64, device=device)
        far, ids = _farthest(xp.concat([far, squared]), xp.concat([ids, place]), len(which))
    far, ids = _farthest(group.gather(far), group.gather(ids), len(which))
    rows = frame.source.take(ids)
    rows = project_sphere(rows) if frame.spherical else rows
    noise = max(float(xp.finfo(centers.dtype).eps), 0.5**FRACTION_BITS)
    distances, index = entries("far", far), list(range(k))
    for turn, j in enumerate(which):
        if turn < len(distances) and distances[turn] > 16.0 * d * noise * noise:
            index[j] = k + turn
    index = xp.asarray(index, dtype=xp.int64, device=device)
    return xp.take(xp.concat([centers, xp.astype(rows, centers.dtype)]), index, axis=0)


def share_changed(group: Group, labels: Array, previous: Array) -> float:
    """Share of all rows of all ranks whose label changed."""
    xp = compat.array_namespace(labels)
    changed = xp.sum(xp.astype(labels != previous, xp.int64))
    return int(xp.sum(group.gather(xp.reshape(changed, (1,))))) / group.n_total


def _farthest(far: Array, ids: Array, m: int) -> tuple[Array, Array]:
    """The m largest, in falling order; ids rise, and a stable sort keeps the lowest of equals."""
    xp = compat.array_namespace(far)
    order = xp.argsort(far, descending=True, stable=True)[:m]
    return xp.take(far, order), xp.take(ids, order)
