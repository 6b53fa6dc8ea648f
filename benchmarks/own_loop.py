"""Sizes of clusters in a training loop: Sinkhorn on each batch beside prices kept between batches.

Rows are unit vectors around k prototypes, of which the j-th is wanted 1 / j times as often, with a
part in common that favors some prototypes for all rows. Scores are cosines. Each method labels the
same stream of batches; the sizes are those of the second half. Sinkhorn is SwAV's, three rounds at
epsilon 0.05, or run to convergence; the sign rule is that of expert balancing.

    python benchmarks/own_loop.py    # a minute on one core
"""

from __future__ import annotations

import argparse
import platform
import sys
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

import dualclust as dc
from dualclust.algos.baselines import SWAV, SinkhornOptions, sinkhorn, soft_plan, update_bias
from dualclust.torch import PricedLabels

Labeler = Callable[[Tensor], tuple[Tensor, Tensor]]
"""Scores of a batch, (b, k), to hard labels (b,) and soft ones (b, k)."""


class Row(NamedTuple):
    """One method on one stream; sizes are in units of n / k."""

    name: str
    smallest: float
    largest: float
    soft_smallest: float
    soft_largest: float
    score: float


def stream(k: int, b: int, n_batches: int, *, d: int = 32, seed: int = 0) -> Tensor:
    """Draw the scores of all batches, (n_batches, b, k)."""
    draws = torch.Generator().manual_seed(seed)
    prototypes = torch.nn.functional.normalize(torch.randn(k, d, generator=draws), dim=1)
    common = torch.nn.functional.normalize(torch.randn(d, generator=draws), dim=0)
    wanted = 1.0 / torch.arange(1, k + 1)
    classes = torch.multinomial(wanted, n_batches * b, replacement=True, generator=draws)
    noise = torch.randn(n_batches * b, d, generator=draws) * 0.15
    rows = torch.nn.functional.normalize(prototypes[classes] + common + noise, dim=1)
    return (rows @ prototypes.T).reshape(n_batches, b, k)


def by_sinkhorn(options: SinkhornOptions) -> Labeler:
    """Return a labeler that begins anew with each batch."""

    def label(scores: Tensor) -> tuple[Tensor, Tensor]:
        found = sinkhorn(scores, options=options)
        return found.labels, soft_plan(scores, found.prices, epsilon=options.epsilon)

    return label


def by_argmax(scores: Tensor) -> tuple[Tensor, Tensor]:
    """Label without prices."""
    nothing = torch.zeros(scores.shape[1], dtype=torch.float64)
    return scores.argmax(dim=1), soft_plan(scores, nothing, epsilon=SWAV.epsilon)


def by_sign(k: int, step_size: float) -> Labeler:
    """Return a labeler by the sign rule."""
    share = torch.full((k,), 1.0 / k, dtype=torch.float64)
    bias = torch.zeros(k, dtype=torch.float64)

    def label(scores: Tensor) -> tuple[Tensor, Tensor]:
        labels = (scores.double() + bias).argmax(dim=1)
        soft = soft_plan(scores, bias, epsilon=SWAV.epsilon)
        counts = torch.bincount(labels, minlength=k)
        moved = update_bias(
            bias,
            counts,
            len(labels),
            lower_share=share,
            upper_share=share,
            step_size=step_size,
        )
        bias.copy_(moved)
        return labels, soft

    return label


def by_prices(k: int, lower: float, upper: float) -> Labeler:
    """Return a labeler by prices; its soft labels are those of the same prices."""
    module = PricedLabels(k, lower=lower, upper=upper, epsilon=SWAV.epsilon)

    def label(scores: Tensor) -> tuple[Tensor, Tensor]:
        hard = (scores.double() + module.prices).argmax(dim=1)
        return hard, module(scores)

    return label


def measure(name: str, label: Labeler, batches: Tensor) -> Row:
    """Label a stream; the figures are those of its second half."""
    k, half = batches.shape[2], len(batches) // 2
    counts, mass = torch.zeros(k, dtype=torch.float64), torch.zeros(k, dtype=torch.float64)
    value = 0.0
    for number, scores in enumerate(batches):
        labels, soft = label(scores)
        if number >= half:
            counts += torch.bincount(labels, minlength=k)
            mass += soft.double().sum(dim=0)
            value += float(scores.gather(1, labels[:, None]).double().sum())
    sizes = [x / x.mean() for x in (counts, mass)]
    ends = [float(end) for x in sizes for end in (x.min(), x.max())]
    return Row(name, *ends, value / float(counts.sum()))


def table(k: int, b: int, n_batches: int) -> list[Row]:
    """Measure every method on one stream."""
    batches = stream(k, b, n_batches)
    methods: dict[str, Labeler] = {
        "argmax": by_argmax,
        "Sinkhorn, 3 rounds": by_sinkhorn(SWAV),
        "Sinkhorn, converged": by_sinkhorn(SinkhornOptions(epsilon=0.05, tol=1e-4)),
        "sign rule, 0.001": by_sign(k, 1e-3),
        "prices, 0.9 to 1.1": by_prices(k, 0.9, 1.1),
        "prices, 0.5 to 2": by_prices(k, 0.5, 2.0),
    }
    return [measure(name, label, batches) for name, label in methods.items()]


def show(rows: list[Row], b: int) -> str:
    """Format rows as lines of a Markdown table."""
    return "\n".join(
        f"| {b} | {r.name} | {r.smallest:.2f} to {r.largest:.2f} | "
        f"{r.soft_smallest:.2f} to {r.soft_largest:.2f} | {r.score:.3f} |"
        for r in rows
    )


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--k", type=int, default=50)
    parser.add_argument("--n", type=int, default=100_000, help="samples of a stream")
    parser.add_argument("--b", type=int, nargs="+", default=[64, 256, 1024])
    options = parser.parse_args()
    print(f"{platform.machine()}, torch {torch.__version__}, dualclust {dc.__version__}")
    print(f"\nk = {options.k}, {options.n:,} samples, the second half counted\n")
    print("| b | labels by | hard sizes | soft sizes | mean score |")
    print("|---|---|---|---|---|")
    for b in options.b:
        print(show(table(options.k, b, options.n // b), b))
        sys.stdout.flush()


if __name__ == "__main__":
    main()
