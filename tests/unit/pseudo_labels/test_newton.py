"""One Newton step of the pseudo-label update against the equations that its module prints.

Each array is made again with NumPy from the iterate: y labels, g = nu + d gaps, p prices, t masses,
a and c targets. A direction is checked by what it does to the products, not by how it was found.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from dualclust.algos.pseudo_labels import _newton as newton
from dualclust.algos.pseudo_labels._interior_point import Problem, State
from dualclust.algos.pseudo_labels._system import system
from tests.compare import to_numpy


class Iterate(NamedTuple):
    """A state in NumPy's terms."""

    y: np.ndarray
    g: np.ndarray
    p: np.ndarray
    t: np.ndarray
    a: np.ndarray
    c: np.ndarray


def given(xp, *, steps=1, zero=False, block_rows=3, fixed=False):
    """A problem of 7 samples and 4 clusters, and its state after some steps."""
    rng = np.random.default_rng(steps + 10 * zero)
    sigma = rng.dirichlet(np.full(4, 0.4), size=7)
    shares = np.asarray([0.4, 0.3, 0.0 if zero else 0.1, 0.2]) * 7 * 0.6
    problem = Problem(
        xp.asarray(sigma),
        xp.asarray(0.4),
        xp.asarray(shares),
        xp.asarray(1e-9),
        block_rows,
        fixed,
    )
    state = newton.init(problem)
    for _ in range(steps):
        state = newton.iterate(problem, state, xp.asarray(False))
    return problem, state


def in_numpy(problem: Problem, state: State) -> Iterate:
    y = np.concatenate([to_numpy(part) for part in state.labels])
    g = to_numpy(state.slack)[:, None] + to_numpy(state.drops)
    a, c = 0.4 * to_numpy(problem.sigma), to_numpy(problem.shares)
    return Iterate(y, g, to_numpy(state.prices), y.sum(axis=0), a, c)


