"""The claims of the MI + margin supplement: verdicts, and the numbers that they print.

Errors in the library that they must notice are in `dualclust.proofs.planted.tables.mi_margin`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dualclust.algos.pseudo_labels import energy
from dualclust.proofs.mi_margin import baselines, label_energy, labels, objective
from dualclust.proofs.registry.claims import REGISTRY, Status
from tests.proofs.planted import assert_noticed, original

LOSS = "dualclust.proofs.mi_margin.objective."
CLAIMS = [c for c in REGISTRY.values() if c.paper == objective.PAPER]
VERDICTS = {
    "M1": (Status.EXTRA, "library"),
    "M2": (Status.EXTRA, "library"),
    "M3": (Status.EXTRA, "library"),
    "M4": (Status.REFUTED, "library"),
    "M5": (Status.HOLDS, "library"),
    "M6": (Status.EXTRA, "library"),
    "M7": (Status.EMPIRICAL, "library"),
    "M8": (Status.HOLDS, "paper"),
    "M9": (Status.EMPIRICAL, "library"),
    "M10": (Status.EMPIRICAL, "library"),
}

# Of checks of the paper alone, errors in their own parts.
PLANTED = [
    ("M8", LOSS + "_side_after", lambda f: lambda n, k, s, p: -((k - n - 2 * p) // s) + 1),
    ("M8", LOSS + "_VGG4", lambda table: table | {"grey": (32, *table["grey"][1:])}),
]


def test_the_verdicts() -> None:
    assert {c.id: (c.status, c.about) for c in CLAIMS} == VERDICTS


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda c: c.id)
def test_a_check_stands_and_repeats(claim: Any) -> None:
    worst = claim.check()
    assert worst <= claim.tolerance
    assert claim.check() == worst


@pytest.mark.parametrize(("claim_id", "target", "change"), PLANTED)
def test_a_planted_error_is_noticed(
    monkeypatch: pytest.MonkeyPatch, claim_id: str, target: str, change: Any
) -> None:
    assert_noticed(claim_id, monkeypatch, target, change(original(target)))


def test_every_mutation_listed_is_planted() -> None:
    listed = {(c.id, target) for c in CLAIMS for target in c.mutations}
    assert listed == {(claim_id, target) for claim_id, target, _ in PLANTED}


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("ours", (47.20, 41.31, 26.76)),
        ("ours", (47.40, 41.13, 26.76)),
        ("IIC", (44.73, 36.6, 26.17)),
    ],
)
def test_another_table_has_other_ranks(
    monkeypatch: pytest.MonkeyPatch, name: str, row: tuple[float, ...]
) -> None:
    table = baselines._TABLE_2 | {name: row}
    monkeypatch.setattr(baselines, "_TABLE_2", table)
    assert REGISTRY["M9"].check() >= 1.0


def test_the_transcription_has_a_gap_of_zero_at_the_optimum() -> None:
    """y = b / (nu - p) and p = l / mean y: energy and dual agree."""
    w = label_energy.Weights(1.5, 2.0, np.asarray([0.5, 0.3, 0.2]))
    s = y = np.random.default_rng(0).dirichlet(np.ones(3), 6)
    for _ in range(3000):
        y = label_energy.printed_step(s, y, w.fairness_weight, len(s) / w.beta, w.prior)
    duals = label_energy.printed_duals(s, y, w)
    assert label_energy.energy(s, y, w) == pytest.approx(label_energy.dual_value(s, *duals, w))
    assert label_energy.residual(s, y, w) < 1e-12
    worse = np.full((6, 3), 1.0 / 3.0)
    assert label_energy.energy(s, worse, w) > label_energy.dual_value(s, *duals, w) + 1e-3
    assert label_energy.residual(s, worse, w) > 1e-2


def test_the_first_printed_step_keeps_a_zero_and_divides_by_one() -> None:
    half, step = np.full(2, 0.5), label_energy.printed_step
    y = step(labels._ZERO, labels._ZERO, 3.0, 3.0, half)
    assert (y[:2, 1] == 0.0).all()
    with np.errstate(invalid="ignore"):
        dead = labels._DEAD
        assert np.isnan(step(dead, dead, 3.0, 3.0, half)).any()


def test_the_numbers_printed_for_the_stuck_start() -> None:
    sigma = labels._ZERO
    stuck = np.asarray([[1.0, 0.0], [1.0, 0.0], [0.16, 0.84]])
    value = energy.pseudo_label_energy(sigma, stuck, fairness_weight=3.0)
    assert float(value) == pytest.approx(2.7920, abs=1e-4)


def test_the_widest_strip_separates_the_two_sides() -> None:
    direction, margin = objective._largest_margin()
    assert (objective._SIDE @ direction >= margin - 1e-9).all()
