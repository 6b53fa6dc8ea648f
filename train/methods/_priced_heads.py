"""Heads side by side with a dual price for every cluster: what SeCu and CoKe assign with.

Heads of different numbers of clusters share tensors padded to the largest. A padded cluster has a
score of `PAD`, a lower bound of 0 and no upper one, so that it gets no label and no probability;
an assignment does the same operations whatever the number of heads. Prices stay in the same place
in memory, so that a step can be recorded once and replayed.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ...algos.bounds.sizes import SizeBounds
from ...algos.clustering.constrained import constrained_kmeans, kmeans_plus_plus
from ...algos.online.duals import DualRule, Duals, assign_batch, init_duals
from ...algos.online.step_sizes import StepRule, measured_steps, published_steps
from ..config.run import AssignmentConfig
from ..state.seeding import generator

__all__ = ["PAD", "PricedHeads", "kmeans_centers", "pad_scores"]

PAD = -1e4
"""Score of a padded cluster: finite, and of probability 0 in float32 at temperatures below 90."""


class PricedHeads:
    """The bounds and prices of all heads, which label a batch.

    Parameters
    ----------
    bounds : list of SizeBounds, one for each head.
    options : AssignmentConfig. The pace of the prices.
    dtype, device : of the scores.

    Attributes
    ----------
    k_max : int. Clusters of the largest head.
    duals : Duals. Prices of the lower and the upper bounds, (h, kmax) float64 each.
    rule : DualRule. How they move in this epoch.
    padding : (h, 1, kmax) tensor. To add to scores: 0, and `PAD` on padded clusters.
    """

    def __init__(
        self,
        bounds: list[SizeBounds],
        options: AssignmentConfig,
        *,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        self.bounds, self.options = bounds, options
        clusters = [b.n_clusters for b in bounds]
        self.k_max = max(clusters)
        self.padding = pad_scores(clusters, PAD, dtype=dtype, device=device)
        start = init_duals((len(bounds), self.k_max), xp=torch, device=device)
        self.duals = Duals(start.lower.clone(), start.upper.clone())
        # The released code leaves the dual of ratio 1 unclipped, as the measured rule does.
        self.free_sign = all(b.total_lower_share >= 1.0 - 1e-12 for b in bounds)
        self.rule = DualRule.of_heads(bounds, self._steps(0))
        self.begin_epoch(0)

    def begin_epoch(self, epoch: int) -> None:
        """Set this epoch's dual steps, one for each head; the tensors of the rule stay in place."""
        rule = DualRule.of_heads(self.bounds, self._steps(epoch))
        held = self.rule
        held.step_size.copy_(rule.step_size)  # type: ignore[union-attr]
        # A published step is one update for each batch, however long.
        chunk_size = sys.maxsize if rule.mean_over_chunk else rule.chunk_size
        self.rule = rule._replace(
            lower_share=held.lower_share,
            upper_share=held.upper_share,
            step_size=held.step_size,
            chunk_size=chunk_size,
        )

    def _steps(self, epoch: int) -> list[StepRule]:
        """Return the steps of an epoch, one rule for each head."""
        options = self.options
        if options.steps == "measured":
            rules = [
                measured_steps(b, kappa=options.kappa, epoch=epoch, kappa_floor=options.kappa_floor)
                for b in self.bounds
            ]
        else:
            rules = [published_steps(options.steps)] * len(self.bounds)
        return [replace(rule, free_sign=self.free_sign) for rule in rules]

    @torch.no_grad()
    def assign(self, scores: Tensor, previous: Tensor | None = None) -> Tensor:
        """Label a batch by scores and prices, (h, b, kmax) to (h, b) int64; the prices move on.

        `previous`, the labels so far, is for heads that count them (`_entropy_heads`).
        """
        labels: Tensor
        labels, moved = assign_batch(scores.detach(), self.duals, self.rule)
        for price, new in zip(self.duals, moved, strict=True):
            price.copy_(new)
        return labels

    def prices(self, head: int) -> Tensor:
        """Prices of a head's clusters, (k,) float64, of both bounds together."""
        k = self.bounds[head].n_clusters
        prices: Tensor = (self.duals.lower - self.duals.upper)[head, :k]
        return prices

    def state_dict(self) -> dict[str, Any]:
        """Return the prices."""
        return {"lower": self.duals.lower, "upper": self.duals.upper}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over saved prices."""
        self.duals.lower.copy_(state["lower"])
        self.duals.upper.copy_(state["upper"])


def kmeans_centers(features: Tensor, bounds: SizeBounds, seed: int, head: int) -> Tensor:
    """Centers (k, d) of constrained k-means of (n, d) unit features: where a head can start."""
    draws = generator(seed, "kmeans", head)
    uniforms = torch.rand(bounds.n_clusters, generator=draws, dtype=torch.float64)
    start = kmeans_plus_plus(features, uniforms.to(features.device))
    centers: Tensor = constrained_kmeans(features, bounds, start, max_iter=20).centers
    return centers


def pad_scores(
    clusters: Sequence[int], value: float, *, dtype: torch.dtype, device: torch.device
) -> Tensor:
    """What to add to the scores of heads side by side, (h, 1, kmax): `value` on padded clusters."""
    beyond = torch.arange(max(clusters)) >= torch.tensor(clusters)[:, None]
    padding = torch.where(beyond, value, 0.0).to(device, dtype)
    return padding[:, None, :]
