r"""The clusters of Eq. 6: k-means of a large batch of label features, from several starts at once.

The problem is that of `clustering.kmeans` with squared distances, and so is the method: greedy
k-means++ draws the starts, then labels and means alternate. The starts are one more axis here, so
that a device does one operation where a loop over starts does as many, and no value has to be read
back: a start whose labels have settled stays as it is in all further rounds, so that a fixed number
of rounds ends where stopping would have ended.

==================  ============  =========  ===================================================
symbol              here          shape      meaning
==================  ============  =========  ===================================================
:math:`x_i`         ``rows``      (n, d)     label features, float64
:math:`u_{sjc}`     ``uniforms``  (s, k, l)  draws of the starts: l candidates for each center
:math:`c_{sk}`      ``centers``   (s, k, d)  of each start
:math:`y_{si}`      ``labels``    (s, n)     nearest center
==================  ============  =========  ===================================================

A cluster without rows takes the row that lies farthest from its own center, the next such cluster
the next row, and stays where it is when no row is left that lies off its center. Of the starts, the
first of those with the least sum of squares wins: sums that differ by less than 2^-30 tie, since
starts that end in one partition differ by rounding.
"""

from __future__ import annotations

from typing import NamedTuple

import array_api_compat as compat

from ...core.checks import check_count, check_finite, check_real, check_same_place, check_shape
from ...core.errors import InvalidValueError
from ...core.types import Array

__all__ = ["grouped_labels"]

TIE = 2.0**-30
ENTRIES = 2**22  # starts side by side: 32 MiB of scores


class _Rows(NamedTuple):
    """Rows about their mean, their squared lengths (n,), and the squared length that is noise."""

    rows: Array
    squares: Array
    noise: Array


