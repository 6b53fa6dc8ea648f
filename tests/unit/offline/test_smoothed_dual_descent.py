"""Newton's method on the smoothed dual, decision by decision: fix, step, stop, search and cool."""

import math

import numpy as np
import pytest

from dualclust.algos.offline import _cooling, _smoothed_dual
from dualclust.algos.offline._cooling import refine_prices
from dualclust.algos.offline._smoothed_dual import (
    Problem,
    RefinedPrices,
    _Borders,
    _Point,
    _search,
    _solver,
    descend,
)

T = 2.0


def box(low, high):
    """A problem of which only the box matters."""
    return Problem(None, None, None, None, None, np.asarray(low), np.asarray(high))


def point_of(gradient, value=0.0, spread=(1.0, 2.0, 0.5, 0.25)):
    k = len(gradient)
    spread = np.asarray(spread)
    borders = [_Borders(np.ones((6, 2)), np.zeros((6, 2), np.int32))]
    return _Point(value, np.asarray(gradient), None, spread, np.zeros(k), borders, T)


def levels(monkeypatch, borders):
    """Let each temperature end with so many samples on borders; returns where each began."""
    seen, left = [], iter(borders)

    def descend(problem, prices, temperature, *, is_last):
        at_border = next(left)
        # The descent knows whether it is the last one.
        assert is_last(at_border) == (len(seen) == min(len(borders), 30) - 1)
        seen.append((prices.tolist(), temperature))
        return prices + 1.0, at_border

    monkeypatch.setattr(_cooling, "descend", descend)
    monkeypatch.setattr(_cooling, "_narrowed", lambda near, *_: near)
    return seen


@pytest.mark.parametrize(
    ("borders", "n_levels"),
    [
        ([8.0], 1),  # two clusters with four samples each
        ([8.01, 6.0], 2),
        ([100.0, 80.0, 64.0, 51.3], 4),  # more than 0.8 of those before: they tie
        ([100.0, 80.1], 2),
    ],
)
def test_when_a_temperature_is_the_last(borders, n_levels, monkeypatch):
    seen = levels(monkeypatch, borders)
    found = refine_prices(box([0.0, -5.0], [0.5, 5.0]), np.ones(2), start=3.0, border=4.0)
    assert seen == [([0.5 + i, 1.0 + i], 3.0 / 4.0**i) for i in range(n_levels)]
    assert found.temperature == 3.0 / 4.0 ** (n_levels - 1)
    assert found.prices.tolist() == [0.5 + n_levels, 1.0 + n_levels]
    assert isinstance(found, RefinedPrices)


def test_there_are_no_more_than_thirty_temperatures(monkeypatch):
    seen = levels(monkeypatch, [2.0**-i for i in range(60)])
    found = refine_prices(box([0.0], [1.0]), np.ones(1), start=1.0, border=0.0)
    assert len(seen) == 30
    assert found.temperature == seen[-1][1] == 4.0**-29


class Newton:
    """Directions and searches that were agreed before; what they were asked is kept."""

    def __init__(self, monkeypatch, points, found=True):
        self.points, self.found = iter(points), found
        self.evaluated, self.systems, self.sides, self.searches = [], [], [], []
        monkeypatch.setattr(_smoothed_dual, "_evaluate", self.evaluate)
        monkeypatch.setattr(_smoothed_dual, "_solver", self.solver)
        monkeypatch.setattr(_smoothed_dual, "_search", self.search)

    def evaluate(self, problem, prices, temperature):
        self.evaluated.append((prices.tolist(), temperature))
        return next(self.points)

    def solver(self, point, free, damping):
        self.systems.append((free.tolist(), damping.tolist()))
        assert point.borders[0].clusters.shape == (6, 2)
        return lambda rhs: self.sides.append(rhs.tolist()) or 2.0 * rhs

    def search(self, problem, prices, step, point):
        self.searches.append((prices.tolist(), step.tolist()))
        assert point.borders == []  # their memory is free by then
        return (prices + step, next(self.points)) if self.found else None


def test_a_price_is_fixed_where_the_gradient_pushes_it_out_of_the_box(monkeypatch):
    prices = np.repeat([-1.0, 0.25, 1.0], 3)
    gradient = np.tile([0.5, 0.0, -0.5], 3)
    free = [0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0]
    newton = Newton(monkeypatch, [point_of(gradient)], found=False)
    problem = box([-1.0] * 9, [1.0] * 9)
    found, at_border = descend(problem, prices, T)
    assert newton.evaluated == [(prices.tolist(), T)]
    assert newton.systems == [(free, [0.03125, 0.0, 0.03125] * 3)]  # a 16th of the gradient
    assert newton.sides == [(gradient * free).tolist()]
    assert newton.searches == [(prices.tolist(), (-2.0 * gradient * free).tolist())]
    assert found is prices
    assert at_border == 3.75


def test_a_direction_that_promises_little_is_not_followed(monkeypatch):
    """A quarter of the temperature for each of four clusters: 2 in all."""
    monkeypatch.setattr(_smoothed_dual, "PROMISE", 0.25)
    prices, gradient = np.zeros(4), [1.0, 0.0, 0.0, 0.0]
    for temperature, follows in ((2.0, False), (1.99, True), (20.0, False)):
        newton = Newton(monkeypatch, [point_of(gradient)], found=False)
        found, at_border = descend(box([-9.0] * 4, [9.0] * 4), prices, temperature)
        assert len(newton.searches) == follows
        assert found is prices
        assert at_border == 3.75


