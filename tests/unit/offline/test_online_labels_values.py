"""Online passes against the same passes written out, and prices against their definitions."""

import math

import numpy as np
import pytest

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.offline import SolverOptions
from dualclust.algos.offline._online_labels import EPOCH, FLOOR, assign_in_passes
from dualclust.algos.offline._online_prices import FORBIDDEN, LEARNING_FLOOR, PASSES, learn_prices
from dualclust.algos.offline._proof import relative_gap, rounding_of
from dualclust.algos.offline.assignment import assign_exact
from dualclust.algos.online.assignment import assign, init_state, next_pass, relaxed
from dualclust.algos.online.certificates import dual_value
from dualclust.algos.online.duals import Duals
from dualclust.algos.online.step_sizes import measured_steps
from dualclust.algos.scores import sources
from dualclust.algos.scores.sources import score_source
from dualclust.algos.scores.statistics import score_range, strided_ids

N, K = 90, 4
BOUNDS = SizeBounds.from_ratios(K, n_samples=N, lower=0.8, upper=1.3)
GIVEN = np.asarray([0.5, -0.75, 0.0, 0.25])


def scores_of(seed, forbidden=False):
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(N, K)) * 2.0 + np.asarray([0.0, 1.0, 0.0, -1.0])
    if forbidden:
        scores[3:N:17, 1] = -math.inf
    return scores


def duals_of(prices):
    return Duals(np.maximum(prices, 0.0), np.maximum(-prices, 0.0))


@pytest.mark.parametrize("n_rows", [7, 1000])
def test_prices_are_those_of_passes_with_falling_steps(n_rows, monkeypatch):
    monkeypatch.setattr(sources, "block_rows", lambda n_clusters, like, is_alone: 32)
    scores, loose = scores_of(0, forbidden=True), relaxed(BOUNDS)
    found = learn_prices(score_source(scores), BOUNDS, SolverOptions(typical_rows=n_rows))
    state = init_state(loose)
    scale, finite = score_range(scores[:n_rows]), np.maximum(scores, FORBIDDEN)
    for epoch in range(PASSES):
        steps = measured_steps(loose, epoch=epoch, kappa_floor=LEARNING_FLOOR, scale=scale)
        state = next_pass(state)
        for first in range(0, N, 32):
            _, state = assign(finite[first : first + 32], loose, state, steps=steps)
    np.testing.assert_array_equal(found, state.duals.lower - state.duals.upper)


@pytest.mark.parametrize("n_rows", [7, 1000])
@pytest.mark.parametrize("start", ["cold", "best"])
def test_labels_and_proof_are_those_of_two_passes(start, n_rows):
    scores = scores_of(1)
    prices = GIVEN if start == "cold" else assign_exact(scores, BOUNDS).prices
    options = SolverOptions(typical_rows=n_rows)
    found = assign_in_passes(score_source(scores), BOUNDS, prices, options)
    rows = scores[strided_ids(N, min(N, n_rows), scores)]
    steps = measured_steps(BOUNDS, epoch=EPOCH, kappa_floor=FLOOR, scale=score_range(rows))
    state = init_state(BOUNDS)._replace(duals=duals_of(prices))
    loose, learned = assign(scores, relaxed(BOUNDS), state, steps=steps)
    labels, _ = assign(scores, BOUNDS, next_pass(learned), steps=steps)
    later = learned.duals.lower - learned.duals.upper
    first, second = (dual_value(scores, p, BOUNDS) for p in (prices, later))
    assert (first <= second) is (start == "best")  # either pass may prove more
    best, its_labels = (prices, loose) if start == "best" else (later, labels)
    np.testing.assert_array_equal(found.labels, labels)
    np.testing.assert_array_equal(found.counts, np.bincount(labels, minlength=K))
    np.testing.assert_array_equal(found.prices, best)
    own = scores[np.arange(N), labels]
    assert found.objective == pytest.approx(own.sum(), rel=1e-12)
    assert found.violation == 0

    def size(p, y):
        """Absolute values of all that a pass adds up."""
        priced = np.abs((scores + p).max(axis=1)).sum()
        of_bounds = dual_value(scores, p, BOUNDS) - (scores + p).max(axis=1).sum()
        return np.abs(scores[np.arange(N), y]).sum() + priced + abs(of_bounds)

    worth = np.abs(own).sum()
    rounding = rounding_of(worth + size(best, its_labels))
    assert found.rounding == pytest.approx(rounding, rel=1e-12)
    lost = min(first, second) - own.sum() + rounding
    assert found.upper_bound == pytest.approx(own.sum() + lost, rel=1e-15)
    gap = relative_gap(lost, worth, min(first, second))
    assert found.gap == pytest.approx(gap, rel=1e-9)
    assert found.gap > 0.0
