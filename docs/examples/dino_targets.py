"""A DINO-style loop: a teacher's targets by centering, and by `BalancedLabels` in its place.

The teacher is a running average of the student, and its labels of one view are what the student has
to predict from the other. DINO keeps clusters alive by subtracting a running mean of the teacher's
scores, and by a lower temperature. Here sizes inside bounds do that.

``python docs/examples/dino_targets.py`` prints both, in a minute.
"""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from loop_parts import Data, Loop, Run, Targets, compare, digits, show
from torch import Tensor
from torch.nn.functional import cross_entropy

from dualclust.torch import BalancedLabels

K = 10


class Centering:
    """DINO's rule: ``softmax((s - center) / 0.04)``, of which the center is a running mean."""

    def __init__(self) -> None:
        self.center = torch.zeros(K)

    def __call__(self, scores: Tensor) -> Tensor:
        """Return targets (n, k), then move the center."""
        targets = torch.softmax((scores - self.center) / 0.04, dim=1)
        self.center = 0.9 * self.center + 0.1 * scores.mean(dim=0)
        return targets


def train(targets_of: Targets, data: Data, *, epochs: int = 30, seed: int = 0) -> Run:
    """Train a student by the labels of its running average."""
    loop = Loop(data, seed, n_clusters=K)
    student, teacher = loop.encoder, copy.deepcopy(loop.encoder)
    for _ in range(epochs):
        for rows in loop.batches():
            one, two = loop.view(rows), loop.view(rows)
            with torch.no_grad():
                targets = targets_of(torch.cat([teacher(one), teacher(two)]))
            q_one, q_two = targets.split(len(rows))
            if len(rows) == loop.batch:
                loop.measure(targets)
            loss = cross_entropy(student(one) / 0.1, q_two)
            loop.step(loss + cross_entropy(student(two) / 0.1, q_one))
            with torch.no_grad():
                for old, new in zip(teacher.parameters(), student.parameters(), strict=True):
                    old.lerp_(new, 0.02)
    return loop.judged(teacher)


RULES: dict[str, Callable[[], Targets]] = {
    "centering": Centering,
    "soft, 0.9 to 1.1": lambda: BalancedLabels(K, lower=0.9, upper=1.1, epsilon=0.04),
    "hard, 0.9 to 1.1": lambda: BalancedLabels(K, kind="hard", lower=0.9, upper=1.1),
}


def main(*, small: bool = False) -> dict[str, list[Run]]:
    """Return the runs of each rule."""
    return compare(train, RULES, digits(), small=small)


if __name__ == "__main__":
    show(main())
