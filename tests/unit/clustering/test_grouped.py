"""k-means with bounds on groups, or with rows that stay out."""

import numpy as np

import dualclust as dc
from dualclust.algos.bounds import GroupBounds
from dualclust.algos.clustering import grouped_kmeans, linked_kmeans, trimmed_kmeans
from tests.compare import to_numpy
from tests.libraries import LIBRARIES


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


def test_weights_known_rows_and_forbidden_pairs_beside_groups():
    """The judge sees labels, prices and figures of the weighted and restricted problem."""
    rng = np.random.default_rng(7)
    rows, groups = rng.normal(size=(120, 2)), np.arange(120) % 3
    bounds = dc.SizeBounds.from_ratios(4, n_samples=120, lower=0.9, upper=1.1)
    fair = GroupBounds.from_shares(groups, 4, lower=0.9, upper=1.1)
    weights = rng.uniform(0.0, 3.0, 120)
    fixed, forbidden = np.full(120, -1), np.asarray([[1, 0], [1, 1], [2, 3]])
    fixed[:40:10] = [3, 2, 1, 0]
    rules = {"weights": weights, "fixed": fixed, "forbidden": forbidden}
    found = grouped_kmeans(rows, bounds, fair, rows[:4], metric="euclidean", **rules)
    labels = found.assignment.labels
    assert (labels[:40:10] == fixed[:40:10]).all()
    assert (labels[forbidden[:, 0]] != forbidden[:, 1]).all()
    assert found.converged
    before = grouped_kmeans(
        rows, bounds, fair, rows[:4], metric="euclidean", max_iter=found.n_iter - 1, **rules
    )
    expected = [
        np.average(rows[of_cluster], axis=0, weights=weights[of_cluster])
        for of_cluster in (before.assignment.labels == j for j in range(4))
    ]
    np.testing.assert_allclose(found.centers, expected, rtol=1e-9)


def test_no_update_begins_once_time_is_up():
    rng = np.random.default_rng(8)
    rows, groups = rng.normal(size=(60, 2)), np.arange(60) % 2
    bounds = dc.SizeBounds.from_ratios(3, n_samples=60, lower=0.9, upper=1.1)
    apart = GroupBounds.from_shares(groups, 3)
    for found in (
        grouped_kmeans(rows, bounds, apart, rows[:3], metric="euclidean", time_limit=0.0),
        trimmed_kmeans(rows, rows[:3], max_out=4, metric="euclidean", time_limit=0.0),
    ):
        assert (found.n_iter, found.converged) == (0, False)
        assert found.assignment.status == "optimal"


def test_linked_rows_keep_their_pairs_and_the_objective_never_falls(xp):
    rng = np.random.default_rng(9)
    rows = rng.normal(size=(60, 2))
    order = rng.permutation(60)[:24].reshape(-1, 2)
    must, cannot = order[:6], order[6:]
    bounds = dc.SizeBounds.from_ratios(
        4, n_samples=60, lower=0.9, upper=1.1, xp=xp.namespace, device=xp.device
    )
    values = []
    for max_iter in (0, 1, 30):
        found = linked_kmeans(
            xp.asarray(rows),
            bounds,
            xp.asarray(rows[:4]),
            must_link=xp.asarray(must),
            cannot_link=xp.asarray(cannot),
            metric="euclidean",
            max_iter=max_iter,
            tol=0.0,
        )
        labels = to_numpy(found.assignment.labels)
        assert (labels[must[:, 0]] == labels[must[:, 1]]).all()
        assert (labels[cannot[:, 0]] != labels[cannot[:, 1]]).all()
        assert found.assignment.gap <= 0.01
        values.append(found.assignment.objective)
    assert (np.diff(values) >= -1e-9).all()
    assert values[-1] > values[0]
    assert found.converged
