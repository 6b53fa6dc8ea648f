"""A SeLa-style loop: labels of all samples now and then, and a classifier that learns them.

SeLa labels the whole data set by Sinkhorn with equal columns, and trains on the largest entries for
some epochs. The counts of those are not equal. `BalancedLabels` has them inside bounds.

``python docs/examples/sela_labels.py`` prints both, in a minute.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from loop_parts import Data, Loop, Run, Targets, compare, digits, show
from torch import Tensor

from dualclust.algos.baselines import SinkhornOptions, sinkhorn
from dualclust.torch import BalancedLabels

K = 10


def by_sinkhorn(scores: Tensor) -> Tensor:
    """Return SeLa's labels: the largest entries of the converged plan."""
    return sinkhorn(scores, options=SinkhornOptions(epsilon=0.04, tol=1e-3)).labels


def train(labels_of: Targets, data: Data, *, epochs: int = 30, seed: int = 0) -> Run:
    """Train by labels of all samples, which are renewed with each epoch."""
    loop = Loop(data, seed, n_clusters=K)
    for _ in range(epochs):
        with torch.no_grad():
            labels = labels_of(loop.encoder(loop.view()))
        loop.learn_labels(labels)
    return loop.judged()


RULES: dict[str, Callable[[], Targets]] = {
    "Sinkhorn, converged": lambda: by_sinkhorn,
    "hard, 0.9 to 1.1": lambda: BalancedLabels(K, kind="hard", lower=0.9, upper=1.1, n_iter=20),
    "exact, 0.9 to 1.1": lambda: BalancedLabels(K, kind="exact", lower=0.9, upper=1.1),
}


def main(*, small: bool = False) -> dict[str, list[Run]]:
    """Return the runs of each rule."""
    return compare(train, RULES, digits(), small=small)


if __name__ == "__main__":
    show(main())
