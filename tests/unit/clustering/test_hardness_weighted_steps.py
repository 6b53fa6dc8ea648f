"""One Frank-Wolfe step of the hardness-weighted centers, and when the iteration ends, and how."""

import math

import numpy as np
import pytest

from dualclust.algos.clustering import hardness_weighted
from dualclust.algos.clustering.hardness_weighted import (
    CenterStatus,
    _line_search,
    _linear_minimum,
    _log_others,
    hardness_centers,
)
from tests.compare import to_numpy
from tests.problems import unit_rows

SIZES = (1, 2, 4, 0)
LABELS = np.repeat(np.arange(4), SIZES)
X = unit_rows(np.random.default_rng(0).normal(size=(7, 2)))
START = np.asarray([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]])
TOL = 2.0**-10


def scripted(monkeypatch, gaps, steps=0.0, target=0.0):
    """Let the solver meet these gaps of clusters, one after the other, whatever its centers are."""
    told, searched = iter(gaps), []

    def minimum(w, *arguments):
        return np.full_like(w, target), np.asarray(next(told))

    def search(w, *arguments):
        searched.append(w)
        return np.broadcast_to(steps, (4,))

    monkeypatch.setattr(hardness_weighted, "_linear_minimum", minimum)
    monkeypatch.setattr(hardness_weighted, "_line_search", search)
    return searched


def solve(**options):
    return hardness_centers(X, LABELS, START, temperature=1.0, tol=TOL, **options)


def test_it_ends_once_each_gap_per_sample_is_a_quarter_of_the_tolerance(monkeypatch):
    at = np.asarray([1.0, 2.0, 4.0, 1.0]) * TOL / 4.0
    above = [np.where(np.arange(4) == j, 1.0 + 2.0**-40, 1.0) * at for j in range(3)]
    searched = scripted(monkeypatch, [*above, at, 4.0 * at])
    found = solve()
    assert found.n_iter == len(searched) == 3
    assert found.gap.tolist() == [TOL] * 4
    assert found.status.tolist() == [CenterStatus.CERTIFIED] * 3 + [CenterStatus.EMPTY]


def test_a_gap_above_the_tolerance_certifies_nothing(monkeypatch):
    nothing = [0.0] * 4
    scripted(monkeypatch, [nothing, [TOL, 2.0 * TOL * (1.0 + 2.0**-40), -3.0, 5.0]])
    found = solve()
    assert found.n_iter == 0
    assert found.gap.tolist() == [TOL, TOL * (1.0 + 2.0**-40), 0.0, 5.0]
    named = [CenterStatus(s).name for s in found.status]
    assert named == ["CERTIFIED", "NOT_CONVERGED", "CERTIFIED", "EMPTY"]


@pytest.mark.parametrize(("options", "most"), [({}, 200), ({"max_iter": 1}, 1)])
def test_it_takes_at_most_so_many_steps(monkeypatch, options, most):
    searched = scripted(monkeypatch, [[9.0] * 4] * 300)
    assert solve(**options).n_iter == len(searched) == most


def test_a_minimum_is_inside_if_it_is_shorter_by_a_thousandth(monkeypatch):
    """Each step shortens a center of length 1 by its size."""
    large = np.asarray([1.0, 2.0, 4.0, 1.0]) * 1000.0 * TOL
    searched = scripted(monkeypatch, [large, large, large], steps=[1e-3, 1.5e-3, 2e-3, 0.5])
    found = solve(max_iter=1)
    assert len(searched) == 1
    named = [CenterStatus(s).name for s in found.status]
    assert named == ["NOT_CONVERGED", "INTERIOR", "INTERIOR", "EMPTY"]
    np.testing.assert_allclose(found.centers, START, atol=1e-15)
    np.testing.assert_allclose(found.residual, 1.0)  # to the target, which is 0 here


