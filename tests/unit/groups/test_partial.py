"""Rows that may stay out: against all choices, at prices of staying out, and in k-means."""

from itertools import combinations

import numpy as np
import pytest

import dualclust as dc
from dualclust.algos.bounds import GroupBounds
from dualclust.algos.clustering import grouped_kmeans, trimmed_kmeans
from dualclust.algos.core.errors import InfeasibleBoundsError, InvalidValueError
from dualclust.algos.offline.grouped import assign_partial
from dualclust.algos.scores.sources import score_source
from tests.compare import to_numpy
from tests.libraries import LIBRARIES
from tests.problems import best_value


def best_of_all(scores, outside, max_out, lower, upper):
    """Try each set of rows that stay out."""
    n, k = scores.shape
    values = [-np.inf]
    for m in range(max_out + 1):
        for out in combinations(range(n), m):
            kept = np.delete(scores, out, axis=0)
            if lower * k <= n - m <= upper * k:
                sides = np.full(k, lower), np.full(k, upper)
                values.append(best_value(kept, *sides) + outside[list(out)].sum())
    return max(values)


@pytest.mark.parametrize("seed", range(12))
def test_values_are_the_best_of_all_choices(seed):
    rng = np.random.default_rng(seed)
    scores, outside = rng.normal(size=(6, 2)), rng.normal(size=6) * (seed % 2)
    lower, upper = (1, 3) if seed % 3 else (0, 2)
    found = assign_partial(
        scores,
        max_out=3,
        out_score=outside if seed % 2 else 0.0,
        min_count=lower,
        max_count=upper,
    )
    assert found.objective == pytest.approx(best_of_all(scores, outside, 3, lower, upper))
    assert found.status == "optimal"
    assert found.labels.min() >= -1


def test_at_a_price_each_row_stays_out_or_not_on_its_own():
    scores = np.asarray([[-1.0], [-4.0], [-2.5], [-9.0]])
    found = assign_partial(scores, max_out=4, out_score=-3.0)
    assert found.labels.tolist() == [0, -1, 0, -1]
    assert found.out_price == 0.0
    only_one = assign_partial(scores, max_out=1, out_score=-3.0)
    assert only_one.labels.tolist() == [0, 0, 0, -1]
    assert -6.0 <= only_one.out_price <= -1.0


def test_a_source_and_a_gap_on_many_rows():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(40_000, 12)).astype(np.float32)
    whole = assign_partial(scores, max_out=400, out_score=3.0, min_count=3000)
    assert whole.n_out == 400
    assert whole.status == "optimal"
    near = assign_partial(
        score_source(scores), max_out=400, out_score=3.0, min_count=3000, tol=1e-3
    )
    assert near.gap <= 1e-3
    assert near.objective <= whole.upper_bound
    again = assign_partial(
        scores,
        max_out=400,
        out_score=3.0,
        min_count=3000,
        prices=(whole.prices, whole.out_price),
    )
    assert again.objective == pytest.approx(whole.objective)


def test_what_is_refused():
    scores = np.zeros((4, 2))
    with pytest.raises(InvalidValueError, match="max_out must be at most the 4 rows, got 5"):
        assign_partial(scores, max_out=5)
    with pytest.raises(InvalidValueError, match="out_score"):
        assign_partial(scores, max_out=1, out_score=np.inf)
    with pytest.raises(InfeasibleBoundsError):
        assign_partial(scores, max_out=1, max_count=1)
    with pytest.raises(InvalidValueError, match="unit"):
        assign_partial(score_source(scores, np.full(4, 3.0)), max_out=1)


def test_outliers_move_no_center_on_the_sphere():
    assert_outliers_move_none(LIBRARIES[0], "cosine")


def test_outliers_move_no_center(xp):
    assert_outliers_move_none(xp, "euclidean")


def assert_outliers_move_none(xp, metric):
    rng = np.random.default_rng(4)
    middle = np.asarray([[9.0, 0.0, 1.0], [0.0, 9.0, 1.0], [1.0, 0.0, 9.0]])
    rows = np.repeat(middle, 40, axis=0) + 0.1 * rng.normal(size=(120, 3))
    rows[::40] = -50.0 - np.arange(3)[:, None]
    if metric == "cosine":
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    found = trimmed_kmeans(
        xp.asarray(rows), xp.asarray(rows[5::40]), max_out=3, min_count=39, metric=metric
    )
    labels = to_numpy(found.assignment.labels)
    assert np.flatnonzero(labels < 0).tolist() == [0, 40, 80]
    expected = np.stack([rows[labels == j].mean(axis=0) for j in range(3)])
    if metric == "cosine":
        expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(to_numpy(found.centers), expected, rtol=1e-7)
    assert found.converged


def test_only_rows_beyond_the_distance_stay_out():
    x = np.asarray([[0.0], [1.0], [2.0], [10.0], [30.0]])
    found = trimmed_kmeans(x, x[1:2], max_out=5, distance=5.0, metric="euclidean")
    assert found.assignment.labels.tolist() == [0, 0, 0, -1, -1]


def test_fair_clusters_in_every_library(xp):
    rng = np.random.default_rng(5)
    rows = rng.normal(size=(90, 3))
    groups = (rows[:, 0] > 0).astype(np.int64)  # without bounds, clusters are of one group
    bounds = dc.SizeBounds.from_ratios(
        3, n_samples=90, lower=0.8, upper=1.2, xp=xp.namespace, device=xp.device
    )
    fair = GroupBounds.from_shares(xp.asarray(groups), 3, lower=0.7, upper=1.3)
    found = grouped_kmeans(
        xp.asarray(rows), bounds, fair, xp.asarray(rows[:3]), metric="euclidean", max_iter=1
    )
    labels = to_numpy(found.assignment.labels)
    for g in range(2):
        counts = np.bincount(labels[groups == g], minlength=3)
        mean = (groups == g).sum() / 3
        assert (counts >= np.floor(0.7 * mean)).all()
        assert (counts <= np.ceil(1.3 * mean)).all()


def test_the_objective_of_fair_clusters_never_falls():
    rng = np.random.default_rng(6)
    rows, groups = rng.normal(size=(200, 2)), np.arange(200) % 2
    bounds = dc.SizeBounds.from_ratios(4, n_samples=200, lower=0.9, upper=1.1)
    fair = GroupBounds.from_shares(groups, 4, lower=0.9, upper=1.1)
    values = [
        grouped_kmeans(
            rows, bounds, fair, rows[:4], metric="euclidean", max_iter=m, tol=0.0
        ).assignment.objective
        for m in range(8)
    ]
    assert (np.diff(values) >= -1e-9).all()
    assert values[-1] > values[0]
