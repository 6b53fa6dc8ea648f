"""Runs as `read_run` returns them, with labels of the test's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from dualclust.train.comparison import StoredRun
from dualclust.train.comparison.stored import StoredLabels

K, N = 4, 400
TRUTH = np.arange(N) % K


def noisy(share: float, seed: int) -> np.ndarray[Any, Any]:
    """The truth, with this share of the samples in another cluster."""
    rng = np.random.default_rng([seed, round(1000 * share)])
    moved = rng.permutation(N)[: round(share * N)]
    labels = TRUTH.copy()
    labels[moved] = (labels[moved] + rng.integers(1, K, len(moved))) % K
    return labels


def run_of(method: str, seed: int, labels: Any, **changes: Any) -> StoredRun:
    """A run that has ended, or one that goes on where there are no labels."""
    found = None
    if labels is not None:
        labels = np.asarray(labels)
        own = {"ids": np.arange(len(labels)), "nearest": labels, "classes": None, "names": None}
        own |= {name: changes.pop(name) for name in list(own) if name in changes}
        found = StoredLabels(labels=labels, **own)
    plain = StoredRun(
        name=f"{method}-seed{seed}",
        folder=Path("runs") / f"{method}-seed{seed}",
        method=method,
        baseline=False,
        seed=seed,
        n_clusters=K,
        epochs=2,
        source="digits",
        split="auto",
        settings={"method": method, "seed": seed, "optim.lr": 0.1},
        records=({"epoch": 1, "loss": 2.0}, {"epoch": 2, "loss": 1.0, "churn": 0.25}),
        found=found,
        lower=None if found is None else np.full(K, 80),
        upper=None if found is None else np.full(K, 120),
        seconds=3.0,
    )
    return plain._replace(**changes)
