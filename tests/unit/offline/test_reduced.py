"""Labels from candidates, step by step: the bound, where to give up, and windows that grow."""

import itertools
import math

import numpy as np
import pytest

from dualclust.algos.bounds.sizes import SizeBounds, price_of_bounds
from dualclust.algos.offline import SolverOptions
from dualclust.algos.offline._candidates import TrustRegion, all_candidates, collect_candidates
from dualclust.algos.offline._reduced import (
    _is_held_back,
    _worth,
    labels_by_paths,
    solve_reduced,
)
from dualclust.algos.offline._smoothed_dual import RefinedPrices
from dualclust.algos.scores.sources import score_source
from tests.highs import best_plan

N, K, RADIUS = 40, 5, 0.5
OPTIONS = SolverOptions(chunk_rows=7)  # several parts, of which the last is not full


def problem(seed, width=2):
    """Candidates of a region, its middle, and prices inside it that are not the middle."""
    rng = np.random.default_rng(seed)
    scores, middle = rng.normal(size=(N, K)) - 1.0, rng.normal(size=K)
    low, high = middle - RADIUS, middle + RADIUS
    kept = collect_candidates(score_source(scores), low, high, width=width)
    return kept, middle, middle + rng.uniform(-RADIUS, RADIUS, K)


def parts(kept, prices):
    """Of free rows: scores of the first candidate, and what the best one is worth."""
    priced = kept.values + prices[np.maximum(kept.clusters, 0)]
    return kept.values[:, 0], priced.max(axis=1)


@pytest.mark.parametrize("seed", range(3))
def test_what_candidates_and_truncated_clusters_are_worth(seed):
    kept, _, prices = problem(seed)
    first, best = parts(kept, prices)
    assert 0 < kept.is_truncated.sum() < len(first) < N
    expected = (
        np.maximum(kept.truncation - best, 0.0).sum(),
        kept.fixed_value + best.sum(),
        kept.fixed_size + np.abs(first).sum(),
        kept.fixed_counts @ prices,
    )
    assert expected[0] > 0.0
    assert _worth(kept, prices, OPTIONS) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("prices", "clamped"),
    [
        ([0.25, 0.5, -0.5, 0.25], []),
        ([1.0, 0.5, 0.0, 0.0], [0]),  # which misses its lower bound
        ([0.5, -2.0, 0.0, 0.0], [1]),  # its upper one
        ([1.0, -2.0, 0.5, 0.5], [0, 1]),
        ([0.0, 0.5, 0.5, 0.5], [0]),  # a price of 0 leaves its cluster up to its upper bound
    ],
)
def test_the_region_holds_back_what_is_stranded(prices, clamped):
    kept = all_candidates(score_source(np.zeros((6, 4))), like=np.zeros(4))
    low, high = np.asarray([0.0, -2.0, -1.0, -1.0]), np.ones(4)
    fixed = np.asarray([1, 5, 100, 100])
    kept = kept._replace(low=low, high=high, fixed_counts=fixed)
    own = kept.smoothed_dual(np.asarray([5, 4, 0, 0]), np.asarray([9, 6, 0, 0]))
    refined = RefinedPrices(np.asarray(prices), 0.25)
    weights = np.exp(refined.prices / 0.25)
    counts = 6.0 * weights / weights.sum() + fixed
    aim = np.where(refined.prices > 0.0, [5, 4, 0, 0], [9, 6, 0, 0])
    stranded = np.abs(counts - aim)[clamped].sum() / 4

    def held(share, most):
        options = SolverOptions(edge_share=share, max_stranded=most)
        return _is_held_back(kept, own, refined, options)

    share = len(clamped) / 4
    assert held(share, 1.001 * stranded) is False
    if clamped:
        assert held(share, 0.999 * stranded) is True
        # Of more than a share of the prices, labels are not looked for.
        assert held(0.99 * share, 100.0) is True


