"""Inject faults into real processes, go on after each, and compare what is left in the end.

    python -m tests.faults.program --n 500 --seed 0

After every fault the same work goes on, by the command that a user would give, until it is done.
A fault is *unloadable* if that fails, *hanging* if a process does not end, *different* if the bytes
are not those of a run that nobody disturbed, and *wrong* if a process ended with another exit code
or without saying why. The exit code is 1 if there is any of these.
"""

from __future__ import annotations

import argparse
import io
import math
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

from dualclust.cli.main import main as command
from tests.faults.disk import Disk, on_disk
from tests.faults.kinds import KINDS, Kind
from tests.faults.processes import Ended, start, start_ranks
from tests.faults.several import SEVERAL
from tests.faults.tasks import TASKS, Task, without_pictures

__all__ = ["Lab", "main"]

TRIES = 3
"""Commands after a fault: one goes on, and a signal may have come before anything was saved."""


class Outcome(NamedTuple):
    """What became of a fault: "" where all is well, else the first thing that is not."""

    kind: str
    task: str
    number: int
    wrong: str
    code: int | None = 0


class Lab:
    """Tasks, what each leaves undisturbed, and how many disk operations it takes.

    Parameters
    ----------
    home : Path. An empty folder.
    seed : int. Every fault has random numbers of its own, of this seed and its number.
    """

    def __init__(self, home: Path, seed: int = 0) -> None:
        self.home, self.seed = home, seed
        self.tasks: dict[str, Task] = {}
        self.expected: dict[tuple[str, int], dict[str, Any]] = {}
        self.counts: dict[str, int] = {}
        self.seconds: dict[str, float] = {}
        for name, kind in TASKS.items():
            place = home / f"input-{name}"
            place.mkdir(parents=True)
            self.tasks[name] = kind(place)

    def warm_up(self) -> None:
        """Run each task here, so that what it loads and compiles is there in every fork."""
        import torch

        torch.set_num_threads(1)
        for name, task in self.tasks.items():
            folder = self._folder(f"warm-{name}")
            with without_pictures(), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
                assert command(task.command(folder)) == 0
            shutil.rmtree(folder)

    def measure(self, name: str, ranks: int = 1) -> dict[str, Any]:
        """Return what an undisturbed run of a task leaves."""
        if (name, ranks) not in self.expected:
            folder = self._folder(f"whole-{name}-{ranks}")
            ended = self._go_on(self.tasks[name], folder, ranks)
            assert ended.code == 0, ended.said
            self.expected[name, ranks] = self.tasks[name].left(folder)
            shutil.rmtree(folder)
        return self.expected[name, ranks]

    def count(self, name: str) -> int:
        """Return how many disk operations an undisturbed run takes."""
        if name not in self.counts:
            folder, log = self._folder(f"counted-{name}"), self.home / "count"

            begun = time.monotonic()

            def told(disk: Disk, operation: str) -> None:
                log.write_bytes(b"%d" % disk.count)

            start(
                self.tasks[name].command(folder),
                self.home / "said",
                during=lambda: on_disk(Disk(0, told)),
            ).wait()
            self.seconds[name] = time.monotonic() - begun
            self.counts[name] = int(log.read_bytes())
            shutil.rmtree(folder)
        return self.counts[name]

    def inject(self, kind: str, number: int) -> Outcome:
        """Inject one fault, go on, and compare."""
        rng = random.Random(f"{self.seed}/{number}")
        drawn = (KINDS | SEVERAL)[kind]
        name = drawn.tasks[number % len(drawn.tasks)]
        task, folder = self.tasks[name], self._folder(f"{number}-{name}")
        ranks = getattr(drawn, "ranks", 1)
        if isinstance(drawn, Kind):
            wrong, code = self._disturb(drawn, rng, task, folder)
        else:
            wrong, code = drawn.cause(rng, task, folder), 0
        wrong = wrong or self._finished(task, folder, ranks)
        if not wrong:
            shutil.rmtree(folder)
        return Outcome(kind, name, number, wrong, code)

    def _disturb(
        self, kind: Kind, rng: random.Random, task: Task, folder: Path
    ) -> tuple[str, int | None]:
        plan = kind.draw(rng, self.count(task.name), folder)
        child = start(task.command(folder), self.home / "said", during=plan.during)
        if plan.after is not None:
            time.sleep(plan.after * self.seconds[task.name])
            child.send(signal.SIGKILL)
        ended = child.wait()
        if ended.code is None:
            return f"hanging; {ended.said}", None
        if ended.code not in kind.codes:
            return f"wrong: ended with {ended.code}; {ended.said}", ended.code
        if ended.code > 0 and not all(words in ended.said for words in kind.says):
            return f"wrong: ended with {ended.code} and said {ended.said!r}", ended.code
        left = [p.name for p in folder.rglob(".*.tmp-*")]
        if left and kind.tidy and ended.code >= 0:
            return f"wrong: ended with {ended.code} and left {left}", ended.code
        return "", ended.code

    def _finished(self, task: Task, folder: Path, ranks: int) -> str:
        """Go on until the task is done; return what is wrong with what it left."""
        for _ in range(TRIES):
            ended = self._go_on(task, folder, ranks)
            if ended.code is None:
                return f"hanging when it went on; {ended.said}"
            if ended.code == 0:
                break
        else:
            return f"unloadable: {ended.said}"
        found, expected = task.left(folder), self.measure(task.name, ranks)
        differ = sorted(n for n in {*found, *expected} if found.get(n) != expected.get(n))
        return f"different: {', '.join(differ)}" if differ else ""

    def _go_on(self, task: Task, folder: Path, ranks: int) -> Ended:
        log, command = self.home / "said", task.command(folder)
        if ranks == 1:
            return start(command, log).wait()
        ended = [c.wait() for c in start_ranks([command] * ranks, log)]
        return max(ended, key=lambda end: end.code != 0)

    def _folder(self, name: str) -> Path:
        folder = self.home / name
        folder.mkdir()
        return folder


