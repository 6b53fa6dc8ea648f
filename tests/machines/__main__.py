"""Run the suite, or some of its files, on emulated machines, and print a table.

    python -m tests.machines                          every row, the whole suite
    python -m tests.machines oldest zen               two of them
    python -m tests.machines oldest -- tests/train    chosen files; pytest gets what follows "--"
    python -m tests.machines --probe                  what the libraries use on each, no test

A row that the processor cannot be, or whose packages cannot be had, is "not here" and not red.
Where a library does not listen to a row's variables the row is red, because it would test nothing.
The code is 1 where a row is red, and 3 where no row could run.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from .environments import ROOT, NotHereError, interpreter
from .rows import ROWS, Row, missing, variables

# What a user set before it started: kept, because some machines compute wrongly without it.
KEPT = ("OPENBLAS_CORETYPE",)

# Names under which OpenBLAS reports a core whose kernels it shares with another.
SERVED_AS = {"Prescott": "Katmai", "Zen": "Haswell"}


class NoEffectError(Exception):
    """A row's variables did not reach a library; the message says which."""


def main(arguments: list[str]) -> int:
    """Run the rows that are named; returns the exit code."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    ours, theirs = arguments[:end], arguments[end + 1 :]
    parser = argparse.ArgumentParser(prog="python -m tests.machines", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    names = [row.name for row in ROWS]
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"of {', '.join(names)}")
    envs, says = ROOT / ".venv-machines", "environments and logs of the rows"
    parser.add_argument("--envs", type=Path, default=envs, metavar="DIR", help=says)
    parser.add_argument("--probe", action="store_true", help="only ask what the libraries use")
    options = parser.parse_args(ours)
    if unknown := set(options.rows) - set(names):
        parser.error(f"no row {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    options.envs.mkdir(parents=True, exist_ok=True)
    lines = []
    for row in ROWS:
        if options.rows and row.name not in options.rows:
            continue
        print(f"== {row.name}: {row.says}", flush=True)
        try:
            lines.append(_run(row, options, theirs))
        except NotHereError as reason:
            print(f"not here: {reason}", flush=True)
            lines.append([row.name, "not here", *[""] * 4])
        except NoEffectError as reason:
            print(f"RED: {reason}", flush=True)
            lines.append([row.name, "RED", *[""] * 4])
    print()
    for line in [["row", "", "passed", "failed", "skipped", "minutes"], *lines]:
        print("{:14}{:>10}{:>9}{:>9}{:>9}{:>9}".format(*line))
    states = {line[1] for line in lines}
    return 1 if "RED" in states else 3 if states == {"not here"} else 0


def _run(row: Row, options: argparse.Namespace, theirs: list[str]) -> list[str]:
    """One row of the table."""
    if lacking := missing(row, _flags()):
        msg = f"the processor has no {', '.join(lacking)}"
        raise NotHereError(msg)
    python = interpreter(row, options.envs)
    environment = _environment(row, python, options.envs)
    found = json.loads(_ask(python, environment))
    for name, value in found.items():
        print(f"   {name:14}{value}")
    check_effect(row, found, kept=[name for name in KEPT if name in os.environ])
    if options.probe:
        return [row.name, "probed", *[""] * 4]
    log, report = (options.envs / f"{row.name}.{kind}" for kind in ("log", "xml"))
    report.unlink(missing_ok=True)
    started = time.monotonic()
    with log.open("w") as file:
        code = subprocess.run(
            [python, "-m", "pytest", f"--junit-xml={report}", *_plugins(row), *theirs],
            env=environment,
            cwd=ROOT,
            stdout=file,
            stderr=subprocess.STDOUT,
        ).returncode
    minutes = (time.monotonic() - started) / 60
    for line in log.read_text().splitlines():
        if line.startswith(("FAILED ", "ERROR ")):
            print(line)
    counts = _counts(report)
    red = code != 0 or counts["bad"] > 0 or counts["passed"] == 0
    print(f"   pytest ended with code {code}; all it said: {log}", flush=True)
    cells = [str(counts[name]) for name in ("passed", "bad", "skipped")]
    return [row.name, "RED" if red else "green", *cells, f"{minutes:.1f}"]


def _plugins(row: Row) -> list[str]:
    return [part for name in row.without for part in ("-p", f"tests.machines.without_{name}")]


def check_effect(row: Row, found: dict[str, Any], kept: list[str]) -> None:
    """Fail unless the libraries do what the row asks of them.

    Raises
    ------
    NoEffectError
        Naming what a library uses, and what the row wanted.
    """
    core = SERVED_AS.get(row.openblas, row.openblas)
    wanted: dict[str, tuple[Any, bool]] = {}
    if row.openblas is not None and "OPENBLAS_CORETYPE" not in kept:
        used = found["openblas"]
        fits = bool(used) and all(v.split()[0] in (core, row.openblas) for v in used.values())
        wanted["openblas"] = (row.openblas, fits)
    if row.aten is not None and found["aten"] is not None:
        wanted["aten"] = (row.aten, found["aten"].lower() in (row.aten, "no avx"))
    if row.mkl is not None and "mkl" in found:
        # On processors of others MKL listens to COMPATIBLE alone, and chooses by itself else.
        alone = row.mkl != "COMPATIBLE" and not _by_intel() and found["mkl"] == "AUTO"
        wanted["mkl"] = (row.mkl, alone or found["mkl"].startswith(row.mkl))
    if row.numba is not None:
        wanted["numba"] = (row.numba, found["numba"] == row.numba)
    for name in ("threads", "numba_threads"):
        if name in found:
            wanted[name] = (row.threads, found[name] == row.threads)
    wrong = [f"{n} is {found[n]}, not {w}" for n, (w, fits) in wanted.items() if not fits]
    if wrong:
        raise NoEffectError("; ".join(wrong))


def _environment(row: Row, python: str, envs: Path) -> dict[str, str]:
    clean = {name: value for name, value in os.environ.items() if name not in _RULED}
    clean |= {name: os.environ[name] for name in KEPT if name in os.environ}
    clean["PYTHONPATH"] = str(ROOT)
    features = json.loads(_ask(python, clean, "--numpy"))
    chosen = variables(row, features)
    # What is compiled for one processor must not serve another.
    chosen["NUMBA_CACHE_DIR"] = str(envs / f"{row.name}-numba")
    return clean | {name: v for name, v in chosen.items() if not (name in KEPT and name in clean)}


_RULED = {"NUMBA_CACHE_DIR", "NUMBA_CPU_FEATURES"}.union(
    *(variables(row, ["AVX512_ICL"]) for row in ROWS)
)


def _ask(python: str, environment: dict[str, str], *options: str) -> str:
    command = [python, "-m", "tests.machines.probe", *options]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        msg = f"the probe ended with code {done.returncode}: {done.stderr.strip()[-500:]}"
        raise NoEffectError(msg)
    return done.stdout


def _flags() -> frozenset[str]:
    """What the processor can do, as Linux says it."""
    if platform.system() != "Linux" or platform.machine() not in ("x86_64", "AMD64"):
        msg = "the rows are x86 processors, asked for under Linux"
        raise NotHereError(msg)
    text = Path("/proc/cpuinfo").read_text()
    return frozenset(next(l for l in text.splitlines() if l.startswith("flags")).split())  # noqa: E741


def _by_intel() -> bool:
    return "GenuineIntel" in Path("/proc/cpuinfo").read_text()


def _counts(report: Path) -> dict[str, int]:
    if not report.is_file():  # pytest did not come to its end
        return {"passed": 0, "bad": 0, "skipped": 0}
    suite = ElementTree.parse(report).getroot()[0]
    of = {name: int(suite.get(name, "0")) for name in ("tests", "failures", "errors", "skipped")}
    bad = of["failures"] + of["errors"]
    return {"passed": of["tests"] - bad - of["skipped"], "bad": bad, "skipped": of["skipped"]}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
