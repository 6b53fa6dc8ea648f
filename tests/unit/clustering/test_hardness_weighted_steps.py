"""One Frank-Wolfe step of the hardness-weighted centers, and when the iteration ends, and how."""

import math

import numpy as np
import pytest

from dualclust.algos.clustering.hardness_weighted import (
    CenterStatus,
    _line_search,
    _linear_minimum,
    _log_others,
    hardness_centers,
)
from tests.compare import to_numpy
from tests.problems import unit_rows

NEAR = 1e-5  # relative: no comparison rests on the last bits


def iterates(x, labels, start, lam, n):
    """Centers in the ball and their gaps per sample, from the start through n steps."""
    member = (labels[:, None] == np.arange(len(start))).astype(float)
    size, log_a = np.maximum(member.sum(axis=0), 1.0), _log_others(x, labels, start, lam)
    w, found = start, []
    for _ in range(n + 1):
        target, gap = _linear_minimum(w, start, x, labels, member, log_a, lam)
        found.append((w, gap / size))
        step = _line_search(w, target, x, labels, member, log_a, lam)
        step = np.where(gap > 0.0, step, 0.0)  # what has no gap stays
        w = w + step[:, None] * (target - w)
    return found


def spread(seed=0, k=3):
    """Clusters of different sizes that need some steps, and one without samples."""
    rng = np.random.default_rng(seed)
    x, labels = unit_rows(rng.normal(size=(40, 4))), np.sort(rng.integers(0, k, size=40) % k)
    return x, labels, unit_rows(rng.normal(size=(k + 1, 4)))


@pytest.mark.parametrize("steps", [1, 2, 4])
def test_it_ends_once_each_gap_per_sample_is_a_quarter_of_the_tolerance(steps):
    x, labels, start = spread()
    largest = [gap.max() for _, gap in iterates(x, labels, start, 0.2, steps)]
    assert min(largest[:-1]) > (1 + 4 * NEAR) * largest[-1]  # none before is as small
    ends = [
        hardness_centers(
            x, labels, start, temperature=0.2, tol=4 * (1 + sign * NEAR) * largest[-1]
        ).n_iter
        for sign in (1, -1)
    ]
    assert ends[0] == steps < ends[1]


def test_a_gap_above_the_tolerance_certifies_nothing():
    """The gap that decides is that of the unit centers that come back, of one cluster each."""
    x, labels, start = spread()
    w, _ = iterates(x, labels, start, 0.2, 2)[-1]
    ended = hardness_centers(x, labels, start, temperature=0.2, tol=1e-12, max_iter=2)
    np.testing.assert_allclose(ended.centers[:3], unit_rows(w[:3]), rtol=1e-9)
    for own in range(3):
        for sign in (1, -1):
            tol = float(ended.gap[own]) * (1 + sign * NEAR)
            status = hardness_centers(
                x, labels, start, temperature=0.2, tol=tol, max_iter=2
            ).status.tolist()
            assert (status[own] == CenterStatus.CERTIFIED) == (sign > 0)
            assert status[3] == CenterStatus.EMPTY


@pytest.mark.parametrize("most", [1, 3, 12])
def test_it_takes_at_most_so_many_steps(most):
    x, labels, start = spread()
    found = hardness_centers(x, labels, start, temperature=0.2, tol=1e-300, max_iter=most)
    assert found.n_iter == most


def test_what_is_finished_stays_while_others_go_on():
    """A step of a finished cluster would undo it, as its line search ends short of 0."""
    x = np.asarray([[1.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [0.6, 0.8], [0.0, -1.0], [-0.8, 0.6]])
    labels, start = np.asarray([0, 0, 0, 1, 1, 1]), np.asarray([[1.0, 0.0], [0.0, 1.0]])
    options = {"temperature": 0.5 / math.log(2.0), "tol": 1e-9}
    alone = hardness_centers(x[:3], labels[:3], start, **options)
    both = hardness_centers(x, labels, start, **options)
    assert alone.n_iter < both.n_iter
    assert both.status.tolist() != [CenterStatus.NOT_CONVERGED] * 2
    assert both.status[0] == alone.status[0] == CenterStatus.INTERIOR


OPPOSED = np.asarray([[1.0, 0.0], [1.0, 0.0], [-1.0, 0.0]]), np.eye(2)


def opposed(length, tol, **options):
    """A cluster with two rows of one direction and one against it: the best center is that long.

    Where the other center is orthogonal, the slope vanishes at the temperature times log 2.
    """
    x, start = OPPOSED
    options |= {"temperature": length / math.log(2.0), "tol": tol}
    return hardness_centers(x, np.zeros(3, np.int64), start, **options)


@pytest.mark.parametrize("length", [0.5, 0.9988, 0.9999])
def test_a_minimum_inside_is_told_however_near_the_sphere(length):
    found = opposed(length, 1e-6)
    assert CenterStatus(found.status[0]).name == "INTERIOR"
    np.testing.assert_allclose(found.centers[0], [1.0, 0.0], atol=1e-15)
    assert float(found.residual[0]) == pytest.approx(2.0)  # the pull is against the center
    slope = (2 / (1 + 2 ** (1 / length)) - 1 / (1 + 2 ** (-1 / length))) / 3
    assert float(found.gap[0]) == pytest.approx(2 * abs(slope) * math.log(2) / length, rel=1e-9)


@pytest.mark.parametrize("length", [0.3, 0.7])
def test_a_minimum_inside_must_be_one_within_the_tolerance(length):
    """Its gap over the ball is at most the tolerance, for each sample."""
    x, start, lam = *OPPOSED, length / math.log(2.0)
    _, ball = iterates(x, np.zeros(3, np.int64), start, lam, 1)[-1]
    for sign, name in ((1, "INTERIOR"), (-1, "NOT_CONVERGED")):
        found = opposed(length, float(ball[0]) * (1 + sign * NEAR), max_iter=1)
        assert CenterStatus(found.status[0]).name == name


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
