"""The register itself: what it refuses, in which order it runs, when a claim stands."""

from __future__ import annotations

import math
import types
from typing import Any

import pytest

from dualclust.algos.core.errors import InvalidValueError
from dualclust.proofs.registry import claims
from dualclust.proofs.registry.claims import REGISTRY, Status

claims.load()


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
    assert all(isinstance(c.check, types.FunctionType) for c in REGISTRY.values())
