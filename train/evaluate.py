"""Compare a run's clusters with true classes, where the data has them. Never seen by training."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ..algos.metrics import ClusteringScores, clustering_scores
from .data import ImageData

__all__ = ["Agreement", "evaluate", "kmeans_on_pixels"]


class Agreement(NamedTuple):
    """ACC, NMI (arithmetic mean) and ARI, as the field's tables print them."""

    acc: float
    nmi: float
    ari: float


def evaluate(labels: Tensor, data: ImageData) -> Agreement | None:
    """Agreement of (n,) cluster labels with the classes of `data`; None where it has none."""
    if data.labels is None:
        return None
    return _short(clustering_scores(labels, data.labels))


def kmeans_on_pixels(data: ImageData, n_clusters: int, *, seed: int) -> Agreement | None:
    """Baseline: scikit-learn's k-means (10 starts) on the raw pixels.

    Parameters
    ----------
    data : ImageData
    n_clusters : int
    seed : int. Its `random_state`.

    Returns
    -------
    Agreement, or None where the data has no classes.
    """
    from sklearn.cluster import KMeans

    if data.labels is None:
        return None
    pixels = data.images.flatten(1).cpu().double().numpy()
    found = KMeans(n_clusters, n_init=10, random_state=seed % 2**32).fit(pixels)
    labels = torch.from_numpy(found.labels_.astype("int64"))
    return _short(clustering_scores(labels, data.labels))


def _short(scores: ClusteringScores) -> Agreement:
    return Agreement(scores.acc, scores.nmi, scores.ari)
