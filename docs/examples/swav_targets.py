"""A SwAV-style loop with Sinkhorn's targets, and with `BalancedLabels` in their place.

Two views of each image; the targets of one view are what the other has to predict, over prototypes.
The runs differ in one line, that which makes targets: Sinkhorn with three rounds at a temperature
of 0.05, as SwAV has it, or of 0.02, or soft or hard labels inside bounds. Digits are of unequal
number, 178 zeros falling to 18 nines, and the bounds allow that.

``python docs/examples/swav_targets.py docs/images`` draws the figure, in a few minutes.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from loop_parts import Data, Loop, Run, Targets, compare, digits, show
from torch import Tensor
from torch.nn.functional import cross_entropy

from dualclust.algos.baselines import SWAV, SinkhornOptions, sinkhorn, soft_plan
from dualclust.torch import BalancedLabels

K = 10


def by_sinkhorn(scores: Tensor, options: SinkhornOptions = SWAV) -> Tensor:
    """Return SwAV's targets of a batch, of which nothing is kept."""
    prices = sinkhorn(scores, options=options).prices
    return soft_plan(scores, prices, epsilon=options.epsilon)


def train(targets_of: Targets, data: Data, *, epochs: int = 30, seed: int = 0) -> Run:
    """Train an encoder and its prototypes by swapped prediction."""
    loop = Loop(data, seed, n_clusters=K)
    for _ in range(epochs):
        for rows in loop.batches():
            one, two = (loop.encoder(loop.view(rows)) for _ in range(2))
            q_one, q_two = (targets_of(scores.detach()) for scores in (one, two))
            loop.measure(q_one)
            loop.step(cross_entropy(one / 0.1, q_two) + cross_entropy(two / 0.1, q_one))
    return loop.judged()


COLD = replace(SWAV, epsilon=0.02)
RULES: dict[str, Callable[[], Targets]] = {
    "Sinkhorn at 0.05": lambda: by_sinkhorn,
    "Sinkhorn at 0.02": lambda: partial(by_sinkhorn, options=COLD),
    "soft at 0.02, 0.2 to 2.75": lambda: BalancedLabels(K, lower=0.2, upper=2.75, epsilon=0.02),
    "hard, 0.2 to 2.75": lambda: BalancedLabels(K, kind="hard", lower=0.2, upper=2.75),
}


def draw(runs: dict[str, list[Run]], path: Path) -> None:
    """Draw the NMI of each run, and the sizes of its batches."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 2.6), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    for row, found in enumerate(runs.values()):
        left.plot([run.nmi for run in found], [row] * len(found), "o", color="C0", alpha=0.6)
        ends = [min(run.sizes[0] for run in found), max(run.sizes[1] for run in found)]
        right.plot(ends, [row, row], "|-", color="C1", linewidth=4, markersize=14)
    left.set_yticks(range(len(runs)), list(runs))
    left.set_ylim(len(runs) - 0.5, -0.5)
    left.set_xlabel("NMI of each seed")
    right.set_xlabel("sizes in the batches of the last epoch, n / k")
    figure.savefig(path, dpi=120)


def main(folder: Path, *, small: bool = False) -> dict[str, list[Run]]:
    """Write ``swav_targets.png``; returns the runs."""
    runs = compare(train, RULES, digits(long_tailed=True), small=small, seeds=5)
    draw(runs, folder / "swav_targets.png")
    return runs


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    show(main(parser.parse_args().folder))
