"""What holds for any outputs, weights and labels: feasibility, the certificate, no NaN."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dualclust.algos.pseudo_labels.em import em_labels, em_step
from dualclust.algos.pseudo_labels.solver import (
    floor_outputs,
    label_gap,
    pseudo_label_energy,
    pseudo_labels,
)
from tests.compare import to_numpy
from tests.examples import examples
from tests.libraries import ONE_EACH

WEIGHTS = st.one_of(st.sampled_from([0.0, 1.0, 100.0]), st.floats(1e-3, 1e3))


@st.composite
def simplex_rows(draw, m, k):
    """Rows from flat to one-hot, with zeros and with ties."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    logits = np.round(rng.normal(size=(m, k)), draw(st.sampled_from([0, 1, 8])))
    logits *= 10.0 ** draw(st.integers(-2, 3))
    rows = np.exp(logits - logits.max(axis=1, keepdims=True))
    rows[rows < draw(st.sampled_from([0.0, 1e-3]))] = 0.0
    return rows / rows.sum(axis=1, keepdims=True)


@st.composite
def problems(draw, max_m=12, max_k=6):
    """Outputs, and weights of which some are 0."""
    m, k = draw(st.integers(1, max_m)), draw(st.integers(1, max_k))
    sigma = draw(simplex_rows(m, k))
    u = draw(arrays(np.float64, k, elements=st.sampled_from([0.0, 1e-6, 0.1, 0.5, 1.0])))
    return sigma, u, {"fairness_weight": draw(WEIGHTS), "beta": draw(WEIGHTS)}


def scale_of(u, weights):
    """Size of the energy, against which rounding is measured."""
    return weights["beta"] + weights["fairness_weight"] * float(u.sum())


@given(problem=problems(), data=st.data())
@examples(60)
def test_the_gap_covers_the_distance_to_the_minimum(xp, problem, data):
    sigma, u, weights = problem
    other = xp.asarray(data.draw(simplex_rows(*sigma.shape)))
    s, weights = xp.asarray(sigma), {**weights, "prior": xp.asarray(u)}
    scale = scale_of(u, weights)
    best = pseudo_labels(s, **weights)
    assert float(best.gap) >= -1e-13 * scale
    assert float(best.gap) <= 1e-10 * weights["beta"] + 1e-12 * scale
    mixed = 0.5 * (other + best.labels)
    for y in (other, mixed, best.labels):
        above = float(pseudo_label_energy(s, y, **weights)) - float(best.objective)
        for duals in (None, best.duals):
            gap = float(label_gap(s, y, **weights, duals=duals))
            assert gap >= -1e-13 * scale
            assert above <= gap + 1e-13 * scale


@given(problem=problems())
@examples(40)
def test_labels_are_on_the_simplex_and_positive(xp, problem):
    sigma, u, weights = problem
    result = pseudo_labels(xp.asarray(sigma), **weights, prior=xp.asarray(u), n_iter=6)
    y = to_numpy(result.labels)
    np.testing.assert_allclose(y.sum(axis=1), 1.0, rtol=1e-14)
    assert (y > 0).all()
    assert (to_numpy(result.duals.prices) >= 0).all()
    assert (to_numpy(result.duals.slack) >= 0).all()


@given(problem=problems(), seed=st.integers(0, 2**32))
@examples(30)
def test_samples_and_clusters_have_no_order(problem, seed):
    sigma, u, weights = problem
    rng = np.random.default_rng(seed)
    rows, columns = (rng.permutation(length) for length in sigma.shape)
    here = pseudo_labels(sigma, **weights, prior=u)
    there = pseudo_labels(sigma[rows][:, columns], **weights, prior=u[columns])
    slack = 2e-10 * weights["beta"] + 1e-12 * scale_of(u, weights)
    assert abs(float(here.objective) - float(there.objective)) <= slack


@given(problem=problems(), data=st.data())
@examples(30)
def test_em_never_raises_the_energy(xp, problem, data):
    sigma, u, weights = problem
    weights = {
        "fairness_weight": weights["fairness_weight"],
        "beta": weights["beta"] + 1e-3,
        "prior": xp.asarray(u),
    }
    s = xp.asarray(sigma)
    y = floor_outputs(xp.asarray(data.draw(simplex_rows(*sigma.shape))))
    before = float(pseudo_label_energy(s, y, **weights))
    after = float(pseudo_label_energy(s, em_step(s, y, **weights), **weights))
    assert after <= before + 1e-12 * (scale_of(u, weights) + abs(before))


@st.composite
def finite_problems(draw):
    """Entries of any size instead of outputs, weights at the ends of what is allowed."""
    entry = st.one_of(
        st.floats(allow_nan=False, allow_infinity=False),
        st.floats(0.0, 1.0),
        st.sampled_from([0.0, -0.0, 1.0, 5e-324, 1e-300, 1e-160, 1e-54]),
    )
    m, k = draw(st.integers(1, 6)), draw(st.integers(1, 5))
    sigma = draw(arrays(np.float64, (m, k), elements=entry))
    dtype = draw(st.sampled_from(["float32", "float64"]))
    top = float(np.finfo(dtype).max)
    share = st.one_of(st.floats(0.0, 1.0), st.sampled_from([0.0, 1e-300, 1e30, 1e300]))
    u = draw(st.one_of(st.none(), arrays(np.float64, k, elements=share)))
    weight = st.one_of(WEIGHTS, st.sampled_from([1e-100, 1e-12, 1e12, 1e100]))
    return np.clip(sigma, -top, top).astype(dtype), u, draw(weight), draw(weight)


def check_no_nan(xp, problem):
    sigma, u, balance, beta = problem
    s, u = xp.asarray(sigma), None if u is None else xp.asarray(u)
    weights = {"fairness_weight": balance, "beta": beta, "prior": u}
    for n_iter in (None, 4):
        result = pseudo_labels(s, **weights, n_iter=n_iter, max_iter=30)
        y = to_numpy(result.labels)
        assert np.isfinite(y).all()
        np.testing.assert_allclose(y.sum(axis=1), 1.0, rtol=1e-6)
        for part in (result.objective, result.gap, result.residual, *result.duals):
            assert not np.isnan(to_numpy(part)).any()
    # Where a wanted label is missing the energy is infinite, but still no NaN.
    for labels in (result.labels, xp.asarray(np.eye(*sigma.shape))):
        assert not np.isnan(to_numpy(pseudo_label_energy(s, labels, **weights)))
        assert not np.isnan(to_numpy(label_gap(s, labels, **weights)))
    assert np.isfinite(to_numpy(floor_outputs(s, prior=u))).all()
    if beta > 0:
        assert np.isfinite(to_numpy(em_labels(s, **weights, n_iter=3))).all()


# Rows without weight beside one of a single cluster, and a balance of nearly nothing.
NEAR_ZERO = np.zeros((4, 4))
NEAR_ZERO[0, 1], NEAR_ZERO[1, 0], NEAR_ZERO[2, 2] = 4.56537378e-54, 1.0, 1e-239
NO_BALANCE = NEAR_ZERO, np.asarray([0.0, 1.0, 0.0, 0.25]), 1e-94, 1.0


@given(problem=finite_problems())
@example(problem=NO_BALANCE)
@examples(60)
def test_no_nan_from_any_finite_input(xp, problem):
    check_no_nan(xp, problem)


@pytest.mark.slow
@pytest.mark.parametrize("xp", ONE_EACH, ids=lambda library: library.name, indirect=True)
@given(problem=finite_problems())
@settings(max_examples=10_000)
def test_no_nan_from_any_finite_input_in_many_cases(xp, problem):
    check_no_nan(xp, problem)
