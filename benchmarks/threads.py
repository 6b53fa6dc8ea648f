"""Measure what threads save in the exact and the near-optimal assignment, from features.

Rows, centers and bounds are those of `assignment.py`. The runs on one thread and on several
alternate in one process, and `times` is the least wall time of the first number of threads over
that of this one. The caller works beside the others, so that CPU time says nothing about who waits
for whom: measure on a machine with nothing else to do. Labels and prices of all runs are compared
bit by bit.

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
    print("| tol | threads | wall s, least | median | CPU s, least | times | of medians |")
    print("|---|---|---|---|---|---|---|")
    for tol in (1e-4, 0.0):
        times: dict[int, list[tuple[float, float]]] = {t: [] for t in options.threads}
        bits = set()
        for turn in range(options.rounds + 1):
            for threads in options.threads:
                with products_on(threads):
                    start = time.perf_counter(), time.process_time()
                    found = assign_source(source, bounds, tol=tol)
                    end = time.perf_counter(), time.process_time()
                bits.add((found.labels.tobytes(), found.prices.tobytes(), found.objective))
                if turn:  # the first round compiles
                    times[threads].append((end[0] - start[0], end[1] - start[1]))
        walls = {threads: [wall for wall, _ in rows] for threads, rows in times.items()}
        first = walls[options.threads[0]]
        for threads, rows in times.items():
            wall, middle = min(walls[threads]), median(walls[threads])
            print(
                f"| {tol:g} | {threads} | {wall:.3f} | {middle:.3f} | {min(c for _, c in rows):.3f}"
                f" | {min(first) / wall:.2f} | {median(first) / middle:.2f} |"
            )
        assert len(bits) == 1, "labels or prices differ between numbers of threads"
    print(f"\n{platform.machine()}, numpy {np.__version__}; the same labels and prices in all runs")


if __name__ == "__main__":
    main()
