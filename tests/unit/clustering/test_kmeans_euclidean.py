"""`constrained_kmeans` with squared distances: points of any length, means for centers."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.cluster import KMeans

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.clustering.constrained import constrained_kmeans, kmeans_plus_plus
from dualclust.algos.core.errors import InvalidValueError
from dualclust.algos.online.certificates import violation
from tests.compare import assert_same_kind, to_numpy
from tests.libraries import LIBRARIES

NUMPY = LIBRARIES[0]


def ratios(xp, n, k, **options):
    options = {"lower": 0.75, "upper": 1.25, "rounding": "outward"} | options
    return xp.freeze(
        SizeBounds.from_ratios(k, n_samples=n, xp=xp.namespace, device=xp.device, **options)
    )


def blobs(n=120, k=4, d=3, spread=0.2, seed=0):
    """Points around k places on one ray, which no cosine tells apart; their blobs; the places."""
    rng = np.random.default_rng(seed)
    ray = rng.normal(size=d)
    places = (1.0 + 2.0 * np.arange(k))[:, None] * ray / np.linalg.norm(ray)
    member = rng.permutation(np.arange(n) % k)
    return places[member] + spread * rng.normal(size=(n, d)), member, places


def euclidean(x, bounds, start, **options):
    return constrained_kmeans(x, bounds, start, metric="euclidean", **options)


def inertia(x, centers, labels):
    return float(((x - centers[labels]) ** 2).sum())


def check(found, x, bounds):
    x, centers, labels = (to_numpy(a) for a in (x, found.centers, found.assignment.labels))
    eps = float(np.finfo(centers.dtype).eps)
    x, centers = x.astype(np.float64), centers.astype(np.float64)
    np.testing.assert_array_equal(
        np.bincount(labels, minlength=len(centers)), to_numpy(found.assignment.counts)
    )
    assert violation(found.assignment.counts, bounds) == 0
    # The objective is half of what the squared distances leave of those to the mean.
    left = (((x - x.mean(axis=0)) ** 2).sum() - inertia(x, centers, labels)) / 2
    scale = (x**2).sum() + (centers[labels] ** 2).sum()
    assert found.assignment.objective == pytest.approx(left, abs=8 * eps * scale + 1e-300)
    rounded = found.assignment.rounding + 8 * eps * scale
    assert found.assignment.objective <= found.assignment.upper_bound + rounded


@pytest.mark.parametrize("gap", [1e-4, 0.0])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_blobs_on_one_ray_are_found_and_centers_are_means(dtype, gap):
    x, member, places = blobs()
    x = x.astype(dtype)
    bounds = ratios(NUMPY, 120, 4, lower=0.9, upper=1.1)
    found = euclidean(x, bounds, (places + 0.3).astype(dtype), gap=gap)
    check(found, x, bounds)
    np.testing.assert_array_equal(found.assignment.labels, member)
    means = np.stack([x[member == j].astype(np.float64).mean(axis=0) for j in range(4)])
    np.testing.assert_allclose(found.centers, means, rtol=1e-6)
    assert found.centers.dtype == x.dtype
    assert found.converged


def test_results_are_of_the_library_of_the_features(xp):
    x, member, places = blobs(n=24)
    start = xp.asarray(places + 0.2)
    found = euclidean(xp.asarray(x), ratios(xp, 24, 4), start, max_iter=3)
    assert_same_kind(found.centers, start)
    np.testing.assert_array_equal(to_numpy(found.assignment.labels), member)
    check(found, xp.asarray(x), ratios(xp, 24, 4))


@pytest.mark.parametrize("seed", range(4))
def test_without_bounds_it_is_the_k_means_of_scikit_learn(seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(200, 2))
    start = kmeans_plus_plus(x, rng.random(5))
    bounds = SizeBounds.from_counts([0] * 5, [200] * 5, n_samples=200)
    found = euclidean(x, bounds, start, max_iter=200, tol=0.0)
    theirs = KMeans(5, init=start, n_init=1, max_iter=200, tol=0.0).fit(x)
    np.testing.assert_array_equal(found.assignment.labels, theirs.labels_)
    np.testing.assert_allclose(found.centers, theirs.cluster_centers_, atol=1e-9)
    assert inertia(x, found.centers, found.assignment.labels) == pytest.approx(theirs.inertia_)


@pytest.mark.parametrize("shift", [1e3, 1e6])
def test_far_from_the_origin(shift):
    x, member, places = blobs()
    bounds = ratios(NUMPY, 120, 4, lower=0.9, upper=1.1)
    found = euclidean(x + shift, bounds, places + 0.3 + shift)
    np.testing.assert_array_equal(found.assignment.labels, member)


@pytest.mark.parametrize("scale", [1e-100, 1e-6, 1e6, 1e100])
def test_any_unit_of_length(scale):
    x, _, places = blobs(spread=1.0)
    bounds = ratios(NUMPY, 120, 4, lower=0.9, upper=1.1)
    expected = euclidean(x, bounds, places)
    found = euclidean(scale * x, bounds, scale * places)
    np.testing.assert_allclose(found.centers / scale, expected.centers, rtol=1e-5, atol=1e-7)
    ours, theirs = (
        inertia(x, c, f.assignment.labels)
        for c, f in ((expected.centers, found), (expected.centers, expected))
    )
    assert ours == pytest.approx(theirs, rel=1e-2)


@given(st.integers(0, 2**32))
def test_sizes_are_inside_for_any_data(seed):
    rng = np.random.default_rng(seed)
    n, d, k = int(rng.integers(1, 60)), int(rng.integers(1, 5)), int(rng.integers(1, 6))
    sizes = np.bincount(rng.integers(0, k, size=n), minlength=k)
    lower = np.maximum(sizes - rng.integers(0, 3), 0)
    upper = np.minimum(sizes + rng.integers(0, 3), n)
    x = rng.normal(size=(n, d)) * 10.0 ** rng.integers(-6, 6) + rng.normal(size=d)
    if rng.random() < 0.3:
        x = x[rng.integers(0, max(1, n // 4), size=n)]  # many equal rows
    bounds = SizeBounds.from_counts(lower.tolist(), upper.tolist(), n_samples=n)
    start = x[rng.integers(0, n, size=k)]
    gap = 1e-4 * float(rng.random() < 0.5)
    check(euclidean(x, bounds, start, max_iter=int(rng.integers(0, 4)), gap=gap), x, bounds)


@pytest.mark.parametrize("seed", range(5))
def test_updates_do_not_lose_value(seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(300, 4)) * [3.0, 1.0, 1.0, 0.2]
    bounds = ratios(NUMPY, 300, 6, lower=0.9, upper=1.1)
    start = kmeans_plus_plus(x, rng.random(6))
    first, last = (euclidean(x, bounds, start, max_iter=n, gap=0.0) for n in (0, 20))
    assert inertia(x, last.centers, last.assignment.labels) < inertia(
        x, first.centers, first.assignment.labels
    )


def test_points_at_the_origin(xp):
    x = xp.asarray(np.zeros((12, 2)))
    found = euclidean(x, ratios(xp, 12, 3), x[:3, :], max_iter=2)
    assert to_numpy(found.centers).tolist() == [[0.0, 0.0]] * 3
    assert violation(found.assignment.counts, ratios(xp, 12, 3)) == 0


def test_a_cluster_that_may_hold_nothing_keeps_its_center():
    x, _, places = blobs(k=2)
    away = np.full((1, 3), 77.0)
    bounds = SizeBounds.from_counts([0, 0, 0], [120, 120, 0], n_samples=120)
    found = euclidean(x, bounds, np.concatenate([places, away]))
    assert found.assignment.counts[2] == 0
    np.testing.assert_array_equal(found.centers[2], away[0])


def test_what_is_refused(xp):
    x, _, places = blobs(n=24)
    arguments = xp.asarray(x), ratios(xp, 24, 4), xp.asarray(places)
    with pytest.raises(InvalidValueError, match="metric must be one of 'cosine', 'euclidean'"):
        constrained_kmeans(*arguments, metric="manhattan")
    with pytest.raises(InvalidValueError, match=r"features must be finite, got .* in row 0"):
        euclidean(xp.asarray(x * math.inf), *arguments[1:])
    for scale in (1e200, 1e-200):
        with pytest.raises(InvalidValueError, match="neither overflow nor vanish"):
            euclidean(xp.asarray(x * scale), *arguments[1:])


@pytest.mark.parametrize("weighted", [False, True])
def test_rows_that_are_kept_in_the_frame_change_no_bit(monkeypatch, weighted):
    from dualclust.algos.clustering import _frame
    from dualclust.algos.clustering.lloyd import kmeans

    rng = np.random.default_rng(3)
    x = rng.normal(size=(9_000, 5)) + 7.0
    weights = rng.random(9_000) if weighted else None
    kept = kmeans(x, x[:4], metric="euclidean", weights=weights, max_iter=5)
    assert _frame.frame_of(x, "euclidean", weights).held is not None
    monkeypatch.setattr(_frame, "HELD_ENTRIES", 0)
    assert _frame.frame_of(x, "euclidean", weights).held is None
    anew = kmeans(x, x[:4], metric="euclidean", weights=weights, max_iter=5)
    assert kept.objective == anew.objective
    np.testing.assert_array_equal(kept.centers, anew.centers)
    np.testing.assert_array_equal(kept.labels, anew.labels)
