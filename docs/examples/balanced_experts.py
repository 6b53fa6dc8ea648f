"""A small mixture of experts: routed by its gates alone, with an auxiliary loss, and with prices.

Tokens come from groups whose sizes fall like 1/rank; each group has a linear map of its own to
learn, and each token goes to one of eight experts. The auxiliary loss is that of Switch
transformers, ``0.01 k sum_k load_k gate_k``. `PricedRouter` needs none: prices choose the expert,
gates stay as they are.

``python docs/examples/balanced_experts.py docs/images`` draws the figure, in seconds.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from dualclust.torch import PricedRouter

K, D, GROUPS = 8, 16, 24
AUXILIARY = 0.01


class Run(NamedTuple):
    """A run: the load of each expert in units of the mean, over blocks of steps, and the error."""

    loads: NDArray[np.float64]
    error: float


def batch(generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw 256 tokens and what is to be predicted from them."""
    fixed = torch.Generator().manual_seed(1)
    means = 2.0 * torch.randn(GROUPS, D, generator=fixed)
    maps = torch.randn(GROUPS, D, D, generator=fixed) / D**0.5
    share = 1.0 / torch.arange(1, GROUPS + 1)
    group = torch.multinomial(share, 256, replacement=True, generator=generator)
    tokens = means[group] + torch.randn(256, D, generator=generator)
    return tokens, torch.einsum("nd,nde->ne", tokens, maps[group])


def train(rule: str, *, steps: int, seed: int = 0) -> Run:
    """Train a layer of experts; `rule` is "gates", "auxiliary loss" or "prices"."""
    generator = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    gate = torch.nn.Linear(D, K)
    experts = torch.nn.Parameter(torch.randn(K, D, D) / D**0.5)
    router = PricedRouter(K, top_k=1, lower=0.8, upper=1.25)
    optimizer = torch.optim.Adam([*gate.parameters(), experts], lr=3e-3)
    loads, errors = [], []
    for _ in range(steps):
        tokens, wanted = batch(generator)
        gates = torch.softmax(gate(tokens), dim=1)
        chosen = router(gates).indices[:, 0] if rule == "prices" else gates.argmax(dim=1)
        weight = gates.gather(1, chosen[:, None])
        found = weight * torch.einsum("nd,nde->ne", tokens, experts[chosen])
        load = torch.bincount(chosen, minlength=K)
        error = (found - wanted).square().mean()
        loss = error
        if rule == "auxiliary loss":
            loss = error + AUXILIARY * K * (load / len(tokens) * gates.mean(dim=0)).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loads.append(load.numpy() * K / len(tokens))
        errors.append(error.item())
    return Run(np.stack(loads), float(np.mean(errors[-steps // 10 :])))


def draw(runs: dict[str, Run], path: Path) -> None:
    """Draw the loads, as means over a twentieth of the steps."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.0), layout="constrained")
    for axes, (name, run) in zip(figure.subplots(1, 3, sharey=True), runs.items(), strict=True):
        blocks = run.loads.reshape(20, -1, K).mean(axis=1)
        axes.plot(np.linspace(0, len(run.loads), 20), blocks, linewidth=1)
        axes.set(xlabel="step", title=f"{name}: error {run.error:.2f}", ylim=(0, None))
        axes.title.set_fontsize("medium")
    figure.axes[0].set_ylabel("load of an expert, mean = 1")
    figure.savefig(path, dpi=120)


def main(folder: Path, *, small: bool = False) -> dict[str, Run]:
    """Write ``balanced_experts.png``; returns the runs."""
    steps = 100 if small else 2000
    runs = {rule: train(rule, steps=steps) for rule in ("gates", "auxiliary loss", "prices")}
    draw(runs, folder / "balanced_experts.png")
    return runs


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    for name, run in main(parser.parse_args().folder).items():
        last = run.loads[-len(run.loads) // 4 :].mean(axis=0)
        print(f"{name}: loads {last.min():.2f} to {last.max():.2f}, error {run.error:.3f}")
