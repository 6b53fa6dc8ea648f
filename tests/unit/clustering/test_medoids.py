"""k-medoids inside bounds: labels, medoids, starts and their rules, on every library."""

import math

import numpy as np
import pytest

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.clustering.dissimilarities import (
    great_circle_distances,
    matrix_dissimilarities,
    pairwise_dissimilarities,
)
from dualclust.algos.clustering.medoids import best_medoids, constrained_medoids, start_medoids
from dualclust.algos.core.errors import InfeasibleBoundsError, InvalidValueError
from tests.compare import assert_same_kind, to_numpy
from tests.problems import best_value
from tests.refusals import assert_refused


def symmetric(rng, n):
    """Dissimilarities without any structure: no triangle inequality."""
    half = np.triu(rng.uniform(size=(n, n)), 1)
    return half + half.T


def bounds_of(xp, n, k, lower, upper):
    return SizeBounds.from_counts([lower] * k, [upper] * k, n_samples=n, **place(xp))


def place(xp):
    return {"xp": xp.namespace, "device": xp.device}


def test_labels_are_best_and_medoids_too(xp, rng):
    """At the end no labels and no row of a cluster are better; weights and rules count."""
    n, k = 9, 3
    d, weights = symmetric(rng, n), rng.uniform(0.1, 3.0, size=n)
    fixed = np.full(n, -1)
    fixed[[4, 8]] = [1, 2]
    scores = np.where((fixed[:, None] >= 0) & (fixed[:, None] != np.arange(k)), -np.inf, 0.0)
    scores[3, 0] = -np.inf
    pairs, bounds = matrix_dissimilarities(xp.asarray(d)), bounds_of(xp, n, k, 2, 3)
    rules = {
        "weights": xp.asarray(weights),
        "fixed": xp.asarray(fixed),
        "forbidden": xp.asarray([[3, 0]]),
    }
    found = constrained_medoids(pairs, bounds, xp.asarray([0, 4, 8]), **rules)
    assert_same_kind(found.medoids, bounds.lower)
    medoids, labels = to_numpy(found.medoids), to_numpy(found.labels)
    assert found.converged
    assert found.gap == 0.0
    scores = scores - weights[:, None] * d[:, medoids]
    assert found.objective == pytest.approx(best_value(scores, [2] * k, [3] * k), rel=1e-12)
    assert found.objective == pytest.approx(scores[np.arange(n), labels].sum(), rel=1e-12)
    for j in range(k):
        own = labels == j
        sums = (weights[own, None] * d[own]).sum(axis=0)
        assert sums[medoids[j]] <= sums[own].min() * (1 + 1e-12)


@pytest.mark.parametrize("gap", [0.0, 0.3])
def test_the_objective_falls_with_every_update(rng, gap):
    for _ in range(8):
        n, k = 40, 5
        pairs = matrix_dissimilarities(symmetric(rng, n))
        bounds = SizeBounds.from_counts([5] * k, [10] * k, n_samples=n)
        values, medoids = [], start_medoids(pairs, k, seed=0)
        for max_iter in range(30):
            found = constrained_medoids(pairs, bounds, medoids, max_iter=max_iter, gap=gap)
            assert found.n_iter <= max_iter
            assert found.gap <= gap
            values.append(found.objective)
        assert found.converged
        falls = np.diff(values)
        assert (falls[: found.n_iter] > 0).all()
        assert (falls[found.n_iter :] == 0).all()
        again = constrained_medoids(pairs, bounds, found.medoids)
        assert again.objective >= found.objective


def test_an_empty_cluster_keeps_its_medoid(xp):
    x = np.asarray([0.0, 1.0, 2.0])
    pairs = matrix_dissimilarities(xp.asarray(abs(x[:, None] - x)))
    labels = xp.asarray([1, 1, 1])
    assert to_numpy(best_medoids(pairs, labels, xp.asarray([2, 0]))).tolist() == [2, 1]
    sizes = SizeBounds.from_counts([0, 0], [0, 3], n_samples=3, **place(xp))
    found = constrained_medoids(pairs, sizes, xp.asarray([0, 2]))
    assert to_numpy(found.medoids).tolist() == [0, 1]


def test_a_time_limit_leaves_labels_inside(rng):
    pairs = matrix_dissimilarities(symmetric(rng, 300))
    bounds = SizeBounds.from_counts([60] * 5, [60] * 5, n_samples=300)
    found = constrained_medoids(pairs, bounds, np.arange(5), time_limit=0.0)
    assert (found.counts == 60).all()
    assert (found.n_iter, found.converged) == (0, False)
    dual = found.assignment.upper_bound
    assert found.objective <= dual < 0.0