@pytest.mark.parametrize("width", [2, 3, K])
@pytest.mark.parametrize("seed", range(6))
def test_bound_and_labels_are_on_either_side_of_the_optimum(seed, width):
    """However little the candidates hold; labels come where what was truncated is worth little."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(N, K)) - 3.0 * (seed % 2)
    lower, upper = np.asarray([6, 7, 8, 5, 4]), np.asarray([9, 9, 12, 9, 8])
    bounds = SizeBounds.from_counts(lower, upper, n_samples=N)
    best, _, prices = best_plan(scores, lower, upper)
    middle = prices + 0.05 * rng.normal(size=K)
    some = {"none": 0, "with labels": 0}
    for radius, tol in itertools.product((0.1, 0.5, 3.0), (0.0, 0.01, 0.5)):
        source = score_source(scores)
        kept = collect_candidates(source, middle - radius, middle + radius, width=width)
        region = TrustRegion(middle, np.full(K, radius))
        for most in (0.0, 0.5):
            found = solve_reduced(
                kept, bounds, region, tol, max_truncation=max(tol, most), options=OPTIONS
            )
            assert found.bound >= best - 1e-9
            lost, worth, _, fixed = _worth(kept, found.bound_prices, OPTIONS)
            bound = worth + lost + fixed + price_of_bounds(found.bound_prices, bounds)
            assert found.bound == pytest.approx(bound, rel=1e-12)
            labels = found.assignment
            some["none" if labels is None else "with labels"] += 1
            if labels is not None:
                counts = np.bincount(labels.labels, minlength=K)
                assert ((lower <= counts) & (counts <= upper)).all()
                value = scores[np.arange(N), labels.labels].sum()
                assert labels.objective == pytest.approx(value, rel=1e-12)
                assert value <= best + 1e-9 <= labels.upper_bound + 2e-9
    assert some["with labels"]
    assert some["none"] or width == K


@pytest.mark.parametrize(
    ("radius", "tol", "n_windows"),
    [(1.0, 1e-3, 3), (1.0, 1e-2, 2), (math.inf, 1e-3, 5), (math.inf, 1e-2, 5)],
)
def test_windows_that_would_change_nothing_are_not_tried(radius, tol, n_windows):
    """Nothing leads to cluster 2, which needs a row; the clock is asked after all but the last."""
    source = score_source(np.asarray([[0.0, 0.0, -math.inf]] * 6))
    bounds, looks = SizeBounds.from_counts([0, 0, 1], n_samples=6), []
    region = TrustRegion(np.zeros(3), np.full(3, radius))
    if radius == math.inf:
        kept = all_candidates(source, like=np.zeros(3))
    else:
        kept = collect_candidates(source, *region.box, width=2)

    def is_over():
        looks.append(1)
        return False

    refined = RefinedPrices(np.zeros(3), 1.0 / 16.0)  # windows of 1/4, 2, 16 ...
    found, _ = labels_by_paths(kept, bounds, refined, tol, 6.0, OPTIONS, is_over=is_over)
    assert found is None
    assert len(looks) == n_windows - (radius < math.inf)
    if radius < math.inf:
        options, looks[:] = SolverOptions(edge_share=1.0, max_stranded=9.0), []
        assert solve_reduced(kept, bounds, region, tol, options=options).assignment is None
        solve_reduced(kept, bounds, region, tol, is_over=is_over, options=options)
        n_looks, looks[:] = len(looks), []
        solve_reduced(kept, bounds, region, 1e-2, is_over=is_over, options=options)
        assert (n_looks > len(looks)) is (tol < 1e-2)


def test_in_the_last_window_all_rows_may_move():
    """They lead by more than 8^4 times the first window, of 4 temperatures."""
    kept = all_candidates(score_source(np.asarray([[1.0, 0.0]] * 6)), like=np.zeros(2))
    bounds, refined = SizeBounds.from_counts([3, 3], n_samples=6), RefinedPrices(np.zeros(2), 1e-5)
    found, _ = labels_by_paths(kept, bounds, refined, 0.0, 6.0, OPTIONS)
    assert (found.counts.tolist(), found.gap) == ([3, 3], 0.0)
