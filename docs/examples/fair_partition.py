"""Deal samples to clients: equal shares, and what each client would rather have.

Twelve clients of unequal speed each take a share of the digits. Every client prefers some samples
(those that resemble the three it already has), and must get between 0.95 and 1.05 times what its
speed allows. Per-client bounds are counts; the best partition inside them comes with a
proof, and the prices say which client holds the others back. Greedy choice and cutting greedy lists
to size stand beside it. Batches that must hold every kind of sample are the same problem: one
"cluster" a batch, and scores that reward what the batch still lacks.

``python docs/examples/fair_partition.py docs/images`` draws the figure, in seconds.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

import dualclust as dc

Floats = NDArray[np.float64]
CLIENTS = 12


class Partition(NamedTuple):
    """A way to deal: how many samples each client gets, and the mean score."""

    name: str
    counts: NDArray[np.int64]
    mean_score: float


def problem(seed: int = 0) -> tuple[Floats, dc.SizeBounds]:
    """Return the wish of each client for each sample, and bounds by the speed of the clients."""
    pixels = load_digits().data
    rows = pixels / np.linalg.norm(pixels, axis=1, keepdims=True)
    rng = np.random.default_rng(seed)
    # What a client has: the mean of three digits. Some means resemble more samples than others.
    has = [rows[rng.choice(len(rows), size=3, replace=False)].mean(axis=0) for _ in range(CLIENTS)]
    wishes = rows @ np.stack(has).T
    speed = rng.uniform(1.0, 4.0, size=CLIENTS)
    fair = speed / speed.sum() * len(rows)
    lower, upper = np.floor(0.95 * fair), np.ceil(1.05 * fair)
    bounds = dc.SizeBounds.from_counts(
        lower.astype(int).tolist(), upper.astype(int).tolist(), n_samples=len(rows)
    )
    return wishes, bounds


def cut_to_size(wishes: Floats, bounds: dc.SizeBounds) -> NDArray[np.int64]:
    """Give each sample, in order, its best client that still has room; the usual hand-made rule."""
    labels = np.empty(len(wishes), dtype=np.int64)
    room = np.asarray(bounds.upper).copy()
    owed = np.asarray(bounds.lower).copy()
    for i, row in enumerate(wishes):
        left = len(wishes) - i
        open_ = owed > 0 if owed.clip(0).sum() >= left else room > 0
        labels[i] = np.argmax(np.where(open_, row, -np.inf))
        room[labels[i]] -= 1
        owed[labels[i]] -= 1
    return labels


def partitions(seed: int = 0) -> tuple[list[Partition], dc.OfflineAssignment, dc.SizeBounds]:
    """Deal three ways; also the certified one in full, and the bounds."""
    wishes, bounds = problem(seed)
    best = dc.assign_exact(wishes, bounds)
    ways = {
        "each sample to who wants it most": wishes.argmax(axis=1),
        "the same, while there is room": cut_to_size(wishes, bounds),
        "assign_exact": best.labels,
    }
    found = [
        Partition(
            name,
            np.bincount(labels, minlength=CLIENTS),
            float(np.take_along_axis(wishes, labels[:, None], axis=1).mean()),
        )
        for name, labels in ways.items()
    ]
    return found, best, bounds


def draw(
    found: list[Partition], best: dc.OfflineAssignment, bounds: dc.SizeBounds, path: Path
) -> None:
    """Draw what each client gets beside what it may get, and the prices."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(2, 1))
    place = np.arange(CLIENTS)
    left.bar(
        place,
        bounds.upper - bounds.lower,
        bottom=bounds.lower,
        width=0.9,
        color="0.8",
        label="allowed",
    )
    for way, mark in zip(found, "xo_", strict=True):
        label = f"{way.name}: mean score {way.mean_score:.4f}"
        left.scatter(place, way.counts, marker=mark, label=label, zorder=3)
    left.set(xlabel="client", ylabel="samples", ylim=(0, 520))
    left.legend(fontsize="x-small")
    right.bar(place, best.prices)
    right.axhline(0.0, color="0.3", linewidth=0.8)
    right.set(xlabel="client", title="price: above 0 too few want it", ylabel="units of score")
    right.title.set_fontsize("small")
    figure.savefig(path, dpi=120)


def main(folder: Path, *, small: bool = False) -> list[Partition]:
    """Write ``fair_partition.png``; returns the three partitions."""
    found, best, bounds = partitions()
    assert best.status == "optimal"
    assert best.violation == 0
    draw(found, best, bounds, folder / "fair_partition.png")
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    for way in main(parser.parse_args().folder):
        print(f"{way.name}: {way.counts.min()} to {way.counts.max()}, {way.mean_score:.4f}")
