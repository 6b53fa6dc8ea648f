"""The mutation program: what it makes, what it leaves alone, and that it can say "survived"."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutation import run
from tests.mutation.choice import (
    GROUPS,
    PINNED,
    draw,
    folder,
    folder_files,
    group,
    likely_files,
    line_tests,
    modules,
)
from tests.mutation.operators import (
    SEMANTIC,
    SYNTACTIC,
    is_python,
    mutants,
    operators_of,
)
from tests.mutation.places import Mutant
from tests.mutation.reach import reach_of
from tests.mutation.run import (
    FIRST_FILES,
    Verdict,
    _stages,
    difference,
    equivalents,
    failures,
    rate,
    report,
)
from tests.mutation.trace import Trace, read_trace

ROOT = Path(__file__).resolve().parents[2]
SOURCE = '''\
"""Words, 1 + 1."""

from typing import TYPE_CHECKING

__all__ = ["f"]
LIMIT = 2.0

if TYPE_CHECKING:
    X = 1 + 1


def f(x: int = 3, *, far=False):
    """A docstring with 5 > 4."""
    if x < 0:
        msg = f"x must be 0 or more, got {x + 1}"
        raise ValueError(msg)
    x = max(x, -LIMIT)  # größer
    g(x, far, axis=-1, keepdims=True)
    return x + 1 if x and not far else x
'''


def _lines(operator: str) -> set[str]:
    return {m.new_line for m in mutants("algos/sample.py", SOURCE) if m.operator == operator}


def test_every_kind_of_error_is_made() -> None:
    assert _lines("comparison") == {"if x <= 0:", "if x >= 0:"}
    assert _lines("arithmetic") == {"return x - 1 if x and not far else x"}
    assert "LIMIT = 4.0" in _lines("constant")
    assert "def f(x: int = 4, *, far=False):" in _lines("constant")
    assert "def f(x: int = 3, *, far=True):" in _lines("constant")
    assert _lines("sign") == {"x = max(x, LIMIT)  # größer"}
    assert _lines("and/or/not") == {
        "return x + 1 if x or not far else x",
        "return x + 1 if x and far else x",
    }
    assert _lines("min/max") == {"x = min(x, -LIMIT)  # größer"}
    assert _lines("axis") == {"g(x, far, axis=0, keepdims=True)"}
    assert _lines("returned value") == {"return None", "return x"}
    made = {m.operator for m in mutants("algos/sample.py", SOURCE)}
    assert made - set(SEMANTIC) == set(SYNTACTIC)


def test_words_and_types_are_left_alone() -> None:
    for mutant in mutants("algos/sample.py", SOURCE):
        assert "X = 1" not in mutant.old_line
        assert "msg =" not in mutant.old_line
        assert '"""' not in mutant.old_line
        assert "__all__" not in mutant.old_line


def test_a_mutant_is_one_replacement() -> None:
    for mutant in mutants("algos/sample.py", SOURCE):
        text = mutant.applied(SOURCE)
        assert is_python(text), mutant
        assert text != SOURCE
        assert text.startswith(SOURCE[: mutant.start])
        assert text.endswith(SOURCE[mutant.stop :])


def test_a_mutant_keeps_its_name_when_lines_move() -> None:
    moved = SOURCE.replace("LIMIT = 2.0", "\n\nLIMIT = 2.0")
    before, after = (mutants("algos/sample.py", text) for text in (SOURCE, moved))
    assert [m.key for m in before] == [m.key for m in after]


@pytest.mark.parametrize(
    "module",
    ["algos/online/duals.py", "backends/numba_engine.py", "train/loop/train_and_resume.py"],
)
def test_mutants_of_the_library_are_python(module: str) -> None:
    source = (ROOT / module).read_text(encoding="utf-8")
    found = mutants(module, source)
    assert len(found) > 20
    functions = {n.name for n in ast.walk(ast.parse(source)) if isinstance(n, ast.FunctionDef)}
    found_in = {m.function.split(".")[-1] for m in found}
    assert found_in <= {*functions, "", "Run", "Duals", "DualRule"}
    broken = [m for m in found[::7] if not is_python(m.applied(source))]
    assert len(broken) <= len(found) / 70


