"""What k-means keeps for any data: the objective's rise, sizes, and equal bits for any blocks."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.clustering._cluster_sums import best_centers, gathered_sums
from dualclust.algos.clustering._frame import frame_of
from dualclust.algos.clustering.constrained import constrained_kmeans, kmeans
from dualclust.algos.clustering.minibatch import init_minibatch, minibatch_step
from dualclust.algos.clustering.start import start_centers
from dualclust.algos.scores.sources import FeatureSource, alone, feature_source
from tests.examples import examples
from tests.problems import unit_rows


@st.composite
def clusterings(draw):
    """Features, weights or None, bounds, starting centers, and the metric."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n, d, k = draw(st.integers(1, 80)), draw(st.integers(1, 5)), draw(st.integers(1, 6))
    metric = draw(st.sampled_from(["cosine", "euclidean"]))
    x = rng.normal(size=(n, d)) + draw(st.integers(0, 4)) * rng.normal(size=d)
    if draw(st.booleans()):
        x = x[rng.integers(0, max(1, n // 4), size=n)]  # many equal rows
    if metric == "cosine":
        x = unit_rows(x)
    else:
        x = x * 10.0 ** draw(st.integers(-8, 8))
    x = x.astype(draw(st.sampled_from(["float32", "float64"])))
    sizes = np.bincount(rng.integers(0, k, size=n), minlength=k)
    lower = np.maximum(sizes - rng.integers(0, 3), 0)
    upper = np.minimum(sizes + rng.integers(0, 3), n)
    bounds = SizeBounds.from_counts(lower.tolist(), upper.tolist(), n_samples=n)
    start = rng.normal(size=(k, d)) * np.abs(x).max()
    start = unit_rows(start + 1e-300) if metric == "cosine" else start
    weights = rng.uniform(0.01, 9.0, size=n) if draw(st.booleans()) else None
    return x, weights, bounds, start.astype(x.dtype), metric


def rounding(x, weights, metric):
    """Of the objective: terms are of the size of squared rows and centers."""
    w = np.ones(len(x)) if weights is None else weights
    largest = 1.0 if metric == "cosine" else x.shape[1] * float(np.abs(x).max()) ** 2
    return 64 * float(np.finfo(x.dtype).eps) * float(w.sum()) * largest


@examples(60)
@given(clusterings(), st.sampled_from(["relocate", "keep"]))
def test_the_objective_of_lloyd_never_falls(problem, empty):
    x, weights, _, start, metric = problem
    values = []
    options = {"metric": metric, "weights": weights, "empty": empty}
    values.append(kmeans(x, start, max_iter=0, **options).objective)
    kmeans(x, start, max_iter=8, progress=lambda s, c: values.append(s.objective), **options)
    noise = rounding(x, weights, metric)
    assert all(after >= before - noise for before, after in itertools.pairwise(values))


@examples(40)
@given(clusterings(), st.sampled_from(["relocate", "keep"]))
def test_the_objective_under_bounds_never_falls_by_more_than_the_gap(problem, empty):
    x, weights, bounds, start, metric = problem
    values = []
    found = constrained_kmeans(
        x,
        bounds,
        start,
        metric=metric,
        weights=weights,
        max_iter=5,
        tol=0.0,
        empty=empty,
        progress=lambda s, c: values.append(s.objective),
    )
    noise = rounding(x, weights, metric)
    for before, after in itertools.pairwise(values):
        assert after >= before - 1e-3 * max(abs(before), abs(after)) - noise
    assert found.assignment.violation == 0
    counts = np.bincount(found.assignment.labels, minlength=bounds.n_clusters)
    np.testing.assert_array_equal(found.assignment.counts, counts)
    assert np.all((bounds.lower <= counts) & (counts <= bounds.upper))
    assert np.isfinite(found.centers).all()


@examples(40)
@given(clusterings(), st.integers(0, 2**64 - 1))
def test_a_source_gives_the_bits_of_the_array(problem, seed):
    x, weights, bounds, _, metric = problem
    n, d = x.shape
    k = min(bounds.n_clusters, n)
    source = FeatureSource(d, lambda a, b: x[a:b].copy(), lambda ids: x[ids], alone(n))
    start = start_centers(source, k, seed=seed, metric=metric, weights=weights)
    same = start_centers(feature_source(x), k, seed=seed, metric=metric, weights=weights)
    assert start.tobytes() == same.tobytes()
    one, other = (
        kmeans(rows, start, metric=metric, weights=weights, max_iter=4) for rows in (x, source)
    )
    assert one.centers.tobytes() == other.centers.tobytes()
    assert one.objective == other.objective


@examples(40)
@given(clusterings(), st.integers(0, 2**32))
def test_the_order_of_the_rows_changes_no_center(problem, seed):
    """Of given labels: the sums are integers."""
    x, weights, _, start, metric = problem
    rng = np.random.default_rng(seed)
    order, labels = rng.permutation(len(x)), rng.integers(0, len(start), size=len(x))

    def centers(rows):
        own = None if weights is None else weights[rows]
        frame = frame_of(x[rows], metric, own)
        sums = gathered_sums(frame, labels[rows], len(start))
        return best_centers(frame, sums, start).tobytes()

    assert centers(np.arange(len(x))) == centers(order)


@pytest.mark.parametrize("empty", ["relocate", "keep"])
@examples(30)
@given(clusterings())
def test_mini_batches_stay_finite(empty, problem):
    x, weights, bounds, start, metric = problem
    bounds = SizeBounds.for_stream(bounds.n_clusters, lower=0.5, upper=2.0)
    state = init_minibatch(start, bounds)
    for i in range(0, len(x), 20):
        own = None if weights is None else weights[i : i + 20]
        labels, state = minibatch_step(
            x[i : i + 20], state, bounds, metric=metric, weights=own, empty=empty
        )
        assert np.isfinite(state.centers).all()
        assert np.isfinite(state.means).all()
        assert labels.min() >= 0
    assert state.assignment.counts.sum() == len(x)
    if metric == "cosine":
        norms = np.linalg.norm(state.centers, axis=1)
        np.testing.assert_allclose(norms, 1.0, atol=4 * float(np.finfo(x.dtype).eps))


@examples(60)
@given(clusterings(), st.integers(0, 2**32))
def test_sums_of_what_moved_are_the_sums_of_all_rows(problem, seed):
    x, weights, _, start, metric = problem
    frame, k = frame_of(x, metric, weights), len(start)
    rng = np.random.default_rng(seed)
    old = rng.integers(0, k, size=len(x))
    new = np.where(rng.random(len(x)) < rng.random(), rng.integers(0, k, size=len(x)), old)
    moved = gathered_sums(frame, new, k, (gathered_sums(frame, old, k), old))
    for found, expected in zip(moved, gathered_sums(frame, new, k), strict=True):
        np.testing.assert_array_equal(found, expected, strict=True)
