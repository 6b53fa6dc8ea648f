"""A SwAV-style loop with Sinkhorn's targets, and with prices in its place.

Two views of each image; the targets of one view are what the other has to predict, over prototypes.
The runs differ in one line, that which makes targets: Sinkhorn from nothing for each batch, as
SwAV has it (three rounds, temperature 0.05), or `PricedLabels`, whose prices remember the batches
before. Digits are of unequal number, 178 zeros and 25 nines: equal columns are not in the data.

``python docs/examples/swav_targets.py docs/images`` draws the figure, in seconds.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from torch.nn.functional import cross_entropy, normalize, one_hot

from dualclust.algos.baselines import SWAV, sinkhorn, soft_plan
from dualclust.algos.clustering import clustering_scores
from dualclust.torch import PricedLabels

K = 10
Targets = Callable[[torch.Tensor], torch.Tensor]


class Run(NamedTuple):
    """A run: hard sizes over each epoch in units of n / k, and how well clusters fit classes."""

    sizes: NDArray[np.float64]
    nmi: float


def unequal_digits() -> tuple[torch.Tensor, NDArray[np.int64]]:
    """Return 178 zeros, and of each further digit 17 images fewer."""
    digits = load_digits()
    keep = np.concatenate(
        [np.flatnonzero(digits.target == digit)[: 178 - 17 * digit] for digit in range(10)]
    )
    images = torch.as_tensor(digits.images[keep], dtype=torch.float32) / 16.0
    return images, digits.target[keep]


def by_sinkhorn(scores: torch.Tensor) -> torch.Tensor:
    """Return SwAV's targets of a batch, of which nothing is kept."""
    return soft_plan(scores, sinkhorn(scores, options=SWAV).prices, epsilon=0.05)


class ByPrices:
    """Targets by prices that are kept: soft as Sinkhorn's, or hard."""

    def __init__(self, lower: float, upper: float, epsilon: float | None) -> None:
        self.label = PricedLabels(K, lower=lower, upper=upper, epsilon=epsilon)

    def __call__(self, scores: torch.Tensor) -> torch.Tensor:
        """Return targets (n, k)."""
        found = self.label(scores)
        return found if found.ndim == 2 else one_hot(found, K)


def view(images: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Draw a view of each 8 x 8 image: moved by up to a pixel, with noise."""
    dy, dx = torch.randint(-1, 2, (2,), generator=generator).tolist()
    moved = torch.roll(images, (dy, dx), dims=(1, 2))
    return moved + 0.15 * torch.randn(images.shape, generator=generator)


def train(targets_of: Targets, *, epochs: int, seed: int = 0) -> Run:
    """Train for some epochs with the targets of one rule."""
    generator = torch.Generator().manual_seed(seed)
    images, classes = unequal_digits()
    torch.manual_seed(seed)
    encoder = torch.nn.Sequential(
        torch.nn.Flatten(), torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 32)
    )
    prototypes = torch.nn.Parameter(torch.randn(K, 32))
    optimizer = torch.optim.Adam([*encoder.parameters(), prototypes], lr=2e-3)
    sizes = []

    def scores_of(x: torch.Tensor) -> torch.Tensor:
        return normalize(encoder(x), dim=1) @ normalize(prototypes, dim=1).T

    for _ in range(epochs):
        counts = np.zeros(K)
        for rows in torch.randperm(len(images), generator=generator).split(64):
            one, two = (scores_of(view(images[rows], generator)) for _ in range(2))
            q_one, q_two = (targets_of(s.detach()).to(s.dtype) for s in (one, two))
            loss = cross_entropy(one / 0.1, q_two) + cross_entropy(two / 0.1, q_one)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            counts += np.bincount(q_one.argmax(dim=1), minlength=K)
        sizes.append(counts * K / counts.sum())
    with torch.no_grad():
        scores = scores_of(images)
        if isinstance(targets_of, ByPrices):  # prices are part of what was learned
            scores = scores + targets_of.label.prices
        found = scores.argmax(dim=1).numpy()
    return Run(np.stack(sizes), clustering_scores(found, classes).nmi)


def draw(runs: dict[str, Run], path: Path) -> None:
    """Draw the sizes that targets had, epoch by epoch."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 3.0), layout="constrained")
    for axes, (name, run) in zip(
        figure.subplots(1, len(runs), sharey=True), runs.items(), strict=True
    ):
        axes.plot(np.arange(1, len(run.sizes) + 1), run.sizes, linewidth=1)
        axes.set(xlabel="epoch", title=f"{name}: NMI {run.nmi:.3f}", ylim=(0, None))
        axes.title.set_fontsize("small")
    figure.axes[0].set_ylabel("size of a prototype, n / k")
    figure.savefig(path, dpi=120)


def main(folder: Path, *, small: bool = False) -> dict[str, Run]:
    """Write ``swav_targets.png``; returns the runs."""
    epochs = 3 if small else 40
    rules: dict[str, Targets] = {
        "Sinkhorn": by_sinkhorn,
        "prices, soft at 0.05": ByPrices(0.5, 1.5, 0.05),
        "prices, soft at 0.02": ByPrices(1.0, 1.0, 0.02),
        "prices, hard": ByPrices(0.5, 1.5, None),
    }
    runs = {name: train(rule, epochs=epochs) for name, rule in rules.items()}
    draw(runs, folder / "swav_targets.png")
    return runs


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    for name, run in main(parser.parse_args().folder).items():
        last = run.sizes[-5:].mean(axis=0)
        print(f"{name}: sizes {last.min():.2f} to {last.max():.2f}, NMI {run.nmi:.3f}")
