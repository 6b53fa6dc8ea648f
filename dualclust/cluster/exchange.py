"""What the ranks of a command tell each other: rows, lengths, and with what exit code they end.

``torchrun -m dualclust cluster X.npy ...`` starts several processes. Each reads the rows of its own
share alone, from the same path or from the same folder of shards, of which it needs only those that
hold its rows. Ranks send each other integers, or floats in the order of the rows, so that their
number does not change the answer (`docs/decisions/0011-blocks.md`). The share of a rank is a run of
whole blocks, which no other rank reads (`row_group`).

Some steps need rows by their numbers: the sample of k-means++, those on which prices are learned,
the row that an empty cluster moves to, the rows of the report. Each rank reads those of its share
and sends them to all (`take_over_ranks`).

Before any data, the ranks exchange exit codes. A rank that fails says so in its next exchange, and
all others stop in theirs. All end with the exit code of the lowest rank that failed, and only that
rank prints its error (`agree`). A rank that died without a message is noticed by `common.watch`, by
a lost connection or by the time limit of an exchange.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import array_api_compat as compat
import numpy as np
from numpy.typing import NDArray

from ..algos.core.errors import DualclustError
from ..algos.scores.blocks import MOST_ROWS
from ..algos.scores.sources import Group, alone
from ..common.memory import memory_error
from ..common.ranks import RankLostError, Ranks

__all__ = [
    "PeerFailedError",
    "agree",
    "exchange_bytes",
    "exchange_lengths",
    "row_group",
    "take_over_ranks",
]

Array = Any
Take = Callable[[NDArray[np.int64]], NDArray[Any]]


def row_group(ranks: Ranks, n: int) -> Group:
    """Return the rows of this rank out of n: whole blocks, so that no block lies on two ranks."""
    if ranks.world_size == 1:
        return alone(n)
    start, stop = ranks.shard(n, unit=MOST_ROWS)
    return Group(start, stop - start, n, lambda array: _gather(ranks, array))


def take_over_ranks(take: Take, group: Group, ids: NDArray[np.int64]) -> NDArray[Any]:
    """Return rows by their numbers among those of all ranks; each rank reads its own.

    Parameters
    ----------
    take : callable
        ``take(ids)``: rows by number, (m, d); asked only for rows of this rank.
    group : Group
    ids : (m,) int64 array
        In any order, the same on all ranks.

    Returns
    -------
    (m, d) array, on every rank
    """
    if group.is_alone:
        return take(ids)
    order = np.argsort(ids, kind="stable")
    ascending = ids[order]  # so those of one rank come before those of the next
    edges = group.first_row, group.first_row + group.n_local
    first, last = np.searchsorted(ascending, edges)
    joined: NDArray[Any] = group.gather(take(ascending[first:last]))
    rows = np.empty_like(joined)
    rows[order] = joined
    return rows


class PeerFailedError(DualclustError):
    """Another rank has failed, with this exit code."""

    def __init__(self, rank: int, code: int) -> None:
        super().__init__(f"rank {rank} failed with exit code {code}")
        self.rank, self.code = rank, code


def agree(ranks: Ranks, run: Callable[[], int]) -> int:
    """Call `run`, and return an exit code that is the same on all ranks."""
    if ranks.world_size == 1:
        return run()
    error: BaseException | None = None
    try:
        code = run()
    except PeerFailedError as peer:
        return peer.code
    except RankLostError:
        raise
    except DualclustError as ours:
        code, error = ours.exit_code, ours
    except Exception as bug:
        refused = memory_error(bug, "give the work to more ranks, or to fewer threads")
        code, error = (refused or DualclustError).exit_code, refused or bug
    try:
        exchange_lengths(ranks, code, 0)
    except PeerFailedError as lowest:
        if error is not None and lowest.rank == ranks.rank:
            raise error from None
        return lowest.code
    return code


def exchange_lengths(ranks: Ranks, code: int, length: int) -> list[int]:
    """Return the length that each rank is about to send.

    Raises
    ------
    PeerFailedError
        If a rank's exit code so far is not 0, with the lowest such rank.
    """
    import torch

    own = torch.tensor([[code, length]], dtype=torch.int64, device=ranks.device)
    both = ranks.join(own, [1] * ranks.world_size)
    failed = torch.nonzero(both[:, 0])
    if len(failed):
        lowest = int(failed[0, 0])
        raise PeerFailedError(lowest, int(both[lowest, 0]))
    return [int(length) for length in both[:, 1]]


def exchange_bytes(ranks: Ranks, content: bytes) -> list[bytes]:
    """Return what each rank gives here, in the order of the ranks.

    Raises
    ------
    PeerFailedError
        As `exchange_lengths`.
    """
    import torch

    lengths = exchange_lengths(ranks, 0, len(content))
    sent = torch.frombuffer(bytearray(content), dtype=torch.uint8).to(ranks.device)
    joined = ranks.join(sent, lengths).cpu()
    return [part.numpy().tobytes() for part in torch.split(joined, lengths)]


def _gather(ranks: Ranks, array: Array) -> Array:
    """Join the arrays of all ranks along the first axis; any library, any lengths."""
    import torch

    tensor = array
    if not compat.is_torch_array(array):
        tensor = torch.from_numpy(np.ascontiguousarray(array))
    lengths = exchange_lengths(ranks, 0, tensor.shape[0])
    own = tensor.to(ranks.device)
    # Not every backend sends booleans.
    sent = own.to(torch.uint8) if own.dtype == torch.bool else own
    joined = ranks.join(sent, lengths).to(own.dtype)
    return joined.to(array.device) if compat.is_torch_array(array) else joined.cpu().numpy()
