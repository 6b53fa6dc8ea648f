"""The theorem's checks pass, and each notices errors planted in the library and in its formulas."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dualclust.algos import certificates
from dualclust.proofs import online_runs, price_steps, theorem, theorem_tests
from dualclust.proofs.registry import REGISTRY, load
from tests.proofs import errors
from tests.proofs.errors import ASSIGN_BATCH, PROJECT, UPDATE_DUALS
from tests.proofs.planted import assert_noticed

load()
IDS = sorted(i for i, c in REGISTRY.items() if c.check.__module__.startswith("dualclust.proofs.th"))
DUAL_VALUE, TOLD = certificates.dual_value, certificates.size_certificate
THEOREM, STEPS = "dualclust.proofs.theorem.", "dualclust.proofs.price_steps."
SUMS, MOVED = price_steps.sums_of_largest, price_steps._moved


def too_tight(state, limits):
    told = TOLD(state, limits)
    return told._replace(at_least=told.at_least + 40.0)


def capped(price, change):
    """CoKe's projection for one cluster, tau = 1."""
    import z3

    return z3.If(MOVED(price, change) > 1, 1, MOVED(price, change))


PLANTED = [
    ("R1", UPDATE_DUALS, errors.half_step),
    ("R1", UPDATE_DUALS, errors.wrong_sign),
    ("R1", ASSIGN_BATCH, errors.frozen),
    ("R1", STEPS + "_moved", capped),
    ("R2", UPDATE_DUALS, errors.rising),
    ("R2", THEOREM + "sum_of_prices", lambda k, reach, eta: (k - 2) * reach + k * eta),
    ("R3", ASSIGN_BATCH, errors.greedy),
    ("R3", THEOREM + "largest_price", lambda k, reach, eta: reach + 2.0 * eta),
    ("R3", STEPS + "sums_of_largest", lambda k, reach: [b - 1 for b in SUMS(k, reach)]),
    ("R4", ASSIGN_BATCH, errors.greedy),
    ("R4", UPDATE_DUALS, errors.rising),
    ("R4", THEOREM + "largest_price_two_sided", lambda k, reach, eta: 0.25 * reach),
    ("R5", ASSIGN_BATCH, errors.least_wanted),
    ("R5", THEOREM + "permutation_term", lambda n: 0.0),
    ("R6", "dualclust.algos.certificates.dual_value", lambda *a: DUAL_VALUE(*a) - 1 / 16),
    ("R7", UPDATE_DUALS, errors.half_step),
    ("R7", THEOREM + "sum_of_prices", lambda k, reach, eta: k * reach),
    ("R8", UPDATE_DUALS, errors.rising),
    ("T1", ASSIGN_BATCH, errors.least_wanted),
    ("T2", "dualclust.algos.certificates.size_certificate", too_tight),
    ("T3", ASSIGN_BATCH, errors.least_wanted),
    ("T3", ASSIGN_BATCH, errors.greedy),
    ("T4", ASSIGN_BATCH, errors.greedy),
    ("T5", ASSIGN_BATCH, errors.greedy),
    ("T6", PROJECT, errors.only_clipped),
    ("T7", ASSIGN_BATCH, errors.frozen),
]


@pytest.mark.parametrize("claim_id", IDS)
def test_the_claim_stands(claim_id):
    claim = REGISTRY[claim_id]
    assert claim.check() <= claim.tolerance


@pytest.mark.parametrize("claim_id", ["R1", "R5", "R6", "T1", "T7"])
def test_the_check_is_deterministic(claim_id):
    assert REGISTRY[claim_id].check() == REGISTRY[claim_id].check()


@pytest.mark.parametrize(("claim_id", "target", "replacement"), PLANTED)
def test_a_planted_error_is_noticed(claim_id, target, replacement, monkeypatch):
    assert_noticed(claim_id, monkeypatch, target, replacement)


def test_every_listed_mutation_is_planted():
    listed = {(i, target) for i in IDS for target in REGISTRY[i].mutations}
    assert listed == {(i, target) for i, target, _ in PLANTED}


def test_the_bounds_of_the_theorem_by_hand():
    assert theorem.sum_of_prices(3, 2.0, 0.5) == 5.5
    assert theorem.largest_price(3, 2.0, 0.5) == 2.5 * 1.5 + 0.5
    assert theorem.largest_price(2, 1.0, 0.25) == theorem.sum_of_prices(2, 1.0, 0.25)
    assert theorem.largest_price_two_sided(2, 1.0, 0.25) == 2.0
    for n in (2, 10, 1000):
        term = theorem.permutation_term(n) / math.sqrt(n)
        assert term <= math.pi / 2.0
    assert term > 1.4


@pytest.mark.parametrize("k", [2, 3, 5, 9])
def test_the_recursions_of_the_proofs_give_the_bounds(k):
    reach, eta = 1.25, 0.125
    most = (k - 1) * reach + k * eta  # B_K of R3
    for m in range(k - 1, 0, -1):
        most = m / (m + 1) * (most + reach) + eta
        assert most >= (m - 1) * reach + m * eta  # the clipped case is never larger
    assert most == pytest.approx(theorem.largest_price(k, reach, eta))
    record = reach + 4.0 * eta  # L_2 of R4
    for m in range(2, k):
        record = reach + (record + eta) * (m + 2) / m
    assert record == pytest.approx(theorem.largest_price_two_sided(k, reach, eta))
    assert record >= (k - 1) * reach + 2 * k * eta - 1e-12


def test_steered_scores_are_labeled_as_wished():
    share, asked = np.asarray([0.5, 0.25, 0.25]), []

    def wish(prices, wins):
        asked.append(wins[len(asked) % len(wins)])
        return asked[-1]

    rows = online_runs.steered_scores(wish, 200, share, np.ones(3), step_size=1 / 32)
    run = online_runs.run_online(rows, share, step_size=1 / 32)
    assert run.labels[0].tolist() == asked
    assert len(set(asked)) == 3


def test_the_alarm_is_one_in_a_million():
    from scipy.stats import norm

    assert 1.0e-6 < norm.sf(theorem_tests.ALARM) < 1.1e-6


def test_the_slope_of_a_power_is_its_exponent(rng):
    sizes = [2**j for j in range(8, 14)]
    samples = [n**0.5 * (1.0 + 0.2 * rng.random(48)) for n in sizes]
    slope, error = theorem_tests.log_slope(sizes, samples)
    assert abs(slope - 0.5) < 4.0 * error < 0.03
