"""How far k-means inside bounds goes beyond its time limit, on heavy tails.

    python -m benchmarks.time_limits                    (100k, 64, 250) and (200k, 384, 500)
    python -m benchmarks.time_limits --sizes 20000,64,100 --limits 1

The clock is the CPU time of the process, on one thread, so that other jobs on the machine do not
count. Rows have bounds of 0.75 and 1.5 of the mean size; centers are drawn before the clock starts.
`longest` is the longest time between two looks at the clock.
"""

from __future__ import annotations

import argparse
import os
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

import dualclust as dc
from dualclust.algos.clustering.start import start_centers
from dualclust.algos.scores import Deadline, feature_source

from . import families

LEAST, SHARE = 1.0, 0.2
"""An overshoot is to be at most so many seconds, or that share of the limit."""


class Looked:
    """A clock of CPU time that knows the longest time between two looks."""

    def __init__(self) -> None:
        self.last, self.longest = time.process_time(), 0.0

    def __call__(self) -> float:
        """Return the CPU seconds of the process."""
        now = time.process_time()
        self.longest, self.last = max(self.longest, now - self.last), now
        return now


def measure(n: int, d: int, k: int, limits: list[float]) -> None:
    """Print a line for each limit."""
    families.DIMENSION = d
    x = families.heavy_tails(n, 7 * k // 5, 0)
    bounds = dc.SizeBounds.from_ratios(k, n_samples=n, lower=0.75, upper=1.5)
    centers = start_centers(feature_source(x), k, seed=0, metric="euclidean")
    for seconds in limits:
        clock = Looked()
        begun = clock()
        limit = Deadline(seconds, clock=clock)
        found = dc.constrained_kmeans(x, bounds, centers, metric="euclidean", time_limit=limit)
        over = clock() - begun - seconds
        counts = np.bincount(found.labels, minlength=k)
        inside = (np.asarray(bounds.lower) <= counts) & (counts <= np.asarray(bounds.upper))
        assert inside.all()
        told = "yes" if over <= max(LEAST, SHARE * seconds) else "NO"
        print(
            f"| {n:,} x {d}, k = {k} | {seconds:g} | {over:+.2f} | {clock.longest:.2f} | {told} "
            f"| {found.n_iter} | {found.gap:.1e} | {found.objective:.6g} |",
            flush=True,
        )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sizes", nargs="+", default=["100000,64,250", "200000,384,500"])
    parser.add_argument("--limits", nargs="+", type=float, default=[2.0, 5.0, 20.0])
    options = parser.parse_args()
    print("| rows | limit, s | beyond, s | longest, s | within the bar | updates | gap | value |")
    print("|---|---|---|---|---|---|---|---|")
    for size in options.sizes:
        n, d, k = map(int, size.split(","))
        measure(n, d, k, options.limits)


if __name__ == "__main__":
    main()
