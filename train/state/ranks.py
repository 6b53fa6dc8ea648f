"""The processes that share a run: parts of a batch, features of all, one gradient.

Every rank sees the ids of the whole batch and the images of its part. Features are gathered with
their gradients, so that each rank holds the loss of the whole batch and computes the same labels
and prices; parameters that act before the gathering get the sum of the ranks' gradients, which is
the gradient of one process.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from ...algos.core.errors import UsageError

__all__ = ["ALONE", "Ranks", "start_ranks"]


class Ranks:
    """A group of processes, this one's place in it, and what they do together.

    Parameters
    ----------
    rank, world : int. This process, of how many. With `world` 1 nothing is communicated.
    """

    def __init__(self, rank: int = 0, world: int = 1) -> None:
        self.rank = rank
        self.world = world

    @property
    def first(self) -> bool:
        """Whether this is the process that writes."""
        return self.rank == 0

    def part(self, n: int, rank: int | None = None) -> tuple[int, int]:
        """Return start and stop of a rank's part of n rows; parts differ by at most one row."""
        rank = self.rank if rank is None else rank
        size, extra = divmod(n, self.world)
        start = rank * size + min(rank, extra)
        return start, start + size + (rank < extra)

    def gather(self, rows: Tensor, total: int, dim: int = 0) -> Tensor:
        """Put the ranks' rows together along `dim`, in the order of ranks; gradients flow.

        The backward pass keeps this rank's slice: right where all ranks go on to compute the same
        loss of the gathered rows and their gradients are summed (`sum_gradients`), not averaged.

        Parameters
        ----------
        rows : tensor. Its length along `dim` is that of this rank's `part` of `total`.
        total : int. Rows of all ranks.
        """
        if self.world == 1:
            return rows
        gathered: Tensor = _Gather.apply(rows, total, dim, self)  # type: ignore[no-untyped-call]
        return gathered

    def sum_(self, tensors: Iterable[Tensor]) -> None:
        """Sum tensors over the ranks, in place and as one message for each dtype."""
        if self.world == 1:
            return
        by_dtype: dict[torch.dtype, list[Tensor]] = {}
        for tensor in tensors:
            by_dtype.setdefault(tensor.dtype, []).append(tensor)
        for group in by_dtype.values():
            flat = torch.cat([tensor.reshape(-1) for tensor in group])
            dist.all_reduce(flat)
            parts = torch.split(flat, [tensor.numel() for tensor in group])
            torch._foreach_copy_(group, [p.view_as(t) for p, t in zip(parts, group, strict=True)])

    def sum_gradients(self, params: Iterable[nn.Parameter]) -> None:
        """Sum the gradients of parameters over the ranks, in place."""
        self.sum_(p.grad for p in params if p.grad is not None)

    def wait(self) -> None:
        """Return when all ranks have come here."""
        if self.world > 1:
            dist.barrier()

    def leave(self) -> None:
        """Leave the group; nothing can be sent after it."""
        if self.world > 1:
            dist.destroy_process_group()


ALONE = Ranks()


class _Gather(torch.autograd.Function):
    """All-gather of rows whose backward pass keeps this rank's slice."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, total: int, dim: int, ranks: Ranks) -> Tensor:
        places = [ranks.part(total, rank) for rank in range(ranks.world)]
        ctx.place, ctx.dim = places[ranks.rank], dim
        rows = rows.movedim(dim, 0)
        # One message of equal lengths: parts differ by at most one row.
        longest = places[0][1]
        padded = rows.new_zeros((longest, *rows.shape[1:]))
        padded[: len(rows)] = rows
        parts = [torch.empty_like(padded) for _ in places]
        dist.all_gather(parts, padded)
        kept = [part[: stop - start] for part, (start, stop) in zip(parts, places, strict=True)]
        return torch.cat(kept).movedim(0, dim)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        start, stop = ctx.place
        return grads[0].narrow(ctx.dim, start, stop - start), None, None, None


def start_ranks(device: str, *, timeout: float = 600.0) -> tuple[Ranks, str]:
    """Join the processes that ``torchrun`` started, and say which device this one has.

    Parameters
    ----------
    device : str. "cpu" or "cuda"; with "cuda", each process takes the GPU of its local rank.
    timeout : float, seconds. How long a rank waits for another before it raises.

    Returns
    -------
    ranks : Ranks. `ALONE` where no launcher has set ``WORLD_SIZE``.
    device : str.

    Raises
    ------
    UsageError
        If only some of the launcher's variables are there.
    """
    world = int(os.environ.get("WORLD_SIZE", "1"))
    if world == 1:
        return ALONE, device
    wanted = ("RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
    missing = [name for name in wanted if name not in os.environ]
    if missing:
        msg = (
            f"WORLD_SIZE={world}, but {', '.join(missing)} is not set. "
            f"To fix this, start the ranks by torchrun"
        )
        raise UsageError(msg)
    if torch.device(device).type == "cuda":
        device = f"cuda:{os.environ['LOCAL_RANK']}"
        torch.cuda.set_device(device)
    if not dist.is_initialized():
        backend = "nccl" if device.startswith("cuda") else "gloo"
        dist.init_process_group(backend, timeout=timedelta(seconds=timeout))
    return Ranks(dist.get_rank(), dist.get_world_size()), device
