"""Finite input gives finite output, whatever its size; nothing overflows on the way."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.clustering.centers import add_to_sums, init_sums, mean_centers, running_average
from dualclust.algos.clustering.constrained import constrained_kmeans, kmeans
from dualclust.algos.clustering.hardness_weighted import hardness, hardness_centers
from dualclust.algos.clustering.metrics import (
    churn,
    clustering_scores,
    effective_clusters,
    imbalance_ratio,
    regret,
    uniformity,
)
from dualclust.algos.clustering.minibatch import init_minibatch, minibatch_step
from dualclust.algos.clustering.start import METRICS, start_centers
from dualclust.algos.core.errors import InvalidValueError
from dualclust.algos.core.projections import (
    project_capped,
    project_l1_ball,
    project_simplex,
    project_sphere,
)
from dualclust.algos.online.assignment import assign
from dualclust.algos.online.certificates import dual_value, objective, size_certificate
from dualclust.algos.online.duals import DualRule, assign_batch
from dualclust.algos.online.step_sizes import StepRule, measured_steps
from dualclust.algos.scores.sources import feature_source
from tests.compare import to_numpy
from tests.examples import examples
from tests.libraries import LIBRARIES, ONE_EACH
from tests.problems import unit_rows

SIZES = {np.float32: 1e37, np.float64: 1e300}


@st.composite
def matrices(draw, min_rows=0, largest=None):
    """Finite entries of any size: zeros of both signs, subnormal, huge, duplicate."""
    dtype = draw(st.sampled_from(list(SIZES)))
    top = float(dtype(largest or SIZES[dtype]))
    width = 32 if dtype is np.float32 else 64
    entry = st.one_of(
        st.floats(-top, top, width=width),
        st.sampled_from(
            [0.0, -0.0, 1.0, -1.0, top, -top, float(np.finfo(dtype).smallest_subnormal)]
        ),
    )
    shape = draw(st.tuples(st.integers(min_rows, 5), st.integers(1, 5)))
    return draw(arrays(dtype, shape, elements=entry))


def assert_finite(*results):
    for part in results:
        if isinstance(part, tuple):
            assert_finite(*part)
        elif isinstance(part, float | int):
            assert np.isfinite(part)
        elif part is not None:
            assert np.isfinite(to_numpy(part)).all()


@given(x=matrices(), cap=st.floats(0.2, 1.0), size=st.floats(1e-6, 1e6))
@examples(80)
def test_projections(xp, x, cap, size):
    x = xp.asarray(x)
    k = x.shape[1]
    assert_finite(
        project_sphere(x),
        project_simplex(x, size),
        project_l1_ball(x, size),
        project_capped(x, max(cap, 1.0 / k)),
    )


@given(
    scores=matrices(min_rows=1),
    step=st.one_of(st.floats(1e-300, 1e300), st.just(0.01)),
    chunk=st.integers(1, 6),
    free_sign=st.booleans(),
    data=st.data(),
)
@examples(80)
def test_assignment(xp, scores, step, chunk, free_sign, data):
    n, k = scores.shape
    sizes = np.bincount(
        data.draw(st.lists(st.integers(0, k - 1), min_size=n, max_size=n)), minlength=k
    )
    bounds = xp.freeze(
        SizeBounds.from_counts(
            sizes.tolist(), sizes.tolist(), n_samples=n, xp=xp.namespace, device=xp.device
        )
    )
    x = xp.asarray(scores)
    for rule in (StepRule(step, chunk, free_sign), measured_steps(bounds)):
        labels, state = assign(x, bounds, steps=rule)
        np.testing.assert_array_equal(to_numpy(state.counts), sizes)
        assert_finite(state, size_certificate(state, bounds))
        assert_finite(objective(x / n, labels))
        prices = state.duals.lower - state.duals.upper
        if float(np.abs(to_numpy(prices)).max()) < 1e290:
            assert_finite(dual_value(x / (2.0 * n), prices, bounds))
    _, duals = assign_batch(
        x,
        state.duals,
        DualRule(
            lower_share=bounds.lower_share,
            upper_share=bounds.upper_share,
            step_size=1.0,
            chunk_size=chunk,
            free_sign=free_sign,
        ),
    )
    assert_finite(duals)


@given(x=matrices(largest=1.0), data=st.data())
@examples(60)
def test_centers(xp, x, data):
    n, d = x.shape
    k = data.draw(st.integers(1, 4))
    y = xp.asarray(np.asarray([i % k for i in range(n)], dtype=np.int64))
    previous = xp.asarray(np.eye(k, d, dtype=x.dtype))
    state = add_to_sums(init_sums(k, d, xp=xp.namespace, device=xp.device), xp.asarray(x), y)
    centers = mean_centers(state, previous)
    assert_finite(state, centers, running_average(centers, previous, 3))


HARDNESS = {
    "seed": st.integers(0, 2**32),
    "log_temperature": st.floats(-6, 6),
    "dtype": st.sampled_from(["float32", "float64"]),
    "kind": st.sampled_from(["random", "same", "opposite", "axes"]),
}


def judge_hardness(xp, seed, log_temperature, dtype, kind):
    rng = np.random.default_rng(seed)
    n, k, d = rng.integers(1, 8), rng.integers(1, 5), rng.integers(1, 5)
    x, w = unit_rows(rng.normal(size=(n, d))), unit_rows(rng.normal(size=(k, d)))
    if kind == "same":
        x[:], w[:] = x[0], x[0]
    elif kind == "opposite":
        x[:], w[:] = x[0], -x[0]
    elif kind == "axes":
        x, w = np.eye(d)[rng.integers(0, d, n)], np.eye(d)[rng.integers(0, d, k)]
    y = xp.asarray(rng.integers(0, k, n))
    arrays_ = xp.asarray(x, dtype), y, xp.asarray(w, dtype)
    temperature = 10.0**log_temperature
    assert_finite(hardness(*arrays_, temperature=temperature))
    assert_finite(*hardness_centers(*arrays_, temperature=temperature, max_iter=8)[:4])


@given(**HARDNESS)
@example(seed=0, log_temperature=-5.125, dtype="float32", kind="random")  # a subnormal curvature
@examples(40)
def test_hardness(xp, seed, log_temperature, dtype, kind):
    judge_hardness(xp, seed, log_temperature, dtype, kind)


@st.composite
def clusterings(draw):
    """Rows of any size that squares can hold, mostly; weights or none; sizes; a start's seed."""
    x = draw(matrices(min_rows=1, largest=draw(st.sampled_from([1.0, 1e15, 1e36]))))
    n = x.shape[0]
    weight = st.one_of(st.floats(0.0, 1e3), st.sampled_from([0.0, 5e-324, 1.0, 1e100]))
    weights = draw(st.one_of(st.none(), arrays(np.float64, n, elements=weight)))
    if weights is not None and not weights.any():
        weights = None
    labels = draw(arrays(np.int64, n, elements=st.integers(0, n - 1)))
    metric, empty = draw(st.sampled_from(METRICS)), draw(st.sampled_from(["relocate", "keep"]))
    return x, weights, labels, metric, empty, draw(st.integers(0, 2**64 - 1))