def test_drawing_takes_turns_and_repeats_itself() -> None:
    names = [
        "algos/online/duals.py",
        "algos/bounds/sizes.py",
        "backends/torch_cpu.py",
        "train/config/constraints.py",
    ]
    drawn = draw(ROOT, names, 12, seed=3)
    assert drawn == draw(ROOT, names, 12, seed=3)
    assert drawn != draw(ROOT, names, 12, seed=4)
    assert len({(m.module, m.start, m.stop, m.new) for m in drawn}) == 12
    assert {m.module for m in drawn} == set(names)
    assert {group(name) for name in modules(ROOT)} == set(GROUPS)
    some = draw(ROOT, names, 12, 3, operators_of(["semantic", "sign"]))
    assert {m.operator for m in some} <= {*SEMANTIC, "sign"}
    assert {m.operator for m in some} - {"sign"}
    with pytest.raises(ValueError, match="got \\['words'\\]"):
        operators_of(["words"])
    wanted = {
        "train/loop/train_and_resume.py",
        "train/methods/propos/_labels.py",
        "train/methods/propos/_passes.py",
        "dualclust/cluster/output.py",
        "dualclust/torch/prices.py",
    }
    assert wanted <= set(modules(ROOT))
    assert not any(name.startswith("dualclust/algos/") for name in modules(ROOT))
    assert modules(ROOT, ["algos/online/duals.py", "train/methods"])[0] == "algos/online/duals.py"


@pytest.mark.parametrize(
    ("module", "function", "first"),
    [
        ("algos/online/duals.py", "update_duals", "tests/unit/online/test_duals.py"),
        (
            "backends/numba_path_heaps.py",
            "_replace",
            "tests/backends/test_augmenting_paths.py",
        ),
        (
            "train/methods/propos/_passes.py",
            "grow",
            "tests/train/methods/propos/test_propos_passes.py",
        ),
        ("train/loop/run.py", "Run.run_epoch", "tests/train/loop/test_run_results.py"),
        (
            "dualclust/common/_gradients.py",
            "_Gather.forward",
            "tests/cluster/common/test_common_gradients.py",
        ),
    ],
)
def test_the_likeliest_file_is_among_the_first(module: str, function: str, first: str) -> None:
    mutant = Mutant(module, function, "sign", 0, 0, "", "", "")
    files = likely_files(ROOT, mutant)
    assert first in files[:3]  # beside what pins the defaults of its folder
    assert all((ROOT / file).is_file() for file in files)


@pytest.mark.slow(reason="of a tool beside the library; all calls of all tests are read")
@pytest.mark.parametrize(
    ("module", "package", "some"),
    [
        ("algos/offline/_proof.py", "algos/offline", "tests/reference/test_highs.py"),
        ("algos/offline/_proof.py", "algos/offline", "tests/unit/offline/test_special_cases.py"),
        ("backends/torch_cpu.py", "backends", "tests/backends/test_table.py"),
        (
            "train/methods/propos/_passes.py",
            "train/methods",
            "tests/train/methods/test_init_from.py",
        ),
        ("dualclust/cluster/labeling.py", "dualclust/cluster", "tests/cluster/test_ranks.py"),
        ("dualclust/torch/prices.py", "dualclust/torch", "tests/own_loop/test_pages.py"),
    ],
)
def test_all_tests_of_the_package_run_that_can(module: str, package: str, some: str) -> None:
    assert folder(module) == package
    files = folder_files(ROOT, module)
    assert some in files
    assert len(files) == len(set(files))
    mutant = Mutant(module, "", "sign", 0, 0, "", "", "")
    first, rest = _stages(mutant, Trace({}, {}), 1.0)
    first = [test for test in first if test.startswith("tests/")]
    can = reach_of(ROOT).tests(module, "")
    assert {test for test in can if test.partition("::")[0] in files} <= {*first, *rest}
    assert {*first, *rest} <= set(can)
    reaching = {test.partition("::")[0] for test in can}
    likely = [file for file in likely_files(ROOT, mutant) if file in reaching]
    chosen = {test.partition("::")[0] for test in first}
    assert set(likely[:FIRST_FILES]) <= chosen <= {*likely[:FIRST_FILES], *PINNED.values()}
    assert not set(first) & set(rest)


