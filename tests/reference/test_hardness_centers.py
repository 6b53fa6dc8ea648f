"""Centers against cvxpy, which minimizes the same loss over the ball."""

import cvxpy as cp
import numpy as np
import pytest

from dualclust.algos.clustering.hardness_weighted import CenterStatus, hardness_centers
from tests.problems import unit_rows


def ball_minimum(x, log_a, lam):
    """Smallest mean loss over the ball, and where."""
    w = cp.Variable(x.shape[1])
    loss = cp.sum(cp.logistic(log_a - x @ w / lam)) / len(x)
    problem = cp.Problem(cp.Minimize(loss), [cp.norm(w) <= 1])
    problem.solve(solver=cp.CLARABEL)
    return problem.value, w.value


def problem_of(seed, spread):
    """Clusters whose members lie around their center, more or less widely."""
    rng = np.random.default_rng(seed)
    k, d = int(rng.integers(2, 5)), int(rng.integers(2, 6))
    w = unit_rows(rng.normal(size=(k, d)))
    y = rng.integers(0, k, size=40)
    x = unit_rows(w[y] + spread * rng.normal(size=(40, d)))
    return x, y, w


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("spread", [0.3, 1.5])
@pytest.mark.parametrize("lam", [0.1, 1.0])
def test_the_gap_covers_the_distance_to_the_minimum_over_the_ball(seed, spread, lam):
    x, y, w = problem_of(seed, spread)
    result = hardness_centers(x, y, w, temperature=lam)
    for j in np.unique(y):
        own = x[y == j]
        logits = own @ np.delete(w, j, axis=0).T / lam
        log_a = np.logaddexp.reduce(logits, axis=1)
        best, where = ball_minimum(own, log_a, lam)
        found = np.logaddexp(0.0, log_a - own @ result.centers[j] / lam).mean()
        slack = 1e-6 * (1.0 + abs(best))
        assert found - best <= result.gap[j] + slack
        assert found >= best - slack
        if result.status[j] == CenterStatus.CERTIFIED:
            assert found - best <= 1e-8 + slack
        if result.status[j] == CenterStatus.INTERIOR:
            assert np.linalg.norm(where) < 1.0
            direction = where / np.linalg.norm(where)
            np.testing.assert_allclose(result.centers[j], direction, atol=0.05)


@pytest.mark.parametrize("lam", [0.05, 0.1, 0.2, 1.0])
def test_two_groups_ninety_degrees_apart(lam):
    x = unit_rows(np.asarray([[1.0, 0.0, 0.0]] * 5 + [[0.0, 1.0, 0.0]] * 5 + [[0.0, 0.0, 1.0]]))
    y = np.asarray([0] * 10 + [1])
    w = unit_rows(np.asarray([[1.0, 0.2, 0.0], [0.5, 0.5, 1.0]]))
    result = hardness_centers(x, y, w, temperature=lam)
    log_a = x[:10] @ w[1] / lam
    best, _ = ball_minimum(x[:10], log_a, lam)
    found = np.logaddexp(0.0, log_a - x[:10] @ result.centers[0] / lam).mean()
    assert -1e-6 <= found - best <= result.gap[0] + 1e-6
    assert result.status[0] == CenterStatus.CERTIFIED
