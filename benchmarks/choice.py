"""How often the right k is recommended, and how far the figures of a sample are from those of all.

Each case of the first table has a known number of clusters, or none; a rule names one of `KS`, or
none. No rule sees a label. The cases are not those on which the thresholds of `recommend_k` were
chosen: other seeds, sizes and kinds of noise.

    python benchmarks/choice.py                    # both tables, about five minutes on one core
    python benchmarks/choice.py --only rules --cases uniform --seeds 1
    python benchmarks/choice.py --mnist mnist.npz  # with the digits of MNIST
"""

from __future__ import annotations

import argparse
import math
import platform
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

import dualclust as dc
from dualclust.algos.clustering import start_centers
from dualclust.algos.selection import ChoiceOfK, choose_k, reference_rows
from dualclust.algos.selection._runs import FREE, runs_of

Rows = NDArray[np.float32]

KS = [2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 30]
APART = 5.0
"""Least distance of two centers, in standard deviations of a cluster."""


class Case(NamedTuple):
    """Rows with a known number of clusters; 0 if there are none."""

    group: str
    truth: int
    rows: Rows


def centers(rng: np.random.Generator, k: int, d: int) -> NDArray[np.float64]:
    """Draw centers at least `APART` from each other, in a box that is hardly larger than needed."""
    side = APART * k ** (1.0 / d)
    while True:
        found: list[NDArray[np.float64]] = []
        for _ in range(4000):
            point = rng.uniform(0.0, side, d)
            if all(np.linalg.norm(point - other) >= APART for other in found):
                found.append(point)
            if len(found) == k:
                return np.array(found)
        side *= 1.1


def blobs(seed: int, k: int, d: int, kind: str) -> Rows:
    """Draw round clusters, some of them up to four times smaller, or narrower by half."""
    rng = np.random.default_rng([seed, k, d])
    at = centers(rng, k, d)
    shares = rng.uniform(0.25, 1.0, k) if kind == "unequal sizes" else np.ones(k)
    spreads = rng.uniform(0.5, 1.2, k) if kind == "unequal spreads" else np.ones(k)
    labels = rng.choice(k, max(800, 60 * k), p=shares / shares.sum())
    noise = rng.normal(size=(len(labels), d)) * spreads[labels, None]
    return (at[labels] + noise).astype(np.float32)


def noise(seed: int, d: int, kind: str) -> Rows:
    """Draw rows without clusters."""
    rng = np.random.default_rng([seed, d])
    shape = (800, d)
    draw: dict[str, Callable[[], NDArray[Any]]] = {
        "uniform": lambda: rng.uniform(size=shape),
        "normal": lambda: rng.normal(size=shape),
        "stretched": lambda: rng.normal(size=shape) / np.arange(1, d + 1),
        "exponential": lambda: rng.exponential(size=shape),
        "heavy tails": lambda: rng.standard_t(4, size=shape),
    }
    return draw[kind]().astype(np.float32)


def mnist(path: Path, n: int, seed: int = 0) -> tuple[Rows, NDArray[Any]]:
    """Read n images as their first 50 principal components."""
    file = np.load(path)
    ids = np.random.default_rng(seed).permutation(len(file["train_images"]))[:n]
    rows = file["train_images"][ids].reshape(n, -1).astype(np.float32) / 255.0
    rows -= rows.mean(axis=0)
    _, directions = np.linalg.eigh(rows.T @ rows)
    return np.ascontiguousarray(rows @ directions[:, ::-1][:, :50]), file["train_labels"][ids]


def cases(seeds: int, images: Path | None) -> Iterator[Case]:
    """Yield all cases of the first table."""
    for seed in range(100, 100 + seeds):
        for d in (2, 8, 64):
            for kind in ("uniform", "normal", "stretched", "exponential", "heavy tails"):
                yield Case(f"no clusters: {kind}", 0, noise(seed, d, kind))
        yield Case("digits of scikit-learn", 10, load_digits().data.astype(np.float32))
        if images is not None:
            yield Case("MNIST, 2,000 x 50", 10, mnist(images, 2000, seed)[0])
        for d in (2, 8, 64):
            for kind in ("equal", "unequal sizes", "unequal spreads"):
                for k in (3, 5, 8, 12, 20):
                    yield Case(f"{kind}, d = {d}", k, blobs(seed, k, d, kind))


