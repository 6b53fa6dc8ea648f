"""Compare size-constrained assignment with its peers: time, memory, gap and violation.

Rows: unit features of an imbalanced mixture (d = 128) and given unit centers, bounds 0.9 and 1.1
times n / k. Every method runs in a process of its own, on one core, after a warm-up on a small
instance. Time is that of the assignment from features and centers, peak memory is above the
process with the data loaded, the gap is to the optimum where the exact solver ran (else to the best
proven bound), and violation counts the samples outside a bound. Peers that are not installed are
left out: k-means-constrained, ortools, POT, faiss-cpu, highspy (through SciPy).

    pip install k-means-constrained ortools POT faiss-cpu
    python benchmarks/assignment.py --n 100000 --k 100
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Features = np.ndarray[Any, np.dtype[np.float32]]
Method = Callable[[Features, Features], np.ndarray[Any, Any]]


def data(n: int, k: int, seed: int = 0) -> tuple[Features, Features]:
    """Return unit features around k directions with Zipf weights, and noisy unit centers."""
    rng = np.random.default_rng(seed)

    def unit(x: np.ndarray[Any, Any]) -> Features:
        return np.asarray(x / np.linalg.norm(x, axis=1, keepdims=True), dtype=np.float32)

    truth = unit(rng.standard_normal((k, 128)))
    weights = 1.0 / np.arange(1, k + 1) ** 0.5
    member = rng.choice(k, size=n, p=weights / weights.sum())
    noise = rng.standard_normal((n, 128), dtype=np.float32) / np.float32(np.sqrt(128))
    centers = unit(truth + 0.5 * rng.standard_normal((k, 128)) / np.sqrt(128))
    return unit(truth[member] + 2 * noise), centers


def sizes(n: int, k: int) -> tuple[int, int]:
    """Return the bounds in samples."""
    import dualclust as dc

    bounds = dc.SizeBounds.from_ratios(k, n_samples=n, lower=0.9, upper=1.1)
    return int(bounds.lower[0]), int(bounds.upper[0])


def argmax(x: Features, c: Features) -> Any:
    """Unconstrained: the limit. Blocks that stay in the cache are the fastest."""
    rows = max(64, min(8192, 2**20 // len(c)))
    return np.concatenate([(x[i : i + rows] @ c.T).argmax(1) for i in range(0, len(x), rows)])


def faiss_search(x: Features, c: Features) -> Any:
    """faiss, exact search of the nearest center by inner product."""
    import faiss

    faiss.omp_set_num_threads(1)
    index = faiss.IndexFlatIP(x.shape[1])
    index.add(c)
    return index.search(x, 1)[1][:, 0]


def sklearn_nearest(x: Features, c: Features) -> Any:
    """scikit-learn, the nearest center by Euclidean distance: the same for unit rows."""
    from sklearn.metrics import pairwise_distances_argmin

    return pairwise_distances_argmin(x, c)


def ours_stream(x: Features, c: Features) -> Any:
    """`assign` in blocks, one pass from cold prices."""
    import dualclust as dc

    bounds = dc.SizeBounds.from_ratios(len(c), n_samples=len(x), lower=0.9, upper=1.1)
    state, labels = dc.init_state(bounds), []
    steps = dc.measured_steps(bounds)
    rows = max(64, min(8192, 2**20 // len(c)))
    for i in range(0, len(x), rows):
        part, state = dc.assign(x[i : i + rows] @ c.T, bounds, state, steps=steps)
        labels.append(part)
    return np.concatenate(labels)


def ours_default(x: Features, c: Features) -> Any:
    """To a proven gap of 1e-4, from features and centers."""
    return _ours(x, c, 1e-4)


def ours_exact(x: Features, c: Features) -> Any:
    """The optimum, from features and centers."""
    return _ours(x, c, 0.0)


def _ours(x: Features, c: Features, tolerance: float) -> Any:
    from dualclust.algos.bounds.sizes import SizeBounds
    from dualclust.algos.offline.assignment import assign_source
    from dualclust.algos.scores.sources import feature_source, product_source

    bounds = SizeBounds.from_ratios(len(c), n_samples=len(x), lower=0.9, upper=1.1)
    found = assign_source(product_source(feature_source(x), c), bounds, tol=tolerance)
    _ours.gap = found.gap  # type: ignore[attr-defined]
    return found.labels


def kmeans_constrained(x: Features, c: Features) -> Any:
    """k-means-constrained: its own min-cost flow, at integer costs."""
    from k_means_constrained import KMeansConstrained

    low, high = sizes(len(x), len(c))
    model = KMeansConstrained(len(c), size_min=low, size_max=high, max_iter=1, n_init=1)
    model.cluster_centers_ = c.astype(np.float64)
    return model.predict(x.astype(np.float64), size_min=low, size_max=high)


def ortools_flow(x: Features, c: Features) -> Any:
    """OR-tools' min-cost flow on explicit arcs, costs scaled to integers by 10^6."""
    from ortools.graph.python import min_cost_flow

    n, k = len(x), len(c)
    low, high = sizes(n, k)
    cost = np.rint(-1e6 * (x @ c.T)).astype(np.int64)
    flow = min_cost_flow.SimpleMinCostFlow()
    tail = np.repeat(np.arange(n), k)
    head = n + np.tile(np.arange(k), n)
    arcs = flow.add_arcs_with_capacity_and_unit_cost(tail, head, np.ones(n * k), cost.ravel())
    clusters = n + np.arange(k)
    sink = np.full(k, n + k)
    flow.add_arcs_with_capacity_and_unit_cost(clusters, sink, np.full(k, high - low), np.zeros(k))
    flow.set_nodes_supplies(np.arange(n), np.ones(n))
    flow.set_nodes_supplies(clusters, np.full(k, -low))
    flow.set_node_supply(n + k, -(n - k * low))
    assert flow.solve() == flow.OPTIMAL
    return flow.flows(arcs).reshape(n, k).argmax(1)


