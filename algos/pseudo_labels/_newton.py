r"""Primal-dual Newton method for the convex pseudo-label update of MI + margin.

Solves, for M samples and K clusters, all weights scaled so that they add up to about 1 per sample,

``min_y  - sum_ik a_ik ln y_ik - sum_k c_k ln sum_i y_ik   s.t.  y >= 0, sum_k y_ik = 1``

with ``a = beta sigma`` and ``c = lambda M u`` (supplement, Lemma B.1, times M). Its optimality
conditions are products with linear constraints, an interior point's home ground:

``y_ik g_ik = a_ik``,  ``t_k p_k = c_k``,  ``g_ik = nu_i - p_k >= 0``,  ``t_k = sum_i y_ik``

A zero of sigma is a target of 0, as in linear programming. Never ``nu - p``, which cancels: the
state holds ``s_i = nu_i - max p`` and ``d_k = max p - p_k``, and g is their sum.

One iteration (predictor and corrector of Mehrotra on these products): linearize, eliminate y and
nu row by row, and solve ``(L + diag(t / p)) dp = r`` with the graph Laplacian

``L = diag(sum_i h_i) - sum_i h_i h_i^T / sum_k h_ik``,   ``h = y / g``

=======================  =============  =======  ================================================
paper, or derivation     here           shape    meaning
=======================  =============  =======  ================================================
:math:`y_i^k`            ``labels``     (m, k)   soft pseudo-labels, rows on the simplex
:math:`\beta\sigma_i^k`  ``a``          (m, k)   targets of the products y g, made by block
:math:`\lambda M u^k`    ``shares``     (k,)     targets c of the products t p
:math:`p_k`              ``prices``     (k,)     what a unit of mass of the cluster is worth
:math:`\max p - p_k`     ``drops``      (k,)     smallest is 0
:math:`\nu_i - \max p`   ``slack``      (m,)     multiplier of the row sum, above all prices
:math:`t_k`              ``mass``       (k,)     mass of the cluster
=======================  =============  =======  ================================================

In the fixed mode no value is read back: every decision is an array. The arrays of (m, k) are the
labels, which are updated in place, and blocks of rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import array_api_compat as compat

from ..core.types import Array
from ._system import column_terms, solve, system

__all__ = ["Problem", "State", "bound", "init", "iterate", "residual"]

TINY = 1e-140  # below every quantity that matters; its square does not underflow
HUGE = 1e140
NEIGHBORHOOD = 0.02  # products stay above this part of their targets
EVEN = 0.1  # part of a uniform u in the start
CAUTION = 0.05  # after a step shorter than this, more centering and no second-order term


class Problem(NamedTuple):
    """``sigma`` (m, k) as given, the weight beta of it, shares c, and how to work through it."""

    sigma: Array
    weight: Array
    shares: Array
    least: Array  # centering that is always kept: a product of target 0 ends about here
    block_rows: int
    fixed: bool  # without any value read back

    def blocks(self) -> Iterator[slice]:
        """Rows of each block."""
        m = self.sigma.shape[0]
        for i in range(0, m, self.block_rows):
            yield slice(i, min(i + self.block_rows, m))

    @property
    def lowest(self) -> Array:
        """Least slack, and least price that is not fixed at 0.

        A product far below its target may leave them at a rounding error, whose inverse overflows
        in the next step. They multiply masses of 1 per sample, so that this is nothing in the gap.
        """
        return NEIGHBORHOOD * self.least

    def targets(self, rows: slice) -> Array:
        """``beta sigma`` of a block, float64; sigma outside [0, 1] is rounding and is clipped."""
        xp = compat.array_namespace(self.sigma)
        sigma = xp.clip(xp.astype(self.sigma[rows, :], xp.float64), min=0.0, max=1.0)
        return self.weight * sigma


class State(NamedTuple):
    """An interior point; `cautious` says that the last step was short."""

    labels: Array
    slack: Array
    drops: Array
    prices: Array
    cautious: Array


def init(problem: Problem, labels: Array | None = None) -> State:
    """Closed-form start: the minimizer if all samples shared the masses equally.

    With `labels` of an earlier solution the masses are shared as there, halfway: a point on the
    boundary would be a bad start.
    """
    xp = compat.array_namespace(problem.sigma)
    (m, k), device = problem.sigma.shape, compat.device(problem.sigma)
    y = xp.empty((m, k), dtype=xp.float64, device=device)
    mass = xp.zeros((k,), dtype=xp.float64, device=device)
    # A product that starts far below the others blocks every step.
    shares = (1.0 - EVEN) * problem.shares + EVEN / k * xp.sum(problem.shares)
    for rows in problem.blocks():
        a = problem.targets(rows) + shares / m + TINY
        y[rows, :] = a / xp.sum(a, axis=1, keepdims=True)
        if labels is not None:
            old = xp.clip(xp.astype(labels[rows, :], xp.float64), min=0.0, max=1.0)
            total = xp.sum(old, axis=1, keepdims=True)
            old = old / xp.where(total > 0, total, xp.ones_like(total))
            y[rows, :] = xp.where(total > 0, 0.5 * (y[rows, :] + old), y[rows, :])
        mass += xp.sum(y[rows, :], axis=0)
    prices = xp.maximum(shares / mass, problem.lowest)
    prices = xp.where(problem.shares > 0, prices, xp.zeros_like(prices))
    drops = xp.max(prices) - prices
    slack = xp.clip(problem.weight, min=1e-6) * xp.ones((m,), dtype=xp.float64, device=device)
    return State(y, slack, drops, prices, xp.zeros_like(problem.weight) > 0)


def bound(problem: Problem, state: State) -> Array:
    """Duality gap of a state, per sample, bounded without a logarithm: 0-d.

    The gap is ``sum a (r - 1 - ln r)`` over the ratios r of the products to their targets
    (`label_gap`), and ``a (r - 1 - ln r) <= (y g - a)^2 / (y g)`` also holds at a = 0.
    """
    xp = compat.array_namespace(problem.sigma)
    products = state.prices * _mass(problem, state.labels)
    error = products - problem.shares
    total = xp.sum(error * error / xp.clip(products, min=TINY))
    top = xp.max(state.prices + state.drops)
    for rows in problem.blocks():
        y, s = state.labels[rows, :], state.slack[rows]
        products = y * (s[:, None] + state.drops)
        error = products - problem.targets(rows)
        total += xp.sum(error * error / xp.clip(products, min=TINY))
        total += xp.sum((s + top) * xp.abs(1.0 - xp.sum(y, axis=1)))
    return total / problem.sigma.shape[0]


def residual(problem: Problem, state: State) -> Array:
    """Largest error of an optimality condition at ``p = c / t``, in units of sigma: 0-d."""
    xp = compat.array_namespace(problem.shares)
    prices = problem.shares / _mass(problem, state.labels)
    drops = xp.max(prices) - prices
    worst = xp.zeros_like(problem.weight)
    for rows in problem.blocks():
        a, y = problem.targets(rows), state.labels[rows, :]
        slack = xp.sum(a, axis=1) - xp.sum(drops * y, axis=1)
        error = xp.abs(a - y * (slack[:, None] + drops))
        worst = xp.maximum(worst, xp.maximum(xp.max(error), -xp.min(slack)))
    return (worst + 0.0) / xp.where(problem.weight > 0, problem.weight, xp.ones_like(worst))


def iterate(problem: Problem, state: State, frozen: Array) -> State:
    """One Newton step with predictor and corrector; none where `frozen` (0-d bool) holds."""
    xp = compat.array_namespace(problem.sigma)
    y, s, d, p, cautious = state
    c, priced = problem.shares, problem.shares > 0
    safe_p = xp.where(priced, p, xp.ones_like(p))
    linear = system(problem, state)

    def right_side(target: Array, b: Array) -> Array:
        return xp.where(priced, (target - linear.mass * p) / safe_p - b, xp.zeros_like(p))

    dp_a = solve(problem, linear, right_side(c, linear.b_target))
    dt_a = xp.where(priced, (c - linear.mass * p) / safe_p - linear.mass / safe_p * dp_a, 0.0 * p)
    inverse = xp.maximum(_largest(-dp_a / safe_p, priced), _largest(-dt_a / linear.mass, priced))
    b_second = xp.zeros_like(p)
    for rows in problem.blocks():
        _, g, dg, dy = _predictor(problem, state, dp_a, rows)
        inverse = xp.maximum(inverse, xp.max(-dy / y[rows, :]))
        inverse = xp.maximum(inverse, xp.max(-dg / g))
        b_second += column_terms(y[rows, :] / g, dy * dg / g)
    short = 1.0 - 1.0 / xp.clip(inverse, min=1.0)
    m = short * short * xp.clip(short, min=0.05) * linear.excess
    m = xp.maximum(xp.where(cautious, xp.maximum(m, 0.5 * linear.excess), m), problem.least)
    second = xp.where(cautious, xp.zeros_like(m), xp.ones_like(m))

    def attempt(m: Array, second: Array) -> tuple[Array, Array]:
        """The corrector's prices, and how far one can go."""
        b = linear.b_target + m * linear.b_center - second * b_second
        center = problem.sigma.shape[0] * m  # as much per sample as a label's product
        target = c + center - second * dt_a * dp_a
        dp = solve(problem, linear, right_side(target, b))
        dp = xp.where(xp.isfinite(dp), dp, xp.zeros_like(dp))
        per_p = (target - linear.mass * p) / safe_p - linear.mass / safe_p * dp
        dt = xp.where(priced, per_p, 0.0 * p)
        tp = xp.where(priced, linear.mass * p, xp.ones_like(p))
        part = xp.clip(NEIGHBORHOOD * (c + center) / tp, max=0.5)
        inverse = _largest(_inverse_step(dp / safe_p, dt / linear.mass, part), priced)
        for rows in problem.blocks():
            a, g, dg, dy, _ = _corrector(problem, state, dp_a, dp, m, second, rows)
            yb = y[rows, :]
            part = xp.clip(NEIGHBORHOOD * (a + m) / xp.clip(yb * g, min=TINY), max=0.5)
            inverse = xp.maximum(inverse, xp.max(_inverse_step(dy / yb, dg / g, part)))
        return dp, 1.0 / xp.clip(inverse, min=1.0)

    dp, step = attempt(m, second)
    # Without a read-back the next step will be the cautious one; with it, this one is.
    if not problem.fixed and bool(step < CAUTION) and not bool(cautious):
        careful = xp.maximum(m, 0.5 * linear.excess), xp.zeros_like(m)
        other, length = attempt(*careful)
        if bool(length > step):
            dp, step, (m, second) = other, length, careful
    step = xp.where(frozen | ~xp.isfinite(step), xp.zeros_like(step), step)

    # The mass is the labels' sum, so that Newton's dt is only an estimate of it.
    drops = d - step * dp
    shift = xp.min(drops)
    slack = xp.empty_like(s)
    for rows in problem.blocks():
        _, _, _, dy, dnu = _corrector(problem, state, dp_a, dp, m, second, rows)
        moved = s[rows] + step * dnu + shift
        slack[rows] = xp.where(xp.isfinite(moved), xp.maximum(moved, problem.lowest), s[rows])
        moved = y[rows, :] + step * dy
        moved = xp.where(xp.isfinite(moved), xp.clip(moved, min=TINY), y[rows, :])
        # A row sum costs the gap its error, a product the square of its error.
        y[rows, :] = moved / xp.sum(moved, axis=1, keepdims=True)
    prices = xp.where(priced, xp.maximum(p + step * dp, problem.lowest), p)
    return State(y, slack, drops - shift, prices, ~frozen & (step < CAUTION))


