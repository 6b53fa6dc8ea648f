"""Folds that are stratified to within one sample, and that keep like with like.

Cross-validation is too hopeful where a test fold holds near-copies of training samples. Here each
class is spread over the folds evenly, to within one sample, and inside a class samples that
resemble each other go into one fold: constrained k-means with folds for clusters. Beside it stands
scikit-learn's stratified split, which has the same sizes and takes samples at random.

``python docs/examples/stratified_splits.py docs/images`` draws the figure, in seconds.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.model_selection import StratifiedKFold

import dualclust as dc

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]
FOLDS = 5


class Split(NamedTuple):
    """A split: samples of each class in each fold, and what the nearest neighbor makes of it."""

    table: Labels
    nearest: Floats
    accuracy: float


def alike_in_one_fold(rows: Floats, classes: Labels) -> Labels:
    """Return the fold of each row: one problem for each class, with folds for clusters."""
    fold = np.empty(len(rows), dtype=np.int64)
    for name in np.unique(classes):
        mine = np.flatnonzero(classes == name)
        equal = dc.SizeBounds.from_ratios(
            FOLDS, n_samples=len(mine), lower=1.0, upper=1.0, rounding="outward"
        )
        start = dc.kmeans_plus_plus(rows[mine], np.random.default_rng(int(name)).random(FOLDS))
        fold[mine] = dc.constrained_kmeans(rows[mine], equal, start).assignment.labels
    return fold


def at_random(rows: Floats, classes: Labels) -> Labels:
    """Return the folds of scikit-learn's stratified split."""
    fold = np.empty(len(rows), dtype=np.int64)
    splitter = StratifiedKFold(FOLDS, shuffle=True, random_state=0)
    for number, (_, mine) in enumerate(splitter.split(rows, classes)):
        fold[mine] = number
    return fold


def judge(rows: Floats, classes: Labels, fold: Labels) -> Split:
    """Label each row by its nearest neighbor in the other folds."""
    similarity = rows @ rows.T
    similarity[fold[:, None] == fold[None, :]] = -np.inf
    found = classes[similarity.argmax(axis=1)]
    table = np.histogram2d(classes, fold, bins=(classes.max() + 1, FOLDS))[0].astype(np.int64)
    return Split(table, similarity.max(axis=1), float((found == classes).mean()))


def draw(splits: dict[str, Split], path: Path) -> None:
    """Draw how near the nearest training sample of a test sample is."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3.0), layout="constrained")
    axes = figure.subplots()
    for name, split in splits.items():
        label = f"{name}: accuracy {split.accuracy:.3f}"
        axes.hist(split.nearest, bins=40, range=(0.8, 1.0), histtype="step", label=label)
    axes.set(xlabel="cosine to the nearest training sample", ylabel="test samples")
    axes.legend(fontsize="small", loc="upper left")
    figure.savefig(path, dpi=120)


def main(folder: Path, *, small: bool = False) -> dict[str, Split]:
    """Write ``stratified_splits.png``; returns both splits."""
    digits = load_digits()
    some = slice(400) if small else slice(None)
    rows, classes = digits.data[some], digits.target[some]
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    rules = {"at random": at_random, "alike in one fold": alike_in_one_fold}
    splits = {name: judge(rows, classes, rule(rows, classes)) for name, rule in rules.items()}
    draw(splits, folder / "stratified_splits.png")
    return splits


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    for name, split in main(parser.parse_args().folder).items():
        uneven = np.ptp(split.table, axis=1).max()
        print(f"{name}: uneven by {uneven}, nearest {split.nearest.mean():.4f}, {split.accuracy}")
