"""Share out stops among trucks: a truck carries 90 units, however many stops that is.

Eighty stops ask for 1 to 20 units each. k-means with bounds on *counts* (nine to eleven stops a
truck) overloads trucks that get large orders. With bounds on *loads* no truck carries more than it
holds, and the certificate says how far the labels can be from the best ones for these centers.

``python docs/examples/trucks.py docs/images`` draws the figure, in seconds.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import dualclust as dc
from dualclust.algos.bounds import LoadBounds
from dualclust.algos.clustering import start_centers, weighted_kmeans

TRUCKS, CARRIES = 8, 90.0


class Plan(NamedTuple):
    """A way to share out stops: the truck of each, what each carries, and squared distances."""

    name: str
    labels: NDArray[np.int64]
    loads: NDArray[np.float64]
    cost: float


def problem(seed: int = 0) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return places of stops in a town of five quarters, and what each asks for."""
    rng = np.random.default_rng(seed)
    quarters = rng.uniform(0.0, 10.0, (5, 2))
    places = quarters[rng.integers(0, 5, 80)] + rng.normal(size=(80, 2))
    demand = rng.integers(1, 21, 80).astype(float)
    return places, np.floor(demand * (0.97 * TRUCKS * CARRIES / demand.sum())).clip(1.0)


def plans(seed: int = 0) -> tuple[list[Plan], float]:
    """Share out by counts and by loads; also the gap that is proven of the second."""
    places, demand = problem(seed)
    sizes = dc.SizeBounds.from_ratios(TRUCKS, n_samples=len(places), lower=0.9, upper=1.1)
    source = dc.feature_source(places)
    start = start_centers(source, TRUCKS, seed=seed, metric="euclidean")
    by_count = dc.constrained_kmeans(places, sizes, start, metric="euclidean")
    by_load = weighted_kmeans(
        places,
        LoadBounds.from_loads(demand, TRUCKS, upper=CARRIES),
        by_count.centers,
        metric="euclidean",
    )
    found = [
        Plan(
            name,
            labels,
            np.bincount(labels, demand, minlength=TRUCKS),
            float(((places - centers[labels]) ** 2).sum()),
        )
        for name, labels, centers in (
            ("bounds on counts", by_count.labels, by_count.centers),
            ("bounds on loads", by_load.assignment.labels, by_load.centers),
        )
    ]
    return found, by_load.assignment.gap


def draw(found: list[Plan], path: Path, seed: int = 0) -> None:
    """Draw the stops by truck, and what each truck carries."""
    from matplotlib.figure import Figure

    places, demand = problem(seed)
    figure = Figure(figsize=(8, 5.4), layout="constrained")
    for (left, right), plan in zip(figure.subplots(2, 2, width_ratios=(1, 1)), found, strict=True):
        left.scatter(*places.T, c=plan.labels, s=4 * demand, cmap="tab10", vmax=9)
        left.set(title=f"{plan.name}: squared distances {plan.cost:.0f}", xticks=[], yticks=[])
        colors = ["C3" if load > CARRIES else "0.6" for load in plan.loads]
        right.bar(range(TRUCKS), plan.loads, color=colors)
        right.axhline(CARRIES, color="0.2", linewidth=0.8)
        right.set(xlabel="truck", ylabel="units")
    figure.savefig(path, dpi=120)


def main(folder: Path, *, small: bool = False) -> list[Plan]:
    """Write ``trucks.png``; returns both plans."""
    found, gap = plans()
    assert gap < 0.1
    assert found[0].loads.max() > CARRIES >= found[1].loads.max()
    draw(found, folder / "trucks.png")
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    for plan in main(parser.parse_args().folder):
        print(f"{plan.name}: loads {plan.loads.min():g} to {plan.loads.max():g}, {plan.cost:.1f}")
