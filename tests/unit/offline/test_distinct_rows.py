"""Tables of few distinct rows: the prices of their linear program, and the optimum from there."""

import numpy as np
import pytest

import dualclust as dc
from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.offline._special_cases import region_of_distinct_rows
from dualclust.algos.online import dual_value
from dualclust.algos.scores.sources import score_source
from tests.compare import to_numpy
from tests.highs import best_plan
from tests.libraries import ONE_EACH


def table(seed, n=1_200, m=12, k=60):
    """Rows of which few are distinct, and how often each occurs."""
    rng = np.random.default_rng(seed)
    distinct = rng.normal(size=(m, k))
    names = rng.integers(0, m, n)
    return distinct[names]


@pytest.mark.parametrize("library", ONE_EACH, ids=lambda row: row.name)
def test_the_prices_of_the_program_prove_the_optimum(library):
    """No other prices prove less: their dual value is what the best labels are worth."""
    for seed, (low, high) in enumerate([(0.9, 1.1), (1.0, 1.0), (0.0, 1.5), (0.5, 60.0)]):
        scores = table(seed)
        bounds = SizeBounds.from_ratios(60, n_samples=1_200, lower=low, upper=high)
        own = SizeBounds.from_ratios(60, n_samples=1_200, lower=low, upper=high, **library.place)
        region = region_of_distinct_rows(score_source(library.asarray(scores)), own)
        prices = to_numpy(region.center)
        found = dc.assign_exact(scores, bounds)
        assert found.status == "optimal"
        assert dual_value(scores, prices, bounds) == pytest.approx(found.objective, rel=1e-12)


def test_the_optimum_is_that_of_the_program_of_all_rows():
    scores = table(5, n=300, m=5, k=20)
    bounds = SizeBounds.from_ratios(20, n_samples=300, lower=0.8, upper=1.2)
    region = region_of_distinct_rows(score_source(scores), bounds)
    best = best_plan(scores, bounds.lower, bounds.upper)
    assert dual_value(scores, region.center, bounds) == pytest.approx(best.value, rel=1e-12)


def test_rows_that_do_not_repeat_and_forbidden_pairs_have_no_such_start():
    bounds = SizeBounds.from_ratios(60, n_samples=1_200, lower=0.9, upper=1.1)
    normal = np.random.default_rng(0).normal(size=(1_200, 60))
    few_rows = score_source(normal)._replace(block=None)  # which tell that they do not repeat
    assert region_of_distinct_rows(few_rows, bounds) is None
    scores = table(0)
    scores[scores[:, 3] == scores[0, 3], 7] = -np.inf
    assert region_of_distinct_rows(score_source(scores), bounds) is None
    many = np.tile(np.random.default_rng(1).normal(size=(40, 2_000)), (30, 1))
    wide = SizeBounds.from_ratios(2_000, n_samples=1_200, lower=0.0, upper=1_000.0)
    assert region_of_distinct_rows(score_source(many), wide) is None  # more than HiGHS is asked


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_weights_and_rows_alike_but_for_one_end_at_the_optimum(dtype):
    """Half of the rows are like others, one is alone; weights make more rows differ."""
    scores = table(2, n=2_000, m=25, k=50).astype(dtype)
    scores[7] += np.random.default_rng(3).normal(size=50).astype(dtype)
    weights = np.where(np.arange(2_000) % 2, 2.0, 1.0)
    bounds = SizeBounds.from_ratios(50, n_samples=2_000, lower=0.9, upper=1.1)
    for given in (None, weights):
        found = dc.assign_exact(scores, bounds, weights=given)
        assert (found.status, found.violation) == ("optimal", 0)


@pytest.mark.parametrize(("m", "k"), [(1_100, 4), (20, 1_100)])
def test_more_than_a_thousand_rows_are_distinct_or_as_many_clusters(m, k):
    """Most rows are one of twenty."""
    n, rng = max(10 * m, 2 * k), np.random.default_rng(0)
    names = np.concatenate([np.arange(m), rng.integers(0, 20, n - m)])
    scores = rng.normal(size=(m, k))[rng.permutation(names)]
    bounds = SizeBounds.from_ratios(k, n_samples=n, lower=0.5, upper=1.5)
    region = region_of_distinct_rows(score_source(scores), bounds)
    found = dc.assign_exact(scores, bounds)
    assert found.status == "optimal"
    assert dual_value(scores, region.center, bounds) == pytest.approx(found.objective, rel=1e-12)