def _predictor(
    problem: Problem, state: State, dp: Array, rows: slice
) -> tuple[Array, Array, Array, Array]:
    """Targets, gaps, and the affine step ``dg, dy`` of a block."""
    xp = compat.array_namespace(dp)
    a, y = problem.targets(rows), state.labels[rows, :]
    g = state.slack[rows][:, None] + state.drops
    h, aq = y / g, a / g
    dnu = (xp.sum(aq, axis=1) - 1.0 + xp.matmul(h, dp)) / xp.sum(h, axis=1)
    dg = dnu[:, None] - dp
    return a, g, dg, aq - y - h * dg


def _corrector(
    problem: Problem, state: State, dp_a: Array, dp: Array, m: Array, second: Array, rows: slice
) -> tuple[Array, Array, Array, Array, Array]:
    """The same with centering m and the second-order term; also ``dnu``."""
    xp = compat.array_namespace(dp)
    a, g, dg_a, dy_a = _predictor(problem, state, dp_a, rows)
    y = state.labels[rows, :]
    h, tq = y / g, (a + m - second * dy_a * dg_a) / g
    dnu = (xp.sum(tq, axis=1) - 1.0 + xp.matmul(h, dp)) / xp.sum(h, axis=1)
    dg = dnu[:, None] - dp
    return a, g, dg, tq - y - h * dg, dnu


def _inverse_step(r: Array, q: Array, part: Array) -> Array:
    """``1 / t`` for the largest step t up to which ``(1 + t r)(1 + t q) >= part``, part < 1."""
    xp = compat.array_namespace(r)
    r, q = xp.clip(r, min=-HUGE, max=HUGE), xp.clip(q, min=-HUGE, max=HUGE)
    root = xp.sqrt((r - q) * (r - q) + 4.0 * part * r * q)
    return (root - (r + q)) / (2.0 * (1.0 - part))


def _largest(x: Array, where: Array) -> Array:
    xp = compat.array_namespace(x)
    return xp.max(xp.where(where, x, xp.zeros_like(x)))


def _mass(problem: Problem, labels: Array) -> Array:
    xp = compat.array_namespace(labels)
    total = xp.zeros_like(problem.shares)
    for rows in problem.blocks():
        total += xp.sum(labels[rows, :], axis=0)
    return total
