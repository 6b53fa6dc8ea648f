"""What k-means++ costs beside one pass that finds the nearest centers, and what its sample costs.

    python -m benchmarks.starts            CPU time at (200k, 384, 500) and (1M, 64, 100)
    python -m benchmarks.starts --quality  inertia after k-means inside bounds, five seeds

CPU seconds of one process; each round times all of its kind after the other, and the ratio is that
of a round. Quality is on heavy tails (`families.heavy_tails`), with bounds of 0.75 and 1.5.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

import dualclust as dc
from dualclust.algos.clustering.start import greedy_candidates
from dualclust.algos.scores import feature_source, product_source
from dualclust.cluster.distances import nearest_centers

from .families import heavy_tails

SIZES = ((200_000, 384, 500), (1_000_000, 64, 100))
QUALITY = ((20_000, 100), (50_000, 100))
SEEDS, ROUNDS = 5, 3


def cpu(work: Callable[[], Any]) -> float:
    """CPU seconds of a call."""
    begun = time.process_time()
    work()
    return time.process_time() - begun


def cost(n: int, d: int, k: int) -> None:
    """Time one pass, and k-means++ with one candidate for each center and with several."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((n, d), dtype=np.float32)
    centers, tries = x[:k].copy(), greedy_candidates(k)
    half = -0.5 * (centers * centers).sum(axis=1)
    scores = product_source(feature_source(x), centers, offsets=half)
    one, several = rng.random(k), rng.random((k, tries))
    for _ in range(ROUNDS):
        a = cpu(lambda: nearest_centers(scores))
        p, q = (cpu(lambda u=u: dc.kmeans_plus_plus(x, u)) for u in (one, several))
        print(
            f"| {n:,} x {d}, k = {k} | {a:.2f} | {p:.2f} | {p / a:.2f} | {q:.2f} | {q / a:.2f} |",
            flush=True,
        )


def quality(n: int, k: int) -> None:
    """Cluster inside bounds from a start of the sample, and from one of all rows."""
    x = heavy_tails(n, 7 * k // 5, 0)
    bounds = dc.SizeBounds.from_ratios(k, n_samples=n, lower=0.75, upper=1.5)
    for seed in range(SEEDS):
        draws = np.random.default_rng(seed).random((k, greedy_candidates(k)))
        inertia, seconds = [], []
        for n_drawn in (None, n):
            begun = time.process_time()
            start = dc.kmeans_plus_plus(x, draws, n_drawn=n_drawn)
            seconds.append(time.process_time() - begun)
            found = dc.constrained_kmeans(x, bounds, start, metric="euclidean", gap=1e-3)
            away = x - found.centers[found.labels]
            inertia.append(float((away.astype(np.float64) ** 2).sum()))
        some, whole = inertia
        print(
            f"| {n:,} x 64, k = {k} | {seed} | {some:.5e} | {whole:.5e} | {some / whole - 1:+.1e} "
            f"| {seconds[0]:.2f} | {seconds[1]:.2f} |",
            flush=True,
        )


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quality", action="store_true")
    if parser.parse_args().quality:
        print("| rows | seed | sample | all rows | sample / all - 1 | CPU s, sample | CPU s, all |")
        print("|---|---|---|---|---|---|---|")
        for size in QUALITY:
            quality(*size)
        return
    print("| rows | nearest centers, CPU s | one candidate | x | several candidates | x |")
    print("|---|---|---|---|---|---|")
    for size in SIZES:
        cost(*size)


if __name__ == "__main__":
    main()
