"""The faults: what happens to a process, which exit codes are right then, and what it must say."""

from __future__ import annotations

import os
import random
import resource
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from dualclust.train.loop.execution import Execution
from tests.faults.disk import (
    ERRORS,
    Act,
    Disk,
    failing,
    killing,
    on_disk,
    removing,
    signaling,
    taking,
)

__all__ = ["KINDS", "Kind", "Plan"]

Context = Callable[[], AbstractContextManager[Any]]


class Plan(NamedTuple):
    """A fault that was drawn.

    Attributes
    ----------
    during : callable. Makes the context in which the process runs.
    after : float, or None. Share of an undisturbed run after which it is killed from outside.
    """

    during: Context
    after: float | None = None


class Kind(NamedTuple):
    """A kind of fault.

    Attributes
    ----------
    weight : int. How many of 500 faults are of this kind.
    draw : callable. Random numbers, operations of an undisturbed run and the folder to a plan.
    codes : set of int. What a process ends with; 0: the fault came too late, or did not matter.
    says : tuple of str. Each is said where the code is not 0 and not that of a kill.
    tasks : tuple of str.
    tidy : bool. Whether a process that ends itself must leave no temporary file.
    """

    weight: int
    draw: Callable[[random.Random, int, Path], Plan]
    codes: frozenset[int]
    says: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ("train", "cluster")
    tidy: bool = True


def _at_disk(act: Act) -> Callable[[random.Random, int, Path], Plan]:
    def draw(rng: random.Random, count: int, folder: Path) -> Plan:
        at = rng.randrange(count)
        return Plan(lambda: on_disk(Disk(at, act)))

    return draw


@contextmanager
def _at_step(step: int, number: int, times: int) -> Iterator[None]:
    """Send this process a signal in a step of training, so many steps in a row."""
    plain, done = Execution.train_step, []

    def train_step(self: Execution, *args: Any) -> Any:
        done.append(1)
        if step <= len(done) < step + times:
            os.kill(os.getpid(), number)
        return plain(self, *args)

    with mock.patch.object(Execution, "train_step", train_step):
        yield


def _asking(number: int, times: int = 1) -> Callable[[random.Random, int, Path], Plan]:
    """Draw a signal in a step of training, or at an operation on the disk."""
    at_disk = _at_disk(signaling(number, times))

    def draw(rng: random.Random, count: int, folder: Path) -> Plan:
        if folder.name.endswith("train") and rng.random() < 0.7:
            step = rng.randint(1, 6)
            return Plan(lambda: _at_step(step, number, times))
        return at_disk(rng, count, folder)

    return draw


def _at_any_time(rng: random.Random, count: int, folder: Path) -> Plan:
    return Plan(lambda: on_disk(Disk(-1, failing(0))), after=rng.random())


def _vanishing(rng: random.Random, count: int, folder: Path) -> Plan:
    at = rng.randrange(count)
    return Plan(lambda: on_disk(Disk(at, removing(folder))))


@contextmanager
def _out_of_memory(step: int) -> Iterator[None]:
    plain, done = Execution.train_step, []

    def train_step(self: Execution, *args: Any) -> Any:
        done.append(1)
        if len(done) == step:
            msg = "Unable to allocate 9.00 GiB"
            raise MemoryError(msg)
        return plain(self, *args)

    with mock.patch.object(Execution, "train_step", train_step):
        yield


def _memory(rng: random.Random, count: int, folder: Path) -> Plan:
    step = rng.randint(1, 6)
    return Plan(lambda: _out_of_memory(step))


def _address_space(rng: random.Random, count: int, folder: Path) -> Plan:
    """Let the system itself refuse memory, from an operation on the disk on."""
    at, room = rng.randrange(count), rng.choice([0, 1 << 16, 1 << 20])

    def act(disk: Disk, name: str) -> None:
        if disk.acted == 1:
            pages = int(Path("/proc/self/statm").read_text().split()[0])
            size = pages * os.sysconf("SC_PAGE_SIZE") + room
            resource.setrlimit(
                resource.RLIMIT_AS, (size, resource.getrlimit(resource.RLIMIT_AS)[1])
            )

    return Plan(lambda: on_disk(Disk(at, act)))


@contextmanager
def _clock_back() -> Iterator[None]:
    """Let the clock of the day jump back by a day each time that somebody looks."""
    now, looked = time.time(), [0]

    def back() -> float:
        looked[0] += 1
        return now - 86_400.0 * looked[0]

    with mock.patch.object(time, "time", back):
        yield


def _slow(then: Act | None = None) -> Callable[[random.Random, int, Path], Plan]:
    """Draw a disk that takes a while for everything, from some operation on."""

    def draw(rng: random.Random, count: int, folder: Path) -> Plan:
        at, act = rng.randrange(count), taking(rng.uniform(0.005, 0.05), then)
        return Plan(lambda: on_disk(Disk(at, act)))

    return draw


def _clock(rng: random.Random, count: int, folder: Path) -> Plan:
    return Plan(_clock_back)


ASKED = frozenset({0, 75, 130})
"""Too late to matter; saved and to be resumed; left at once."""
KINDS: dict[str, Kind] = {
    "SIGKILL at a disk operation": Kind(
        200, _at_disk(killing(really=True)), frozenset({-signal.SIGKILL})
    ),
    "SIGKILL at a random time": Kind(40, _at_any_time, frozenset({0, -signal.SIGKILL})),
    "SIGTERM": Kind(60, _asking(signal.SIGTERM), ASKED, ("dualclust: ",)),
    "SIGINT": Kind(40, _asking(signal.SIGINT), ASKED, ("dualclust: ",)),
    "SIGTERM twice": Kind(20, _asking(signal.SIGTERM, 2), ASKED, ("dualclust: ",)),
    **{
        name: Kind(20, _at_disk(failing(number)), frozenset({0, 73}), ("dualclust: error: ",))
        for name, number in ERRORS.items()
    },
    "out of memory in a step": Kind(
        20, _memory, frozenset({71}), ("out of memory", "To fix this"), ("train",)
    ),
    "limit of the address space": Kind(
        10, _address_space, frozenset({0, 70, 71, 73, 99, -6, -11}), tidy=False
    ),
    "folder gone": Kind(20, _vanishing, frozenset({0, 73}), ("dualclust: error: ",)),
    "clock set back": Kind(10, _clock, frozenset({0})),
    "slow disk": Kind(6, _slow(), frozenset({0})),
    "slow disk and SIGTERM": Kind(
        10, _slow(signaling(signal.SIGTERM)), frozenset({0, 75, 130}), ("dualclust: ",)
    ),
}