def steps_of(now: Iterate, dp: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """dg and dy for a step of the prices: rows of dy add up to 0 (dnu follows from that)."""
    h = now.y / now.g
    # sum_k (target / g - y - h (dnu - dp)) = 0, solved for dnu.
    dnu = ((target / now.g - now.y).sum(axis=1) + h @ dp) / h.sum(axis=1)
    dg = dnu[:, None] - dp
    return dg, target / now.g - now.y - h * dg


@pytest.mark.parametrize("zero", [False, True])
@pytest.mark.parametrize("steps", [0, 1, 4])
def test_the_affine_direction_reaches_the_targets_to_first_order(xp, steps, zero):
    problem, state = given(xp, steps=steps, zero=zero)
    now = in_numpy(problem, state)
    affine = newton._predict(problem, system(problem, state))
    dp, dt = to_numpy(affine.dp), to_numpy(affine.dt)
    dg, dy = steps_of(now, dp, now.a)
    np.testing.assert_allclose(dy.sum(axis=1), 0.0, atol=1e-12)
    np.testing.assert_allclose(now.y * now.g + dy * now.g + now.y * dg, now.a, atol=1e-12)
    priced = now.c > 0
    first = now.t * now.p + dt * now.p + now.t * dp
    np.testing.assert_allclose(first[priced], now.c[priced], atol=1e-10)
    # The estimate of the masses is their step: that is what the system says.
    np.testing.assert_allclose(dt[priced], dy.sum(axis=0)[priced], atol=1e-9)
    assert (dp[~priced] == 0).all()
    terms = (now.y * dy * dg / now.y / now.g).sum(axis=0)
    of_rows = (dy * dg / now.g).sum(axis=1) / (now.y / now.g).sum(axis=1)
    want = terms - (now.y / now.g * of_rows[:, None]).sum(axis=0)
    np.testing.assert_allclose(to_numpy(affine.second), want, atol=1e-9)


@pytest.mark.parametrize("zero", [False, True])
@pytest.mark.parametrize("steps", [0, 1, 4])
def test_how_far_the_affine_direction_leads(xp, steps, zero):
    """Up to 1 / inverse every variable stays positive, and beyond it one does not."""
    problem, state = given(xp, steps=steps, zero=zero)
    now = in_numpy(problem, state)
    affine = newton._predict(problem, system(problem, state))
    dp, dt = to_numpy(affine.dp), to_numpy(affine.dt)
    dg, dy = steps_of(now, dp, now.a)
    priced = now.c > 0
    rates = [
        (-dp / np.where(priced, now.p, 1.0))[priced],
        (-dt / now.t)[priced],
        -dy / now.y,
        -dg / now.g,
    ]
    worst = max(rate.max() for rate in rates)
    assert float(affine.inverse) == pytest.approx(worst, rel=1e-9)


@pytest.mark.parametrize("kind", ["dp", "dy", "dg"])
def test_each_kind_of_variable_can_be_the_first(kind):
    """Some instance is held back by each: none may be forgotten. Masses follow labels."""
    from array_api_compat import numpy as xp

    found = set()
    for seed in range(60):
        rng = np.random.default_rng(seed)
        m, k = int(rng.integers(2, 8)), int(rng.integers(2, 5))
        sigma, shares = rng.dirichlet(np.full(k, 0.3), size=m), rng.dirichlet(np.full(k, 0.5)) * m
        beta = float(rng.choice([0.05, 0.4, 0.95]))
        problem = Problem(
            xp.asarray(sigma), xp.asarray(beta), xp.asarray(shares * (1 - beta)),
            xp.asarray(1e-9), m, False,
        )  # fmt: skip
        state = newton.init(problem)
        for _ in range(seed % 4):
            state = newton.iterate(problem, state, xp.asarray(False))
        affine = newton._predict(problem, system(problem, state))
        now = in_numpy(problem, state)._replace(a=beta * sigma)
        dg, dy = steps_of(now, affine.dp, now.a)
        rates = {
            "dp": (-affine.dp / now.p).max(),
            "dy": (-dy / now.y).max(),
            "dg": (-dg / now.g).max(),
        }
        first = max(rates, key=rates.get)
        assert float(affine.inverse) == pytest.approx(rates[first], rel=1e-7)
        found.add(first)
    assert kind in found


@pytest.mark.parametrize("steps", [0, 1, 4])
def test_the_centering_is_the_cube_of_what_is_left_undone(xp, steps):
    problem, state = given(xp, steps=steps)
    now = in_numpy(problem, state)
    linear = system(problem, state)
    affine = newton._predict(problem, linear)
    excess = np.clip(now.y * now.g - now.a, 0.0, None).mean()
    assert float(linear.excess) == pytest.approx(excess, rel=1e-9)
    undone = 1.0 - 1.0 / max(float(affine.inverse), 1.0)
    want = undone**2 * max(undone, 0.05) * excess
    aim = newton._aim(problem, linear, affine)
    if not bool(state.cautious):
        assert float(aim.center) == pytest.approx(max(want, 1e-9), rel=1e-9)
        assert float(aim.second) == 1.0
    careful = newton._aim(problem, linear._replace(state=_cautious(xp, state)), affine)
    assert float(careful.center) == pytest.approx(max(want, 0.5 * excess, 1e-9), rel=1e-9)
    assert float(careful.second) == 0.0
    retried = newton._cautious(linear, aim)
    assert float(retried.center) == pytest.approx(max(float(aim.center), 0.5 * excess), rel=1e-9)
    assert float(retried.second) == 0.0


def _cautious(xp, state: State) -> State:
    return state._replace(cautious=xp.asarray(True))


@pytest.mark.parametrize("careful", [False, True, "far"])
@pytest.mark.parametrize("steps", [0, 1, 4])
def test_the_corrected_direction_and_its_longest_step(xp, steps, careful):
    problem, state = given(xp, steps=steps)
    now = in_numpy(problem, state)
    linear = system(problem, state)
    affine = newton._predict(problem, linear)
    aim = newton._aim(problem, linear, affine)
    aim = newton._cautious(linear, aim) if careful else aim
    if careful == "far":  # every product may fall to a half only
        aim = aim._replace(center=xp.asarray(30.0))
    move = newton._correct(problem, linear, affine, aim)
    m, second, dp = float(aim.center), float(aim.second), to_numpy(move.dp)
    dg0, dy0 = steps_of(now, to_numpy(affine.dp), now.a)
    target = now.a + m - second * dy0 * dg0
    dg, dy = steps_of(now, dp, target)
    goal = now.c + 7 * m - second * to_numpy(affine.dt) * to_numpy(affine.dp)
    dt = (goal - now.t * now.p - now.t * dp) / now.p
    np.testing.assert_allclose(dt, dy.sum(axis=0), atol=1e-8)

    def inside(length):
        """Whether each product stays above a share of its target, relative to where it is."""
        rows = (1 + length * dy / now.y) * (1 + length * dg / now.g)
        columns = (1 + length * dp / now.p) * (1 + length * dt / now.t)
        least = np.minimum(0.02 * (now.a + m) / (now.y * now.g), 0.5)
        floor = np.minimum(0.02 * (now.c + 7 * m) / (now.t * now.p), 0.5)
        return (rows >= least).all() and (columns >= floor).all()

    length = float(move.length)
    assert 0.0 < length <= 1.0
    assert all(inside(share * length * (1 - 1e-7)) for share in (0.1, 0.5, 0.9, 1.0))
    assert length == 1.0 or not inside(length * (1 + 1e-6))
