"""Nearest centers and squared distances of the rows of a source, a block at a time."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import array_api_compat as compat
import numpy as np

from ..algos.core.reads import on_host, read
from ..algos.scores.blocks import block_rows, map_blocks, row_blocks
from ..algos.scores.nearest import best_clusters, nearest_without_scores
from ..algos.scores.sources import FeatureSource, ScoreSource

__all__ = ["around", "blocks", "half_squared_distances", "nearest_centers", "squared_distances"]

CANCELLED = 2.0**-5
"""A squared distance below this share of the squared lengths has lost five bits, so it is computed
from the differences."""

CHUNK_ENTRIES = 2**18  # of differences at a time
Array = Any


def blocks(n: int, n_clusters: int, *, like: Array) -> Iterator[tuple[int, int]]:
    """Yield the first row and the last (excluded) of each block of n rows, where `like` is."""
    return row_blocks(n, block_rows(n_clusters, like=like))


def around(source: FeatureSource, origin: Array) -> FeatureSource:
    """Return rows relative to an origin: near the centers, scores keep their digits.

    Examples
    --------
    >>> from dualclust.algos.scores.sources import feature_source
    >>> around(feature_source(np.asarray([[3.0], [5.0]])), np.asarray([4.0])).rows(0, 2)
    array([[-1.],
           [ 1.]])
    """
    xp, largest = compat.array_namespace(origin), source.largest
    return source._replace(
        rows=lambda start, stop: source.rows(start, stop) - origin,
        take=lambda ids: source.take(ids) - origin,
        largest=None if largest is None else largest + float(xp.max(xp.abs(origin))),
    )


def nearest_centers(
    scores: ScoreSource, prices: Array | None = None, weights: Array | None = None
) -> Array:
    """Return the cluster of the largest score of each row of this rank, (n_local,) int64.

    Parameters
    ----------
    scores : ScoreSource
    prices : (k,) float64 array, optional
        Added to the scores of each row: the cluster that a row takes at these prices.
    weights : (n_local,) float64 array, optional
        Factors of the scores, before prices are added.

    Returns
    -------
    (n_local,) int64 array
        Ties go to the lowest cluster.
    """
    if weights is None and (labels := nearest_without_scores(scores, prices)) is not None:
        return labels
    like = scores.block(0, 0)
    xp = compat.array_namespace(like)
    zero = xp.zeros((scores.n_clusters,), dtype=like.dtype, device=compat.device(like))

    def nearest(start: int, stop: int) -> Array:
        block = scores.block(start, stop)
        if prices is None:
            return best_clusters(block, zero)[0]
        if weights is None and block.dtype == xp.float32 and not on_host(block):
            return best_clusters(block, prices)[0]  # sums in float64, which no difference needs
        # Counted from a row's first score, as the solver does: its differences keep digits.
        block = xp.astype(block, xp.float64)
        block = block - block[:, :1]
        block = block if weights is None else block * weights[start:stop, None]
        return best_clusters(block, prices)[0]

    return xp.concat(list(scores.map_blocks(nearest, like=like, at_least_one=True)))


def half_squared_distances(rows: Array, centers: Array, *, spherical: bool = False) -> Array:
    """Return half the squared distance of each row to each center; on the sphere, ``1 - cos``.

    Computed as ``||x||^2 / 2 - x . c + ||c||^2 / 2``, and from the differences where that cancels:
    the distance keeps all its digits near a center, and is 0 at the center.

    Parameters
    ----------
    rows : (b, d) array
    centers : (k, d) array
    spherical : bool
        Whether rows and centers are unit vectors; a zero row is at ``1 - cos = 1``.

    Returns
    -------
    (b, k) array, at least 0

    Notes
    -----
    Cost O(b k d), and O(d) more for each near pair.

    Examples
    --------
    >>> x = np.asarray([[3.0, 4.0], [2e-9, 0.0]])
    >>> half_squared_distances(x, np.asarray([[3.0, 4.0], [0.0, 0.0]]))
    array([[0.00e+00, 1.25e+01],
           [1.25e+01, 2.00e-18]])
    """
    xp, (b, d), k = compat.array_namespace(rows), rows.shape, centers.shape[0]
    own = xp.ones_like(rows[:, :1])
    if not spherical:
        own = 0.5 * (xp.sum(rows * rows, axis=1)[:, None] + xp.sum(centers * centers, axis=1))
    half = own - xp.matmul(rows, centers.T)
    near = xp.reshape(half <= CANCELLED * own, (b * k,))
    (pairs,) = xp.nonzero(near)
    if pairs.shape[0] == 0:
        return half
    step, parts = max(1, CHUNK_ENTRIES // d), []
    for i in range(0, pairs.shape[0], step):
        some = pairs[i : i + step]
        apart = xp.take(rows, some // k, axis=0) - xp.take(centers, some % k, axis=0)
        parts.append(0.5 * xp.sum(apart * apart, axis=1))
    place = xp.cumulative_sum(xp.astype(near, xp.int64)) - 1
    exact = xp.take(xp.concat(parts), xp.clip(place, min=0))
    return xp.where(xp.reshape(near, (b, k)), xp.reshape(exact, (b, k)), half)


def squared_distances(
    source: FeatureSource, labels: Array, centers: Array, weights: Array | None = None
) -> float:
    """Return the weighted sum of the squared distances of all rows to their centers.

    Parameters
    ----------
    source : FeatureSource
    labels : (n_local,) int64 array
        A row of the label -1 counts nothing.
    centers : (k, d) array
    weights : (n,) float64 array, optional
        Of all rows of all ranks.

    Notes
    -----
    Sums of blocks are added without rounding, so the result does not depend on the world size.

    Examples
    --------
    >>> from dualclust.algos.scores.sources import feature_source
    >>> x = np.asarray([[0.0, 0.0], [3.0, 4.0]])
    >>> squared_distances(feature_source(x), np.asarray([0, 0]), x[:1])
    25.0
    """
    xp, group = compat.array_namespace(centers), source.group

    def added(start: int, stop: int) -> Array:
        own = labels[start:stop]
        apart = source.rows(start, stop) - xp.take(centers, xp.clip(own, min=0), axis=0)
        squared = xp.sum(xp.astype(apart, xp.float64) ** 2, axis=1)
        squared = xp.where(own < 0, xp.zeros_like(squared), squared)
        if weights is not None:
            squared = squared * weights[group.first_row + start : group.first_row + stop]
        return xp.sum(squared)

    rows = block_rows(centers.shape[0], like=centers, is_alone=group.is_alone)
    sums = read(*map_blocks(added, group.n_local, rows, like=centers))
    return math.fsum(group.gather(np.asarray(sums, dtype=np.float64)).tolist())
