"""Draw what a gap is: the bound D of every price, and labels below it.

Two clusters, each owed half of 200 samples: then one price, that of the second cluster, says all.

``python docs/examples/gap_picture.py docs/images`` draws the figure, in seconds.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import dualclust as dc
from dualclust.algos.online import dual_value, objective


def main(folder: Path, *, small: bool = False) -> float:
    """Write ``gap.png``; returns the gap at the best price drawn."""
    from matplotlib.figure import Figure

    n = 200
    rng = np.random.default_rng(3)
    scores = np.stack([rng.normal(0.6, 0.4, n), rng.normal(0.0, 0.4, n)], axis=1)
    bounds = dc.SizeBounds.from_counts([n // 2] * 2, [n // 2] * 2, n_samples=n)
    best = dc.assign_exact(scores, bounds)
    by_hand = np.asarray([0] * (n // 2) + [1] * (n // 2))  # the first half, the second half
    room, cut = [n // 2, n // 2], []
    for row in scores:  # in order, while there is room
        k = int(row.argmax()) if room[int(row.argmax())] else int(row.argmin())
        room[k] -= 1
        cut.append(k)
    prices = np.linspace(-0.4, 1.8, 23 if small else 111)
    curve = np.asarray([dual_value(scores, np.asarray([0.0, p]), bounds) for p in prices])
    value = {
        "the best inside the bounds": (best.objective, "C2"),
        "in order, while there is room": (objective(scores, np.asarray(cut)), "C1"),
        "the first half, the second half": (objective(scores, by_hand), "C3"),
    }

    figure = Figure(figsize=(8, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    left.plot(prices, curve, color="0.2", label="bound D of each price")
    top = objective(scores, scores.argmax(axis=1))
    left.axhline(top, color="0.6", linestyle=":", label="argmax: breaks the bounds")
    for name, (height, color) in value.items():
        left.axhline(height, color=color, linestyle="--", label=name)
    left.set(xlabel="price of the second cluster", ylabel="total score")
    left.legend(fontsize="x-small", loc="upper left")
    left.set_ylim(value["the first half, the second half"][0] - 10, curve.max() + 60)
    for name, (height, color) in value.items():
        right.semilogy(
            prices, np.maximum((curve - height) / abs(height), 1e-4), color=color, label=name
        )
    right.set(xlabel="price of the second cluster", ylabel="gap proven by that price")
    figure.suptitle("Every price bounds the best total score, and so proves a gap")
    figure.savefig(folder / "gap.png", dpi=120)
    return float((curve.min() - best.objective) / best.objective)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    print(main(parser.parse_args().folder))