# Starts ------------------------------------------------------------------------------------------


def test_starts_are_different_rows_far_apart(xp):
    x = np.asarray([0.0, 0.1, 0.2, 50.0, 50.1, 50.2, 90.0, 90.1])
    pairs = matrix_dissimilarities(xp.asarray(abs(x[:, None] - x)))
    for seed in range(5):
        found = to_numpy(start_medoids(pairs, 3, seed=seed))
        assert sorted(found // 3) == [0, 1, 2]
    fixed = xp.asarray([-1, -1, -1, 2, 2, 2, -1, -1])
    found = to_numpy(start_medoids(pairs, 3, seed=0, fixed=fixed))
    assert found[2] == 4
    assert sorted(found[:2] // 3) == [0, 2]


def test_equal_rows_and_rows_without_weight(xp):
    pairs = matrix_dissimilarities(xp.asarray(np.zeros((4, 4))))
    assert sorted(to_numpy(start_medoids(pairs, 4, seed=1))) == [0, 1, 2, 3]
    x = np.arange(6.0)
    pairs = matrix_dissimilarities(xp.asarray(abs(x[:, None] - x)))
    weights = xp.asarray([0.0, 1.0, 0.0, 1.0, 1.0, 0.0])
    for seed in range(5):
        found = to_numpy(start_medoids(pairs, 3, seed=seed, weights=weights))
        assert sorted(found) == [1, 3, 4]


def test_draws_go_by_dissimilarity():
    """The second medoid is each row as often as it is far, within five standard deviations."""
    x = np.asarray([0.0, 1.0, 2.0, 5.0])
    pairs = matrix_dissimilarities(abs(x[:, None] - x))
    zero, times = np.asarray([0, -1, -1, -1]), 400
    drawn = [start_medoids(pairs, 2, seed=s, fixed=zero)[1] for s in range(times)]
    # Of two candidates the better one is taken: 2 leaves 0 1 0 3, 5 leaves 0 1 2 0, 1 leaves more.
    share = np.bincount(drawn, minlength=4) / times
    chances = np.asarray([0.0, 1 / 8, 2 / 8, 5 / 8])
    worse = {3: chances[[1, 2]].sum(), 2: chances[1], 1: 0.0}  # 5 leaves 3, 2 leaves 4, 1 leaves 5
    for row, less in worse.items():
        expected = chances[row] ** 2 + 2 * chances[row] * less
        assert abs(share[row] - expected) < 5 * math.sqrt(0.25 / times)
    assert share[0] == 0.0


# Distances ---------------------------------------------------------------------------------------


def haversine(a, b, radius):
    (p, q), (r, s) = np.radians(a), np.radians(b)
    h = math.sin((r - p) / 2) ** 2 + math.cos(p) * math.cos(r) * math.sin((s - q) / 2) ** 2
    return 2 * radius * math.asin(math.sqrt(h))


def test_great_circles(xp, rng):
    places = np.stack([rng.uniform(-90, 90, 30), rng.uniform(-180, 360, 30)], axis=1)
    found = great_circle_distances(xp.asarray(places), xp.asarray(places[:9]), radius=10.0)
    assert_same_kind(found[:, :2], xp.asarray(places))
    expected = [[haversine(a, b, 10.0) for b in places[:9]] for a in places]
    np.testing.assert_allclose(to_numpy(found), expected, rtol=0, atol=1e-13)
    assert (np.diag(to_numpy(found)[:9]) == 0.0).all()


def test_poles_the_date_line_and_antipodes():
    quarter = 6371.0088 * math.pi / 2

    def far(*places):
        return float(great_circle_distances(*(np.asarray([p], float) for p in places))[0, 0])

    assert far((90, 0), (90, 123)) < 1e-9
    assert far((90, 0), (-90, 45)) == pytest.approx(2 * quarter, rel=1e-15)
    assert far((90, 77), (0, -12)) == pytest.approx(quarter, rel=1e-15)
    assert far((10, 180), (10, -180)) < 1e-9
    assert far((0, 179.999), (0, -179.999)) == pytest.approx(quarter * 0.002 / 90, rel=1e-9)
    assert far((89.999, 0), (89.999, 180)) == pytest.approx(quarter * 0.002 / 90, rel=1e-9)
    assert far((40, 10), (-40, -169.999)) == pytest.approx(
        2 * quarter - math.cos(math.radians(40)) * quarter * 0.001 / 90, rel=1e-12
    )
    assert far((12.5, 7), (12.5, 7 + 1e-9)) == pytest.approx(
        math.cos(math.radians(12.5)) * quarter * 1e-9 / 90, rel=1e-4
    )


def test_any_function_of_two_arrays(xp, rng):
    x = rng.normal(size=(50, 3))

    def manhattan(rows, centers):
        return xp.namespace.sum(abs(rows[:, None, :] - centers[None, :, :]), axis=-1)

    pairs = pairwise_dissimilarities(xp.asarray(x), manhattan)
    found = pairs.between(xp.asarray([3, 1]), xp.asarray([0, 2, 3]))
    expected = abs(x[[3, 1], None] - x[[0, 2, 3]]).sum(axis=-1)
    np.testing.assert_allclose(to_numpy(found), expected, rtol=1e-14)


# What is refused ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("matrix", "text"),
    [
        (np.zeros((2, 3)), r"must be a square matrix of dissimilarities .* got shape \(2, 3\)"),
        (np.zeros((0, 0)), r"of at least one row, got shape \(0, 0\)"),
        (np.asarray([[0.0, -0.5], [-0.5, 0.0]]), r"in \[0, 1e\+100\], got -0\.5 in row 0"),
        (np.asarray([[0.0, 1.0], [np.nan, 0.0]]), "got NaN in row 1"),
        (np.asarray([[0.0, np.inf], [np.inf, 0.0]]), "got inf in row 0"),
        (np.asarray([[0.0, 1e101], [1e101, 0.0]]), r"got 1e\+101 in row 0"),
        (np.asarray([[1.0, 0.2], [0.2, 1.0]]), "must be 0 on its diagonal, got 1"),
        (np.asarray([[0.0, 0.2], [0.3, 0.0]]), r"must be symmetric, .* differ by 0\.1"),
    ],
)
def test_matrices_that_are_no_dissimilarities(xp, matrix, text):
    assert_refused(InvalidValueError, text, matrix_dissimilarities, xp.asarray(matrix), name="D")


def test_rounding_of_a_matrix_is_none_of_its_faults(rng):
    d = symmetric(rng, 30)
    close = d + 1e-9 * rng.uniform(size=d.shape)
    matrix_dissimilarities(close)
    matrix_dissimilarities((d * (1 + 1e-6 * rng.uniform(size=d.shape))).astype(np.float32))
    assert_refused(
        InvalidValueError, "symmetric", matrix_dissimilarities, d + 1e-6 * np.tri(30, k=-1)
    )


@pytest.mark.parametrize(
    ("metric", "text"),
    [
        (lambda x, y: float(abs(x - y).sum()), r"array of shape \(5, 5\) for 5 and 5 rows, got fl"),
        (lambda x, y: abs(x[:, 0] - y[:, 0]), r"shape \(5, 5\) for 5 and 5 rows, got shape \(5,\)"),
        (lambda x, y: x @ y.T, "diagonal"),
        (lambda x, y: np.where(x[:, :1] < y[:, 0], 1.0, 0.0), "symmetric"),
        (lambda x, y: np.log(abs(x[:, :1] - y[:, 0])), r"got -inf in row 0"),
    ],
)
def test_functions_that_are_no_metric(metric, text):
    rows = 1.0 + np.arange(5.0)[:, None]
    with np.errstate(divide="ignore"):
        assert_refused(InvalidValueError, text, pairwise_dissimilarities, rows, metric)


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ([95.0, 10.0], "latitudes from -90 to 90 degrees in column 0, got one of size 95"),
        ([10.0, 400.0], "longitudes from -360 to 360 degrees in column 1, got one of size 400"),
        ([np.nan, 0.0], "got one of size nan"),
        ([1.0, 2.0, 3.0], "must have two columns, latitude and longitude in degrees, got 3"),
    ],
)
def test_places_that_are_nowhere(xp, place, text):
    rows = xp.asarray([place])
    assert_refused(InvalidValueError, text, great_circle_distances, rows, rows)


def test_bounds_and_medoids_that_do_not_fit():
    pairs = matrix_dissimilarities(1.0 - np.eye(4))
    three = SizeBounds.from_counts([1, 1], n_samples=3)
    four = SizeBounds.from_counts([1, 1], n_samples=4)
    run = constrained_medoids
    assert_refused(
        InvalidValueError, "of the 4 rows of the source", run, pairs, three, np.asarray([0, 1])
    )
    assert_refused(InvalidValueError, r"in \[0, 4\), got", run, pairs, four, np.asarray([0, 4]))
    assert_refused(InvalidValueError, "at most the 4 rows", start_medoids, pairs, 5, seed=0)
    full = np.asarray([0, 0, 0, 0])
    with pytest.raises(InfeasibleBoundsError, match="fixed in other clusters"):
        run(pairs, four, np.asarray([0, 1]), fixed=full)
