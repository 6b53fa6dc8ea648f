"""How far a command is, on standard error: time, phase, gap, pass, rows per second, time left.

Every read of a block goes through `Meter.reading`, which adds two numbers to what a read costs.
The line is drawn as a phase begins, and then at most five times a second; `Meter.running` does so
where no rows are read, as while centers are drawn. Where nothing is shown, nothing is counted. A
pass begins with the read of its first row: on several threads workers may read that while prices
are still learned, and the first rates of such a pass are lower than its last.
"""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

import numpy as np
from numpy.typing import NDArray

from ..algos.scores.sources import Group
from ..common.formats import Rows
from ..common.formats.rows import Floats

__all__ = ["Meter", "duration"]

EVERY = 0.2
"""Seconds between two drawings of the line."""

SETTLED = 0.5
"""Seconds of a pass after which its speed is worth telling."""

CLEAR = "\r\x1b[K"


class Meter:
    r"""Counts the rows that a pass has read, and shows it.

    Parameters
    ----------
    shown : bool
        Whether anything is printed.
    stream : text stream, optional
        Standard error by default. On a terminal there is one line that changes; anywhere else,
        there is a line for each update (`Meter.tell`).
    clock : callable, optional
        Seconds from any start.

    Examples
    --------
    >>> import io
    >>> meter = Meter(True, stream=io.StringIO(), clock=lambda: 5.0)
    >>> meter.tell("update 1: gap 1.0e-03, 3.00% of labels changed")
    >>> meter.stream.getvalue()
    'update 1: gap 1.0e-03, 3.00% of labels changed; 0 s\n'
    """

    def __init__(
        self,
        shown: bool,
        *,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.stream = sys.stderr if stream is None else stream
        self.shown, self.clock = shown, clock
        self.one_line = shown and self.stream.isatty()
        self.what, self.told = "", ""
        self.n_rows, self.first_row, self.n_read, self.n_passes = 0, 0, 0, 0
        self.made, self.started, self.drawn = clock(), 0.0, -EVERY
        self.lock = threading.Lock()  # blocks may be read by several threads

    def begin(self, what: str, group: Group | None = None) -> None:
        """Say what the next passes are for, and which rows one of them reads, if that is known."""
        with self.lock:
            self.what = what
            if group is not None:
                self.n_rows, self.first_row = group.n_local, group.first_row
            self.n_read, self.n_passes, self.started = 0, 0, self.clock()
            self._draw(self.started)

    def tell(self, text: str) -> None:
        """Show what came out of an update: beside the line, or as a line of its own."""
        self.told = text
        if self.shown and not self.one_line:
            print(f"{text}; {duration(self.clock() - self.made)}", file=self.stream, flush=True)

    def end(self) -> None:
        """Take the line away, until the next phase begins."""
        with self.lock:
            self.what = ""
            if self.one_line and self.drawn > -EVERY:
                self.stream.write(CLEAR)
                self.stream.flush()
                self.drawn = -EVERY

    @contextmanager
    def running(self) -> Iterator[None]:
        """Let the time on the line go on inside the block, whatever the command does."""
        if not self.one_line:
            yield
            return
        done = threading.Event()

        def go_on() -> None:
            while not done.wait(EVERY):
                with self.lock:
                    self._draw_if_due(self.clock())

        thread = threading.Thread(target=go_on, name="dualclust-progress", daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def reading(self, rows: Rows) -> Rows:
        """Return rows whose reads are counted; the same rows where no line is drawn."""
        return cast(Rows, _Counted(rows, self)) if self.one_line else rows

    def add(self, start: int, stop: int) -> None:
        """Count the rows of a block that was read."""
        with self.lock:
            now = self.clock()
            if start == self.first_row:
                self.n_read, self.started = 0, now
                self.n_passes += 1
            self.n_read += stop - start
            self._draw_if_due(now)

    def _draw_if_due(self, now: float) -> None:
        if now - self.drawn >= EVERY:
            self._draw(now)

    def _draw(self, now: float) -> None:
        """Draw the line; the caller holds the lock."""
        if not self.one_line or not self.what:
            return
        self.drawn = now
        line = self.line(now)[: shutil.get_terminal_size().columns - 1]
        self.stream.write(f"{CLEAR}{line}")
        self.stream.flush()

    def line(self, now: float) -> str:
        """Return the line: what matters most comes first, where a terminal is narrow."""
        text = f"[{duration(now - self.made)}] {self.what}"
        text = f"{text}: {self.told}" if self.told else text
        if not self.n_passes:
            return text
        read = min(self.n_read, self.n_rows)
        share = read / max(1, self.n_rows)
        parts = [f"pass {self.n_passes}", f"{share:.0%} of {self.n_rows:,} rows"]
        if now - self.started >= SETTLED:
            speed = read / (now - self.started)
            parts.append(f"{speed:,.0f} rows/s")
            parts.append(f"{duration((self.n_rows - read) / max(speed, 1e-9))} left")
        return f"{text}; {', '.join(parts)}"


class _Counted:
    """Rows that tell a meter what is read of them."""

    def __init__(self, inside: Rows, meter: Meter) -> None:
        self._inside, self._meter = inside, meter

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inside, name)

    def rows(self, start: int, stop: int) -> Floats:
        block = self._inside.rows(start, stop)
        if stop > start:
            self._meter.add(start, stop)
        return block

    def take(self, ids: NDArray[np.int64]) -> Floats:
        return self._inside.take(ids)


def duration(seconds: float) -> str:
    """Return a time span in words.

    Examples
    --------
    >>> [duration(s) for s in (0.04, 9.6, 75.0, 5000.0, 90000.0)]
    ['0.04 s', '10 s', '1 min 15 s', '1 h 23 min', '25 h 0 min']
    """
    if seconds < 1.0:
        return f"{seconds:.2g} s"
    if round(seconds) < 60:
        return f"{seconds:.0f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