def squares(rows: Rows) -> float:
    """Return the sum of squared distances to the mean."""
    wide = rows.astype(np.float64)
    return float(((wide - wide.mean(axis=0)) ** 2).sum())


def gap_rule(rows: Rows, within: NDArray[np.float64]) -> int:
    """Choose by the gap statistic: the first k whose gap is within an error of the next one's."""
    logs = []
    for draw in range(2):
        null = reference_rows(rows, metric="euclidean", seed=1000 + draw)
        total, of_k = squares(null), []
        for k in KS:
            [run] = runs_of(null, k, (FREE,), metric="euclidean", seed=0, n_init=1)
            apart = null - run.centers[run.labels]
            of_k.append(math.log(max(float((apart.astype(np.float64) ** 2).sum()), 1e-30 * total)))
        logs.append(of_k)
    gaps = np.mean(logs, axis=0) - np.log(within)
    errors = np.std(logs, axis=0) * math.sqrt(1.0 + 1.0 / 2.0)
    fits = [i for i in range(len(KS) - 1) if gaps[i] >= gaps[i + 1] - errors[i + 1]]
    return KS[fits[0]] if fits else KS[-1]


def rules(rows: Rows, found: ChoiceOfK) -> dict[str, int]:
    """Return what each rule names; 0 for none."""
    n, ks = len(rows), np.array(KS)
    silhouette, stability = found.silhouette[:, 0], found.stability[:, 0]
    total, between = squares(rows), 2.0 * n * found.objective[:, 0]
    within = np.maximum(total - between, 1e-30 * total)
    # The elbow: farthest below the line from the first to the last point of the curve.
    x, y = (ks - ks[0]) / (ks[-1] - ks[0]), (within - within[-1]) / (within[0] - within[-1])
    merit = np.maximum(silhouette - found.reference, 0.0) * np.maximum(stability, 0.0)
    return {
        "silhouette": KS[int(silhouette.argmax())],
        "stability": KS[int(stability.argmax())],
        "elbow": KS[int((1.0 - x - y).argmax())],
        "Calinski-Harabasz": KS[int((between / (ks - 1) / within * (n - ks)).argmax())],
        "gap statistic": gap_rule(rows, within),
        "silhouette, stable": (
            KS[int(np.where(stability >= 0.75, silhouette, -1.0).argmax())]
            if stability.max() >= 0.75
            else 0
        ),
        "excess x stability": KS[int(merit.argmax())],
        "ours": found.recommended or 0,
    }


def rules_table(seeds: int, images: Path | None, only: str) -> list[str]:
    """Return the first table: how often each rule is right."""
    right: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    counts: dict[str, int] = defaultdict(int)
    refused: dict[str, int] = defaultdict(int)
    for case in cases(seeds, images):
        if only not in case.group:
            continue
        found = choose_k(case.rows, KS, metric="euclidean")
        named = rules(case.rows, found)
        for rule, k in named.items():
            right[case.group][rule] += k == case.truth
        counts[case.group] += 1
        refused[case.group] += found.recommended is None
        print(case.group, case.truth, named, found.reason, file=sys.stderr)
        for name in ("silhouette", "reference", "stability", "stability_error"):
            values = getattr(found, name)
            values = values if values.ndim == 1 else values[:, 0]
            print(f"  {name:10}", *(f"{v:.3f}" for v in values), file=sys.stderr, flush=True)
    names = list(next(iter(right.values())))
    lines = [
        f"| data | cases | {' | '.join(names)} | ours: none |",
        "|---" * (len(names) + 3) + "|",
    ]
    for group, n in counts.items():
        cells = " | ".join(str(right[group][name]) for name in names)
        lines.append(f"| {group} | {n} | {cells} | {refused[group]} |")
    return lines


