"""A DINO-style loop: a teacher's targets by centering, and by `BalancedLabels` in its place.

The teacher is a running average of the student, and its labels of one view are what the student has
to predict from the other. DINO keeps clusters alive by subtracting a running mean of the teacher's
scores, and by a lower temperature. Here sizes inside bounds do that.

``python docs/examples/dino_targets.py`` prints both, in a minute.
"""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np
import torch
from loop_parts import Encoder, Run, Sizes, Targets, digits, judged, view
from numpy.typing import NDArray
from torch.nn.functional import cross_entropy

from dualclust.torch import BalancedLabels

K = 10


class Centering:
    """DINO's rule: ``softmax((s - center) / 0.04)``, of which the center is a running mean."""

    def __init__(self) -> None:
        self.center = torch.zeros(K)

    def __call__(self, scores: torch.Tensor) -> torch.Tensor:
        """Return targets (n, k), then move the center."""
        targets = torch.softmax((scores - self.center) / 0.04, dim=1)
        self.center = 0.9 * self.center + 0.1 * scores.mean(dim=0)
        return targets


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
    """Train a student by the labels of its running average."""
    generator = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    student = Encoder(images.shape[1], n_clusters)
    teacher = copy.deepcopy(student)
    optimizer = torch.optim.Adam(student.parameters(), lr=2e-3)
    for _ in range(epochs):
        sizes = Sizes()
        for rows in torch.randperm(len(images), generator=generator).split(batch):
            one, two = (view(images[rows], generator) for _ in range(2))
            with torch.no_grad():
                targets = targets_of(torch.cat([teacher(one), teacher(two)]))
            q_one, q_two = targets.split(len(rows))
            loss = cross_entropy(student(one) / 0.1, q_two)
            loss = loss + cross_entropy(student(two) / 0.1, q_one)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            with torch.no_grad():
                for old, new in zip(teacher.parameters(), student.parameters(), strict=True):
                    old.lerp_(new, 0.02)
            if len(rows) == batch:
                sizes.add(targets, n_clusters)
    return judged(teacher, images, classes, sizes)


RULES: dict[str, Callable[[], Targets]] = {
    "centering": Centering,
    "soft, 0.9 to 1.1": lambda: BalancedLabels(K, lower=0.9, upper=1.1, epsilon=0.04),
    "hard, 0.9 to 1.1": lambda: BalancedLabels(K, kind="hard", lower=0.9, upper=1.1),
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
