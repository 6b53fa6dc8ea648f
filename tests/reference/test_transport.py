"""Exact assignment against HiGHS on thousands of instances, and against all k^n assignments."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.offline import DEFAULT_OPTIONS, SolverOptions
from dualclust.algos.offline.assignment import assign_exact
from dualclust.algos.online.certificates import violation
from tests import highs
from tests.problems import best_value, cone_scores, mixture_scores

Floats = NDArray[np.float64]
FEW = SolverOptions(full_entries=0)
each_path = pytest.mark.parametrize(
    "options", [DEFAULT_OPTIONS, FEW], ids=["all clusters", "few candidates"]
)


def instance(seed: int, most: int) -> tuple[Floats, list[int], list[int]]:
    """Feasible by construction; half of them with many ties, some without slack."""
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(1, most)), int(rng.integers(1, 7))
    sizes = np.bincount(rng.integers(0, k, n), minlength=k)
    slack = int(rng.integers(0, 4))
    lower = np.maximum(sizes - rng.integers(0, slack + 1, k), 0).tolist()
    upper = np.minimum(sizes + rng.integers(0, slack + 1, k), n).tolist()
    scores = rng.integers(-8, 9, (n, k)) / 8.0 if seed % 2 else rng.normal(size=(n, k))
    return scores, lower, upper


def check(seed: int, most: int, options: SolverOptions) -> None:
    scores, lower, upper = instance(seed, most)
    bounds = SizeBounds.from_counts(lower, upper, n_samples=len(scores))
    found = assign_exact(scores, bounds, options=options)
    assert violation(found.counts, bounds) == 0
    assert found.status == "optimal"
    optimum = highs.best_plan(scores, lower, upper)
    assert optimum is not None
    scale = max(1.0, float(np.abs(scores).sum()))
    assert abs(found.objective - optimum.value) <= 1e-9 * scale, seed
    assert abs(found.upper_bound - found.objective) <= 1e-12 * scale, seed


@each_path
def test_equal_to_highs(options: SolverOptions) -> None:
    for seed in range(250):
        check(seed, most=40, options=options)


@pytest.mark.slow
def test_equal_to_highs_on_ten_thousand_instances() -> None:
    for seed in range(10_000):
        check(seed, most=60, options=FEW if seed % 4 > 1 else DEFAULT_OPTIONS)


@each_path
def test_equal_to_all_assignments(options: SolverOptions) -> None:
    for seed in range(250):
        scores, lower, upper = instance(seed, most=7)
        n, k = scores.shape
        if k**n > 4096:
            continue
        bounds = SizeBounds.from_counts(lower, upper, n_samples=n)
        best = best_value(scores, np.asarray(lower), np.asarray(upper))
        found = assign_exact(scores, bounds, options=options)
        assert found.objective == pytest.approx(best, abs=1e-12)


@pytest.mark.parametrize("make", [cone_scores, mixture_scores])
def test_large_instances_prove_their_optimum(make) -> None:
    scores = make(20_000, 50).astype(np.float32)
    bounds = SizeBounds.from_ratios(50, n_samples=20_000, lower=0.9, upper=1.1)
    found = assign_exact(scores, bounds)
    assert violation(found.counts, bounds) == 0
    assert abs(found.upper_bound - found.objective) <= 1e-12 * abs(found.objective)
