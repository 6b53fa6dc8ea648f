"""`kmeans` without bounds: a loop, scikit-learn, weights, and clusters that get nothing."""

import math

import numpy as np
import pytest
from sklearn.cluster import KMeans

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.clustering.constrained import (
    KMeansResult,
    constrained_kmeans,
    kmeans,
    kmeans_plus_plus,
)
from dualclust.algos.core.errors import DeviceMismatchError, InvalidTypeError, InvalidValueError
from dualclust.algos.scores.sources import FeatureSource, alone, feature_source
from tests.compare import assert_equal, assert_same_kind, to_numpy
from tests.libraries import LIBRARIES
from tests.problems import unit_rows
from tests.refusals import assert_refused

METRICS = ["cosine", "euclidean"]


def data(metric, n=80, d=3, seed=0):
    x = np.random.default_rng(seed).normal(size=(n, d))
    return unit_rows(x) if metric == "cosine" else 5.0 * x + 2.0


def loop_kmeans(x, w, centers, metric, n_iter):
    """The docstring, one row at a time; returns labels, centers and the objective."""
    mean = x.mean(axis=0)

    def worth(row, c):
        if metric == "cosine":
            return float(row @ c)
        return (float(((row - mean) ** 2).sum()) - float(((row - c) ** 2).sum())) / 2

    def label():
        return [max(range(len(centers)), key=lambda j: worth(row, centers[j])) for row in x]

    centers = centers.copy()
    labels = label()
    for _ in range(n_iter):
        for j in range(len(centers)):
            own = [i for i, y in enumerate(labels) if y == j]
            total = sum((w[i] * x[i] for i in own), np.zeros(x.shape[1]))
            if own:
                size = np.linalg.norm(total) if metric == "cosine" else sum(w[i] for i in own)
                centers[j] = total / size
        labels = label()
    value = math.fsum(w[i] * worth(x[i], centers[y]) for i, y in enumerate(labels))
    return labels, centers, value


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("metric", METRICS)
def test_it_is_the_loop_on_every_library(xp, metric, weighted):
    x, k = data(metric), 4
    w = np.random.default_rng(5).uniform(0.1, 7.0, size=80) if weighted else np.ones(80)
    for n_iter in (0, 1, 4):
        labels, centers, value = loop_kmeans(x, w, x[:k], metric, n_iter)
        found = kmeans(
            xp.asarray(x),
            xp.asarray(x[:k]),
            metric=metric,
            weights=xp.asarray(w) if weighted else None,
            max_iter=n_iter,
        )
        assert isinstance(found, KMeansResult)
        assert_equal(found.labels, xp.asarray(np.array(labels)))
        assert_equal(found.counts, xp.asarray(np.bincount(labels, minlength=k)))
        np.testing.assert_allclose(to_numpy(found.centers), centers, atol=1e-8)
        assert found.objective == pytest.approx(value, rel=1e-8)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_libraries_agree_to_the_last_bit_of_the_centers(xp, metric, dtype):
    """Sums are integers, so that equal labels give equal centers whoever multiplied the scores."""
    x = data(metric, n=300).astype(dtype)
    expected = kmeans(x, x[:6], metric=metric)
    found = kmeans(xp.asarray(x), xp.asarray(x[:6]), metric=metric)
    assert_equal(found.labels, xp.asarray(expected.labels))
    if metric == "euclidean":  # a norm is a sum of floats
        assert_equal(found.centers, xp.asarray(expected.centers))
    np.testing.assert_allclose(to_numpy(found.centers), expected.centers, rtol=1e-6, atol=1e-7)
    assert (found.n_iter, found.converged) == (expected.n_iter, expected.converged)


@pytest.mark.parametrize("seed", range(3))
def test_it_is_the_k_means_of_scikit_learn(seed):
    x = np.random.default_rng(seed).normal(size=(400, 2))
    w = np.random.default_rng(seed + 1).uniform(0.5, 2.0, size=400)
    start = kmeans_plus_plus(x, np.random.default_rng(seed).random(7))
    found = kmeans(x, start, metric="euclidean", weights=w, max_iter=300)
    theirs = KMeans(7, init=start, n_init=1, max_iter=300, tol=0.0).fit(x, sample_weight=w)
    np.testing.assert_array_equal(found.labels, theirs.labels_)
    np.testing.assert_allclose(found.centers, theirs.cluster_centers_, atol=1e-9)
    spread = (w[:, None] * (x - x.mean(axis=0)) ** 2).sum()
    assert spread - 2 * found.objective == pytest.approx(theirs.inertia_)
    assert found.converged


