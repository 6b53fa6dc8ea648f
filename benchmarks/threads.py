"""Measure what threads save in the exact and the near-optimal assignment, from features.

Rows, centers and bounds are those of `assignment.py`. The runs on one thread and on several
alternate in one process, and `times` is the least wall time of the first number of threads over
that of this one. The caller works beside the others, so that CPU time says nothing about who waits
for whom: measure on a machine with nothing else to do. Labels and prices of all runs are compared
bit by bit.

The row `apart` is what the machine gives at most: as many processes as the last number of threads
solve the same problem on one thread each, at the same time, and share nothing but caches and
memory. Its `times` is that number, times the first wall time over that of the slowest of them.

    python benchmarks/threads.py --n 100000 --k 1000 --threads 1 2
"""

from __future__ import annotations

import argparse
import multiprocessing
import platform
import time
from collections.abc import Callable
from multiprocessing.synchronize import Barrier
from statistics import median

import numpy as np
from assignment import data

from dualclust import SizeBounds
from dualclust.algos.offline.assignment import assign_source
from dualclust.algos.scores.sources import feature_source, product_source
from dualclust.cluster.threads import products_on

TOLERANCES = 1e-4, 0.0


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
    print(f"n = {options.n:,}, k = {options.k:,}, d = 128, {options.rounds} rounds\n")
    print("| tol | threads | wall s, least | median | CPU s, least | times | of medians |")
    print("|---|---|---|---|---|---|---|")
    first, last, rounds = options.threads[0], options.threads[-1], options.rounds + 1
    solve = problem(options.n, options.k)
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(last, timeout=600.0)
    others = [
        context.Process(target=beside, args=(options.n, options.k, rounds, barrier), daemon=True)
        for _ in range(last - 1)
    ]
    for process in others:
        process.start()
    for tol in TOLERANCES:
        times: dict[int | str, list[tuple[float, float]]] = {}
        bits = set()
        for turn in range(rounds):
            for threads in options.threads:
                wall, cpu, found = solve(threads, tol)
                bits.add(found)
                if turn:  # the first round compiles
                    times.setdefault(threads, []).append((wall, cpu))
            barrier.wait()
            start = time.perf_counter()
            _, cpu, _ = solve(1, tol)
            barrier.wait()
            if turn:
                times.setdefault("apart", []).append((time.perf_counter() - start, cpu))
        alone = [wall for wall, _ in times[first]]
        for threads, rows in times.items():
            walls, work = [wall for wall, _ in rows], last if threads == "apart" else 1
            print(
                f"| {tol:g} | {threads} | {min(walls):.3f} | {median(walls):.3f}"
                f" | {min(cpu for _, cpu in rows):.3f} | {work * min(alone) / min(walls):.2f}"
                f" | {work * median(alone) / median(walls):.2f} |"
            )
        assert len(bits) == 1, "labels or prices differ between numbers of threads"
    for process in others:
        process.join()
    print(f"\n{platform.machine()}, numpy {np.__version__}; the same labels and prices in all runs")


def problem(n: int, k: int) -> Callable[[int, float], tuple[float, float, object]]:
    """Return what solves one problem on some threads: wall and CPU seconds, and what was found."""
    x, c = data(n, k)
    bounds = SizeBounds.from_ratios(k, n_samples=n, lower=0.9, upper=1.1)
    source = product_source(feature_source(x), c)

    def solve(threads: int, tol: float) -> tuple[float, float, object]:
        with products_on(threads):
            start = time.perf_counter(), time.process_time()
            found = assign_source(source, bounds, tol=tol)
            end = time.perf_counter(), time.process_time()
        what = found.labels.tobytes(), found.prices.tobytes(), found.objective
        return end[0] - start[0], end[1] - start[1], what

    return solve


def beside(n: int, k: int, rounds: int, barrier: Barrier) -> None:
    """Solve the same problem on one thread whenever the first process does."""
    solve = problem(n, k)
    for tol in TOLERANCES:
        solve(1, tol)
        for _ in range(rounds):
            barrier.wait()
            solve(1, tol)
            barrier.wait()


if __name__ == "__main__":
    main()
