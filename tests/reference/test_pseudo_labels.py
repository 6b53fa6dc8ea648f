"""Pseudo-labels against Clarabel, which minimizes the same energy with exponential cones."""

import cvxpy as cp
import numpy as np
import pytest

from dualclust.algos.pseudo_labels.em import em_labels
from dualclust.algos.pseudo_labels.solver import label_gap, pseudo_label_energy, pseudo_labels
from tests.libraries import ONE_EACH


def instance(seed):
    """Outputs from flat to one-hot, with zeros and dead clusters; weights of which some are 0."""
    rng = np.random.default_rng(seed)
    m, k = int(rng.integers(1, 25)), int(rng.integers(1, 8))
    logits = rng.normal(size=(m, k)) + rng.normal(size=k)
    logits *= (0.1, 1.0, 3.0, 8.0, 8.0)[seed % 5]
    sigma = np.exp(logits - logits.max(axis=1, keepdims=True))
    if seed % 5 == 4:
        sigma = (logits == logits.max(axis=1, keepdims=True)).astype(float)
    elif seed % 2:
        sigma[sigma < 0.05] = 0.0
    sigma /= sigma.sum(axis=1, keepdims=True)
    u = rng.dirichlet(np.ones(k))
    if seed % 3 == 0:
        u[rng.integers(k)] = 0.0
    balance = float((0.0, 0.1, 1.0, 10.0, 100.0)[rng.integers(5)])
    beta = float((1.0, 1.0, 0.5, 2.0, 0.0)[rng.integers(5)])
    return sigma, {"fairness_weight": balance, "beta": beta, "prior": u}


def clarabel(sigma, fairness_weight, beta, prior):
    """Smallest energy, and where; the terms with weight 0 are left out, as 0 ln 0 = 0."""
    m, k = sigma.shape
    y = cp.Variable((m, k), nonneg=True)
    rows, columns = np.nonzero(sigma)
    terms = -beta / m * (sigma[rows, columns] @ cp.log(y[rows, columns])) if beta else 0.0
    wanted = np.flatnonzero(fairness_weight * prior)
    if len(wanted):
        terms = terms - fairness_weight * (prior[wanted] @ cp.log(cp.sum(y, axis=0)[wanted] / m))
    problem = cp.Problem(cp.Minimize(terms + 0.0 * cp.sum(y)), [cp.sum(y, axis=1) == 1])
    problem.solve(solver=cp.CLARABEL)
    assert problem.status == "optimal"
    return problem.value, np.clip(y.value, 0.0, None) / np.clip(y.value, 0.0, None).sum(
        axis=1, keepdims=True
    )


def check(seed):
    sigma, weights = instance(seed)
    best, y = clarabel(sigma, **weights)
    scale = max(1.0, abs(best))
    rounding = 1e-12 * scale
    theirs = float(pseudo_label_energy(sigma, y, **weights))
    bound = float(label_gap(sigma, y, **weights))
    for xp in ONE_EACH:
        found = pseudo_labels(
            xp.asarray(sigma), **weights | {"prior": xp.asarray(weights["prior"])}
        )
        value, gap = float(found.objective), float(found.gap)
        assert abs(value - best) <= 1e-6 * scale, (seed, xp.name)
        # Two certificates against each other: neither objective is below the other's bound.
        assert value - theirs <= gap + rounding, (seed, xp.name)
        assert theirs - value <= bound + rounding, (seed, xp.name)
        assert -1e-13 * scale <= gap <= 1e-10 * weights["beta"] + rounding, (seed, xp.name)


@pytest.mark.parametrize("block", range(4))
def test_equal_to_clarabel(block):
    for seed in range(15 * block, 15 * (block + 1)):
        check(seed)


def test_the_comparison_can_fail():
    seen = 0
    for seed in range(0, 60, 5):
        sigma, weights = instance(seed + 2)
        if weights["beta"] and weights["fairness_weight"]:
            y = em_labels(sigma, **weights, n_iter=3)
            best = float(pseudo_labels(sigma, **weights).objective)
            seen += float(pseudo_label_energy(sigma, y, **weights)) > best + 1e-6 * max(
                1.0, abs(best)
            )
    assert seen >= 3


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_equal_to_clarabel_on_five_hundred_problems(block):
    for seed in range(50 * block, 50 * (block + 1)):
        check(seed)
