"""The rows of `make machines` cover what they are to cover, and are what they say."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys

import pytest

from tests.machines import __main__ as machines
from tests.machines import environments
from tests.machines.rows import ROWS, Row, missing, variables

X86 = platform.system() == "Linux" and platform.machine() == "x86_64"
BY_NAME = {row.name: row for row in ROWS}


def test_the_rows_cover_every_value():
    def seen(name):
        return {getattr(row, name) for row in ROWS} - {None}

    assert seen("openblas") == {"Prescott", "Haswell", "Zen", "SkylakeX"}
    assert seen("aten") == {"default", "avx2", "avx512"}
    assert seen("mkl") == {"COMPATIBLE", "AVX2"}
    assert "generic" in seen("numba")
    assert seen("threads") == {1, 2, 4}
    assert seen("python") == {"3.11", "3.13"}
    assert any(row.lowest for row in ROWS)
    assert len(BY_NAME) == len(ROWS)


def test_older_and_newer_numpy_speak_of_the_same_generation():
    older = ["SSE42", "AVX2", "FMA3", "AVX512F", "AVX512_SKX", "AVX512_ICL"]
    newer = ["X86_V3", "X86_V4", "AVX512_ICL"]

    def off(name, features):
        return variables(BY_NAME[name], features).get("NPY_DISABLE_CPU_FEATURES", "").split()

    assert off("haswell", older) == older[3:]
    assert off("haswell", newer) == newer[1:]
    assert off("oldest", older) == older[1:]
    assert off("oldest", newer) == newer
    assert off("skylakex", newer) == ["AVX512_ICL"]
    assert off("python-3.13", newer) == []


@pytest.mark.skipif(not X86, reason="the rows are x86 processors")
def test_a_processor_that_cannot_is_not_here_and_not_red(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(machines, "_flags", lambda: frozenset({"sse2", "avx2", "fma"}))
    assert machines.main(["skylakex", "--envs", str(tmp_path)]) == 3
    said = capsys.readouterr().out
    assert "not here: the processor has no avx512bw, avx512cd" in said
    assert missing(BY_NAME["zen"], frozenset({"avx2", "fma"})) == []


def test_a_missing_python_is_not_here():
    with pytest.raises(environments.NotHereError, match=r"no Python 3\.99"):
        environments.interpreter(Row("x", "", python="3.99"), environments.ROOT)


def test_an_unknown_row_is_refused(capsys):
    with pytest.raises(SystemExit):
        machines.main(["pentium"])
    assert "there are oldest, haswell" in capsys.readouterr().err


def test_the_lowest_versions_are_those_of_pyproject():
    wanted, constraints = environments.requirements(BY_NAME["lowest"])
    assert all("==" in line or line not in ("numpy", "torch") for line in wanted)
    pinned = {line.partition("==")[0] for line in wanted if "==" in line}
    assert {"numpy", "scipy", "numba", "torch", "scikit-learn", "threadpoolctl"} <= pinned
    assert not pinned & {line.partition("==")[0] for line in constraints}


@pytest.mark.slow(reason="the row that CI runs beside the suite asks the same of the libraries")
@pytest.mark.skipif(not X86, reason="the rows are x86 processors")
def test_the_variables_reach_the_libraries(monkeypatch, tmp_path, capsys):
    """Of the oldest machine, and two wrong answers of the probe are noticed."""
    for name in ("OPENBLAS_CORETYPE", "NUMBA_CPU_NAME"):
        monkeypatch.delenv(name, raising=False)
    said = []
    ask = machines._ask
    monkeypatch.setattr(machines, "_ask", lambda *given: said.append(ask(*given)) or said[-1])
    assert machines.main(["oldest", "--envs", str(tmp_path), "--probe"]) == 0
    assert str(tmp_path / "oldest-numba") in capsys.readouterr().out
    found = json.loads(said[-1])
    # This test may itself run on an emulated machine: what that set is left out.
    free = {name: value for name, value in os.environ.items() if name not in machines._RULED}
    here = json.loads(machines._ask(sys.executable, free))
    used = found["numpy"].partition(": ")[2].replace("baseline", "")
    assert not any(name in used for name in ("AVX", "FMA", "X86_V3", "X86_V4"))
    assert not found["numba_avx"]
    if here["numba_avx"]:
        assert found["libm"] != here["libm"]
    for wrong in ({"aten": "AVX2"}, {"openblas": {"numpy": "Haswell x 1"}}, {"threads": 7}):
        with pytest.raises(machines.NoEffectError, match=next(iter(wrong))):
            machines.check_effect(BY_NAME["oldest"], found | wrong, kept=[])


@pytest.mark.skipif(not X86, reason="the rows are x86 processors")
def test_red_and_green(monkeypatch, tmp_path, capsys):
    """A test that fails makes its row red, and the code 1; a row where nothing ran is red, too."""
    monkeypatch.delenv("OPENBLAS_CORETYPE", raising=False)
    monkeypatch.setattr(machines, "check_effect", lambda row, found, kept: None)
    monkeypatch.setattr(machines, "_ask", lambda python, env, *options: "[]" if options else "{}")
    (tmp_path / "test_it.py").write_text(
        "import os\n"
        "def test_core(): assert os.environ['OPENBLAS_CORETYPE'] == 'Prescott'\n"
        "def test_red(): assert 'GREEN' in os.environ\n"
    )

    def run(*pytest_arguments):
        command = ["oldest", "--envs", str(tmp_path), "--", "-p", "no:cacheprovider"]
        code = machines.main([*command, *pytest_arguments])
        return code, capsys.readouterr().out.splitlines()[-1].split()[:5]

    file = str(tmp_path / "test_it.py")
    assert run(file) == (1, ["oldest", "RED", "1", "1", "0"])
    monkeypatch.setenv("GREEN", "1")
    assert run(file) == (0, ["oldest", "green", "2", "0", "0"])
    assert run(file, "-k", "nothing") == (1, ["oldest", "RED", "0", "0", "0"])


@pytest.mark.skipif(not X86, reason="the rows are x86 processors")
def test_a_row_without_effect_is_red(monkeypatch, tmp_path, capsys):
    found = {"openblas": {"numpy": "Haswell x 1"}, "aten": None, "numba": "generic"}
    answers = lambda python, env, *options: "[]" if options else json.dumps(found)  # noqa: E731
    monkeypatch.setattr(machines, "_ask", answers)
    monkeypatch.delenv("OPENBLAS_CORETYPE", raising=False)
    assert machines.main(["oldest", "--envs", str(tmp_path)]) == 1
    assert "RED: openblas is {'numpy': 'Haswell x 1'}, not Prescott" in capsys.readouterr().out


@pytest.mark.skipif(not X86, reason="the rows are x86 processors")
def test_what_the_user_set_for_openblas_is_kept(monkeypatch, tmp_path):
    """Some processors need it: with the core that OpenBLAS would choose it computes wrongly."""
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Nehalem")
    monkeypatch.setenv("MKL_CBWR", "AVX")
    environment = machines._environment(BY_NAME["oldest"], sys.executable, tmp_path)
    assert environment["OPENBLAS_CORETYPE"] == "Nehalem"
    assert environment["MKL_CBWR"] == "COMPATIBLE"


def test_the_command_starts(tmp_path):
    command = [sys.executable, "-m", "tests.machines", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=environments.ROOT)
    assert done.returncode == 0
    assert "oldest zen" in done.stdout
