"""Start, stopping bound and move of the pseudo-label update, against formulas typed out here."""

from __future__ import annotations

import math

import numpy as np
import pytest
from array_api_compat import numpy as xp

from dualclust.algos.pseudo_labels import _newton as newton
from dualclust.algos.pseudo_labels._interior_point import Problem, State, mass_of
from dualclust.algos.pseudo_labels._system import system
from tests.compare import to_numpy
from tests.unit.pseudo_labels.test_solver import outputs

SHARES = np.asarray([1.5, 0.0, 0.4, 1.1])


def problem_of(m=5, *, weight=0.4, least=1e-9, block_rows=2, fixed=False):
    sigma = np.random.default_rng(m).dirichlet(np.full(4, 0.4), size=m)
    values = (xp.asarray(v) for v in (sigma, weight, SHARES, least))
    return Problem(*values, block_rows, fixed)


def whole(state: State) -> np.ndarray:
    return np.concatenate([to_numpy(part) for part in state.labels])


@pytest.mark.parametrize("weight", [0.4, 0.0])
def test_the_start_shares_the_masses_equally(weight):
    problem = problem_of(weight=weight)
    state = newton.init(problem)
    # A tenth of the shares is spread evenly, so that no product starts far below the others.
    shares = 0.9 * SHARES + 0.1 * SHARES.sum() / 4
    y = weight * to_numpy(problem.sigma) + shares / 5
    y /= y.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(whole(state), y, rtol=1e-14)
    prices = np.where(SHARES > 0, shares / y.sum(axis=0), 0.0)
    np.testing.assert_allclose(to_numpy(state.prices), prices, rtol=1e-14)
    np.testing.assert_allclose(to_numpy(state.drops), prices.max() - prices, atol=1e-14)
    np.testing.assert_array_equal(to_numpy(state.slack), np.full(5, max(weight, 1e-6)))
    assert to_numpy(state.slack).dtype == np.float64
    assert not bool(state.cautious)
    assert [part.shape[0] for part in state.labels] == [2, 2, 1]


def test_a_start_from_labels_is_halfway_to_them():
    """Entries are clipped to [0, 1] and rows brought to a sum of 1; a row of 0 says nothing."""
    problem = problem_of()
    cold = whole(newton.init(problem))
    old = np.asarray(
        [[0.2, 0.3, 0.1, 0.4], [-3.0, 0.5, 0.5, 0.0], [9.0, 0.5, 0.0, 0.5],
         [0.0, 0.0, 0.0, -1.0], [0.1, 0.1, 0.2, 0.1]]
    )  # fmt: skip
    read = np.asarray([old[0], [0.0, 0.5, 0.5, 0.0], [0.5, 0.25, 0.0, 0.25], cold[3], 2.0 * old[4]])
    warm = whole(newton.init(problem, xp.asarray(old)))
    np.testing.assert_allclose(warm, 0.5 * (cold + read), rtol=1e-14)


def test_prices_start_at_the_least_that_is_allowed():
    """Two percent of `least`; here that is more than the shares are worth."""
    state = newton.init(problem_of(least=1e3))
    np.testing.assert_allclose(to_numpy(state.prices), np.where(SHARES > 0, 20.0, 0.0), rtol=1e-15)


def test_the_bound_is_the_printed_sum():
    """``(y g - a)^2 / (y g)`` over all products, and what is missing in the rows, per sample."""
    problem, rng = problem_of(), np.random.default_rng(3)
    y, slack = rng.uniform(0.1, 0.5, size=(5, 4)), rng.uniform(0.5, 1.0, size=5)
    prices = np.asarray([0.3, 0.0, 0.9, 0.2])
    drops = prices.max() - prices
    a, g = 0.4 * to_numpy(problem.sigma), slack[:, None] + drops
    tp, priced = prices * y.sum(axis=0), SHARES > 0
    want = ((y * g - a) ** 2 / (y * g)).sum() + ((tp - SHARES)[priced] ** 2 / tp[priced]).sum()
    want += ((slack + prices.max()) * np.abs(1.0 - y.sum(axis=1))).sum()
    arrays = [xp.asarray(v) for v in (slack, drops, prices)]
    labels = tuple(xp.asarray(part) for part in (y[:2], y[2:4], y[4:]))
    state = State(labels, *arrays, xp.asarray(False))
    assert float(newton.bound(problem, state)) == pytest.approx(want / 5, rel=1e-13)


