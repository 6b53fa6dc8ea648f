"""Heads side by side that are rewarded for spreading over their clusters: SeCu's entropy variant.

No cluster has a bound. What keeps clusters apart is the entropy of the counts of *all* images'
labels: an image that moves changes two of them, and what the move is worth is
`algos.baselines.entropy`. Heads are padded as in `_priced_heads`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ...algos.baselines.entropy import EntropyRule, entropy_step
from ._priced_heads import PAD, pad_scores

__all__ = ["EntropyHeads"]


class EntropyHeads:
    """Counts of the labels of all images, and the assignment of a batch by them.

    Parameters
    ----------
    clusters : ints. Clusters of each head.
    n_samples : int. Images of one epoch, N.
    strength : float, 0 or more. Weight of the entropy for one image, alpha / N, in units of score.
    first_pass : ``"exact"`` or ``"published"``. The charge of an image without a label.
    dtype, device : of the scores.

    Attributes
    ----------
    k_max, padding : as of `_priced_heads.PricedHeads`.
    counts : (h, kmax) int64 tensor. Images with each label now; those without one are in none.
    """

    def __init__(
        self,
        clusters: Sequence[int],
        n_samples: int,
        *,
        strength: float,
        first_pass: str,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        self.k_max = max(clusters)
        self.padding = pad_scores(clusters, PAD, dtype=dtype, device=device)
        # What an empty cluster is paid grows with N, and is beyond any finite score in the end.
        self._never = pad_scores(clusters, -math.inf, dtype=torch.float64, device=device)
        self.rule = EntropyRule(strength * n_samples, n_samples, first_pass=first_pass)
        self.counts = torch.zeros(len(clusters), self.k_max, dtype=torch.int64, device=device)
        self._none = torch.full((), -1, device=device)

    def begin_epoch(self, epoch: int) -> None:
        """Nothing: the counts go on from one epoch to the next."""

    @torch.no_grad()
    def assign(self, scores: Tensor, previous: Tensor | None = None) -> Tensor:
        """Label a batch, (h, b, kmax) to (h, b) int64; the counts move on.

        Parameters
        ----------
        scores : (h, b, kmax) tensor
        previous : (h, b) int64 tensor, or None in the first epoch. Labels so far, which `counts`
            holds.
        """
        if previous is None:
            previous = self._none.expand(scores.shape[:2])
        labels: Tensor
        labels, counts = entropy_step(
            scores.detach() + self._never, previous, self.counts, self.rule
        )
        self.counts.copy_(counts)
        return labels

    def state_dict(self) -> dict[str, Any]:
        """Return the counts."""
        return {"counts": self.counts}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over saved counts."""
        self.counts.copy_(state["counts"])
