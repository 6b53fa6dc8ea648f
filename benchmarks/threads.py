"""Measure what threads save in the exact and the near-optimal assignment, from features.

Rows, centers and bounds are those of `assignment.py`. The runs on one thread and on several
alternate in one process. On a machine that does other things, wall time says little: so the table
also has the CPU time on the longest path, that of the caller's thread plus an equal share of what
the workers did. With a core for each thread, that is the time. Labels and prices of all runs are
compared bit by bit.

    python benchmarks/threads.py --n 100000 --k 1000 --threads 1 2
"""

from __future__ import annotations

import argparse
import platform
import time
from statistics import median

import numpy as np
from assignment import data

from dualclust import SizeBounds
from dualclust.algos.offline.assignment import assign_source
from dualclust.algos.scores.sources import feature_source, product_source
from dualclust.cluster.threads import products_on


def main() -> None:
    """Print the table as Markdown."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--n", type=int, default=100_000, help="number of samples")
    parser.add_argument("--k", type=int, default=1_000, help="number of clusters")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2], help="numbers to compare")
    parser.add_argument("--rounds", type=int, default=5, help="how often each runs")
    options = parser.parse_args()
    x, c = data(options.n, options.k)
    bounds = SizeBounds.from_ratios(options.k, n_samples=options.n, lower=0.9, upper=1.1)
    source = product_source(feature_source(x), c)
    print(f"n = {options.n:,}, k = {options.k:,}, d = 128, {options.rounds} rounds\n")
    print("| tol | threads | wall s, least | median | CPU s, least | longest path, s | saved |")
    print("|---|---|---|---|---|---|---|")
    for tol in (1e-4, 0.0):
        times: dict[int, list[tuple[float, float, float]]] = {t: [] for t in options.threads}
        bits = set()
        for turn in range(options.rounds + 1):
            for threads in options.threads:
                with products_on(threads):
                    start = time.perf_counter(), time.process_time(), time.thread_time()
                    found = assign_source(source, bounds, tol=tol)
                    end = time.perf_counter(), time.process_time(), time.thread_time()
                wall, cpu, own = (b - a for a, b in zip(start, end, strict=True))
                bits.add((found.labels.tobytes(), found.prices.tobytes(), found.objective))
                if turn:  # the first round compiles
                    times[threads].append((wall, cpu, own + (cpu - own) / threads))
        first = min(path for *_, path in times[options.threads[0]])
        for threads, rows in times.items():
            wall, cpu, path = (min(column) for column in zip(*rows, strict=True))
            middle = median(row[0] for row in rows)
            print(
                f"| {tol:g} | {threads} | {wall:.3f} | {middle:.3f} | {cpu:.3f} | {path:.3f} "
                f"| {first / path:.2f} x |"
            )
        assert len(bits) == 1, "labels or prices differ between numbers of threads"
    print(f"\n{platform.machine()}, numpy {np.__version__}; the same labels and prices in all runs")


if __name__ == "__main__":
    main()
