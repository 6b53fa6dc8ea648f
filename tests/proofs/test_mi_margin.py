"""The parts of which the checks of the MI + margin supplement are made, and printed numbers."""

from __future__ import annotations

import numpy as np
import pytest

from dualclust.algos.pseudo_labels import energy
from dualclust.proofs.mi_margin import baselines, label_energy, labels, objective
from dualclust.proofs.registry.claims import REGISTRY, load

load()


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
