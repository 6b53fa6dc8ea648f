"""500 small problems of k-medoids inside bounds, beside HiGHS and beside all sets of medoids."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.clustering.dissimilarities import matrix_dissimilarities
from dualclust.algos.clustering.medoids import constrained_medoids, start_medoids
from tests import highs

PROBLEMS = 500


def drawn(seed):
    """A problem: metric or not, with ties or not, with weights or not, bounds narrow or wide."""
    rng = np.random.default_rng((47, seed))
    n, k = int(rng.integers(4, 13)), int(rng.integers(1, 5))
    x = rng.normal(size=(n, 2)) * 10.0 ** rng.integers(-3, 4)
    d = np.linalg.norm(x[:, None] - x, axis=-1)
    if seed % 3 == 1:  # ties, and rows at 0 from each other
        d = np.minimum(np.round(3 * d / d.max()), 2.0)
    if seed % 3 == 2:  # no triangle inequality
        d = np.triu(rng.uniform(size=(n, n)), 1)
        d = d + d.T
    sizes = np.bincount(rng.integers(k, size=n), minlength=k)
    slack = rng.integers(0, 3, size=(2, k))
    lower, upper = np.maximum(sizes - slack[0], 0), sizes + slack[1]
    weights = rng.integers(0, 4, size=n).astype(float) if seed % 4 == 0 else np.ones(n)
    weights[0] = 1.0
    gap = (0.0, 0.0, 0.1)[seed % 3]
    return d, lower, upper, weights, gap


def best_for(d, medoids, lower, upper, weights):
    found = highs.best_plan(-weights[:, None] * d[:, medoids], lower, upper)
    assert found is not None
    return found.value


@pytest.mark.parametrize(
    "start",
    [
        pytest.param(first, marks=[pytest.mark.slow] * (first >= 200))
        for first in range(0, PROBLEMS, 50)
    ],
)
def test_labels_are_those_of_highs_and_proofs_hold(start) -> None:
    for seed in range(start, start + 50):
        d, lower, upper, weights, gap = drawn(seed)
        n, k = len(d), len(lower)
        pairs = matrix_dissimilarities(d)
        bounds = SizeBounds.from_counts(lower, upper, n_samples=n)
        medoids = start_medoids(pairs, k, seed=seed, weights=weights)
        found = constrained_medoids(pairs, bounds, medoids, weights=weights, gap=gap)
        first = constrained_medoids(pairs, bounds, medoids, weights=weights, max_iter=0)
        assert (lower <= found.counts).all()
        assert (found.counts <= upper).all()
        value = -(weights * d[np.arange(n), found.medoids[found.labels]]).sum()
        assert found.objective == pytest.approx(value, rel=1e-12, abs=1e-12)
        best, small = best_for(d, found.medoids, lower, upper, weights), 1e-9 * max(1.0, d.max())
        assert found.assignment.upper_bound >= best - small, seed
        assert found.gap >= (best - value - small) / max(abs(value), abs(best), small)
        if gap == 0.0:
            assert value == pytest.approx(best, rel=1e-9, abs=small)
        assert first.objective == pytest.approx(
            best_for(d, first.medoids, lower, upper, weights), rel=1e-9, abs=small
        )
        assert found.objective >= first.objective - small
        assert found.converged
        for j in range(k):  # a fixed point: no row of a cluster is a better medoid
            own = found.labels == j
            if own.any():
                sums = (weights[own, None] * d[own]).sum(axis=0)
                assert sums[found.medoids[j]] <= sums[own].min() * (1 + 1e-12) + 1e-300


def test_starts_come_near_the_best_medoids_there_are() -> None:
    """Beside all sets of medoids, never better, and of ten starts mostly as good."""
    ratios = []
    for seed in range(0, 150, 5):
        d, lower, upper, _, _ = drawn(seed)
        n, k = len(d), len(lower)
        if not k < n <= 9:
            continue
        lower, upper = np.full(k, lower.min()), np.full(k, n)  # medoids may change places
        ones = np.ones(n)
        sets = itertools.combinations(range(n), k)
        best = max(best_for(d, np.asarray(s), lower, upper, ones) for s in sets)
        pairs, bounds = matrix_dissimilarities(d), SizeBounds.from_counts(lower, n_samples=n)
        runs = [
            constrained_medoids(pairs, bounds, start_medoids(pairs, k, seed=s)).objective
            for s in range(10)
        ]
        assert max(runs) <= best * (1 - 1e-9)
        ratios.append(max(runs) / best)
    assert len(ratios) > 10
    assert np.median(ratios) <= 1.0 + 1e-9
    assert np.mean(ratios) < 1.03
