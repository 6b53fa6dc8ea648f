"""A SeLa-style loop: labels of all samples now and then, and a classifier that learns them.

SeLa labels the whole data set by Sinkhorn with equal columns, and trains on the largest entries for
some epochs. The counts of those are not equal. `BalancedLabels` has them inside bounds.

``python docs/examples/sela_labels.py`` prints both, in a minute.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from loop_parts import Encoder, Run, Sizes, Targets, digits, judged, view
from numpy.typing import NDArray
from torch.nn.functional import cross_entropy

from dualclust.algos.baselines import SinkhornOptions, sinkhorn
from dualclust.torch import BalancedLabels

K = 10


def by_sinkhorn(scores: torch.Tensor) -> torch.Tensor:
    """Return SeLa's labels: the largest entries of the converged plan."""
    return sinkhorn(scores, options=SinkhornOptions(epsilon=0.04, tol=1e-3)).labels


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
    """Train by labels of all samples, which are renewed with each epoch."""
    generator = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    encoder = Encoder(images.shape[1], n_clusters)
    optimizer = torch.optim.Adam(encoder.parameters(), lr=2e-3)
    for _ in range(epochs):
        with torch.no_grad():
            labels = labels_of(encoder(view(images, generator)))
        for rows in torch.randperm(len(images), generator=generator).split(batch):
            loss = cross_entropy(encoder(view(images[rows], generator)) / 0.1, labels[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    sizes = Sizes()
    sizes.add(labels, n_clusters)
    return judged(encoder, images, classes, sizes)


RULES: dict[str, Callable[[], Targets]] = {
    "Sinkhorn, converged": lambda: by_sinkhorn,
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
