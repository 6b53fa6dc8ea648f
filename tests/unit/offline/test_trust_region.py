"""The trust region: learned on samples, moved and grown, and as large as its candidates allow."""

import math

import numpy as np
import pytest

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.offline import SolverOptions
from dualclust.algos.offline._candidates import TrustRegion, collect_candidates
from dualclust.algos.offline._options import DEFAULT_OPTIONS
from dualclust.algos.offline._trust_region import initial_region, largest_radius, next_region
from dualclust.algos.offline.assignment import assign_exact
from dualclust.algos.scores.sources import score_source
from dualclust.algos.scores.statistics import score_range
from tests.compare import to_numpy
from tests.problems import cone_scores, mixture_scores


@pytest.mark.parametrize("make", [cone_scores, mixture_scores])
def test_the_region_of_a_sample_holds_the_best_prices(make):
    n, k = 20_000, 10
    scores = make(n, k).astype(np.float32)
    bounds = SizeBounds.from_ratios(k, n_samples=n, lower=0.9, upper=1.1)
    best = assign_exact(scores, bounds).prices
    options = SolverOptions(min_sample_rows=1000)
    region = initial_region(score_source(scores), bounds, options=options)
    inside = np.abs(best - region.center) <= region.radius
    assert inside.mean() >= 0.9
    assert np.median(region.radius) <= 0.1 * score_range(scores)


def test_a_region_grows_where_prices_left_it_and_shrinks_elsewhere(xp):
    region = TrustRegion(xp.asarray([0.0, 0.0, 0.0]), xp.asarray([1.0, 1.0, 1.0]))
    new = next_region(region, xp.asarray([0.5, -1.0, 3.0]))
    assert to_numpy(new.center).tolist() == [0.5, -1.0, 3.0]
    assert to_numpy(new.radius).tolist() == [0.25, 4.0, 12.0]
    slow = next_region(region, xp.asarray([0.5, -1.0, 3.0]), is_moving=True)
    assert to_numpy(slow.radius).tolist() == [1.0, 2.0, 6.0]
    arrived = next_region(slow, slow.center + xp.asarray([0.0, 0.0, 6.0]), is_moving=True)
    assert to_numpy(arrived.radius).tolist() == [1.0, 2.0, 12.0]
    rest = next_region(region, xp.asarray([0.5, -0.5, 0.0]), is_moving=True)
    assert to_numpy(rest.radius).tolist() == [0.25, 0.25, 0.25]


@pytest.mark.parametrize("entries", [2_000, 8_000, 40_000])
def test_candidates_of_the_region_fit_and_are_seldom_truncated(xp, rng, entries):
    n, k = 1000, 60
    most = DEFAULT_OPTIONS.limit_truncated * n
    scores, prices = rng.normal(size=(n, k)), xp.asarray(rng.normal(size=k))
    limit = largest_radius(xp.asarray(scores), prices, n_rows=n, max_entries=entries)
    source = score_source(xp.asarray(scores))
    inside = 0.999 * limit.radius
    kept = collect_candidates(source, prices - inside, prices + inside, width=limit.width)
    assert kept.clusters.shape[0] * limit.width <= entries
    assert to_numpy(kept.is_truncated).sum() <= most
    wider = 1.5 * limit.radius
    kept = collect_candidates(source, prices - wider, prices + wider, width=limit.width)
    n_truncated = to_numpy(kept.is_truncated).sum()
    assert kept.clusters.shape[0] * limit.width > entries or n_truncated > most


def test_no_more_candidates_than_a_radius_asks_for(xp, rng):
    scores, prices = xp.asarray(rng.normal(size=(500, 60))), xp.asarray(np.zeros(60))
    most = largest_radius(scores, prices, n_rows=500, max_entries=10**6)
    wanted = most.radius / 8.0
    less = largest_radius(scores, prices, n_rows=500, max_entries=10**6, wanted=wanted)
    assert less.width < most.width
    assert less.radius >= wanted


def test_few_clusters_ties_and_forbidden_pairs(xp):
    zeros, scores = xp.asarray(np.zeros(3)), np.asarray([[1.0, 0.0, -math.inf]] * 5)
    few = largest_radius(xp.asarray(scores), zeros, n_rows=5, max_entries=100)
    assert few == (0.0, 3)
    zeros = xp.asarray(np.zeros(9))
    ties = largest_radius(xp.asarray(np.ones((5, 9))), zeros, n_rows=5, max_entries=10)
    assert ties.radius == 0.0
    alone = np.where(np.arange(9) == 4, 1.0, -math.inf) * np.ones((5, 1))
    alone[:, 4] = 1.0
    found = largest_radius(xp.asarray(alone), zeros, n_rows=5, max_entries=10)
    assert found.radius == math.inf
