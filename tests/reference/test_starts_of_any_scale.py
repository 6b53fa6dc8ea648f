"""Prices of any scale as a start: the same optimum, and no bound on the wrong side."""

from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

import dualclust as dc
from dualclust.algos.online import dual_value

SCALES = [1e-300, 1e-20, 1.0, 1e6, 1e12, 1e15, 1e16, 1e17, 1e30, 1e150, 1e300]


def problem(seed, n, k, kind):
    """Scores, and sizes that are all given: a linear assignment of rows to places."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(n, k))
    if kind == "integers":
        scores = rng.integers(-3, 4, size=(n, k)).astype(np.float64)
    if kind == "far from 0":
        scores += 1e6
    if kind == "of many scales":
        scores *= 10.0 ** rng.integers(-6, 7, size=(n, 1))
    sizes = np.bincount(rng.integers(0, k, n), minlength=k)
    return scores, sizes, rng.normal(size=k)


def worth(scores, labels):
    return sum(Fraction(float(v)) for v in scores[np.arange(len(labels)), labels])


@pytest.mark.parametrize("kind", ["plain", "integers", "far from 0", "of many scales"])
@pytest.mark.parametrize("scale", SCALES)
def test_the_optimum_from_prices_of_any_scale(scale, kind):
    for seed, (n, k) in enumerate([(18, 14), (30, 4), (60, 25)]):
        scores, sizes, prices = problem(seed, n, k, kind)
        bounds = dc.SizeBounds.from_counts(sizes, sizes, n_samples=n)
        found = dc.assign_exact(scores, bounds, prices=prices * scale)
        places = np.repeat(np.arange(k), sizes)
        best = worth(scores, places[linear_sum_assignment(scores[:, places], maximize=True)[1]])
        own = worth(scores, found.labels)
        size = np.abs(scores[np.arange(n), found.labels]).sum()
        assert (found.status, found.gap) == ("optimal", 0.0)
        assert np.bincount(found.labels, minlength=k).tolist() == sizes.tolist()
        assert best - own <= 2.0**-46 * size
        assert found.rounding == pytest.approx(2.0**-45 * size)
        assert best <= Fraction(found.upper_bound) + Fraction(found.rounding)
        for proof in (found.prices, prices * scale):
            assert best <= Fraction(dual_value(scores, proof, bounds))


@pytest.mark.parametrize("scale", [1.0, 1e17, 1e300])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_passes_over_many_rows_from_prices_of_any_scale(scale, dtype):
    """Too many scores for all to be candidates: samples, trust regions and candidates."""
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(4_000, 40)).astype(dtype)
    bounds = dc.SizeBounds.from_ratios(40, n_samples=4_000, lower=0.9, upper=1.1)
    expected = dc.assign_exact(scores, bounds)
    found = dc.assign_exact(scores, bounds, prices=rng.normal(size=40) * scale)
    assert found.status == expected.status == "optimal"
    assert found.objective == pytest.approx(expected.objective, rel=1e-13)


def test_a_start_whose_rounding_hides_the_scores_leaves_a_gap_or_is_dropped():
    """One pair of each row at -1e15 lets prices of 1e15 pass for a start; beside them 1 is lost."""
    rng = np.random.default_rng(5)
    scores = rng.normal(size=(12, 6))
    scores[np.arange(12), rng.integers(0, 6, 12)] = -1e15
    bounds = dc.SizeBounds.from_counts([2] * 6, [2] * 6, n_samples=12)
    cold = dc.assign_exact(scores, bounds)
    assert cold.status == "optimal"
    for seed in range(40):
        prices = np.random.default_rng(seed).normal(size=6) * 1e16
        found = dc.assign_exact(scores, bounds, prices=prices)
        assert found.status == "optimal"
        assert found.objective == pytest.approx(cold.objective, rel=1e-13)