def sinkhorn(x: Features, c: Features) -> Any:
    """POT's log-domain Sinkhorn to equal sizes, temperature 0.05, 100 iterations, then argmax."""
    import ot

    n, k = len(x), len(c)
    uniform = np.full(n, 1 / n), np.full(k, 1 / k)
    plan = ot.bregman.sinkhorn_log(
        *uniform, -(x @ c.T).astype(np.float64), 0.05, numItermax=100, warn=False
    )
    return plan.argmax(1)


def highs(x: Features, c: Features) -> Any:
    """HiGHS on the linear program."""
    from scipy.optimize import linprog
    from scipy.sparse import csr_array, vstack

    n, k = len(x), len(c)
    low, high = sizes(n, k)
    columns = np.arange(n * k)
    one = csr_array((np.ones(n * k), (columns // k, columns)))
    size = csr_array((np.ones(n * k), (columns % k, columns)))
    limits = np.concatenate([np.full(k, high), np.full(k, -low)])
    solved = linprog(
        -(x @ c.T).ravel(),
        A_eq=one,
        b_eq=np.ones(n),
        A_ub=vstack([size, -size]),
        b_ub=limits,
        method="highs",
    )
    return solved.x.reshape(n, k).argmax(1)


METHODS: dict[str, tuple[Method, str | None, int]] = {
    # name: (function, module it needs, largest n k it is tried on)
    "matmul + argmax (no bounds)": (argmax, None, 10**10),
    "faiss search (no bounds)": (faiss_search, "faiss", 10**10),
    "scikit-learn nearest (no bounds)": (sklearn_nearest, "sklearn", 10**10),
    "dualclust, one streaming pass": (ours_stream, None, 10**10),
    "dualclust, to 1e-4": (ours_default, None, 10**10),
    "dualclust, exact": (ours_exact, None, 10**10),
    "k-means-constrained": (kmeans_constrained, "k_means_constrained", 2 * 10**7),
    "OR-tools min-cost flow": (ortools_flow, "ortools", 2 * 10**7),
    "POT Sinkhorn, then argmax": (sinkhorn, "ot", 2 * 10**8),
    "HiGHS": (highs, "scipy", 2 * 10**6),
}
BASE = "matmul + argmax (no bounds)"
QUICK = 15.0  # seconds within which a method is timed three times; the median counts


def peak_memory() -> float:
    """Return the peak memory of this process in MB; `getrusage` would count the parent's."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return float("nan")


def child(name: str, folder: Path) -> None:
    """Run one method in this process and write what came out."""
    method = METHODS[name][0]
    x, c = (np.load(folder / f"{part}.npy") for part in ("x", "c"))
    method(*data(min(5000, len(x)), min(40, len(c))))  # warm: no larger than what is measured
    before = peak_memory()
    seconds: list[float] = []
    while len(seconds) < 3 and sum(seconds) < QUICK:
        started = time.perf_counter()
        labels = method(x, c)
        seconds.append(time.perf_counter() - started)
    np.save(folder / "labels.npy", labels)
    out = {
        "s": float(np.median(seconds)),
        "mb": peak_memory() - before,
        "gap": getattr(_ours, "gap", None),
    }
    (folder / "out.json").write_text(json.dumps(out))


def main() -> None:
    """Print the table as Markdown."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--n", type=int, default=100_000, help="number of samples")
    parser.add_argument("--k", type=int, default=100, help="number of clusters")
    parser.add_argument("--only", help="run only the methods whose name contains this")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds allowed per method")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.child[0], Path(options.child[1]))
        return
    x, c = data(options.n, options.k)
    low, high = sizes(options.n, options.k)
    results = []
    environment = dict(os.environ, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        np.save(folder / "x.npy", x)
        np.save(folder / "c.npy", c)
        for method, (_, module, most) in METHODS.items():
            if options.only and options.only not in method and method != BASE:
                continue
            if options.n * options.k > most or (module and not importlib.util.find_spec(module)):
                continue
            command = [sys.executable, __file__, "--child", method, name]
            try:
                subprocess.run(command, check=True, timeout=options.limit, env=environment)
            except (subprocess.SubprocessError, OSError) as error:
                results.append((method, None, type(error).__name__))
                continue
            out = json.loads((folder / "out.json").read_text())
            labels = np.load(folder / "labels.npy")
            value = float(np.einsum("ij,ij->i", x, c[labels], dtype=np.float64).sum())
            counts = np.bincount(labels, minlength=options.k)
            outside = int(np.maximum(counts - high, low - counts).clip(0).sum())
            results.append((method, out | {"value": value, "outside": outside}, ""))
    inside = [r for _, r, _ in results if r and r["outside"] == 0]
    best = max((r["value"] for r in inside), default=float("nan"))
    base = next(r["s"] for _, r, _ in results if r)
    size = x.nbytes / 2**20
    print(
        f"{platform.machine()}, one core, n={options.n:,}, k={options.k:,}, d=128: {size:.0f} MB\n"
    )
    print("| method | s | x argmax | + MB | below the best inside | proven gap | samples outside |")
    print("|---|---|---|---|---|---|---|")
    for method, r, error in results:
        if r is None:
            print(f"| {method} | {error} | | | | | |")
            continue
        gap = f"{1 - r['value'] / best:.1e}" if r["outside"] == 0 else "(bounds broken)"
        proven = "" if r["gap"] is None else f"{r['gap']:.1e}"
        print(
            f"| {method} | {r['s']:.3f} | {r['s'] / base:.1f} | {r['mb']:.0f} | {gap} | {proven} "
            f"| {r['outside']:,} |"
        )


if __name__ == "__main__":
    main()
