"""How far a training run is: a bar on a terminal, a line every tenth of the epochs elsewhere.

Rate and time left come from the clock and from counts that the host has anyway; loss and sizes are
those of the last epoch. Nothing is read from the device for them.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any, TextIO

import rich.console
import rich.progress

from ..cluster.progress import duration
from ..train.config.run import RunConfig
from ..train.report.page.symptoms import SYMPTOMS

__all__ = ["RunProgress", "describe"]

SETTLED = 0.5
"""Seconds after which a speed is worth telling."""


class RunProgress:
    """Shows how far a run is, inside a ``with`` block.

    Parameters
    ----------
    title : str
    config : RunConfig or None. Says how many epochs there are; None: that is not known.
    resumed : bool. Whether some epochs may be over.
    shown : bool
    stream : text stream, optional. Standard error by default.
    clock : callable, optional. Seconds from any start.
    """

    def __init__(
        self,
        title: str,
        config: RunConfig | None,
        *,
        resumed: bool = False,
        shown: bool = True,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.title, self.shown, self.clock = title, shown, clock
        self.stream = sys.stderr if stream is None else stream
        self.epochs = None if config is None else config.epochs
        self.starts = None if config is None else config.starts
        self.bar: rich.progress.Progress | None = None
        self.total: int | None = None
        if self.epochs is not None:
            self.set_epochs(self.epochs)
        self.at: float | None = None if resumed else 0.0  # epochs that are over, of `total`
        self.seen, self.part, self.samples = 0, 0.0, 0  # here: epochs, share of one, its samples
        self.begun: tuple[float, float] | None = None  # when the first step was done, and where
        self.epoch_begun: tuple[float, int] | None = None  # its first step: when, and samples
        self.rate, self.said = 0.0, ""
        self.alarms: set[str] = set()  # of the epoch before
        self.encoded: tuple[float, int] | None = None  # when a frozen encoder began, and after what
        self.tenth = 0  # of its samples, that was told last
        self.features: rich.progress.TaskID | None = None

    def set_epochs(self, epochs: int) -> None:
        """Take how many epochs the run has; they may change while it goes (`--time`)."""
        # Epochs of all beginnings, of which one goes on.
        more = self.starts.epochs * (self.starts.count - 1) if self.starts is not None else 0
        self.epochs, self.total = epochs, epochs + more
        if self.bar is not None:
            self.bar.update(self.task, total=self.total)

    def __enter__(self) -> RunProgress:
        if self.shown and self.stream.isatty():
            self.bar = rich.progress.Progress(
                rich.progress.TextColumn("{task.description}"),
                rich.progress.BarColumn(bar_width=20),
                rich.progress.TaskProgressColumn(),
                rich.progress.TextColumn("{task.fields[state]}", markup=False),
                console=rich.console.Console(file=self.stream),
            )
            self.task = self.bar.add_task(self.title, total=self.total, state="")
            self.bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self.bar is not None:
            self.bar.stop()

    def step(self, done: int, total: int) -> None:
        """Take how many samples of an epoch have been used, of how many."""
        now = self.clock()
        self.part, self.samples = done / total, total
        if self.epoch_begun is None:
            self.epoch_begun = now, done
        elif (spent := now - self.epoch_begun[0]) >= SETTLED:
            self.rate = (done - self.epoch_begun[1]) / spent
        if self.begun is None:
            self.begun = (now, self.part)
        self._draw(now)

    def encoding(self, done: int, total: int) -> None:
        """Take how many samples a frozen encoder has seen, of how many."""
        now = self.clock()
        if self.encoded is None:  # the first batch warms up
            self.encoded, self.tenth = (now, done), 10 * done // total
            return
        spent, since = now - self.encoded[0], done - self.encoded[1]
        words = []
        if spent >= SETTLED and since > 0:
            left = duration((total - done) * spent / since)
            words = [f"{since / spent:,.0f} samples/s", f"{left} left"] if done < total else []
        if self.bar is not None:
            if self.features is None:
                self.features = self.bar.add_task("features", total=total, state="")
            self.bar.update(self.features, completed=done, state="  ".join(words))
        elif self.shown and 10 * done // total > self.tenth and spent >= SETTLED:
            self.tenth = 10 * done // total
            said = f"features of {done:,} of {total:,} samples"
            print(f"{self.title}: {'  '.join([said, *words])}", file=self.stream, flush=True)
        if done == total:
            self.encoded = self.features = None

    def epoch(self, record: dict[str, Any]) -> None:
        """Take the metrics of an epoch, at its end."""
        self.at, self.part, self.epoch_begun = float(self._finished(record)), 0.0, None
        self.seen += 1
        if "part" in record:
            self.set_epochs(int(record["epoch"]))
        if self.shown and "steps" in record:
            self._say(f"dualclust: {record['steps']}")
        self._alarm(record)
        self.said = describe(record, self.epochs)
        if self.bar is not None:
            self._draw(self.clock())
        elif self.shown and record["epoch"] % max(1, (self.epochs or 10) // 10) == 0:
            self.rate = self.samples / record["seconds"] if record.get("seconds") else 0.0
            words = [self.said, *self._speed(self.clock())]
            print(f"{self.title}: {'  '.join(words)}", file=self.stream, flush=True)

    def _alarm(self, record: dict[str, Any]) -> None:
        """Print the alarms of an epoch, each in the first of consecutive epochs that have it."""
        alarms = record.get("alarms", {})
        for name, seen in alarms.items() if self.shown else ():
            if name not in self.alarms:
                symptom = SYMPTOMS[name]
                where = f"start {record['start']}, " if "start" in record else ""
                lines = [
                    f"dualclust: ALARM in {where}epoch {record['epoch']}: {name}. {seen}.",
                    f"  {symptom.cause} To fix this: {symptom.remedy}",
                ]
                self._say(*lines)
        self.alarms = set(alarms)

    def _say(self, *lines: str) -> None:
        """Print lines above the bar, where there is one."""
        if self.bar is not None:
            self.bar.console.print(*lines, sep="\n", markup=False, highlight=False)
        else:
            print(*lines, sep="\n", file=self.stream, flush=True)

    def _finished(self, record: dict[str, Any]) -> int:
        """Epochs of `total` that are over at the end of an epoch."""
        epoch = int(record["epoch"])
        if self.starts is None:
            return epoch
        before = record.get("start", self.starts.count - 1)
        return int(before) * self.starts.epochs + epoch

    def _draw(self, now: float) -> None:
        if self.bar is None:
            return
        state = "  ".join([self.said, *self._speed(now)]).strip()
        self.bar.update(self.task, completed=(self.at or 0.0) + self.part, state=state)

    def _speed(self, now: float) -> list[str]:
        """Return the samples per second and the time left, as far as they are known."""
        words = [f"{self.rate:,.0f} samples/s"] if self.rate > 0 else []
        if self.begun is None or self.at is None or self.total is None:
            return words
        spent, done = now - self.begun[0], self.seen + self.part - self.begun[1]
        left = self.total - self.at - self.part
        if spent >= SETTLED and done > 0 and left > 0:
            words.append(f"{duration(left * spent / done)} left")
        return words


def describe(record: dict[str, Any], epochs: int | None) -> str:
    """Return the figures of an epoch as one line; accuracy by the papers' protocol.

    Examples
    --------
    >>> describe({"epoch": 3, "loss": 1.2, "size_min": 8, "size_max": 12, "argmax_acc": 0.9}, 60)
    'epoch 3/60  loss 1.200  sizes 8-12  acc 0.900'
    >>> describe({"epoch": 3, "part": 0.4, "loss": 1.2, "size_min": 8, "size_max": 12}, 3)
    'epoch 3/3, the time was over after 40% of it  loss 1.200  sizes 8-12'
    """
    start = f"start {record['start']}  " if "start" in record else ""
    epoch = f"epoch {record['epoch']}" + (f"/{epochs}" if epochs else "")
    if "part" in record:
        epoch += f", the time was over after {record['part']:.0%} of it"
    figures = {"test acc": record.get("test_acc"), "acc": record.get("argmax_acc")}
    known = [f"  {name} {value:.3f}" for name, value in figures.items() if value is not None]
    sizes = f"sizes {record['size_min']}-{record['size_max']}"
    return f"{start}{epoch}  loss {record['loss']:.3f}  {sizes}{''.join(known[:1])}"
