"""Ranks as threads of one process: what the ranks of a command do, without a process for each.

Each thread runs the same command. They meet at a barrier wherever ranks of processes would exchange
tensors, so the answers are those of processes; what each has read can be looked at.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from dualclust.common.ranks import RankLostError, Ranks


class _Meeting:
    """What the threads have in common."""

    def __init__(self, world_size: int) -> None:
        self.barrier = threading.Barrier(world_size)
        self.slots: list[Any] = [None] * world_size


class ThreadRanks(Ranks):
    """One thread among several. `received` counts the bytes of all exchanges."""

    def __init__(self, rank: int, meeting: _Meeting) -> None:
        super().__init__(rank, len(meeting.slots))
        self.meeting, self.received = meeting, 0

    def join(self, rows: Any, lengths: Sequence[int]) -> Any:
        """As `Ranks.join`."""
        import torch

        slots, barrier = self.meeting.slots, self.meeting.barrier
        slots[self.rank] = rows
        try:
            barrier.wait()
            assert [len(part) for part in slots] == list(lengths)
            joined = torch.cat(list(slots))
            barrier.wait()  # nobody goes on before all have read
        except threading.BrokenBarrierError as error:
            msg = "lost a rank"
            raise RankLostError(msg) from error
        self.received += joined.nbytes - rows.nbytes
        return joined

    def leave(self) -> None:
        """Nothing to leave."""


def on_threads(world_size: int, work: Callable[[ThreadRanks], Any]) -> list[Any]:
    """Call ``work(ranks)`` in one thread per rank, and return what each returns.

    The first error of a rank is raised here once all threads have ended.
    """
    meeting = _Meeting(world_size)
    results: list[Any] = [None] * world_size
    errors: list[BaseException] = []

    def one(rank: int) -> None:
        try:
            results[rank] = work(ThreadRanks(rank, meeting))
        except BaseException as error:
            errors.append(error)
            meeting.barrier.abort()

    threads = [threading.Thread(target=one, args=(rank,)) for rank in range(world_size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise next((e for e in errors if not isinstance(e, RankLostError)), errors[0])
    return results
