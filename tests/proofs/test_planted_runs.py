"""Who notices a planted error, told apart: named or reached, broken, without end."""

from __future__ import annotations

import argparse
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dualclust.algos.core.errors import UsageError
from dualclust.cli import planted, proofs
from dualclust.proofs.planted import planting, report, runs, worker
from dualclust.proofs.planted.planting import PlantedError
from dualclust.proofs.planted.runs import Outcome, Run, Sound, named_by, run_planted
from dualclust.proofs.registry import claims as registry

STEP = "algos.online.step_sizes.theorem_steps"
SAMPLES = "tests.proofs.sample_claims:register"
ROOT = Path(__file__).resolve().parents[2]

ERRORS = {
    "seen": PlantedError(STEP, "factor", "math.sqrt(2", "math.sqrt(3"),
    "unseen": PlantedError(
        "algos.bounds.sizes.SizeBounds.from_ratios", "wrong constant", "Ratio = 0.9", "Ratio = 0.8"
    ),
    "reached": PlantedError(
        "algos.scores.statistics.strided_ids", "off by one", "= round", "= 1 + round"
    ),
    "not reached": PlantedError(
        "algos.offline._region_from_rows.raise_empty_clusters", "sign", "prices + xp", "prices - xp"
    ),
    "broken": PlantedError(STEP, "wrong formula", "math.sqrt", "math.no_such_root"),
    "no python": PlantedError(STEP, "wrong formula", "math.sqrt(", "math.sqrt(("),
    "missing": PlantedError(STEP, "sign", "no such text", ""),
    "without end": PlantedError(STEP, "wrong argument", "l1_radius=tau", "l1_radius=3.0"),
    "dies": PlantedError(STEP, "wrong argument", "l1_radius=tau", "l1_radius=4.0"),
}