def test_less_is_promised_enough_where_the_temperature_will_fall(monkeypatch):
    """A 20th of the temperature for each of four clusters, or for each sample on a border."""
    monkeypatch.setattr(_smoothed_dual, "PROMISE", 0.05)
    gradient, asked = [1.0, 0.0, 0.0, 0.0], []  # promises 2
    for early, is_last, temperature, follows in (
        (0.05, True, 9.9, True),
        (0.05, True, 10.0, False),
        (0.05, False, 1.9, True),  # 20 samples on borders: 1
        (0.05, False, 2.0, False),
        (0.005, False, 9.9, True),  # no less than at the last one
        (0.005, False, 10.0, False),
    ):
        monkeypatch.setattr(_smoothed_dual, "EARLY_PROMISE", early)
        newton = Newton(monkeypatch, [point_of(gradient, spread=[5.0] * 4)], found=False)
        given = {"is_last": lambda at_border, last=is_last: asked.append(at_border) or last}
        descend(box([-9.0] * 4, [9.0] * 4), np.zeros(4), temperature, **given)
        assert len(newton.searches) == follows
    assert asked == [20.0] * 6


def test_steps_end_at_their_most(monkeypatch):
    monkeypatch.setattr(_smoothed_dual, "MOST_STEPS", 3)
    points = [point_of([1.0, 0.0, 0.0, 0.0], spread=(float(i), 1.0)) for i in range(5)]
    newton = Newton(monkeypatch, points)
    found, at_border = descend(box([-9.0] * 4, [9.0] * 4), np.zeros(4), T)
    assert [start for start, _ in newton.searches] == [[-2.0 * i, 0.0, 0.0, 0.0] for i in range(3)]
    assert found.tolist() == [-6.0, 0.0, 0.0, 0.0]
    assert at_border == 4.0  # of the last point


def searched(monkeypatch, value, prices=0.0, step=1.0, armijo=0.5, shortest=0.01):
    """What is found along a step down a slope of 1, from a value of 8; and all that was tried."""
    tried = []

    def evaluate(problem, at, temperature):
        tried.append(float(at[0]))
        assert temperature == T
        return point_of([0.0], value(float(at[0])))

    monkeypatch.setattr(_smoothed_dual, "_evaluate", evaluate)
    monkeypatch.setattr(_smoothed_dual, "ARMIJO", armijo)
    monkeypatch.setattr(_smoothed_dual, "SHORTEST", shortest)
    start = point_of([-1.0], 8.0)
    found = _search(box([-2.0], [3.0]), np.asarray([prices]), np.asarray([step]), start)
    return tried, found


def test_a_step_is_halved_until_the_value_falls_as_it_should(monkeypatch):
    # Half of what the slope promises is enough, and no less is.
    for less, lengths in ((0.0, [1.0, 0.5, 0.25]), (1e-9, [1.0, 0.5, 0.25, 0.125])):
        tried, found = searched(
            monkeypatch,
            lambda x, less=less: {0.25: 8.0 - 0.125 + less, 0.125: 7.0}.get(x, 8.0 - 0.49 * x),
        )
        assert tried == lengths
        prices, point = found
        assert prices.tolist() == [lengths[-1]]
        assert point.value == (7.875 if less == 0.0 else 7.0)


def test_a_step_ends_where_it_is_too_short(monkeypatch):
    tried, found = searched(monkeypatch, lambda x: 9.0, shortest=0.25)
    assert (tried, found) == ([1.0, 0.5], None)
    tried, found = searched(monkeypatch, lambda x: 9.0, shortest=0.24)
    assert (tried, found) == ([1.0, 0.5, 0.25], None)


def test_a_step_stays_in_the_box_and_promises_what_is_left_of_it(monkeypatch):
    tried, found = searched(monkeypatch, lambda x: 8.0 - 0.5 * (x - 1.0), prices=1.0, step=16.0)
    assert tried == [3.0]
    assert found[0].tolist() == [3.0]
    tried, found = searched(monkeypatch, lambda x: 8.0 - 0.49 * (x - 1.0), prices=1.0, step=16.0)
    assert tried[:5] == [3.0, 3.0, 3.0, 3.0, 2.0]
    assert found is None
    tried, _ = searched(monkeypatch, lambda x: 0.0, step=-16.0)
    assert tried == [-2.0]


@pytest.mark.parametrize("dense", [2, 1])
def test_a_system_without_curvature_has_a_ridge(dense, monkeypatch):
    monkeypatch.setattr(_smoothed_dual, "DENSE", dense)
    called = []
    real = _smoothed_dual.conjugate_gradients

    def iterate(times, rhs, *, diagonal, tol, max_iter):
        called.append((rhs.tolist(), diagonal.tolist(), tol, max_iter))
        return real(times, rhs, diagonal=diagonal, tol=tol, max_iter=max_iter)

    monkeypatch.setattr(_smoothed_dual, "conjugate_gradients", iterate)
    borders = [_Borders(np.asarray([[1.0, 0.0]]), np.asarray([[0, 1]], np.int32))]
    point = _Point(0.0, None, None, np.zeros(2), np.zeros(2), borders, T)
    found = _solver(point, np.ones(2))(np.asarray([1.0, -3.0]))
    np.testing.assert_allclose(found, [2e8, -6e8], rtol=1e-12)
    ridge = pytest.approx([1e-8, 1e-8])
    assert called == ([] if dense == 2 else [([2.0, -6.0], ridge, 0.1, 60)])
    # A ridge of what curvature there is: a share of 1e-8 of its largest entry.
    curved = point._replace(spread=np.asarray([0.5, 4.0]))
    found = _solver(curved, np.ones(2), 0.25)(np.asarray([1.0, -3.0]))
    np.testing.assert_allclose(found, np.asarray([2.0, -6.0]) / (0.25 + 4e-8), rtol=1e-12)
    assert math.isfinite(found[0])
