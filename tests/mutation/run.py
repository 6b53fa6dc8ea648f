"""Make the library wrong in many small ways, one at a time, and see whether the tests notice.

Run as ``make mutants``, which asks the suite first which tests run which lines (`trace`), or as
``python -m tests.mutation.run --n 60 --seed 0 --trace build/trace``. Each mutant is written into a
copy of the repository, never into the checkout, and the tests that run its lines run there, to the
first failure; without a trace of these lines, the test files that are likely to see it. One that
uses up its CPU time is killed too: it did not end. In the end every test that killed must pass on
the copy without an error in it. The exit code is 1 if fewer than 97 % of those that are not
equivalent are killed.
"""

from __future__ import annotations

import argparse
import compileall
import difflib
import os
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

from tests.mutation.choice import GROUPS, PINNED, draw, group, likely_files, line_tests, modules
from tests.mutation.operators import Mutant
from tests.mutation.trace import Trace, read_trace
from tests.mutation.warm import Warm

__all__ = ["BAR", "Tree", "Verdict", "equivalents", "failures", "main", "report"]

ROOT = Path(__file__).resolve().parents[2]
EQUIVALENTS = Path(__file__).with_name("equivalents.toml")
BAR = 0.97
CPU_SECONDS = 600
# No wall clock: a machine with much else to do is no mutant's fault. One that waits for what never
# comes uses no CPU time, so there is an end all the same.
WALL_SECONDS = 3600
Key = tuple[str, str, str, str, str]


class Verdict(NamedTuple):
    """What became of a mutant.

    Attributes
    ----------
    mutant : Mutant
    outcome : str
        "killed", "survived", "equivalent" or "unseen", where no test file is likely to see it.
    why : str
        Test that failed, "did not end", or the reason of an equivalent.
    files : tuple of str
        Test files that were to run.
    seconds : float
        Wall clock.
    """

    mutant: Mutant
    outcome: str
    why: str = ""
    files: tuple[str, ...] = ()
    seconds: float = 0.0


class Tree:
    """A copy of the repository in which mutants are tried one after the other."""

    def __init__(self, folder: Path) -> None:
        def skip(where: str, names: list[str]) -> set[str]:
            top = Path(where) == ROOT
            return {n for n in names if top and (n[0] == "." or n in ("build", "dist", "runs"))}

        # With modification times, so that numba's stored machine code is still good.
        self.root = Path(shutil.copytree(ROOT, folder, symlinks=True, ignore=skip))
        for name in ("algos", "backends", "train", "proofs"):
            compileall.compile_dir(self.root / "dualclust" / name, quiet=2)
        self._warm: Warm | None = None

    def run(self, targets: Sequence[str], limit: int = CPU_SECONDS) -> tuple[int, str]:
        """Run tests; return the exit code and what they printed. Negative codes are signals."""
        if self._warm is None:
            self._warm = Warm(self.root, wall_seconds=WALL_SECONDS)
        return self._warm.run(targets, limit)

    def close(self) -> None:
        """End the process that runs the tests."""
        if self._warm is not None:
            self._warm.close()

    def judge(self, mutant: Mutant, files: Sequence[str]) -> tuple[str, str]:
        """Try one mutant; return the outcome and why."""
        path = self.root / mutant.module
        source, times = path.read_text(encoding="utf-8"), path.stat()
        stored = self._stored(path)
        kept = {p: p.read_bytes() for p in stored}
        try:
            for file in stored:
                file.unlink()
            path.write_text(mutant.applied(source), encoding="utf-8")
            code, text = self.run(files)
        finally:
            path.write_text(source, encoding="utf-8")
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
            for file in self._stored(path):
                file.unlink()
            for file, content in kept.items():
                file.write_bytes(content)
        if code == 0:
            return "survived", ""
        if code < 0:
            ended = code == -signal.SIGXCPU
            return "killed", "did not end" if ended else f"died of signal {-code}"
        failed = failures(text)
        if code == 2 and not failed and "KeyboardInterrupt" in text:
            return "killed", "interrupted the tests"
        # 4: a test was named in a file that cannot be imported any more, or below a `conftest.py`
        # that cannot.
        unread = "ERROR collecting" in text or "Error while loading conftest" in text
        broken = code in (1, 2, 3) or (code == 4 and unread)
        if not broken or not (failed or code == 3 or "Error" in text):
            msg = f"pytest ended with {code} and names no test:\n{text[-2000:]}"
            raise RuntimeError(msg)
        return "killed", failed[0] if failed else "no test could be read"

    @staticmethod
    def _stored(path: Path) -> list[Path]:
        """Compiled forms of a module, of Python and of numba."""
        return sorted((path.parent / "__pycache__").glob(f"{path.stem}.*"))


