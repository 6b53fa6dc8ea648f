"""The linear system of a Newton step, against the matrix that its module prints, made by NumPy.

`test_solver.py` runs all ways of solving it on every library.
"""

from __future__ import annotations

import numpy as np
import pytest
from array_api_compat import numpy as xp

from dualclust.algos.pseudo_labels import _newton as newton
from dualclust.algos.pseudo_labels import _system as system
from dualclust.algos.pseudo_labels._interior_point import Problem, State
from tests.compare import to_numpy


def given(m, k, *, zero=False, fixed=False, steps=2, block_rows=2):
    rng = np.random.default_rng(m + 10 * k)
    shares = rng.dirichlet(np.ones(k)) * m
    shares[1] *= not zero
    problem = Problem(
        xp.asarray(rng.dirichlet(np.full(k, 0.4), size=m)),
        xp.asarray(0.4), xp.asarray(shares), xp.asarray(1e-9), block_rows, fixed,
    )  # fmt: skip
    state = newton.init(problem)
    for _ in range(steps):
        state = newton.iterate(problem, state, xp.asarray(False))
    return problem, state


def in_numpy(state: State):
    y = np.concatenate([to_numpy(part) for part in state.labels])
    return y, to_numpy(state.slack)[:, None] + to_numpy(state.drops)


def check_solution(problem, state, right):
    """`solve` against the inverse of the printed matrix; 0 where a price is fixed."""
    y, g = in_numpy(state)
    h, priced = y / g, to_numpy(problem.shares) > 0
    matrix = np.diag(h.sum(axis=0)) - h.T @ (h / h.sum(axis=1, keepdims=True))
    z = y.sum(axis=0) / np.where(priced, to_numpy(state.prices), 1.0)
    right = np.where(priced, right, 0.0)
    want = np.zeros_like(right)
    inside = (matrix + np.diag(z))[np.ix_(priced, priced)]
    want[priced] = np.linalg.solve(inside, right[priced])
    linear = system.system(problem, state)
    found = to_numpy(system.solve(problem, linear, xp.asarray(right)))
    np.testing.assert_allclose(found, want, rtol=1e-7, atol=1e-9 * np.abs(want).max())
    return linear


@pytest.mark.parametrize("zero", [False, True])
@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize(
    ("m", "k", "way"),
    [
        (7, 4, "columns"),
        (4, 4, "columns"),
        (130, 128, "columns"),
        (130, 129, "columns"),
        (3, 5, "rows"),
        (128, 130, "rows"),
        (129, 130, "rows"),
    ],
)
def test_each_way_solves_the_printed_system(m, k, way, fixed, zero):
    """A system of up to 128 unknowns is eliminated where no value may be read back."""
    problem, state = given(m, k, zero=zero, fixed=fixed, block_rows=50)
    linear = check_solution(problem, state, np.random.default_rng(1).normal(size=k))
    n = min(m, k)
    assert tuple(linear.links.shape) == (n, n)
    assert (linear.h is not None) == (way == "rows")
    assert (linear.factors is not None) == (fixed and n <= 128)


def test_a_system_that_is_not_held_is_solved_as_printed():
    problem, state = given(1025, 1026, zero=True, block_rows=500)
    linear = check_solution(problem, state, np.random.default_rng(1).normal(size=1026))
    assert linear.links is None


def test_a_matrix_of_a_thousand_unknowns_is_made_and_of_128_eliminated():
    assert (system.DENSE, system.UNROLLED) == (1024, 128)


@pytest.mark.parametrize("shape", [(7, 4), (3, 5)])
def test_the_sums_over_the_rows(shape):
    """A right-hand side is made of the column terms of targets and of a centering of 1."""
    problem, state = given(*shape)
    y, g = in_numpy(state)
    a, h = 0.4 * to_numpy(problem.sigma), y / g

    def terms(x, row_sum):
        excess = (x.sum(axis=1) - row_sum) / h.sum(axis=1)
        return (x - h * excess[:, None]).sum(axis=0)

    linear = system.system(problem, state)
    mass = y.sum(axis=0)
    np.testing.assert_allclose(to_numpy(linear.mass), mass, rtol=1e-13)
    want = np.clip(y * g - a, 0.0, None).mean()
    np.testing.assert_allclose(float(linear.excess), want, rtol=1e-12)
    want = terms(a / g, 1.0) - mass
    np.testing.assert_allclose(to_numpy(linear.b_target), want, rtol=1e-9, atol=1e-12)
    want = terms(1.0 / g, 0.0)
    np.testing.assert_allclose(to_numpy(linear.b_center), want, rtol=1e-9, atol=1e-12)


def test_a_singular_system_is_solved_with_a_ridge_of_four_units():
    """Two linked nodes without an anchor: the ridge alone holds them, at 1 / (4 eps)."""
    problem, state = given(4, 2, steps=0)
    linear = system.system(problem, state)._replace(
        links=xp.asarray([[0.0, 1.0], [1.0, 0.0]]), anchors=xp.asarray([1e-40, 1e-40])
    )
    found = to_numpy(system.solve(problem, linear, xp.asarray([1.0, 1.0])))
    np.testing.assert_allclose(found, 0.25 / np.finfo(np.float64).eps, rtol=0.2)


def test_elimination_keeps_the_digits_of_anchors_that_nearly_vanish():
    """It adds positive numbers only: a matrix with these entries would be singular in float64."""
    links = np.asarray([[0.0, 1.0, 2.0], [1.0, 0.0, 3.0], [2.0, 3.0, 0.0]])
    factors = system._eliminate(xp.asarray(links), xp.asarray([1e-30, 2e-30, 5e-30]))
    found = to_numpy(system._substitute(factors, xp.asarray([1.0, 1.0, 2.0])))
    np.testing.assert_allclose(found, 4.0 / 8e-30, rtol=1e-14)
    # Beyond the common part: differences that the right-hand side drives through the links.
    right = np.asarray([3.0, -1.0, -2.0])
    anchors = np.asarray([1.0, 2.0, 5.0])
    factors = system._eliminate(xp.asarray(links), xp.asarray(anchors))
    want = np.linalg.solve(np.diag(anchors + links.sum(axis=1)) - links, right)
    found = to_numpy(system._substitute(factors, xp.asarray(right)))
    np.testing.assert_allclose(found, want, rtol=1e-13)
