"""Prices from samples, and the box that holds the best ones."""

import math

import numpy as np
import pytest

from dualclust.algos.bounds.sizes import SizeBounds, relaxed
from dualclust.algos.offline import _trust_region as trust_region
from dualclust.algos.offline._learning import (
    learn_prices,
    lift_idle,
    median,
    score_range,
    strided_ids,
)
from dualclust.algos.offline._trust_region import PriceBox, first_box, next_box
from dualclust.algos.offline.assignment import assign_exact
from dualclust.algos.scores.sources import score_source
from tests.compare import to_numpy
from tests.problems import cone_scores, mixture_scores


@pytest.mark.parametrize("n", [1, 2, 7, 8, 100, 1024])
def test_strided_ids_visit_every_row_once(xp, n):
    ids = to_numpy(strided_ids(n, n, xp.asarray([0.0])))
    assert sorted(ids.tolist()) == list(range(n))
    part = to_numpy(strided_ids(n, (n + 1) // 2, xp.asarray([0.0])))
    np.testing.assert_array_equal(part, ids[: len(part)])


def test_neighbors_in_the_order_lie_far_apart(xp):
    ids = to_numpy(strided_ids(100_000, 500, xp.asarray([0.0])))
    assert np.diff(np.sort(ids)).max() <= 400  # 500 rows from all over 100,000


def test_the_range_of_scores_ignores_rows_that_are_far_out(xp):
    scores = np.asarray([[0.0, 1.0], [0.0, 2.0], [0.0, 1e30], [1.0, -math.inf]])
    assert score_range(xp.asarray(scores)) == 2.0
    assert score_range(xp.asarray(np.ones((3, 2)))) == 1.0
    assert median(xp.asarray(np.zeros(0))) == 0.0


def test_prices_learned_online_fill_the_clusters(xp):
    scores = mixture_scores(400, 5)
    source = score_source(xp.asarray(scores))
    bounds = relaxed(
        SizeBounds.from_ratios(
            5, n_samples=400, lower=0.9, upper=1.1, xp=xp.namespace, device=xp.device
        )
    )

    def outside(prices):
        sizes = np.bincount((scores + to_numpy(prices)).argmax(axis=1), minlength=5)
        return np.maximum(sizes - 88, 72 - sizes).clip(0).sum()

    cold = xp.asarray(np.zeros(5))
    learned = learn_prices(source, bounds, n_passes=4)
    assert outside(learned) < outside(cold) / 2
    again = learn_prices(source, bounds, n_passes=0, prices=learned)
    np.testing.assert_array_equal(to_numpy(again), to_numpy(learned))


def test_idle_clusters_are_lifted_until_they_tie(xp, rng):
    scores, prices = rng.normal(size=(30, 5)), np.asarray([0.0, -9.0, 0.5, -9.0, 0.0])
    lifted = to_numpy(lift_idle(xp.asarray(scores), xp.asarray(prices), xp.asarray(np.ones(5))))
    priced = scores + lifted
    np.testing.assert_array_less(-1e-12, (priced - priced.max(axis=1, keepdims=True)).max(axis=0))
    loose = np.asarray([1.0, 0.0, 1.0, 1.0, 1.0])
    held = to_numpy(lift_idle(xp.asarray(scores), xp.asarray(prices), xp.asarray(loose)))
    assert held[1] <= 0.0
    forbidden = np.where(np.arange(5) == 3, -math.inf, scores)
    found = lift_idle(xp.asarray(forbidden), xp.asarray(prices), xp.asarray(np.ones(5)))
    assert to_numpy(found)[3] == -9.0


@pytest.mark.parametrize("make", [cone_scores, mixture_scores])
def test_the_box_of_a_sample_holds_the_best_prices(monkeypatch, make):
    monkeypatch.setattr(trust_region, "FEWEST_ROWS", 1000)
    n, k = 20_000, 10
    scores = make(n, k).astype(np.float32)
    bounds = SizeBounds.from_ratios(k, n_samples=n, lower=0.9, upper=1.1)
    best = assign_exact(scores, bounds).prices
    box = first_box(score_source(scores), bounds)
    inside = np.abs(best - box.prices) <= box.radius
    assert inside.mean() >= 0.9
    assert np.median(box.radius) <= 0.1 * score_range(scores)


def test_a_box_widens_where_prices_left_it_and_narrows_elsewhere(xp):
    box = PriceBox(xp.asarray([0.0, 0.0, 0.0]), xp.asarray([1.0, 1.0, 1.0]))
    new = next_box(box, xp.asarray([0.5, -1.0, 3.0]))
    assert to_numpy(new.prices).tolist() == [0.5, -1.0, 3.0]
    assert to_numpy(new.radius).tolist() == [0.25, 4.0, 12.0]
    slow = next_box(box, xp.asarray([0.5, -1.0, 3.0]), follow=True)
    assert to_numpy(slow.radius).tolist() == [1.0, 2.0, 6.0]
    arrived = next_box(slow, slow.prices + xp.asarray([0.0, 0.0, 6.0]), follow=True)
    assert to_numpy(arrived.radius).tolist() == [1.0, 2.0, 12.0]
    rest = next_box(box, xp.asarray([0.5, -0.5, 0.0]), follow=True)
    assert to_numpy(rest.radius).tolist() == [0.25, 0.25, 0.25]
