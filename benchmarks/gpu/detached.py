"""A day that goes on after the call that started it, and the call that picks it up.

The detached process writes its records, its page and its log under the scratch folder; `pick_up`
copies the page and the records to the results.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from .machine import ROOT

__all__ = ["pick_up", "start_detached"]

LINES = 25  # of the log, that are shown


def start_detached(words: Sequence[str], scratch: Path, base: Path, out: Path) -> int:
    """Start the same command in a session of its own; returns at once.

    Parameters
    ----------
    words : the words of this command.
    scratch : Path. Where the day keeps what is not a result.
    base : Path. What the command takes as ``--scratch`` for that.
    out : Path. Results of another day, or of another machine, that it goes on from.
    """
    if (number := _running(scratch)) is not None:
        print(f"process {number} is still at work: wait for it with --pick-up")
        return 1
    scratch.mkdir(parents=True, exist_ok=True)
    own = [word for word in words if word != "--detach"]
    results = scratch / "detached"
    if not results.is_dir() and (out / "gpu").is_dir():
        shutil.copytree(out / "gpu", results / "gpu")
    command = [sys.executable, "-u", "-m", "benchmarks.gpu", *own, "--unlimited"]
    command += ["--out", str(results), "--scratch", str(base)]
    with (scratch / "day.log").open("wb") as log:
        started = subprocess.Popen(
            command,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    (scratch / "day.pid").write_text(f"{started.pid}\n")
    print(f"process {started.pid} goes on; its log is {scratch / 'day.log'}")
    print("pick it up with the same --scratch, --out and --pick-up")
    return 0


def pick_up(scratch: Path, out: Path, seconds: float) -> int:
    """Wait for the detached day, at most so long; show the end of its log, copy its results."""
    until = time.monotonic() + seconds
    while (number := _running(scratch)) is not None and time.monotonic() < until:
        time.sleep(0.2)
    log = scratch / "day.log"
    if not log.is_file():
        print(f"no day was detached in {scratch}")
        return 1
    said = log.read_text(errors="replace").splitlines()
    print("\n".join(said[-LINES:]))
    results = scratch / "detached"
    if results.is_dir():
        out.mkdir(parents=True, exist_ok=True)
        half = shutil.ignore_patterns("*.new")  # a state that is being written
        shutil.copytree(results, out, dirs_exist_ok=True, ignore=half)
        print(f"results: {out / 'gpu.md'}")
    if number is not None:
        print(f"process {number} is still at work")
        return 0
    ended = any(line.startswith("results: ") for line in said)
    if not ended:
        print("the detached day ended before its stages did")
    return 0 if ended and not any(line.startswith("WRONG ") for line in said) else 1


def _running(scratch: Path) -> int | None:
    """The number of the detached process, where it is still there."""
    file = scratch / "day.pid"
    if not file.is_file():
        return None
    number = int(file.read_text())
    try:
        done, _ = os.waitpid(number, os.WNOHANG)  # where it is a child of this very process
        if done:
            return None
    except ChildProcessError:
        pass
    try:
        os.kill(number, 0)
    except (ProcessLookupError, PermissionError):
        return None
    stat = Path(f"/proc/{number}/stat")
    try:
        return None if stat.read_text().rpartition(")")[2].split()[0] == "Z" else number
    except OSError:
        return number
