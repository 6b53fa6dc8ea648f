"""Mini-batch k-means: a loop over samples, shares on a long stream, and what a state carries."""

import math
import pickle

import numpy as np
import pytest

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.clustering.constrained import kmeans, kmeans_plus_plus
from dualclust.algos.clustering.metrics import clustering_scores
from dualclust.algos.clustering.minibatch import MiniBatchStep, init_minibatch, minibatch_step
from dualclust.algos.core.errors import DeviceMismatchError, InvalidTypeError, InvalidValueError
from dualclust.algos.online.assignment import assign, init_state
from dualclust.algos.online.certificates import size_certificate
from dualclust.algos.online.step_sizes import StepRule
from tests.compare import assert_equal, assert_same_kind, to_numpy
from tests.libraries import LIBRARIES
from tests.problems import unit_rows
from tests.refusals import assert_refused

METRICS = ["cosine", "euclidean"]
NUMPY = LIBRARIES[0]


def shares(xp, k, **options):
    return xp.freeze(SizeBounds.for_stream(k, xp=xp.namespace, device=xp.device, **options))


def blobs(metric, n=3000, k=4, d=8, seed=0, skew=False):
    """Points around k places and their blobs; with `skew`, most in the first."""
    rng = np.random.default_rng(seed)
    places = unit_rows(rng.normal(size=(k, d)))
    p = np.array([0.7] + [0.3 / (k - 1)] * (k - 1)) if skew else np.full(k, 1 / k)
    member = rng.choice(k, size=n, p=p)
    x = places[member] + 0.5 * rng.normal(size=(n, d)) / np.sqrt(d)
    return (unit_rows(x) if metric == "cosine" else 20.0 * x + 100.0), member


def stream(x, start, bounds, metric, size=250, **options):
    state, labels = init_minibatch(start, bounds), []
    for i in range(0, x.shape[0], size):
        part, state = minibatch_step(
            x[i : min(i + size, x.shape[0]), :], state, bounds, metric=metric, **options
        )
        labels.append(to_numpy(part))
    return np.concatenate(labels), state


