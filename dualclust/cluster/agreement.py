"""How ranks end together: one exit code for all, one message for an error.

Before any data, the ranks exchange exit codes. A rank that fails says so in its next exchange, and
all others stop in theirs. All end with the exit code of the lowest rank that failed, and only that
rank prints its error. A rank that died without a message is noticed by `common.watch`, by a lost
connection or by the time limit of an exchange.
"""

from __future__ import annotations

from collections.abc import Callable

from ..algos.core.errors import DualclustError
from ..common.ranks import RankLostError, Ranks

__all__ = ["PeerFailedError", "agree", "exchange_lengths"]


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
        code, error = DualclustError.exit_code, bug
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