def judge_kmeans(xp, case):
    rows, weights, labels, metric, empty, seed = case
    x, k = xp.asarray(rows), int(labels.max()) + 1
    if metric == "cosine":
        x = project_sphere(x)
    weights = None if weights is None else xp.asarray(weights)
    source = feature_source(x)
    start = start_centers(source, k, seed=seed, metric=metric, weights=weights)
    sizes = np.bincount(labels, minlength=k).tolist()
    place = {"xp": xp.namespace, "device": xp.device}
    bounds = SizeBounds.from_counts(sizes, sizes, n_samples=len(labels), **place)
    options = {"metric": metric, "weights": weights, "empty": empty}
    try:
        plain = kmeans(x, start, max_iter=3, **options)
    except InvalidValueError as refused:  # instead of a value that is not finite
        said = str(refused)
        assert "neither overflow nor vanish" in said or "1e-289 of the largest" in said
        return False
    held = constrained_kmeans(x, bounds, start, max_iter=2, **options)
    assert_finite(start, plain.centers, plain.objective, held.centers, held.objective)
    np.testing.assert_array_equal(to_numpy(held.assignment.counts), sizes)
    stream = SizeBounds.for_stream(k, lower=0.5, upper=2.0, **place)
    state = init_minibatch(start, stream)
    _, state = minibatch_step(x, state, stream, metric=metric, weights=weights, empty=empty)
    assert_finite(state.centers, state.means, state.assignment.duals)
    return True


