"""A DeepCluster-style loop: k-means on the features of an epoch labels the next one.

DeepCluster moves a row into each empty cluster and samples clusters alike. With `BalancedLabels`
the labels of k-means themselves are inside bounds: centers stay, and rows go where there is room.

``python docs/examples/deepcluster_labels.py`` prints both, in a minute.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from loop_parts import Data, Loop, Run, Targets, compare, digits, show
from torch import Tensor
from torch.nn.functional import normalize

import dualclust as dc
from dualclust.torch import BalancedLabels

K = 10


def by_nearest(scores: Tensor) -> Tensor:
    """Return the nearest center of each row, as k-means has it."""
    return scores.argmax(dim=1)


def train(labels_of: Targets, data: Data, *, epochs: int = 30, seed: int = 0) -> Run:
    """Train a classifier of the clusters of k-means, anew for each epoch."""
    loop = Loop(data, seed, n_clusters=K)
    for _ in range(epochs):
        with torch.no_grad():
            features = loop.encoder.features(data.images)
            start = dc.kmeans_plus_plus(features, torch.rand(K, dtype=torch.float64))
            found = dc.kmeans(features, start, max_iter=20)
            centers = normalize(found.centers.to(features.dtype), dim=1)
            labels = labels_of(features @ centers.T)
            loop.encoder.prototypes.copy_(centers)
        loop.learn_labels(labels)
    return loop.judged()


RULES: dict[str, Callable[[], Targets]] = {
    "k-means": lambda: by_nearest,
    "hard, 0.9 to 1.1": lambda: BalancedLabels(K, kind="hard", lower=0.9, upper=1.1, n_iter=20),
    "exact, 0.9 to 1.1": lambda: BalancedLabels(K, kind="exact", lower=0.9, upper=1.1),
}


def main(*, small: bool = False) -> dict[str, list[Run]]:
    """Return the runs of each rule."""
    return compare(train, RULES, digits(), small=small)


if __name__ == "__main__":
    show(main())