def full_answer(rows: Rows, k: int, metric: str) -> tuple[float, float]:
    """Return the mean objective of all rows clustered together, and the price of 0.9 to 1.1."""
    source = dc.feature_source(rows)
    best = -math.inf
    for seed in range(2):
        start = start_centers(source, k, seed=seed, metric=metric)
        run = dc.kmeans(rows, start, metric=metric, tol=1e-3)
        if run.objective > best:
            best, start = run.objective, run.centers
            at = start
    bounds = dc.SizeBounds.from_ratios(
        k, n_samples=len(rows), lower=0.9, upper=1.1, rounding="outward"
    )
    bound = dc.constrained_kmeans(rows, bounds, at, metric=metric, tol=1e-3)
    labels = dc.kmeans(rows, bound.centers, metric=metric, max_iter=0).objective
    best = max(best, labels)
    return best / len(rows), (best - bound.objective) / best


def sample_table(images: Path | None) -> list[str]:
    """Return the second table: figures of a sample beside those of all rows."""
    sets = {"blobs, 50,000 x 16, 20 clusters": big_blobs(50_000, 16, 20)}
    if images is not None:
        sets["MNIST, 10,000 x 50"] = mnist(images, 10_000)[0]
    lines = [
        "| data | k | rows drawn | squared distances of all rows, sample's centers over full run's "
        "| silhouette, sample | all rows | price of 0.9 to 1.1, sample | proven on all rows "
        "| full run |",
        "|---" * 9 + "|",
    ]
    for name, rows in sets.items():
        half = 0.5 * squares(rows) / len(rows)
        for k in (10, 20):
            best, price = full_answer(rows, k, "euclidean")
            for drawn in (32 * k, 128 * k, 512 * k):
                found = choose_k(
                    rows,
                    [k],
                    shares=[(0.9, 1.1)],
                    metric="euclidean",
                    n_drawn=drawn,
                    n_splits=2,
                )
                ratio = (half - found.all_objective[0, 0]) / (half - best)
                drawn_price, proven = found.price[0, 1], found.all_price_proven[0, 1]
                figures = (
                    f"{ratio:.4f} | {found.silhouette[0, 0]:.3f} | {found.all_silhouette[0, 0]:.3f}"
                    f" | {100 * drawn_price:.2f} % | {100 * proven:.2f} % | {100 * price:.2f} %"
                )
                lines.append(f"| {name} | {k} | {drawn:,} | {figures} |")
                print(lines[-1], file=sys.stderr, flush=True)
    return lines


def big_blobs(n: int, d: int, k: int) -> Rows:
    """Draw overlapping clusters of unequal sizes."""
    rng = np.random.default_rng(0)
    at, shares = rng.normal(size=(k, d)) * 2.0, rng.uniform(0.25, 1.0, k)
    labels = rng.choice(k, n, p=shares / shares.sum())
    return (at[labels] + rng.normal(size=(n, d))).astype(np.float32)


def main() -> None:
    """Print the tables as Markdown."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", choices=["rules", "sample"], help="print one table only")
    parser.add_argument("--cases", default="", help="cases of the first table with this text")
    parser.add_argument("--seeds", type=int, default=1, help="seeds of each case (default 1)")
    parser.add_argument("--mnist", type=Path, help="mnist.npz with train_images, train_labels")
    options = parser.parse_args()
    began = time.process_time()
    print(
        f"{platform.machine()}, one core, Python {platform.python_version()}, "
        f"numpy {np.__version__}, dualclust {dc.__version__}\n"
    )
    if options.only != "sample":
        print(*rules_table(options.seeds, options.mnist, options.cases), "", sep="\n")
    if options.only != "rules":
        print(*sample_table(options.mnist), "", sep="\n")
    print(f"{time.process_time() - began:.0f} CPU seconds")


if __name__ == "__main__":
    main()
