"""A SwAV-style loop with Sinkhorn's targets, and with `BalancedLabels` in their place.

Two views of each image; the targets of one view are what the other has to predict, over prototypes.
The runs differ in one line, that which makes targets: Sinkhorn with three rounds at a temperature
of 0.05, as SwAV has it, or soft or hard labels inside bounds. Digits are of unequal number, 178
zeros falling to 18 nines, and the bounds of the hard labels allow that.

``python docs/examples/swav_targets.py docs/images`` draws the figure, in a few minutes.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from loop_parts import Encoder, Run, Sizes, Targets, digits, judged, view
from numpy.typing import NDArray
from torch.nn.functional import cross_entropy

from dualclust.algos.baselines import SWAV, sinkhorn, soft_plan
from dualclust.torch import BalancedLabels

K = 10


def by_sinkhorn(scores: torch.Tensor) -> torch.Tensor:
    """Return SwAV's targets of a batch, of which nothing is kept."""
    return soft_plan(scores, sinkhorn(scores, options=SWAV).prices, epsilon=0.05)


def train(
    targets_of: Targets,
    images: torch.Tensor,
    classes: NDArray[np.int64],
    *,
    epochs: int = 30,
    seed: int = 0,
    batch: int = 128,
    n_clusters: int = K,
) -> Run:
    """Train an encoder and its prototypes by swapped prediction."""
    generator = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    encoder = Encoder(images.shape[1], n_clusters)
    optimizer = torch.optim.Adam(encoder.parameters(), lr=2e-3)
    for _ in range(epochs):
        sizes = Sizes()
        for rows in torch.randperm(len(images), generator=generator).split(batch):
            one, two = (encoder(view(images[rows], generator)) for _ in range(2))
            q_one, q_two = (targets_of(scores.detach()) for scores in (one, two))
            loss = cross_entropy(one / 0.1, q_two) + cross_entropy(two / 0.1, q_one)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if len(rows) == batch:
                sizes.add(q_one, n_clusters)
    return judged(encoder, images, classes, sizes)


RULES: dict[str, Callable[[], Targets]] = {
    "Sinkhorn, 3 rounds": lambda: by_sinkhorn,
    "soft, equal": lambda: BalancedLabels(K, lower=1.0, upper=1.0),
    "hard, 0.2 to 2.75": lambda: BalancedLabels(K, kind="hard", lower=0.2, upper=2.75),
}


def draw(runs: dict[str, list[Run]], path: Path) -> None:
    """Draw the NMI of each run, and the sizes of its batches."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 2.6), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    for row, found in enumerate(runs.values()):
        left.plot([run.nmi for run in found], [row] * len(found), "o", color="C0", alpha=0.6)
        ends = [min(run.sizes[0] for run in found), max(run.sizes[1] for run in found)]
        right.plot(ends, [row, row], color="C1", linewidth=4)
    left.set_yticks(range(len(runs)), list(runs))
    left.invert_yaxis()
    left.set_xlabel("NMI of each seed")
    right.set_xlabel("sizes in the batches of the last epoch, n / k")
    figure.savefig(path, dpi=120)


def main(folder: Path, *, small: bool = False) -> dict[str, list[Run]]:
    """Write ``swav_targets.png``; returns the runs."""
    images, classes = digits(long_tailed=True)
    epochs, seeds = (2, 1) if small else (30, 5)
    runs = {
        name: [train(rule(), images, classes, epochs=epochs, seed=s) for s in range(seeds)]
        for name, rule in RULES.items()
    }
    draw(runs, folder / "swav_targets.png")
    return runs


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    for name, runs in main(parser.parse_args().folder).items():
        nmi = np.asarray([run.nmi for run in runs])
        low, high = min(run.sizes[0] for run in runs), max(run.sizes[1] for run in runs)
        print(f"{name}: NMI {nmi.mean():.3f} +- {nmi.std():.3f}, sizes {low:.2f} to {high:.2f}")