def test_a_product_of_0_with_a_target_of_0_adds_nothing():
    sigma, shares = np.asarray([[1.0, 0.0]] * 2), np.asarray([1.0, 0.0])
    values = [xp.asarray(v) for v in (sigma, 1.0, shares, 1e-9)]
    y = xp.asarray([[1.0, 0.0]] * 2)
    state = State(
        (y,), xp.asarray([1.0, 1.0]), xp.asarray([0.0, 0.5]), xp.asarray([0.5, 0.0]),
        xp.asarray(False),
    )  # fmt: skip
    assert float(newton.bound(Problem(*values, 2, fixed=False), state)) == 0.0


def test_the_mass_adds_up_the_blocks():
    y = np.arange(12.0).reshape(4, 3)
    found = mass_of((xp.asarray(y[:1]), xp.asarray(y[1:])))
    np.testing.assert_array_equal(to_numpy(found), y.sum(axis=0))


@pytest.mark.parametrize(("r", "q"), [(-2.0, 0.5), (1.0, -3.0), (-1.0, -1.0), (0.3, 0.2)])
@pytest.mark.parametrize("part", [0.02, 0.5])
def test_the_longest_step_ends_where_the_product_reaches_its_part(r, q, part):
    inverse = float(newton._inverse_step(*(xp.asarray(v) for v in (r, q, part))))
    if min(r, q) > 0:
        assert inverse <= 0.0  # no step is too long
    else:
        t = 1.0 / inverse
        assert (1.0 + t * r) * (1.0 + t * q) == pytest.approx(part, rel=1e-12)
        assert min(1.0 + t * r, 1.0 + t * q) > 0.0


@pytest.mark.parametrize("pair", [(1e300, -1e300), (-1e300, 1e300), (-math.inf, 1.0), (1.0, 1e300)])
def test_the_longest_step_is_finite_for_any_numbers(pair):
    found = float(newton._inverse_step(*(xp.asarray(v) for v in (*pair, 0.02))))
    assert math.isfinite(found)
    assert (found > 1e100) == (min(pair) < 0)


@pytest.mark.parametrize("pair", [(1e300, -1e300), (-math.inf, math.inf), (1e140, -1e140)])
def test_numbers_of_opposite_signs_end_at_1e140(pair):
    found = float(newton._inverse_step(*(xp.asarray(v) for v in (*pair, 0.02))))
    assert found == pytest.approx(1e140 / math.sqrt(0.98), rel=1e-12)


def test_a_label_that_nothing_wants_starts_at_1e_140():
    """So that it can grow: there is no mass to share, and no output."""
    sigma, shares = np.asarray([[1.0, 0.0]]), np.zeros(2)
    state = newton.init(Problem(*map(xp.asarray, (sigma, 1.0, shares, 1e-9)), 2, fixed=False))
    assert whole(state).tolist() == [[1.0, 1e-140]]


@pytest.mark.parametrize(
    ("inverse", "part"), [(1.25, 0.2**3), (1.01, (0.01 / 1.01) ** 2 * 0.05), (1.0, 0.0), (0.3, 0.0)]
)
def test_the_centering_where_the_affine_direction_leads_nearly_to_the_end(inverse, part):
    """The last factor of the cube is 0.05 at least; where nothing is left undone, `least` stays."""
    problem = problem_of()
    linear = system(problem, newton.init(problem))
    affine = newton._predict(problem, linear)._replace(inverse=xp.asarray(inverse))
    found = newton._aim(problem, linear, affine)
    assert float(found.center) == pytest.approx(max(part * float(linear.excess), 1e-9), rel=1e-12)


def moved(length, *, frozen=False, least=1e-9):
    """A move of a given length from the second iterate, and what it starts from."""
    problem = problem_of(least=least)
    state = newton.iterate(problem, newton.init(problem), xp.asarray(False))
    linear = system(problem, state)
    affine = newton._predict(problem, linear)
    move = newton._correct(problem, linear, affine, newton._aim(problem, linear, affine))
    move = move._replace(length=xp.asarray(length))
    after = newton._advance(problem, state, affine, move, xp.asarray(frozen))
    return problem, state, affine, move, after


def directions(state, affine, move, a):
    """dnu and dy of the corrected direction, row by row."""
    y, g = whole(state), to_numpy(state.slack)[:, None] + to_numpy(state.drops)

    def of(target, dp):
        h = y / g
        dnu = ((target / g).sum(axis=1) - 1.0 + h @ dp) / h.sum(axis=1)
        dg = dnu[:, None] - dp
        return dnu, dg, target / g - y - h * dg

    _, dg, dy = of(a, to_numpy(affine.dp))
    target = a + float(move.aim.center) - float(move.aim.second) * dy * dg
    dnu, _, dy = of(target, to_numpy(move.dp))
    return dnu, dy


