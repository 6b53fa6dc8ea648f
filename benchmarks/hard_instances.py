"""Time twenty hard instances of size-constrained assignment beside easy twins of the same size.

Scores that tie, clusters that nobody or everybody wants, bounds without slack and forbidden pairs
that hardly leave a way are what a solver meets outside of benchmarks. Each hard instance has a
*twin*: Gaussian scores with the same n, k and bounds, nothing forbidden. Both are solved exactly,
by turns, on one core; the table gives CPU seconds, their ratio, and the work: passes over scores or
samples of them, looks of Newton's method at the candidates, augmenting paths, and rows they moved.

    python -m benchmarks.hard_instances                 # n = 20,000: a minute
    python -m benchmarks.hard_instances --n 2000 --repeats 1
"""

from __future__ import annotations

import argparse
import platform
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import dualclust as dc
from tests.passes import OVER_SCORES, counted_work

Scores = NDArray[np.floating[Any]]
Counts = NDArray[np.int64]


class Instance(NamedTuple):
    """Scores (n, k), minus infinity where a pair is forbidden, and sizes that are allowed."""

    scores: Scores
    lower: Counts
    upper: Counts

    @property
    def bounds(self) -> dc.SizeBounds:
        """The bounds of the library."""
        return dc.SizeBounds.from_counts(
            self.lower.tolist(), self.upper.tolist(), n_samples=self.scores.shape[0]
        )


def gaussian(n: int, k: int, seed: int = 0) -> Scores:
    """Return scores without ties and without structure."""
    return np.random.default_rng(seed).standard_normal((n, k)).astype(np.float32)


