"""What the four training loops of these examples share: images, a network, a run and its figures.

The loops are `swav_targets`, `dino_targets`, `sela_labels` and `deepcluster_labels`. Each takes the
rule that makes its targets as an argument, so that runs differ in that rule alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from torch import Tensor
from torch.nn.functional import cross_entropy, normalize

from dualclust.algos.clustering import clustering_scores

Targets = Callable[[Tensor], Tensor]
"""Scores of a batch, (n, k), to targets, (n, k), or to labels, (n,)."""


class Data(NamedTuple):
    """Images (n, side, side) or (n, channels, side, side), and their classes (n,)."""

    images: Tensor
    classes: NDArray[np.int64]


class Run(NamedTuple):
    """How a run ended.

    `nmi` compares clusters with classes, `accuracy` is that of a linear probe on a half that it has
    not seen, `sizes` are the smallest and the largest size of a cluster in the targets of the last
    epoch, in units of n / k.
    """

    nmi: float
    accuracy: float
    sizes: tuple[float, float]


class Encoder(torch.nn.Module):
    """Two convolutions and a linear layer, to unit features, and their cosines with prototypes."""

    def __init__(self, images: Tensor, n_clusters: int, d: int = 32) -> None:
        super().__init__()
        channels = images.shape[1] if images.ndim == 4 else 1
        self.layers = torch.nn.Sequential(
            torch.nn.Conv2d(channels, 16, 3, stride=1 + images.shape[-1] // 16, padding=1),
            torch.nn.ReLU(),
            torch.nn.Conv2d(16, 32, 3, stride=2, padding=1),
            torch.nn.ReLU(),
            torch.nn.AdaptiveAvgPool2d(4),
            torch.nn.Flatten(),
            torch.nn.Linear(512, d),
        )
        self.prototypes = torch.nn.Parameter(torch.randn(n_clusters, d))

    def features(self, images: Tensor) -> Tensor:
        """Return unit features (n, d)."""
        rows = images if images.ndim == 4 else images[:, None]
        return normalize(self.layers(rows), dim=1)

    def forward(self, images: Tensor) -> Tensor:
        """Return scores (n, k)."""
        return self.features(images) @ normalize(self.prototypes, dim=1).T


@dataclass
class Loop:
    """One run: its network and optimizer, its draws, and the sizes of its targets."""

    data: Data
    seed: int = 0
    batch: int = 128
    n_clusters: int = 10
    sizes: tuple[float, float] = field(default=(np.inf, 0.0), init=False)

    def __post_init__(self) -> None:
        self.generator = torch.Generator().manual_seed(self.seed)
        torch.manual_seed(self.seed)
        self.encoder = Encoder(self.data.images, self.n_clusters)
        self.optimizer = torch.optim.Adam(self.encoder.parameters(), lr=2e-3)

    def view(self, rows: Tensor | slice = slice(None)) -> Tensor:
        """Draw a view of each image: moved by up to a pixel, with noise."""
        images = self.data.images[rows]
        shift = torch.randint(-1, 2, (2,), generator=self.generator).tolist()
        moved = torch.roll(images, shift, dims=(-2, -1))
        return moved + 0.15 * torch.randn(images.shape, generator=self.generator)

    def batches(self) -> Iterator[Tensor]:
        """Yield the rows of each batch of an epoch, whose targets are measured anew."""
        self.sizes = (np.inf, 0.0)
        n = len(self.data.images)
        yield from torch.randperm(n, generator=self.generator).split(self.batch)

    def measure(self, targets: Tensor) -> None:
        """Take targets (n, k) or labels (n,) into the sizes; short batches are left out."""
        if len(targets) < self.batch:
            return
        k = self.n_clusters
        sizes = targets.sum(dim=0) if targets.ndim == 2 else targets.bincount(minlength=k)
        sizes = sizes.double() * k / len(targets)
        self.sizes = min(self.sizes[0], float(sizes.min())), max(self.sizes[1], float(sizes.max()))

    def step(self, loss: Tensor) -> None:
        """Move the encoder by the gradient of a loss."""
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

    def learn_labels(self, labels: Tensor) -> None:
        """Train an epoch by labels of all samples (n,)."""
        for rows in self.batches():
            self.step(cross_entropy(self.encoder(self.view(rows)) / 0.1, labels[rows]))
        self.measure(labels)

    def judged(self, encoder: Encoder | None = None) -> Run:
        """Compare clusters and features with the classes, which training has not seen."""
        encoder, (images, classes) = encoder or self.encoder, self.data
        with torch.no_grad():
            clusters = encoder(images).argmax(dim=1).numpy()
            features = encoder.features(images).numpy()
        half, rest = np.array_split(np.random.default_rng(0).permutation(len(classes)), 2)
        probe = LogisticRegression(C=100.0, max_iter=500).fit(features[half], classes[half])
        accuracy = float(probe.score(features[rest], classes[rest]))
        return Run(clustering_scores(clusters, classes).nmi, accuracy, self.sizes)


def digits(*, long_tailed: bool = False) -> Data:
    """Return images and classes: about 180 of each, or 178 zeros falling to 18 nines."""
    found = load_digits()
    keep = np.arange(len(found.target))
    if long_tailed:
        most = [round(178 * 10 ** (-digit / 9)) for digit in range(10)]
        rows = [np.flatnonzero(found.target == digit)[: most[digit]] for digit in range(10)]
        keep = np.concatenate(rows)
    images = torch.as_tensor(found.images[keep], dtype=torch.float32) / 16.0
    return Data(images, found.target[keep])


Train = Callable[..., Run]
"""``train(targets_of, data, epochs=..., seed=...)`` of a loop."""


def compare(
    train: Train,
    rules: dict[str, Callable[[], Targets]],
    data: Data,
    *,
    small: bool = False,
    seeds: int = 2,
) -> dict[str, list[Run]]:
    """Train by each rule and seed: 30 epochs each, or two of one seed."""
    epochs, seeds = (2, 1) if small else (30, seeds)
    return {
        name: [train(rule(), data, epochs=epochs, seed=seed) for seed in range(seeds)]
        for name, rule in rules.items()
    }


def show(found: dict[str, list[Run]]) -> None:
    """Print a line for each rule."""
    for name, runs in found.items():
        nmi = np.asarray([run.nmi for run in runs])
        low, high = min(run.sizes[0] for run in runs), max(run.sizes[1] for run in runs)
        print(f"{name}: NMI {nmi.mean():.3f} +- {nmi.std():.3f}, sizes {low:.2f} to {high:.2f}")
