"""Compare one pass of the online assignment with plain argmax over the same scores.

Prints, for each size, the ratio of the time of `assign` (bounds 0.9 and 1.1 times n / k, counts
inside them at the end) to the time of ``numpy.argmax(scores, axis=1)``, which reads the same memory
and guarantees nothing. The two run in turn; the median of the ratios of neighbors is printed with
their range, because the speed of a shared machine drifts.

    python benchmarks/assign_stream.py            # up to (1,000,000, 1,000), needs 5 GB
    python benchmarks/assign_stream.py --small    # seconds, 0.5 GB
"""

from __future__ import annotations

import argparse
import platform
import statistics
import time
from collections.abc import Callable

import numba
import numpy as np

import dualclust as dc
from dualclust.algos import online

SIZES = [(100_000, 100), (1_000_000, 100), (100_000, 1_000), (1_000_000, 1_000)]
SMALL = [(100_000, 100), (100_000, 1_000)]


def seconds(function: Callable[[], object]) -> float:
    """Return the wall time of one call."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def compare(n: int, k: int, repeats: int) -> str:
    """Return one row of the table."""
    scores = np.random.default_rng(0).standard_normal((n, k), dtype=np.float32)
    scores *= 0.1  # the spread of cosines in about 100 dimensions
    bounds = dc.SizeBounds.from_ratios(k, n_samples=n, lower=0.9, upper=1.1)
    measured = dc.measured_steps(bounds)
    rules = {"default": measured, "per instance": online.StepRule(measured.step_size, chunk_size=1)}
    cells = []
    for name, rule in rules.items():
        outcome = dc.assign(scores, bounds, steps=rule)  # compiles, and touches the memory
        ratios, baseline = [], []
        for _ in range(repeats):
            plain = seconds(lambda: np.argmax(scores, axis=1))
            ours = seconds(lambda rule=rule: dc.assign(scores, bounds, steps=rule))
            ratios.append(ours / plain)
            baseline.append(plain)
        middle, spread = statistics.median(ratios), f"{min(ratios):.2f}-{max(ratios):.2f}"
        sizes = outcome.state.counts
        cells.append(
            f"| {n:,} | {k:,} | {name}, chunk {rule.chunk_size:,} | "
            f"{statistics.median(baseline):.3f} | **{middle:.2f}** ({spread}) | "
            f"{online.violation(sizes, bounds)} | {sizes.min()}-{sizes.max()} |"
        )
    return "\n".join(cells)


def main() -> None:
    """Print the table as Markdown."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--small", action="store_true", help="skip the sizes above 0.5 GB")
    parser.add_argument("--repeats", type=int, default=7, help="pairs of runs (default 7)")
    options = parser.parse_args()
    versions = f"numpy {np.__version__}, numba {numba.__version__}, dualclust {dc.__version__}"
    print(f"{platform.machine()}, one core, Python {platform.python_version()}, {versions}\n")
    print("| n | k | steps | argmax s | ratio to argmax (range) | violation | sizes |")
    print("|---|---|---|---|---|---|---|")
    for n, k in SMALL if options.small else SIZES:
        print(compare(n, k, options.repeats), flush=True)


if __name__ == "__main__":
    main()
