"""Ranks as threads of one process: what the ranks of a command do, without a process for each.

Each thread runs the same command. They meet at a barrier wherever ranks of processes would exchange
tensors, so the answers are those of processes; what each has read can be looked at. A rank that
has ended comes to the barrier once more, so that no other waits there for ever: those that still
exchange something find that it has ended, and say so.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

import array_api_compat as compat

from dualclust.algos.scores.sources import Group
from dualclust.common.ranks import RankLostError, Ranks

PATIENCE = 1800.0
"""Seconds that a thread waits for the others where nothing tells that they will not come."""


class _Meeting:
    """What the threads have in common."""

    def __init__(self, world_size: int) -> None:
        self.barrier = threading.Barrier(world_size, timeout=PATIENCE)
        self.slots: list[Any] = [None] * world_size

    def meet(self, rank: int, sent: Any, read: Callable[[list[Any]], Any]) -> Any:
        """Return what a rank reads of that which all have sent; none goes on before all have."""
        self.slots[rank] = sent
        self.barrier.wait()
        ended = [other for other, content in enumerate(self.slots) if content is ENDED]
        if ended:
            msg = f"rank {rank} exchanges something and rank {ended[0]} has ended"
            raise AssertionError(msg)
        found = read(self.slots)
        self.barrier.wait()
        return found

    def end(self, rank: int) -> None:
        """Come to the barrier a last time, for those that wait there."""
        self.slots[rank] = ENDED
        with suppress(threading.BrokenBarrierError):  # another rank has failed, and says so
            self.barrier.wait()


ENDED = object()
"""What a rank that has ended sends."""


class ThreadRanks(Ranks):
    """One thread among several. `received` counts the bytes of all exchanges."""

    def __init__(self, rank: int, meeting: _Meeting) -> None:
        super().__init__(rank, len(meeting.slots))
        self.meeting, self.received = meeting, 0

    def join(self, rows: Any, lengths: Sequence[int]) -> Any:
        """As `Ranks.join`."""
        import torch

        def joined_of(parts: list[Any]) -> Any:
            assert [len(part) for part in parts] == list(lengths)
            return torch.cat(parts)

        try:
            joined = self.meeting.meet(self.rank, rows, joined_of)
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

    def wait(self) -> None:
        """As `Ranks.wait`."""
        self.any(False)

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
            meeting.end(rank)
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
            return ranks.meeting.meet(ranks.rank, array, compat.array_namespace(array).concat)

        return work(Group(first, last - first, edges[-1], gather))

    return on_threads(len(edges) - 1, one)
