"""Ranks as threads of one process: what the ranks of a command do, without a process for each.

Each thread runs the same command. They meet at a barrier wherever ranks of processes would exchange
tensors, so the answers are those of processes; what each has read can be looked at.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import array_api_compat as compat

from dualclust.algos.scores.sources import Group
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

    def sum_(self, tensors: Iterable[Any]) -> None:
        """As `Ranks.sum_`."""
        for tensor in tensors:
            every = self.join(tensor.detach()[None], [1] * self.world_size)
            tensor.copy_(every.sum(0))

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
    left_alone = (RankLostError, threading.BrokenBarrierError)
    if errors:
        raise next((e for e in errors if not isinstance(e, left_alone)), errors[0])
    return results


def groups_on_threads(edges: Sequence[int], work: Callable[[Group], Any]) -> list[Any]:
    """Call ``work(group)`` in one thread per rank, which has rows ``edges[i]`` to ``edges[i + 1]``.

    Arrays of any library meet at a barrier; the first error of a rank is raised.
    """

    def one(ranks: ThreadRanks) -> Any:
        first, last = edges[ranks.rank : ranks.rank + 2]

        def gather(array: Any) -> Any:
            slots, barrier = ranks.meeting.slots, ranks.meeting.barrier
            slots[ranks.rank] = array
            barrier.wait()
            joined = compat.array_namespace(array).concat(list(slots))
            barrier.wait()
            return joined

        return work(Group(first, last - first, edges[-1], gather))

    return on_threads(len(edges) - 1, one)
