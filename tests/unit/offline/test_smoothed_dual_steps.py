"""Newton's system of the smoothed dual against differences, and the errors of prices by hand."""

import numpy as np
import pytest

from dualclust.algos.core.random import random_signs
from dualclust.algos.offline._smoothed_dual import (
    RefinedPrices,
    SmoothedDual,
    _line_search,
    curvature,
    evaluate,
    linear_solver,
    refine_prices,
    soft_counts,
)
from dualclust.algos.offline._trust_region import price_errors
from tests.compare import to_numpy
from tests.libraries import LIBRARIES
from tests.unit.offline.test_smoothed_dual import problem

NUMPY, K, T = LIBRARIES[0], 4, 0.3


TREES = [None, np.asarray([[0, 0, 1, 0], [0, 0, 0, 1], [0, 0, 0, 1], [0, 0, 0, 0]], float)]
"""No sets of clusters; and 0 in the set 2, which is in the set 3 as 1 is."""


def made(rng, radius=2.0, tree=None):
    """Some samples have a fixed cluster; bounds differ from cluster to cluster."""
    lower, slack = np.asarray([[6.0, 2.0, 9.0, 7.0], [1.0, 9.0, 0.0, 4.0]])
    found = problem(NUMPY, rng.normal(size=(30, K)), lower, lower + slack, radius)
    return found._replace(fixed_counts=np.asarray([3.0, 0.0, 1.0, 2.0]), tree=tree)


def test_rows_inside_a_cluster_have_next_to_no_curvature():
    """One part of 2^13, where rows lie around a border evenly; counts and spread have all."""
    gaps = np.linspace(-30.0, 30.0, 6001)
    values = np.stack([np.zeros_like(gaps), gaps], axis=1)
    clusters = np.tile(np.asarray([0, 1], np.int32), (len(gaps), 1))
    _, counts, spread, *lists = soft_counts(values, clusters, np.zeros(2), temperature=1.0)
    assert counts.sum() == pytest.approx(6001.0)
    assert spread[0] == pytest.approx(100.0)  # rows of one temperature
    lost = 1.0 - curvature(*lists, n_clusters=2)[0, 0] / spread[0]
    assert lost == pytest.approx(2.0**-13, rel=0.01)


def curvature_by_differences(own, prices, step=1e-6):
    rows = []
    for a in range(K):
        move = step * np.eye(K)[a]
        up, down = (evaluate(own, prices + s * move, T).gradient for s in (1.0, -1.0))
        rows.append((up - down) / (2.0 * step))
    return np.stack(rows)


@pytest.mark.parametrize("tree", TREES, ids=["plain", "sets"])
def test_the_gradient_is_that_of_the_value(xp, rng, tree):
    own, prices, step = made(rng, tree=tree), rng.normal(size=K), 1e-6
    own = SmoothedDual(*(part if part is None else xp.asarray(part) for part in own))
    gradient = to_numpy(evaluate(own, xp.asarray(prices), T).gradient)
    for a in range(K):
        moved = [xp.asarray(prices + s * step * np.eye(K)[a]) for s in (1.0, -1.0)]
        up, down = (float(evaluate(own, some, T).value) for some in moved)
        assert (up - down) / (2.0 * step) == pytest.approx(gradient[a], abs=1e-5)
    counts = to_numpy(evaluate(own, xp.asarray(prices), T).counts)
    assert counts.sum() == pytest.approx(36.0, abs=1e-9)  # 30 free rows, and the fixed


