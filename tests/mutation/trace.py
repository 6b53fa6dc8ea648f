"""Which tests run which lines of the library: asked of the suite itself, once, before mutants.

    python -m pytest -p tests.mutation.trace --trace-lines FOLDER -n 2 --dist loadfile

Names tell which file is about a module, not which test passes through a line, and a mutant that the
wrong tests look at survives. Each process of the run writes what it saw into FOLDER; `read_trace`
joins it. What is not seen: subprocesses (commands, ranks), kernels that numba has compiled, and
what runs on import. For those lines `choice.likely_files` goes by names.
"""

from __future__ import annotations

import json
import os
import time
import zlib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import coverage
import pytest

__all__ = ["Trace", "read_trace"]

ROOT = Path(__file__).resolve().parents[2]
TRACED = ("algos", "backends", "train", "dualclust")


class Trace(NamedTuple):
    """What a run of the suite saw.

    Attributes
    ----------
    lines : dict of str to dict of int to frozenset of str
        By module (a path below the repository) and line: the test functions that ran it, all
        parameters of a function together.
    seconds : dict of str to float
        What a test function took, all its parameters together.
    """

    lines: dict[str, dict[int, frozenset[str]]]
    seconds: dict[str, float]

    def through(self, module: str, lines: range) -> list[str]:
        """Test functions that ran one of these lines, the quickest first."""
        here = self.lines.get(module, {})
        found = frozenset().union(*(here.get(line, frozenset()) for line in lines))
        return sorted(found, key=lambda test: (self.seconds.get(test, 0.0), test))


def read_trace(folder: Path, root: Path = ROOT) -> Trace:
    """Join what the processes of a run wrote, but for modules that have changed since."""
    lines: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
    seconds: dict[str, float] = defaultdict(float)
    for path in sorted(folder.glob("lines-*.json")):
        found = json.loads(path.read_text(encoding="utf-8"))
        for test, took in found["seconds"].items():
            seconds[test] += took
        for module, by_line in found["lines"].items():
            if found["texts"][module] != _text(root / module):
                continue
            for line, tests in by_line.items():
                lines[module][int(line)].update(found["tests"][i] for i in tests)
    frozen = {m: {n: frozenset(t) for n, t in by.items()} for m, by in lines.items()}
    return Trace(frozen, dict(seconds))


def _text(path: Path) -> int:
    """Sum of a module's text, by which a change of it is noticed."""
    return zlib.crc32(path.read_bytes()) if path.exists() else -1


class _Recorder:
    """Switches the context of the measurement from test to test."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.seconds = folder, defaultdict[str, float](float)
        self.measured = coverage.Coverage(
            data_file=None, config_file=False, source=[str(ROOT / name) for name in TRACED]
        )
        self.measured.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        test = item.nodeid.partition("[")[0]
        self.measured.switch_context(test)
        began = time.process_time()
        try:
            return (yield)
        finally:
            self.seconds[test] += time.process_time() - began
            self.measured.switch_context("")

    def pytest_unconfigure(self) -> None:
        self.measured.stop()
        data, tests = self.measured.get_data(), sorted(self.seconds)
        index = {test: i for i, test in enumerate(tests)}
        lines: dict[str, dict[int, list[int]]] = {}
        for file in data.measured_files():
            by_line = {
                line: sorted(index[test] for test in found if test in index)
                for line, found in data.contexts_by_lineno(file).items()
            }
            seen = {line: found for line, found in by_line.items() if found}
            lines[Path(file).resolve().relative_to(ROOT).as_posix()] = seen
        texts = {module: _text(ROOT / module) for module in lines}
        found = {"tests": tests, "seconds": self.seconds, "lines": lines, "texts": texts}
        path = self.folder / f"lines-{os.getpid()}.json"
        path.write_text(json.dumps(found), encoding="utf-8")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Take the folder to write to."""
    parser.addoption("--trace-lines", metavar="FOLDER", help="write which test runs which line")


def pytest_configure(config: pytest.Config) -> None:
    """Measure in each process that runs tests, not in the one that hands them out."""
    folder = config.getoption("--trace-lines")
    hands_out = config.getoption("numprocesses", None) and not hasattr(config, "workerinput")
    if folder and not hands_out:
        config.pluginmanager.register(_Recorder(Path(folder)))
