"""Rules that make targets, in four training loops: what clusters and features are worth.

The loops are those of ``docs/examples``: SwAV-, DINO-, SeLa- and DeepCluster-style. Runs differ in
the rule alone. Digits, MNIST and CIFAR-10, even and long-tailed classes (10 to 1). On long-tailed
classes the bounds are 0.2 to 2.75 of n / k, which the true sizes, 0.24 to 2.45, keep.

    python benchmarks/targets.py --loop swav               # ten minutes on one core
    python benchmarks/targets.py --loop swav --tail
    python benchmarks/targets.py --loop swav --data mnist --mnist mnist.npz --n 2000
    python benchmarks/targets.py --loop swav --data cifar10 --cifar10 cifar10_jpeg.npz --n 2000
    python benchmarks/targets.py --cost 4096 3000          # the time of a step, in a minute

Files may be named by ``DUALCLUST_MNIST`` and ``DUALCLUST_CIFAR10``, too.
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
from torch.nn.functional import normalize, one_hot

import dualclust as dc
from dualclust.algos.baselines import SWAV, SinkhornOptions, sinkhorn, soft_plan
from dualclust.torch import BalancedLabels, PricedLabels

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "docs" / "examples")]

LOOPS = {
    "swav": "swav_targets",
    "dino": "dino_targets",
    "sela": "sela_labels",
    "deepcluster": "deepcluster_labels",
}
K, EPSILON = 10, 0.05
COLD = SinkhornOptions(epsilon=0.02, max_iter=3, tol=0.0, columns_first=True)
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


def by_nearest(scores: Tensor) -> Tensor:
    """Return the cluster of the largest score, as a loop without any rule has it."""
    return scores.argmax(dim=1)


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
        "largest score": lambda: by_nearest,
        f"PricedLabels soft, {span}": lambda: PricedLabels(K, epsilon=EPSILON, **bounds),
        f"PricedLabels hard, {span}": lambda: PricedLabels(K, **bounds),
        "BalancedLabels soft, equal": lambda: BalancedLabels(K, epsilon=EPSILON, **equal),
        "Sinkhorn, 3 rounds, 0.02": lambda: by_sinkhorn(COLD),
        "BalancedLabels soft, equal, 0.02": lambda: BalancedLabels(K, epsilon=0.02, **equal),
        f"BalancedLabels soft, {span}, 0.02": lambda: BalancedLabels(K, epsilon=0.02, **bounds),
        f"BalancedLabels soft, {span}": lambda: BalancedLabels(K, epsilon=EPSILON, **bounds),
        f"BalancedLabels hard, {span}": lambda: BalancedLabels(
            K, kind="hard", epsilon=EPSILON, **bounds
        ),
        f"BalancedLabels hard, {span}, 0.02": lambda: BalancedLabels(
            K, kind="hard", epsilon=0.02, **bounds
        ),
        "BalancedLabels hard, equal": lambda: BalancedLabels(
            K, kind="hard", epsilon=EPSILON, **equal
        ),
        f"BalancedLabels exact, {span}": lambda: BalancedLabels(K, kind="exact", **bounds),
    }


class Timed:
    """A rule whose calls are timed; hard labels become rows of a one, so that loops mix alike."""

    def __init__(self, rule: Rule) -> None:
        self.rule, self.seconds, self.calls = rule, 0.0, 0

    def __call__(self, scores: Tensor) -> Tensor:
        """Return targets (n, k)."""
        start = time.process_time()
        found = self.rule(scores)
        self.seconds, self.calls = self.seconds + time.process_time() - start, self.calls + 1
        return found.to(scores.dtype) if found.ndim == 2 else one_hot(found, K).to(scores.dtype)


def images_of(name: str, options: argparse.Namespace) -> Any:
    """Return images and classes: digits, or n of a stored set, of falling sizes with a tail."""
    parts = importlib.import_module("loop_parts")
    if name == "digits":
        return parts.digits(long_tailed=options.tail)
    file = getattr(options, name)
    if file is None:
        sys.exit(f"give --{name} PATH, or set DUALCLUST_{name.upper()}")
    found = getattr(importlib.import_module("benchmarks.image_sets"), name)(4 * options.n, file)
    falling = 10.0 ** (-np.arange(10) / 9) if options.tail else np.ones(10)
    most = np.round(falling / falling.sum() * options.n).astype(int)
    keep = np.concatenate([np.flatnonzero(found.labels == c)[: most[c]] for c in range(10)])
    images = torch.as_tensor(found.images[keep], dtype=torch.float32) / 255.0
    return parts.Data(
        images.permute(0, 3, 1, 2) if images.ndim == 4 else images, found.labels[keep]
    )


def published(scores: Tensor) -> Tensor:
    """Return SwAV's targets by what its paper describes: three rounds over a matrix in place."""
    plan = torch.exp(scores / EPSILON).T
    plan /= plan.sum()
    for _ in range(3):
        for axis in (1, 0):
            plan /= plan.sum(dim=axis, keepdim=True)
            plan /= plan.shape[1 - axis]
    plan *= plan.shape[1]
    return plan.T