@pytest.mark.parametrize("tree", TREES, ids=["plain", "sets"])
def test_the_system_is_that_of_the_curvature(rng, tree):
    """But for what rows inside a cluster add to it, a part of 2^13 at most."""
    own, prices = made(rng, tree=tree), rng.normal(size=K)
    point = evaluate(own, prices, T)
    free, extra = np.asarray([1.0, 0.0, 1.0, 1.0]), np.asarray([0.5, 0.25, 0.0, 2.0])
    curved = T * curvature_by_differences(own, prices)
    of_sets = 0.0 if tree is None else tree.T @ point.corner
    ridge = extra + 1e-8 * (point.spread + point.corner + of_sets).max()
    matrix = curved * np.outer(free, free) + np.diag(ridge + 1.0 - free)
    rhs = rng.normal(size=(2, K)) * free
    expected = np.linalg.solve(matrix, T * rhs.T).T
    solve = linear_solver(point, free, extra, own)
    for i in range(2):
        np.testing.assert_allclose(solve(rhs[i]), expected[i], rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(solve(rhs), expected, rtol=1e-3, atol=1e-6)


def test_conjugate_gradients_solve_the_system_of_many_clusters(rng):
    """More than elimination takes: what the solution leaves of the system, by differences."""
    k = 120
    lower = np.full(k, 4.0)
    own = problem(NUMPY, rng.normal(size=(600, k)), lower, lower + 2.0, 2.0)
    prices, step = 0.1 * rng.normal(size=k), 1e-6
    free = (np.arange(k) % 7 > 0).astype(float)
    solve = linear_solver(evaluate(own, prices, T), free, np.full(k, 0.01), own)
    rhs = rng.normal(size=k) * free
    found = solve(rhs)
    up, down = (evaluate(own, prices + s * found, T).gradient for s in (step, -step))
    product = free * T * (up - down) / (2.0 * step) + 0.01 * found
    assert np.linalg.norm(product - T * rhs) < 0.2 * np.linalg.norm(T * rhs)  # to a tenth
    np.testing.assert_array_equal(found[free == 0.0], 0.0)


def test_errors_of_prices_by_their_definition(rng):
    own, prices, share = made(rng, radius=1.5), rng.normal(size=K) / 4.0, 0.9
    scatter = np.sqrt(np.maximum(counts := evaluate(own, prices, T).counts, 1.0) * (1.0 - share))
    # Corners hold no price whose count may leave the bounds; the radius, 1.5, is the standard
    # deviation known before.
    below, above = np.asarray([[5.0, 5.0, 3.0, 3.0], [5.0, 3.0, 5.0, 3.0]])
    own = own._replace(lower=counts - below * scatter, upper=counts + above * scatter)
    point, room = evaluate(own, prices, T), np.minimum(below, above)
    rows = T * curvature_by_differences(own, prices) - np.diag(point.corner * (room <= 4.0))
    matrix = rows + np.eye(K) * T * scatter.mean() / 1.5
    draws = random_signs((8, K), key=0, xp=NUMPY.namespace, device=None) * scatter
    moves = np.linalg.solve(matrix, T * (draws - draws.mean(axis=1, keepdims=True)).T)
    square = (moves**2).mean(axis=1)
    expected = np.sqrt(np.maximum(square, square.mean()))
    found = price_errors(own, RefinedPrices(prices, T), share)
    np.testing.assert_allclose(found, expected, rtol=2e-3)
    tiny = 2.0**-560  # whose square vanishes
    own = own._replace(values=own.values * tiny, low=own.low * tiny, high=own.high * tiny)
    again = price_errors(own, RefinedPrices(prices * tiny, T * tiny), share)
    np.testing.assert_allclose(again / tiny, found, rtol=1e-9)


def test_a_step_that_is_too_long_is_halved_and_one_upward_is_none(rng):
    own = made(rng, radius=50.0)
    prices = np.zeros(K)
    point = evaluate(own, prices, T)
    down = -point.gradient / np.abs(point.gradient).max()
    found = _line_search(own, prices, 64.0 * down, point)
    assert found is not None
    parts = found[0] / (64.0 * down)
    np.testing.assert_allclose(parts, parts[0])
    assert np.log2(parts[0]) == pytest.approx(round(np.log2(parts[0])), abs=1e-9)
    assert parts[0] < 1.0
    assert found[1].value < point.value
    assert _line_search(own, prices, -down, point) is None


def test_a_temperature_is_divided_until_few_samples_are_fractional(rng):
    own = made(rng)
    start = refine_prices(own, np.zeros(K), start=1.0, fractional=1e9)
    assert start.temperature == 1.0  # enough at once
    cool = refine_prices(own, np.zeros(K), start=1.0, fractional=2.0)
    assert cool.temperature in {4.0**-i for i in range(1, 30)}
    point = evaluate(own, cool.prices, cool.temperature)
    assert np.abs(point.gradient).max() < 1.0  # less than a sample