@pytest.mark.slow(reason="as above")
def test_doctests_of_the_module_run_by_the_name_that_the_suite_runs_them_by() -> None:
    for module in ("algos/bounds/sizes.py", "dualclust/common/page/sections.py"):
        first, rest = _stages(Mutant(module, "", "sign", 0, 0, "", "", ""), Trace({}, {}), 1.0)
        (found,) = [test for test in [*first, *rest] if not test.startswith("tests/")]
        assert found == ("" if module.startswith("dualclust/") else "dualclust/") + module
        assert (ROOT / found).is_file()


def test_every_package_has_tests() -> None:
    assert all(len(folder_files(ROOT, name)) > 2 for name in modules(ROOT))


@pytest.mark.slow
def test_the_tests_that_run_a_line_are_chosen(tmp_path: Path) -> None:
    """Asked of a real run: near files first, what takes too long last and alone."""
    module, tests = "algos/scores/blocks.py", "tests/unit/scores/test_blocks.py"
    # They take no fixture: without conftest.py no array library but NumPy is loaded.
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--noconftest"]
    command += ["-p", "tests.mutation.trace", "--trace-lines", str(tmp_path), tests]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, env=environment)
    trace = read_trace(tmp_path)
    source = (ROOT / module).read_text(encoding="utf-8")
    inside = [m for m in mutants(module, source) if m.function and m.operator == "arithmetic"]
    found = [line_tests(trace, source, m, [tests], 1e9) for m in inside]
    assert all(found)
    assert {test.partition("::")[0] for chosen in found for test in chosen} == {tests}
    assert all("[" not in test for chosen in found for test in chosen)
    assert len({tuple(chosen) for chosen in found}) > 1  # not every test runs every line
    # A module that has changed since is not believed.
    (tmp_path / module).parent.mkdir(parents=True)
    (tmp_path / module).write_text(source + "\n", encoding="utf-8")
    assert read_trace(tmp_path, tmp_path).lines == {}


def test_tests_of_likely_files_come_first_and_long_ones_not_at_all() -> None:
    source = "def f(x):\n    y = g(\n        x + 1\n    )\n    return y\n"
    mutant = Mutant("m.py", "f", "arithmetic", source.index("x +"), source.index("1\n"), "", "", "")
    lines = {2: {"b.py::slow", "b.py::quick", "a.py::test"}, 3: {"c.py::test"}, 5: {"d.py::test"}}
    seconds = {"b.py::slow": 9.0, "b.py::quick": 1.0, "a.py::test": 3.0, "c.py::test": 2.0}
    trace = Trace({"m.py": {n: frozenset(t) for n, t in lines.items()}}, seconds)
    near = line_tests(trace, source, mutant, ["a.py"], 100.0)
    assert near == ["a.py::test", "b.py::quick", "c.py::test", "b.py::slow"]
    assert line_tests(trace, source, mutant, ["a.py"], 6.5) == near[:3]
    assert line_tests(Trace({}, {}), source, mutant, ["a.py"], 6.5) == []


# What becomes of a mutant -----------------------------------------------------------------------


def _mutant(module: str = "algos/online/duals.py") -> Mutant:
    source = (ROOT / module).read_text(encoding="utf-8")
    return next(m for m in mutants(module, source) if m.operator == "arithmetic")


def test_every_equivalent_still_exists_and_has_a_reason() -> None:
    known = equivalents()
    for module in {key[0] for key in known}:
        made = {m.key for m in mutants(module, (ROOT / module).read_text(encoding="utf-8"))}
        assert {key for key in known if key[0] == module} <= made, "they make no mutant any more"
    assert min(map(len, known.values())) > 20


def test_a_test_that_failed_is_named_with_its_spaces() -> None:
    text = "FAILED tests/a.py::test_b[nobody yet] - assert 1 - 2 == 3\nERROR tests/c.py\nERROR: no"
    assert failures(text) == ["tests/a.py::test_b[nobody yet]", "tests/c.py"]


