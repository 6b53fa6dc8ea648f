"""Attempts on one sample: which region is accepted, and from which temperature the next one starts.

The look at a sample is made by hand, so that each case is one number apart from the others.
"""

import math

import numpy as np
import pytest

from dualclust.algos.offline import SolverOptions, _trust_region
from dualclust.algos.offline._candidates import TrustRegion, collect_candidates
from dualclust.algos.offline._cooling import COOLING
from dualclust.algos.offline._smoothed_dual import RefinedPrices
from dualclust.algos.scores.sources import score_source

K = 4
SCORES = np.random.default_rng(0).normal(size=(40, K))
OPTIONS = SolverOptions(attempts=3)


def sample_of(few: float) -> _trust_region._Sample:
    share, lower, upper = 0.1, np.full(K, 8.0), np.full(K, 12.0)
    return _trust_region._Sample(score_source(SCORES), share, lower, upper, 10.0, few)


def look_at(region: TrustRegion, prices: list[float], temperature: float) -> _trust_region._Look:
    source = score_source(SCORES)
    candidates = collect_candidates(
        source, region.center - region.radius, region.center + region.radius, width=K
    )
    refined = RefinedPrices(np.asarray(prices), temperature)
    problem = candidates.problem(np.full(K, 8.0), np.full(K, 12.0))
    return _trust_region._Look(candidates, problem, refined, candidates.at_edge(refined.prices))


REGION = TrustRegion(np.zeros(K), np.full(K, 0.5))


@pytest.mark.parametrize(
    ("few", "prices", "n_looks", "radii"),
    [
        (0.0, [0.1, 0.0, 0.0, -0.1], 1, "learned"),
        (1.0, [0.5, 0.0, 0.0, -0.1], 1, "kept"),
        (1.0, [0.5, 0.0, 0.0, -0.5], 3, "grown"),  # two are more than few
        (0.0, [0.5, 0.0, 0.0, 0.1], 3, "grown"),
    ],
)
def test_few_prices_may_leave_a_region_that_is_right_for_the_others(
    monkeypatch, few, prices, n_looks, radii
):
    starts = []

    def refined(sample, attempt, options):
        starts.append(attempt.temperature)
        # Each time as far out as the region lets them, relative to it.
        center, radius = attempt.region
        return look_at(attempt.region, center + 2.0 * radius * np.asarray(prices), 0.25)

    monkeypatch.setattr(_trust_region, "_refined", refined)
    region, is_tied, is_settled = _trust_region._refine_on(
        sample_of(few), REGION, OPTIONS.attempts, OPTIONS
    )
    assert not is_tied
    assert is_settled is (radii == "learned")  # no price stands at the edge
    assert starts == [math.inf, COOLING * 0.25, COOLING * 0.25][:n_looks]
    at_edge = np.abs(np.asarray(prices)) == 0.5
    if radii == "kept":
        np.testing.assert_array_equal(region.radius[at_edge], [0.5])
    elif radii == "grown":
        growth = OPTIONS.region_growth**n_looks
        np.testing.assert_allclose(region.radius[at_edge], np.minimum(0.5 * growth, 10.0))
    assert np.all(region.radius[~at_edge] > 2.0 * 0.25)  # deviations, and the temperature


def test_a_sample_after_the_first_makes_no_region_wider_that_held_its_prices(monkeypatch):
    inside, at_edge = [0.1, 0.0, 0.0, -0.1], [0.5, 0.0, 0.0, -0.1]
    radii = {}
    for few, prices in ((0.0, inside), (1.0, inside), (1.0, at_edge)):
        look = look_at(REGION, prices, 0.25)
        monkeypatch.setattr(_trust_region, "_refined", lambda *_, look=look: look)
        region, *_ = _trust_region._refine_on(sample_of(few), REGION, OPTIONS.attempts, OPTIONS)
        radii[few, prices is inside] = region.radius
    assert np.all(radii[0.0, True] > 0.5)
    np.testing.assert_array_equal(radii[1.0, True], REGION.radius)
    assert np.all(radii[1.0, False][1:] > 0.5)  # it did not hold them all


def test_an_attempt_starts_no_hotter_than_the_one_before_has_ended(monkeypatch):
    starts = []

    def refine_prices(problem, prices, *, start, border):
        starts.append(start)
        return RefinedPrices(prices, start)

    monkeypatch.setattr(_trust_region, "refine_prices", refine_prices)
    for temperature in (math.inf, 0.01):
        attempt = _trust_region._Attempt(REGION, K, 3, 0, temperature)
        _trust_region._refined(sample_of(0.0), attempt, OPTIONS)
    assert starts == [0.5 * OPTIONS.sample_temperature, 0.01]