def even(n: int, k: int) -> tuple[Counts, Counts]:
    """Return sizes that leave no slack: n / k, rounded down and up."""
    return np.full(k, n // k), np.full(k, -(-n // k))


def loose(n: int, k: int) -> tuple[Counts, Counts]:
    """Return sizes of 0.9 to 1.1 times n / k."""
    return np.full(k, int(0.9 * n / k)), np.full(k, int(np.ceil(1.1 * n / k)))


def all_equal(n: int) -> Instance:
    """Every score is the same: any labels inside the bounds are optimal."""
    return Instance(np.zeros((n, 20), dtype=np.float32), *even(n, 20))


def rank_one(n: int) -> Instance:
    """A number for each row times a number for each cluster: every row has the same order."""
    rng = np.random.default_rng(1)
    scores = np.outer(rng.standard_normal(n), rng.standard_normal(20))
    return Instance(scores.astype(np.float32), *even(n, 20))


def duplicates(n: int) -> Instance:
    """Each row 500 times."""
    return Instance(np.repeat(gaussian(-(-n // 500), 20), 500, axis=0)[:n], *even(n, 20))


def identical_rows(n: int) -> Instance:
    """One row n times: only the counts have a value."""
    return Instance(np.repeat(gaussian(1, 20), n, axis=0), *even(n, 20))


def separable(n: int) -> Instance:
    """A number for each row plus a number for each cluster, rounded: ties up to rounding."""
    rows, columns = gaussian(n, 1), gaussian(1, 20, seed=1)
    return Instance(rows + columns, *even(n, 20))


def zero_or_one(n: int) -> Instance:
    """Integer scores in {0, 1}."""
    scores = np.random.default_rng(2).integers(0, 2, size=(n, 20))
    return Instance(scores.astype(np.float32), *even(n, 20))


def small_integers(n: int) -> Instance:
    """Integer scores in {0, ..., 4}, such as ratings."""
    scores = np.random.default_rng(3).integers(0, 5, size=(n, 20))
    return Instance(scores.astype(np.float32), *loose(n, 20))


def sixteenths(n: int) -> Instance:
    """Gaussian scores rounded to sixteenths, such as those of few bits."""
    return Instance(np.round(gaussian(n, 20) * 16) / 16, *even(n, 20))


def one_cluster(n: int) -> Instance:
    """99 % of the rows want the same cluster, by far."""
    scores = gaussian(n, 20)
    scores[: int(0.99 * n), 0] += 10
    return Instance(scores, *even(n, 20))


def favorite(n: int) -> Instance:
    """All rows want the same cluster by exactly 1,000 more."""
    scores = gaussian(n, 20).astype(np.float64)
    scores[:, 0] += 1000
    return Instance(scores, *loose(n, 20))


def exactly_three(n: int) -> Instance:
    """Bounds of exactly n / k = 3."""
    k = min(n // 3, 1000)
    return Instance(gaussian(3 * k, k), *even(3 * k, k))


def nearly_as_many(n: int) -> Instance:
    """Nearly as many clusters as rows, none of them empty."""
    k = min(n, 1000)
    return Instance(gaussian(k + k // 100, k), np.ones(k, np.int64), np.full(k, 2))


def narrow(n: int) -> Instance:
    """Each row may join one cluster of a ring and the next, and no count has slack."""
    k = 20
    scores, home = np.full((n, k), -np.inf, dtype=np.float32), np.arange(n) * k // n
    for step in (0, 1):
        scores[np.arange(n), (home + step) % k] = gaussian(n, 1, seed=step)[:, 0]
    return Instance(scores, *even(n, k))


def one_choice(n: int) -> Instance:
    """Nine rows of ten may join a single cluster; the others make the counts right."""
    k, scores = 20, gaussian(n, 20)
    fixed = np.arange(n) % 10 != 0
    scores[fixed[:, None] & (np.arange(k) != (np.arange(n) * 7 % k)[:, None])] = -np.inf
    return Instance(scores, *loose(n, k))


def scaled_rows(n: int) -> Instance:
    """Rows of scores from 1e-6 to 1e6 in size."""
    scale = 10.0 ** np.random.default_rng(4).uniform(-6, 6, size=(n, 1))
    return Instance(gaussian(n, 20) * scale, *even(n, 20))


def checkerboard(n: int) -> Instance:
    """A score of 1 where row plus cluster is even, else 0."""
    scores = (np.arange(n)[:, None] + np.arange(20)) % 2
    return Instance(scores.astype(np.float32), *even(n, 20))


def geometric(n: int) -> Instance:
    """Sizes that halve from cluster to cluster, without slack."""
    sizes = np.maximum(n // 2 ** np.arange(1, 11), 1)
    sizes[0] += n - sizes.sum()
    return Instance(np.round(gaussian(n, 10)), sizes, sizes)


def one_sided(n: int) -> Instance:
    """Upper bounds alone, on scores that nearly all rows agree on."""
    scores = gaussian(n, 20) * 0.01 - np.arange(20)
    return Instance(scores.astype(np.float32), np.zeros(20, np.int64), even(n, 20)[1])


def twin_columns(n: int) -> Instance:
    """Every cluster twice: each row ties between two."""
    return Instance(np.repeat(gaussian(n, 10), 2, axis=1), *even(n, 20))


def many_ties(n: int) -> Instance:
    """{0, 1} again, with 200 clusters: hundred candidates tie for each row."""
    scores = np.random.default_rng(5).integers(0, 2, size=(n, 200))
    return Instance(scores.astype(np.float32), *even(n, 200))


HARD: dict[str, Callable[[int], Instance]] = {
    make.__name__.replace("_", " "): make
    for make in (
        all_equal,
        rank_one,
        duplicates,
        identical_rows,
        separable,
        zero_or_one,
        small_integers,
        sixteenths,
        one_cluster,
        favorite,
        exactly_three,
        nearly_as_many,
        narrow,
        one_choice,
        scaled_rows,
        checkerboard,
        geometric,
        one_sided,
        twin_columns,
        many_ties,
    )
}
"""Every instance by name: the number of rows wanted -> the instance."""


def twin_of(hard: Instance) -> Instance:
    """Return Gaussian scores with the same n, k and bounds."""
    n, k = hard.scores.shape
    return hard._replace(scores=gaussian(n, k, seed=99).astype(hard.scores.dtype))


class Work(NamedTuple):
    """What an exact solution took."""

    seconds: float
    gap: float
    passes: int
    steps: int
    paths: int
    moved: int


def solve(instance: Instance) -> Work:
    """Solve an instance exactly, and count."""
    bounds, begin = instance.bounds, time.process_time()
    with counted_work() as count:
        found = dc.assign_exact(instance.scores, bounds)
    seconds = time.process_time() - begin
    return Work(
        seconds,
        found.gap,
        sum(count[where] for where in OVER_SCORES),
        count["_smoothed_dual.evaluate"],
        count["paths"],
        count["moved"],
    )


def compare(name: str, n: int, repeats: int) -> str:
    """Solve a hard instance and its twin by turns; returns a row of the table."""
    hard = HARD[name](n)
    twin, times = twin_of(hard), []
    for _ in range(repeats):
        work, easy = solve(hard), solve(twin)
        times.append((work.seconds, easy.seconds))
    seconds, of_twin = np.min(times, axis=0)
    ratios = np.sort([a / b for a, b in times])
    shape = "{:,} x {:,}".format(*hard.scores.shape)
    return (
        f"| {name} | {shape} | {seconds:.3f} | {of_twin:.3f} | {seconds / of_twin:.1f} "
        f"({ratios[0]:.1f} to {ratios[-1]:.1f}) | {work.passes} | {work.steps} "
        f"| {work.paths:,} | {work.moved:,} |"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=20_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", nargs="*", choices=list(HARD), default=list(HARD))
    options = parser.parse_args()
    for dtype in (np.float32, np.float64):  # what has to be compiled
        solve(Instance(gaussian(5000, 20).astype(dtype), *even(5000, 20)))
    print(f"numpy {np.__version__}, Python {platform.python_version()}\n")
    print("| instance | n x k | s | twin s | ratio | passes | steps | paths | moved |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name in options.only:
        print(compare(name, options.n, options.repeats), flush=True)


if __name__ == "__main__":
    main()
