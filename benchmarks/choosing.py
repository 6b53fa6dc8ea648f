"""May a score without labels choose among procedures? Four of them beside ACC, on twelve sets.

Nine procedures cluster each set from five seeds. Of every labeling two scores are known: the share
of a row's ten nearest neighbors that have its label, and the generalization score of TURTLE
(Gadetsky et al., arXiv 2406.07236): how well a linear classifier that has learned the labels on
four fifths of the rows knows those of the last fifth. Of every procedure two more: the mean ARI of
its labelings from two seeds, and of the labelings of all rows by the models of two halves. Spearman
correlations with ACC are within a set: of labelings for the first two, of procedures for the
others. `gain` is the ACC of what a score chooses less that of the graph with 15 neighbors.

    python -m benchmarks.choosing --mnist mnist.npz --features F.npy --classes y.npy
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine, make_blobs
from sklearn.linear_model import RidgeClassifier
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import StratifiedKFold, cross_val_score

from benchmarks.photographs import uneven
from dualclust import ConstrainedKMeans, SpectralConstrainedKMeans
from dualclust.algos.clustering.metrics import clustering_scores
from dualclust.algos.clustering.neighbor_graph import nearest_rows

SEEDS, NEIGHBORS, FOLDS, MOST = 5, 10, 5, 2500
DEFAULT = "graph 15"
SCORES = ("held-out", "neighbors", "seeds", "halves")

Rows = NDArray[np.float64]
Labels = NDArray[np.int64]


class Set(NamedTuple):
    """Standardized rows and classes, which score alone."""

    rows: Rows
    classes: Labels


def standardized(rows: Any, classes: Any) -> Set:
    """Center and scale columns; a constant one is left at 0."""
    rows = np.asarray(rows, np.float64)
    spread = rows.std(axis=0)
    return Set((rows - rows.mean(axis=0)) / np.where(spread > 0, spread, 1.0), np.asarray(classes))


def some(rows: Any, classes: Any) -> tuple[Any, Any]:
    """At most `MOST` rows, drawn once."""
    kept = np.sort(np.random.default_rng(0).permutation(len(rows))[:MOST])
    return rows[kept], classes[kept]


def sets(options: argparse.Namespace) -> Iterator[tuple[str, Set]]:
    """Yield name and set; an uneven one has a class ten times as large as another."""
    for name, load in (("iris", load_iris), ("wine", load_wine), ("cancer", load_breast_cancer)):
        yield name, standardized(*load(return_X_y=True))
    for name, spreads, sizes in (
        ("blobs", [1.0] * 8, [150] * 8),
        ("blobs of several spreads", np.linspace(0.5, 3.0, 8).tolist(), [150] * 8),
        ("uneven blobs", [1.5] * 6, [600, 300, 200, 120, 80, 60]),
    ):
        drawn = make_blobs(sizes, 12, cluster_std=spreads, center_box=(-3, 3), random_state=0)
        yield name, standardized(*drawn[:2])
    large = [("digits", *load_digits(return_X_y=True))]
    if options.mnist is not None:
        with np.load(options.mnist) as found:
            images, classes = found["test_images"], found["test_labels"].astype(np.int64)
        large.append(("MNIST", images.reshape(len(images), -1) / 255.0, classes))
    if options.features is not None:
        large.append(("CIFAR-10, lite2", np.load(options.features), np.load(options.classes)))
    for place, (name, rows, classes) in enumerate(large):
        yield name, standardized(*some(rows, classes))
        order = np.random.default_rng(place).permutation(10).tolist()
        largest = min(600, int(np.bincount(classes).min()))
        kept = uneven(classes, order, largest)
        yield f"uneven {name}", standardized(rows[kept], classes[kept])


Fit = Callable[[Rows, int, int], Any]


def procedures() -> dict[str, Fit]:
    """Return what makes a model that has `predict` from rows, k and a seed."""

    def k_means(**more: Any) -> Fit:
        return lambda rows, k, seed: ConstrainedKMeans(k, n_init=3, random_state=seed, **more).fit(
            rows
        )

    def graph(neighbors: int, **more: Any) -> Fit:
        def fit(rows: Rows, k: int, seed: int) -> Any:
            near = min(neighbors, len(rows) - 1)
            model = SpectralConstrainedKMeans(k, n_neighbors=near, random_state=seed, **more)
            return model.fit(rows)

        return fit

    def mixture(rows: Rows, k: int, seed: int) -> Any:
        return GaussianMixture(k, covariance_type="diag", random_state=seed, reg_covar=1e-3).fit(
            rows
        )

    tight = {"lower": 0.8, "upper": 1.2}
    return {
        "k-means": k_means(),
        "k-means, cosine": k_means(metric="cosine"),
        "k-means, 0.8 to 1.2": k_means(metric="cosine", **tight),
        "mixture": mixture,
        **{f"graph {m}": graph(m) for m in (5, 15, 30, 60)},
        "graph 15, 0.8 to 1.2": graph(15, **tight),
    }


def held_out(data: Set, labels: Labels, seed: int) -> float:
    """TURTLE's generalization score; a cluster smaller than the folds is in some of them."""
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
    return float(cross_val_score(RidgeClassifier(), data.rows, labels, cv=folds).mean())


