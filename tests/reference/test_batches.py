"""Labels of a batch against other solvers: converged Sinkhorn, a convex program, HiGHS."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
import torch

from dualclust.algos.baselines import SinkhornOptions, sinkhorn, soft_plan
from dualclust.algos.batches import balance_soft, certify_batch
from dualclust.algos.core.errors import InvalidValueError
from dualclust.torch import BalancedLabels
from tests import highs


def instance(seed):
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(4, 30)), int(rng.integers(2, 6))
    scores = rng.normal(size=(n, k)) * 0.3 + np.linspace(0.5, 0.0, k)
    return rng, scores, (0.05, 0.1, 0.3)[seed % 3]


def test_equal_bounds_give_the_plan_of_converged_sinkhorn():
    for seed in range(50):
        _, scores, epsilon = instance(seed)
        share = np.full(scores.shape[1], 1.0 / scores.shape[1])
        options = SinkhornOptions(epsilon=epsilon, tol=1e-11, max_iter=100_000)
        wanted = soft_plan(scores, sinkhorn(scores, options=options).prices, epsilon=epsilon)
        found = balance_soft(scores, share, share, epsilon=epsilon, tol=1e-11, n_iter=50)
        np.testing.assert_allclose(found.plan, wanted, atol=1e-7)


def convex_optimum(scores, lower, upper, epsilon, weights):
    """Value of the problem by Clarabel, on an epigraph of the entropy."""
    plan = cp.Variable(scores.shape)
    sizes = weights @ plan
    worth = cp.sum(cp.multiply(weights[:, None] * scores, plan))
    entropy = cp.sum(cp.multiply(np.repeat(weights[:, None], scores.shape[1], 1), cp.entr(plan)))
    limits = [cp.sum(plan, axis=1) == 1, sizes >= lower, sizes <= upper]
    problem = cp.Problem(cp.Maximize(worth + epsilon * entropy), limits)
    problem.solve(solver=cp.CLARABEL)
    assert problem.status == "optimal"
    return problem.value, plan.value


def test_other_bounds_give_the_optimum_of_a_convex_solver():
    for seed in range(50):
        rng, scores, epsilon = instance(seed)
        n, k = scores.shape
        scores = scores[:12]
        weights = rng.integers(1, 3, len(scores)).astype(float)
        n = weights.sum()
        lower, upper = rng.random(k) / k, (1.0 + rng.random(k)) / k
        value, plan = convex_optimum(scores, n * lower, n * upper, epsilon, weights)
        found = balance_soft(
            scores, lower, upper, epsilon=epsilon, weights=weights, tol=1e-11, n_iter=50
        )
        np.testing.assert_allclose(found.plan, plan, atol=2e-4)  # the solver's own accuracy
        proof = certify_batch(
            scores,
            found.plan,
            found.prices,
            n * lower,
            n * upper,
            epsilon=epsilon,
            weights=weights,
        )
        assert abs(proof.objective - value) <= 1e-6 * max(1.0, abs(value)), seed
        assert abs(proof.upper_bound - proof.objective) <= 1e-8 * max(1.0, abs(value)), seed
        assert proof.violation <= 1e-8 * n


def test_rows_that_do_not_count_change_no_certificate():
    """Whatever their plan says: a row without a weight, or one that no score is known of."""
    rng, scores, _ = instance(1)
    n, k = scores.shape
    plan, prices = rng.dirichlet(np.ones(k), n), rng.normal(size=k)
    weights, lower, upper = rng.uniform(0.5, 2.0, n), np.full(k, 1.0), np.full(k, n / 2)
    alone = certify_batch(scores, plan, prices, lower, upper, epsilon=0.1, weights=weights)
    nothing = np.full((2, k), np.nan)
    more = np.vstack([scores, scores[:1], np.full((1, k), -np.inf)])
    found = certify_batch(
        more,
        np.vstack([plan, nothing]),
        prices,
        lower,
        upper,
        epsilon=0.1,
        weights=np.append(weights, [0.0, 1.0]),
    )
    np.testing.assert_allclose(found, alone, rtol=1e-12)


@pytest.mark.parametrize("name", ["plan", "prices", "lower", "upper", "weights"])
def test_a_certificate_of_other_shapes_is_refused(name):
    """None of them is stretched to fit."""
    given = {"scores": np.zeros((3, 2)), "plan": np.zeros((3, 2)), "prices": np.zeros(2)}
    given |= {"lower": np.zeros(2), "upper": np.ones(2), "weights": np.ones(3)}
    with pytest.raises(InvalidValueError, match=f"^{name} must have shape"):
        certify_batch(**(given | {name: given[name][:1]}))


def test_prices_do_not_decide_which_rows_count():
    """Beyond 1e37 a score is taken for infinite, by itself and not with its price."""
    scores, plan = np.asarray([[1e36, 0.0], [0.0, 1.0]]), np.eye(2)
    prices, one = np.asarray([1e38, 0.0]), np.ones(2)
    found = certify_batch(scores, plan, prices, one, one)
    assert (found.objective, found.smallest, found.largest) == (1e36 + 1.0, 1.0, 1.0)


def test_exact_labels_have_the_value_of_highs():
    for seed in range(100):
        rng = np.random.default_rng(seed)
        n, k = int(rng.integers(1, 25)), int(rng.integers(1, 6))
        scores = rng.integers(-8, 9, (n, k)) / 8.0 if seed % 2 else rng.normal(size=(n, k))
        label = BalancedLabels(k, kind="exact", lower=0.8, upper=1.3)
        rows = torch.as_tensor(scores)
        labels = label(rows)
        sizes = np.bincount(labels.numpy(), minlength=k)
        lower, upper = np.floor(0.8 * n / k + 1e-9), np.ceil(1.3 * n / k - 1e-9)
        assert (lower <= sizes).all(), seed
        assert (sizes <= upper).all(), seed
        optimum = highs.best_plan(scores, [lower] * k, [upper] * k)
        assert optimum is not None
        found = scores[np.arange(n), labels].sum()
        scale = max(1.0, float(np.abs(scores).sum()))
        assert abs(found - optimum.value) <= 1e-9 * scale, seed
        proof = label.certificate(rows, labels)
        assert proof.upper_bound >= optimum.value - 1e-9 * scale
        assert proof.violation == 0.0
