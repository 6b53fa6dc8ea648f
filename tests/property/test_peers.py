"""The peers against their definitions: transcriptions, other solvers, limits, any finite input."""

import itertools

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize
from scipy.special import logsumexp

from dualclust.algos.baselines.comparison import compare_assignments, level_prices
from dualclust.algos.baselines.entropy import (
    EntropyRule,
    assign_entropy,
    entropy_objective,
    entropy_step,
    entropy_upper_bound,
)
from dualclust.algos.baselines.sign_rule import SignRule, assign_sign_rule
from dualclust.algos.baselines.sinkhorn_transport import SinkhornOptions, sinkhorn, soft_plan
from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.offline.assignment import assign_exact
from dualclust.algos.online.certificates import dual_value, objective, violation
from tests.compare import assert_equal, to_numpy
from tests.examples import examples
from tests.libraries import LIBRARIES
from tests.problems import best_value, dyadic_streams

NUMPY = LIBRARIES[0]


def soft_problem(seed):
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(1, 9)), int(rng.integers(1, 5))
    shares = rng.dirichlet(np.full(k, 3.0)) + 1e-3
    return rng.normal(size=(n, k)), shares / shares.sum(), float(10.0 ** rng.uniform(-1.0, 0.5))


def log_sinkhorn(scores, shares, epsilon, rounds):
    """Potentials of both sides in turn, by SciPy's logsumexp."""
    g = np.zeros(scores.shape[1])
    for _ in range(rounds):
        f = -logsumexp(scores / epsilon + g, axis=1, keepdims=True)
        g = np.log(shares * len(scores)) - logsumexp(scores / epsilon + f, axis=0)
    return epsilon * g


@given(seed=st.integers(0, 10**6), rounds=st.integers(1, 20))
@examples(30)
def test_sinkhorn_equals_alternating_potentials(xp, seed, rounds):
    scores, shares, epsilon = soft_problem(seed)
    options = SinkhornOptions(epsilon, rounds, 0.0)
    found = sinkhorn(xp.asarray(scores), shares=xp.asarray(shares), options=options)
    expected = log_sinkhorn(scores, shares, epsilon, rounds)
    np.testing.assert_allclose(to_numpy(found.prices), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("seed", range(12))
def test_sinkhorn_solves_the_entropic_problem_of_a_conic_solver(seed):
    scores, shares, epsilon = soft_problem(seed)
    n, k = scores.shape
    Q = cp.Variable((n, k))
    value = cp.sum(cp.multiply(scores, Q)) + epsilon * cp.sum(cp.entr(Q))
    sums = [cp.sum(Q, axis=1) == 1, cp.sum(Q, axis=0) == n * shares]
    problem = cp.Problem(cp.Maximize(value), sums)
    problem.solve(solver=cp.CLARABEL)
    found = sinkhorn(scores, shares=shares, options=SinkhornOptions(epsilon, 2000, 1e-10))
    plan = soft_plan(scores, found.prices, epsilon=epsilon)
    ours = (plan * scores).sum() - epsilon * (plan * np.log(np.maximum(plan, 1e-300))).sum()
    assert ours == pytest.approx(problem.value, abs=1e-6)
    np.testing.assert_allclose(plan, Q.value, atol=2e-4)


@pytest.mark.parametrize("seed", range(12))
def test_sinkhorn_minimizes_the_smooth_dual(seed):
    scores, shares, epsilon = soft_problem(seed)
    n = len(scores)

    def dual(pi):
        return epsilon * logsumexp((scores + pi) / epsilon, axis=1).sum() - n * shares @ pi

    found = sinkhorn(scores, shares=shares, options=SinkhornOptions(epsilon, 2000, 1e-10))
    best = minimize(dual, np.zeros(len(shares)), method="BFGS", options={"gtol": 1e-9}).fun
    assert dual(found.prices) == pytest.approx(best, rel=1e-8, abs=1e-8)
    assert dual(np.zeros(len(shares))) >= best - 1e-9


@given(stream=dyadic_streams(max_k=4))
@settings(max_examples=12)
def test_the_soft_prices_meet_the_transport_optimum_as_epsilon_falls(stream):
    n, k = stream.scores.shape
    sizes = np.bincount(np.arange(n) % k, minlength=k)  # a size of 0 has no share
    scores, k = stream.scores[:, sizes > 0], int((sizes > 0).sum())
    sizes = sizes[:k]
    bounds = SizeBounds.from_counts(sizes.tolist(), sizes.tolist(), n_samples=n)
    optimum = assign_exact(scores, bounds).objective
    prices = None
    for epsilon in (1.0, 0.25, 0.0625):
        options = SinkhornOptions(epsilon, 1000, 1e-7)
        found = sinkhorn(scores, shares=sizes / n, options=options, prices=prices)
        prices = found.prices
        gap = dual_value(scores, level_prices(prices, bounds), bounds) - optimum
        # What the columns miss is worth their prices at most.
        slack = 1e-9 + n * float(found.residual) * (np.ptp(prices) + np.ptp(scores) + 1.0)
        assert -1e-9 <= gap <= epsilon * n * np.log(k) + slack
        soft = (soft_plan(scores, prices, epsilon=epsilon) * scores).sum()
        assert optimum - epsilon * n * np.log(k) - slack <= soft <= optimum + slack
    assert gap <= 0.0625 * n * np.log(k) + slack


@given(stream=dyadic_streams(max_k=4), rounds=st.integers(1, 5), seed=st.integers(0, 10**6))
@examples(20)
def test_prices_of_any_quality_bound_the_optimum(stream, rounds, seed):
    scores = stream.scores[: 6 if stream.scores.shape[1] > 2 else 8]
    n, k = scores.shape
    sizes = np.bincount(np.random.default_rng(seed).integers(0, k, n), minlength=k)
    low, high = np.maximum(sizes - 1, 0), np.minimum(sizes + 1, n)
    bounds = SizeBounds.from_counts(low.tolist(), high.tolist(), n_samples=n)
    best = best_value(scores, low, high)
    found = compare_assignments(scores, bounds)
    for r in found:
        assert r.upper_bound >= best - 1e-9
        assert r.violation == violation(r.counts, bounds)
        if r.violation == 0:
            assert r.objective <= best + 1e-9
        assert not r.guaranteed or r.violation == 0
    swav = sinkhorn(scores, options=SinkhornOptions(0.05, rounds, 0.0, columns_first=True))
    assert dual_value(scores, level_prices(swav.prices, bounds), bounds) >= best - 1e-9


def entropies(seed):
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(1, 7)), int(rng.integers(1, 4))
    return rng.normal(size=(n, k)), float(rng.uniform(0, 3) * n)


