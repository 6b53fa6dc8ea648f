"""Fuzz the readers of files: any exception that is not an error of ours is a finding.

    python -m tests.fuzz                        all targets, 10,000 executions each
    python -m tests.fuzz npy --runs 1000000     one target
    python -m tests.fuzz --plain                by random changes, also where atheris is there

By atheris, which follows coverage, where it is installed (pip install atheris); else by random
changes of the seeds, and it says so. A finding is printed, kept under build/fuzz, and the exit code
is 1; `tests/fuzz/test_fuzz.py` keeps what was found.
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
import tempfile
import time
import traceback
from importlib.util import find_spec
from itertools import islice
from pathlib import Path

__all__ = ["main"]

FOUND = Path("build/fuzz")
KEEP_GOING = 20
"""Findings of different places after which a target is given up."""


def plain(name: str, runs: int, seed: int) -> tuple[int, int]:
    """Execute a target on random changes; returns how often, and the number of findings."""
    from tests.fuzz.mutation import mutants
    from tests.fuzz.targets import TARGETS, seeds, taken

    places: set[str] = set()
    done = 0
    for content in islice(mutants(seeds(name), seed), runs):
        done += 1
        try:
            taken(TARGETS[name], content)
        except Exception as error:
            frame = traceback.extract_tb(error.__traceback__)[-1]
            place = f"{type(error).__name__} at {frame.filename}:{frame.lineno}"
            if place not in places:
                places.add(place)
                _keep(name, content, f"{place}: {error}")
            if len(places) >= KEEP_GOING:
                break
    return done, len(places)


def _keep(name: str, content: bytes, what: str) -> None:
    FOUND.mkdir(parents=True, exist_ok=True)
    path = FOUND / f"{name}-{hashlib.sha256(content).hexdigest()[:12]}"
    path.write_bytes(content)
    print(f"FOUND in {name}: {what} ({path})", flush=True)


def by_atheris(name: str, runs: int, seed: int) -> tuple[int, int]:
    """Execute a target under atheris, in a process of its own, which ends at its first finding."""
    with tempfile.TemporaryDirectory() as corpus:
        command = [sys.executable, "-m", "tests.fuzz", name, "--inside", corpus]
        command += ["--runs", str(runs), "--seed", str(seed)]
        FOUND.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(command, capture_output=True, text=True)
    lines = (done.stdout + done.stderr).splitlines()
    counts = [line.split()[2] for line in lines if line.startswith("Done ")]
    if counts and done.returncode == 0:
        return int(counts[0]), 0
    print("\n".join(["", f"FOUND in {name}:", *lines[-30:]]), flush=True)
    numbers = [line[1:].split()[0] for line in lines if line.startswith("#")]
    return int(numbers[-1]) if numbers else 0, 1


def inside(name: str, corpus: str, runs: int, seed: int) -> None:
    """Run a target under atheris; it never returns."""
    import atheris

    with atheris.instrument_imports(include=["dualclust", "json", "tomllib", "zipfile", "ast"]):
        from tests.fuzz.targets import TARGETS, seeds, taken
    for i, content in enumerate(seeds(name)):
        (Path(corpus) / str(i)).write_bytes(content)

    def once(content: bytes) -> None:
        taken(TARGETS[name], content)

    options = [f"-runs={runs}", f"-seed={seed}", f"-artifact_prefix={FOUND}/{name}-"]
    options += ["-max_len=8192", "-timeout=20", "-rss_limit_mb=4096", corpus]
    atheris.Setup([sys.argv[0], *options], once)
    atheris.Fuzz()


def main(arguments: list[str] | None = None) -> int:
    """Run the program and return its exit code."""
    from tests.fuzz.targets import TARGETS

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="TARGET", help=", ".join(TARGETS))
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    followed = find_spec("atheris") is not None and not options.plain
    print("by atheris" if followed else "by random changes, blind to coverage", flush=True)
    findings = 0
    for name in options.names or TARGETS:
        began = time.perf_counter()
        fuzz = by_atheris if followed else plain
        done, found = fuzz(name, options.runs, options.seed)
        findings += found
        seconds = time.perf_counter() - began
        print(f"{name:12} {done:10,} executions {found:4} findings {seconds:8.0f} s", flush=True)
    return int(findings > 0)


if __name__ == "__main__":
    if "--inside" in sys.argv:
        at = sys.argv.index("--inside")
        wanted = {flag: sys.argv[sys.argv.index(flag) + 1] for flag in ("--runs", "--seed")}
        inside(sys.argv[1], sys.argv[at + 1], int(wanted["--runs"]), int(wanted["--seed"]))
    sys.exit(main())
