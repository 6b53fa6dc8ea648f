"""How many epochs fit into a time (`--time`), and the largest network that still gets its epochs.

The time is the user's, so that here, and nowhere else in a run, a clock decides: the same command
on a faster machine gives another run. Steps are timed before the run (`fit_to_time`), and epochs
while it goes (`Pace`), since others come and go on a machine. ``config.toml`` says what it came to,
and repeats it.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from ...algos.core.errors import UsageError
from ..config.run import RunConfig
from ..loop.cpu_threads import threads
from ..loop.run import Run
from .choices import Choice, Chosen
from .epochs import lasting

__all__ = ["SHARE", "Pace", "epoch_time", "fit_to_time", "ladder", "seconds_of"]

SHARE = 0.8
"""Of the time, what epochs get; the rest is for reading the data, evaluation and results."""

RESULTS = 0.1
"""Of the time, what the last evaluation and the results get at least; where an epoch takes longer,
they get as long as one, since what slows it slows them."""

RESULTS_OF_EPOCH = 1 / 3
"""Of the time of an epoch, what they take at least: two passes without gradients, one view each."""

RECENT = 0.2
"""Share of the epochs that are over, the last ones, by which those to come are timed: one of them
has an evaluation."""

WORTH = 0.05
"""Least share of the epochs by which their number changes: schedules follow it."""

SAMPLES = 2048
"""Samples of the run whose steps are timed, or eight for each cluster if that is more."""

STEPS = 4
"""Steps of it at least; the first one, which allocates, is not timed."""

LEAST = 2.0
"""Seconds of steps at least: other processes slow some of them, and a few of 5 ms tell nothing."""

MOST = 4
"""Epochs at most, in multiples of those by count: more rarely help."""

WIDTHS = (8, 16, 32, 64)

_UNITS = {"s": 1, "m": 60, "h": 3600}


class _EnoughError(Exception):
    """Ends an epoch whose steps have been timed."""


def _passes(config: RunConfig) -> float:
    """Passes over the data that a run takes for each of its epochs, beginnings included."""
    starts = config.starts
    more = 0 if starts is None else (starts.count - 1) * starts.epochs
    return 1 + more / config.epochs


def seconds_of(text: str) -> float:
    """Read a time such as ``20m``, ``1h30m`` or ``90s``.

    Raises
    ------
    UsageError
        If the text is no time above 0.

    Examples
    --------
    >>> seconds_of("1h30m"), seconds_of("1.5m")
    (5400.0, 90.0)
    """
    parts = re.findall(r"(\d+(?:\.\d+)?)([smh])", text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        msg = f"--time must be a time such as 20m, 1h30m or 90s, got {text!r}"
        raise UsageError(msg)
    seconds = sum(float(number) * _UNITS[unit] for number, unit in parts)
    if seconds <= 0:
        msg = f"--time must be above 0, got {text!r}"
        raise UsageError(msg)
    return seconds


def ladder(config: RunConfig) -> Iterator[RunConfig]:
    """Yield settings with wider and wider networks; of other networks than ResNet, those alone."""
    if not config.network.name.startswith("resnet"):
        yield config
        return
    for width in WIDTHS:
        yield replace(config, network=replace(config.network, width=width))


def epoch_time(
    config: RunConfig, device: str, n: int, *, clock: Callable[[], float] = time.perf_counter
) -> float:
    """Seconds that an epoch of n samples takes, by the first steps of a run that is thrown away.

    Parameters
    ----------
    config : RunConfig
    device : str
    n : int. Samples of an epoch.
    clock : callable, optional. Seconds from any start.
    """
    limit = min(n, max(SAMPLES, 8 * max(config.heads.clusters)))
    data, optim = replace(config.data, limit=limit), replace(config.optim, frozen_epochs=0)
    times: list[float] = []
    with threads(config.threads):
        run = Run(replace(config, data=data, optim=optim, starts=None), device)
        run.init()
        weight = next(run.method.network.parameters())

        def step(done: int, total: int) -> None:
            weight.flatten()[0].item()  # waits for the device
            times.append(clock())
            if len(times) >= STEPS and times[-1] - times[0] >= LEAST:
                raise _EnoughError

        run.on_step = step
        begun = clock()
        with suppress(_EnoughError):
            run.run_epoch()
    each = (times[-1] - times[0]) / (len(times) - 1) if len(times) > 1 else times[0] - begun
    before = max(0.0, times[0] - begun - each) * n / run.loader.n
    return before + each * math.ceil(n / config.batch_size)


def fit_to_time(
    chosen: Chosen,
    seconds: float,
    measure: Callable[[RunConfig], float],
    *,
    clock: Callable[[], float] = time.perf_counter,
    rungs: Sequence[RunConfig] | None = None,
    begun: float | None = None,
) -> Chosen:
    """Return settings whose run takes about this time, timing included.

    Parameters
    ----------
    chosen : Chosen. Its epochs are what a run should have.
    seconds : float > 0
    measure : callable. Seconds of an epoch, as `epoch_time` finds them.
    clock : callable, optional. What `measure` takes counts as well.
    rungs : sequence of RunConfig, optional. From the smallest to the largest; `ladder` by default.
    begun : float, optional. By the clock: since when the time passes; now by default.

    Returns
    -------
    Chosen
        With the largest network that gets its epochs in that time, and up to `MOST` times as many;
        with the smallest one and fewer epochs where none does.

    Raises
    ------
    UsageError
        If not one epoch fits.
    """
    begun = clock() if begun is None else begun
    wanted, best, each = chosen.config.epochs, chosen.config, 0.0
    for i, config in enumerate(ladder(chosen.config) if rungs is None else rungs):
        found = measure(config) * _passes(config)
        affordable = SHARE * (seconds - (clock() - begun)) / found
        if i and affordable < wanted:
            break
        best, each = config, found
        # The next one takes at least twice as long.
        if affordable < 2 * wanted:
            break
    spent = clock() - begun
    left = SHARE * (seconds - spent)
    epochs = min(MOST * wanted, int(left / each))
    if epochs < 1:
        msg = (
            f"--time {seconds:.0f}s is too short: an epoch takes {each:.0f} s, and {spent:.0f} s "
            f"went before the first. To fix this, give {spent + 2 * each / SHARE:.0f}s or more, or "
            f"fewer samples (--set data.limit=1000)"
        )
        raise UsageError(msg)
    said = {
        "epochs": (epochs, f"--time: an epoch takes {each:.1f} s, by timing a few steps"),
        "network.width": (best.network.width, "--time: the largest that gets its epochs"),
    }
    choices = []
    for choice in chosen.choices:
        name = choice.settings.partition(" = ")[0]
        value, reason = said.get(name, ("", ""))
        choices.append(Choice(f"{name} = {value}", reason) if reason else choice)
    return Chosen(lasting(best, epochs), tuple(choices))


class Pace:
    """Epochs of a run that ends at a time: told again after each, by those that have passed.

    An epoch for which there is no time any more ends inside (`is_over`).

    Parameters
    ----------
    seconds : float > 0. Of the run, from when `begun` was.
    begun : float. By the clock.
    most : int. Epochs at most.
    clock : callable, optional. Seconds from any start.
    """

    def __init__(
        self,
        seconds: float,
        begun: float,
        most: int,
        *,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.until, self.most, self.clock = begun + seconds, most, clock
        self.results = RESULTS * seconds
        self.ends: list[float] = []
        self.first: tuple[float, int] | None = None  # step of an epoch: when, and samples by then

    def __call__(self, record: dict[str, Any], epochs: int) -> int:
        """Take the metrics of an epoch that is over; return how many epochs there shall be.

        Examples
        --------
        >>> times = iter([10.0, 12.0, 22.0])
        >>> pace = Pace(100, 0.0, 400, clock=lambda: next(times))
        >>> pace({"epoch": 1, "seconds": 2.0}, 45), pace({"epoch": 2, "seconds": 2.0}, 41)
        (41, 41)
        >>> pace({"epoch": 3, "seconds": 10.0}, 41)
        9
        """
        done, now = int(record["epoch"]), self.clock()
        if not self.ends:
            self.ends.append(now - float(record["seconds"]))
        self.ends.append(now)
        recent = min(len(self.ends) - 1, max(1, math.ceil(RECENT * done)))
        each = (now - self.ends[-1 - recent]) / recent
        left = self.until - now - max(self.results, each)
        fits = done + max(0, math.floor(left / each) if each > 0 else self.most)
        fits = min(fits, max(self.most, done))
        return fits if abs(fits - epochs) > WORTH * epochs else epochs

    def is_over(self, done: int, samples: int) -> bool:
        """Take how many samples of an epoch have been used; whether it has to end here.

        Examples
        --------
        An epoch of ten steps was thought to take 40 s, and takes 120:

        >>> times = iter(range(22, 200, 12))
        >>> pace = Pace(100, 0.0, 400, clock=lambda: next(times))
        >>> [pace.is_over(done, 10) for done in range(1, 6)]
        [False, False, False, False, True]
        """
        now = self.clock()
        if self.first is None or done <= self.first[1]:
            self.first = now, done
        begun, before = self.first
        each = (now - begun) * samples / (done - before) if done > before else 0.0
        return now + max(self.results, RESULTS_OF_EPOCH * each) >= self.until