@given(seed=st.integers(0, 10**6))
@examples(40)
def test_the_bound_of_the_entropy_problem_is_above_every_labeling(seed):
    scores, weight = entropies(seed)
    n, k = scores.shape
    rule = EntropyRule(weight, n)
    found = assign_entropy(scores, rule, n_passes=50)
    best = -np.inf
    for labels in itertools.product(range(k), repeat=n):
        y = np.asarray(labels)
        best = max(best, entropy_objective(scores, y, np.bincount(y, minlength=k), rule))
    assert found.objective <= best + 1e-9
    assert best <= found.upper_bound + 1e-9
    prices = np.random.default_rng(seed).normal(size=k)
    assert best <= entropy_upper_bound(scores, prices, rule) + 1e-9


@given(seed=st.integers(0, 10**6))
@examples(20)
def test_one_sample_at_a_time_never_lowers_the_objective(xp, seed):
    scores, weight = entropies(seed)
    n, k = scores.shape
    rule = EntropyRule(weight, n)
    labels = np.random.default_rng(seed).integers(0, k, n)
    counts = xp.asarray(np.bincount(labels, minlength=k))
    for i in [*range(n), *range(n)]:
        before = objective_of(scores, labels, weight)
        y, counts = entropy_step(
            xp.asarray(scores[i : i + 1]), xp.asarray(labels[i : i + 1]), counts, rule
        )
        options = [objective_of(scores, replaced(labels, i, j), weight) for j in range(k)]
        labels = replaced(labels, i, int(y[0]))
        after = objective_of(scores, labels, weight)
        assert after >= before - 1e-9
        assert after == pytest.approx(max(options), abs=1e-9)  # the best single move
    assert to_numpy(counts).tolist() == np.bincount(labels, minlength=k).tolist()


def replaced(labels, i, j):
    labels = labels.copy()
    labels[i] = j
    return labels


def objective_of(scores, labels, weight):
    q = np.bincount(labels, minlength=scores.shape[1]) / len(labels)
    entropy = -(q[q > 0] * np.log(q[q > 0])).sum()
    return objective(scores, labels) + weight * entropy


@given(seed=st.integers(0, 10**6), batch=st.integers(1, 9), shift=st.integers(-8, 8))
@examples(25)
def test_a_constant_per_sample_changes_no_labels(xp, seed, batch, shift):
    rng = np.random.default_rng(seed)
    scores = rng.integers(-16, 17, (16, 3)) / 16.0
    moved = scores + shift * rng.integers(-2, 3, (16, 1))
    for solve in (
        lambda s: assign_sign_rule(s, SignRule(0.125, batch), n_passes=2).labels,
        lambda s: assign_entropy(s, EntropyRule(8.0, 16, batch)).labels,
    ):
        assert_equal(solve(xp.asarray(moved)), solve(xp.asarray(scores)))


@st.composite
def any_scores(draw):
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    top = float(dtype(1e37 if dtype is np.float32 else 1e300))
    width = 32 if dtype is np.float32 else 64
    tiny = float(np.finfo(dtype).smallest_subnormal)
    entry = st.one_of(
        st.floats(-top, top, width=width), st.sampled_from([0.0, -0.0, top, -top, tiny])
    )
    shape = draw(st.integers(1, 6)), draw(st.integers(1, 4))
    return draw(arrays(dtype, shape, elements=entry))


@given(
    scores=any_scores(),
    epsilon=st.sampled_from([1e-300, 1e-12, 0.05, 1.0, 1e300]),
    weight=st.sampled_from([0.0, 5e-324, 1e-12, 1.0, 1e6, 1e300]),
)
@examples(30)
def test_finite_scores_give_finite_results(xp, scores, epsilon, weight):
    n, k = scores.shape
    s = xp.asarray(scores, scores.dtype)
    for columns_first in (False, True):
        soft = sinkhorn(s, options=SinkhornOptions(epsilon, 5, 0.0, columns_first))
        assert np.isfinite(to_numpy(soft.prices)).all()
        assert np.isfinite(float(soft.residual))
        plan = to_numpy(soft_plan(s, soft.prices, epsilon=epsilon))
        np.testing.assert_allclose(plan.sum(axis=1), 1.0, rtol=1e-5)
        assert (plan >= 0).all()
    rule = EntropyRule(weight, n, batch_size=2, first_pass="published")
    found = assign_entropy(s, rule)
    assert np.isfinite(to_numpy(found.prices)).all()
    assert np.isfinite([found.objective, found.upper_bound]).all()
    signs = assign_sign_rule(s, SignRule(0.1, 2))
    assert np.isfinite(to_numpy(signs.bias)).all()
    for labels in (soft.labels, found.labels, signs.labels):
        y = to_numpy(labels)
        assert ((y >= 0) & (y < k)).all()
