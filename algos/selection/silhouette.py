r"""The silhouette of labels among unit rows, exact, in two passes over the rows.

Problem: are samples nearer to their own cluster than to the next one (Rousseeuw, 1987)? With a
sample's mean distance a to the others of its cluster, and b to the nearest other cluster,

``s_i = (b_i - a_i) / max(a_i, b_i)``

is 1 where clusters are far apart, 0 on a border, and below where a label is wrong. Pairs of samples
make it O(n^2 d) for most distances. For ``1 - cos``, a mean over a cluster is linear in the rows:

1. ``m_c = sum_{j in c} x_j``: sums of unit rows.
2. ``a_i = 1 - (x_i . m_c - x_i . x_i) / (n_c - 1)`` for its own cluster c, without itself;
   ``b_i = min_{c'} 1 - x_i . m_c' / n_c'``. A sample that is alone in its cluster has ``s_i = 0``.

=============  =============  =======  ===========================================================
symbol         here           shape    meaning
=============  =============  =======  ===========================================================
:math:`x_i`    ``unit``       (b, d)   rows of length 1, of a block
:math:`m_c`    ``sums``       (k, d)   sums over clusters, float64
:math:`n_c`    ``counts``     (k,)     samples of each, float64
=============  =============  =======  ===========================================================
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import array_api_compat as compat

from ..core.checks import (
    check_count,
    check_finite,
    check_labels,
    check_real,
    check_same_place,
    check_shape,
)
from ..core.errors import InvalidValueError
from ..core.types import Array
from ..scores.blocks import block_rows, row_blocks

__all__ = ["cosine_silhouette"]

ROUNDING = 2.0**-40
"""Distance up to which rows coincide: it is a difference of numbers near 1, in float64."""


def cosine_silhouette(features: Array, labels: Array, n_clusters: int) -> float:
    """Return the mean silhouette of labels by cosine distances, of all samples.

    Parameters
    ----------
    features : (n, d) real array
        Finite, in any unit; only directions count. Rows of 0 are at distance 1 from all.
    labels : (n,) int64 array
        Entries 0 to k - 1; n >= 1. Clusters may be empty.
    n_clusters : int
        k >= 1.

    Returns
    -------
    float
        In [-1, 1]; -1 where all samples are in one cluster, which nothing is apart from.

    Raises
    ------
    InvalidValueError, InvalidTypeError, DeviceMismatchError
        For no sample, labels out of range, values that are not finite, and shapes, dtypes or places
        that do not fit.

    Notes
    -----
    Cost: O(n d k), in blocks of rows: memory does not grow with n^2, as that of pairs does. In
    float64, equal to the sums over pairs up to rounding. It is that of the rows as they are: rows
    that a network has drawn together have a large one, whether its clusters are right or not.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.asarray([[1.0, 0.0], [1.0, 0.1], [0.0, 2.0], [-0.2, 2.0]])
    >>> round(cosine_silhouette(x, np.asarray([0, 0, 1, 1]), 2), 3)
    0.995
    >>> round(cosine_silhouette(x, np.asarray([0, 1, 0, 1]), 2), 3)
    -0.498
    """
    k = check_count("n_clusters", n_clusters, 1)
    xp = check_real("features", features)
    n, d = check_shape("features", features, ("n", "d"))
    if n == 0:
        msg = "features must hold at least one sample, got none. To fix this, pass at least one"
        raise InvalidValueError(msg)
    check_finite("features", features)
    check_same_place(features=features, labels=labels)
    check_labels("labels", labels, n, k)
    device = compat.device(features)
    clusters = xp.arange(k, dtype=labels.dtype, device=device)
    edges = list(row_blocks(n, block_rows(max(k, d), like=features)))

    def blocks() -> Iterator[tuple[Array, Array]]:
        for start, stop in edges:
            own = xp.astype(labels[start:stop, None] == clusters, xp.float64)
            yield _unit(features[start:stop, :]), own

    # Step 1
    sums = xp.zeros((k, d), dtype=xp.float64, device=device)
    counts = xp.zeros((k,), dtype=xp.float64, device=device)
    for unit, own in blocks():
        sums, counts = sums + xp.matmul(own.T, unit), counts + xp.sum(own, axis=0)
    if int(xp.sum(xp.astype(counts > 0, xp.int64))) < 2:
        return -1.0
    # Step 2
    total = 0.0
    for unit, own in blocks():
        products = xp.matmul(unit, sums.T)
        others = own * counts - own
        is_alone = xp.sum(others, axis=1) == 0
        itself = xp.sum(unit * unit, axis=1)
        a = 1.0 - (xp.sum(own * products, axis=1) - itself) / xp.clip(xp.sum(others, axis=1), min=1)
        away = 1.0 - products / xp.clip(counts, min=1.0)
        b = xp.min(xp.where((own > 0) | (counts == 0), xp.full_like(away, math.inf), away), axis=1)
        a, b = (xp.where(v > ROUNDING, v, xp.zeros_like(v)) for v in (a, b))
        farther = xp.maximum(a, b)
        s = (b - a) / xp.where(farther > 0, farther, xp.ones_like(farther))
        total += float(xp.sum(xp.where(is_alone, xp.zeros_like(s), s)))
    return total / n


def _unit(rows: Array) -> Array:
    """Scale rows to length 1 in float64, without overflow; rows of 0 stay."""
    xp = compat.array_namespace(rows)
    rows = xp.astype(rows, xp.float64)
    largest = xp.max(xp.abs(rows), axis=1, keepdims=True)
    rows = rows / xp.where(largest > 0, largest, xp.ones_like(largest))
    length = xp.sqrt(xp.sum(rows * rows, axis=1, keepdims=True))
    return rows / xp.where(length > 0, length, xp.ones_like(length))