def drawn_kinds(n: int, seed: int, only: str = "") -> list[str]:
    """Return the kinds of n faults: by weight, each at least once where n allows, shuffled."""
    weights = {name: kind.weight for name, kind in (KINDS | SEVERAL).items() if only in name}
    total, names = sum(weights.values()), list(weights)
    shares = {name: max(1, math.floor(n * weight / total)) for name, weight in weights.items()}
    every = [name for name in names for _ in range(shares[name])]
    rng = random.Random(seed)
    every += rng.choices(names, weights=list(weights.values()), k=max(0, n - len(every)))
    rng.shuffle(every)
    return every[:n]


def report(outcomes: list[Outcome]) -> Iterator[str]:
    """Yield the lines of a table: how many of each kind, their exit codes, and what was wrong."""
    yield f"{'fault':<32}{'number':>7}{'wrong':>7}  exit codes"
    for kind in dict.fromkeys(o.kind for o in outcomes):
        own = [o for o in outcomes if o.kind == kind]
        codes = Counter(o.code for o in own)
        shown = ", ".join(f"{c}: {m}" for c, m in sorted(codes.items(), key=str))
        yield f"{kind:<32}{len(own):>7}{sum(bool(o.wrong) for o in own):>7}  {shown}"
    bad = [o for o in outcomes if o.wrong]
    words = ("unloadable", "hanging", "different")
    counts = [sum(o.wrong.startswith(word) for o in bad) for word in words]
    rest = len(bad) - sum(counts)
    parts = [f"{c} {w}" for c, w in zip([*counts, rest], [*words, "otherwise wrong"], strict=True)]
    yield f"{len(outcomes)} faults: {', '.join(parts)}; the rest was resumed to the same bytes"
    for o in bad:
        yield f"number {o.number}, {o.kind}, {o.task}: {o.wrong}"


def main(arguments: list[str] | None = None) -> int:
    """Run the program; return its exit code."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--n", type=int, default=500, help="faults (default 500)")
    parser.add_argument("--seed", type=int, default=0, help="of all random numbers (default 0)")
    parser.add_argument("--only", default="", help="kinds whose name holds this")
    options = parser.parse_args(arguments)
    kinds = drawn_kinds(options.n, options.seed, options.only)
    home = Path(tempfile.mkdtemp(prefix="dualclust-faults-"))
    print(f"{len(kinds)} faults, seed {options.seed}, in {home}", flush=True)
    lab = Lab(home, options.seed)
    lab.warm_up()
    outcomes = []
    for number, kind in enumerate(kinds):
        outcomes.append(lab.inject(kind, number))
        if outcomes[-1].wrong:
            print(f"number {number}, {kind}: {outcomes[-1].wrong}", flush=True)
        elif number % 50 == 49:
            print(f"{number + 1} of {len(kinds)}", flush=True)
    print(*report(outcomes), sep="\n", flush=True)
    failed = any(o.wrong for o in outcomes)
    if not failed:
        shutil.rmtree(home)
    return int(failed)


if __name__ == "__main__":
    os.environ["OMP_NUM_THREADS"] = "1"
    sys.exit(main())
