"""The exact labels of a batch as one operation of PyTorch, which compilers take as it is."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..algos.bounds.sizes import SizeBounds
from ..algos.offline.assignment import assign_exact

__all__ = ["exact_labels"]


@torch.library.custom_op("dualclust::exact_labels", mutates_args=())
def exact_labels(
    scores: Tensor, counted: Tensor, lower: Tensor, upper: Tensor, prices: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the best labels inside whole bounds, (n,) int64, and their prices, (k,) float64.

    Rows that do not count get the label of their largest score. Reads values of a device.
    """
    labels, rows = scores.argmax(dim=1), counted.nonzero()[:, 0]
    if len(rows) == 0:
        return labels, prices.clone()
    low, high = (bound.to(torch.int64).tolist() for bound in (lower, upper))
    bounds = SizeBounds.from_counts(
        low, high, n_samples=len(rows), xp=torch, device=scores.device
    )
    found = assign_exact(scores[rows], bounds, prices=prices)
    labels[rows] = found.labels
    return labels, found.prices


@exact_labels.register_fake
def _(scores: Any, counted: Any, lower: Any, upper: Any, prices: Any) -> tuple[Tensor, Tensor]:
    return torch.empty_like(scores[:, 0], dtype=torch.int64), torch.empty_like(prices)


@exact_labels.register_vmap
def _(info: Any, in_dims: Any, *arguments: Tensor) -> tuple[tuple[Tensor, Tensor], tuple[int, int]]:
    found = []
    for i in range(info.batch_size):
        pairs = zip(arguments, in_dims, strict=True)
        found.append(exact_labels(*(x if d is None else x.select(d, i) for x, d in pairs)))
    return tuple(torch.stack(column) for column in zip(*found, strict=True)), (0, 0)  # type: ignore[return-value]
