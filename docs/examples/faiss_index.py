"""Lists of bounded length in a faiss index: recall against the mean and the tail of query times.

The index is faiss's IVFFlat by inner product. Its centers and lists are those of faiss's k-means,
of k-means without bounds, and of k-means with at most 1.1 n/k rows in a list; a fourth index keeps
faiss's centers and cuts the lists alone. Queries come one at a time on one thread. The time of a
query is CPU time of the thread, the least of a few repeats, in which the indexes take turns: on a
busy machine the clock on the wall would measure the neighbors.

    pip install faiss-cpu
    python docs/examples/faiss_index.py docs/images    # draws the figure in a minute on one core
"""

from __future__ import annotations

import argparse
import platform
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import dualclust as dc

Floats = NDArray[np.float32]
Labels = NDArray[np.int64]
NEAREST = 10
PROBES = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48)


class Lists(NamedTuple):
    """Centers (k, d) of an index, and the list of each row (n,)."""

    centers: Floats
    labels: Labels


class Row(NamedTuple):
    """An index searched in so many lists; times in microseconds of CPU for each query."""

    index: str
    n_probe: int
    recall: float
    mean: float
    p99: float


def mixture(n: int, n_groups: int, d: int, n_queries: int, seed: int) -> tuple[Floats, Floats]:
    """Draw unit rows of groups whose sizes fall like 1 / rank, and queries of the same kind."""
    rng = np.random.default_rng(seed)
    directions = rng.normal(size=(n_groups, d))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    share = 1.0 / np.arange(1, n_groups + 1)
    group = rng.choice(n_groups, size=n + n_queries, p=share / share.sum())
    rows = directions[group] + 0.1 * rng.normal(size=(n + n_queries, d))
    rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    return rows[:n], rows[n:]


def our_lists(rows: Floats, k: int, seed: int, upper: float) -> Lists:
    """Return the lists of k-means with at most `upper` n/k rows in each; infinity is no bound."""
    uniforms = np.random.default_rng(seed).random((k, 4))
    start = dc.kmeans_plus_plus(rows[: 20 * k], uniforms)
    if upper == np.inf:
        free = dc.kmeans(rows, start, max_iter=10)
        return Lists(free.centers.astype(np.float32), np.asarray(free.labels))
    bounds = dc.SizeBounds.of(k, n_samples=len(rows), upper=upper)
    found = dc.constrained_kmeans(rows, bounds, start, max_iter=10)
    return Lists(found.centers.astype(np.float32), found.assignment.labels)


def cut_lists(rows: Floats, centers: Floats, upper: float) -> Lists:
    """Return the best lists of at most `upper` n/k rows for given centers."""
    bounds = dc.SizeBounds.of(len(centers), n_samples=len(rows), upper=upper)
    return Lists(centers, dc.assign_offline(rows @ centers.T, bounds).labels)


def faiss_lists(rows: Floats, k: int, seed: int) -> Lists:
    """Return the lists of faiss's spherical k-means on all rows."""
    import faiss

    options = {"niter": 10, "seed": seed, "spherical": True, "max_points_per_centroid": 10**9}
    found = faiss.Kmeans(rows.shape[1], k, **options)
    found.train(rows)
    centers = np.ascontiguousarray(found.centroids)
    return Lists(centers, (rows @ centers.T).argmax(axis=1))


def faiss_index(rows: Floats, lists: Lists) -> Any:
    """Return the index with these centers and these lists."""
    import faiss

    k, d = lists.centers.shape
    centers = np.ascontiguousarray(lists.centers)
    quantizer = faiss.IndexFlatIP(d)
    quantizer.add(centers)
    index = faiss.IndexIVFFlat(quantizer, d, k, faiss.METRIC_INNER_PRODUCT)
    index.is_trained = True
    labels = np.ascontiguousarray(lists.labels, dtype=np.int64)
    index.add_core(len(rows), faiss.swig_ptr(rows), None, faiss.swig_ptr(labels))
    return index


