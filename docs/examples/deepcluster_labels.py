"""A DeepCluster-style loop: k-means on the features of an epoch labels the next one.

DeepCluster moves a row into each empty cluster and samples clusters alike. With `BalancedLabels`
the labels of k-means themselves are inside bounds: centers stay, and rows go where there is room.

``python docs/examples/deepcluster_labels.py`` prints both, in a minute.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from loop_parts import Encoder, Run, Sizes, Targets, digits, judged, view
from numpy.typing import NDArray
from torch.nn.functional import cross_entropy, normalize

import dualclust as dc
from dualclust.torch import BalancedLabels

K = 10


def by_nearest(scores: torch.Tensor) -> torch.Tensor:
    """Return the nearest center of each row, as k-means has it."""
    return scores.argmax(dim=1)


def train(
    labels_of: Targets,
    images: torch.Tensor,
    classes: NDArray[np.int64],
    *,
    epochs: int = 30,
    seed: int = 0,
    batch: int = 128,
    n_clusters: int = K,
) -> Run:
    """Train a classifier of the clusters of k-means, anew for each epoch."""
    generator = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    encoder = Encoder(images.shape[1], n_clusters)
    optimizer = torch.optim.Adam(encoder.parameters(), lr=2e-3)
    for epoch in range(epochs):
        with torch.no_grad():
            features = encoder.features(images)
            start = dc.kmeans_plus_plus(features, n_clusters, key=1000 * seed + epoch)
            found = dc.kmeans(features, start, max_iter=20)
            centers = normalize(found.centers.to(features.dtype), dim=1)
            labels = labels_of(features @ centers.T)
            encoder.prototypes.copy_(centers)
        for rows in torch.randperm(len(images), generator=generator).split(batch):
            loss = cross_entropy(encoder(view(images[rows], generator)) / 0.1, labels[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    sizes = Sizes()
    sizes.add(labels, n_clusters)
    return judged(encoder, images, classes, sizes)


RULES: dict[str, Callable[[], Targets]] = {
    "k-means": lambda: by_nearest,
    "hard, 0.9 to 1.1": lambda: BalancedLabels(K, kind="hard", lower=0.9, upper=1.1, n_iter=20),
    "exact, 0.9 to 1.1": lambda: BalancedLabels(K, kind="exact", lower=0.9, upper=1.1),
}


def main(*, small: bool = False) -> dict[str, list[Run]]:
    """Return the runs of each rule."""
    images, classes = digits()
    epochs, seeds = (2, 1) if small else (30, 2)
    return {
        name: [train(rule(), images, classes, epochs=epochs, seed=s) for s in range(seeds)]
        for name, rule in RULES.items()
    }


if __name__ == "__main__":
    for name, runs in main().items():
        print(name, [f"NMI {run.nmi:.3f}, sizes {run.sizes}" for run in runs])
