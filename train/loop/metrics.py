"""Agreement of a run's clusters with true classes, which training never sees.

==================  ================================================================================
figure              what it says
==================  ================================================================================
ACC, NMI, ARI, AMI  agreement of clusters and classes; NMI with both means of the entropies
k-NN                share of samples whose nearest neighbors' class is theirs: what the encoder has
                    learned, whatever the clusters
linear probe        accuracy of a linear classifier on the encoder's features; as the tables of
                    ImageNet have it, see `linear_probe`
imbalance           smallest over largest cluster; and the effective number of clusters
uniformity          spread of the features on the sphere; 0 when they have collapsed
==================  ================================================================================

The numbers of clusters and classes may differ: under- and over-clustering are scored by the best
one-to-one map of the fewer to the more, and by the figures that need no map.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...algos.clustering.metrics import (
    ClusteringScores,
    clustering_scores,
    effective_clusters,
    imbalance_ratio,
    uniformity,
)
from ...algos.core.errors import InvalidValueError
from ..data.samples import Samples

__all__ = [
    "Agreement",
    "Spread",
    "agreement",
    "evaluate",
    "kmeans_labels",
    "kmeans_on_pixels",
    "logistic_probe",
    "nearest_neighbors",
    "pixel_rows",
    "spread",
]


class Agreement(NamedTuple):
    """ACC, NMI (arithmetic mean), ARI, NMI (geometric mean) and AMI, as the tables print them."""

    acc: float
    nmi: float
    ari: float
    nmi_geometric: float
    ami: float


class Spread(NamedTuple):
    """Whether clusters or features have collapsed; see `algos.clustering.metrics`."""

    imbalance: float
    effective_clusters: float
    uniformity: float


def evaluate(labels: Tensor, data: Samples) -> Agreement | None:
    """Agreement of (n,) cluster labels with the classes of `data`; None where it has none."""
    return None if data.labels is None else agreement(labels, data.labels)


def agreement(labels: Tensor, classes: Tensor) -> Agreement:
    """Agreement of cluster labels with classes; samples of class -1 have none and do not count."""
    if bool((classes < 0).any()):
        known = classes >= 0
        labels, classes = labels[known], classes[known]
    return _short(clustering_scores(labels, classes))


def spread(features: Tensor, counts: Tensor) -> Spread:
    """How balanced the cluster sizes are, and how far features are from collapse."""
    return Spread(imbalance_ratio(counts), effective_clusters(counts), uniformity(features))


def kmeans_on_pixels(data: Samples, n_clusters: int, *, seed: int) -> Agreement | None:
    """Baseline: scikit-learn's k-means (10 starts) on the raw pixels.

    Parameters
    ----------
    data : Samples. As they are stored; of pictures in files, the plain images.
    n_clusters : int
    seed : int. Its `random_state`.

    Returns
    -------
    Agreement, or None where the data has no classes.
    """
    if data.labels is None:
        return None
    labels = kmeans_labels(pixel_rows(data), n_clusters, seed=seed)
    return agreement(torch.from_numpy(labels), data.labels)


def pixel_rows(data: Samples) -> NDArray[np.float64]:
    """Samples as they are stored, one in a row: pixels, or the numbers of embeddings."""
    samples = data.fetch(torch.arange(len(data.ids)))
    rows: NDArray[np.float64] = samples.flatten(1).cpu().double().numpy()
    return rows


def kmeans_labels(rows: NDArray[np.float64], n_clusters: int, *, seed: int) -> NDArray[np.int64]:
    """Labels of scikit-learn's k-means (10 starts) on (n, d) rows."""
    from sklearn.cluster import KMeans

    found = KMeans(n_clusters, n_init=10, random_state=seed % 2**32).fit(rows)
    labels: NDArray[np.int64] = found.labels_.astype("int64")
    return labels


def nearest_neighbors(
    features: Tensor,
    classes: Tensor,
    *,
    n_neighbors: int,
    test: tuple[Tensor, Tensor] | None = None,
) -> float:
    """Accuracy of the majority class of the nearest neighbors by cosine.

    Parameters
    ----------
    features : (n, d) tensor
    classes : (n,) int64 tensor. Samples of class -1 are left out.
    n_neighbors : int, 1 or more
    test : (features, classes), optional. What to classify; without it each sample is classified by
        the others.

    Raises
    ------
    InvalidValueError
        If there are not more samples than neighbors.
    """
    from sklearn.neighbors import NearestNeighbors

    x, t = _known(features, classes)
    if len(x) <= n_neighbors:
        msg = (
            f"n_neighbors must be below the number of samples with a class, got {n_neighbors} "
            f"for {len(x)}. To fix this, lower evaluation.neighbors"
        )
        raise InvalidValueError(msg)
    index = NearestNeighbors(n_neighbors=n_neighbors, metric="cosine").fit(x)
    if test is None:
        expected, near = t, index.kneighbors(return_distance=False)
    else:
        queries, expected = _known(*test)
        near = index.kneighbors(queries, return_distance=False)
    votes = np.zeros((len(near), int(t.max()) + 1), dtype=np.int64)
    np.add.at(votes, (np.arange(len(near))[:, None], t[near]), 1)
    return float(np.mean(votes.argmax(axis=1) == expected))


def logistic_probe(
    features: Tensor,
    classes: Tensor,
    *,
    seed: int,
    test: tuple[Tensor, Tensor] | None = None,
) -> float:
    """Accuracy of scikit-learn's logistic regression on standardized features.

    Parameters
    ----------
    features : (n, d) tensor
    classes : (n,) int64 tensor. Samples of class -1 are left out.
    seed : int. Of the split that is held out where there is no `test`: a fifth, by class.
    test : (features, classes), optional.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import train_test_split
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    x, t = _known(features, classes)
    if test is None:
        x, queries, t, expected = train_test_split(
            x, t, test_size=0.2, stratify=t, random_state=seed % 2**32
        )
    else:
        queries, expected = _known(*test)
    probe = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    return float(probe.fit(x, t).score(queries, expected))


def _known(features: Tensor, classes: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Features and classes of the samples that have one, in NumPy."""
    x, t = features.detach().double().cpu().numpy(), classes.cpu().numpy()
    known = t >= 0
    return x[known], t[known]


def _short(s: ClusteringScores) -> Agreement:
    return Agreement(s.acc, s.nmi, s.ari, s.nmi_geometric, s.ami)
