"""Scores and distances of rows to the centers of a fit, of dense rows and of sparse ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import array_api_compat as compat

from ..algos.scores.sources import FeatureSource, ScoreSource, product_source
from ..cluster.distances import around, blocks, half_squared_distances, squared_distances
from ..cluster.sparse_rows import SparseRows, sparse_half_squared, sparse_inertia, sparse_scores

__all__ = ["center_distances", "center_scores", "inertia_of"]

Array = Any


def _origin(centers: Array, metric: str) -> Array:
    """Return an origin near the centers: far from it, distances would lose their digits."""
    xp = compat.array_namespace(centers)
    return xp.mean(centers, axis=0) if metric == "euclidean" else xp.zeros_like(centers[0, :])


def center_scores(
    rows: Array, source: FeatureSource, centers: Array, metric: str, weights: Array | None = None
) -> ScoreSource:
    """Return the scores of rows for centers in their dtype."""
    xp, origin = compat.array_namespace(rows), _origin(centers, metric)
    if isinstance(rows, SparseRows):
        around_it = None if metric == "cosine" else origin
        return sparse_scores(source, centers, origin=around_it, weights=weights)
    if metric == "cosine":
        return product_source(source, centers, weights=weights)
    centers = centers - origin
    offsets = -0.5 * xp.sum(centers * centers, axis=1)
    return product_source(around(source, origin), centers, offsets=offsets, weights=weights)


def center_distances(rows: Array, source: FeatureSource, centers: Array, metric: str) -> Array:
    """Return the distances of rows to centers, Euclidean or 1 - cos, (n, k)."""
    xp, parts, spherical = compat.array_namespace(rows), [], metric == "cosine"
    (n, _), k = rows.shape, centers.shape[0]
    half_of: Callable[..., Array] = sparse_half_squared
    if not isinstance(rows, SparseRows):
        half_of, origin = half_squared_distances, _origin(centers, metric)
        source, centers = around(source, origin), centers - origin
    for start, stop in blocks(n, k, like=centers):
        half = half_of(source.rows(start, stop), centers, spherical=spherical)
        parts.append(half if spherical else xp.sqrt(2.0 * half))
    return xp.astype(xp.concat(parts), rows.dtype)


def inertia_of(
    rows: Array,
    source: FeatureSource,
    labels: Array,
    centers: Array,
    weights: Array | None = None,
) -> float:
    """Return the weighted sum of squared distances of rows to their centers."""
    measured = sparse_inertia if isinstance(rows, SparseRows) else squared_distances
    return measured(source, labels, centers, weights)