def failures(text: str) -> list[str]:
    """Names of what failed, in the summary of pytest; there may be spaces in a name."""
    return re.findall(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", text, re.M)


def equivalents() -> dict[Key, str]:
    """Reasons of the mutants that change nothing, by what names them."""
    with EQUIVALENTS.open("rb") as file:
        entries = tomllib.load(file).get("equivalent", [])
    return {
        (e["module"], e["function"], e["operator"], e["old"], e["new"]): e["reason"]
        for e in entries
    }


def report(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """Counts by group and in all, after the survivors as differences."""
    for verdict in verdicts:
        if verdict.outcome in ("survived", "unseen"):
            yield difference(verdict.mutant)
            yield f"{verdict.outcome}; tests that ran: {' '.join(verdict.files) or 'none'}\n"
    yield f"{'':<14} {'killed':>7} {'survived':>9} {'equivalent':>11} {'rate':>7}"
    for name in (*GROUPS, "all"):
        count = Counter(
            v.outcome for v in verdicts if name == "all" or group(v.mutant.module) == name
        )
        if count:
            survived = count["survived"] + count["unseen"]
            shown = f"{rate(verdicts, name):.1%}" if count["killed"] + survived else "none"
            line = f"{name:<14} {count['killed']:>7} {survived:>9} {count['equivalent']:>11}"
            yield f"{line} {shown:>7}"


def rate(verdicts: Sequence[Verdict], name: str = "all") -> float:
    """Share of killed mutants among those that are not equivalent; 0 of none."""
    count = Counter(v.outcome for v in verdicts if name == "all" or group(v.mutant.module) == name)
    tried = count["killed"] + count["survived"] + count["unseen"]
    return count["killed"] / tried if tried else 0.0


def difference(mutant: Mutant) -> str:
    """A mutant as a difference of the module, with one line around it."""
    source = (ROOT / mutant.module).read_text(encoding="utf-8")
    lines = difflib.unified_diff(
        source.splitlines(),
        mutant.applied(source).splitlines(),
        mutant.module,
        f"{mutant.function or 'module'}: {mutant.operator}",
        n=1,
        lineterm="",
    )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Try mutants and print what became of them; returns 1 below the bar."""
    options = _parser().parse_args(arguments)
    known = equivalents()
    chosen = draw(ROOT, modules(ROOT, options.modules), options.n, options.seed)
    if options.operators:
        chosen = [m for m in chosen if m.operator in options.operators]
    trace = read_trace(options.trace) if options.trace else Trace({}, {})
    plan = [(m, () if m.key in known else _tests(m, trace, options)) for m in chosen]
    if options.list:
        for mutant, files in plan:
            print(f"{difference(mutant)}\n{known.get(mutant.key, ' '.join(files))}\n")
        return 0
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        trees: SimpleQueue[Tree] = SimpleQueue()
        for i in range(options.jobs):
            trees.put(Tree(Path(folder) / f"tree{i}"))

        def one(item: tuple[Mutant, tuple[str, ...]]) -> Verdict:
            mutant, files = item
            if mutant.key in known:
                return Verdict(mutant, "equivalent", known[mutant.key])
            if not files:
                return Verdict(mutant, "unseen")
            tree, began = trees.get(), time.monotonic()
            try:
                outcome, why = tree.judge(mutant, files)
            finally:
                trees.put(tree)
            verdict = Verdict(mutant, outcome, why, files, time.monotonic() - began)
            where = f"{mutant.module} {mutant.function} ({mutant.operator})"
            print(
                f"{outcome}: {where} {why} [{verdict.seconds:.0f} s]", file=sys.stderr, flush=True
            )
            return verdict

        with ThreadPoolExecutor(options.jobs) as threads:
            verdicts = list(threads.map(one, plan))
        last = trees.get()
        unsound = _unsound(last, verdicts)
        last.close()
        while not trees.empty():
            trees.get().close()
    for line in report(verdicts):
        print(line)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"seed {options.seed}, {(used.ru_utime + used.ru_stime) / 60:.1f} minutes of CPU time")
    if unsound:
        print(f"FAILS WITHOUT AN ERROR, so that it kills nothing:\n{unsound}")
    return 0 if rate(verdicts) >= BAR and not unsound else 1


def _tests(mutant: Mutant, trace: Trace, options: argparse.Namespace) -> tuple[str, ...]:
    """The test functions that run a mutant's lines; where the trace has none, likely files."""
    files = likely_files(ROOT, mutant, options.files)
    source = (ROOT / mutant.module).read_text(encoding="utf-8")
    found = line_tests(trace, source, mutant, files, options.seconds)
    # What runs on import is run by any test that imports late, and seen by the one that pins it.
    return tuple([*found, *(f for f in files if f in PINNED.values())] if found else files)


def _unsound(tree: Tree, verdicts: Sequence[Verdict]) -> str:
    """Run each test that killed on the tree without an error; return what failed."""
    tests = sorted({v.why for v in verdicts if "::" in v.why})
    if not tests:
        return ""
    code, text = tree.run(["--maxfail=1000", *tests], limit=10 * CPU_SECONDS)
    return "" if code == 0 else text[-2000:]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation.run", description=__doc__)
    add = parser.add_argument
    add("--n", type=int, default=60, help="how many mutants (default 60)")
    add("--seed", type=int, default=0, help="which ones (default 0)")
    add("--modules", nargs="+", default=(), help="such as algos/online/duals.py or 'train/*' (all)")
    add("--operators", nargs="+", default=(), help="keep these kinds of the drawn ones")
    add("--files", type=int, default=6, help="most test files for one mutant (default 6)")
    says = "what `tests.mutation.trace` wrote: which tests run which lines"
    add("--trace", type=Path, metavar="FOLDER", help=says)
    says = "of tests for one mutant, as the trace has timed them (default 100)"
    add("--seconds", type=float, default=100.0, help=says)
    add("--jobs", type=int, default=1, help="trees at a time (default 1)")
    add("--list", action="store_true", help="show the mutants and their test files, run nothing")
    return parser


if __name__ == "__main__":
    sys.exit(main())
