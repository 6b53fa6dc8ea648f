"""Branch and bound: the best of all labels by enumeration, none where none exist, and no time."""

import itertools
import math

import numpy as np
import pytest

from dualclust.algos.offline._whole_program import best_whole


def test_labels_are_the_best_of_all():
    n, k, n_none = 6, 3, 0
    for seed in range(25):
        rng = np.random.default_rng(seed)
        values, sizes = rng.normal(size=(n, k)), rng.integers(0, 5, n)
        values[rng.random((n, k)) < 0.2] = -math.inf
        values[np.arange(n), rng.integers(0, k, n)] = rng.normal(size=n)
        loads = np.bincount(rng.integers(0, k, n), sizes, minlength=k)
        lower, upper = loads - rng.integers(0, 2, k), loads + rng.integers(0, 2, k)
        apart = [tuple(rng.permutation(n)[:2].tolist()) for _ in range(seed % 3)]
        best = -math.inf
        for labels in itertools.product(range(k), repeat=n):
            found = np.bincount(labels, sizes, minlength=k)
            if all(labels[i] != labels[j] for i, j in apart):
                if ((lower <= found) & (found <= upper)).all():
                    best = max(best, values[np.arange(n), labels].sum())
        whole = best_whole(values.tolist(), sizes.tolist(), lower, upper, apart=apart)
        assert whole.is_best
        if best == -math.inf:
            n_none += 1
            assert (whole.labels, whole.bound) == (None, None)
            continue
        assert values[np.arange(n), whole.labels].sum() == pytest.approx(best, abs=1e-6)
        assert best <= whole.bound <= best + 1e-4
        assert all(whole.labels[i] != whole.labels[j] for i, j in apart)
    assert 3 < n_none < 20


def test_without_time_the_bound_is_that_of_no_bounds():
    rng = np.random.default_rng(0)
    values, sizes = rng.normal(size=(40, 5)), rng.integers(1, 9, 40)
    sides = np.full(5, sizes.sum() / 5 - 2.0), np.full(5, sizes.sum() / 5 + 2.0)
    found = best_whole(values.tolist(), sizes.tolist(), *sides, seconds=0.0)
    assert (found.labels, found.is_best) == (None, False)
    assert found.bound == pytest.approx(values.max(axis=1).sum(), rel=1e-9)
