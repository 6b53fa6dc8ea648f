"""Rules that make targets, in four training loops: what clusters and features are worth.

The loops are those of ``docs/examples``: SwAV-, DINO-, SeLa- and DeepCluster-style. Runs differ in
the rule alone. Digits and MNIST, even and long-tailed classes (10 to 1). On long-tailed classes the
bounds are 0.2 to 2.75 of n / k, which the true sizes, 0.24 to 2.45, keep.

    python benchmarks/targets.py --loop swav               # half an hour on one core
    python benchmarks/targets.py --loop swav --tail
    DUALCLUST_MNIST=mnist.npz python benchmarks/targets.py --loop swav --data mnist --epochs 6

MNIST is a file of NumPy with ``x_train``, ``y_train`` or ``images``, ``labels``.
"""

from __future__ import annotations

import argparse
import importlib
import os
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import one_hot

import dualclust as dc
from dualclust.algos.baselines import SWAV, SinkhornOptions, sinkhorn, soft_plan
from dualclust.torch import BalancedLabels, PricedLabels

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "docs" / "examples"))

LOOPS = {
    "swav": "swav_targets",
    "dino": "dino_targets",
    "sela": "sela_labels",
    "deepcluster": "deepcluster_labels",
}
K, EPSILON = 10, 0.05
Rule = Callable[[Tensor], Tensor]


def by_sinkhorn(options: SinkhornOptions) -> Rule:
    """Return a rule that begins anew with each batch."""

    def label(scores: Tensor) -> Tensor:
        found = sinkhorn(scores, options=options)
        return soft_plan(scores, found.prices, epsilon=options.epsilon)

    return label


def by_centering() -> Rule:
    """Return DINO's rule."""
    rule: Rule = importlib.import_module("dino_targets").Centering()
    return rule


def rules(low: float, high: float) -> dict[str, Callable[[], Rule]]:
    """Return the rules by name, each as a maker, since some keep a state."""
    bounds: dict[str, Any] = {"lower": low, "upper": high}
    equal: dict[str, Any] = {"lower": 1.0, "upper": 1.0}
    converged = SinkhornOptions(epsilon=EPSILON, tol=1e-4)
    span = f"{low:g} to {high:g}"
    return {
        "Sinkhorn, 3 rounds": lambda: by_sinkhorn(SWAV),
        "Sinkhorn, converged": lambda: by_sinkhorn(converged),
        "centering": by_centering,
        f"PricedLabels soft, {span}": lambda: PricedLabels(K, epsilon=EPSILON, **bounds),
        f"PricedLabels hard, {span}": lambda: PricedLabels(K, **bounds),
        "BalancedLabels soft, equal": lambda: BalancedLabels(K, **equal),
        f"BalancedLabels soft, {span}": lambda: BalancedLabels(K, **bounds),
        f"BalancedLabels hard, {span}": lambda: BalancedLabels(K, kind="hard", **bounds),
        f"BalancedLabels exact, {span}": lambda: BalancedLabels(K, kind="exact", **bounds),
    }


class Timed:
    """A rule whose calls are timed; hard labels become rows of a one, so that loops mix alike."""

    def __init__(self, rule: Rule) -> None:
        self.rule, self.seconds, self.calls = rule, 0.0, 0

    def __call__(self, scores: Tensor) -> Tensor:
        """Return targets (n, k)."""
        start = time.perf_counter()
        found = self.rule(scores)
        self.seconds, self.calls = self.seconds + time.perf_counter() - start, self.calls + 1
        return found.to(scores.dtype) if found.ndim == 2 else one_hot(found, K).to(scores.dtype)


def mnist(n: int, *, long_tailed: bool) -> tuple[Tensor, Any]:
    """Return n images of MNIST, or of as many classes with sizes that fall from 10 to 1."""
    path = os.environ.get("DUALCLUST_MNIST")
    if path is None:
        sys.exit("set DUALCLUST_MNIST to a file of NumPy with the images of MNIST")
    with np.load(path) as file:
        names = ("x_train", "y_train") if "x_train" in file else ("images", "labels")
        images, classes = (file[name] for name in names)
    images, classes = images.reshape(-1, 28, 28), classes.astype(np.int64)
    falling = 10.0 ** (-np.arange(10) / 9) if long_tailed else np.ones(10)
    most = np.round(falling / falling.sum() * n).astype(int)
    keep = np.concatenate([np.flatnonzero(classes == c)[: most[c]] for c in range(10)])
    return torch.as_tensor(images[keep], dtype=torch.float32) / 255.0, classes[keep]


def main() -> None:
    """Print a table, row by row."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--loop", choices=sorted(LOOPS), default="swav")
    parser.add_argument("--data", choices=["digits", "mnist"], default="digits")
    parser.add_argument("--tail", action="store_true", help="classes from 10 to 1")
    parser.add_argument("--n", type=int, default=10_000, help="images of MNIST")
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", nargs="+", help="rules whose name has one of these words")
    options = parser.parse_args()
    loop = importlib.import_module(LOOPS[options.loop])
    parts = importlib.import_module("loop_parts")
    if options.data == "mnist":
        images, classes = mnist(options.n, long_tailed=options.tail)
    else:
        images, classes = parts.digits(long_tailed=options.tail)
    print(f"{platform.machine()}, torch {torch.__version__}, dualclust {dc.__version__}")
    kind = "long-tailed" if options.tail else "even"
    print(f"\n{options.loop}, {options.data}, {kind}, {len(images):,} images, ", end="")
    print(f"{options.epochs} epochs, {options.seeds} seeds\n")
    print("| targets | NMI | seeds | probe | sizes in a batch | ms |\n|---|---|---|---|---|---|")
    for name, make in rules(*((0.2, 2.75) if options.tail else (0.9, 1.1))).items():
        if options.only and not any(word in name for word in options.only):
            continue
        runs, timed = [], [Timed(make()) for _ in range(options.seeds)]
        for seed, rule in enumerate(timed):
            runs.append(loop.train(rule, images, classes, epochs=options.epochs, seed=seed))
        nmi = np.asarray([run.nmi for run in runs])
        error = nmi.std(ddof=1) / np.sqrt(len(nmi)) if len(nmi) > 1 else np.nan
        probe = np.mean([run.accuracy for run in runs])
        low, high = min(run.sizes[0] for run in runs), max(run.sizes[1] for run in runs)
        each = ", ".join(f"{value:.2f}" for value in nmi)
        spent = 1e3 * sum(r.seconds for r in timed) / sum(r.calls for r in timed)
        print(f"| {name} | {nmi.mean():.3f} +- {error:.3f} | {each} | {probe:.3f} ", end="")
        print(f"| {low:.2f} to {high:.2f} | {spent:.2f} |", flush=True)


if __name__ == "__main__":
    main()
