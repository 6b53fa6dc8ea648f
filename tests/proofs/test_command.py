"""``dualclust proofs``: the table, JSON, and an exit code that says whether all stand."""

from __future__ import annotations

import argparse
import json
import math
import pkgutil
import re
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from dualclust import proofs
from dualclust.algos.core.errors import MissingExtraError, OutputError, UsageError
from dualclust.cli import claim_text
from dualclust.cli import proofs as proofs_command
from dualclust.proofs.registry import claims as registry
from dualclust.proofs.registry.claims import Claim, Status


def _claim(claim_id: str, check: Any, status: Status = Status.HOLDS, **options: Any) -> Claim:
    words = "A long statement about nothing in particular, over several lines. " * 3
    return Claim(claim_id, "CoKe", "Eq. 1", words, "none", status, "none", check, **options)


@pytest.fixture
def three(monkeypatch: pytest.MonkeyPatch) -> dict[str, Claim]:
    claims = {
        "C1": _claim("C1", lambda: 0.0, Status.EXTRA),
        "C2": _claim("C2", lambda: 0.25, tolerance=0.5),
        "C3": _claim("C3", lambda: 0.0, slow=True),
    }
    monkeypatch.setattr(registry, "REGISTRY", claims)
    monkeypatch.setattr(registry, "MODULES", ())
    return claims


def _parse(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="dualclust")
    commands = parser.add_subparsers(dest="command")
    proofs_command.register(commands)
    return parser.parse_args(["proofs", *arguments])


def _run(*arguments: str) -> int:
    return proofs_command.run_proofs(_parse(*arguments))


def test_the_help_parses_and_fits_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [line.split()[2:] for line in proofs_command.EXAMPLES.splitlines() if "  dual" in line]
    assert len(lines) == 5
    for line in lines:
        assert _parse(*line).command == "proofs"
    monkeypatch.setenv("COLUMNS", "100")
    with pytest.raises(SystemExit) as end:
        _parse("--help")
    assert end.value.code == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 100


@pytest.mark.usefixtures("three")
def test_a_table_of_what_stands(capsys: pytest.CaptureFixture[str]) -> None:
    assert _run() == 0
    head, first, second, counted, last = capsys.readouterr().out.splitlines()
    assert head.split() == ["id", "source", "statement", "status", "about", "worst", "s"]
    assert first.startswith("C1     CoKe, Eq. 1                A long statement")
    assert first.split()[-4:-2] == ["holds+", "lib"]
    assert second.split()[-2] == "2.5e-01"
    assert len(first) == len(second) == len(head) <= 100
    assert counted.startswith("2 claims verified in ")
    assert counted.endswith(
        " s, 2 about the library and 0 about the paper alone (1 holds, 1 holds+)"
    )
    assert last == "0 more are arithmetic of the print, not counted: all stand"


def test_arithmetic_of_the_print_is_not_verified(
    three: dict[str, Claim], capsys: pytest.CaptureFixture[str]
) -> None:
    three["C2"] = _claim("C2", lambda: 0.0, Status.EMPIRICAL, about="print")
    three["C3"] = _claim("C3", lambda: 0.0, about="paper")
    assert _run() == 0
    *_, line, counted, last = capsys.readouterr().out.splitlines()
    assert " holds     paper " in line
    assert "2 claims verified in" in counted
    assert "1 about the library and 1 about the paper alone (1 holds, 1 holds+)" in counted
    assert last == "1 more are arithmetic of the print, not counted: all stand"
    three["C2"] = _claim("C2", lambda: 1.0, Status.EMPIRICAL, about="print")
    assert _run("--json") == 1  # it is checked all the same
    found = {r["id"]: r["about"] for r in json.loads(capsys.readouterr().out)}
    assert found == {"C1": "library", "C2": "print", "C3": "paper"}


@pytest.mark.usefixtures("three")
def test_slow_ones_and_ids(capsys: pytest.CaptureFixture[str]) -> None:
    assert _run("--slow") == 0
    assert capsys.readouterr().out.splitlines()[-2].startswith("3 claims")
    assert _run("--id", "C3", "C1", "--id", "C2") == 0
    heads = [line for line in capsys.readouterr().out.splitlines() if line.endswith("CoKe, Eq. 1")]
    assert heads == ["C1: CoKe, Eq. 1", "C2: CoKe, Eq. 1", "C3: CoKe, Eq. 1"]


