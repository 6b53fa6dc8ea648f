"""`assign_offline` against the optimum: the linear program (HiGHS), and the Hungarian algorithm.

The program is totally unimodular, so that its value is that of the best labels.
"""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.offline.assignment import assign_offline
from tests import highs
from tests.problems import cone_scores, counted_bounds, in_order, mixture_scores

KINDS = {"cone": cone_scores, "mixture": mixture_scores}
ORDERS = ("given", "random", "sorted", "adversarial")


def optimum_by_program(scores, bounds):
    return highs.best_plan(scores, bounds.lower, bounds.upper).value


def optimum_by_slots(scores, bounds):
    """Each cluster is u_k slots; l_k of them pay so much that all of those are taken."""
    k = scores.shape[1]
    owed = np.repeat(np.arange(k), bounds.lower)
    slots = np.concatenate([owed, np.repeat(np.arange(k), bounds.upper - bounds.lower)])
    value = scores[:, slots].copy()
    value[:, : len(owed)] += 4 * np.abs(scores).max() + 1
    rows, columns = linear_sum_assignment(value, maximize=True)
    return scores[rows, slots[columns]].sum()


@given(st.data(), st.integers(1, 40), st.integers(1, 6), st.integers(0, 2**32))
def test_the_optimum_lies_between_objective_and_bound(data, n, k, seed):
    lower, upper = data.draw(counted_bounds(n, k))
    bounds = SizeBounds.from_counts(lower.tolist(), upper.tolist(), n_samples=n)
    scores = np.random.default_rng(seed).normal(size=(n, k))
    found, best = assign_offline(scores, bounds), optimum_by_slots(scores, bounds)
    assert found.objective <= best + 1e-9
    assert best <= found.upper_bound + 1e-9


def test_the_two_references_agree():
    for kind in KINDS.values():
        scores = kind(200, 5)
        for lower, upper in ((0.9, 1.1), (0.9, math.inf), (1.0, 1.0), (0.0, 1.1)):
            bounds = SizeBounds.from_ratios(5, n_samples=200, lower=lower, upper=upper)
            values = optimum_by_program(scores, bounds), optimum_by_slots(scores, bounds)
            assert values[0] == pytest.approx(values[1], abs=1e-8)


RATIOS = [(0.9, 1.1), (0.9, math.inf), (1.0, 1.0), (0.0, 1.1)]


@pytest.mark.parametrize(
    ("k", "ratios"),
    [
        *(pytest.param(10, r, id=f"10-{r}") for r in RATIOS),
        pytest.param(50, RATIOS[0], id=f"50-{RATIOS[0]}"),
        *(pytest.param(50, r, id=f"50-{r}", marks=pytest.mark.slow) for r in RATIOS[1:]),
    ],
)
@pytest.mark.parametrize("kind", KINDS)
def test_the_proven_gap_is_kept_in_any_order(kind, k, ratios):
    n = 2000
    scores = KINDS[kind](n, k)
    bounds = SizeBounds.from_ratios(k, n_samples=n, lower=ratios[0], upper=ratios[1])
    best = optimum_by_program(scores, bounds)
    for order in ORDERS:
        found = assign_offline(scores if order == "given" else in_order(scores, order), bounds)
        assert found.gap <= 1e-4, order
        assert found.objective <= best + 1e-7 <= found.upper_bound + 2e-7, order


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [1e-6, 1e-2, 1e3])
def test_the_scale_of_the_scores_does_not_matter(kind, scale):
    scores = KINDS[kind](2000, 10)
    bounds = SizeBounds.from_ratios(10, n_samples=2000, lower=0.9, upper=1.1)
    best = optimum_by_program(scores, bounds)
    found = assign_offline(scale * scores, bounds)
    assert found.objective / scale == pytest.approx(best, rel=1e-4)
    assert found.upper_bound / scale == pytest.approx(best, rel=1e-4)