@pytest.mark.parametrize("metric", METRICS)
def test_a_step_is_the_online_assignment_and_the_mean_of_all_samples(xp, metric):
    """Labels as `assign` gives them on the scores; means added up one sample at a time."""
    x, _ = blobs(metric, n=90)
    w = 10.0 ** np.random.default_rng(1).uniform(-9.0, 1.0, size=90)
    rule, bounds = StepRule(0.01, 16), SizeBounds.for_stream(4, lower=0.8)
    means, weight, centers = x[:4].copy(), np.zeros(4), x[:4].copy()
    theirs = init_state(bounds)
    state = init_minibatch(xp.asarray(x[:4]), shares(xp, 4, lower=0.8), steps=rule)
    for i in range(0, 90, 30):
        part, own = x[i : i + 30], w[i : i + 30]
        if metric == "cosine":
            scores = part @ centers.T
        else:
            origin = means.mean(axis=0)
            moved = centers - origin
            scores = (part - origin) @ moved.T - 0.5 * (moved**2).sum(axis=1)
        labels, theirs = assign(scores, bounds, theirs, steps=rule)
        for row, v, y in zip(part, own, labels, strict=True):
            weight[y] += v
            means[y] += (row - means[y]) * v / weight[y]
        centers = unit_rows(means) if metric == "cosine" else means.copy()
        found, state = minibatch_step(
            xp.asarray(part),
            state,
            shares(xp, 4, lower=0.8),
            metric=metric,
            weights=xp.asarray(own),
            empty="keep",
        )
        np.testing.assert_array_equal(to_numpy(found), labels)
        np.testing.assert_allclose(to_numpy(state.centers), centers, rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(to_numpy(state.weight), weight, rtol=1e-9)
    np.testing.assert_allclose(to_numpy(state.means), means, rtol=1e-8, atol=1e-8)
    np.testing.assert_array_equal(to_numpy(state.assignment.counts), theirs.counts)
    np.testing.assert_allclose(to_numpy(state.assignment.duals.lower), theirs.duals.lower)


def test_a_row_of_no_weight_moves_no_center_and_the_others_do(xp):
    x, _ = blobs("euclidean", n=30)
    bounds = shares(xp, 4)
    start = init_minibatch(xp.asarray(x[:4]), bounds)
    w = np.where(np.arange(30) == 7, 0.0, 1.0)
    labels, state = minibatch_step(
        xp.asarray(x), start, bounds, metric="euclidean", weights=xp.asarray(w), empty="keep"
    )
    weight = np.bincount(to_numpy(labels), weights=w, minlength=4)
    np.testing.assert_allclose(to_numpy(state.weight), weight, rtol=1e-12)
    for j in np.flatnonzero(weight):
        own = x[(to_numpy(labels) == j) & (w > 0.0)]
        np.testing.assert_allclose(to_numpy(state.means)[j], own.mean(axis=0), atol=1e-8)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_results_are_of_the_library_and_dtype_of_the_first_centers(xp, metric, dtype):
    x = xp.asarray(blobs(metric, n=60)[0], dtype)
    found = minibatch_step(x, init_minibatch(x[:4, :], shares(xp, 4)), shares(xp, 4), metric=metric)
    assert isinstance(found, MiniBatchStep)
    assert_same_kind(found.state.centers, x[:4, :])
    assert_same_kind(found.labels, xp.asarray(np.zeros(60, np.int64)))
    assert_same_kind(found.state.means, xp.asarray(np.zeros((4, 8))))


@pytest.mark.parametrize("metric", METRICS)
def test_libraries_agree(xp, metric):
    x, _ = blobs(metric, n=120)
    expected = stream(x, x[:4], SizeBounds.for_stream(4, lower=0.9), metric, size=50)
    found = stream(xp.asarray(x), xp.asarray(x[:4]), shares(xp, 4, lower=0.9), metric, size=50)
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_allclose(to_numpy(found[1].centers), expected[1].centers, rtol=1e-10)


@pytest.mark.parametrize("metric", METRICS)
def test_blobs_are_found_and_centers_come_near_those_of_all_rows(metric):
    x, member = blobs(metric, n=4000)
    start = kmeans_plus_plus(x[:250], np.random.default_rng(3).random(4))
    labels, state = stream(x, start, SizeBounds.for_stream(4, lower=0.8, upper=1.2), metric)
    assert clustering_scores(labels[1000:], member[1000:]).acc > 0.97
    whole = kmeans(x, state.centers, metric=metric)
    step = np.linalg.norm(whole.centers - start, axis=1).mean()
    assert np.linalg.norm(whole.centers - state.centers, axis=1).mean() < 0.35 * step


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize(("lower", "upper"), [(0.9, 1.1), (1.0, 1.0), (0.8, math.inf)])
def test_shares_of_a_long_stream_come_near_their_bounds(metric, lower, upper):
    """70 % of the samples are in one blob; without bounds its cluster takes them all."""
    x, member = blobs(metric, n=20_000, skew=True)
    start = np.stack([x[member == j][:20].mean(axis=0) for j in range(4)])
    start = unit_rows(start) if metric == "cosine" else start
    bounds = SizeBounds.for_stream(4, lower=lower, upper=upper)
    labels, state = stream(x, start, bounds, metric)
    late = np.bincount(labels[10_000:], minlength=4) / 10_000
    assert late.min() >= lower / 4 - 0.02
    assert late.max() <= min(upper, 4) / 4 + 0.02
    np.testing.assert_array_equal(state.assignment.counts, np.bincount(labels, minlength=4))
    free, _ = stream(x, start, SizeBounds.for_stream(4, lower=0.0), metric)
    assert np.bincount(free, minlength=4).max() > 0.5 * len(x)


def test_the_certificate_of_the_stream_holds():
    x, _ = blobs("cosine", n=5000, skew=True)
    bounds = SizeBounds.for_stream(4, lower=0.9)
    _, state = stream(x, x[:4], bounds, "cosine")
    proven = size_certificate(state.assignment, bounds)
    assert np.all(proven.at_least <= state.assignment.counts)
    assert proven.at_least.min() > 0.5 * len(x) / 4


def test_bounds_on_a_known_number_of_samples_mean_their_shares():
    x, _ = blobs("cosine", n=400)
    known = SizeBounds.from_ratios(4, n_samples=100, lower=0.9)
    assert_equal(
        stream(x, x[:4], known, "cosine")[1].centers,
        stream(x, x[:4], SizeBounds.for_stream(4, lower=0.9), "cosine")[1].centers,
    )


def test_the_unit_of_length_does_not_matter():
    x, _ = blobs("euclidean", n=500)
    bounds = SizeBounds.for_stream(4, lower=0.9)
    labels, state = stream(x, x[:4], bounds, "euclidean")
    for scale in (2.0**-60, 2.0**60):
        again, scaled = stream(scale * x, scale * x[:4], bounds, "euclidean")
        np.testing.assert_array_equal(again, labels)
        np.testing.assert_allclose(scaled.centers / scale, state.centers, rtol=1e-12)


def test_a_saved_state_continues_to_the_last_bit():
    x, _ = blobs("euclidean", n=1000)
    bounds = SizeBounds.for_stream(4, lower=0.9)
    _, whole = stream(x, x[:4], bounds, "euclidean")
    _, half = stream(x[:500], x[:4], bounds, "euclidean")
    state = pickle.loads(pickle.dumps(half))
    for i in (500, 750):
        _, state = minibatch_step(x[i : i + 250], state, bounds, metric="euclidean")
    assert state.centers.tobytes() == whole.centers.tobytes()
    assert state.steps == whole.steps


@pytest.mark.parametrize("metric", METRICS)
def test_a_cluster_that_never_got_a_sample_moves_to_the_farthest_row(xp, metric):
    x = np.array([[1.0, 0.0], [0.8, 0.6], [0.96, -0.28], [0.28, 0.96]])
    start = np.array([[1.0, 0.0], [-1.0, 0.0]])
    if metric == "euclidean":
        start[1] = -100.0
    bounds = shares(xp, 2, lower=0.0)
    state = init_minibatch(xp.asarray(start), bounds)
    found = minibatch_step(xp.asarray(x), state, bounds, metric=metric).state
    np.testing.assert_allclose(to_numpy(found.centers)[1], x[3], atol=1e-15)
    assert to_numpy(found.weight).tolist() == [4.0, 0.0]
    kept = minibatch_step(xp.asarray(x), state, bounds, metric=metric, empty="keep").state
    np.testing.assert_array_equal(to_numpy(kept.centers)[1], start[1])


def test_a_cluster_that_may_hold_nothing_stays():
    bounds = SizeBounds.for_stream(2, lower=[1.0, 0.0], upper=[2.0, 0.0])
    start = np.array([[1.0, 0.0], [-1.0, 0.0]])
    found = minibatch_step(unit_rows(np.ones((5, 2))), init_minibatch(start, bounds), bounds)
    if found.state.assignment.counts[1] == 0:
        np.testing.assert_array_equal(found.state.centers[1], start[1])


@pytest.mark.parametrize("metric", METRICS)
def test_no_rows_and_equal_rows(xp, metric):
    x = xp.asarray(np.repeat([[0.6, 0.8]], 6, axis=0))
    bounds = shares(xp, 2)
    state = init_minibatch(x[:2, :], bounds)
    labels, same = minibatch_step(x[:0, :], state, bounds, metric=metric)
    assert labels.shape == (0,)
    assert same is state
    found = minibatch_step(x, state, bounds, metric=metric).state
    np.testing.assert_allclose(to_numpy(found.centers), [[0.6, 0.8]] * 2, atol=1e-15)


def test_half_precision():
    x = blobs("cosine", n=60)[0].astype("float16")
    found = minibatch_step(
        x, init_minibatch(x[:4], SizeBounds.for_stream(4)), SizeBounds.for_stream(4)
    )
    assert found.state.centers.dtype == np.float16
    assert np.isfinite(found.state.centers).all()


def test_what_is_refused(xp):
    x, bounds = xp.asarray(blobs("cosine", n=20)[0]), shares(xp, 4)
    state = init_minibatch(x[:4, :], bounds)
    cases = [
        ((x[:, :3], state, bounds), {}, InvalidValueError, r"features must have shape \(b, 8\)"),
        ((x * math.nan, state, bounds), {}, InvalidValueError, "features must be finite"),
        ((x, state, shares(xp, 3)), {}, InvalidValueError, r"must have shape \(4,\)"),
        ((x, state, bounds), {"metric": "l1"}, InvalidValueError, "metric must be one of"),
        ((x, state, bounds), {"empty": "no"}, InvalidValueError, "empty must be one of"),
        ((x, state, bounds), {"weights": -(x[:, 0] ** 2)}, InvalidValueError, "at least 0"),
        (([[1.0]], state, bounds), {}, InvalidTypeError, "got list"),
        ((x, x[:4, :], bounds), {}, InvalidTypeError, "state must be a MiniBatchState, got an"),
        ((xp.asarray(np.ones((2, 8), int)), state, bounds), {}, InvalidTypeError, "real floating"),
    ]
    for arguments, options, error, message in cases:
        assert_refused(error, message, minibatch_step, *arguments, **options)
    with pytest.raises(InvalidValueError, match=r"centers must have shape \(4, d\)"):
        init_minibatch(x[:3, :], bounds)
    other = next(library for library in LIBRARIES if library.namespace is not xp.namespace)
    with pytest.raises(DeviceMismatchError, match="same array library"):
        minibatch_step(x, state, shares(other, 4))
