"""How wide a box can be for lists of a bounded size."""

import math

import numpy as np
import pytest

from dualclust.algos.offline._candidates import list_open
from dualclust.algos.offline._widths import CUT, widest_box
from dualclust.algos.scores.sources import score_source
from tests.compare import to_numpy


@pytest.mark.parametrize("entries", [2_000, 8_000, 40_000])
def test_lists_of_the_box_fit_and_are_seldom_cut(xp, rng, entries):
    n, k = 1000, 60
    scores, prices = rng.normal(size=(n, k)), xp.asarray(rng.normal(size=k))
    limit = widest_box(xp.asarray(scores), prices, n_rows=n, entries=entries)
    source = score_source(xp.asarray(scores))
    inside = 0.999 * limit.radius
    listing = list_open(source, prices - inside, prices + inside, width=limit.width)
    assert listing.clusters.shape[0] * limit.width <= entries
    cut = to_numpy(listing.cuts) > -math.inf
    assert cut.sum() <= CUT * n
    wider = 1.5 * limit.radius
    listing = list_open(source, prices - wider, prices + wider, width=limit.width)
    cut = to_numpy(listing.cuts) > -math.inf
    assert listing.clusters.shape[0] * limit.width > entries or cut.sum() > CUT * n


def test_no_wider_lists_than_a_radius_asks_for(xp, rng):
    scores, prices = xp.asarray(rng.normal(size=(500, 60))), xp.asarray(np.zeros(60))
    most = widest_box(scores, prices, n_rows=500, entries=10**6)
    less = widest_box(scores, prices, n_rows=500, entries=10**6, wanted=most.radius / 8.0)
    assert less.width < most.width
    assert less.radius >= most.radius / 8.0


def test_few_clusters_ties_and_forbidden_pairs(xp):
    zeros = np.zeros(3)
    scores = np.asarray([[1.0, 0.0, -math.inf]] * 5)
    assert widest_box(xp.asarray(scores), xp.asarray(zeros), n_rows=5, entries=100) == (0.0, 3)
    ties = widest_box(xp.asarray(np.ones((5, 9))), xp.asarray(np.zeros(9)), n_rows=5, entries=10)
    assert ties.radius == 0.0
    alone = np.where(np.arange(9) == 4, 1.0, -math.inf) * np.ones((5, 1))
    alone[:, 4] = 1.0
    found = widest_box(xp.asarray(alone), xp.asarray(np.zeros(9)), n_rows=5, entries=10)
    assert found.radius == math.inf
