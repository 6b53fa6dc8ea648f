"""The register: complete, every claim run, and able to say that one does not stand."""

from __future__ import annotations

import math
import types
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from dualclust.algos.core.errors import InvalidValueError
from dualclust.proofs.planted import planting
from dualclust.proofs.planted.runs import named_by
from dualclust.proofs.registry import claims
from dualclust.proofs.registry.claims import ABOUT, REGISTRY, Claim, Status
from tests.proofs.planted import original

claims.load()
CLAIMS = claims.ordered(REGISTRY.values())
ERRORS = planting.tables()
TABLE_OF = {
    "SeCu supplement": "secu",
    "MI + margin supplement": "mi_margin",
    "ProPos": "propos",
    "CoKe": "coke",
    "GATCluster": "gatcluster",
    "dualclust": "theorem",
}


@pytest.mark.parametrize(
    "claim_id",
    [pytest.param(c.id, marks=[pytest.mark.slow] if c.slow else []) for c in CLAIMS],
)
def test_a_claim_stands(claim_id: str) -> None:
    [result] = claims.run([claim_id])
    assert result.stands, f"{claim_id}: worst {result.worst:g} {result.error}"


def test_every_registered_claim_is_run() -> None:
    [mark] = [m for m in test_a_claim_stands.pytestmark if m.name == "parametrize"]  # type: ignore[attr-defined]
    assert [parameter.values[0] for parameter in mark.args[1]] == [c.id for c in CLAIMS]
    assert set(REGISTRY) == {c.id for c in CLAIMS}


def test_no_row_of_a_paper_is_missing() -> None:
    rows = {"M": range(1, 11), "P": range(1, 30), "C": range(1, 38), "G": range(1, 20)}
    wanted = {f"{letter}{n}" for letter, numbers in rows.items() for n in numbers}
    wanted |= {f"S{n}" for n in range(1, 14) if n != 3} | {f"S3{c}" for c in "abcde"}
    assert {c.id for c in CLAIMS if c.paper != "dualclust"} == wanted


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda c: c.id)
def test_a_claim_is_fully_stated(claim: Claim) -> None:
    assert claim.place
    assert claim.statement
    assert claim.hypotheses
    assert len(claim.derivation) > 30
    assert bool(claim.counterexample) or claim.status is not Status.REFUTED
    assert 0.0 <= claim.tolerance < math.inf


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda c: c.id)
def test_what_a_claim_covers_is_public(claim: Claim) -> None:
    for name in claim.covers:
        module, _, function = name.removeprefix("dualclust.algos.").rpartition(".")
        if module.rpartition(".")[2][:1].isupper():  # a class method
            module, _, function = module.rpartition(".")
        assert function in import_module(f"dualclust.algos.{module}").__all__, name


@pytest.mark.parametrize("claim", [c for c in CLAIMS if c.about == "library"], ids=lambda c: c.id)
def test_every_claim_about_the_library_has_two_kinds_of_planted_errors(claim: Claim) -> None:
    kinds = {e.kind for e in ERRORS if claim.id in named_by(e, [claim])}
    assert len(kinds) >= 2, f"{claim.id} has errors of the kinds {sorted(kinds)} only"


@pytest.mark.parametrize("claim", [c for c in CLAIMS if c.mutations], ids=lambda c: c.id)
def test_every_mutation_of_a_check_is_planted_in_a_test(claim: Claim) -> None:
    for target in claim.mutations:
        original(target)  # it exists
    tests = [
        path.read_text(encoding="utf-8")
        for path in Path(__file__).parent.glob("test_*.py")
        if path.name != Path(__file__).name
    ]
    assert any(f'"{claim.id}"' in text for text in tests), f"no test plants an error in {claim.id}"


def test_what_only_adds_up_is_not_said_of_the_library() -> None:
    for claim in CLAIMS:
        assert claim.about in ABOUT
        if claim.about == "print":
            assert not claim.covers, f"{claim.id} looks at no function of the library"


# The machinery ---------------------------------------------------------------------------------


@pytest.fixture
def empty(monkeypatch: pytest.MonkeyPatch) -> None:
    """A register without claims, for the test alone."""
    monkeypatch.setattr(claims, "REGISTRY", {})
    monkeypatch.setattr(claims, "MODULES", ())


def _add(claim_id: str, check: Any, paper: str = "CoKe", **options: Any) -> None:
    claims.claim(
        id=claim_id,
        paper=paper,
        place="Eq. 1",
        statement="\n    Two\n      lines.\n    ",
        hypotheses="none",
        status=Status.HOLDS,
        derivation="none",
        **options,
    )(check)


@pytest.mark.usefixtures("empty")
def test_results_come_in_order_and_one_by_one() -> None:
    for claim_id in ("C10", "C2", "C3b", "C3a"):
        _add(claim_id, lambda: 0.0)
    _add("S1", lambda: 0.0, "SeCu supplement")
    seen: list[str] = []
    results = claims.run(progress=lambda r: seen.append(r.claim.id))
    assert seen == ["S1", "C2", "C3a", "C3b", "C10"]
    assert [r.claim.id for r in results] == seen
    assert claims.REGISTRY["C2"].statement == "Two\n  lines."


@pytest.mark.usefixtures("empty")
@pytest.mark.parametrize(
    ("worst", "tolerance", "stands"),
    [(0.0, 0.0, True), (0.1, 0.1, True), (0.2, 0.1, False), (math.nan, 1.0, False)],
)
def test_a_verdict_stands_up_to_its_tolerance(worst: float, tolerance: float, stands: bool) -> None:
    _add("C1", lambda: worst, tolerance=tolerance)
    [result] = claims.run()
    assert result.stands is stands


@pytest.mark.usefixtures("empty")
def test_a_check_that_raises_does_not_stand() -> None:
    def check() -> float:
        msg = "no such thing"
        raise ValueError(msg)

    _add("C1", check, tolerance=1e300)
    [result] = claims.run()
    assert not result.stands
    assert result.worst == math.inf
    assert result.error == "ValueError: no such thing"


@pytest.mark.usefixtures("empty")
def test_slow_claims_wait_to_be_asked_for() -> None:
    _add("C1", lambda: 0.0, slow=True)
    _add("C2", lambda: 0.0)
    assert [r.claim.id for r in claims.run()] == ["C2"]
    assert [r.claim.id for r in claims.run(slow=True)] == ["C1", "C2"]
    assert [r.claim.id for r in claims.run(["C1", "C1"])] == ["C1"]


@pytest.mark.usefixtures("empty")
def test_an_id_is_given_once() -> None:
    _add("C1", lambda: 0.0)
    with pytest.raises(InvalidValueError, match="'C1' twice"):
        _add("C1", lambda: 0.0)
    with pytest.raises(InvalidValueError, match="'c1'"):
        _add("c1", lambda: 0.0)
    with pytest.raises(InvalidValueError, match="about must be one of library, paper, print"):
        _add("C2", lambda: 0.0, about="nothing")
    with pytest.raises(InvalidValueError, match="paper must be one of"):
        _add("C2", lambda: 0.0, "Nature")
    with pytest.raises(InvalidValueError, match=r"no claim has the id 'C9'.*one of C1"):
        claims.run(["C9"])


def test_loading_again_changes_nothing() -> None:
    before = dict(REGISTRY)
    claims.load()
    assert before == REGISTRY
    assert all(isinstance(c.check, types.FunctionType) for c in CLAIMS)
