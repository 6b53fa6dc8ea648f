"""The parts of which the checks of Theorem R and its tests are made."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dualclust.algos import bounds
from dualclust.algos.online import assignment, duals, step_sizes
from dualclust.proofs.references import online_runs
from dualclust.proofs.registry.claims import REGISTRY, load
from dualclust.proofs.theorem_r import regret, runs

load()


def test_every_statement_covers_a_function():
    assert all(c.covers for c in REGISTRY.values() if c.paper == "dualclust")


def test_the_rule_written_out_closes_clusters_by_hand():
    scores = np.asarray([[2.0, 0.0, 0.0]] * 6)
    limits = bounds.SizeBounds.from_counts([1, 1, 2], [3, 6, 6], n_samples=6)
    labels, prices = online_runs.enforced_labels(scores, limits, step_size=0.25, chunk_size=6)
    assert labels.tolist() == [0, 0, 0, 1, 2, 2]  # the cap, then a tie, then completion
    assert prices.lower.tolist() == [0.0, 0.0, 0.0]
    warm = duals.Duals(np.asarray([0.0, 0.0, 3.0]), np.zeros(3))
    labels, _ = online_runs.enforced_labels(
        scores, limits, step_size=0.25, chunk_size=6, start=warm
    )
    assert labels.tolist() == [2, 2, 2, 2, 0, 1]


def test_the_rule_written_out_is_that_of_assign_on_a_stream():
    scores = online_runs.dyadic_scores(np.random.default_rng(0), (40, 3))
    limits = bounds.SizeBounds.for_stream(3, lower=[0.75, 0.75, 0.375], upper=1.5)
    rule = step_sizes.StepRule(0.125, 4)
    told, last = online_runs.enforced_labels(scores, limits, step_size=0.125, chunk_size=4)
    labels, state = assignment.assign(scores, limits, steps=rule)
    assert labels.tolist() == told.tolist()
    assert np.asarray(state.duals).tolist() == np.asarray(last).tolist()


def test_the_bounds_of_the_theorem_by_hand():
    assert regret.sum_of_prices(3, 2.0, 0.5) == 5.5
    assert regret.largest_price(3, 2.0, 0.5) == 2.5 * 1.5 + 0.5
    assert regret.largest_price(2, 1.0, 0.25) == regret.sum_of_prices(2, 1.0, 0.25)
    assert regret.largest_price_two_sided(2, 1.0, 0.25) == 2.0
    for n in (2, 10, 1000):
        term = regret.permutation_term(n) / math.sqrt(n)
        assert term <= math.pi / 2.0
    assert term > 1.4


@pytest.mark.parametrize("k", [2, 3, 5, 9])
def test_the_recursions_of_the_proofs_give_the_bounds(k):
    reach, eta = 1.25, 0.125
    most = (k - 1) * reach + k * eta  # B_K of R3
    for m in range(k - 1, 0, -1):
        most = m / (m + 1) * (most + reach) + eta
        assert most >= (m - 1) * reach + m * eta  # the clipped case is never larger
    assert most == pytest.approx(regret.largest_price(k, reach, eta))
    record = reach + 4.0 * eta  # L_2 of R4
    for m in range(2, k):
        record = reach + (record + eta) * (m + 2) / m
    assert record == pytest.approx(regret.largest_price_two_sided(k, reach, eta))
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

    assert 1.0e-6 < norm.sf(runs.ALARM) < 1.1e-6


def test_the_slope_of_a_power_is_its_exponent(rng):
    sizes = [2**j for j in range(8, 14)]
    samples = [n**0.5 * (1.0 + 0.2 * rng.random(48)) for n in sizes]
    slope, error = runs.log_slope(sizes, samples)
    assert abs(slope - 0.5) < 4.0 * error < 0.03
