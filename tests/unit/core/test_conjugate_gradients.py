"""Conjugate gradients against elimination; where they end, and what they read back."""

import numpy as np
import pytest

from dualclust.algos.core.conjugate_gradients import conjugate_gradients
from tests.compare import assert_close, assert_equal, to_numpy


def system(rng, k=12, spread=1.0):
    """A symmetric positive definite matrix with a diagonal of any size, and a right-hand side."""
    a = rng.normal(size=(k, k))
    scale = np.exp(spread * rng.normal(size=k))
    return (a @ a.T + k * np.eye(k)) * scale[:, None] * scale, rng.normal(size=k)


@pytest.mark.parametrize("read_back", [True, False])
def test_it_is_the_solution_of_the_system(xp, rng, read_back):
    matrix, right = system(rng)
    a, b = xp.asarray(matrix), xp.asarray(right)
    found = conjugate_gradients(
        lambda v: xp.namespace.matmul(a, v),
        b,
        diagonal=xp.asarray(np.diag(matrix)),
        tol=1e-13,
        max_iter=60,
        read_back=read_back,
    )
    assert_close(found, xp.asarray(np.linalg.solve(matrix, right)), rtol=1e-9)


def test_the_diagonal_saves_products(rng):
    matrix, right = system(rng, k=40, spread=3.0)
    counts = []
    for diagonal in (None, np.diag(matrix)):
        products = []
        conjugate_gradients(
            lambda v, seen=products: seen.append(v) or matrix @ v,
            right,
            diagonal=diagonal,
            tol=1e-6,
            max_iter=500,
        )
        counts.append(len(products))
    assert counts[1] < counts[0] / 2


def test_it_stops_at_the_tolerance_only_where_it_may_read(rng):
    matrix, right = system(rng)
    for read_back, expected in ((True, range(2, 20)), (False, [50])):
        products = []
        conjugate_gradients(
            lambda v, seen=products: seen.append(v) or matrix @ v,
            right,
            tol=1e-2,
            max_iter=50,
            read_back=read_back,
        )
        assert len(products) in expected


@pytest.mark.parametrize("read_back", [True, False])
def test_nothing_to_solve_and_no_positive_curvature_stay_finite(xp, read_back):
    options = {"tol": 1e-6, "max_iter": 5, "read_back": read_back}
    zero = xp.asarray(np.zeros(3))
    assert_equal(conjugate_gradients(lambda v: 2.0 * v, zero, **options), zero)
    right = xp.asarray([1.0, -2.0, 3.0])
    assert_equal(conjugate_gradients(lambda v: -v, right, **options), zero)
    tiny = conjugate_gradients(lambda v: 2.0 * v, 1e-170 * right, **options)
    assert np.isfinite(to_numpy(tiny)).all()


@pytest.mark.parametrize("preconditioned", [False, True])
def test_it_takes_the_products_that_the_tolerance_asks_for(rng, preconditioned):
    """The residual after each product, in the norm of the preconditioner, from the solutions."""
    matrix, right = system(rng, k=8, spread=0.5)
    diagonal = np.diag(matrix) if preconditioned else None
    scale = np.diag(matrix) if preconditioned else np.ones(8)

    def solved(tol, max_iter=8, read_back=True, right=right):
        products = []
        x = conjugate_gradients(
            lambda v: products.append(v) or matrix @ v,
            right,
            diagonal=diagonal,
            tol=tol,
            max_iter=max_iter,
            read_back=read_back,
        )
        return len(products), x

    def norm(residual):
        return np.sqrt((residual**2 / scale).sum())

    least, seen = 1.0, 0
    for n in range(1, 6):
        taken, x = solved(0.0, max_iter=n, read_back=False)
        assert taken == n
        share = norm(right - matrix @ x) / norm(right)
        if share < 0.9 * least:  # no residual before it was as small
            assert solved(1.01 * share)[0] == n < solved(0.99 * share)[0]
            least, seen = share, seen + 1
    assert seen > 2
    assert solved(0.5, right=np.zeros(8))[0] == 0  # nothing is left to do
    assert solved(1.0)[0] == 0


def test_a_direction_without_curvature_ends_it():
    products = []
    conjugate_gradients(
        lambda v: products.append(v) or -v, np.ones(3), tol=1e-6, max_iter=9, read_back=True
    )
    assert len(products) == 1