def test_a_minimum_inside_must_be_nearly_one(monkeypatch):
    """Its gap over the ball is at most a thousand times the tolerance, for each sample."""
    large = np.asarray([1.0, 2.0, 4.0, 1.0]) * 1000.0 * TOL
    beyond = large * [1.0 + 2.0**-40, 1.0, 1.25, 1.0]
    scripted(monkeypatch, [large, beyond, large], steps=0.5)
    named = [CenterStatus(s).name for s in solve(max_iter=1).status]
    assert named == ["NOT_CONVERGED", "INTERIOR", "NOT_CONVERGED", "EMPTY"]


# A step ----------------------------------------------------------------------------------------


def problem(seed, lam, k=3, n=30, d=4):
    """Rows, labels and centers as the solver holds them inside the ball."""
    rng = np.random.default_rng(seed)
    x, start = unit_rows(rng.normal(size=(n, d))), unit_rows(rng.normal(size=(k, d)))
    labels = np.arange(n) % k
    member = (labels[:, None] == np.arange(k)).astype(float)
    return x, labels, start, member, _log_others(x, labels, start, lam)


@pytest.mark.parametrize("lam", [0.1, 0.5, 2.0])
def test_the_linear_minimum_and_its_gap_by_loops(xp, lam):
    x, labels, start, member, log_a = problem(0, lam)
    w = 0.5 * start[[1, 2, 0]]
    arrays = [xp.asarray(a) for a in (w, start, x, labels, member, log_a)]
    target, gap = _linear_minimum(*arrays, lam)
    for j in range(3):
        pull = np.zeros(4)
        for row, y in zip(x, labels, strict=True):
            if y == j:
                others = sum(math.exp(row @ start[i] / lam) for i in range(3) if i != j)
                pull += others / (others + math.exp(row @ w[j] / lam)) * row
        best = pull / np.linalg.norm(pull)
        np.testing.assert_allclose(to_numpy(target)[j], best, rtol=1e-9)
        assert float(gap[j]) == pytest.approx(pull @ (best - w[j]) / lam, rel=1e-9)


@pytest.mark.parametrize("lam", [0.03, 0.1, 0.3])
def test_the_line_search_ends_where_the_loss_is_least(lam):
    """Where its slope changes its sign, found by halving; or at the end if there it still falls."""
    inside = ends = 0
    for seed in range(8):
        x, labels, start, member, log_a = problem(seed, lam)
        w = 0.3 * start if seed % 2 else start
        target, _ = _linear_minimum(w, start, x, labels, member, log_a, lam)
        found = _line_search(w, target, x, labels, member, log_a, lam)

        def slope(j, t, w=w, target=target, x=x, labels=labels, log_a=log_a):
            own, move = labels == j, target[j] - w[j]
            z = log_a[own] - x[own] @ (w[j] + t * move) / lam
            q = 0.5 * (1.0 + np.tanh(0.5 * z))
            return -(q * (x[own] @ move)).sum()

        for j in range(3):
            if slope(j, 1.0) < -1e-6:
                assert found[j] == 1.0
                ends += 1
                continue
            low, high = 0.0, 1.0
            for _ in range(60):
                middle = 0.5 * (low + high)
                low, high = (middle, high) if slope(j, middle) < 0 else (low, middle)
            assert found[j] == pytest.approx(low, abs=1e-3)
            inside += 1
    assert inside >= 3
    assert ends or lam < 0.3


def test_where_nothing_changes_the_whole_step_is_taken(xp):
    """The slope is 0 at the end already: of a cluster without rows, and of one at its target."""
    x, labels, start, member, log_a = problem(0, 0.5)
    arrays = [xp.asarray(a) for a in (start, start, x, labels, member, log_a)]
    assert to_numpy(_line_search(*arrays, 0.5)).tolist() == [1.0, 1.0, 1.0]
    none = [xp.asarray(a[:0]) for a in (x, labels, member, log_a)]
    found = _line_search(xp.asarray(start), xp.asarray(-start), *none, 0.5)
    assert to_numpy(found).tolist() == [1.0, 1.0, 1.0]
