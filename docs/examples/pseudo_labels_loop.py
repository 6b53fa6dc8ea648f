"""Pseudo-labels in a plain PyTorch loop: with prices, and without.

A small network learns to tell handwritten digits apart from its own labels: a view of an image must
get the label that another view got. With labels by `argmax` all images end in few clusters. With
prices (`assign_batch`: a fixed number of operations, nothing read back) they do not. The loop is
yours: no class of this library appears in it. Labels and classes meet only in the last line.

``python docs/examples/pseudo_labels_loop.py docs/images`` draws the figure, in half a minute.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_digits

import dualclust as dc
from dualclust.algos.clustering import clustering_scores

K = 10


class Run(NamedTuple):
    """A run: the sizes of the clusters after each epoch, and the accuracy at the end."""

    sizes: NDArray[np.int64]
    accuracy: float


def view(images: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Draw a view of each 8 x 8 image: moved by up to a pixel, with noise."""
    dy, dx = torch.randint(-1, 2, (2,), generator=generator).tolist()
    moved = torch.roll(images, (dy, dx), dims=(1, 2))
    return moved + 0.15 * torch.randn(images.shape, generator=generator)


def train(*, prices: bool, epochs: int, seed: int = 0) -> Run:
    """Train for some epochs; with prices labels keep sizes near 0.9 to 1.1 n / k."""
    generator = torch.Generator().manual_seed(seed)
    digits = load_digits()
    images = torch.as_tensor(digits.images, dtype=torch.float32) / 16.0
    n = len(images)
    torch.manual_seed(seed)
    encoder = torch.nn.Sequential(
        torch.nn.Flatten(), torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 32)
    )
    centers = torch.nn.Parameter(torch.randn(K, 32))
    optimizer = torch.optim.Adam([*encoder.parameters(), centers], lr=2e-3)
    bounds = dc.SizeBounds.from_ratios(K, n_samples=n, lower=0.9, upper=1.1, xp=torch)
    duals = dc.init_duals((K,), xp=torch)
    sizes = []

    def scores_of(x: torch.Tensor) -> torch.Tensor:
        features = torch.nn.functional.normalize(encoder(x), dim=1)
        return features @ torch.nn.functional.normalize(centers, dim=1).T

    for epoch in range(epochs):
        rule = dc.DualRule.of(bounds, dc.measured_steps(bounds, epoch=epoch, kappa_floor=0.5))
        counts = torch.zeros(K, dtype=torch.int64)
        for rows in torch.randperm(n, generator=generator).split(128):
            with torch.no_grad():
                scores = scores_of(view(images[rows], generator))
                if prices:
                    labels, duals = dc.assign_batch(scores, duals, rule)
                else:
                    labels = scores.argmax(dim=1)
                counts += torch.bincount(labels, minlength=K)
            loss = torch.nn.functional.cross_entropy(
                scores_of(view(images[rows], generator)) / 0.1, labels
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        sizes.append(counts.numpy())
    with torch.no_grad():
        scores = scores_of(images).double()
    found = dc.assign_offline(scores, bounds) if prices else scores.argmax(dim=1)
    labels = np.asarray(found.labels if prices else found)
    return Run(np.stack(sizes), clustering_scores(labels, digits.target).acc)


def draw(runs: dict[str, Run], path: Path) -> None:
    """Draw the sizes of the clusters, epoch by epoch."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 3.2), layout="constrained")
    for axes, (name, run) in zip(figure.subplots(1, 2, sharey=True), runs.items(), strict=True):
        axes.plot(np.arange(1, len(run.sizes) + 1), run.sizes, linewidth=1)
        axes.set(xlabel="epoch", title=f"{name}: accuracy {run.accuracy:.3f}", ylim=(0, None))
        axes.set_ylabel("samples of each cluster")
    figure.savefig(path, dpi=120)


def main(folder: Path, *, small: bool = False) -> dict[str, Run]:
    """Write ``pseudo_labels_loop.png``; returns both runs."""
    epochs = 3 if small else 60
    runs = {
        "argmax": train(prices=False, epochs=epochs),
        "assign_batch": train(prices=True, epochs=epochs),
    }
    draw(runs, folder / "pseudo_labels_loop.png")
    return runs


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    for name, run in main(parser.parse_args().folder).items():
        print(f"{name}: {run.sizes[-1].min()} to {run.sizes[-1].max()}, {run.accuracy:.3f}")