def measure(rows: Floats, queries: Floats, tables: dict[str, Lists], repeats: int) -> Iterator[Row]:
    """Yield recall and times for each index and number of lists."""
    truth = np.argpartition(-(queries @ rows.T), NEAREST, axis=1)[:, :NEAREST]
    indexes = {name: faiss_index(rows, lists) for name, lists in tables.items()}
    for n_probe in PROBES:
        least = {name: np.full(len(queries), np.inf) for name in indexes}
        hits = dict.fromkeys(indexes, 0)
        for i, query in enumerate(queries):
            for repeat in range(repeats):
                for name, index in indexes.items():
                    index.nprobe = n_probe
                    begun = time.thread_time_ns()
                    _, found = index.search(query[None], NEAREST)
                    spent = (time.thread_time_ns() - begun) / 1e3
                    least[name][i] = min(least[name][i], spent)
                    if repeat == 0:
                        hits[name] += len(np.intersect1d(found[0], truth[i]))
        for name, times in least.items():
            recall = hits[name] / (NEAREST * len(queries))
            yield Row(name, n_probe, recall, float(times.mean()), float(np.quantile(times, 0.99)))


def at_recall(curve: list[Row], recall: float, field: str) -> float:
    """Return a time at a recall, between the two measured ones next to it; NaN outside of all."""
    curve = sorted(curve, key=lambda row: row.recall)
    known = [row.recall for row in curve]
    times = [getattr(row, field) for row in curve]
    return float(np.interp(recall, known, times, left=np.nan, right=np.nan))


def report(table: list[Row], longest: dict[str, int]) -> str:
    """Write times at given recalls as a table in Markdown."""
    recalls = (0.8, 0.9, 0.95, 0.99)
    titles = " | ".join(f"mean at {r}" for r in recalls) + " | "
    titles += " | ".join(f"p99 at {r}" for r in recalls)
    lines = [f"| index | longest list | {titles} |", "|---" * (2 + 2 * len(recalls)) + "|"]
    for name, most in longest.items():
        curve = [row for row in table if row.index == name]
        cells = [f"{at_recall(curve, r, field):.0f}" for field in ("mean", "p99") for r in recalls]
        lines.append(f"| {name} | {most} | {' | '.join(cells)} |")
    return "\n".join(lines)


def draw(table: list[Row], longest: dict[str, int], path: Path) -> None:
    """Draw recall against the mean time of a query, and against that of the slowest hundredth."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    for name, most in longest.items():
        curve = [row for row in table if row.index == name]
        recall = [row.recall for row in curve]
        label = f"{name} (longest list {most:,})"
        left.plot([row.mean for row in curve], recall, marker=".", label=label)
        right.plot([row.p99 for row in curve], recall, marker=".", label=label)
    for axes, what in ((left, "mean"), (right, "99th percentile")):
        axes.set(xscale="log", xlabel=f"µs of a query, {what}")
        axes.set_xticks([10, 20, 40, 80, 160], labels=["10", "20", "40", "80", "160"])
        axes.minorticks_off()
    left.set_ylabel(f"recall at {NEAREST}")
    right.legend(fontsize="x-small", loc="lower right")
    figure.savefig(path, dpi=120)


def main(folder: Path, *, small: bool = False) -> tuple[list[Row], dict[str, int]]:
    """Write ``faiss_index.png``; returns the table, and by index the longest list."""
    import faiss

    n, k, d, n_queries, repeats = (2_000, 48, 16, 10, 1) if small else (20_000, 100, 64, 300, 15)
    faiss.omp_set_num_threads(1)
    rows, queries = mixture(n, k // 2, d, n_queries, seed=0)
    theirs = faiss_lists(rows, k, seed=0)
    tables = {
        "faiss k-means": theirs,
        "k-means, no bounds": our_lists(rows, k, 0, np.inf),
        "at most 1.1 n/k": our_lists(rows, k, 0, 1.1),
        "faiss centers, lists cut to 1.1 n/k": cut_lists(rows, theirs.centers, 1.1),
    }
    table = list(measure(rows, queries, tables, repeats))
    longest = {name: int(np.bincount(lists.labels).max()) for name, lists in tables.items()}
    draw(table, longest, folder / "faiss_index.png")
    return table, longest


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    measured, most_rows = main(parser.parse_args().folder)
    packages = ", ".join(f"{name} {version(name)}" for name in ("numpy", "faiss-cpu"))
    print(f"Python {platform.python_version()}, {packages}\n\n{report(measured, most_rows)}\n")
    for row in measured:
        print(f"{row.index:36} {row.n_probe:3} {row.recall:.3f} {row.mean:7.1f} {row.p99:7.1f}")
