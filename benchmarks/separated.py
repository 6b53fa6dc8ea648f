"""Time the assignment on mixtures whose components lie apart, beside an argmax without bounds.

Rows are unit features around as many centers as there are clusters, d = 64, and members are drawn
alike for all: sizes scatter by their root. At a spread of 0.3 a row lies near its center, and at
1.5 most rows have several that fit. With ``--crowded`` there are a quarter as many directions, of
sizes as 1, 1/2, 1/3 ..., and the centers are some of the rows, as k-means draws them: the largest
directions have many centers and more rows than these may hold. To a proven gap of 1e-4 and to the
optimum, from features and centers, on one core; least of the rounds.

    python benchmarks/separated.py --n 100000 --k 1000
    python benchmarks/separated.py --n 50000 --k 500 --ratio 1.0
    python benchmarks/separated.py --n 100000 --k 1000 --crowded --spread 0.5
"""

from __future__ import annotations

import argparse
import platform
import time
from typing import Any

import numpy as np
from assignment import Features, argmax

from dualclust import SizeBounds
from dualclust.algos.offline.assignment import assign_source
from dualclust.algos.scores.sources import feature_source, product_source

TOLERANCES = 1e-4, 0.0


def unit(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Rows of length 1."""
    return np.asarray(x / np.linalg.norm(x, axis=1, keepdims=True))


def mixture(n: int, k: int, spread: float, seed: int = 0) -> tuple[Features, Features]:
    """Return unit features around unit centers, `spread` times a unit vector away, and these."""
    rng = np.random.default_rng(seed)
    centers = unit(rng.standard_normal((k, 64)))
    noise = spread * unit(rng.standard_normal((n, 64)))
    rows = unit(centers[rng.integers(k, size=n)] + noise)
    return rows.astype(np.float32), centers.astype(np.float32)


def crowded(n: int, k: int, spread: float, seed: int = 0) -> tuple[Features, Features]:
    """Return unit features around k / 4 directions of unequal sizes, and k of them as centers."""
    rng = np.random.default_rng(seed)
    directions = unit(rng.standard_normal((max(k // 4, 1), 64)))
    sizes = 1.0 / np.arange(1, len(directions) + 1)
    members = rng.choice(len(directions), size=n, p=sizes / sizes.sum())
    rows = unit(directions[members] + spread * unit(rng.standard_normal((n, 64))))
    rows = rows.astype(np.float32)
    return rows, rows[rng.choice(n, k, replace=False)]


def main() -> None:
    """Print the table as Markdown."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--n", type=int, default=100_000, help="number of samples")
    parser.add_argument("--k", type=int, default=1_000, help="number of clusters and components")
    parser.add_argument("--ratio", type=float, default=0.9, help="least size, in shares of n / k")
    parser.add_argument(
        "--spread", type=float, nargs="+", default=[0.3, 0.6, 1.0, 1.5], help="of the components"
    )
    parser.add_argument("--crowded", action="store_true", help="few directions with many centers")
    parser.add_argument("--seed", type=int, default=0, help="of the data")
    parser.add_argument("--rounds", type=int, default=3, help="how often each runs")
    options = parser.parse_args()
    n, k, lower, upper = options.n, options.k, options.ratio, 2.0 - options.ratio
    print(f"n = {n:,}, k = {k:,}, d = 64, sizes {lower:g} to {upper:g} n / k\n")
    print("| spread | argmax, s | outside without bounds | tol | s | x argmax | proven gap |")
    print("|---|---|---|---|---|---|---|")
    bounds = SizeBounds.from_ratios(k, n_samples=n, lower=lower, upper=upper)
    warm = mixture(20_000, 40, 0.6)
    few = SizeBounds.from_ratios(40, n_samples=20_000, lower=0.9)
    assign_source(product_source(feature_source(warm[0]), warm[1]), few)  # compiles
    for spread in options.spread:
        x, c = (crowded if options.crowded else mixture)(n, k, spread, options.seed)
        source, base = product_source(feature_source(x), c), []
        for _ in range(options.rounds):
            start = time.perf_counter()
            counts = np.bincount(argmax(x, c), minlength=k)
            base.append(time.perf_counter() - start)
        low, high = (np.asarray(v) for v in (bounds.lower, bounds.upper))
        outside = int(np.maximum(low - counts, counts - high).clip(0).sum())
        for tol in TOLERANCES:
            seconds = []
            for _ in range(options.rounds):
                start = time.perf_counter()
                found = assign_source(source, bounds, tol=tol)
                seconds.append(time.perf_counter() - start)
            print(
                f"| {spread:g} | {min(base):.3f} | {outside:,} | {tol:g} | {min(seconds):.2f}"
                f" | {min(seconds) / min(base):.1f} | {found.gap:.1e} |",
                flush=True,
            )
    print(f"\n{platform.machine()}, numpy {np.__version__}")


if __name__ == "__main__":
    main()
