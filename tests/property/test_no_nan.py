"""Finite input gives finite output, whatever its size; nothing overflows on the way."""

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dualclust.algos.assignment import assign
from dualclust.algos.bounds import from_counts
from dualclust.algos.centers import add_to_sums, init_sums, mean_centers, running_average
from dualclust.algos.certificates import dual_value, objective, size_certificate
from dualclust.algos.duals import assign_batch
from dualclust.algos.hardness_centers import hardness, hardness_centers
from dualclust.algos.projections import (
    project_capped,
    project_l1_ball,
    project_simplex,
    project_sphere,
)
from dualclust.algos.steps import StepRule, measured_steps
from tests.compare import to_numpy
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
@settings(max_examples=80)
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
@settings(max_examples=80)
def test_assignment(xp, scores, step, chunk, free_sign, data):
    n, k = scores.shape
    sizes = np.bincount(
        data.draw(st.lists(st.integers(0, k - 1), min_size=n, max_size=n)), minlength=k
    )
    bounds = xp.freeze(
        from_counts(sizes.tolist(), sizes.tolist(), n_samples=n, xp=xp.namespace, device=xp.device)
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
        lower_share=bounds.lower_share,
        upper_share=bounds.upper_share,
        step_size=1.0,
        chunk_size=chunk,
        free_sign=free_sign,
    )
    assert_finite(duals)


@given(x=matrices(largest=1.0), data=st.data())
@settings(max_examples=60)
def test_centers(xp, x, data):
    n, d = x.shape
    k = data.draw(st.integers(1, 4))
    y = xp.asarray(np.asarray([i % k for i in range(n)], dtype=np.int64))
    previous = xp.asarray(np.eye(k, d, dtype=x.dtype))
    state = add_to_sums(init_sums(k, d, xp=xp.namespace, device=xp.device), xp.asarray(x), y)
    centers = mean_centers(state, previous)
    assert_finite(state, centers, running_average(centers, previous, 3))


@given(
    seed=st.integers(0, 2**32),
    log_temperature=st.floats(-6, 6),
    dtype=st.sampled_from(["float32", "float64"]),
    kind=st.sampled_from(["random", "same", "opposite", "axes"]),
)
@example(seed=0, log_temperature=-5.125, dtype="float32", kind="random")  # a subnormal curvature
@settings(max_examples=40)
def test_hardness(xp, seed, log_temperature, dtype, kind):
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
    assert_finite(*hardness_centers(*arrays_, temperature=temperature, n_iter=8)[:4])
