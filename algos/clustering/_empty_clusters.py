r"""Clusters without samples: their centers move to the rows that are served worst.

Problem: a cluster without samples has no mean. "relocate" moves its center to the sample farthest
from its own center; the next such cluster takes the next sample, and ties go to the lowest row.
This does not lower the objective, since no sample has that label yet. "keep" leaves the center.
Here all rows are looked at; in a mini-batch, those of the batch are (`minibatch._relocate_empty`).

=====================  =============  =========  ===============================================
symbol                 here           shape      meaning
=====================  =============  =========  ===============================================
:math:`x_i`            of `Frame`     (n, d)     rows as they are
:math:`y_i`            ``labels``     (n,)       of this rank's rows
:math:`c_k`            ``centers``    (k, d)     in the coordinates of the features
=====================  =============  =========  ===============================================
"""

from __future__ import annotations

import array_api_compat as compat

from ..core.projections import project_sphere
from ..core.reads import entries
from ..core.types import Array
from ._frame import Frame, map_rows

__all__ = ["EMPTY", "relocate_empty"]

EMPTY = ("relocate", "keep")


def relocate_empty(frame: Frame, labels: Array, centers: Array, movable: Array) -> Array:
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

    def look(block: Array, start: int, stop: int) -> tuple[Array, Array]:
        apart = (block - xp.take(centers, labels[start:stop], axis=0)) * (1.0 / frame.unit)
        squared = xp.sum(xp.astype(apart, xp.float64) ** 2, axis=1)
        first = group.first_row + start
        if frame.weights is not None:
            squared = squared * frame.weights[first : group.first_row + stop]
        place = xp.arange(first, group.first_row + stop, dtype=xp.int64, device=device)
        return _farthest(squared, place, len(which))

    far = xp.zeros((0,), dtype=xp.float64, device=device)
    ids = xp.zeros((0,), dtype=xp.int64, device=device)
    for squared, place in map_rows(look, frame.raw, k):
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


def _farthest(far: Array, ids: Array, m: int) -> tuple[Array, Array]:
    """Return the m largest, in falling order; ids ascend, so a stable sort breaks ties by id."""
    xp, (n,) = compat.array_namespace(far), far.shape
    m = min(m, n)  # the standard knows no slice beyond the end
    order = xp.argsort(far, descending=True, stable=True)[:m]
    return xp.take(far, order), xp.take(ids, order)
