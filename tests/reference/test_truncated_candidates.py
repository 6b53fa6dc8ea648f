"""What truncated candidates prove, against the optimum of the linear program."""

import math

import numpy as np
import pytest

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.offline import SolverOptions
from dualclust.algos.offline._candidates import TrustRegion, collect_candidates
from dualclust.algos.offline._reduced import solve_reduced
from dualclust.algos.offline.assignment import assign_offline
from dualclust.algos.scores.sources import score_source
from tests import highs
from tests.passes import counted_passes


def problem(seed):
    """Bounds around the sizes of some labels, and a trust region that hides many clusters."""
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(20, 60)), int(rng.integers(4, 8))
    scores = rng.normal(size=(n, k)) + rng.normal(size=k) * (seed % 3)
    sizes = np.bincount(rng.integers(0, k, n), minlength=k)
    lower, upper = np.maximum(sizes - 1, 0).tolist(), (sizes + 1).tolist()
    region = TrustRegion(0.3 * rng.normal(size=k), np.full(k, rng.choice([0.5, 2.0, 8.0])))
    return scores, lower, upper, region


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_no_labels_are_worth_more_than_candidates_prove(dtype):
    """Most of these candidates hide clusters that the optimum needs: labels are not optimal."""
    solved = worse = truncated = 0
    for seed in range(150):
        scores, lower, upper, region = problem(seed)
        scores = scores.astype(dtype)
        bounds = SizeBounds.from_counts(lower, upper, n_samples=len(scores))
        low, high = region.center - region.radius, region.center + region.radius
        kept = collect_candidates(score_source(scores), low, high, width=2)
        found, _, bound, *_ = solve_reduced(kept, bounds, region, 0.0, max_truncation=math.inf)
        best = highs.best_plan(scores, lower, upper).value
        slack = 1e-9 * np.abs(scores).sum()
        assert bound >= best - slack, seed
        if found is None:
            continue
        assert found.objective <= best + slack, seed
        assert found.upper_bound >= best - slack, seed
        assert found.gap >= (best - found.objective - slack) / np.abs(scores).max(axis=1).sum()
        solved += 1
        truncated += bool(kept.is_truncated.any())
        if found.objective < best - slack:
            assert found.status == "within gap", seed
            worse += 1
    assert solved >= 30
    assert truncated >= 30
    assert worse >= 10


@pytest.mark.parametrize("tolerance", [1e-4, 1e-6])
def test_a_gap_above_the_tolerance_is_not_the_end(tolerance):
    """Labels that have not proven the tolerance are followed by another pass."""
    passes = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        scores = rng.normal(size=(300, 5)) + rng.normal(size=5)
        bounds = SizeBounds.from_ratios(5, n_samples=300, lower=0.9, upper=1.1)
        options = SolverOptions(full_entries=0, few_clusters=0, pass_width=2, last_entries=0)
        with counted_passes() as count:
            found = assign_offline(scores, bounds, tol=tolerance, options=options)
        assert found.gap <= tolerance
        passes.append(count["_candidates.row_blocks"])
    assert min(passes) < max(passes)  # some need another, and get it
