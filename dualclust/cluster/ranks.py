"""Several processes as one: ``torchrun -m dualclust cluster X.npy ...``.

The ranks share out the rows of one file; each reads its own from the same path. They send each
other integers, or floats in the order of the rows, so that the answer does not depend on the world
size (`common.ranks`).

Before any data, the ranks exchange exit codes. A rank that fails says so in its next exchange, and
all others stop in theirs. All end with the exit code of the lowest rank that failed, and only that
rank prints its error. A lost connection or a timeout reveals a rank that died without a message.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import array_api_compat as compat
import numpy as np

from ..algos.core.errors import DualclustError
from ..algos.scores.blocks import MOST_ROWS
from ..algos.scores.sources import Group, alone
from ..common.ranks import RankLostError, Ranks

__all__ = ["agree", "row_group"]

Array = Any


class _PeerFailedError(DualclustError):
    """Another rank has failed, with this exit code."""

    def __init__(self, rank: int, code: int) -> None:
        super().__init__(f"rank {rank} failed with exit code {code}")
        self.rank, self.code = rank, code


def row_group(ranks: Ranks, n: int) -> Group:
    """Return the rows of this rank out of n: whole blocks, so that no block lies on two ranks."""
    if ranks.world_size == 1:
        return alone(n)
    start, stop = ranks.shard(n, unit=MOST_ROWS)
    return Group(start, stop - start, n, lambda array: _gather(ranks, array))


def agree(ranks: Ranks, run: Callable[[], int]) -> int:
    """Call `run`, and return an exit code that is the same on all ranks."""
    if ranks.world_size == 1:
        return run()
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
        _exchange(ranks, code, 0)
    except _PeerFailedError as lowest:
        if error is not None and lowest.rank == ranks.rank:
            raise error from None
        return lowest.code
    return code


def _gather(ranks: Ranks, array: Array) -> Array:
    """Join the arrays of all ranks along the first axis; any library, any lengths."""
    import torch

    tensor = array
    if not compat.is_torch_array(array):
        tensor = torch.from_numpy(np.ascontiguousarray(array))
    lengths = _exchange(ranks, 0, tensor.shape[0])
    own = tensor.to(ranks.device)
    # Not every backend sends booleans.
    sent = own.to(torch.uint8) if own.dtype == torch.bool else own
    joined = ranks.join(sent, lengths).to(own.dtype)
    return joined.to(array.device) if compat.is_torch_array(array) else joined.cpu().numpy()


def _exchange(ranks: Ranks, code: int, length: int) -> list[int]:
    """Return the length that each rank sends; raise if a rank's exit code so far is not 0."""
    import torch

    own = torch.tensor([[code, length]], dtype=torch.int64, device=ranks.device)
    both = ranks.join(own, [1] * ranks.world_size)
    failed = torch.nonzero(both[:, 0])
    if len(failed):
        lowest = int(failed[0, 0])
        raise _PeerFailedError(lowest, int(both[lowest, 0]))
    return [int(length) for length in both[:, 1]]