@pytest.mark.parametrize("columns", [48, 200])
def test_a_named_claim_is_shown_in_full(
    columns: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    registry.load()
    found = registry.REGISTRY["S4"]
    assert _run("--id", "S4") == 0
    out = capsys.readouterr().out
    *text, _, counted, last = out.splitlines()
    names = ["Statement", "Hypotheses", "Status", "Reason", "Margin", "Program", "Covers"]
    assert [line for line in text if line in names] == names
    longest = max((line for line in text if "dualclust." not in line), key=len)
    assert len(longest) <= min(columns, 100)
    words = " ".join(out.split())
    for part in (found.statement, found.hypotheses, found.derivation):
        assert " ".join(part.split()) in words
    assert re.search(r"worst violation of the verdict is \S+, the tolerance 1e-09: the", words)
    assert "dualclust.proofs.secu.supplement.label_of_the_online_step" in words
    assert counted.startswith("1 claims verified")
    assert last.endswith("all stand")


def test_a_fallen_claim_is_shown_with_its_counterexample(
    three: dict[str, Claim], capsys: pytest.CaptureFixture[str]
) -> None:
    three["C2"] = _claim("C2", lambda: 0.75, Status.REFUTED, counterexample="K = 2, n = (3, 1).")
    assert _run("--id", "C2") == 1
    out = capsys.readouterr().out
    assert "Counterexample\n  K = 2, n = (3, 1).\n" in out
    assert "is 0.75, the tolerance 0: the verdict DOES NOT STAND." in " ".join(out.split())


def test_what_is_shown_can_be_imported() -> None:
    """A program is found by its name, and so is every function that rests on a claim."""
    registry.load()
    for found in registry.REGISTRY.values():
        assert pkgutil.resolve_name(claim_text._program(found)) is found.check, found.id
        for name in claim_text._covered(found):
            assert callable(pkgutil.resolve_name(name)), name


def test_exit_code_1_where_one_does_not_stand(
    three: dict[str, Claim], capsys: pytest.CaptureFixture[str]
) -> None:
    three["C2"] = _claim("C2", lambda: 0.75, tolerance=0.5)
    assert _run() == 1
    out = capsys.readouterr().out
    assert "DOES NOT STAND: worst 0.75 exceeds the tolerance 0.5" in out
    assert out.rstrip().endswith("C2 not standing")
    assert _run("--id", "C1") == 0


def test_a_missing_library_is_named(
    three: dict[str, Claim], capsys: pytest.CaptureFixture[str]
) -> None:
    def check() -> float:
        msg = "No module named 'cvxpy'"
        raise ModuleNotFoundError(msg, name="cvxpy")

    three["C2"] = _claim("C2", check)
    assert _run() == 1
    out = capsys.readouterr().out
    assert "NOT CHECKED: ModuleNotFoundError: No module named 'cvxpy'. To fix this: pip" in out
    assert "pip install 'dualclust[proofs]'" in out
    assert _run("--id", "C2") == 1
    out = capsys.readouterr().out
    assert "None: the check did not run to its end." in out
    assert "pip install 'dualclust[proofs]'" in out


def test_json_is_one_document(three: dict[str, Claim], capsys: pytest.CaptureFixture[str]) -> None:
    three["C2"] = _claim("C2", lambda: math.inf)
    assert _run("--json") == 1

    def refuse(name: str) -> float:
        raise AssertionError(name)

    first, second = json.loads(capsys.readouterr().out, parse_constant=refuse)
    assert first["id"] == "C1"
    assert first["stands"] is True
    assert first["status"] == "holds with an extra hypothesis"
    assert first["worst"] == 0.0
    assert second["stands"] is False
    assert second["worst"] is None


@pytest.mark.usefixtures("three")
def test_an_unknown_id_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match=r"got 'C9'\. To fix this, use some of C1, C2, C3"):
        _run("--id", "C1", "C9")


@pytest.mark.usefixtures("three")
def test_plot_draws_into_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    drawn: list[Path] = []
    stub = types.ModuleType("regret_plot")

    def draw(folder: Path, progress: Any) -> None:
        drawn.append(folder)
        progress("k = 10, n = 1000")

    stub.draw = draw  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "dualclust.proofs.regret_plot", stub)
    monkeypatch.setattr(proofs, "regret_plot", stub, raising=False)
    folder = tmp_path / "new" / "figures"
    assert _run("--plot", str(folder)) == 0
    assert drawn == [folder]
    assert folder.is_dir()
    told = capsys.readouterr()
    assert told.out.splitlines()[-1] == f"drawn in {folder}/"
    assert told.err == "measured k = 10, n = 1000\n"
    assert _run("--json", "--plot", str(folder)) == 0
    told = capsys.readouterr()
    assert len(json.loads(told.out)) == 2  # progress is not in the document
    assert told.err == "measured k = 10, n = 1000\n"


@pytest.mark.usefixtures("three")
def test_plot_fails_before_the_checks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot create"):
        _run("--plot", str(tmp_path / "file" / "figures"))
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match="dualclust\\[train\\]"):
        _run("--plot", str(tmp_path))
    assert capsys.readouterr().out == ""


def test_registering_the_command_loads_no_proofs() -> None:
    import subprocess

    program = (
        "import argparse, sys; from dualclust.cli import proofs as proofs_command;"
        "proofs_command.register(argparse.ArgumentParser().add_subparsers());"
        "sys.exit('dualclust.proofs.registry.claims' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@pytest.mark.parametrize(
    ("n", "shown"), [(26, 26 * "a"), (27, 23 * "a" + "..."), (90, 23 * "a" + "...")]
)
def test_a_text_that_is_too_long_fills_its_column(n, shown):
    """And ends in dots; one that fits stays whole."""
    assert proofs_command._cut(n * "a", 26) == shown
    assert proofs_command._cut(f"  {n * 'a'}\n", 26) == shown
