"""K-means with bounds from several starts, as methods cluster the coordinates of a graph."""

from __future__ import annotations

from typing import Any

from ...algos.bounds.sizes import SizeBounds
from ...algos.clustering.constrained import constrained_kmeans
from ...algos.clustering.lloyd import best_of
from ...algos.clustering.start import start_centers
from ...algos.scores.sources import FeatureSource

__all__ = ["best_of_starts"]

FINAL_GAP = 1e-4
"""Relative gap that k-means proves for its labels; those of the run are the best there are."""


def best_of_starts(source: FeatureSource, bounds: SizeBounds, seed: int, n_init: int) -> Any:
    """Return the best k-means of directions, of `n_init` starts that are those of `seed` alone."""

    def run(start: int) -> Any:
        centers = start_centers(source, bounds.n_clusters, seed=start, metric="cosine")
        return constrained_kmeans(source, bounds, centers, metric="cosine", gap=FINAL_GAP)

    return best_of(run, range(seed * n_init, (seed + 1) * n_init))
