"""A Newton step over the ball is the exact minimum of its model, and it ends every problem."""

import math

import numpy as np
import pytest

from dualclust.algos.clustering._newton_center import newton_center
from dualclust.algos.clustering.hardness_weighted import CenterStatus, hardness_centers
from tests.compare import assert_close
from tests.problems import unit_rows


def model(w, x, log_a, lam):
    """Gradient and Hessian of f at w, row by row."""
    gradient, hessian = np.zeros(len(w)), np.zeros((len(w), len(w)))
    for row, a in zip(x, log_a, strict=True):
        q = 1.0 / (1.0 + math.exp(row @ w / lam - a))
        gradient -= q * row / lam
        hessian += q * (1.0 - q) * np.outer(row, row) / lam**2
    return gradient, hessian


@pytest.mark.parametrize("lam", [0.05, 0.3, 2.0])
@pytest.mark.parametrize("shape", [(1, 1), (30, 4), (3, 8), (12, 12)])
@pytest.mark.parametrize("turned", [0.0, 1.0, -1.0])
def test_it_minimizes_the_model_over_the_ball(lam, shape, turned):
    """By its conditions: (H + mu) v = H w - grad with mu >= 0, and mu = 0 inside the ball."""
    rng = np.random.default_rng(shape[0])
    x, log_a = unit_rows(rng.normal(size=shape) + turned), rng.normal(size=shape[0])
    w = 0.5 * unit_rows(rng.normal(size=(1, shape[1])))[0]
    v = newton_center(w, x, log_a, lam)
    gradient, hessian = model(w, x, log_a, lam)
    length, pull = np.linalg.norm(v), hessian @ (w - v) - gradient
    scale = np.linalg.norm(gradient) + np.linalg.norm(hessian @ w)
    assert length <= 1.0 + 1e-12
    if length < 1.0 - 1e-9:
        assert np.linalg.norm(pull) <= 1e-9 * scale
    else:
        mu = pull @ v
        assert mu >= -1e-9 * scale
        assert np.linalg.norm(pull - mu * v) <= 1e-9 * scale


def test_both_kinds_of_minimum_are_met():
    rng = np.random.default_rng(2)
    x = unit_rows(rng.normal(size=(30, 4)))
    inside = newton_center(np.zeros(4), x, np.zeros(30), 0.05)
    assert np.linalg.norm(inside) < 0.9
    edge = newton_center(np.zeros(4), unit_rows(np.abs(x)), np.zeros(30), 2.0)
    assert np.linalg.norm(edge) == pytest.approx(1.0, abs=1e-12)


def test_all_libraries_take_the_same_step(xp):
    rng = np.random.default_rng(3)
    for rows in (3, 20):
        arrays = 0.1 * np.ones(5), unit_rows(rng.normal(size=(rows, 5))), rng.normal(size=rows)
        found = newton_center(*(xp.asarray(array) for array in arrays), 0.2)
        assert_close(found, xp.asarray(newton_center(*arrays, 0.2)), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("lam", [1e-6, 1e-3, 1e3])
def test_it_is_finite_at_extreme_temperatures(lam):
    rng = np.random.default_rng(4)
    x, w = unit_rows(rng.normal(size=(20, 3))), unit_rows(rng.normal(size=(1, 3)))[0]
    for log_a in (np.zeros(20), rng.normal(size=20) / lam, np.full(20, 1.0 / lam)):
        found = newton_center(w, x, log_a, lam)
        assert np.isfinite(found).all()
        assert np.linalg.norm(found) <= 1.0 + 1e-12


def problem_of(seed):
    """Rows of any spread, labels of any kind, temperatures from .02 to 1, logarithmically."""
    rng = np.random.default_rng(seed)
    k, d, n = int(rng.integers(2, 7)), int(rng.integers(1, 17)), int(rng.integers(2, 80))
    lam = float(np.exp(rng.uniform(np.log(0.02), 0.0)))
    w, labels = unit_rows(rng.normal(size=(k, d))), rng.integers(0, k, n)
    kind = int(rng.integers(3))
    x = unit_rows(rng.normal(size=(n, d)))
    if kind == 1:
        x = unit_rows(w[labels] + rng.uniform(0.1, 2.0) * x)
    if kind == 2:
        labels = (x @ w.T).argmax(axis=1)
    return x, labels, w, lam


def check(seed):
    """Compare gap, status and the sphere with sums of our own; return the statuses."""
    x, labels, w, lam = problem_of(seed)
    found = hardness_centers(x, labels, w, temperature=lam, max_iter=60)
    for j in np.unique(labels):
        own = x[labels == j]
        log_a = np.logaddexp.reduce(own @ np.delete(w, j, axis=0).T / lam, axis=1)

        def slope(v, own=own, log_a=log_a):
            q = np.exp(-np.logaddexp(0.0, own @ v / lam - log_a))
            return -(q @ own) / (lam * len(own))

        center, status = found.centers[j], found.status[j]
        gradient = slope(center)
        gap = float(np.linalg.norm(gradient) + gradient @ center)
        assert found.gap[j] == pytest.approx(max(gap, 0.0), abs=1e-12 / lam), seed
        assert status in (CenterStatus.CERTIFIED, CenterStatus.INTERIOR), seed
        assert (status == CenterStatus.CERTIFIED) == (found.gap[j] <= 1e-8)
        if status == CenterStatus.INTERIOR:  # along the ray, the loss rises before the sphere
            assert gradient @ center > 0.0, seed
    return found.status.tolist()


def test_every_cluster_of_random_problems_ends_within_sixty_steps():
    """`make slow` tries 5,000."""
    statuses = [status for seed in range(250) for status in check(seed)]
    assert statuses.count(CenterStatus.INTERIOR) >= 10
    assert statuses.count(CenterStatus.CERTIFIED) >= 500


@pytest.mark.slow
def test_every_cluster_of_five_thousand_problems_ends_within_sixty_steps():
    for seed in range(250, 5250):
        check(seed)