def test_the_report_counts_equivalents_apart() -> None:
    mutant = _mutant()
    verdicts = [Verdict(mutant, "killed", "t.py::f")] * 32
    verdicts += [
        Verdict(mutant, "survived", stages=(("t.py",), ())),
        Verdict(mutant, "equivalent", "why"),
    ]
    assert rate(verdicts) == 32 / 33
    *_, online, arithmetic, everything = report(verdicts)
    assert online.split() == ["algos/online", "32", "1", "1", "97.0%"]
    assert arithmetic.split() == ["arithmetic", "32", "1", "1", "97.0%"]
    assert everything.split() == ["all", "32", "1", "1", "97.0%"]
    text = "\n".join(report(verdicts))
    assert difference(mutant) in text
    lines = [line[:1] + line[1:].strip() for line in text.splitlines()]
    assert f"-{mutant.old_line}" in lines
    assert f"+{mutant.new_line}" in lines
    assert rate([]) == 0.0
    assert rate([Verdict(mutant, "survived")]) == 0.0


class _Stub(run.Tree):
    """A tree whose test runs end as told, the last ones first."""

    def __init__(self, root: Path, *ends: tuple[int, str]) -> None:
        self.root, self.ends = root, list(ends)
        self.seen = ""

    def run(self, targets: object, limit: int = 0) -> tuple[int, str]:
        self.seen = (self.root / "algos" / "online" / "duals.py").read_text(encoding="utf-8")
        return self.ends.pop()


@pytest.mark.parametrize(
    ("code", "text", "verdict"),
    [
        (0, "3 passed", ("survived", "")),
        (
            1,
            "FAILED tests/unit/online/test_duals.py::test_a - assert",
            ("killed", "tests/unit/online/test_duals.py::test_a"),
        ),
        (2, "ERROR tests/unit/online/test_duals.py", ("killed", "tests/unit/online/test_duals.py")),
        (2, "!!! KeyboardInterrupt !!!\nno tests ran", ("killed", "interrupted the tests")),
        (3, "INTERNALERROR", ("killed", "no test could be read")),
        (
            4,
            "___ ERROR collecting tests/a.py ___\nERROR tests/a.py",
            ("killed", "tests/a.py"),
        ),
        (
            4,
            "ImportError while loading conftest 'tests/train/conftest.py'.\nE   TypeError: no",
            ("killed", "no test could be read"),
        ),
        (-27, "", ("killed", "did not end")),
        (-14, "", ("killed", "did not end")),
        (-11, "", ("killed", "died of signal 11")),
        (70, "F", ("killed", "the tests' process ended with 70")),
    ],
)
def test_how_a_run_ends_is_what_is_said(
    tmp_path: Path, code: int, text: str, verdict: tuple[str, str]
) -> None:
    mutant = _mutant()
    path = tmp_path / mutant.module
    (path.parent / "__pycache__").mkdir(parents=True)
    path.write_bytes((ROOT / mutant.module).read_bytes())
    stored = path.parent / "__pycache__" / "duals.cpython-311.pyc"
    stored.write_bytes(b"old")
    before, source = path.stat().st_mtime_ns, path.read_text(encoding="utf-8")
    tree = _Stub(tmp_path, (code, text), (0, "1 passed"))
    assert tree.judge(mutant, [["tests/unit/online/test_duals.py"], [], ["b.py"]]) == verdict
    assert tree.ends == []  # what passes the first group goes to the next
    assert tree.seen == mutant.applied(source)
    assert path.read_text(encoding="utf-8") == source  # and is taken back, with what was compiled
    assert path.stat().st_mtime_ns == before
    assert stored.read_bytes() == b"old"


def test_a_run_that_says_nothing_is_no_kill(tmp_path: Path) -> None:
    mutant = _mutant()
    path = tmp_path / mutant.module
    path.parent.mkdir(parents=True)
    path.write_bytes((ROOT / mutant.module).read_bytes())
    with pytest.raises(RuntimeError, match="ended with 4"):
        _Stub(tmp_path, (4, "usage")).judge(mutant, [["no_such_file.py"], ["b.py"]])
