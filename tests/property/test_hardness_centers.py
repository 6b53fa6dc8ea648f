"""The gap of a center is a proof: no unit vector, and no vector in the ball, does better."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dualclust.algos.clustering.hardness_weighted import CenterStatus, hardness, hardness_centers
from tests.compare import to_numpy
from tests.examples import examples
from tests.libraries import LIBRARIES
from tests.problems import unit_rows

NUMPY = LIBRARIES[0]


@st.composite
def clusters(draw, min_dimension=1):
    n, k, d = draw(st.integers(1, 20)), draw(st.integers(1, 4)), draw(st.integers(min_dimension, 5))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    x, w = (unit_rows(rng.normal(size=(rows, d))) for rows in (n, k))
    y = rng.integers(0, k, size=n) if draw(st.booleans()) else (x @ w.T).argmax(axis=1)
    return x, y, w, 10.0 ** draw(st.floats(-1.5, 1.0))


def loss(x, y, v, j, others, lam):
    """f(v) of Eq. 1 for cluster j, in nats per sample."""
    a = x[y == j] @ others.T / lam
    a[:, j] = -np.inf
    log_a = np.logaddexp.reduce(a, axis=1) if a.shape[1] > 1 else np.full(len(a), -np.inf)
    return np.logaddexp(0.0, log_a - x[y == j] @ v / lam).mean()


@given(problem=clusters(), seed=st.integers(0, 2**32))
@examples(300)
def test_no_vector_of_the_ball_beats_the_gap(problem, seed):
    x, y, w, lam = problem
    result = hardness_centers(x, y, w, temperature=lam, max_iter=20)
    rng, d = np.random.default_rng(seed), x.shape[1]
    rivals = unit_rows(rng.normal(size=(30, d))) * rng.choice([1.0, 0.5, 0.1], size=(30, 1))
    for j in range(len(w)):
        if result.status[j] == CenterStatus.EMPTY:
            continue
        found = loss(x, y, result.centers[j], j, w, lam)
        for rival in [*rivals, w[j], *x[y == j]]:
            assert found - loss(x, y, rival, j, w, lam) <= result.gap[j] + 1e-12 * (1 + 1 / lam)


@given(problem=clusters())
@examples(40)
def test_status_gap_and_residual_agree(xp, problem):
    x, y, w, lam = problem
    result = hardness_centers(
        xp.asarray(x), xp.asarray(y), xp.asarray(w), temperature=lam, max_iter=30
    )
    centers, residual, gap, status = (to_numpy(part) for part in result[:4])
    np.testing.assert_allclose(np.linalg.norm(centers, axis=1), 1.0, rtol=1e-14)
    assert (gap >= 0).all()
    assert (residual >= 0).all()
    assert (residual <= 2 + 1e-12).all()
    np.testing.assert_array_equal(status == CenterStatus.EMPTY, ~np.isin(np.arange(len(w)), y))
    assert (gap[status == CenterStatus.CERTIFIED] <= 1e-8).all()
    assert (gap[status == CenterStatus.NOT_CONVERGED] > 1e-8).all()
    assert 0 <= result.n_iter <= 30


@given(problem=clusters(min_dimension=2))
@examples(25)
def test_all_libraries_find_the_same_objective(xp, problem):
    x, y, w, lam = problem
    there = hardness_centers(
        xp.asarray(x), xp.asarray(y), xp.asarray(w), temperature=lam, max_iter=50
    )
    here = hardness_centers(x, y, w, temperature=lam, max_iter=50)
    for j in range(len(w)):
        if here.status[j] != CenterStatus.CERTIFIED:
            continue
        a, b = (loss(x, y, to_numpy(r.centers)[j], j, w, lam) for r in (there, here))
        assert abs(a - b) <= 2e-8 + float(to_numpy(there.gap)[j])


@given(problem=clusters(), data=st.data())
@examples(100)
def test_the_numbering_of_the_clusters_is_free(problem, data):
    x, y, w, lam = problem
    order = np.asarray(data.draw(st.permutations(range(len(w)))))
    back = np.argsort(order)
    plain = hardness(x, y, w, temperature=lam)
    np.testing.assert_allclose(
        hardness(x, back[y], w[order], temperature=lam), plain, rtol=1e-10, atol=1e-300
    )


@given(problem=clusters())
@examples(100)
def test_hardness_is_a_probability_that_falls_as_the_center_comes_near(problem):
    x, y, w, lam = problem
    q = hardness(x, y, w, temperature=lam)
    assert ((q >= 0) & (q <= 1)).all()
    nearer = w.copy()
    nearer[y[0]] = x[0]
    moved = hardness(x[:1], y[:1], nearer, temperature=lam)
    assert moved[0] <= q[0] * (1 + 1e-9) + 1e-300
