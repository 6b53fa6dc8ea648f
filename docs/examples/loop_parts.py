"""What the four training loops of these examples share: digits, a small network, views, figures.

The loops are `swav_targets`, `dino_targets`, `sela_labels` and `deepcluster_labels`. Each takes the
rule that makes its targets as an argument, so that runs differ in that rule alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from torch.nn.functional import normalize

from dualclust.algos.clustering import clustering_scores

Targets = Callable[[torch.Tensor], torch.Tensor]
"""Scores of a batch, (n, k), to targets, (n, k), or to labels, (n,)."""


class Run(NamedTuple):
    """How a run ended.

    `nmi` compares clusters with classes, `accuracy` is that of a linear probe on a half that it has
    not seen, `sizes` are the smallest and the largest size of a cluster in the targets of a batch
    of the last epoch, in units of n / k.
    """

    nmi: float
    accuracy: float
    sizes: tuple[float, float]


class Encoder(torch.nn.Module):
    """Two convolutions and a linear layer, to unit features, and their cosines with prototypes."""

    def __init__(self, side: int, n_clusters: int, d: int = 32) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Conv2d(1, 16, 3, stride=1 + side // 16, padding=1),
            torch.nn.ReLU(),
            torch.nn.Conv2d(16, 32, 3, stride=2, padding=1),
            torch.nn.ReLU(),
            torch.nn.AdaptiveAvgPool2d(4),
            torch.nn.Flatten(),
            torch.nn.Linear(512, d),
        )
        self.prototypes = torch.nn.Parameter(torch.randn(n_clusters, d))

    def features(self, images: torch.Tensor) -> torch.Tensor:
        """Return unit features (n, d)."""
        return normalize(self.layers(images[:, None]), dim=1)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return scores (n, k)."""
        return self.features(images) @ normalize(self.prototypes, dim=1).T


def digits(*, long_tailed: bool = False) -> tuple[torch.Tensor, NDArray[np.int64]]:
    """Return images and classes: about 180 of each, or 178 zeros falling to 18 nines."""
    found = load_digits()
    keep = np.arange(len(found.target))
    if long_tailed:
        most = [round(178 * 10 ** (-digit / 9)) for digit in range(10)]
        rows = [np.flatnonzero(found.target == digit)[: most[digit]] for digit in range(10)]
        keep = np.concatenate(rows)
    images = torch.as_tensor(found.images[keep], dtype=torch.float32) / 16.0
    return images, found.target[keep]


def view(images: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Draw a view of each image: moved by up to a pixel, with noise."""
    dy, dx = torch.randint(-1, 2, (2,), generator=generator).tolist()
    moved = torch.roll(images, (dy, dx), dims=(1, 2))
    return moved + 0.15 * torch.randn(images.shape, generator=generator)


class Sizes:
    """The smallest and the largest size of a cluster in the targets of a batch."""

    def __init__(self) -> None:
        self.found = (np.inf, 0.0)

    def add(self, targets: torch.Tensor, n_clusters: int) -> None:
        """Take one batch of targets (n, k) or labels (n,)."""
        sizes = targets.sum(dim=0) if targets.ndim == 2 else targets.bincount(minlength=n_clusters)
        sizes = sizes.double() * n_clusters / len(targets)
        self.found = min(self.found[0], float(sizes.min())), max(self.found[1], float(sizes.max()))


def judged(encoder: Encoder, images: torch.Tensor, classes: NDArray[np.int64], sizes: Sizes) -> Run:
    """Compare clusters and features with the classes, which training has not seen."""
    with torch.no_grad():
        clusters, features = encoder(images).argmax(dim=1).numpy(), encoder.features(images).numpy()
    order = np.random.default_rng(0).permutation(len(classes))
    half, rest = np.array_split(order, 2)
    probe = LogisticRegression(C=100.0, max_iter=500).fit(features[half], classes[half])
    accuracy = float(probe.score(features[rest], classes[rest]))
    return Run(clustering_scores(clusters, classes).nmi, accuracy, sizes.found)