@pytest.fixture(scope="module")
def sample_run() -> Any:
    """One run over the sample claims alone, for all tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "REGISTRY", {})
        patch.setattr(registry, "MODULES", ())
        patch.chdir(ROOT)  # where the worker finds the samples
        seen: list[Outcome] = []
        found = run_planted(list(ERRORS.values()), 2, 2.0, seen.append, extra=[SAMPLES])
    return found, seen


def _outcome(sample_run: Any, name: str) -> Outcome:
    [outcome] = [o for o in sample_run[0].outcomes if o.error is ERRORS[name]]
    return outcome  # type: ignore[no-any-return]


def test_all_errors_come_back_in_order_and_one_by_one(sample_run: Any) -> None:
    found, seen = sample_run
    assert [o.error for o in found.outcomes] == list(ERRORS.values())
    assert sorted(map(id, seen)) == sorted(map(id, found.outcomes))


def test_a_claim_that_names_the_function_notices(sample_run: Any) -> None:
    outcome = _outcome(sample_run, "seen")
    assert outcome.named == ("Z1", "Z4")
    assert outcome.noticed == ("Z1",)  # Z4 fails without an error too, and is not asked
    assert outcome.why is not None
    assert outcome.why["Z1"].startswith("worst 0.00")
    assert outcome.noticed_by_name


def test_a_claim_that_does_not_look_is_silent(sample_run: Any) -> None:
    outcome = _outcome(sample_run, "unseen")
    assert (outcome.named, outcome.noticed, outcome.silent) == (("Z3",), (), ("Z3",))
    assert not outcome.noticed_by_name


def test_a_claim_that_only_reaches_the_function_may_notice(sample_run: Any) -> None:
    outcome = _outcome(sample_run, "reached")
    assert (outcome.named, outcome.noticed, outcome.silent) == ((), ("Z2",), ())
    outcome = _outcome(sample_run, "not reached")
    assert (outcome.named, outcome.noticed, outcome.silent, outcome.broken) == ((), (), (), "")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("broken", "Z1 raised AttributeError"),
        ("no python", "cannot be planted: SyntaxError"),
        ("missing", "cannot be planted: InvalidValueError: old must occur exactly once"),
    ],
)
def test_a_broken_error_is_not_noticed(sample_run: Any, name: str, why: str) -> None:
    outcome = _outcome(sample_run, name)
    assert outcome.noticed == ()
    assert outcome.broken.startswith(why)


@pytest.mark.parametrize(
    ("name", "why"),
    [("without end", "did not end within 2 CPU seconds"), ("dies", "died with exit code -6")],
)
def test_an_error_without_end_is_noticed(sample_run: Any, name: str, why: str) -> None:
    outcome = _outcome(sample_run, name)
    assert outcome.noticed == ("Z1",)
    assert outcome.why == {"Z1": why}


def test_the_rates_and_what_they_leave_out(sample_run: Any) -> None:
    found = sample_run[0]
    assert report.rates(found) == (3 / 4, 4 / 6)  # three are broken
    assert not report.passes(found)
    text = "\n".join(report.lines(found))
    assert "DOES NOT STAND without an error: Z4, worst 1" in text
    assert f"BROKEN: {STEP} (wrong formula): math.sqrt -> math.no_such_root: Z1 raised" in text
    assert "NOT NOTICED by Z3, by none: algos.bounds.sizes.SizeBounds.from_ratios" in text
    assert (
        "NOT NOTICED, no claim names it: algos.offline._region_from_rows.raise_empty_clusters"
        in text
    )
    assert "no planted error: Z2\n" in text
    assert "Z1         3       3         0  factor, 2 wrong argument" in text
    assert "Z2         0       0         1\n" in text
    assert "of 4 in functions that a claim names, the claims that name them notice 75.0 %" in text
    assert text.endswith("of all, the claims notice 66.7 % (at least 80% wanted)")
    document = json.loads(json.dumps(report.record(found), allow_nan=False))
    assert document["rate_named"] == 0.75
    assert [e["target"] for e in document["errors"]] == [e.target for e in ERRORS.values()]


def _run_of(noticed: int, silent: int, named: bool = True, stands: bool = True) -> Run:
    names = ("C1",) if named else ()
    error = ERRORS["seen"]
    outcomes = [Outcome(error, names, noticed=("C1",))] * noticed + [Outcome(error, names)] * silent
    return Run(tuple(outcomes), {"C1": Sound(stands, "", 0.0, frozenset())})


def test_the_bars() -> None:
    assert report.passes(_run_of(95, 5))
    assert not report.passes(_run_of(94, 6))
    both = _run_of(95, 5)
    unnamed = _run_of(0, 30, named=False)
    assert not report.passes(Run(both.outcomes + unnamed.outcomes, both.sound))
    assert report.passes(Run(both.outcomes + unnamed.outcomes, both.sound), False)
    assert not report.passes(_run_of(10, 0, stands=False))
    assert not report.passes(_run_of(0, 0))  # nothing planted is nothing shown
    broken = [replace(o, broken="x") for o in _run_of(0, 1).outcomes]
    assert not report.passes(Run(both.outcomes + tuple(broken), both.sound))
    assert math.isnan(report.rates(_run_of(0, 0))[0])


def test_names_are_those_covered_and_those_given() -> None:
    registry.load()
    claims = registry.ordered(registry.REGISTRY.values())
    covered = named_by(PlantedError("algos.online.duals.update_duals", "sign", "a", "b"), claims)
    wanted = [c.id for c in claims if any(n.endswith("duals.update_duals") for n in c.covers)]
    assert list(covered) == wanted != []
    given = named_by(PlantedError("algos.online.duals._x", "sign", "a", "b", ("M1", "S1")), claims)
    assert given == ("S1", "M1")
    method = PlantedError("algos.online.step_sizes.theorem_steps.inner", "sign", "a", "b")
    assert named_by(method, claims) == named_by(ERRORS["seen"], claims) != ()
    assert named_by(PlantedError(STEP + "_of", "sign", "a", "b"), claims) == ()


def test_what_a_check_enters_is_traced() -> None:
    from tests.proofs import sample_claims

    worst, names = worker.entered(sample_claims.stride)
    assert worst == 0.0
    assert {"algos.scores.statistics.strided_ids", "algos.scores.statistics.median"} <= set(names)


# The command ------------------------------------------------------------------------------------


def _command(*arguments: str) -> int:
    parser = argparse.ArgumentParser(prog="dualclust")
    proofs.register(parser.add_subparsers(dest="command"))
    return proofs.run_proofs(parser.parse_args(["proofs", "--planted", *arguments]))


def test_the_command_prints_rates_and_returns_the_verdict(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(planting, "tables", lambda: (ERRORS["seen"],))
    asked: dict[str, Any] = {}

    def fake(errors: Any, jobs: int, *, progress: Any, ids: Any, slow: bool) -> Run:
        asked.update(errors=errors, jobs=jobs, ids=ids, slow=slow)
        found = _run_of(1, 0)
        progress(found.outcomes[0])
        return found

    monkeypatch.setattr(runs, "run_planted", fake)
    assert _command("--id", "C1", "--jobs", "2") == 0
    assert asked == {"errors": (ERRORS["seen"],), "jobs": 2, "ids": ["C1"], "slow": False}
    told = capsys.readouterr()
    assert "the claims that name them notice 100.0 %" in told.out
    assert told.err == f"1 {STEP} (factor): C1\n"
    monkeypatch.setattr(runs, "run_planted", lambda *_, **__: _run_of(0, 1))
    assert _command("--json") == 1
    assert json.loads(capsys.readouterr().out)["rate_named"] == 0.0


def test_the_command_refuses_what_makes_no_sense(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--jobs must be at least 1, got 0"):
        _command("--jobs", "0")
    with pytest.raises(UsageError, match="--plot draws nothing"):
        _command("--plot", str(tmp_path))
    with pytest.raises(UsageError, match="'Q1'"):
        _command("--id", "Q1")
    assert planted.__all__ == ["run"]
    assert runs.LIMIT >= 60
