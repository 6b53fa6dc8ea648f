"""Compare k-means, free and with bounded sizes, with its peers: CPU time, wall time and objective.

Rows: points of an imbalanced mixture with noise; every method starts by k-means++ (or its own
start), once, and runs until its own rule stops it. Bounds are 0.9 and 1.1 times n / k. All methods
run in one process on one thread, in turn, some rounds: the table has the smallest CPU time of each,
so that what else the machine does counts little, and the ratio of the column "x" is to the peer
named. Inertia is relative to the best of those that keep bounds, or of those that do not.

Peers that are not installed are left out: faiss-cpu, k-means-constrained.

    pip install faiss-cpu k-means-constrained
    python benchmarks/kmeans.py --n 10000 --k 10 --against scikit-learn
    python benchmarks/kmeans.py --n 100000 --k 100 --against faiss
"""

from __future__ import annotations

import argparse
import platform
import time
import warnings
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

Array = np.ndarray[Any, np.dtype[Any]]
Found = tuple[Array, int]  # labels, iterations (0 if the package does not say)


def data(n: int, k: int, d: int, dtype: str, seed: int = 0) -> Array:
    """Return points around k centers with Zipf weights, in an order without runs of one class."""
    rng = np.random.default_rng(seed)
    centers, weights = rng.standard_normal((k, d)), 1.0 / np.arange(1, k + 1) ** 0.5
    member = rng.choice(k, size=n, p=weights / weights.sum())
    return np.asarray(0.6 * centers[member] + rng.standard_normal((n, d)), dtype=dtype)


def heavy_tailed(n: int, k: int, d: int, dtype: str, seed: int = 0) -> Array:
    """Return points of 5 k groups with Pareto(1.1) sizes: bounds split the largest among many."""
    rng = np.random.default_rng(seed)
    share = ((np.arange(5 * k) + 0.5) / (5 * k)) ** (-1 / 1.1)
    centers = rng.standard_normal((5 * k, d))
    member = rng.choice(5 * k, size=n, p=share / share.sum())
    return np.asarray(centers[member] + 0.5 * rng.standard_normal((n, d)), dtype=dtype)


def sklearn_free(x: Array, k: int, seed: int) -> Found:
    """scikit-learn, Lloyd."""
    from sklearn.cluster import KMeans

    found = KMeans(k, n_init=1, random_state=seed).fit(x)
    return found.labels_, found.n_iter_


def faiss_free(x: Array, k: int, seed: int, rows: int = 10**9) -> Found:
    """Run faiss: 25 iterations on all rows."""
    import faiss

    faiss.omp_set_num_threads(1)
    found = faiss.Kmeans(x.shape[1], k, niter=25, seed=seed, max_points_per_centroid=rows)
    found.train(x)
    return found.index.search(x, 1)[1][:, 0], 25


def faiss_sample(x: Array, k: int, seed: int) -> Found:
    """Run faiss as it comes: 25 iterations on 256 rows a cluster."""
    return faiss_free(x, k, seed, 256)


def ours_free(x: Array, k: int, seed: int) -> Found:
    """`ConstrainedKMeans` without bounds."""
    from dualclust import ConstrainedKMeans

    found = ConstrainedKMeans(k, random_state=seed).fit(x)
    return found.labels_, found.n_iter_


def ours_bounded(x: Array, k: int, seed: int) -> Found:
    """`ConstrainedKMeans`, labels to a proven gap of 1e-4."""
    from dualclust import ConstrainedKMeans

    found = ConstrainedKMeans(k, lower=0.9, upper=1.1, random_state=seed).fit(x)
    return found.labels_, found.n_iter_


def ours_ten_starts(x: Array, k: int, seed: int) -> Found:
    """Take the best of ten starts, as k-means-constrained and scikit-learn did by default."""
    from dualclust import ConstrainedKMeans

    found = ConstrainedKMeans(k, lower=0.9, upper=1.1, n_init=10, random_state=seed).fit(x)
    return found.labels_, found.n_iter_


def kmeans_constrained(x: Array, k: int, seed: int) -> Found:
    """k-means-constrained: the optimal labels of each iteration by min-cost flow."""
    from k_means_constrained import KMeansConstrained

    low, high = int(np.floor(0.9 * len(x) / k)), int(np.ceil(1.1 * len(x) / k))
    found = KMeansConstrained(k, size_min=low, size_max=high, n_init=1, random_state=seed)
    found.fit(x.astype(np.float64))
    return found.labels_, found.n_iter_