@pytest.mark.parametrize("metric", METRICS)
def test_whole_weights_are_repeated_rows(metric):
    x, w = data(metric, n=50), np.random.default_rng(2).integers(0, 4, size=50)
    w[:3] = 1
    found = kmeans(x, x[:3], metric=metric, weights=w.astype(float), max_iter=5)
    repeated = kmeans(np.repeat(x, w, axis=0), x[:3], metric=metric, max_iter=5)
    np.testing.assert_allclose(found.centers, repeated.centers, atol=1e-9)
    np.testing.assert_array_equal(np.repeat(found.labels, w), repeated.labels)
    assert found.counts.sum() == 50
    assert repeated.counts.sum() == w.sum()


@pytest.mark.parametrize("unit", [1e-30, 1e-3, 1e30])
def test_the_unit_of_the_weights_does_not_matter(unit):
    x, w = data("euclidean"), np.random.default_rng(2).uniform(0.5, 2.0, size=80)
    expected = kmeans(x, x[:4], metric="euclidean", weights=w)
    found = kmeans(x, x[:4], metric="euclidean", weights=unit * w)
    np.testing.assert_array_equal(found.labels, expected.labels)
    assert found.objective == pytest.approx(unit * expected.objective)


@pytest.mark.parametrize("metric", METRICS)
def test_weights_of_very_different_size_keep_their_digits(metric):
    """Integer sums in units of the largest weight alone would leave a cluster no digit."""
    x = data(metric, n=200, seed=3)
    w = 10.0 ** np.random.default_rng(4).uniform(-14, 0, size=200)
    found = kmeans(x, x[:4], metric=metric, weights=w, max_iter=1)
    labels, centers, _ = loop_kmeans(x, w, x[:4], metric, 1)
    np.testing.assert_array_equal(found.labels, labels)
    np.testing.assert_allclose(found.centers, centers, rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_centers_too_far_for_scores_are_refused(dtype):
    x = data("euclidean").astype(dtype)
    far = x[:2] * np.asarray(np.finfo(dtype).max / 100, dtype)
    with pytest.raises(InvalidValueError, match="centers must be among the features"):
        kmeans(x, far, metric="euclidean")
    with pytest.raises(InvalidValueError, match="centers must be among the features"):
        kmeans(data("cosine").astype(dtype), far)


def test_rows_without_weight_do_not_move_centers_but_count():
    x = np.array([[0.0], [1.0], [10.0], [12.0], [500.0]])
    found = kmeans(
        x, x[[0, 2]], metric="euclidean", weights=np.array([1.0, 1.0, 1.0, 1.0, 0.0]), max_iter=9
    )
    np.testing.assert_allclose(found.centers[:, 0], [0.5, 11.0], atol=1e-6)
    assert found.counts.tolist() == [2, 3]


@pytest.mark.parametrize("metric", METRICS)
def test_labels_are_best_for_the_centers_returned(metric):
    x = data(metric, n=500)
    found = kmeans(x, x[:9], metric=metric, max_iter=3)
    scores = x @ found.centers.T
    if metric == "euclidean":
        scores = -((x[:, None, :] - found.centers) ** 2).sum(axis=2)
    np.testing.assert_array_equal(found.labels, scores.argmax(axis=1))


@pytest.mark.parametrize("metric", METRICS)
def test_bounds_that_say_nothing_change_nothing(metric):
    x = data(metric, n=60)
    bounds = SizeBounds.from_counts([0] * 4, [60] * 4, n_samples=60)
    plain = kmeans(x, x[:4], metric=metric, max_iter=50)
    found = constrained_kmeans(x, bounds, x[:4], metric=metric, max_iter=50, tol=0.0, gap=0.0)
    np.testing.assert_array_equal(plain.labels, found.assignment.labels)
    np.testing.assert_array_equal(plain.centers, found.centers)
    assert plain.objective == pytest.approx(found.objective, rel=1e-12)


# Empty clusters --------------------------------------------------------------------------------

ROWS = np.array([[0.0], [1.0], [2.0], [40.0], [50.0]])
FAR_AWAY = np.array([[1.0], [1000.0], [2000.0]])


def test_empty_clusters_go_to_the_rows_farthest_from_their_centers(xp):
    """The mean is 18.6: farthest are 50, then 40."""
    found = kmeans(xp.asarray(ROWS), xp.asarray(FAR_AWAY), metric="euclidean", max_iter=1)
    np.testing.assert_allclose(to_numpy(found.centers)[:, 0], [18.6, 50.0, 40.0], atol=1e-8)
    assert to_numpy(found.labels).tolist() == [0, 0, 0, 2, 1]


def test_weights_count_for_the_distance():
    w = np.array([1.0, 1.0, 1.0, 4.0, 1.0])  # mean 26.125: 4 * 13.9^2 is more than 23.9^2
    found = kmeans(ROWS, FAR_AWAY[:2], metric="euclidean", max_iter=1, weights=w)
    np.testing.assert_allclose(found.centers[:, 0], [213 / 8, 40.0], atol=1e-8)


def test_of_equally_far_rows_the_lowest_is_taken(xp):
    x = np.array([[-3.0], [3.0], [-3.0], [3.0]])
    found = kmeans(
        xp.asarray(x), xp.asarray([[0.0], [99.0]]), metric="euclidean", max_iter=1, tol=1.0
    )
    assert to_numpy(found.centers)[:, 0].tolist() == [0.0, -3.0]


@pytest.mark.parametrize("metric", METRICS)
def test_empty_clusters_are_kept_on_request(xp, metric):
    x = np.array([[1.0, 0.0], [0.8, 0.6], [0.6, 0.8]])
    start = np.array([[0.6, 0.8], [-1.0, 0.0]])
    found = kmeans(xp.asarray(x), xp.asarray(start), metric=metric, empty="keep")
    np.testing.assert_array_equal(to_numpy(found.centers)[1], start[1])
    assert to_numpy(found.counts).tolist() == [3, 0]


@pytest.mark.parametrize("metric", METRICS)
def test_equal_rows_leave_nothing_to_move_to(xp, metric):
    x = np.repeat([[0.6, 0.8]], 10, axis=0)
    start = np.array([[0.6, 0.8], [-1.0, 0.0], [0.0, -1.0]])
    found = kmeans(xp.asarray(x), xp.asarray(start), metric=metric)
    np.testing.assert_array_equal(to_numpy(found.centers)[1:], start[1:])
    np.testing.assert_allclose(to_numpy(found.centers)[0], start[0], atol=1e-10)
    assert found.converged


@pytest.mark.parametrize("metric", METRICS)
def test_relocation_reaches_every_cluster(metric):
    x = np.abs(data(metric, n=200))
    away = -unit_rows(x[1:6]) * (1.0 if metric == "cosine" else 1000.0)
    start = np.concatenate([x[:1], away])  # behind the first one, for every row
    found = kmeans(x, start, metric=metric)
    assert found.counts.min() > 0
    kept = kmeans(x, start, metric=metric, empty="keep")
    assert found.objective > kept.objective
    assert np.count_nonzero(kept.counts) == 1


def test_relocation_under_bounds():
    """A cluster that may be empty, and is, is moved; one that must be stays."""
    x = np.array([[0.0], [1.0], [2.0], [40.0], [50.0]])
    bounds = SizeBounds.from_counts([0, 0, 0], [5, 5, 0], n_samples=5)
    start = np.array([[1.0], [1000.0], [2000.0]])
    found = constrained_kmeans(x, bounds, start, metric="euclidean", gap=0.0)
    np.testing.assert_allclose(found.centers[:, 0], [1.0, 45.0, 2000.0], atol=1e-8)
    kept = constrained_kmeans(x, bounds, start, metric="euclidean", gap=0.0, empty="keep")
    assert kept.centers[1:, 0].tolist() == [1000.0, 2000.0]


# Edges and errors ------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("library", [LIBRARIES[0], *LIBRARIES[4:5]], ids=lambda x: x.name)
def test_half_precision_is_computed_in_single(library, metric):
    x = data(metric).astype("float16")
    found = kmeans(library.asarray(x), library.asarray(x[:3]), metric=metric)
    expected = kmeans(x.astype("float32"), x[:3].astype("float32"), metric=metric)
    np.testing.assert_array_equal(to_numpy(found.labels), expected.labels)
    assert_same_kind(found.centers, library.asarray(expected.centers))


def test_centers_take_the_dtype_of_the_features():
    x = data("euclidean").astype("float32")
    assert kmeans(x, x[:3].astype("float64"), metric="euclidean").centers.dtype == np.float32


def test_more_clusters_than_rows():
    x = np.array([[0.0], [1.0]])
    found = kmeans(x, np.array([[0.0], [1.0], [5.0]]), metric="euclidean")
    assert found.counts.tolist() == [1, 1, 0]
    assert found.centers[:, 0].tolist() == [0.0, 1.0, 5.0]


def test_n_iter_and_tolerance_stop_it():
    x = data("euclidean", n=400)
    calls = []
    found = kmeans(
        x, x[:8], metric="euclidean", max_iter=3, progress=lambda *call: calls.append(call)
    )
    assert [state.n_iter for state, _ in calls] == [1, 2, 3]
    assert (found.n_iter, found.converged) == (3, False)
    assert kmeans(x, x[:8], metric="euclidean", tol=1.0).n_iter == 1
    at_once = kmeans(x, x[:8], metric="euclidean", max_iter=0)
    assert (at_once.n_iter, at_once.converged) == (0, False)
    np.testing.assert_array_equal(at_once.centers, x[:8])


def test_what_is_refused(xp):
    x = xp.asarray(data("cosine"))
    cases = [
        ((x, x[:3, :2]), {}, InvalidValueError, r"centers must have shape \(k, 3\)"),
        ((x * 3.0, x[:3, :]), {}, InvalidValueError, "project_sphere"),
        ((x * math.nan, x[:3, :]), {}, InvalidValueError, r"NaN or an infinity in row 0"),
        ((x, x[:3, :] * math.inf), {}, InvalidValueError, "centers must be finite"),
        ((x[:0, :], x[:3, :]), {}, InvalidValueError, "features must have rows"),
        ((x, x[:3, :]), {"metric": "l1"}, InvalidValueError, "metric must be one of"),
        ((x, x[:3, :]), {"empty": "x"}, InvalidValueError, "empty must be one of"),
        ((x, x[:3, :]), {"max_iter": 1.5}, InvalidTypeError, "max_iter must be an int"),
        ((x, x[:3, :]), {"tol": 2}, InvalidValueError, "tol must lie in"),
        ((x, x[:3, :]), {"weights": x[:, 0] * 0.0}, InvalidValueError, "not all 0"),
        ((x, x[:3, :]), {"weights": x[:5, 0]}, InvalidValueError, r"weights must have shape"),
        (([[1.0]], x[:3, :]), {}, InvalidTypeError, "got list"),
    ]
    for arguments, options, error, message in cases:
        assert_refused(error, message, kmeans, *arguments, **options)
    other = next(library for library in LIBRARIES if library.namespace is not xp.namespace)
    with pytest.raises(DeviceMismatchError, match="same array library"):
        kmeans(x, other.asarray(data("cosine")[:3]))


def test_the_row_that_is_not_finite_is_named():
    x = data("euclidean", n=20_000)
    x[17_001, 1] = math.nan
    with pytest.raises(InvalidValueError, match="row 17001"):
        kmeans(x, x[:3], metric="euclidean")


def test_a_source_of_other_rows_than_the_bounds():
    source = feature_source(data("cosine"))
    bounds = SizeBounds.from_counts([0, 0], [79, 79], n_samples=79)
    with pytest.raises(InvalidValueError, match=r"bounds\.n_samples=79 rows, got 80"):
        constrained_kmeans(source, bounds, data("cosine")[:2])


def test_a_source_that_gives_other_rows_than_it_says():
    x = data("cosine")
    source = FeatureSource(3, lambda a, b: x[a:b, :2], lambda ids: x[ids], alone(80))
    with pytest.raises(InvalidValueError, match=r"features must have shape \(n, 3\)"):
        kmeans(source, x[:2])
