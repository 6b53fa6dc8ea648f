r"""The best cluster of each row of a block of scores, also at prices: the kernel of every look.

`best_clusters` takes scores; `best_products` takes rows and centers, and its engine keeps no n x k.

Problem: ``argmax_k s_ik + o_k`` and its value. Offsets ``o_k = -||c_k||^2 / 2`` turn products with
centers into distances; prices as offsets give the cluster that a row takes at these prices. In two
steps the sum is written to memory and read again, which takes as long as a product with few
columns. Scores come a block of rows at a time (`blocks`), so that no pass holds n x k of them.
"""

from __future__ import annotations

import array_api_compat as compat

from ...backends import kernel, select
from ..core.types import Array
from .blocks import row_blocks
from .sources import FeatureSource, Products, ScoreSource

__all__ = ["best_clusters", "best_products", "best_without_scores", "nearest_without_scores"]

FUSED_ROWS = 2**20
"""Rows at a time of an engine that keeps no scores: only rows that are made anew need memory."""


@kernel
def best_clusters(scores: Array, offsets: Array) -> tuple[Array, Array]:
    """Return the cluster of the largest ``scores + offsets`` of each row, and that largest value.

    Parameters
    ----------
    scores : (n, k) array
        Without NaN; k >= 1.
    offsets : (k,) array
        Halves of squared lengths, or prices; minus infinity leaves a cluster out. Of the dtype of
        the scores, or float64: then sums of float32 scores are float64 as well, without a copy of
        the scores.

    Returns
    -------
    labels : (n,) int64 array
        Ties go to the lowest cluster.
    values : (n,) array
        Of the wider dtype of the two.

    Examples
    --------
    >>> import numpy as np
    >>> best_clusters(np.asarray([[1.0, 0.5], [0.0, 2.0]]), np.asarray([0.0, 0.5]))
    (array([0, 1]), array([1. , 2.5]))
    """
    xp = compat.array_namespace(scores)
    scores = scores + offsets
    labels = xp.astype(xp.argmax(scores, axis=1), xp.int64)
    return labels, xp.take_along_axis(scores, labels[:, None], axis=1)[:, 0]


@kernel
def best_products(rows: Array, centers: Array, offsets: Array) -> tuple[Array, Array]:
    """Return the cluster of the largest ``rows @ centers.T + offsets``, and that value, in float64.

    Sums go over the features in order. A product of two float32 numbers is exact in float64, so
    that all engines have the same bits.

    Parameters
    ----------
    rows : (n, d) float32 array
    centers : (k, d) float32 array
        k >= 1.
    offsets : (k,) float64 array
        Minus infinity leaves a cluster out.

    Returns
    -------
    labels : (n,) int64 array
        Ties go to the lowest cluster.
    values : (n,) float64 array

    Examples
    --------
    >>> import numpy as np
    >>> rows = np.asarray([[1.0, 2.0]], dtype=np.float32)
    >>> best_products(rows, np.eye(2, dtype=np.float32), np.zeros(2))
    (array([1]), array([2.]))
    """
    xp = compat.array_namespace(rows)
    (n, d), k = rows.shape, centers.shape[0]
    scores = xp.zeros((n, k), dtype=xp.float64, device=compat.device(rows))
    for j in range(d):
        x, c = (xp.astype(a[:, j], xp.float64) for a in (rows, centers))
        scores = scores + x[:, None] * c[None, :]
    labels, values = best_clusters.reference(scores, offsets)  # type: ignore[attr-defined]
    return labels, values


def best_without_scores(
    features: FeatureSource, centers: Array, offsets: Array
) -> tuple[Array, Array] | None:
    """Return `best_products` of all rows of this rank, or None where no engine computes it.

    Parameters
    ----------
    features : FeatureSource
        Whose products with the centers are finite.
    centers : (k, d) array
    offsets : (k,) array
    """
    like = features.rows(0, 0)
    xp = compat.array_namespace(like)
    is_narrow = like.dtype == xp.float32 and features.is_plain
    if not is_narrow or centers.shape[0] == 0 or select("best_products", like) is None:
        return None
    offsets = xp.astype(offsets, xp.float64)
    parts = [
        best_products(features.rows(start, stop), centers, offsets)
        for start, stop in row_blocks(features.group.n_local, FUSED_ROWS, at_least_one=True)
    ]
    labels, values = (xp.concat(list(column)) for column in zip(*parts, strict=True))
    return labels, values


def nearest_without_scores(source: ScoreSource, prices: Array | None) -> Array | None:
    """Return the best cluster of each row at prices as `best_without_scores` does, or None."""
    if not isinstance(source.block, Products) or select("best_products", source.block[1]) is None:
        return None
    features, centers, offsets = source.block
    xp = compat.array_namespace(centers)
    total = xp.zeros_like(centers[:, 0], dtype=xp.float64)
    for added in (offsets, prices):
        total = total if added is None else total + added
    found = best_without_scores(features, centers, total)
    return None if found is None else found[0]
