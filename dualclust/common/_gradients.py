"""Gathering the rows of all ranks so that gradients flow back to each rank's own rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

__all__ = ["gather_with_gradients"]


def gather_with_gradients(
    rows: Tensor, join: Callable[[Tensor], Tensor], shard: tuple[int, int], dim: int
) -> Tensor:
    """Join rows along `dim`; the backward pass keeps the slice of the gradient of this rank.

    Parameters
    ----------
    rows : tensor
        This rank's rows, along `dim`.
    join : callable
        Joins the rows of all ranks along the first axis, without gradients.
    shard : (int, int)
        Start and stop of this rank's rows among those of all ranks.
    dim : int
    """
    gathered: Tensor = _Gather.apply(rows, join, shard, dim)  # type: ignore[no-untyped-call]
    return gathered


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        rows: Tensor,
        join: Callable[[Tensor], Tensor],
        shard: tuple[int, int],
        dim: int,
    ) -> Tensor:
        ctx.shard, ctx.dim = shard, dim
        return join(rows.movedim(dim, 0)).movedim(0, dim)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        (whole,), (start, stop) = grads, ctx.shard
        return whole.narrow(ctx.dim, start, stop - start), None, None, None
