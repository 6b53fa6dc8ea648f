"""Nearest centers and squared distances of the rows of a source, a block at a time."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import array_api_compat as compat
import numpy as np

from .algos.score_sources import FeatureSource, ScoreSource, block_rows

__all__ = ["blocks", "nearest_centers", "squared_distances"]

Array = Any


def blocks(n: int, n_clusters: int) -> Iterator[tuple[int, int]]:
    """First and last row (excluded) of each block of n rows."""
    rows = block_rows(n_clusters)
    return ((start, min(start + rows, n)) for start in range(0, n, rows))


def nearest_centers(scores: ScoreSource) -> Array:
    """Cluster of the largest score of each row of this rank, (n_local,) int64."""
    parts = []
    for start, stop in blocks(scores.group.n_local, scores.n_clusters):
        block = scores.block(start, stop)
        xp = compat.array_namespace(block)
        parts.append(xp.astype(xp.argmax(block, axis=1), xp.int64))
    return xp.concat(parts)


def squared_distances(
    source: FeatureSource, labels: Array, centers: Array, weights: Array | None = None
) -> float:
    """Weighted sum of the squared distances of all rows to their centers.

    Parameters
    ----------
    source : FeatureSource
    labels : (n_local,) int64 array
    centers : (k, d) array
    weights : (n,) float64 array, optional
        Of all rows of all ranks.

    Notes
    -----
    Sums of blocks are added without rounding, so that the number of ranks does not show.

    Examples
    --------
    >>> from dualclust.algos.score_sources import feature_source
    >>> x = np.asarray([[0.0, 0.0], [3.0, 4.0]])
    >>> squared_distances(feature_source(x), np.asarray([0, 0]), x[:1])
    25.0
    """
    xp, group = compat.array_namespace(centers), source.group
    sums: list[float] = []
    for start, stop in blocks(group.n_local, centers.shape[0]):
        apart = source.rows(start, stop) - xp.take(centers, labels[start:stop], axis=0)
        squared = xp.sum(xp.astype(apart, xp.float64) ** 2, axis=1)
        if weights is not None:
            squared = squared * weights[group.first_row + start : group.first_row + stop]
        sums.append(float(xp.sum(squared)))
    return math.fsum(group.gather(np.asarray(sums, dtype=np.float64)).tolist())
