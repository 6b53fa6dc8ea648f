"""The processes that work on one problem: who they are, which rows each has, what they exchange.

``torchrun`` starts the processes and says in environment variables who is who. Each has a *rank*,
from 0 to the *world size* minus 1, and a *shard* of any n rows: consecutive rows, in the order of
the ranks. torch is loaded when there are several processes, so that one alone needs none.

In training, every rank sees the ids of the whole batch and the images of its shard. Features are
gathered with their gradients, so that each rank holds the loss of the whole batch and computes the
same labels and prices; parameters that act before the gathering get the sum of the ranks'
gradients, which is the gradient of one process.
"""

from __future__ import annotations

import os
import secrets
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from ..algos.core.errors import DualclustError, MissingExtraError, UsageError
from .extras import needs_train

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

__all__ = [
    "ALONE",
    "Launch",
    "RankLostError",
    "Ranks",
    "join_ranks",
    "local_world_size",
    "read_launch",
    "run_token",
]

VARIABLES = ("RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
"""What torchrun sets in addition to ``WORLD_SIZE``."""


_token = ""

GRACE = 10.0
"""Seconds beyond its time limits that PyTorch has to say by itself that nobody came."""


class RankLostError(DualclustError, RuntimeError):
    """Another rank has gone, or did not answer in time."""


class Ranks:
    """One process among those that share the work, and what they do together.

    Parameters
    ----------
    rank, world_size : int
        This process, of how many. With a world size of 1 nothing is communicated.
    device : str
        Where this process computes, and where what it sends must lie.
    host : str
        Name or address of the machine of the first rank, as the others know it.
    """

    def __init__(
        self, rank: int = 0, world_size: int = 1, device: str = "cpu", host: str = "127.0.0.1"
    ) -> None:
        self.rank, self.world_size, self.device, self.host = rank, world_size, device, host

    @property
    def first(self) -> bool:
        """Whether this is the process that writes."""
        return self.rank == 0

    def shard(self, n: int, rank: int | None = None, *, unit: int = 1) -> tuple[int, int]:
        """Return start and stop of the rows of a rank, this one's by default, out of n.

        A shard consists of whole units, but for the last unit of all; shards differ by at most one
        unit, the longer ones first.

        Examples
        --------
        >>> [Ranks(rank, 3).shard(8) for rank in range(3)]
        [(0, 3), (3, 6), (6, 8)]
        >>> [Ranks(rank, 2).shard(10, unit=4) for rank in range(2)]
        [(0, 8), (8, 10)]
        """
        rank = self.rank if rank is None else rank
        each, extra = divmod(-(-n // unit), self.world_size)
        start = rank * each + min(rank, extra)
        stop = start + each + (rank < extra)
        return min(n, start * unit), min(n, stop * unit)

    def join(self, rows: Tensor, lengths: Sequence[int]) -> Tensor:
        """Join the rows of all ranks along the first axis, without gradients.

        Parameters
        ----------
        rows : tensor
            This rank's rows, on its device. Beside the first axis all ranks agree on the shape.
        lengths : sequence of int
            Rows of each rank.

        Raises
        ------
        RankLostError
            If another rank has gone, or does not answer in time.
        """
        import torch

        # One message of equal lengths.
        sent = rows.new_zeros((max(lengths), *rows.shape[1:]))
        sent[: len(rows)] = rows
        parts = [torch.empty_like(sent) for _ in lengths]
        with _lost_ranks():
            if sent.numel():
                self._all_gather(parts, sent)
        return torch.cat([part[:length] for part, length in zip(parts, lengths, strict=True)])

    def _all_gather(self, parts: list[Tensor], own: Tensor) -> None:
        """Fill `parts` with the tensors of all ranks."""
        import torch.distributed as dist

        dist.all_gather(parts, own)

    def any(self, flag: bool) -> bool:
        """Return whether a flag is set on some rank; the same on all."""
        if self.world_size == 1:
            return flag
        import torch

        own = torch.tensor([int(flag)], device=self.device)
        return bool(self.join(own, [1] * self.world_size).any())

    def exchange(self, content: bytes) -> list[bytes]:
        """Return what each rank gives here, in the order of the ranks."""
        if self.world_size == 1:
            return [content]
        import torch

        own = torch.tensor([len(content)], device=self.device)
        lengths = self.join(own, [1] * self.world_size).tolist()
        # A copy that may be written: the bytes themselves may not.
        sent = torch.frombuffer(bytearray(content), dtype=torch.uint8).to(self.device)
        joined = self.join(sent, lengths).cpu()
        return [part.numpy().tobytes() for part in torch.split(joined, lengths)]

    def gather(self, rows: Tensor, total: int, dim: int = 0) -> Tensor:
        """Join the rows of all ranks along `dim`; gradients flow.

        The backward pass keeps this rank's slice: right where all ranks go on to compute the same
        loss of the gathered rows and their gradients are summed (`sum_gradients`), not averaged.

        Parameters
        ----------
        rows : tensor
            Its length along `dim` is that of this rank's `shard` of `total`.
        total : int
            Rows of all ranks.
        dim : int
        """
        if self.world_size == 1:
            return rows
        from ._gradients import gather_with_gradients

        shards = [self.shard(total, rank) for rank in range(self.world_size)]
        lengths = [stop - start for start, stop in shards]
        own = shards[self.rank]
        return gather_with_gradients(rows, lambda part: self.join(part, lengths), own, dim)

    def sum_(self, tensors: Iterable[Tensor]) -> None:
        """Sum tensors over the ranks, in place and as one message for each dtype."""
        if self.world_size == 1:
            return
        import torch
        import torch.distributed as dist

        by_dtype: dict[torch.dtype, list[Tensor]] = {}
        for tensor in tensors:
            by_dtype.setdefault(tensor.dtype, []).append(tensor)
        for same in by_dtype.values():
            flat = torch.cat([tensor.reshape(-1) for tensor in same])
            with _lost_ranks():
                dist.all_reduce(flat)
            parts = torch.split(flat, [tensor.numel() for tensor in same])
            torch._foreach_copy_(same, [p.view_as(t) for p, t in zip(parts, same, strict=True)])

    def sum_gradients(self, params: Iterable[nn.Parameter]) -> None:
        """Sum the gradients of parameters over the ranks, in place."""
        self.sum_(p.grad for p in params if p.grad is not None)

    def wait(self) -> None:
        """Return when all ranks have come here."""
        if self.world_size > 1:
            import torch.distributed as dist

            with _lost_ranks():
                dist.barrier()

    def leave(self) -> None:
        """Leave the other processes; nothing can be sent after it."""
        if self.world_size > 1:
            import torch.distributed as dist

            dist.destroy_process_group()


@contextmanager
def _lost_ranks() -> Iterator[None]:
    """Raise RankLostError where an exchange fails."""
    try:
        yield
    except RuntimeError as error:
        msg = f"lost a rank: {str(error).splitlines()[0]}"
        raise RankLostError(msg) from error


ALONE = Ranks()


class Launch(NamedTuple):
    """Which process this is, as its launcher says.

    Attributes
    ----------
    rank, world_size : int
    local_rank : int
        Number among the processes of this machine: that of its GPU.
    """

    rank: int
    world_size: int
    local_rank: int


def read_launch() -> Launch | None:
    """Read torchrun's environment variables; None where there is one process.

    Raises
    ------
    UsageError
        If only some of the variables are there, or one is no number.
    """
    world_size = _whole("WORLD_SIZE", "1")
    if world_size <= 1:
        return None
    missing = [name for name in VARIABLES if name not in os.environ]
    if missing:
        msg = (
            f"WORLD_SIZE={world_size}, but {', '.join(missing)} is not set. "
            f"To fix this, start the ranks with torchrun"
        )
        raise UsageError(msg)
    return Launch(_whole("RANK"), world_size, _whole("LOCAL_RANK"))


def local_world_size() -> int:
    """Processes of this run on this machine, as torchrun says; 1 without it."""
    return max(1, _whole("LOCAL_WORLD_SIZE", "1"))


def join_ranks(device: str = "cpu", *, timeout: float = 600.0) -> Ranks:
    """Join the processes that ``torchrun`` started; alone where it started none.

    Parameters
    ----------
    device : str
        "cpu" joins by gloo, "cuda" by NCCL: each process then takes the GPU of its local rank,
        which is the `device` of the result.
    timeout : float
        Seconds that a rank waits for another before it raises.

    Raises
    ------
    UsageError
        If the environment names some of the launcher's variables and not all.
    MissingExtraError
        If there are several ranks and torch is not installed.
    RankLostError
        If not all ranks come in time.
    """
    launch = read_launch()
    if launch is None:
        return Ranks(device=device)
    try:
        import torch
        import torch.distributed as dist

        from .devices import kind_of
    except ImportError as error:
        msg = needs_train("several ranks", "torch")
        raise MissingExtraError(msg) from error
    place, backend = "cpu", "gloo"
    if device.startswith("cuda"):
        place, backend = f"cuda:{launch.local_rank}", "nccl"
        kind_of(place).select(torch.device(place))
    if not dist.is_initialized():
        alone = f"rank {launch.rank} of {launch.world_size} found no others"
        try:
            with _ended_after(2 * timeout + GRACE, alone):  # to meet, and to share the token
                dist.init_process_group(
                    backend,
                    rank=launch.rank,
                    world_size=launch.world_size,
                    timeout=timedelta(seconds=timeout),
                )
                _share_token(place)
        except (RuntimeError, ValueError) as error:
            msg = f"{alone}: {str(error).splitlines()[0]}"
            raise RankLostError(msg) from error
    return Ranks(dist.get_rank(), dist.get_world_size(), place, os.environ["MASTER_ADDR"])


@contextmanager
def _ended_after(seconds: float, alone: str) -> Iterator[None]:
    """End the process where the block takes longer.

    PyTorch's store waits without limit for an answer of a stranger who listens at its port.
    """
    over = threading.Event()

    def end() -> None:
        if not over.wait(seconds):
            place = f"{os.environ['MASTER_ADDR']}, port {os.environ['MASTER_PORT']}"
            print(
                f"dualclust: error: {alone}: who listens at {place} does not answer. "
                f"To fix this, start the ranks with another MASTER_PORT",
                file=sys.stderr,
                flush=True,
            )
            os._exit(RankLostError.exit_code)

    threading.Thread(target=end, daemon=True, name="dualclust-join").start()
    try:
        yield
    finally:
        over.set()


def run_token() -> str:
    """Return what the ranks that `join_ranks` joined have in common, and no other run ever has.

    The first rank draws it. Empty for one process, and where somebody else made the group.
    """
    return _token


def _share_token(place: str) -> None:
    """Give all ranks of a new group the first one's token."""
    global _token
    import torch
    import torch.distributed as dist

    drawn = torch.tensor([secrets.randbits(63)], device=place)
    dist.broadcast(drawn, src=0)
    _token = f"{int(drawn):016x}"


def _whole(name: str, default: str = "") -> int:
    text = os.environ.get(name, default)
    if not text.isdigit():
        msg = f"{name} must be a whole number, got {text!r}. To fix this, start with torchrun"
        raise UsageError(msg)
    return int(text)
