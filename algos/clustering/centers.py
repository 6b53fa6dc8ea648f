r"""Centers on the sphere as running means, exact whatever the batches.

Problem (CoKe Eq. 12): for given labels the best unit center of a cluster is the direction of the
sum of its unit features,

``c_k = Pi( sum_{i: y_i = k} x_i )``,   Pi(v) = v / ||v||                              CoKe Eq. 12

and while labels arrive batch by batch, the direction of the sum so far (Eq. 13). The division by
the count cancels. The released code re-normalizes the mean at every batch, which over-weights old
samples (1.5 degrees off on tight clusters, 38.6 on dispersed ones). Here the raw sums are kept
exactly: features are rounded once to multiples of 2^-36 and added as 64-bit integers. Any batch
split, order, number of ranks or device then gives the same center to the last bit. (`exact_sums`
has finer grids, for points that are not on the sphere.)

=====================  =============  =======  ================================================
paper                  here           shape    meaning
=====================  =============  =======  ================================================
:math:`x_i`            ``features``   (n, d)   unit vectors
:math:`\sum_i x_i`     ``sums``       (k, d)   int64, in units of 2^-36
:math:`n_k`            ``counts``     (k,)     samples in the sum
:math:`c_k`            centers        (k, d)   unit vectors
=====================  =============  =======  ================================================
"""

from __future__ import annotations

import math
from typing import NamedTuple

import array_api_compat as compat

from ..core.checks import (
    check_count,
    check_kind,
    check_labels,
    check_namespace,
    check_real,
    check_same_place,
    check_shape,
    check_values,
)
from ..core.exact_sums import FRACTION_BITS, UNIT_GRID, split, sum_rows
from ..core.projections import project_sphere
from ..core.segments import segment_counts, segment_sum
from ..core.types import Array, Namespace

__all__ = [
    "CenterSums",
    "add_to_sums",
    "init_sums",
    "mean_centers",
    "merge_sums",
    "renormalized_centers",
    "running_average",
    "sum_batch",
]


BEGIN = "begin with dualclust.algos.clustering.init_sums"


class CenterSums(NamedTuple):
    """Sums (k, d) int64 in units of 2^-36, and counts (k,) int64, of the samples so far."""

    sums: Array
    counts: Array


def init_sums(
    n_clusters: int, n_features: int, *, xp: Namespace, device: object | None = None
) -> CenterSums:
    """Return zero sums and counts, as arrays of `xp` on `device`."""
    check_count("n_clusters", n_clusters, 1)
    check_count("n_features", n_features, 1)
    check_namespace(xp)
    return CenterSums(
        xp.zeros((n_clusters, n_features), dtype=xp.int64, device=device),
        xp.zeros((n_clusters,), dtype=xp.int64, device=device),
    )


def add_to_sums(state: CenterSums, features: Array, labels: Array) -> CenterSums:
    """Add samples to the running sums of their clusters.

    Parameters
    ----------
    state : CenterSums
    features : (n, d) real array
        Entries in [-1, 1], as those of unit vectors are.
    labels : (n,) int64 array
        In [0, k).

    Returns
    -------
    CenterSums

    Raises
    ------
    InvalidValueError
        For other shapes, labels outside [0, k), or an entry that is not in [-1, 1] (a NaN too).

    Notes
    -----
    Exact and associative: adding batches in any split and order gives equal integers. Cost O(n d).
    Claims: docs/claims.md#C19, #C20.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.asarray([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
    >>> state = add_to_sums(init_sums(2, 2, xp=np), x, np.asarray([0, 1, 0]))
    >>> mean_centers(state, previous=x[:2]).round(3)
    array([[0.894, 0.447],
           [0.   , 1.   ]])
    """
    xp = check_real("features", features)
    check_values("features", features)
    check_kind("state", state, CenterSums, BEGIN)
    k, d = state.sums.shape
    n, _ = check_shape("features", features, ("n", d))
    check_same_place(features=features, labels=labels, state=state.sums)
    check_labels("labels", labels, n, k)
    labels = xp.astype(labels, xp.int64)
    sums = state.sums + sum_rows(features, labels, UNIT_GRID, n_clusters=k)
    return CenterSums(sums, state.counts + segment_counts(labels, n_segments=k))