def print_cost(n: int, k: int, repeats: int) -> None:
    """Print the time of a step of each module on cosines of n rows and k prototypes."""
    draws = torch.Generator().manual_seed(0)
    rows, prototypes = (torch.randn(m, 128, generator=draws) for m in (n, k))
    scores = normalize(rows, dim=1) @ normalize(prototypes, dim=1).T
    bounds: dict[str, Any] = {"lower": 0.9, "upper": 1.1}
    steps: dict[str, Rule] = {
        "three rounds in place": published,
        "soft": BalancedLabels(k, **bounds),
        "soft, 10 steps": BalancedLabels(k, n_iter=10, **bounds),
        "hard": BalancedLabels(k, kind="hard", **bounds),
        "PricedLabels soft": PricedLabels(k, epsilon=EPSILON, **bounds),
        "sinkhorn, 3 rounds": by_sinkhorn(SWAV),
    }
    print(f"\n| ({n:,}, {k:,}) | ms | of three rounds |\n|---|---|---|")
    first = 0.0
    for name, step in steps.items():
        spent = []
        for _ in range(repeats + 1):
            start = time.process_time()
            step(scores)
            spent.append(1e3 * (time.process_time() - start))
        middle = float(np.median(spent[1:]))
        first = first or middle
        print(f"| {name} | {middle:.2f} | {middle / first:.2f} |", flush=True)


def print_table(options: argparse.Namespace) -> None:
    """Print a row for each rule."""
    loop = importlib.import_module(LOOPS[options.loop])
    data = images_of(options.data, options)
    kind = "long-tailed" if options.tail else "even"
    print(f"\n{options.loop}, {options.data}, {kind}, {len(data.images):,} images, ", end="")
    print(f"{options.epochs} epochs, {options.seeds} seeds\n")
    print("| targets | NMI | seeds | probe | sizes in a batch | ms |\n|---|---|---|---|---|---|")
    for name, make in rules(*((0.2, 2.75) if options.tail else (0.9, 1.1))).items():
        if options.only and not any(word in name for word in options.only):
            continue
        runs, timed = [], [Timed(make()) for _ in range(options.seeds)]
        for seed, rule in enumerate(timed):
            runs.append(loop.train(rule, data, epochs=options.epochs, seed=seed))
        nmi = np.asarray([run.nmi for run in runs])
        error = nmi.std(ddof=1) / np.sqrt(len(nmi)) if len(nmi) > 1 else np.nan
        probe = np.mean([run.accuracy for run in runs])
        low, high = min(run.sizes[0] for run in runs), max(run.sizes[1] for run in runs)
        each = ", ".join(f"{value:.2f}" for value in nmi)
        spent = 1e3 * sum(r.seconds for r in timed) / sum(r.calls for r in timed)
        print(f"| {name} | {nmi.mean():.3f} +- {error:.3f} | {each} | {probe:.3f} ", end="")
        print(f"| {low:.2f} to {high:.2f} | {spent:.2f} |", flush=True)


def main() -> None:
    """Print a table of a loop, or the cost of a step."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--loop", choices=sorted(LOOPS), default="swav")
    parser.add_argument("--data", choices=["digits", "mnist", "cifar10"], default="digits")
    parser.add_argument("--tail", action="store_true", help="classes from 10 to 1")
    parser.add_argument("--n", type=int, default=2000, help="images of a stored set")
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", nargs="+", help="rules whose name has one of these words")
    parser.add_argument("--cost", nargs=2, type=int, metavar=("N", "K"), help="time a step instead")
    parser.add_argument("--repeats", type=int, default=5, help="of a timed step")
    for name in ("mnist", "cifar10"):
        where = os.environ.get(f"DUALCLUST_{name.upper()}")
        path = Path(where) if where else None
        parser.add_argument(f"--{name}", type=Path, default=path, help="file of NumPy")
    options = parser.parse_args()
    print(f"{platform.machine()}, torch {torch.__version__}, dualclust {dc.__version__}")
    if options.cost:
        print_cost(*options.cost, options.repeats)
    else:
        print_table(options)


if __name__ == "__main__":
    main()
