"""A router of the shape that torchtitan's mixtures of experts have, balanced by `PricedRouter`.

There a router is a linear gate without bias, a sigmoid or a softmax in float32, and a choice of the
`top_k` largest scores plus a bias; it returns the scores that were chosen, the experts, and a count
of tokens for each. The bias is a buffer of the layer, which a hook moves by a fixed amount after
each step of the optimizer. Here the prices are in the router, and `move_prices` is that hook.

A pass that is computed again for activation checkpointing has to route as it did, and several
passes may make one step: prices stand still until `move_prices` is called.

``python docs/examples/token_router.py`` trains a layer, in seconds.
"""

from __future__ import annotations

import torch
from balanced_experts import D, batch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from dualclust.torch import PricedRouter


class TokenRouter(nn.Module):
    """Scores, experts and counts of tokens: ``forward(x)`` takes tokens (n, dim)."""

    def __init__(
        self,
        dim: int,
        num_experts: int,
        top_k: int,
        *,
        score_func: str = "sigmoid",
        route_norm: bool = False,
        route_scale: float = 1.0,
        lower: float = 0.8,
        upper: float = 1.25,
        capacity: float | None = None,
    ) -> None:
        super().__init__()
        self.gate = nn.Linear(dim, num_experts, bias=False)
        self.score_func, self.route_scale = score_func, route_scale
        self.priced = PricedRouter(
            num_experts,
            top_k=top_k,
            lower=lower,
            upper=upper,
            capacity=capacity,
            normalize=route_norm,
            automatic=False,
        )

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return scores and experts, both (n, top_k), and the tokens of each expert."""
        logits = self.gate(x).float()
        scores = logits.sigmoid() if self.score_func == "sigmoid" else logits.softmax(dim=1)
        experts, gates, counts = self.priced(scores)
        return gates * self.route_scale, experts, counts


class Layer(nn.Module):
    """Experts that are one matrix each, with tokens grouped by expert."""

    def __init__(self, dim: int, router: nn.Module, num_experts: int) -> None:
        super().__init__()
        self.router = router
        self.weight = nn.Parameter(torch.randn(num_experts, dim, dim) / dim**0.5)

    def forward(self, x: Tensor) -> Tensor:
        """Send each token to its experts, and add up what they return."""
        gates, experts, counts = self.router(x)
        flat = experts.reshape(-1)
        order = torch.argsort(flat, stable=True)
        order = order[len(flat) - int(counts.sum()) :]  # dropped ones, -1, come first
        tokens = order // experts.shape[1]
        parts = zip(x[tokens].split(counts.tolist()), self.weight, strict=True)
        found = torch.cat([part @ weight for part, weight in parts])
        found = found * gates.reshape(-1)[order][:, None]
        return torch.zeros_like(x).index_add(0, tokens, found)


def main(*, steps: int = 2000, num_experts: int = 8, top_k: int = 2) -> tuple[Tensor, float]:
    """Train a layer; return the loads of the last quarter of the steps and the error."""
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    router = TokenRouter(D, num_experts, top_k, route_norm=True)
    layer = Layer(D, router, num_experts)
    optimizer = torch.optim.Adam(layer.parameters(), lr=3e-3)
    errors = []
    for step in range(steps):
        if step == steps - steps // 4:
            router.priced.reset_counts()
        tokens, wanted = batch(generator)
        error = (checkpoint(layer, tokens, use_reentrant=False) - wanted).square().mean()
        optimizer.zero_grad()
        error.backward()
        optimizer.step()
        router.priced.move_prices()
        errors.append(error.item())
    counts = router.priced.counts
    return counts / counts.sum() * num_experts, sum(errors[-steps // 10 :]) / (steps // 10)


if __name__ == "__main__":
    loads, error = main()
    print(f"loads {loads.min():.2f} to {loads.max():.2f}, error {error:.3f}")
