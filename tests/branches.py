"""Print which share of the branches of each group of modules the suite takes, and hold it to bars.

    make coverage                                # the whole suite, measured, with its subprocesses
    python -m tests.branches build/coverage/*    # what it wrote, as often as one likes

A branch is a way out of a condition or loop: of an `if` both are counted, without an `else` as
well. Kernels that numba compiles count like the rest: their tests run them as plain Python, too
(`tests/backends/interpreted.py`). The exit code is 1 below a bar: 95 % of `algos` and of
`backends`, 90 % of all.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import coverage

__all__ = ["BARS", "Counts", "by_group", "main", "pytest_sessionfinish", "table"]

ROOT = Path(__file__).resolve().parents[1]
GROUPS = ("algos", "backends", "train", "proofs", "dualclust")
BARS = {"algos": 0.95, "backends": 0.95, "all": 0.90}


class Counts(NamedTuple):
    """Branches and lines of some modules, and how many of them ran."""

    branches: int = 0
    taken: int = 0
    lines: int = 0
    ran: int = 0

    def __add__(self, other: Counts) -> Counts:  # type: ignore[override]
        return Counts(*(a + b for a, b in zip(self, other, strict=True)))

    @property
    def rate(self) -> float:
        """Share of the branches that were taken; 0 of none, which nobody measured."""
        return self.taken / self.branches if self.branches else 0.0


def pytest_sessionfinish() -> None:
    """Save what a worker has measured while its session ends (``-p tests.branches``).

    At the end of the process is too late: xdist kills a worker that is still there after ten
    seconds, as on a busy machine it may be.
    """
    current = coverage.Coverage.current()
    if current is not None:
        current.save()


def measured(files: Sequence[Path]) -> dict[str, Counts]:
    """Counts of each module, as a path below the repository, from what processes wrote."""
    with tempfile.TemporaryDirectory() as folder:
        here = str(ROOT / "pyproject.toml")
        joined = coverage.Coverage(str(Path(folder, "all")), branch=True, config_file=here)
        joined.combine([str(file) for file in files], keep=True)
        report = Path(folder, "report.json")
        joined.json_report(outfile=str(report))
        found = json.loads(report.read_text(encoding="utf-8"))["files"]
    names = ("num_branches", "covered_branches", "num_statements", "covered_lines")
    return {
        Path(ROOT, file).resolve().relative_to(ROOT).as_posix(): Counts(
            *(each["summary"][name] for name in names)
        )
        for file, each in found.items()
    }


def by_group(modules: dict[str, Counts]) -> dict[str, Counts]:
    """Sums by top-level folder, and of all."""
    sums: dict[str, Counts] = defaultdict(Counts)
    for module, counts in modules.items():
        sums[module.partition("/")[0]] += counts
        sums["all"] += counts
    return dict(sums)


def table(modules: dict[str, Counts], worst: int) -> Iterator[str]:
    """A line for each group, then the modules with most branches that no test takes."""
    sums = by_group(modules)
    yield f"{'':<12}{'branches':>10}{'taken':>9}{'bar':>7}{'lines':>9}{'ran':>9}"
    for name in (*GROUPS, "all"):
        if name in sums:
            c, bar = sums[name], BARS.get(name)
            ran = c.ran / c.lines if c.lines else 1.0
            shown = f"{bar:.0%}" if bar else ""
            yield f"{name:<12}{c.branches:>10,}{c.rate:>9.1%}{shown:>7}{c.lines:>9,}{ran:>9.1%}"
    left = sorted(modules.items(), key=lambda item: item[1].taken - item[1].branches)
    for module, c in left[:worst]:
        if c.taken < c.branches:
            yield f"{c.branches - c.taken:>5} of {c.branches:<5} not taken: {module}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; returns 1 below a bar."""
    parser = argparse.ArgumentParser(prog="python -m tests.branches", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, help="data files of coverage.py")
    parser.add_argument("--worst", type=int, default=10, help="modules to name (default 10)")
    options = parser.parse_args(arguments)
    modules = measured(options.files)
    for line in table(modules, options.worst):
        print(line)
    sums = by_group(modules)
    return int(any(sums.get(name, Counts()).rate < bar for name, bar in BARS.items()))


if __name__ == "__main__":
    sys.exit(main())
