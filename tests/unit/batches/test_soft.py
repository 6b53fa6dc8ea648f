"""Soft labels inside bounds on every array library: sizes, edges, and what does not count."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dualclust.algos.batches import balance_soft
from dualclust.algos.core.errors import InvalidTypeError, InvalidValueError
from tests.compare import to_numpy
from tests.libraries import Library


def instance(seed, n=40, k=5, *, skew=0.5):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, k)) * 0.3 + np.linspace(skew, 0.0, k)


def shares(low, high, k=5):
    return np.full(k, low / k), np.full(k, high / k)


@pytest.mark.parametrize(("low", "high"), [(1.0, 1.0), (0.8, 1.2), (0.0, 1.5), (0.7, 5.0)])
def test_columns_add_up_to_sizes_inside_bounds_and_rows_to_one(xp: Library, low, high):
    scores = instance(0)
    bounds = [xp.asarray(share) for share in shares(low, high)]
    found = balance_soft(xp.asarray(scores), *bounds, tol=1e-9, n_iter=20)
    plan, prices = to_numpy(found.plan), to_numpy(found.prices)
    sizes = plan.sum(axis=0) * 5 / 40
    np.testing.assert_allclose(plan.sum(axis=1), 1.0, atol=1e-12)
    assert (sizes > low - 1e-7).all()
    assert (sizes < high + 1e-7).all()
    assert float(found.residual) <= 1e-9
    # A price holds the bound of its sign, and there is none where no bound holds.
    np.testing.assert_allclose(sizes[prices > 1e-6], low, atol=1e-6)
    np.testing.assert_allclose(sizes[prices < -1e-6], high, atol=1e-6)
    expected = np.exp((scores + prices) / 0.02)
    np.testing.assert_allclose(plan, expected / expected.sum(axis=1)[:, None], atol=1e-9)


def test_a_fixed_number_of_steps_ends_where_so_many_single_ones_do():
    scores, bounds = instance(1), shares(0.9, 1.1)
    prices = None
    for _ in range(6):
        found = balance_soft(scores, *bounds, prices=prices, n_iter=1)
        prices = found.prices
    at_once = balance_soft(scores, *bounds, n_iter=6)
    assert at_once.n_iter == 6
    assert at_once.residual is None
    np.testing.assert_allclose(at_once.prices, prices, atol=1e-12)
    np.testing.assert_allclose(at_once.plan, found.plan, atol=1e-11)


def test_the_dual_value_never_rises():
    scores, (low, high) = instance(2), shares(0.6, 1.3)
    prices, before = None, math.inf
    for _ in range(30):
        prices = balance_soft(scores, low, high, prices=prices, n_iter=1).prices
        soft = np.log(np.exp((scores + prices) / 0.02).sum(axis=1)).sum() * 0.02
        bound = 40 * (high @ np.maximum(-prices, 0) - low @ np.maximum(prices, 0))
        assert soft + bound <= before + 1e-12
        before = soft + bound
    assert before < np.log(np.exp(scores / 0.02).sum(axis=1)).sum() * 0.02


def test_more_steps_leave_a_smaller_residual():
    scores, bounds = instance(3), shares(0.9, 1.1)
    found = [balance_soft(scores, *bounds, tol=1e-300, max_iter=m, n_iter=4) for m in (4, 40, 400)]
    residuals = [float(each.residual) for each in found]
    assert residuals[0] > 10 * residuals[1] > 100 * residuals[2]
    outside = found[0].plan.sum(axis=0) / 40 - bounds[1]
    assert np.maximum(outside, 0.0).sum() <= residuals[0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("epsilon", [1e-30, 1e-12, 1e-3, 1.0, 1e12, 1e30])
def test_no_temperature_overflows(epsilon, dtype):
    scores = instance(4).astype(dtype)
    found = balance_soft(scores, *shares(0.9, 1.1), epsilon=epsilon, n_iter=5)
    assert np.isfinite(found.plan).all()
    assert np.isfinite(found.prices).all()
    np.testing.assert_allclose(found.plan.sum(axis=1), 1.0, rtol=1e-5)
    again = balance_soft(scores, *shares(0.9, 1.1), epsilon=epsilon, prices=found.prices)
    assert np.isfinite(again.plan).all()


def test_scores_that_are_far_apart_are_finite():
    scores = np.where(np.eye(40, 5) > 0, 1e30, -1e30)
    found = balance_soft(scores, *shares(1.0, 1.0), epsilon=1.0, n_iter=10)
    assert np.isfinite(found.plan).all()
    assert np.isfinite(found.prices).all()


def test_rows_that_do_not_count_move_nothing(xp: Library):
    scores = instance(5)
    spoiled = np.concatenate([scores, np.ones((4, 5))])
    spoiled[40, 2], spoiled[41, 0], spoiled[42] = math.nan, math.inf, -math.inf
    weights = np.ones(44)
    weights[43] = 0.0
    bounds = [xp.asarray(share) for share in shares(0.9, 1.1)]
    clean = balance_soft(xp.asarray(scores), *bounds, n_iter=8)
    found = balance_soft(xp.asarray(spoiled), *bounds, weights=xp.asarray(weights), n_iter=8)
    plan = to_numpy(found.plan)
    np.testing.assert_allclose(to_numpy(found.prices), to_numpy(clean.prices), atol=1e-12)
    np.testing.assert_allclose(plan[:40], to_numpy(clean.plan), atol=1e-12)
    assert np.isnan(plan[40:43]).all()
    np.testing.assert_allclose(plan[43].sum(), 1.0)


def test_a_row_of_weight_two_is_two_rows():
    scores = instance(6, n=12)
    twice = np.concatenate([scores, scores[:3]])
    weights = np.where(np.arange(12) < 3, 2.0, 1.0)
    found = balance_soft(scores, *shares(0.9, 1.1), weights=weights, n_iter=10)
    wanted = balance_soft(twice, *shares(0.9, 1.1), n_iter=10)
    np.testing.assert_allclose(found.plan, wanted.plan[:12], atol=1e-12)
    small = balance_soft(scores, *shares(0.9, 1.1), weights=weights * 1e-6, n_iter=10)
    np.testing.assert_allclose(small.plan, found.plan, atol=1e-9)


@pytest.mark.parametrize("n", [0, 6])
def test_a_batch_without_rows_that_count_moves_no_price(xp: Library, n):
    prices = xp.asarray(np.linspace(-0.2, 0.3, 5))
    bounds = [xp.asarray(share) for share in shares(0.9, 1.1)]
    scores, weights = xp.asarray(np.zeros((n, 5))), xp.asarray(np.zeros(n))
    found = balance_soft(scores, *bounds, prices=prices, weights=weights)
    assert found.plan.shape == (n, 5)
    np.testing.assert_array_equal(to_numpy(found.prices), to_numpy(prices))


def test_forbidden_pairs_have_no_mass():
    scores = instance(7)
    scores[::2, 1] = -math.inf
    found = balance_soft(scores, *shares(0.8, 1.4), tol=1e-9, n_iter=20)
    assert (found.plan[::2, 1] == 0.0).all()
    assert found.plan[:, 1].sum() >= 0.8 * 8 - 1e-6


def test_a_warm_start_needs_fewer_steps():
    scores = instance(8, n=200)
    cold = balance_soft(scores, *shares(0.9, 1.1), tol=1e-6, n_iter=4)
    near = scores + 0.01 * np.random.default_rng(0).normal(size=scores.shape)
    warm = balance_soft(near, *shares(0.9, 1.1), prices=cold.prices, tol=1e-4, n_iter=4)
    anew = balance_soft(near, *shares(0.9, 1.1), tol=1e-4, n_iter=4)
    assert warm.n_iter < anew.n_iter


def test_arguments_that_do_not_fit_are_refused():
    scores, bounds = instance(9), shares(0.9, 1.1)
    with pytest.raises(InvalidValueError, match="epsilon must lie in"):
        balance_soft(scores, *bounds, epsilon=0.0)
    with pytest.raises(InvalidValueError, match="lower_share must have shape"):
        balance_soft(scores, bounds[0][:3], bounds[1])
    with pytest.raises(InvalidValueError, match="n_iter must be at least 1"):
        balance_soft(scores, *bounds, n_iter=0)
    with pytest.raises(InvalidValueError, match="max_iter must be at least 1"):
        balance_soft(scores, *bounds, tol=0.1, max_iter=0)
    with pytest.raises(InvalidValueError, match="tol must lie in"):
        balance_soft(scores, *bounds, tol=-1.0)
    with pytest.raises(InvalidValueError, match="at least one column"):
        balance_soft(scores[:, :0], bounds[0][:0], bounds[1][:0])
    with pytest.raises(InvalidTypeError, match="scores must have a real floating dtype"):
        balance_soft(scores.astype(int), *bounds)
