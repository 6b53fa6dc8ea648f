"""The parts of which the checks of SeCu's claims are made, and numbers of its supplement."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from dualclust.algos.clustering import hardness_weighted
from dualclust.algos.losses import secu as losses
from dualclust.proofs.secu import centers as secu_centers
from dualclust.proofs.secu import losses as secu_losses
from dualclust.proofs.secu import supplement


def test_the_stop_gradient_is_seen_without_automatic_differentiation() -> None:
    rng = np.random.default_rng(0)
    x, centers = secu_losses.unit_rows(rng, 12, 3), secu_losses.unit_rows(rng, 4, 3)
    labels, lam = rng.integers(0, 4, 12), 0.5
    frozen = secu_losses._frozen_difference(x, centers, labels, lam)
    live = np.zeros_like(frozen)
    for j, i in np.ndindex(4, 3):
        moved = centers.copy()
        moved[j, i] += 1e-6
        both = [
            losses.center_loss(x @ w.T, x @ w.T, labels, temperature=lam).sum()
            for w in (moved, centers)
        ]
        live[j, i] = (both[0] - both[1]) / 1e-6
    assert np.abs(frozen - secu_losses._pulls(x, centers, labels, lam)).max() < 1e-7
    assert np.abs(frozen - live).max() > 0.1  # what a forgotten stop-gradient would be


def test_a_rule_for_whole_bounds_has_a_size_on_either_side() -> None:
    exact = Fraction(27, 4)
    inward = [supplement._rounded(n, exact, "inward", up=True) for n in (6, 7, 8)]
    outward = [supplement._rounded(n, exact, "outward", up=True) for n in (5, 6, 7)]
    nearest = [supplement._rounded(n, exact, "nearest", up=True) for n in (6, 7, 8)]
    assert inward == outward == nearest == [False, True, False]
    assert supplement._rounded(6, exact, "inward", up=False)


def test_the_printed_variance_is_off_by_this_at_the_simplex() -> None:
    a2, k = Fraction(16, 25), 10
    printed = supplement._ratio_of_variances(k, a2) * (1 - a2)
    assert float(1 - printed) == pytest.approx(0.0711, abs=1e-4)
    assert float(a2 / (k - 1) ** 2) == pytest.approx(0.0079, abs=1e-4)


def test_the_printed_step_of_gradient_descent_cycles() -> None:
    half = math.radians(40.0)
    x = np.asarray([[math.cos(half), math.sin(half)], [math.cos(half), -math.sin(half)]])
    turn = math.radians(1.0)
    centers = np.asarray([[math.cos(turn), math.sin(turn)], [-1.0, 0.0]])
    assert secu_centers._iterate(x, centers, 0.05, 1.0) > 1.0
    labels = np.zeros(2, dtype=np.int64)
    q = hardness_weighted.hardness(
        x, labels, np.asarray([[1.0, 0.0], [-1.0, 0.0]]), temperature=0.05
    )
    assert secu_centers._kappa(x, q, np.asarray([1.0, 0.0]), 0.05) == pytest.approx(10.79, abs=0.01)
