"""A projection is feasible, idempotent, nonexpansive, optimal, and blind to numbering."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dualclust.algos.core.projections import (
    project_capped,
    project_l1_ball,
    project_simplex,
    project_sphere,
)
from tests.compare import to_numpy
from tests.examples import examples

SETS = ["simplex", "l1_ball", "capped"]


def vectors(size):
    """Ordinary, duplicate, huge and tiny entries."""
    entry = st.one_of(
        st.floats(-2, 2),
        st.sampled_from([0.0, 0.5, 1.0, -1.0]),
        st.floats(-1e12, 1e12),
        st.floats(-1e-300, 1e-300),
    )
    return arrays(np.float64, size, elements=entry)


@st.composite
def problems(draw):
    """A set, its parameter, and two points outside or inside."""
    k = draw(st.integers(1, 8))
    name = draw(st.sampled_from(SETS))
    size = 1.0 / draw(st.integers(1, k)) if name == "capped" else draw(st.floats(0.01, 100.0))
    return name, size, draw(vectors(k)), draw(vectors(k))


def project(xp, name, size, x):
    function = {"simplex": project_simplex, "l1_ball": project_l1_ball, "capped": project_capped}
    return to_numpy(function[name](xp.asarray(x), size))


def outside(name, size, p):
    """How far p is from the set."""
    total, top = (1.0, size) if name == "capped" else (size, np.inf)
    below, above = max(0.0, -p.min()), max(0.0, (p - top).max())
    excess = p.sum() - total
    return max(below, above, excess if name == "l1_ball" else abs(excess))


@given(problem=problems())
@examples(60)
def test_the_result_lies_in_the_set(xp, problem):
    name, size, x, _ = problem
    p = project(xp, name, size, x)
    assert outside(name, size, p) <= 1e-14 * len(x) * max(size, 1.0) * 8


@given(problem=problems())
@examples(60)
def test_the_result_is_the_nearest_point(xp, problem):
    # Variational inequality: (x - p) . (q - p) <= 0 for all q in the set; its corners suffice.
    name, size, x, other = problem
    p, q = project(xp, name, size, x), project(xp, name, size, other)
    scale = np.abs(x).max() + size
    corners = [q] if name == "capped" else [*(size * np.eye(len(x))), q]
    if name == "l1_ball":
        corners.append(np.zeros(len(x)))
    for corner in corners:
        assert (x - p) @ (corner - p) <= 1e-13 * scale * max(size, 1.0) * len(x)


@given(problem=problems())
@examples(40)
def test_projecting_twice_is_projecting_once(xp, problem):
    name, size, x, _ = problem
    p = project(xp, name, size, x)
    np.testing.assert_allclose(
        project(xp, name, size, p), p, rtol=0, atol=1e-13 * len(x) * max(size, 1.0)
    )


@given(problem=problems())
@examples(40)
def test_distances_do_not_grow(xp, problem):
    name, size, x, y = problem
    moved = np.linalg.norm(project(xp, name, size, x) - project(xp, name, size, y))
    scale = np.abs(x).max() + np.abs(y).max() + size
    assert moved <= np.linalg.norm(x - y) * (1 + 1e-12) + 1e-13 * len(x) * scale


@given(problem=problems(), data=st.data())
@examples(40)
def test_the_numbering_is_free(xp, problem, data):
    name, size, x, _ = problem
    order = np.asarray(data.draw(st.permutations(range(len(x)))))
    np.testing.assert_allclose(
        project(xp, name, size, x[order]),
        project(xp, name, size, x)[order],
        rtol=0,
        atol=1e-13 * len(x) * max(size, 1.0),
    )


@given(problem=problems())
@examples(40)
def test_equal_entries_stay_equal(xp, problem):
    name, size, x, _ = problem
    twice = np.concatenate([x, x])
    p = project(xp, name, size, twice)
    np.testing.assert_allclose(p[: len(x)], p[len(x) :], rtol=0, atol=1e-13 * max(size, 1.0))


@given(x=vectors(st.tuples(st.integers(0, 3), st.integers(1, 5))))
@examples(60)
def test_rows_on_the_sphere_keep_their_direction(xp, x):
    w = to_numpy(project_sphere(xp.asarray(x)))
    zero = ~x.any(axis=1)
    assert not w[zero].any()
    np.testing.assert_allclose(np.linalg.norm(w[~zero], axis=1), 1.0, rtol=4 * 2.0**-52)
    top = np.abs(x).max(axis=1, keepdims=True, initial=0.0)
    safe = x / np.where(top > 0, top, 1.0)
    np.testing.assert_allclose(
        np.linalg.norm(safe, axis=1, keepdims=True) * w, safe, rtol=1e-14, atol=1e-300
    )


@pytest.mark.parametrize("name", SETS)
def test_the_check_for_the_set_can_fail(name):
    assert outside(name, 0.5, np.asarray([0.9, 0.9])) > 0.1
    assert outside(name, 0.5, np.asarray([-0.1, 0.6])) >= 0.1 - 1e-15