def test_few_clusterings_are_refused():
    """So that the test below is not met by refusing all."""
    seen = []

    @given(case=clusterings())
    @settings(max_examples=100, database=None)
    def collect(case):
        seen.append(judge_kmeans(LIBRARIES[0], case))

    collect()
    assert sum(seen) > 0.5 * len(seen)


# Scores that differ by a subnormal number.
ALIKE = np.asarray([[0.0], [1.0]]), np.asarray([0.5, 5e-324]), np.asarray([1, 1])


# Directions of rows whose weights vanish beside those of the other clusters.
APART = np.asarray([[0.5, 0.0, 0.5], [1.0, 0.5, 0.5], [0.0, 0.5, 0.5], [0.5, 0.5, 0.5]])


@given(case=clusterings())
@example(case=(*ALIKE, "cosine", "relocate", 0))
@example(case=(APART, np.asarray([1.0, 1.0, 1e100, 1e100]), np.arange(4) % 3, "cosine", "keep", 0))
@examples(40)
def test_kmeans(xp, case):
    judge_kmeans(xp, case)


@st.composite
def labelings(draw):
    """Scores of any size, two labelings of their rows, and the value of the best one."""
    scores = draw(matrices(min_rows=1))
    n, k = scores.shape
    labels, other = (draw(arrays(np.int64, n, elements=st.integers(0, k - 1))) for _ in range(2))
    return scores, labels, other, draw(st.floats(-1e300, 1e300))


def judge_metrics(xp, case):
    scores, labels, other, best = case
    x, y, z = xp.asarray(scores), xp.asarray(labels), xp.asarray(other)
    counts = xp.asarray(np.bincount(labels, minlength=scores.shape[1]))
    assert_finite(
        uniformity(x),
        regret(x, y, best),
        churn(y, z),
        effective_clusters(counts),
        imbalance_ratio(counts),
        tuple(clustering_scores(y, z)),
    )


@given(case=labelings())
@examples(40)
def test_metrics(xp, case):
    judge_metrics(xp, case)


@pytest.mark.slow
@pytest.mark.parametrize("xp", ONE_EACH, ids=lambda library: library.name, indirect=True)
@given(case=clusterings())
@settings(max_examples=10_000)
def test_kmeans_at_length(xp, case):
    judge_kmeans(xp, case)


@pytest.mark.slow
@pytest.mark.parametrize("xp", ONE_EACH, ids=lambda library: library.name, indirect=True)
@given(case=labelings())
@settings(max_examples=10_000)
def test_metrics_at_length(xp, case):
    judge_metrics(xp, case)


@pytest.mark.slow
@pytest.mark.parametrize("xp", ONE_EACH, ids=lambda library: library.name, indirect=True)
@given(**HARDNESS)
@settings(max_examples=10_000)
def test_hardness_at_length(xp, seed, log_temperature, dtype, kind):
    judge_hardness(xp, seed, log_temperature, dtype, kind)
