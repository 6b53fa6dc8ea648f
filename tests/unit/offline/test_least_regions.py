"""Regions, curvatures and temperatures so small that a quotient of them would leave float64."""

import math

import numpy as np
import pytest

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.offline._candidates import TrustRegion, select_candidates
from dualclust.algos.offline._online_prices import averaged_region
from dualclust.algos.offline._smoothed_dual import RefinedPrices, SmoothedDual, descend
from dualclust.algos.offline._trust_region import price_errors
from dualclust.algos.scores.sources import score_source
from dualclust.backends import engine
from tests.compare import to_numpy


def fixed_rows(xp, low, high):
    """A problem of two clusters whose rows are all fixed: prices alone decide."""
    none = xp.asarray(np.zeros((0, 2))), xp.asarray(np.zeros((0, 2), dtype=np.int32))
    vectors = [[3.0, 0.0], [3.0, 0.0], [3.0, 2.0], low, high]
    return SmoothedDual(*none, *(xp.asarray(np.asarray(v)) for v in vectors))


def test_a_curvature_that_is_subnormal(xp):
    # 735 temperatures from 0, the curvature of a bound is 1e-319, and its ridge would be 0.
    temperature, price = 1e-28, 735e-28
    problem = fixed_rows(xp, [-1.0, price / 2], [1.0, 2.0 * price])
    prices = xp.asarray(np.asarray([0.5, price]))
    found, n_fractional, _ = descend(problem, prices, temperature)
    assert np.isfinite(to_numpy(found)).all()
    assert n_fractional == 0.0


def test_prices_beyond_any_temperature(xp):
    problem = fixed_rows(xp, [-1e30, -1e30], [1e30, 1e30])
    prices = xp.asarray(np.asarray([1e30, -1e30]))
    found, *_ = descend(problem, prices, 1e-290)
    assert np.isfinite(to_numpy(found)).all()


def test_errors_of_prices_in_a_region_without_extent(xp):
    problem = fixed_rows(xp, [0.5, -0.5], [0.5, -0.5])
    prices = xp.asarray(np.asarray([0.5, -0.5]))
    errors = to_numpy(price_errors(problem, RefinedPrices(prices, 1e-3), 0.5))
    assert np.isfinite(errors).all()
    assert (errors <= 1e-12).all()


@pytest.mark.parametrize("radius", [1e-300, 5e-324])
def test_averages_in_a_region_of_no_extent_are_in_doubt(radius):
    scores = np.random.default_rng(0).normal(size=(64, 4))
    bounds = SizeBounds.from_counts([64] * 4, n_samples=256)
    region = TrustRegion(np.zeros(4), np.full(4, radius))
    assert averaged_region(score_source(scores), bounds, region, 8) is None


def test_the_largest_number_of_a_precision_has_candidates():
    least = np.asarray([[-np.finfo(np.float32).max, -math.inf]], dtype=np.float32)
    with engine("reference"):
        clusters, _, n_candidates, _ = select_candidates(least, np.zeros(2), np.zeros(2), width=2)
    assert clusters.tolist() == [[0, -1]]
    assert n_candidates.tolist() == [1]
