"""Faults of several processes: dead, stopped and different ranks, a taken port, two runs."""

from __future__ import annotations

import os
import random
import signal
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from dualclust.common.ranks import Ranks
from tests.faults.disk import Disk, on_disk, signaling, taking
from tests.faults.processes import Ended, start, start_ranks
from tests.faults.tasks import Task

__all__ = ["SEVERAL", "Several"]

WAIT = 30.0
"""Seconds that ranks wait for a stopped one: each such fault takes as long."""

SOON = 30.0
"""Seconds within which ranks that wait 5 for each other have ended, or they are hanging."""


class Several(NamedTuple):
    """A kind of fault of several processes.

    Attributes
    ----------
    weight : int. How many of 500 faults are of this kind.
    cause : callable. Random numbers, the task and a folder; returns what was wrong, or "".
    tasks : tuple of str.
    ranks : int. How many go on afterwards, and make the run to compare with.
    """

    weight: int
    cause: Callable[[random.Random, Task, Path], str]
    tasks: tuple[str, ...] = ("train", "cluster")
    ranks: int = 2


@contextmanager
def _at_exchange(rank: int, number: int, at: int) -> Iterator[None]:
    """Send a signal to a rank's own process at its `at`-th exchange."""
    plain, done = Ranks.join, []

    def join(self: Ranks, *args: Any) -> Any:
        done.append(1)
        if self.rank == rank and len(done) == at:
            os.kill(os.getpid(), number)
        return plain(self, *args)

    with mock.patch.object(Ranks, "join", join):
        yield


def _log(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.said")


def _timed(command: Sequence[str], seconds: float) -> list[str]:
    return [*command, "--timeout", str(seconds)]


def _codes(ended: Sequence[Ended]) -> str:
    return ", ".join(str(end.code) for end in ended) + ": " + " | ".join(e.said for e in ended)


def _dead(rng: random.Random, task: Task, folder: Path) -> str:
    rank, at = rng.randrange(2), rng.randint(1, 30)
    command = _timed(task.command(folder), 120.0)
    children = start_ranks(
        [command] * 2,
        _log(folder),
        during=lambda own: _at_exchange(rank, signal.SIGKILL, at),
    )
    ended = [child.wait() for child in children]
    other = ended[1 - rank]
    if ended[rank].code == -signal.SIGKILL and (
        other.code != 70 or "lost " not in other.said  # by its number, once the watch stands
    ):
        return f"rank {rank} died at exchange {at}, and the codes were {_codes(ended)}"
    return ""


def _still(rng: random.Random, task: Task, folder: Path) -> str:
    rank, at = rng.randrange(2), rng.randint(4, 20)
    command = _timed(task.command(folder), WAIT)
    children = start_ranks(
        [command] * 2,
        _log(folder),
        during=lambda own: _at_exchange(rank, signal.SIGSTOP, at),
    )
    other = children[1 - rank].wait()
    children[rank].send(signal.SIGKILL)
    children[rank].wait()
    if other.code != 70 or "lost " not in other.said:
        return f"rank {rank} stood still at exchange {at}: {_codes([other])}"
    return ""


def _different(rng: random.Random, task: Task, folder: Path) -> str:
    change = ["--seed", "1"] if task.name == "train" else ["--max-iter", "2"]
    commands = [task.command(folder) for _ in range(2)]
    commands[rng.randrange(2)] += change
    ended = [c.wait() for c in start_ranks([_timed(c, 120.0) for c in commands], _log(folder))]
    said = "".join(end.said for end in ended)
    if [end.code for end in ended] != [2, 2] or "the ranks must do the same" not in said:
        return f"ranks with other options: {_codes(ended)}"
    return ""


def _port(rng: random.Random, task: Task, folder: Path) -> str:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        commands = [_timed(task.command(folder), 5.0)] * 2
        # The first rank cannot have the port, and the other one speaks to a stranger.
        ended = [child.wait(SOON) for child in start_ranks(commands, _log(folder), port=port)]
    if any(end.code is None for end in ended):
        return f"hanging at a port that is taken: {_codes(ended)}"
    if any(end.code != 70 or "found no others" not in end.said for end in ended):
        return f"a port that is taken: {_codes(ended)}"
    return ""


def _slow(rng: random.Random, task: Task, folder: Path) -> str:
    """Let a rank's disk take its time, while the other one waits for it."""
    rank, seconds = rng.randrange(2), rng.uniform(0.02, 0.2)
    disk = Disk(0, taking(seconds))
    children = start_ranks(
        [_timed(task.command(folder), 120.0)] * 2,
        _log(folder),
        during=lambda own: on_disk(disk) if own == rank else nullcontext(),
    )
    ended = [child.wait() for child in children]
    if any(end.code is None for end in ended):
        return f"hanging beside a slow disk: {_codes(ended)}"
    if [end.code for end in ended] != [0, 0]:
        return f"{seconds:.2f} s for each operation of rank {rank}: {_codes(ended)}"
    return ""


def _twice(rng: random.Random, task: Task, folder: Path) -> str:
    """Hold a run still while another one begins in the same folder."""
    disk = Disk(rng.randint(8, 14), signaling(signal.SIGSTOP))
    first = start(task.command(folder), _log(folder), during=lambda: on_disk(disk))
    while first.lives() and not first.is_stopped():
        time.sleep(0.002)
    second = start(task.command(folder), folder.with_name(f"{folder.name}.too")).wait()
    first.send(signal.SIGCONT)
    ended = first.wait()
    if ended.code != 0 or second.code != 73 or f"process {first.pid} on" not in second.said:
        return f"two at once: {_codes([ended, second])}"
    return ""


SEVERAL: dict[str, Several] = {
    "a rank is killed": Several(30, _dead),
    "a rank stands still": Several(2, _still),
    "ranks differ": Several(6, _different, ranks=1),
    "a rank's disk is slow": Several(4, _slow),
    "the port is taken": Several(2, _port, ranks=1),
    "two runs in one folder": Several(10, _twice, ranks=1),
}
