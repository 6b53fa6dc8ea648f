"""Hard labels by a fixed number of operations: always inside the bounds, and near the best."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dualclust.algos.batches import balance_hard, whole_bounds
from dualclust.algos.batches.hard import seats_of
from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.offline.assignment import assign_exact
from tests.compare import to_numpy
from tests.libraries import Library


def random_instance(seed):
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(1, 40)), int(rng.integers(1, 9))
    scores = rng.normal(size=(n, k)) * 10.0 ** rng.integers(-3, 3)
    if seed % 3 == 0:
        scores[rng.random((n, k)) < 0.3] = -math.inf
    if seed % 7 == 0:
        scores[0, 0] = math.nan
    lower = np.full(k, rng.random() / k)
    upper = np.minimum(1.0, np.full(k, (1.0 + 2.0 * rng.random()) / k))
    options = {
        "counted": rng.random(n) < 0.8,
        "n_rounds": int(rng.integers(1, 5)),
        "epsilon": 10.0 ** int(rng.integers(-6, 1)),
    }
    return scores, lower, upper, options


def test_counts_are_inside_whatever_the_scores_are():
    for seed in range(300):
        scores, lower, upper, options = random_instance(seed)
        found = balance_hard(scores, lower, upper, **options)
        counts = options["counted"] & np.isfinite(scores.max(axis=1))
        sizes = np.bincount(found.labels[counts], minlength=len(lower))
        low, high = whole_bounds(lower, upper, counts.sum())
        assert (low <= sizes).all(), seed
        assert (sizes <= high).all(), seed
        assert np.isfinite(found.prices).all()


def test_all_libraries_find_the_same(xp: Library):
    scores = np.random.default_rng(1).normal(size=(50, 6)) * 0.3
    share = np.full(6, 1 / 6)
    wanted = balance_hard(scores, 0.9 * share, 1.1 * share)
    found = balance_hard(xp.asarray(scores), xp.asarray(0.9 * share), xp.asarray(1.1 * share))
    np.testing.assert_array_equal(to_numpy(found.labels), wanted.labels)


def test_the_value_is_near_the_optimum_and_nearer_with_more_steps():
    share, lost = np.full(8, 1 / 8), {3: 0.0, 40: 0.0}
    for seed in range(6):
        rng = np.random.default_rng(seed)
        scores = rng.normal(size=(160, 8)) * 0.2 + np.linspace(0.4, 0.0, 8)
        bounds = SizeBounds.from_ratios(8, n_samples=160, lower=0.9, upper=1.1)
        best = assign_exact(scores, bounds).objective
        for n_iter in lost:
            labels = balance_hard(scores, 0.9 * share, 1.1 * share, n_iter=n_iter).labels
            lost[n_iter] += (best - scores[np.arange(160), labels].sum()) / 160 / 6
    assert 0.0 <= lost[40] < lost[3] < 0.02


def test_without_bounds_labels_are_the_best_of_each_row():
    scores = np.random.default_rng(2).normal(size=(30, 4))
    found = balance_hard(scores, np.zeros(4), np.ones(4))
    np.testing.assert_array_equal(found.labels, scores.argmax(axis=1))


def test_whole_bounds_are_those_of_size_bounds():
    for n in range(1, 130):
        for k, low, high in ((10, 0.9, 1.1), (7, 0.3, 2.0), (3, 1.0, 1.0)):
            share = SizeBounds.for_stream(k, lower=low, upper=high)
            wanted = SizeBounds.from_ratios(k, n_samples=n, lower=low, upper=high)
            found = whole_bounds(share.lower_share, share.upper_share, float(n))
            np.testing.assert_array_equal(found[0], wanted.lower)
            np.testing.assert_array_equal(np.minimum(found[1], n), wanted.upper)


@pytest.mark.parametrize("seed", range(20))
def test_seats_add_up_and_keep_the_bounds(seed):
    rng = np.random.default_rng(seed)
    k, n = int(rng.integers(1, 30)), int(rng.integers(1, 3000))
    inside = np.bincount(rng.integers(0, k, n), minlength=k)
    lower = np.maximum(inside - rng.integers(0, 4, k), 0)
    upper = inside + rng.integers(0, 4, k)
    asks = rng.multinomial(n, rng.dirichlet(np.ones(k)))
    seats = seats_of(asks, lower, upper)
    assert seats.sum() == n
    assert (lower <= seats).all()
    assert (seats <= upper).all()
    np.testing.assert_array_equal(seats_of(seats, lower, upper), seats)