class Method(NamedTuple):
    """What runs, the package that it needs, whether it keeps bounds, and the largest n k."""

    run: Callable[[Array, int, int], Found]
    package: str | None
    bounded: bool
    most: int


METHODS: dict[str, Method] = {
    "scikit-learn KMeans": Method(sklearn_free, "sklearn", False, 10**9),
    "faiss, all rows": Method(faiss_free, "faiss", False, 10**9),
    "faiss, default sample": Method(faiss_sample, "faiss", False, 10**9),
    "dualclust, no bounds": Method(ours_free, None, False, 10**9),
    "dualclust, 0.9 to 1.1": Method(ours_bounded, None, True, 10**9),
    "dualclust, 0.9 to 1.1, ten starts": Method(ours_ten_starts, None, True, 10**6),
    "k-means-constrained, 0.9 to 1.1": Method(
        kmeans_constrained, "k_means_constrained", True, 10**6
    ),
}


def inertia(x: Array, labels: Array, k: int) -> float:
    """Return the sum of squared distances to the means of the labels: the same rule for all."""
    total = 0.0
    for j in range(k):
        own = x[labels == j].astype(np.float64)
        if len(own):
            total += float(((own - own.mean(axis=0)) ** 2).sum())
    return total


def main() -> None:
    """Print the table as Markdown."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--n", type=int, default=10_000, help="number of rows")
    parser.add_argument("--k", type=int, default=10, help="number of clusters")
    parser.add_argument("--d", type=int, default=64, help="number of columns")
    parser.add_argument("--dtype", choices=["float32", "float64"], default="float32")
    parser.add_argument("--heavy-tailed", action="store_true", help="groups of Pareto sizes")
    parser.add_argument("--rounds", type=int, default=3, help="how often each method runs")
    parser.add_argument("--against", default="scikit-learn", help="the peer of the column x")
    parser.add_argument("--only", default="", help="only methods whose name contains this")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    n, k = options.n, options.k
    rows = heavy_tailed if options.heavy_tailed else data
    x = rows(n, k, options.d, options.dtype)
    chosen = {
        name: method
        for name, method in METHODS.items()
        if options.only in name
        and n * k <= method.most
        and (method.package is None or find_spec(method.package))
    }
    small = data(2_000, 5, options.d, options.dtype)
    for method in chosen.values():
        method.run(small, 5, 0)  # imports and compilation
    times: dict[str, list[tuple[float, float, float, int]]] = {name: [] for name in chosen}
    for seed in range(options.rounds):
        for name, method in chosen.items():
            wall, cpu = time.perf_counter(), time.process_time()
            with threadpool_limits(1):
                labels, n_iter = method.run(x, k, seed)
            cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
            times[name].append((cpu, wall, inertia(x, labels, k), n_iter))
    base = next((name for name in times if options.against in name), next(iter(times)))
    unit = min(cpu for cpu, *_ in times[base])
    least = {
        kind: min(v[2] for m, rows in times.items() if METHODS[m].bounded == kind for v in rows)
        for kind in {METHODS[m].bounded for m in times}
    }
    print(f"n = {n:,}, k = {k:,}, d = {options.d}, {options.dtype}, {options.rounds} seeds\n")
    print(f"| method | CPU s, least | median | wall s, least | x {base} | inertia | iterations |")
    print("|---|---|---|---|---|---|---|")
    for name, rows in times.items():
        cpu = sorted(row[0] for row in rows)
        over = [row[2] / least[METHODS[name].bounded] - 1.0 for row in rows]
        print(
            f"| {name} | {cpu[0]:.3f} | {cpu[len(cpu) // 2]:.3f} | {min(r[1] for r in rows):.3f} "
            f"| {cpu[0] / unit:.2f} | +{min(over):.1e} to +{max(over):.1e} "
            f"| {min(r[3] for r in rows)} to {max(r[3] for r in rows)} |"
        )
    print(f"\n{platform.machine()}, Python {platform.python_version()}", end="")
    for package in ("numpy", "scikit-learn", "faiss-cpu", "k-means-constrained"):
        try:
            print(f", {package} {version(package)}", end="")
        except PackageNotFoundError:
            continue
    print()


if __name__ == "__main__":
    main()