class Found(NamedTuple):
    """Of one procedure: figures of each seed, and those of all."""

    acc: list[float]
    scores: dict[str, list[float]]


def measured(data: Set, fit: Fit, near: Labels) -> Found:
    """Cluster from each seed, and from both halves of the rows."""
    k, n = len(np.unique(data.classes)), len(data.rows)
    labelings, halves = [], []
    for seed in range(SEEDS):
        labelings.append(np.asarray(fit(data.rows, k, seed).predict(data.rows)))
        order = np.random.default_rng(seed).permutation(n)
        parts = [fit(data.rows[part], k, seed) for part in np.array_split(order, 2)]
        halves.append(adjusted_rand_score(*(model.predict(data.rows) for model in parts)))
    pairs = [(a, b) for a in range(SEEDS) for b in range(a)]
    agreed = [adjusted_rand_score(labelings[a], labelings[b]) for a, b in pairs]
    return Found(
        [clustering_scores(data.classes, labels).acc for labels in labelings],
        {
            "held-out": [held_out(data, labels, i) for i, labels in enumerate(labelings)],
            "neighbors": [float((x[near] == x[:, None]).mean()) for x in labelings],
            "seeds": [float(np.mean(agreed))],
            "halves": [float(np.mean(halves))],
        },
    )


def correlation(found: dict[str, Found], score: str) -> float:
    """Spearman's correlation with ACC, within one set."""
    acc, told = [], []
    for one in found.values():
        values = one.scores[score]
        acc += one.acc if len(values) > 1 else [float(np.mean(one.acc))]
        told += values
    return float(spearmanr(acc, told).statistic) if min(len({*acc}), len({*told})) > 1 else 0.0


def chosen(found: dict[str, Found], score: str) -> float:
    """Mean ACC of the procedure with the best mean score."""
    best = max(found, key=lambda name: float(np.mean(found[name].scores[score])))
    return float(np.mean(found[best].acc))


def rows_of(options: argparse.Namespace) -> Iterator[str]:
    """Yield the lines of the table."""
    yield "| set | rows, k | worst, default, best ACC | " + " | ".join(SCORES) + " |"
    yield "|---" * (3 + len(SCORES)) + "|"
    kept: dict[str, list[tuple[float, float]]] = {score: [] for score in SCORES}
    for name, data in sets(options):
        unit = data.rows / np.linalg.norm(data.rows, axis=1, keepdims=True)
        near = nearest_rows(unit, NEIGHBORS)
        found = {label: measured(data, fit, near) for label, fit in procedures().items()}
        means = {label: float(np.mean(one.acc)) for label, one in found.items()}
        ends = min(means.values()), means[DEFAULT], max(means.values())
        cells = []
        for score in SCORES:
            own = correlation(found, score), chosen(found, score) - means[DEFAULT]
            kept[score].append(own)
            cells.append(f"{own[0]:+.2f} ({own[1]:+.3f})")
        size = f"{len(data.rows):,}, {len(np.unique(data.classes))}"
        figures = " ".join(f"{x:.3f}" for x in ends)
        yield f"| {name} | {size} | {figures} | " + " | ".join(cells) + " |"
    mean = [np.mean(kept[score], axis=0) for score in SCORES]
    least = [np.min(kept[score], axis=0) for score in SCORES]
    for title, both in (("mean", mean), ("least", least)):
        cells = [f"{own[0]:+.2f} ({own[1]:+.3f})" for own in both]
        yield f"| {title} | | | " + " | ".join(cells) + " |"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--mnist", type=Path, metavar="FILE", help="an .npz with test images")
    parser.add_argument("--features", type=Path, metavar="FILE", help="an .npy of CIFAR-10's")
    parser.add_argument("--classes", type=Path, metavar="FILE", help="their classes, an .npy")
    started = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of small clusters in folds, and of mixtures
        for line in rows_of(parser.parse_args(arguments)):
            print(line, flush=True)
    print(f"{time.process_time() - started:.0f} CPU seconds")
    return 0


if __name__ == "__main__":
    sys.exit(main())