@pytest.mark.parametrize("length", [0.3, 0.049, 0.05])
def test_a_move_goes_so_far_along_its_direction(length):
    problem, state, affine, move, after = moved(length)
    dnu, dy = directions(state, affine, move, 0.4 * to_numpy(problem.sigma))
    y = whole(state) + length * dy
    assert (y > 0).all()
    np.testing.assert_allclose(whole(after), y / y.sum(axis=1, keepdims=True), rtol=1e-10)
    prices = to_numpy(state.prices) + length * to_numpy(move.dp)
    np.testing.assert_allclose(to_numpy(after.prices), prices, rtol=1e-10)
    drops = to_numpy(state.drops) - length * to_numpy(move.dp)
    np.testing.assert_allclose(to_numpy(after.drops), drops - drops.min(), atol=1e-12)
    slack = to_numpy(state.slack) + length * dnu + drops.min()
    np.testing.assert_allclose(to_numpy(after.slack), slack, rtol=1e-10)
    assert bool(after.cautious) == (length < 0.05)


@pytest.mark.parametrize("length", [math.nan, math.inf])
def test_a_length_that_is_no_number_is_no_move(length):
    _, state, _, _, after = moved(length)
    np.testing.assert_allclose(whole(after), whole(state), rtol=1e-15)
    for name in ("slack", "drops", "prices"):
        found, want = (to_numpy(getattr(s, name)) for s in (after, state))
        np.testing.assert_allclose(found, want, atol=1e-15)
    assert bool(after.cautious)


def test_a_frozen_move_is_none_and_is_not_called_short():
    _, state, _, _, after = moved(0.5, frozen=True)
    np.testing.assert_allclose(whole(after), whole(state), rtol=1e-15)
    np.testing.assert_array_equal(to_numpy(after.prices), to_numpy(state.prices))
    assert not bool(after.cautious)


def test_a_move_too_far_ends_inside():
    """Labels stay above 0, prices and slack at two percent of `least`; a price of 0 stays."""
    _, _, _, _, after = moved(1e6, least=1e-3)
    y, slack, prices = whole(after), to_numpy(after.slack), to_numpy(after.prices)
    assert (y > 0).all()
    np.testing.assert_allclose(y.sum(axis=1), 1.0, rtol=1e-14)
    assert slack.min() >= 2e-5 * (1 - 1e-12)
    assert min(prices[SHARES > 0]) == pytest.approx(2e-5, rel=1e-12)
    assert prices[1] == 0.0
    assert to_numpy(after.drops).min() == 0.0


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_labels_and_slack_stay_where_no_number_is_finite():
    state = newton.iterate(problem_of(), newton.init(problem_of()), xp.asarray(False))
    problem = problem_of()
    linear = system(problem, state)
    affine = newton._predict(problem, linear)
    move = newton._correct(problem, linear, affine, newton._aim(problem, linear, affine))
    center = xp.asarray([[math.nan] * 4])
    move = move._replace(aim=move.aim._replace(center=center))
    after = newton._advance(problem, state, affine, move, xp.asarray(False))
    np.testing.assert_allclose(whole(after), whole(state), rtol=1e-15)
    np.testing.assert_array_equal(after.slack, state.slack)


@pytest.mark.parametrize("seed", [0, 5, 7, 13])
def test_a_short_step_is_tried_once_more(seed):
    """Not where the step before was one already, nor where no value may be read back."""
    rng = np.random.default_rng(seed)
    sigma = outputs(rng, 30 if seed != 13 else 4, 6, "sharp")
    shares = rng.dirichlet(np.full(6, 0.3)) * len(sigma) * 0.5
    problem = Problem(*map(xp.asarray, (sigma, 0.5, shares, 1e-12)), 100, False)
    fixed = Problem(*problem[:5], True)
    state, n_short, go = newton.init(problem), 0, xp.asarray(False)
    for _ in range(8):
        linear = system(problem, state)
        affine = newton._predict(problem, linear)
        move = newton._correct(problem, linear, affine, newton._aim(problem, linear, affine))
        other = newton._correct(problem, linear, affine, newton._cautious(linear, move.aim))
        again = float(move.length) < 0.05 and not bool(state.cautious)
        assert not again or other.length > move.length
        n_short += again
        after = newton.iterate(problem, state, go)
        expected = newton._advance(problem, state, affine, other if again else move, go)
        np.testing.assert_array_equal(whole(after), whole(expected))
        unread = newton._advance(problem, state, affine, move, go)
        np.testing.assert_allclose(
            whole(newton.iterate(fixed, state, go)), whole(unread), rtol=1e-6, atol=1e-9
        )
        state = after
    assert n_short
