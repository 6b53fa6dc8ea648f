"""Routers of a mixture of experts: loss, loads over time, and the time of a step.

The layer and its tokens are those of ``docs/examples/token_router.py``: groups of tokens whose
sizes fall like 1/rank, and a linear map of its own for each group to learn. Gates are sigmoids.
Routers differ in how experts are chosen: by gates alone, by gates with the auxiliary loss of Switch
transformers in the loss, with a bias that moves by the sign of the error (Wang et al. 2024), or by
`PricedRouter` without and with a hard capacity.

    python benchmarks/routers.py                           # three minutes on one core
    python benchmarks/routers.py --experts 8 --top-k 2 --steps 8000
    python benchmarks/routers.py --time                    # of the choice alone, 4,096 tokens
"""

from __future__ import annotations

import argparse
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import dualclust as dc
from dualclust.algos.baselines import update_bias
from dualclust.torch import PricedRouter

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "docs" / "examples"))

from balanced_experts import D, batch
from token_router import Layer, TokenRouter

AUXILIARY, BIAS_STEP = 0.01, 0.001  # as published
LOWER, UPPER, CAPACITY = 0.8, 1.25, 1.25


class Biased(nn.Module):
    """The largest gates plus a bias, of which gates know nothing; with a step of 0, gates alone."""

    def __init__(self, k: int, top_k: int, *, step: float = 0.0, auxiliary: float = 0.0) -> None:
        super().__init__()
        self.gate = nn.Linear(D, k, bias=False)
        self.top_k, self.step, self.auxiliary = top_k, step, auxiliary
        self.penalty: Tensor | float = 0.0
        self.register_buffer("bias", torch.zeros(k, dtype=torch.float64))
        self.bias: Tensor

    def choose(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """Return experts and counts, and move the bias."""
        with torch.no_grad():
            k = len(self.bias)
            experts = (scores + self.bias).topk(self.top_k, dim=1).indices
            counts = torch.bincount(experts.reshape(-1), minlength=k)
            if self.step:
                share = torch.full((k,), 1.0 / k, dtype=torch.float64)
                n = experts.numel()
                bounds = {"lower_share": share, "upper_share": share, "step_size": self.step}
                self.bias = update_bias(self.bias, counts, n, **bounds)
        return experts, counts

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return gates, experts and counts, as `TokenRouter` does."""
        scores = self.gate(x).sigmoid()
        experts, counts = self.choose(scores)
        if self.auxiliary:
            likely = (scores / scores.sum(dim=1, keepdim=True)).mean(dim=0)
            load = counts / counts.sum()
            self.penalty = self.auxiliary * len(self.bias) * (load * likely).sum()
        gates = scores.gather(1, experts)
        return gates / gates.sum(1, keepdim=True) if self.top_k > 1 else gates, experts, counts


def priced(k: int, top_k: int, capacity: float | None = None) -> TokenRouter:
    """Return the router of the example."""
    options: dict[str, Any] = {"route_norm": top_k > 1, "capacity": capacity}
    return TokenRouter(D, k, top_k, lower=LOWER, upper=UPPER, **options)


RULES: dict[str, Callable[[int, int], nn.Module]] = {
    "gates alone": Biased,
    "auxiliary loss, 0.01": lambda k, top_k: Biased(k, top_k, auxiliary=AUXILIARY),
    "bias by the sign, 0.001": lambda k, top_k: Biased(k, top_k, step=BIAS_STEP),
    f"prices, {LOWER} to {UPPER}": priced,
    f"prices, capacity {CAPACITY}": lambda k, top_k: priced(k, top_k, CAPACITY),
}


def trained(make: Callable[[int, int], nn.Module], k: int, top_k: int, steps: int) -> list[str]:
    """Train a layer; return its figures as cells of a table."""
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    router = make(k, top_k)
    layer = Layer(D, router, k)
    optimizer = torch.optim.Adam(layer.parameters(), lr=3e-3)
    loads, errors, sent = np.zeros((steps, k)), np.zeros(steps), np.zeros(steps)

    def keep(_: nn.Module, __: Any, found: tuple[Tensor, Tensor, Tensor]) -> None:
        loads[step], sent[step] = found[2].numpy() * k / found[1].numel(), found[2].sum()
        sent[step] /= found[1].numel()

    router.register_forward_hook(keep)
    for step in range(steps):
        tokens, wanted = batch(generator)
        error = (layer(tokens) - wanted).square().mean()
        optimizer.zero_grad()
        (error + getattr(router, "penalty", 0.0)).backward()
        optimizer.step()
        if isinstance(router, TokenRouter):
            router.priced.move_prices()
        errors[step] = error.item()
    first, second, last = steps // 20, steps // 4, loads[-steps // 4 :]
    spans = [part.mean(axis=0) for part in (loads[:first], loads[first:second], last)]
    return [
        f"{errors[-steps // 10 :].mean():.3f}",
        *(f"{span.min():.2f} to {span.max():.2f}" for span in spans),
        f"{last.max(axis=1).mean():.2f}",
        f"{100 * (1.0 - sent[-steps // 4 :].mean()):.2f} %",
    ]


def print_times(tokens: int, repeats: int) -> None:
    """Print how long the choice of experts takes, without gate and experts."""
    print(f"\n{tokens:,} tokens\n\n| experts | top | `topk` | bias | prices | with capacity |")
    print("|---|---|---|---|---|---|")
    draws = torch.Generator().manual_seed(0)
    for k in (8, 64, 256):
        scores = torch.randn(tokens, k, generator=draws) + torch.linspace(1.0, -1.0, k)
        scores = scores.sigmoid()
        for top_k in (1, 2, 8):
            if top_k == k:
                continue
            options: dict[str, Any] = {"top_k": top_k, "lower": LOWER, "upper": UPPER}
            choices: list[Callable[[Tensor], Any]] = [
                lambda x, m=top_k: x.topk(m, dim=1),  # type: ignore[misc]
                Biased(k, top_k, step=BIAS_STEP).choose,
                PricedRouter(k, **options),
                PricedRouter(k, capacity=CAPACITY, **options),
            ]
            cells = []
            for choose in choices:
                spent = []
                for _ in range(repeats + 1):
                    start = time.process_time()
                    choose(scores)
                    spent.append(1e3 * (time.process_time() - start))
                cells.append(f"{np.median(spent[1:]):.1f} ms")
            print(f"| {k} | {top_k} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    """Print a table of training, or of times."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--experts", type=int, nargs="+", default=[8, 8, 64])
    parser.add_argument("--top-k", type=int, nargs="+", default=[1, 2, 8])
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--only", nargs="+", help="rules whose name has one of these words")
    parser.add_argument("--time", action="store_true", help="time the choice instead")
    parser.add_argument("--tokens", type=int, default=4096, help="of a timed choice")
    parser.add_argument("--repeats", type=int, default=5, help="of a timed choice")
    options = parser.parse_args()
    print(f"{platform.machine()}, torch {torch.__version__}, dualclust {dc.__version__}")
    if options.time:
        print_times(options.tokens, options.repeats)
        return
    for k, top_k in zip(options.experts, options.top_k, strict=True):
        print(f"\n{k} experts, top {top_k}, {options.steps:,} steps of 256 tokens\n")
        first, second = options.steps // 20, options.steps // 4
        print(
            f"| router | error | loads of steps 1 to {first} | to {second} | last quarter ", end=""
        )
        print("| largest load of a batch | dropped |\n|---|---|---|---|---|---|---|")
        for name, make in RULES.items():
            if options.only and not any(word in name for word in options.only):
                continue
            cells = trained(make, k, top_k, options.steps)
            print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
