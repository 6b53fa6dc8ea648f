"""Mixtures whose components lie far apart: prices from few rows say little, and passes find them.

Each row has one cluster that fits, and all others fit alike: in a region as wide as the distance
between the two, nearly every row has more candidates than a pass keeps.
"""

from functools import cache

import numpy as np
import pytest

import dualclust as dc
from dualclust.algos.offline import assignment
from dualclust.algos.scores.sources import score_source
from tests.passes import counted_passes


def mixture(n, k, spread, seed, d=64):
    """Cosines of rows with the centers of as many components as there are clusters."""
    rng = np.random.default_rng(seed)

    def unit(x):
        return x / np.linalg.norm(x, axis=1, keepdims=True)

    centers = unit(rng.normal(size=(k, d)))
    noise = spread * unit(rng.normal(size=(n, d)))
    return np.asarray(unit(centers[rng.integers(k, size=n)] + noise) @ centers.T, np.float32)


@cache
def optimum(n, k, spread, ratio):
    """The objective where every cluster is a candidate of every row."""
    bounds = dc.SizeBounds.from_ratios(k, n_samples=n, lower=ratio, upper=2.0 - ratio)
    source = score_source(mixture(n, k, spread, seed=0))
    options = assignment.SolverOptions(full_entries=n * k)
    return assignment.assign_source(source, bounds, tol=0.0, options=options).objective


@pytest.mark.parametrize(
    ("n", "k", "spread", "ratio"),
    [
        (8_000, 200, 0.6, 1.0),
        (8_000, 200, 0.6, 0.9),
        (10_000, 200, 0.3, 0.9),
        pytest.param(12_000, 300, 0.6, 0.95, marks=pytest.mark.slow),
        (10_000, 100, 0.6, 1.0),
    ],
)
@pytest.mark.parametrize("tol", [0.0, 1e-4])
def test_lists_that_are_cut_do_not_end_in_a_problem_of_all_scores(n, k, spread, ratio, tol):
    """The optimum by passes, where all clusters of all rows would be the same in more memory."""
    scores = mixture(n, k, spread, seed=0)
    bounds = dc.SizeBounds.from_ratios(k, n_samples=n, lower=ratio, upper=2.0 - ratio)
    best = optimum(n, k, spread, ratio)
    with counted_passes() as count:
        found = assignment.assign_source(score_source(scores), bounds, tol=tol)
    assert found.gap <= tol
    assert best * (1 - tol) <= found.objective <= best * (1 + 1e-12)
    assert np.all((bounds.lower <= found.counts) & (found.counts <= bounds.upper))
    assert count["_candidates.row_blocks"] <= 24  # samples, and about four passes