def grouped_labels(
    features: Array, uniforms: Array, *, max_iter: int = 100, read_back: bool = True
) -> Array:
    """Cluster rows by k-means from several starts, and return the labels of the best.

    Parameters
    ----------
    features : (n, d) real array
        At least one row for each center.
    uniforms : (s, k, l) float64 array
        Independent draws from [0, 1): the starts, as `clustering.kmeans_plus_plus` draws them.
    max_iter : int >= 0
        Most updates of the centers.
    read_back : bool
        Whether to stop once no label changes, and to check the values, which reads from the
        device. If not, all updates are computed, idle at the end, and nothing is read back; rows
        that are not finite then give any labels.

    Returns
    -------
    labels : (n,) int64 array
        In [0, k).

    Raises
    ------
    InvalidValueError
        For fewer rows than centers; with `read_back`, also for NaN and infinity.

    Notes
    -----
    Cost O(s n k (d + l)) per update and start, in float64. Source: GATCluster, the clustering
    before Eq. 6; the released code calls scikit-learn with several starts.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.asarray([[0.0], [1.0], [10.0], [11.0]])
    >>> draws = np.asarray([[[0.1], [0.5]], [[0.9], [0.2]]])
    >>> grouped_labels(x, draws)
    array([0, 0, 1, 1])
    """
    xp = check_real("features", features)
    n, _ = check_shape("features", features, ("n", "d"))
    check_real("uniforms", uniforms)
    starts, k, tries = check_shape("uniforms", uniforms, ("s", "k", "l"))
    check_same_place(features=features, uniforms=uniforms)
    check_count("max_iter", max_iter, 0)
    if min(starts, k, tries) < 1 or n < k:
        msg = (
            f"features must have at least one row per center, and uniforms at least one start, "
            f"center and candidate, got {n} rows and uniforms of shape {(starts, k, tries)}"
            ". To fix this, pass at least one"
        )
        raise InvalidValueError(msg)
    if read_back:
        check_finite("features", features)
    given = _about_mean(features)
    side_by_side = max(1, ENTRIES // (n * k))
    labels, values = [], []
    for first in range(0, starts, side_by_side):
        draws = uniforms[first : min(first + side_by_side, starts), :, :]
        found, value = _lloyd(given, _drawn(given, draws), max_iter, read_back)
        labels.append(found)
        values.append(value)
    value = xp.concat(values)
    near = value >= xp.max(value) - TIE * xp.sum(given.squares)
    best = xp.argmax(xp.astype(near, xp.int8))
    return xp.take(xp.concat(labels), xp.reshape(best, (1,)), axis=0)[0, :]


def _about_mean(features: Array) -> _Rows:
    xp = compat.array_namespace(features)
    rows = xp.astype(features, xp.float64)
    noise = float(xp.finfo(features.dtype).eps) * xp.max(xp.abs(rows))
    rows = rows - xp.mean(rows, axis=0)
    return _Rows(rows, xp.sum(rows * rows, axis=1), 16.0 * rows.shape[1] * noise * noise)


def _drawn(given: _Rows, uniforms: Array) -> Array:
    """Centers of each start by greedy k-means++, (s, k, d)."""
    xp, (rows, squares, _) = compat.array_namespace(uniforms), given
    (starts, k, _), n = uniforms.shape, rows.shape[0]
    even = xp.ones((starts, n), dtype=xp.float64, device=compat.device(rows))
    drawn, nearest, chosen = even, None, []
    tie = TIE * xp.sum(squares + xp.max(squares))
    for j in range(k):
        running = xp.cumulative_sum(drawn, axis=1)
        total = running[:, -1:]
        # The second index is the last row that can be drawn, in case the product rounds up.
        place = _count(running[:, None, :] <= (uniforms[:, j, :] * total)[:, :, None])
        place = xp.minimum(place, _count(running < total)[:, None])
        if nearest is None:
            place = place[:, 0]
        else:
            products = xp.matmul(_rows_at(rows, place), rows.T)
            apart = squares - 2.0 * products + _rows_at(squares, place)[:, :, None]
            left = xp.sum(xp.minimum(nearest[:, None, :], apart), axis=2)
            good = left <= xp.min(left, axis=1, keepdims=True) + tie
            first = xp.argmax(xp.astype(good, xp.int8), axis=1)
            place = xp.take_along_axis(place, first[:, None], axis=1)[:, 0]
        row = _rows_at(rows, place)
        step = rows - row[:, None, :]
        apart = xp.sum(step * step, axis=2)
        nearest = apart if nearest is None else xp.minimum(nearest, apart)
        drawn = xp.where(xp.any(nearest > 0, axis=1, keepdims=True), nearest, even)
        chosen.append(row)
    return xp.stack(chosen, axis=1)


def _lloyd(given: _Rows, centers: Array, max_iter: int, read_back: bool) -> tuple[Array, Array]:
    """Labels (s, n) and objectives (s,) of each start, after its last update."""
    xp = compat.array_namespace(centers)
    labels, value = _nearest(given, centers)
    for _ in range(max_iter):
        centers = _updated(given, labels, centers, read_back)
        before = labels
        labels, value = _nearest(given, centers)
        if read_back and bool(xp.all(labels == before)):
            break
    return labels, value


def _nearest(given: _Rows, centers: Array) -> tuple[Array, Array]:
    """Nearest centers, and half of what they spare of the squared distances to the mean."""
    xp = compat.array_namespace(centers)
    products = xp.matmul(given.rows, xp.matrix_transpose(centers))
    scores = products - 0.5 * xp.sum(centers * centers, axis=2)[:, None, :]
    labels = xp.astype(xp.argmax(scores, axis=2), xp.int64)
    return labels, xp.sum(xp.max(scores, axis=2), axis=1)


def _updated(given: _Rows, labels: Array, centers: Array, read_back: bool) -> Array:
    """Means of the clusters; those without rows move."""
    xp, k, device = compat.array_namespace(centers), centers.shape[1], compat.device(centers)
    clusters = xp.arange(k, dtype=xp.int64, device=device)[:, None]
    members = xp.astype(labels[:, None, :] == clusters, xp.float64)
    counts = xp.sum(members, axis=2)
    empty = counts == 0
    means = xp.matmul(members, given.rows) / xp.where(empty, 1.0, counts)[:, :, None]
    centers = xp.where(empty[:, :, None], centers, means)
    if read_back and not bool(xp.any(empty)):
        return centers
    own = xp.matmul(xp.matrix_transpose(members), centers)
    step = given.rows - own
    far = xp.sum(step * step, axis=2)
    order = xp.argsort(far, axis=1, descending=True, stable=True)[:, :k]
    turn = xp.clip(xp.cumulative_sum(xp.astype(empty, xp.int64), axis=1) - 1, min=0)
    place = xp.take_along_axis(order, turn, axis=1)
    moves = empty & (xp.take_along_axis(far, place, axis=1) > given.noise)
    return xp.where(moves[:, :, None], _rows_at(given.rows, place), centers)


def _rows_at(rows: Array, place: Array) -> Array:
    """``rows[place]`` for positions of any shape."""
    xp = compat.array_namespace(rows)
    found = xp.take(rows, xp.reshape(place, (-1,)), axis=0)
    return xp.reshape(found, tuple(place.shape) + tuple(rows.shape[1:]))


def _count(where: Array) -> Array:
    """How many hold along the last axis, int64."""
    xp = compat.array_namespace(where)
    return xp.sum(xp.astype(where, xp.int64), axis=-1)
