"""Fuzz the readers of files: any exception that is not an error of ours is a finding.

    python -m tests.fuzz                        all targets, 10,000 executions each
    python -m tests.fuzz npy --runs 1000000     one target
    python -m tests.fuzz --turns 100            the same, a hundred times with other seeds
    python -m tests.fuzz --plain                by random changes, also where atheris is there

By atheris, which follows coverage, where it is installed (pip install atheris); else by random
changes of the seeds, and it says so. Inputs that reached new lines are kept under build/fuzz and
are where the next turn begins. A finding is printed and kept there too, and the exit code is 1;
`tests/fuzz/test_fuzz.py` keeps what was found.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import signal
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import nullcontext, suppress
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["main"]

FOUND = Path("build/fuzz")
KEEP_GOING = 20
"""Findings of different places after which a target is given up."""
LONGEST = 20.0
"""Seconds of the processor after which an execution is a finding; a busy machine is none."""


class Done(NamedTuple):
    """What became of a target.

    Attributes
    ----------
    runs, findings : int
    seconds : float. Of the processor.
    """

    runs: int
    findings: int
    seconds: float


class TooLong(BaseException):
    """Ends an execution; no reader takes it for an error of the file, as it would an OSError."""


class _Executions:
    """Runs a target, and keeps what ended in an exception of another kind."""

    def __init__(self, name: str) -> None:
        from tests.fuzz.targets import TARGETS, taken

        self.name, self.target, self.taken = name, TARGETS[name], taken
        self.places: set[str] = set()
        signal.signal(signal.SIGPROF, _too_long)

    def __call__(self, content: bytes) -> None:
        try:
            signal.setitimer(signal.ITIMER_PROF, LONGEST)
            try:
                self.taken(self.target, content)
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)
        except (Exception, TooLong) as error:
            frame = traceback.extract_tb(error.__traceback__)[-1]
            place = f"{type(error).__name__} at {frame.filename}:{frame.lineno}"
            if place not in self.places:
                self.places.add(place)
                _keep(self.name, content, f"{place}: {error}")


def _too_long(*_: object) -> None:
    msg = f"more than {LONGEST:g} s of the processor"
    raise TooLong(msg)


def _keep(name: str, content: bytes, what: str) -> None:
    FOUND.mkdir(parents=True, exist_ok=True)
    path = FOUND / f"{name}-{hashlib.sha256(content).hexdigest()[:12]}"
    path.write_bytes(content)
    print(f"FOUND in {name}: {' '.join(what.split())} ({path})", flush=True)


def plain(name: str, runs: int, seed: int) -> Done:
    """Execute a target on random changes."""
    from tests.fuzz.mutation import mutants
    from tests.fuzz.targets import seeds

    once, began, done = _Executions(name), time.process_time(), 0
    for content in islice(mutants(seeds(name), seed), runs):
        once(content)
        done += 1
        if len(once.places) >= KEEP_GOING:
            break
    return Done(done, len(once.places), time.process_time() - began)


def by_atheris(name: str, runs: int, seed: int) -> Done:
    """Execute a target under atheris, which ends its process: in a fork."""
    with _instrumented():
        from tests.fuzz.targets import TARGETS, seeds, taken

        kept = seeds(name)
        with suppress(Exception):  # a finding, which the fork comes to
            taken(TARGETS[name], kept[0])  # which imports what the target reads by
    corpus, log = FOUND / "corpus" / name, FOUND / f"{name}.log"
    corpus.mkdir(parents=True, exist_ok=True)
    for content in kept:
        (corpus / hashlib.sha256(content).hexdigest()[:40]).write_bytes(content)
    before, child = os.times(), os.fork()
    if not child:
        _inside(name, corpus, log, runs, seed)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    after, said = os.times(), log.read_text(errors="replace")
    found = [line for line in said.splitlines() if line.startswith("FOUND ")]
    if code:
        found.append(f"FOUND in {name}: it ended with {code}; see {log}")
    print(*found, sep="\n", end="\n" * bool(found), flush=True)
    counts = re.findall(r"^Done (\d+) runs", said, re.M) or re.findall(r"^#(\d+)\t", said, re.M)
    seconds = after.children_user + after.children_system
    seconds -= before.children_user + before.children_system
    return Done(int(counts[-1]) if counts else 0, len(found), seconds)


def _instrumented() -> Any:
    """While modules are imported: those whose lines are followed."""
    import atheris

    return atheris.instrument_imports(include=["dualclust", "json", "tomllib", "zipfile", "ast"])


def _inside(name: str, corpus: Path, log: Path, runs: int, seed: int) -> None:
    """Run a target under atheris as this process, which then ends."""
    code = 99
    try:
        handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        for stream in (1, 2):
            os.dup2(handle, stream)
        import atheris

        options = [f"-runs={runs}", f"-seed={seed}", f"-artifact_prefix={FOUND}/{name}-"]
        # Wall time is the machine's: `LONGEST` ends what takes too long.
        options += ["-max_len=8192", "-timeout=100000", "-rss_limit_mb=4096", str(corpus)]
        atheris.Setup([sys.argv[0], *options], _Executions(name))
        atheris.Fuzz()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)


def main(arguments: list[str] | None = None) -> int:
    """Run the program and return its exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    followed = find_spec("atheris") is not None and "--plain" not in given
    with _instrumented() if followed else nullcontext():
        from tests.fuzz.targets import TARGETS
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="TARGET", help=", ".join(TARGETS))
    parser.add_argument("--runs", type=int, default=10_000, help="of each target in a turn")
    parser.add_argument("--turns", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1, help="of the first turn")
    parser.add_argument("--plain", action="store_true")
    options = parser.parse_args(given)
    print("by atheris" if followed else "by random changes, blind to coverage", flush=True)
    fuzz: Callable[[str, int, int], Done] = by_atheris if followed else plain
    names = options.names or list(TARGETS)
    totals = dict.fromkeys(names, Done(0, 0, 0.0))
    for turn in range(options.turns):
        for name in names:
            done = fuzz(name, options.runs, options.seed + turn)
            sums = [a + b for a, b in zip(totals[name], done, strict=True)]
            totals[name] = total = Done(int(sums[0]), int(sums[1]), sums[2])
            print(
                f"{name:12} seed {options.seed + turn:<5} {total.runs:11,} executions "
                f"{total.findings:4} findings {total.runs / max(total.seconds, 1e-9):8,.0f} "
                "a second of the processor",
                flush=True,
            )
    return int(any(total.findings for total in totals.values()))


if __name__ == "__main__":
    sys.exit(main())
