"""A process that is asked to end finishes its step, saves once, and says how to go on.

A scheduler sends SIGTERM some seconds before it kills, and a person presses Ctrl-C. Inside
`stoppable` the first such signal is only noted: the loop asks after each step, saves, and raises
`StoppedError`, whose exit code says that it ended early and has kept what there was. A second
signal raises KeyboardInterrupt wherever the process is, and a third one has the system's own
effect.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

from ..algos.core.errors import DualclustError

__all__ = ["Stop", "StoppedError", "stoppable"]

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StoppedError(DualclustError):
    """The process was asked to end, and has saved what it needs to go on, or what it has found."""

    exit_code = 75


class Stop:
    """Whether somebody has asked this process to end; a loop calls it after each step.

    Examples
    --------
    >>> stop = Stop()
    >>> stop()
    False
    """

    def __init__(self) -> None:
        self.asked: signal.Signals | None = None

    def __call__(self) -> bool:
        """Return whether a signal has come."""
        return self.asked is not None


@contextmanager
def stoppable(
    signals: Sequence[signal.Signals] = SIGNALS, *, then: str = "ends after this step and saves"
) -> Iterator[Stop]:
    """Note the first SIGINT or SIGTERM inside the block; the second leaves at once.

    Parameters
    ----------
    signals : sequence of signal.Signals
    then : str
        What the process says that it does after the first.

    Yields
    ------
    Stop
        Outside the main thread, where no signal arrives, it never says yes.

    Raises
    ------
    KeyboardInterrupt
        At the second signal.
    """
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def note(number: int, frame: FrameType | None) -> None:
        if stop.asked is None:
            stop.asked = signal.Signals(number)
            # Not by `print`: a signal may come in the middle of one.
            os.write(2, _told(stop.asked, then).encode())
            return
        for each in signals:
            signal.signal(each, signal.SIG_DFL)
        raise KeyboardInterrupt

    # None: a handler that was not installed by Python, which cannot be put back.
    before = {each: signal.signal(each, note) or signal.SIG_DFL for each in signals}
    try:
        yield stop
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _told(asked: signal.Signals, then: str) -> str:
    return f"\ndualclust: {asked.name}: {then}; the same signal again leaves at once\n"
