"""Averaged prices: what is averaged, how near the optimum they come, and when they are in doubt."""

import math

import numpy as np
import pytest

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.offline import _online_prices
from dualclust.algos.offline._candidates import TrustRegion
from dualclust.algos.offline._online_prices import (
    EPOCH,
    FARTHEST,
    LEARNING_FLOOR,
    LOSS,
    PARTS,
    RESTLESS,
    AveragedPrices,
    averaged_prices,
    averaged_region,
    parts_of_pass,
)
from dualclust.algos.online.assignment import assign, init_state, relaxed
from dualclust.algos.online.duals import Duals
from dualclust.algos.online.step_sizes import measured_steps
from dualclust.algos.scores.blocks import block_rows, row_blocks
from dualclust.algos.scores.sources import score_source
from dualclust.algos.scores.statistics import score_range
from tests.problems import cone_features, unit_rows

K, M = 20, 8192


def problem(seed, n=M):
    """Scores of a mixture whose clusters differ in size, and bounds that cost something."""
    x = cone_features(n, seed, d=16)
    centers = unit_rows(np.random.default_rng(seed).normal(size=(K, 16)) + x.mean(axis=0))
    return x @ centers.T, SizeBounds.from_ratios(K, n_samples=n, lower=0.9, upper=1.1)


@pytest.mark.parametrize(("m", "first", "last"), [(M, 8, 16), (100, 7, 14)])
def test_averages_are_those_of_the_prices_in_the_second_half(m, first, last):
    """From far off, by the online pass itself, part after part; a short last part is left out."""
    scores, bounds = problem(5, m)
    start, parts = np.linspace(-1.0, 1.0, K), parts_of_pass(m, K, like=np.zeros(1))
    free = relaxed(bounds)._replace(upper=np.full(K, m), n_samples=m)
    duals = Duals(np.maximum(start, 0.0), np.maximum(-start, 0.0))
    state = init_state(free)._replace(duals=duals)
    scale = score_range(scores[: parts[0][1]])
    steps = measured_steps(free, epoch=EPOCH, kappa_floor=LEARNING_FLOOR, scale=scale)
    walk = []
    for a, b in parts:
        _, state = assign(scores[a:b], free, state, steps=steps)
        walk.append(state.duals.lower - state.duals.upper)
    late, found = walk[first:last], averaged_prices(score_source(scores), bounds, start)
    np.testing.assert_allclose(found.prices, np.mean(late, axis=0), rtol=1e-12)
    change = np.mean(late[-4:], axis=0) - np.mean(late[:4], axis=0)
    np.testing.assert_allclose(found.change, change, rtol=1e-9, atol=1e-14)
    assert np.abs(change).max() > 1e-4


def test_parts_are_a_sixteenth_of_the_rows_or_a_block():
    like = np.zeros(1)
    for m, k in ((M, K), (100_000, 10), (1000, 10**6), (17, 3)):
        rows = min(math.ceil(m / PARTS), block_rows(k))
        assert parts_of_pass(m, k, like=like) == list(row_blocks(m, rows))
    assert parts_of_pass(0, 3, like=like) == []


def test_a_forbidden_pair_costs_its_cluster():
    scores, bounds = problem(2)
    free = averaged_prices(score_source(scores), bounds, np.zeros(K)).prices
    j = int(np.argmax(free))  # of the cluster that fewest rows want
    scores[np.argsort(scores[:, j])[M // 20 :], j] = -math.inf  # and now nearly none may
    found = averaged_prices(score_source(scores), bounds, np.zeros(K)).prices
    assert np.all(np.isfinite(found))
    assert found[j] > free[j] + 0.05


CENTER, RADIUS = np.asarray([[0.5, -0.25, 0.0, 1.0, 0.0], [0.25, 0.5, 1.0, 2.0, 1.0]])


def region_of(monkeypatch, prices, change):
    """The region of given averages of 400 of 1,000 rows, from that of 100 rows."""
    averages = AveragedPrices(np.asarray(prices), np.asarray(change))
    monkeypatch.setattr(_online_prices, "averaged_prices", lambda *_: averages)
    sample = score_source(np.random.default_rng(0).normal(size=(400, 5)))
    bounds = SizeBounds.from_ratios(5, n_samples=1000)
    return averaged_region(sample, bounds, TrustRegion(CENTER, RADIUS), 100)


FALL = math.sqrt((1 / 400 - 1 / 1000) / (1 / 100 - 1 / 1000))


def test_the_radius_falls_as_the_error_of_counts(monkeypatch):
    prices = CENTER + 0.5 * RADIUS
    found = region_of(monkeypatch, prices, np.zeros(5))
    np.testing.assert_array_equal(found.center, prices)
    np.testing.assert_allclose(found.radius, LOSS * FALL * RADIUS, rtol=1e-12)


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("k", range(5))
def test_prices_that_went_far_are_in_doubt(k, sign, monkeypatch):
    for part, is_known in ((0.99 * FARTHEST, True), (1.01 * FARTHEST, False)):
        prices = CENTER + sign * part * RADIUS * (np.arange(5) == k)
        assert (region_of(monkeypatch, prices, np.zeros(5)) is not None) is is_known


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_prices_that_have_not_arrived_are_in_doubt(sign, monkeypatch):
    new = LOSS * FALL * RADIUS
    for part, is_known in ((0.99 * RESTLESS, True), (1.01 * RESTLESS, False)):
        alone = math.sqrt(5.0) * new * (np.arange(5) == 1)  # the mean of the squares counts
        for change in (new, alone):
            found = region_of(monkeypatch, CENTER, sign * part * change)
            assert (found is not None) is is_known
