"""Projections against cvxpy: distances, not points."""

import cvxpy as cp
import numpy as np
import pytest

from dualclust.algos.core.projections import project_capped, project_l1_ball, project_simplex


def nearest(x, constraints):
    """Squared distance from x to the set, by Clarabel."""
    p = cp.Variable(len(x))
    problem = cp.Problem(cp.Minimize(cp.sum_squares(p - x)), constraints(p))
    return problem.solve(solver=cp.CLARABEL)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("name", ["simplex", "l1_ball", "capped"])
def test_no_point_of_the_set_is_nearer(name, seed):
    rng = np.random.default_rng(seed)
    k = int(rng.integers(1, 9))
    x = rng.normal(size=k) * 10.0 ** rng.integers(-2, 2)
    x[: k // 2] = x[-1] if seed % 3 == 0 else x[: k // 2]  # duplicates
    if name == "simplex":
        total = float(rng.uniform(0.1, 5.0))
        p = project_simplex(x, total)
        best = nearest(x, lambda q: [q >= 0, cp.sum(q) == total])
    elif name == "l1_ball":
        radius = float(rng.uniform(0.1, 5.0))
        p = project_l1_ball(x, radius)
        best = nearest(x, lambda q: [q >= 0, cp.sum(q) <= radius])
    else:
        cap = float(rng.uniform(1.0 / k, 1.0)) if seed % 4 else 1.0 / k
        p = project_capped(x, cap)
        best = nearest(x, lambda q: [q >= 0, q <= cap, cp.sum(q) == 1])
    distance = float(((p - x) ** 2).sum())
    assert distance <= best + 1e-6 * (1.0 + abs(best))
    assert distance >= best - 1e-6 * (1.0 + abs(best))
