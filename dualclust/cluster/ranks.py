"""Several processes as one: ``torchrun -m dualclust cluster X.npy ...``.

The ranks share out the rows of one file, which each reads itself from the same path, and send each
other integers, or floats in the order of the rows, so that the answer does not depend on how many
they are. torchrun's environment variables (``RANK``, ``WORLD_SIZE``, ``LOCAL_RANK``,
``MASTER_ADDR``, ``MASTER_PORT``) say who is who.

Before any data the ranks exchange how they fare. A rank that fails says so in its next exchange,
all others stop in theirs, and all end with the exit code of the lowest rank that failed; only that
one prints its error. A rank that dies without a word is noticed by a lost connection or by time.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import array_api_compat as compat
import numpy as np

from ..algos.core.errors import DualclustError, MissingExtraError, UsageError
from ..algos.scores.blocks import MOST_ROWS
from ..algos.scores.sources import Group, alone

__all__ = ["RankLostError", "Ranks", "join_ranks", "share_of_rows"]

Array = Any


class RankLostError(DualclustError, RuntimeError):
    """Another rank has gone, or did not answer in time."""


class _PeerFailedError(DualclustError):
    """Another rank has said that it failed, and with which exit code."""

    def __init__(self, rank: int, code: int) -> None:
        super().__init__(f"rank {rank} failed with exit code {code}")
        self.rank, self.code = rank, code


class Ranks:
    """One of the processes that work on a problem; the only one by default.

    Attributes
    ----------
    rank, size : int
    """

    rank, size = 0, 1

    def group(self, n: int) -> Group:
        """Rows of this rank out of n."""
        return alone(n)

    def agree(self, run: Callable[[], int]) -> int:
        """Run, and return an exit code that is the same on all ranks."""
        return run()


class _Joined(Ranks):
    """One of several processes, over torch.distributed."""

    def __init__(self, rank: int, size: int, device: str) -> None:
        self.rank, self.size, self.device = rank, size, device

    def group(self, n: int) -> Group:
        first, count = share_of_rows(self.rank, self.size, n)
        return Group(first, count, n, self.gather)

    def gather(self, array: Array) -> Array:
        import torch

        tensor = torch.as_tensor(array) if compat.is_torch_array(array) else _tensor(array)
        lengths = self._exchange(0, tensor.shape[0])
        sent = torch.zeros((max(lengths), *tensor.shape[1:]), dtype=tensor.dtype)
        sent = sent.to(self.device)
        sent[: tensor.shape[0]] = tensor.to(self.device)
        if sent.dtype == torch.bool:
            joined = self._join(sent.to(torch.uint8), lengths).to(torch.bool)
        else:
            joined = self._join(sent, lengths)
        if compat.is_torch_array(array):
            return joined.to(array.device)
        return joined.cpu().numpy()

    def agree(self, run: Callable[[], int]) -> int:
        error: BaseException | None = None
        try:
            code = run()
        except _PeerFailedError as peer:
            return peer.code
        except RankLostError:
            raise
        except DualclustError as ours:
            code, error = ours.exit_code, ours
        except Exception as bug:
            code, error = DualclustError.exit_code, bug
        try:
            self._exchange(code, 0)
        except _PeerFailedError as lowest:
            if error is not None and lowest.rank == self.rank:
                raise error from None
            return lowest.code
        return code

    def _exchange(self, code: int, length: int) -> list[int]:
        """Everybody's exit code so far and length; raises if a code is not 0."""
        import torch

        own = torch.tensor([[code, length]], dtype=torch.int64, device=self.device)
        both = self._join(own, [1] * self.size)
        failed = torch.nonzero(both[:, 0])
        if len(failed):
            lowest = int(failed[0, 0])
            raise _PeerFailedError(lowest, int(both[lowest, 0]))
        return [int(length) for length in both[:, 1]]

    def _join(self, sent: Array, lengths: list[int]) -> Array:
        import torch
        import torch.distributed as dist

        parts = [torch.empty_like(sent) for _ in lengths]
        try:
            if sent.numel():
                dist.all_gather(parts, sent)
        except RuntimeError as error:
            msg = f"lost a rank: {str(error).splitlines()[0]}"
            raise RankLostError(msg) from error
        return torch.cat([part[:length] for part, length in zip(parts, lengths, strict=True)])


def _tensor(array: Array) -> Array:
    import torch

    return torch.from_numpy(np.ascontiguousarray(array))


def share_of_rows(rank: int, size: int, n: int) -> tuple[int, int]:
    """First row and number of rows of a rank: whole blocks, so that no block lies on two ranks.

    Examples
    --------
    >>> [share_of_rows(rank, 3, 20_000) for rank in range(3)]
    [(0, 8192), (8192, 8192), (16384, 3616)]
    """
    blocks = -(-n // MOST_ROWS)
    first, last = (min(n, blocks * r // size * MOST_ROWS) for r in (rank, rank + 1))
    return first, last - first


@contextmanager
def join_ranks(device: str = "cpu", timeout: float = 1800.0) -> Iterator[Ranks]:
    """Join the ranks that the environment names, or be alone.

    Parameters
    ----------
    device : str
        "cpu" joins by gloo, "cuda" by NCCL.
    timeout : float
        Seconds to wait for another rank.

    Raises
    ------
    UsageError
        If the environment names some of the variables and not all.
    MissingExtraError
        If there are several ranks and torch is not installed.
    RankLostError
        If not all ranks come in time.
    """
    size = _whole("WORLD_SIZE", 1)
    if size <= 1:
        yield Ranks()
        return
    rank = _whole("RANK")
    try:
        import torch
        import torch.distributed as dist
    except ImportError as error:
        msg = "several ranks need torch. To fix this: pip install 'dualclust[train]'"
        raise MissingExtraError(msg) from error
    place = "cpu"
    if device.startswith("cuda"):
        place = f"cuda:{_whole('LOCAL_RANK', rank)}"
        torch.cuda.set_device(place)
    try:
        dist.init_process_group(
            "gloo" if place == "cpu" else "nccl",
            rank=rank,
            world_size=size,
            timeout=timedelta(seconds=timeout),
        )
    except (RuntimeError, ValueError) as error:
        msg = f"rank {rank} of {size} found no others: {str(error).splitlines()[0]}"
        raise RankLostError(msg) from error
    try:
        yield _Joined(rank, size, place)
    finally:
        dist.destroy_process_group()


def _whole(name: str, default: int | None = None) -> int:
    text = os.environ.get(name, "" if default is None else str(default))
    if not text.isdigit():
        msg = f"{name} must be a whole number, got {text!r}. To fix this, start with torchrun"
        raise UsageError(msg)
    return int(text)
