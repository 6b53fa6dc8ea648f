"""What each of two ranks does, and one process with the whole batch."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from dualclust.algos.bounds.groups import GroupBounds
from dualclust.torch import BalancedLabels, PricedLabels, PricedRouter, SizePrices

STEPS = 12
GROUPS = torch.arange(48) % 3 - 1
FAIR = GroupBounds.from_shares(GROUPS, 6, lower=0.8, upper=1.2)
# Rows of the first rank, of 48; how the module is made; whether a model wraps it; passes in a step.
CASES: dict[str, tuple[int, Any, bool, int]] = {
    "equal parts": (24, lambda: PricedLabels(6, upper=1.2), False, 1),
    "unequal parts": (31, lambda: PricedLabels(6, upper=1.2, epsilon=0.1), False, 1),
    "nothing on one rank": (48, lambda: PricedLabels(6, lower=1.0, upper=1.0), False, 1),
    "groups": (29, lambda: PricedLabels(6, upper=1.2, groups=FAIR), False, 1),
    "router": (20, lambda: PricedRouter(6, top_k=2), False, 1),
    "on request": (20, lambda: PricedRouter(6, top_k=2, automatic=False), False, 2),
    "in a wrapped model": (24, lambda: PricedLabels(6), True, 1),
    "wrapped, on request": (24, lambda: PricedLabels(6, automatic=False), True, 2),
}


class Model(nn.Module):
    """A layer whose scores are labeled."""

    def __init__(self, prices: SizePrices) -> None:
        super().__init__()
        self.layer, self.prices = nn.Linear(6, 6), prices
        with torch.no_grad():
            self.layer.weight.copy_(torch.eye(6))
            self.layer.bias.zero_()

    def forward(self, rows: Tensor, groups: Tensor) -> tuple[Any, Tensor]:
        """Labels, and a loss of no importance."""
        scores = self.layer(rows)
        is_grouped = getattr(self.prices, "n_groups", None) is not None
        options = {"groups": groups} if is_grouped else {}
        return self.prices(scores, **options), scores.sum() * 0.0


def run_case(name: str, rank: int | None) -> dict[str, Any]:
    """Label twelve batches, this rank's rows of each, or all rows where there are no ranks."""
    cut, make, wrapped, passes = CASES[name]
    module = make()
    model: nn.Module = Model(module)
    if wrapped and rank is not None:
        model = DistributedDataParallel(model)
    rows = slice(None) if rank is None else slice(0, cut) if rank == 0 else slice(cut, 48)
    labels = []
    for step in range(STEPS):
        draws = torch.Generator().manual_seed(step)
        scores = torch.rand(48, 6, generator=draws) + torch.linspace(1.0, 0.0, 6)
        found, loss = model(scores[rows], GROUPS[rows])
        if wrapped:
            loss.backward()
        labels.append(found.indices if isinstance(found, tuple) else found)
        if passes > 1 and step % passes == 1:
            module.move_prices()
    return {
        "labels": labels,
        "lower": getattr(module, "group_price_lower", module.price_lower),
        "upper": getattr(module, "group_price_upper", module.price_upper),
        "counts": module.counts,
    }


def run_balanced(rank: int | None) -> dict[str, list[Tensor]]:
    """Targets of eight batches, this rank's rows or all; with the gradient, and the violation."""
    rows = slice(None) if rank is None else slice(0, 31) if rank == 0 else slice(31, 48)
    soft = BalancedLabels(6, upper=1.2, epsilon=0.05, n_iter=8, differentiable=True)
    hard = BalancedLabels(6, kind="hard", lower=0.9, upper=1.1)
    found: dict[str, list[Tensor]] = {"soft": [], "gradient": [], "hard": [], "violation": []}
    for step in range(8):
        draws = torch.Generator().manual_seed(step)
        scores = torch.rand(48, 6, generator=draws) + torch.linspace(1.0, 0.0, 6)
        part = scores[rows].clone().requires_grad_()
        targets, labels = soft(part), hard(scores[rows])
        (targets**2).sum().backward()
        assert part.grad is not None
        proof = hard.certificate(scores[rows], labels)
        for name, value in (("soft", targets.detach()), ("gradient", part.grad), ("hard", labels)):
            found[name].append(value)
        found["violation"].append(torch.tensor(proof.violation))
    found["prices"] = [soft.prices, hard.prices]
    return found