def sum_batch(features: Array, labels: Array, *, n_clusters: int) -> CenterSums:
    """Return the sums of one batch, for any number of heads, without checking or reading values.

    For use inside a training step, like `duals.assign_batch`: a fixed number of operations and no
    host synchronization. `add_to_sums` gives the same integers and checks the values.

    Parameters
    ----------
    features : (b, d) real array
        Entries in [-1, 1], assumed.
    labels : (..., b) int64 array
        A row for each head, in [0, k), assumed.
    n_clusters : int
        k, of the largest head.

    Returns
    -------
    CenterSums
        Sums (..., k, d) and counts (..., k); `merge_sums` adds them to others.

    Notes
    -----
    Source: CoKe Eq. 13, the terms of one batch. Cost O((b + k) d) per head.
    Claims: docs/claims.md#C20.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.asarray([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
    >>> batch = sum_batch(x, np.asarray([[0, 1, 0], [1, 1, 1]]), n_clusters=2)
    >>> batch.counts
    array([[2, 1],
           [0, 3]])
    >>> mean_centers(batch, previous=np.ones((2, 2, 2)))[0].round(3)
    array([[0.894, 0.447],
           [0.   , 1.   ]])
    """
    xp = check_real("features", features)
    check_count("n_clusters", n_clusters, 1)
    b, d = check_shape("features", features, ("b", "d"))
    check_same_place(features=features, labels=labels)
    heads = tuple(labels.shape[:-1])
    check_shape("labels", labels, (*heads, b))
    rows = math.prod(heads)
    first = xp.arange(rows, dtype=xp.int64, device=compat.device(features)) * n_clusters
    segments = xp.reshape(xp.reshape(labels, (rows, b)) + first[:, None], (rows * b,))
    fixed = split(features, UNIT_GRID)
    # A column of ones counts the samples in the same pass.
    ones = xp.ones((b, 1), dtype=xp.int64, device=compat.device(features))
    values = xp.tile(xp.concat([fixed, ones], axis=1), (rows, 1))
    sums = segment_sum(values, segments, n_segments=rows * n_clusters)
    sums = xp.reshape(sums, (*heads, n_clusters, d + 1))
    return CenterSums(sums[..., :d], sums[..., d])


def merge_sums(first: CenterSums, second: CenterSums) -> CenterSums:
    """Add two sums over disjoint sets of samples, such as those of two ranks or two files.

    Claims: docs/claims.md#C20.
    """
    check_kind("first", first, CenterSums, BEGIN)
    check_kind("second", second, CenterSums, BEGIN)
    check_shape("second.sums", second.sums, tuple(first.sums.shape))
    check_same_place(first=first.sums, second=second.sums)
    return CenterSums(first.sums + second.sums, first.counts + second.counts)


def mean_centers(state: CenterSums, previous: Array) -> Array:
    """Return the directions of the sums (CoKe Eq. 12, 13); a zero sum keeps the former center.

    Parameters
    ----------
    state : CenterSums
    previous : (k, d) real array
        Centers for clusters that are empty or whose features cancel exactly.

    Returns
    -------
    centers : (k, d) array
        Unit rows, of the dtype of `previous`.

    Notes
    -----
    Claims: docs/claims.md#C2, #C19, #C20, #C21.
    """
    xp = check_real("previous", previous)
    check_kind("state", state, CenterSums, BEGIN)
    check_shape("previous", previous, tuple(state.sums.shape))
    check_same_place(previous=previous, state=state.sums)
    fallback = xp.astype(previous, xp.float64)
    centers = project_sphere(xp.astype(state.sums, xp.float64), fallback)
    return xp.astype(centers, previous.dtype)


def renormalized_centers(centers: Array, counts: Array, batch: CenterSums) -> Array:
    """Add one batch to running means that are normalized at every batch.

    ``c_k <- Pi( n_k c_k + sum x )``, as in CoKe's released code. A center of length 1 represents
    its n_k samples, although their mean is shorter: old samples weigh too much, and the result
    depends on the batches. `mean_centers` of the merged sums is Eq. 13 itself.

    Parameters
    ----------
    centers : (..., k, d) real array
        Unit rows.
    counts : (..., k) int64 array
        Samples that a center represents. At 0 the batch replaces it, as at the start of an epoch.
    batch : CenterSums
        From `sum_batch`. A cluster without a sample in it keeps its center to the bit.

    Returns
    -------
    centers : (..., k, d) array, of the dtype of `centers`

    Examples
    --------
    Two orthogonal samples, then a third: the first two count as one of unit length each.

    >>> import numpy as np
    >>> center, two = np.asarray([[0.6, 0.8]]), np.asarray([2])
    >>> batch = sum_batch(np.asarray([[1.0, 0.0]]), np.asarray([0]), n_clusters=1)
    >>> renormalized_centers(center, two, batch).round(3)
    array([[0.809, 0.588]])
    """
    xp = check_real("centers", centers)
    check_shape("centers", centers, tuple(batch.sums.shape))
    check_shape("counts", counts, tuple(batch.counts.shape))
    check_same_place(centers=centers, counts=counts, batch=batch.sums)
    before = xp.astype(centers, xp.float64)
    added = xp.astype(batch.sums, xp.float64) * 0.5**FRACTION_BITS
    moved = project_sphere(before * xp.astype(counts, xp.float64)[..., None] + added, before)
    return xp.where(batch.counts[..., None] > 0, xp.astype(moved, centers.dtype), centers)


def running_average(average: Array, value: Array, count: int) -> Array:
    """Update a mean of ``count - 1`` values with one more value.

    ``(1 - 1/count) average + (1/count) value``: CoKe's moving average of centers and of labels
    over the epochs since T', with count = t - T' (section 3.4). The mean of unit centers does not
    have unit length; the paper leaves it so.

    Parameters
    ----------
    average, value : arrays of one shape. `average` is ignored at ``count=1``.
    count : int >= 1

    Returns
    -------
    array of that shape

    Notes
    -----
    Claims: docs/claims.md#C22.
    """
    check_count("count", count, 1)
    check_real("value", value)
    if count > 1:
        check_real("average", average)
        check_shape("average", average, tuple(value.shape))
    return value if count == 1 else average + (value - average) / count
