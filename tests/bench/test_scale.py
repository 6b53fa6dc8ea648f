"""The benchmark of growth runs on two ranks, and counts what they read and send."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "scale.py"


def program() -> ModuleType:
    spec = importlib.util.spec_from_file_location("scale_benchmark", PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_two_ranks_are_counted(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    scale = program()
    found, result = scale.run(scale.Case(16384 + 500, 5, 4, 2, 1), tmp_path, 1)
    assert result["passes"] == 1
    assert found["rows"] % 16384 == 0  # two of three blocks, whole passes
    assert found["rows"] >= 4 * 16384
    assert found["exchanges"] > 10
    assert found["all_cpu"] > found["cpu"] > 0
    assert found["rows by number"] > 0
    assert list(tmp_path.iterdir()) == []


def test_each_case_changes_one_number() -> None:
    scale = program()
    base = scale.Case(200, 10, 8, 1, 1)
    cases = scale.cases(base, None)
    assert cases[0] == base
    for case in cases[1:]:
        assert sum(a != b for a, b in zip(case, base, strict=True)) == 1
    assert scale.cases(base, "threads") == [base, base._replace(threads=2)]
