"""Every claim of every paper: its verdict, and a check that stands, repeats and can fail.

Errors in the library that the checks must notice are in `dualclust.proofs.planted.tables`; those in
a check's own parts, of claims that have no counterpart in the library, in `wrong_parts`.
"""

from __future__ import annotations

import math
from importlib import import_module
from typing import Any

import pytest

from dualclust.proofs.planted import planting
from dualclust.proofs.planted.runs import named_by
from dualclust.proofs.registry import claims
from dualclust.proofs.registry.claims import ABOUT, REGISTRY, Claim, Status
from tests.proofs.planted import assert_noticed, original
from tests.proofs.wrong_parts import WRONG_PARTS

claims.load()
CLAIMS = claims.ordered(REGISTRY.values())
ERRORS = planting.tables()

# SeCu's supplement (S), the MI + margin supplement (M), ProPos (P), CoKe (C), GATCluster (G), and
# our own theorem (R) with its tests (T),
# and what we state of groups and pairs of rows (L).
VERDICTS = {
    (Status.HOLDS, "library"): """
        S1 S3b S4 S7 M5 P2 P8 P10 P12 P14 P20 P21 P28
        C3 C5 C6 C7 C8 C10 C18 C20 C22 C23 C24 C27 C37 G5 G7 G13 G19
        L1 L2 L3 L4 R1 R2 R3 R4 R5 R6 R9 T1 T2 T3 T4 T5 T6 T7
    """,
    (Status.HOLDS, "paper"): "M8 C1",
    (Status.EXTRA, "library"): """
        S3a S5 M1 M2 M3 M6 P1 P4 P6 P18 C2 C4 C9 C12 C14 C16 C17 C19 C30 G1 G3 G12
    """,
    (Status.EXTRA, "paper"): "S2 P15",
    (Status.REFUTED, "library"): """
        S3c S3d S8 M4 P7 P9 P11 P16 P17 P19 C11 C13 C15 C21 G2 G6 G10 R7
    """,
    (Status.REFUTED, "print"): "P22",
    (Status.NOT_ESTABLISHED, "print"): "G17",
    (Status.ERRATUM, "library"): "S3e S6 S9 P3 P5 P13 G4 G8 G9 G11",
    (Status.ERRATUM, "print"): "P23 P26 C25 C26 G14 G15 G18",
    (Status.EMPIRICAL, "library"): "S11 S12 S13 M7 M9 M10 P25 P29",
    (Status.EMPIRICAL, "paper"): "G16",
    (Status.EMPIRICAL, "print"): "S10 P24 P27 C28 C29 C31 C32 C33 C34 C35 C36",
    (Status.OPEN, "library"): "R8",
}
ROWS = [(claim_id, verdict) for verdict, ids in VERDICTS.items() for claim_id in ids.split()]

each_claim = pytest.mark.parametrize("claim", CLAIMS, ids=lambda c: c.id)
each_check = pytest.mark.parametrize(
    "claim",
    [pytest.param(c, marks=[pytest.mark.slow] if c.slow else [], id=c.id) for c in CLAIMS],
)


def test_the_table_has_every_claim_once() -> None:
    assert sorted(claim_id for claim_id, _ in ROWS) == sorted(REGISTRY)


def test_no_row_of_a_paper_is_missing() -> None:
    rows = {"M": range(1, 11), "P": range(1, 30), "C": range(1, 38), "G": range(1, 20)}
    wanted = {f"{letter}{n}" for letter, numbers in rows.items() for n in numbers}
    wanted |= {f"S{n}" for n in range(1, 14) if n != 3} | {f"S3{c}" for c in "abcde"}
    assert {c.id for c in CLAIMS if c.paper != "dualclust"} == wanted


@each_claim
def test_the_verdict(claim: Claim) -> None:
    assert dict(ROWS)[claim.id] == (claim.status, claim.about)


@each_claim
def test_a_claim_is_fully_stated(claim: Claim) -> None:
    assert claim.place
    assert claim.statement
    assert claim.hypotheses
    assert len(claim.derivation) > 30
    assert bool(claim.counterexample) or claim.status is not Status.REFUTED
    assert 0.0 <= claim.tolerance < math.inf


# Checks ------------------------------------------------------------------------------------------


@each_check
def test_a_check_stands(claim: Claim) -> None:
    [result] = claims.run([claim.id])
    assert result.stands, f"{claim.id}: worst {result.worst:g} {result.error}"


@pytest.mark.parametrize(
    "claim",
    [
        pytest.param(
            claim, id=claim.id, marks=[pytest.mark.slow] if number % 8 or claim.slow else []
        )
        for number, claim in enumerate(CLAIMS)
    ],
)
def test_a_check_repeats(claim: Claim) -> None:
    """The same to the bit; an eighth of the checks in each run of the suite."""
    assert claim.check() == claim.check()


def test_every_registered_claim_is_run() -> None:
    [mark] = [
        m
        for m in test_a_check_stands.pytestmark  # type: ignore[attr-defined]
        if m.name == "parametrize"
    ]
    assert {parameter.values[0].id for parameter in mark.args[1]} == set(REGISTRY)


@pytest.mark.parametrize(
    ("claim_id", "target", "change"),
    WRONG_PARTS,
    ids=[f"{claim_id}-{target.rpartition('.')[2]}" for claim_id, target, _ in WRONG_PARTS],
)
def test_a_planted_error_is_noticed(
    monkeypatch: pytest.MonkeyPatch, claim_id: str, target: str, change: Any
) -> None:
    assert_noticed(claim_id, monkeypatch, target, change(original(target)))


@pytest.mark.parametrize("claim", [c for c in CLAIMS if c.mutations], ids=lambda c: c.id)
def test_every_mutation_of_a_check_is_planted(claim: Claim) -> None:
    planted = {target for claim_id, target, _ in WRONG_PARTS if claim_id == claim.id}
    assert planted == set(claim.mutations)
    assert claim.about != "library"


# The library -------------------------------------------------------------------------------------


@each_claim
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


def test_what_only_adds_up_is_not_said_of_the_library() -> None:
    for claim in CLAIMS:
        assert claim.about in ABOUT
        if claim.about == "print":
            assert not claim.covers, f"{claim.id} looks at no function of the library"
