"""Which problems there are, and how one is run: a function of a seed and a number."""

from __future__ import annotations

import secrets
import signal
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from itertools import count, islice
from typing import NamedTuple

import numpy as np

from tests.random_problems.assignments import random_assignment, random_source, random_start
from tests.random_problems.bounds import random_bounds
from tests.random_problems.clusterings import random_centers, random_kmeans, random_soft_labels
from tests.random_problems.grouped import (
    random_groups,
    random_left_out,
    random_links,
    random_loads,
)
from tests.random_problems.streams import random_stream

__all__ = ["KINDS", "Done", "new_seed", "run", "run_one"]

LONGEST = 10.0
"""Seconds of the processor after which a problem is one that hangs; most take milliseconds."""

Check = Callable[[np.random.Generator], str]

KINDS: dict[str, tuple[int, Check]] = {
    "assignment": (12, random_assignment),
    "start": (4, random_start),
    "source": (2, random_source),
    "stream": (3, random_stream),
    "bounds": (1, random_bounds),
    "kmeans": (2, random_kmeans),
    "soft": (1, random_soft_labels),
    "centers": (1, random_centers),
    "groups": (3, random_groups),
    "left out": (1, random_left_out),
    "links": (1, random_links),
    "loads": (1, random_loads),
}
"""How often each kind is drawn, and its check, which returns the outcome in a word."""


class Done(NamedTuple):
    """A problem that was run; `failure` says how to repeat it, and is empty if all is right."""

    kind: str
    outcome: str
    failure: str


class HangsError(BaseException):
    """Ends a problem; no code takes it for an error of its own."""


def new_seed() -> int:
    """A seed that nobody had before."""
    return secrets.randbelow(2**31)


def run(
    seed: int, *, n: int | None = None, seconds: float, kind: str | None = None
) -> Iterator[Done]:
    """Run problems: n of them, or as many as so many seconds of the processor allow."""
    began = time.process_time()
    for number in islice(count(), n):
        if n is None and time.process_time() - began > seconds:
            return
        name = _kind(seed, number, kind)
        try:
            yield Done(name, run_one(seed, number, kind), "")
        except (Exception, HangsError) as error:
            frame = traceback.extract_tb(error.__traceback__)[-1]
            what = f"{type(error).__name__} at {frame.filename.split('/')[-1]}:{frame.lineno}"
            again = f"python -m tests.random_problems --seed {seed} --only {number}"
            again += f" --kind {kind}" if kind else ""
            yield Done(name, f"FAILED {what}", f"{what}: {error}\n    {again}")


def _kind(seed: int, number: int, kind: str | None) -> str:
    names = list(KINDS)
    weights = np.asarray([KINDS[name][0] for name in names], dtype=float)
    drawn = np.random.default_rng([seed, number, 0]).choice(names, p=weights / weights.sum())
    return kind or str(drawn)


def run_one(seed: int, number: int, kind: str | None = None) -> str:
    """Run one problem; warnings are errors, and what hangs ends."""
    check = KINDS[_kind(seed, number, kind)][1]
    before = signal.signal(signal.SIGPROF, _hangs)
    signal.setitimer(signal.ITIMER_PROF, LONGEST)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return check(np.random.default_rng([seed, number, 1]))
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _hangs(*_: object) -> None:
    msg = f"more than {LONGEST:g} s of the processor"
    raise HangsError(msg)
