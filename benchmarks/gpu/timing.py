"""Budgets of time, and measurements that say how far to trust them."""

from __future__ import annotations

import math
import signal
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from .machine import Machine

__all__ = ["Budget", "OutOfTime", "Timing", "measure"]

SHORTEST = 2e-3  # seconds of one measurement; what is shorter is repeated within it
MOST_INSIDE = 50


class OutOfTime(BaseException):
    """The budget is used up; no handler for errors catches it."""


class Budget:
    """Seconds that may be spent, from now on.

    Parameters
    ----------
    seconds : float. May be infinite.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.started = time.monotonic()

    def spent(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.started

    def left(self) -> float:
        """Seconds that are left, at least 0."""
        return max(0.0, self.seconds - self.spent())

    @contextmanager
    def guard(self) -> Iterator[None]:
        """Raise `OutOfTime` in the block once nothing is left.

        By an alarm in the main thread, between two lines of Python: a kernel that runs ends first.
        """
        left = self.left()
        if left <= 0:
            raise OutOfTime
        main = threading.current_thread() is threading.main_thread()
        if math.isinf(left) or not main or not hasattr(signal, "setitimer"):
            yield
            return

        def stop(*_: object) -> None:
            raise OutOfTime

        began = time.monotonic()
        handler = signal.signal(signal.SIGALRM, stop)
        others = signal.setitimer(signal.ITIMER_REAL, left)[0]
        try:
            yield
        finally:
            passed = time.monotonic() - began
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, handler)
            if others:  # somebody else's alarm goes on
                signal.setitimer(signal.ITIMER_REAL, max(1e-3, others - passed))


class Timing(NamedTuple):
    """Seconds of one call over repeats.

    Attributes
    ----------
    median, low, high : float
    noise : float. The same call measured twice, in turn: relative difference of the two medians.
    repeats : int
    """

    median: float
    low: float
    high: float
    noise: float
    repeats: int

    def row(self) -> dict[str, Any]:
        """As columns of a table, in milliseconds."""
        return {
            "ms": 1e3 * self.median,
            "min-max": f"{1e3 * self.low:.4g}-{1e3 * self.high:.4g}",
            "noise": self.noise,
            "repeats": self.repeats,
        }


def measure(
    machine: Machine,
    calls: Sequence[Callable[[], object]],
    *,
    repeats: int = 20,
    warm: int = 3,
    most: float = 10.0,
) -> Timing:
    """Time a call: warmed up, repeated, over several sets of inputs in turn.

    Parameters
    ----------
    machine : Machine
    calls : callables. The same work on different memory; together larger than the card's cache.
    repeats : int, 2 or more.
    warm : int. Calls before the first that counts, in at most half of `most`.
    most : float. Seconds after which there are no more repeats (but two).
    """
    if machine.toy:
        repeats, warm = 2, 0
    started = time.monotonic()
    place = 0

    def next_calls(count: int) -> None:
        nonlocal place
        for _ in range(count):
            calls[place % len(calls)]()
            place += 1

    for _ in range(warm):
        if time.monotonic() - started < most / 2:
            next_calls(1)
    once = machine.seconds(lambda: next_calls(1))
    inside = min(MOST_INSIDE, max(1, math.ceil(SHORTEST / max(once, 1e-9))))
    if machine.toy:
        inside = 1
    found = [once] if machine.toy else []  # of calls that were warmed up, where time counts
    while len(found) < 2 or (len(found) < repeats and time.monotonic() - started < most):
        found.append(machine.seconds(lambda: next_calls(inside)) / inside)
    middle = statistics.median(found)
    halves = statistics.median(found[::2]), statistics.median(found[1::2])
    noise = abs(halves[0] - halves[1]) / middle if middle else 0.0
    return Timing(middle, min(found), max(found), noise, len(found))
