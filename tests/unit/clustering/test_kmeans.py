"""`constrained_kmeans` on the sphere: unit rows, directions for centers."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.clustering.constrained import (
    ConstrainedKMeansResult,
    KMeansState,
    best_of,
    constrained_kmeans,
    kmeans_plus_plus,
)
from dualclust.algos.clustering.metrics import clustering_scores
from dualclust.algos.core.errors import DeviceMismatchError, InvalidTypeError, InvalidValueError
from dualclust.algos.offline.assignment import assign_offline
from dualclust.algos.online.certificates import violation
from tests.compare import assert_equal, assert_same_kind, to_numpy
from tests.libraries import LIBRARIES
from tests.problems import cone_features, unit_rows
from tests.refusals import assert_refused

NUMPY = LIBRARIES[0]


def ratios(xp, n, k, **options):
    options = {"lower": 0.75, "upper": 1.25, "rounding": "outward"} | options
    return xp.freeze(
        SizeBounds.from_ratios(k, n_samples=n, xp=xp.namespace, device=xp.device, **options)
    )


def groups(n=60, k=4, d=16, spread=0.3, seed=0, offset=0.0):
    """Unit rows around k directions, in turn; their groups; the directions."""
    rng = np.random.default_rng(seed)
    directions = unit_rows(rng.normal(size=(k, d)))
    member = np.arange(n) % k
    x = directions[member] + spread * rng.normal(size=(n, d)) / np.sqrt(d)
    return unit_rows(x + offset * unit_rows(rng.normal(size=(1, d)))), member, directions


def check(found, x, bounds):
    """What every result must satisfy, recomputed."""
    x, centers, labels = (to_numpy(a) for a in (x, found.centers, found.assignment.labels))
    sizes = to_numpy(found.assignment.counts)
    eps = float(np.finfo(centers.dtype).eps)
    np.testing.assert_allclose(np.linalg.norm(centers, axis=1), 1.0, atol=4 * eps)
    np.testing.assert_array_equal(np.bincount(labels, minlength=len(centers)), sizes)
    assert violation(found.assignment.counts, bounds) == 0
    value = (x.astype(np.float64) * centers.astype(np.float64)[labels]).sum()
    assert found.assignment.objective == pytest.approx(value, abs=len(x) * 4 * eps)
    assert found.assignment.objective <= found.assignment.upper_bound + len(x) * 4 * eps


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_results_are_of_the_library_of_the_features(xp, dtype):
    x, _, directions = groups(n=24, k=3)
    x, start = xp.asarray(x, dtype), xp.asarray(directions, dtype)
    found = constrained_kmeans(x, ratios(xp, 24, 3), start, max_iter=2)
    assert isinstance(found, ConstrainedKMeansResult)
    assert_same_kind(found.centers, start)
    assert_same_kind(found.assignment.labels, xp.asarray(np.zeros(24, np.int64)))
    check(found, x, ratios(xp, 24, 3))


def test_libraries_agree(xp):
    x, _, directions = groups(n=30, k=3, spread=0.8)
    expected = constrained_kmeans(x, ratios(NUMPY, 30, 3), directions, max_iter=3)
    found = constrained_kmeans(xp.asarray(x), ratios(xp, 30, 3), xp.asarray(directions), max_iter=3)
    np.testing.assert_array_equal(to_numpy(found.assignment.labels), expected.assignment.labels)
    np.testing.assert_allclose(to_numpy(found.centers), expected.centers, atol=1e-12)
    assert found[2:] == expected[2:]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("lower", "upper"), [(0.9, 1.1), (1.0, 1.0), (0.0, 1.0), (0.9, math.inf)])
def test_plain_groups_are_found_from_rough_centers(dtype, lower, upper):
    x, member, directions = groups(n=400, k=8, d=32, spread=0.5)
    rough = directions + np.random.default_rng(1).normal(size=directions.shape) * 0.15
    bounds = ratios(NUMPY, 400, 8, lower=lower, upper=upper)
    found = constrained_kmeans(x.astype(dtype), bounds, unit_rows(rough).astype(dtype))
    check(found, x.astype(dtype), bounds)
    np.testing.assert_array_equal(found.assignment.labels, member)
    means = unit_rows(np.stack([x[member == j].sum(axis=0) for j in range(8)]))
    np.testing.assert_allclose(found.centers, means, atol=1e-6)
    assert found.converged


@pytest.mark.parametrize("offset", [0.0, 1.0])
@pytest.mark.parametrize("seed", range(4))
def test_plain_groups_are_found_from_drawn_centers(seed, offset):
    x, member, _ = groups(n=600, k=6, d=32, spread=0.6, seed=seed, offset=offset)
    start = kmeans_plus_plus(x, np.random.default_rng(seed).random(6))
    found = constrained_kmeans(x, ratios(NUMPY, 600, 6, lower=0.9, upper=1.1), start)
    assert clustering_scores(found.assignment.labels, member).acc > 0.99


@pytest.mark.parametrize("seed", [0, 2, 3])
def test_plain_groups_in_a_narrow_cone_are_found(seed):
    """All cosines are above 0.98, so that steps for scores of range 1 would end at ACC 0.2."""
    x, member, _ = groups(n=600, k=6, d=32, spread=0.6, seed=seed, offset=10.0)
    start = kmeans_plus_plus(x, np.random.default_rng(seed).random(6))
    found = constrained_kmeans(x, ratios(NUMPY, 600, 6, lower=0.9, upper=1.1), start)
    assert clustering_scores(found.assignment.labels, member).acc > 0.9


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("kind", ["groups", "cone", "sphere"])
def test_updates_do_not_lose_value(kind, seed):
    n, k = 300, 6
    rng = np.random.default_rng(seed)
    x = {
        "groups": lambda: groups(n, k, spread=1.0, seed=seed)[0],
        "cone": lambda: cone_features(n, seed, d=16),
        "sphere": lambda: unit_rows(rng.normal(size=(n, 8))),
    }[kind]()
    start = kmeans_plus_plus(x, rng.random(k))
    bounds = ratios(NUMPY, n, k, lower=0.9, upper=1.1)
    first = constrained_kmeans(x, bounds, start, max_iter=0)
    last = constrained_kmeans(x, bounds, start)
    assert last.assignment.objective > first.assignment.objective
    for found in (first, last):
        check(found, x, bounds)


@given(st.integers(0, 2**32))
def test_sizes_are_inside_for_any_data(seed):
    rng = np.random.default_rng(seed)
    n, d, k = int(rng.integers(1, 60)), int(rng.integers(1, 5)), int(rng.integers(1, 6))
    sizes = np.bincount(rng.integers(0, k, size=n), minlength=k)
    lower = np.maximum(sizes - rng.integers(0, 3), 0)
    upper = np.minimum(sizes + rng.integers(0, 3), n)
    x = unit_rows(rng.normal(size=(n, d)) + rng.normal(size=d) * rng.integers(0, 4))
    if rng.random() < 0.3:
        x = x[rng.integers(0, max(1, n // 4), size=n)]  # many equal rows
    bounds = SizeBounds.from_counts(lower.tolist(), upper.tolist(), n_samples=n)
    start = unit_rows(rng.normal(size=(k, d)))
    check(constrained_kmeans(x, bounds, start, max_iter=int(rng.integers(0, 4))), x, bounds)


def test_no_update_only_assigns(xp, rng):
    x, start = xp.asarray(groups(n=24)[0]), xp.asarray(unit_rows(rng.normal(size=(4, 16))))
    bounds = ratios(xp, 24, 4)
    calls = []
    found = constrained_kmeans(
        x, bounds, start, max_iter=0, progress=lambda *call: calls.append(call)
    )
    assert_equal(found.centers, start)
    assert (found.n_iter, found.converged, calls) == (0, False, [])
    expected = assign_offline(xp.namespace.matmul(x, start.T), bounds)
    np.testing.assert_array_equal(to_numpy(found.assignment.labels), to_numpy(expected.labels))


def test_equal_rows(xp):
    x = xp.asarray(np.repeat([[0.6, 0.8]], 12, axis=0))
    found = constrained_kmeans(x, ratios(xp, 12, 3), x[:3, :], max_iter=2)
    check(found, x, ratios(xp, 12, 3))
    np.testing.assert_allclose(to_numpy(found.centers), [[0.6, 0.8]] * 3, atol=1e-15)


def test_one_cluster_is_the_mean_direction(xp):
    x, *_ = groups(n=20, d=5)
    bounds = SizeBounds.from_counts([20], [20], n_samples=20, xp=xp.namespace, device=xp.device)
    found = constrained_kmeans(xp.asarray(x), xp.freeze(bounds), xp.asarray(x[:1]))
    np.testing.assert_allclose(to_numpy(found.centers), unit_rows(x.sum(axis=0)[None]), atol=1e-10)
    assert found.converged


def test_as_many_clusters_as_rows(rng):
    x = unit_rows(rng.normal(size=(9, 4)))
    bounds = SizeBounds.from_counts([1] * 9, [1] * 9, n_samples=9)
    found = constrained_kmeans(x, bounds, x)
    check(found, x, bounds)
    assert found.assignment.objective == pytest.approx(9.0)


def test_a_cluster_that_may_hold_nothing_keeps_its_center(rng):
    x, _, directions = groups(n=40, k=2, d=4)
    away = unit_rows(-directions.sum(axis=0, keepdims=True))
    bounds = SizeBounds.from_counts([0, 0, 0], [40, 40, 0], n_samples=40)
    found = constrained_kmeans(x, bounds, np.concatenate([directions, away]))
    check(found, x, bounds)
    np.testing.assert_array_equal(found.centers[2], away[0])


def test_progress_and_the_two_ways_to_stop():
    x, _, directions = groups(n=200, k=4, spread=1.5)
    bounds = ratios(NUMPY, 200, 4)
    calls = []
    found = constrained_kmeans(
        x, bounds, directions, max_iter=3, tol=0.0, progress=lambda *call: calls.append(call)
    )
    assert [state.n_iter for state, _ in calls] == list(range(1, found.n_iter + 1))
    assert all(isinstance(state, KMeansState) for state, _ in calls)
    assert all(0.0 <= share <= 1.0 for _, share in calls)
    assert found.converged == (calls[-1][1] == 0.0) == calls[-1][0].converged
    np.testing.assert_array_equal(calls[-1][0].centers, found.centers)
    at_once = constrained_kmeans(x, bounds, directions, tol=1.0)
    assert (at_once.n_iter, at_once.converged) == (1, True)


def test_what_is_refused(xp, rng):
    x, start = xp.asarray(groups(n=24)[0]), xp.asarray(unit_rows(rng.normal(size=(4, 16))))
    bounds = ratios(xp, 24, 4)
    stream = SizeBounds.for_stream(4, xp=xp.namespace, device=xp.device)
    cases = [
        ((x, stream, start), {}, InvalidValueError, "known number of samples"),
        ((x, ratios(xp, 23, 4), start), {}, InvalidValueError, r"must have shape \(23, d\)"),
        ((x, ratios(xp, 24, 3), start), {}, InvalidValueError, r"must have shape \(3, 16\)"),
        ((x, bounds, start[:, :5]), {}, InvalidValueError, r"must have shape \(4, 16\)"),
        ((x, bounds, start), {"max_iter": -1}, InvalidValueError, "max_iter must be at least 0"),
        ((x, bounds, start), {"tol": 1.5}, InvalidValueError, r"must lie in \[0, 1\]"),
        ((x, bounds, start), {"gap": -1.0}, InvalidValueError, r"must lie in \[0, 1\]"),
        ((x, bounds, start), {"empty": "drop"}, InvalidValueError, "one of 'relocate', 'keep'"),
        ((x, bounds, start * math.nan), {}, InvalidValueError, "centers must be finite"),
        ((to_numpy(x).tolist(), bounds, start), {}, InvalidTypeError, "got list"),
        ((x * 3.0, bounds, start), {}, InvalidValueError, "project_sphere"),
        ((x * math.nan, bounds, start), {}, InvalidValueError, "features must be finite"),
    ]
    for arguments, options, error, message in cases:
        assert_refused(error, message, constrained_kmeans, *arguments, **options)
    other = next(library for library in LIBRARIES if library.namespace is not xp.namespace)
    with pytest.raises(DeviceMismatchError, match="same array library"):
        constrained_kmeans(x, ratios(other, 24, 4), start)


def test_the_best_of_several_seeds_and_the_lowest_of_equals():
    runs = {0: 1.0, 3: 2.0, 5: 2.0}

    class Result:
        def __init__(self, seed):
            self.seed, self.objective = seed, runs[seed]

    assert best_of(Result, [5, 3, 0]).seed == 3
    with pytest.raises(InvalidValueError, match="at least one seed"):
        best_of(Result, [])


def test_a_result_has_the_objective_of_its_assignment():
    x, _, directions = groups(n=40)
    found = constrained_kmeans(x, ratios(NUMPY, 40, 4), directions)
    assert found.objective == found.assignment.objective
