"""Make the library wrong in many small ways, one at a time, and see whether the tests notice.

Run as ``make mutants``, which asks the suite first which tests run which lines (`trace`), or as
``python -m tests.mutation.run --n 60 --seed 0 --only algos/offline --operators semantic``. Each
mutant is written into a copy of the repository, never into the checkout, and tests run there to the
first failure: those that run its lines, or, without a trace of these, those of the files that are
likely to see it; then all others of its package that can run it. One in which a test uses up its
CPU time is killed too: it did not end. In the end every test that killed must pass on the copy
without an error in it. The exit code is 1 if fewer than `BAR` of those that are not equivalent are
killed.
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

import pytest

from tests.mutation.choice import (
    PINNED,
    compiled_with,
    draw,
    folder,
    folder_files,
    likely_files,
    line_tests,
    modules,
)
from tests.mutation.operators import OPERATORS, operators_of
from tests.mutation.places import Mutant
from tests.mutation.reach import reach_of
from tests.mutation.trace import Trace, read_trace
from tests.mutation.warm import Warm

__all__ = ["BAR", "Tree", "Verdict", "equivalents", "failures", "main", "report"]

ROOT = Path(__file__).resolve().parents[2]
EQUIVALENTS = Path(__file__).with_name("equivalents.toml")
BAR = 0.92
FIRST_FILES = 6
CPU_SECONDS = 120
# No wall clock: a machine with much else to do is no mutant's fault. A test that waits for what
# never comes uses no CPU time, so there is an end all the same.
WALL_SECONDS = 1800
Stages = Sequence[Sequence[str]]
Key = tuple[str, str, str, str, str]


class Verdict(NamedTuple):
    """What became of a mutant.

    Attributes
    ----------
    mutant : Mutant
    outcome : str
        "killed", "survived" or "equivalent".
    why : str
        Test that failed, "did not end", or the reason of an equivalent.
    stages : sequence of sequences of str
        Tests and test files that were to run.
    seconds : float
        Wall clock.
    """

    mutant: Mutant
    outcome: str
    why: str = ""
    stages: Stages = ()
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

    def judge(self, mutant: Mutant, stages: Stages) -> tuple[str, str]:
        """Try one mutant on groups of tests in turn; return the outcome and why."""
        path = self.root / mutant.module
        source, times = path.read_text(encoding="utf-8"), path.stat()
        stored = self._stored(path)
        kept = {p: p.read_bytes() for p in stored}
        try:
            for file in stored:
                file.unlink()
            path.write_text(mutant.applied(source), encoding="utf-8")
            code, text = 0, ""
            for tests in filter(None, stages):
                code, text = (code, text) if code else self.run(tests)
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
            ended = code in (-signal.SIGPROF, -signal.SIGALRM)
            return "killed", "did not end" if ended else f"died of signal {-code}"
        if code > max(pytest.ExitCode):
            return "killed", f"the tests' process ended with {code}"
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

    def _stored(self, path: Path) -> list[Path]:
        """Compiled forms of a module, and of those into which numba compiles its functions."""
        name = path.relative_to(self.root).as_posix()
        inlined = compiled_with(self.root, name) if path.stem.startswith("numba_") else {path.stem}
        stored = path.parent / "__pycache__"
        return sorted(file for stem in inlined for file in stored.glob(f"{stem}.*"))


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
    """Counts by package, by operator and in all, after the survivors as differences."""
    for verdict in verdicts:
        if verdict.outcome == "survived":
            tests = [name for stage in verdict.stages for name in stage]
            yield difference(verdict.mutant)
            yield f"survived {len(tests)} tests and files: {' '.join(tests[:8])} ...\n"
    yield f"{'':<22} {'killed':>7} {'survived':>9} {'equivalent':>11} {'rate':>7}"
    packages = sorted({folder(v.mutant.module) for v in verdicts})
    rows = {name: [v for v in verdicts if folder(v.mutant.module) == name] for name in packages}
    rows |= {name: [v for v in verdicts if v.mutant.operator == name] for name in OPERATORS}
    for name, mine in {**rows, "all": list(verdicts)}.items():
        count = Counter(v.outcome for v in mine)
        if count:
            shown = f"{rate(mine):.1%}" if count["killed"] + count["survived"] else "none"
            numbers = f"{count['killed']:>7} {count['survived']:>9} {count['equivalent']:>11}"
            yield f"{name:<22} {numbers} {shown:>7}"


def rate(verdicts: Sequence[Verdict]) -> float:
    """Share of killed mutants among those that are not equivalent; 0 of none."""
    count = Counter(v.outcome for v in verdicts)
    tried = count["killed"] + count["survived"]
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
    names, operators = modules(ROOT, options.only), operators_of(options.operators)
    chosen = draw(ROOT, names, options.n, options.seed, operators)
    trace = read_trace(options.trace) if options.trace else Trace({}, {})
    most = 1 if options.first else 2
    plan = [
        (m, [] if m.key in known else _stages(m, trace, options.seconds)[:most]) for m in chosen
    ]
    if options.list:
        for mutant, stages in plan:
            tests = [" ".join(stage) for stage in stages]
            print(difference(mutant), *tests, known.get(mutant.key, ""), "", sep="\n")
        return 0
    with tempfile.TemporaryDirectory(prefix="mutants-") as made:
        trees: SimpleQueue[Tree] = SimpleQueue()
        for i in range(options.jobs):
            trees.put(Tree(Path(made) / f"tree{i}"))

        def one(item: tuple[Mutant, Stages]) -> Verdict:
            mutant, stages = item
            if mutant.key in known:
                return Verdict(mutant, "equivalent", known[mutant.key])
            tree, began = trees.get(), time.monotonic()
            try:
                outcome, why = tree.judge(mutant, stages)
            finally:
                trees.put(tree)
            verdict = Verdict(mutant, outcome, why, stages, time.monotonic() - began)
            where = f"{mutant.module} {mutant.function} ({mutant.operator})"
            said = [f"{outcome}: {where} {why} [{verdict.seconds:.0f} s]"]
            said += [difference(mutant)] if outcome == "survived" else []
            print(*said, sep="\n", file=sys.stderr, flush=True)
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


def _stages(mutant: Mutant, trace: Trace, seconds: float) -> Stages:
    """Tests of a mutant's lines, or of likely files, and doctests; then the rest of its package.

    Of files only the tests that can run the mutant (`reach`); all of them if no test seems to.
    """
    reaching: dict[str, list[str]] = {}
    for test in reach_of(ROOT).tests(mutant.module, mutant.function):
        reaching.setdefault(test.partition("::")[0], []).append(test)
    # A file that names the module may hold no test that comes to the function.
    files = [f for f in likely_files(ROOT, mutant) if f in reaching or not reaching]
    source = (ROOT / mutant.module).read_text(encoding="utf-8")
    found = line_tests(trace, source, mutant, files, seconds)
    # What runs on import is run by any test that imports late, and seen by the one that pins it.
    pins = [f for f in files if f in PINNED.values()]
    first = pins if found else list(dict.fromkeys([*files[:FIRST_FILES], *pins]))
    rank = {file: i for i, file in enumerate(files)}
    rest = [f for f in folder_files(ROOT, mutant.module) if f not in first]
    rest.sort(key=lambda file: rank.get(file, len(rank)))

    def those(names: Sequence[str]) -> list[str]:
        return [t for f in names for t in reaching.get(f, ())] if reaching else list(names)

    link = "" if mutant.module.startswith("dualclust/") else "dualclust/"
    doctests = [link + mutant.module] if ">>> " in source else []
    return [*found, *doctests, *those(first)], those(rest)


def _unsound(tree: Tree, verdicts: Sequence[Verdict]) -> str:
    """Run each test that killed on the tree without an error; return what failed."""
    tests = sorted({v.why for v in verdicts if "::" in v.why})
    if not tests:
        return ""
    code, text = tree.run(["--maxfail=1000", *tests])
    return "" if code == 0 else text[-2000:]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation.run", description=__doc__)
    add = parser.add_argument
    add("--n", type=int, default=60, help="how many mutants (default 60)")
    add("--seed", type=int, default=0, help="which ones (default 0)")
    add("--only", nargs="+", default=(), help="such as algos/online/duals.py or 'train/*' (all)")
    says = "semantic, syntactic, or names of operators (all)"
    add("--operators", nargs="+", default=(), help=says)
    says = "what `tests.mutation.trace` wrote: which tests run which lines"
    add("--trace", type=Path, metavar="FOLDER", help=says)
    says = "leave out the rest of the package: sooner, and a lower bound of the rate"
    add("--first", action="store_true", help=says)
    says = "of tests that run a mutant's lines, before all of its package (default 100)"
    add("--seconds", type=float, default=100.0, help=says)
    add("--jobs", type=int, default=1, help="trees at a time (default 1)")
    add("--list", action="store_true", help="show the mutants and their test files, run nothing")
    return parser


if __name__ == "__main__":
    sys.exit(main())
