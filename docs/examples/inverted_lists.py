"""Balanced lists for a vector index, and whether a bound on their lengths pays.

An inverted-file index keeps the vectors of each cluster in a list and scans the lists of the few
centers nearest to a query. The work of a query is the sum of the lengths of its lists: long lists
make slow queries, and the longest list is the memory of one shard. Here the same data are put into
lists by plain k-means and by k-means with bounds, for centers learned by each, and searched with
plain NumPy. Work is counted in vectors compared, which no machine can flatter.

``python docs/examples/inverted_lists.py docs/images`` draws the figure, in half a minute.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import dualclust as dc

Floats = NDArray[np.float32]
NEAREST = 10


class Row(NamedTuple):
    """An index searched with so many lists a query."""

    index: str
    n_probe: int
    recall: float
    mean_work: float
    p99_work: float
    longest: int


def unit(x: NDArray[np.floating]) -> Floats:
    """Scale rows to unit length."""
    return (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32)


def mixture(n: int, n_groups: int, d: int, seed: int) -> tuple[Floats, Floats]:
    """Draw unit rows around directions, of groups whose sizes fall like 1 / rank, and queries."""
    rng = np.random.default_rng(seed)
    directions = unit(rng.normal(size=(n_groups, d)))
    share = 1.0 / np.arange(1, n_groups + 1)
    group = rng.choice(n_groups, size=n + 200, p=share / share.sum())
    rows = unit(directions[group] + 0.12 * rng.normal(size=(n + 200, d)))
    return rows[:n], rows[n:]


def search(
    rows: Floats, queries: Floats, centers: Floats, labels: NDArray[np.int64], probes: list[int]
) -> list[tuple[float, NDArray[np.int64]]]:
    """Return for each number of lists the mean recall and the vectors compared by each query."""
    order = np.argsort(labels, kind="stable")
    ends = np.searchsorted(labels[order], np.arange(len(centers) + 1))
    truth = np.argsort(-(queries @ rows.T), axis=1)[:, :NEAREST]
    nearest = np.argsort(-(queries @ centers.T), axis=1)
    found = []
    for n_probe in probes:
        hits, work = 0, []
        for i, query in enumerate(queries):
            lists = nearest[i, :n_probe]
            ids = np.concatenate([order[ends[k] : ends[k + 1]] for k in lists])
            work.append(len(ids))
            best = ids[np.argsort(-(rows[ids] @ query))[:NEAREST]]
            hits += len(np.intersect1d(best, truth[i]))
        found.append((hits / (NEAREST * len(queries)), np.asarray(work)))
    return found


def compare(n: int = 20_000, k: int = 100, d: int = 32, seed: int = 0) -> list[Row]:
    """Search four indexes of the same rows."""
    rows, queries = mixture(n, k // 2, d, seed)
    uniforms = np.random.default_rng(seed).random((k, 4))
    start = dc.kmeans_plus_plus(rows[: 20 * k], uniforms)
    free = dc.kmeans(rows, start, max_iter=10)
    tables = {"k-means": (free.centers, np.asarray(free.labels))}
    for name, ratio in (("at most 2 n/k", 2.0), ("at most 1.1 n/k", 1.1)):
        bounds = dc.SizeBounds.from_ratios(k, n_samples=n, lower=0.0, upper=ratio)
        found = dc.constrained_kmeans(rows, bounds, start, max_iter=10)
        assert found.assignment.violation == 0
        tables[name] = (found.centers, found.assignment.labels)
        if ratio == 2.0:  # the lists alone are bounded: centers stay those of k-means
            only = dc.assign_offline(rows @ free.centers.T, bounds)
            tables["k-means, lists cut to 2 n/k"] = (free.centers, only.labels)
    probes = [1, 2, 4, 8, 16, 32]
    result = []
    for name, (centers, labels) in tables.items():
        longest = int(np.bincount(labels, minlength=k).max())
        for n_probe, (recall, work) in zip(
            probes, search(rows, queries, centers, labels, probes), strict=True
        ):
            p99 = float(np.quantile(work, 0.99))
            result.append(Row(name, n_probe, recall, float(work.mean()), p99, longest))
    return result


def draw(table: list[Row], path: Path) -> None:
    """Draw recall against mean work, and against the work of the slowest queries."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    for name in dict.fromkeys(row.index for row in table):
        mine = [row for row in table if row.index == name]
        label = f"{name} (longest list {mine[0].longest})"
        recall = [row.recall for row in mine]
        left.plot([row.mean_work for row in mine], recall, marker="o", label=label)
        right.plot([row.p99_work for row in mine], recall, marker="o", label=label)
    for axes, what in ((left, "mean query"), (right, "99th percentile")):
        axes.set(xscale="log", xlabel=f"vectors compared, {what}")
        axes.set_xticks(
            [250, 500, 1000, 2000, 4000, 8000],
            labels=["250", "500", "1,000", "2,000", "4,000", "8,000"],
        )
        axes.minorticks_off()
    left.set_ylabel(f"recall at {NEAREST}")
    right.legend(fontsize="x-small", loc="lower right")
    figure.savefig(path, dpi=120)


def main(folder: Path, *, small: bool = False) -> list[Row]:
    """Write ``inverted_lists.png`` and ``inverted_lists.csv``; returns the table."""
    table = compare(4_000, 40, 16) if small else compare()
    with (folder / "inverted_lists.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(Row._fields)
        for row in table:
            writer.writerow(f"{x:.4g}" if isinstance(x, float) else x for x in row)
    draw(table, folder / "inverted_lists.png")
    return table


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    main(parser.parse_args().folder)
