"""Values against HiGHS, which solves the assignment as a linear program."""

import numpy as np
import pytest

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.online.assignment import assign, next_pass
from dualclust.algos.online.certificates import dual_value, objective
from dualclust.algos.online.step_sizes import measured_steps
from tests import highs
from tests.compare import label_gaps
from tests.problems import best_value, cone_scores, mixture_scores


def solve(scores, bounds):
    """Optimal value, sizes and prices of the linear program."""
    return highs.best_plan(scores, bounds.lower, bounds.upper)


def random_bounds(rng, n, k):
    sizes = np.bincount(rng.integers(0, k, size=n), minlength=k)
    lower = np.maximum(sizes - rng.integers(0, 3, size=k), 0)
    upper = sizes + rng.integers(0, 3, size=k)
    return SizeBounds.from_counts(lower.tolist(), upper.tolist(), n_samples=n)


@pytest.mark.parametrize("seed", range(20))
def test_the_dual_value_at_the_optimal_prices_is_the_optimum(seed):
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(1, 40)), int(rng.integers(1, 7))
    scores, bounds = rng.normal(size=(n, k)), random_bounds(rng, n, k)
    best, sizes, prices = solve(scores, bounds)
    scale = 1e-9 * (1.0 + np.abs(scores).sum())
    assert abs(dual_value(scores, prices, bounds) - best) <= scale
    np.testing.assert_allclose(sizes, sizes.round(), atol=1e-7)  # the program is integral
    for _ in range(20):
        other = prices + rng.normal(size=k) * 10.0 ** rng.integers(-6, 2)
        assert dual_value(scores, other, bounds) >= best - scale


@pytest.mark.parametrize("seed", range(10))
def test_the_linear_program_is_as_good_as_trying_everything(seed):
    rng = np.random.default_rng(seed)
    n, k = ((12, 2), (7, 3), (6, 4))[seed % 3]
    scores, bounds = rng.normal(size=(n, k)), random_bounds(rng, n, k)
    best, _, prices = solve(scores, bounds)
    tried = best_value(scores, bounds.lower, bounds.upper)
    assert best == pytest.approx(tried, abs=1e-9)
    assert dual_value(scores, prices, bounds) == pytest.approx(tried, abs=1e-9)


@pytest.mark.parametrize("seed", range(10))
def test_the_optimum_lies_between_objective_and_dual_value_in_every_pass(seed):
    rng = np.random.default_rng(seed)
    make = cone_scores if seed % 2 else mixture_scores
    scores = make(300, 5, seed)
    bounds = SizeBounds.from_ratios(5, n_samples=300, lower=0.9, upper=1.1)
    best, _, _ = solve(scores, bounds)
    state = None
    for epoch in range(6):
        order = rng.permutation(300)
        start = None if state is None else next_pass(state)
        rule = measured_steps(bounds, epoch=epoch)
        labels, state = assign(scores[order], bounds, start, steps=rule)
        value = objective(scores[order], labels)
        bound = dual_value(scores, state.duals.lower - state.duals.upper, bounds)
        assert value <= best + 1e-9 <= bound + 2e-9


@pytest.mark.parametrize("seed", range(5))
def test_optimal_labels_are_best_at_the_optimal_prices(seed):
    rng = np.random.default_rng(seed)
    scores, bounds = rng.normal(size=(30, 4)), random_bounds(rng, 30, 4)
    best, _, prices = solve(scores, bounds)
    greedy = (scores + prices).argmax(axis=1)
    assert not label_gaps(scores, prices, greedy).any()
    # Complementary slackness: away from ties the prices alone give the optimal sizes.
    top = np.sort(scores + prices, axis=1)
    tied = np.count_nonzero(top[:, -1] - top[:, -2] < 1e-9)
    assert objective(scores, greedy) >= best - tied * np.ptp(scores) - 1e-9


@pytest.mark.parametrize("seed", range(10))
def test_tighter_bounds_never_help(seed):
    rng = np.random.default_rng(seed)
    scores, bounds = rng.normal(size=(20, 4)), random_bounds(rng, 20, 4)
    best, sizes, prices = solve(scores, bounds)
    sizes = sizes.round().astype(int)
    tight = SizeBounds.from_counts(sizes.tolist(), sizes.tolist(), n_samples=20)
    assert solve(scores, tight)[0] == pytest.approx(best, abs=1e-9)
    loose = SizeBounds.from_counts([0] * 4, n_samples=20)
    assert solve(scores, loose)[0] >= best - 1e-9
    assert dual_value(scores, np.zeros(4), loose) == pytest.approx(scores.max(axis=1).sum())
    assert dual_value(scores, prices, tight) == pytest.approx(best, abs=1e-8)
