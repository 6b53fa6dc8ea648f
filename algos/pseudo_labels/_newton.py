r"""Primal-dual Newton method for the convex pseudo-label update of MI + margin.

The problem, its optimality conditions and the symbols are those of `_interior_point`: products
``y g`` and ``t p`` are to reach their targets ``a`` and ``c``. `init` gives an interior point, and
`iterate` takes one step of Mehrotra's predictor-corrector method (SIAM J. Optim. 1992) on these
products:

1. *Linearize.* Eliminating dy and dnu row by row leaves ``(L + diag(t / p)) dp = r`` with the graph
   Laplacian ``L = diag(sum_i h_i) - sum_i h_i h_i^T / sum_k h_ik``, ``h = y / g`` (`_system`).
2. *Predict.* The affine direction aims at the targets themselves. How far it can go before a
   variable reaches 0 says how good the linearization is.
3. *Center.* The products' mean excess over their targets, times the cube of the share that the
   affine direction leaves undone, is what the corrector adds to every target.
4. *Correct.* The direction for these targets, less the products ``dy dg`` and ``dt dp`` that the
   linearization ignored; and the longest step that keeps every product above a share of its target.
5. *Retry.* After a very short step, once more with half the excess as centering and without the
   second-order term. With a fixed number of steps the next iteration does so, since no value may
   be read back.
6. *Move*, and restore what rounding may break: rows on the simplex, labels and prices above 0.

A step solves the same system twice. In the fixed mode every decision is an array. The arrays of
(m, k) are the labels, before and after the step; everything else is made by block. The loop over
these steps and its stopping rule are in `solver.pseudo_labels`.
"""

from __future__ import annotations

from typing import NamedTuple

import array_api_compat as compat

from ..core.types import Array
from ._interior_point import NEIGHBORHOOD, TINY, Block, Problem, State, blocks, mass_of
from ._system import System, column_terms, solve, system

__all__ = ["bound", "init", "iterate", "residual"]

HUGE = 1e140
EVEN = 0.1  # part of a uniform prior in the start
CAUTION = 0.05  # after a step shorter than this, more centering and no second-order term


def init(problem: Problem, labels: Array | None = None) -> State:
    """Closed-form start: the minimizer if all samples shared the masses equally.

    With `labels` of an earlier solution the start lies halfway between that and them: a point on
    the boundary would be a bad start.
    """
    xp = compat.array_namespace(problem.sigma)
    m, k = problem.sigma.shape
    # A product that starts far below the others blocks every step.
    shares = (1.0 - EVEN) * problem.shares + EVEN / k * xp.sum(problem.shares)
    parts = []
    for rows in problem.rows():
        a = problem.targets(rows) + shares / m + TINY
        y = a / xp.sum(a, axis=1, keepdims=True)
        if labels is not None:
            old = xp.clip(xp.astype(labels[rows, :], xp.float64), min=0.0, max=1.0)
            total = xp.sum(old, axis=1, keepdims=True)
            old = old / xp.where(total > 0, total, xp.ones_like(total))
            y = xp.where(total > 0, 0.5 * (y + old), y)
        parts.append(y)
    prices = xp.maximum(shares / mass_of(tuple(parts)), problem.lowest)
    prices = xp.where(problem.shares > 0, prices, xp.zeros_like(prices))
    drops = xp.max(prices) - prices
    slack = xp.broadcast_to(xp.clip(problem.weight, min=1e-6), (m,))
    return State(tuple(parts), slack, drops, prices, xp.zeros_like(problem.weight) > 0)


def bound(problem: Problem, state: State) -> Array:
    """Duality gap of a state, per sample, bounded without a logarithm: 0-d.

    The gap is ``sum a (r - 1 - ln r)`` over the ratios r of the products to their targets
    (`label_gap`), and ``a (r - 1 - ln r) <= (y g - a)^2 / (y g)`` also holds at a = 0.
    """
    xp = compat.array_namespace(problem.sigma)
    products = state.prices * mass_of(state.labels)
    error = products - problem.shares
    total = xp.sum(error * error / xp.clip(products, min=TINY))
    top = xp.max(state.prices + state.drops)
    for rows, (a, y, g) in zip(problem.rows(), blocks(problem, state), strict=True):
        products = y * g
        error = products - a
        total = total + xp.sum(error * error / xp.clip(products, min=TINY))
        missing = xp.abs(1.0 - xp.sum(y, axis=1))
        total = total + xp.sum((state.slack[rows] + top) * missing)
    return total / problem.sigma.shape[0]


def residual(problem: Problem, labels: tuple[Array, ...]) -> Array:
    """Largest error of an optimality condition at ``p = c / t``, in units of sigma: 0-d."""
    xp = compat.array_namespace(problem.shares)
    prices = problem.shares / mass_of(labels)
    drops = xp.max(prices) - prices
    worst = xp.zeros_like(problem.weight)
    for rows, y in zip(problem.rows(), labels, strict=True):
        a = problem.targets(rows)
        slack = xp.sum(a, axis=1) - xp.sum(drops * y, axis=1)
        error = xp.abs(a - y * (slack[:, None] + drops))
        worst = xp.maximum(worst, xp.maximum(xp.max(error), -xp.min(slack)))
    return (worst + 0.0) / xp.where(problem.weight > 0, problem.weight, xp.ones_like(worst))


class Affine(NamedTuple):
    """The affine direction: its steps of prices and masses, and what they say of the corrector.

    `inverse` is 1 over the step at which a variable reaches 0; `second` are the column terms of the
    products ``dy dg``.
    """

    dp: Array
    dt: Array
    inverse: Array
    second: Array


class Aim(NamedTuple):
    """What the corrector aims at: targets plus `center`, less `second` (0 or 1) times products."""

    center: Array
    second: Array


class Move(NamedTuple):
    """A corrected direction of the prices, the step along it, and its aim."""

    dp: Array
    length: Array
    aim: Aim


def iterate(problem: Problem, state: State, frozen: Array) -> State:
    """One Newton step with predictor and corrector; none where `frozen` (0-d bool) holds."""
    linear = system(problem, state)  # step 1
    affine = _predict(problem, linear)  # step 2
    move = _correct(problem, linear, affine, _aim(problem, linear, affine))  # steps 3 and 4
    if not problem.fixed and bool(move.length < CAUTION) and not bool(state.cautious):  # step 5
        other = _correct(problem, linear, affine, _cautious(linear, move.aim))
        if bool(other.length > move.length):
            move = other
    return _advance(problem, state, affine, move, frozen)  # step 6


def _predict(problem: Problem, linear: System) -> Affine:
    """Step 2: the direction to the targets, and how far it leads."""
    xp, state = compat.array_namespace(problem.shares), linear.state
    dp = solve(problem, linear, _right_side(problem, linear, problem.shares, linear.b_target))
    dt = _mass_step(problem, linear, problem.shares, dp)
    priced, safe_p = _priced(problem, state)
    # A mass is a sum of labels: it does not reach 0 before one of them.
    inverse = _largest(-dp / safe_p, priced)
    second = xp.zeros_like(dp)
    for block in blocks(problem, state):
        _, dg, dy = _row_step(block, block.targets, dp)
        inverse = xp.maximum(inverse, xp.max(-dy / block.labels))
        inverse = xp.maximum(inverse, xp.max(-dg / block.gaps))
        second = second + column_terms(block.labels / block.gaps, dy * dg / block.gaps)
    return Affine(dp, dt, inverse, second)


def _aim(problem: Problem, linear: System, affine: Affine) -> Aim:
    """Step 3: the centering, by Mehrotra's cube of what the affine direction leaves undone."""
    xp, cautious = compat.array_namespace(affine.inverse), linear.state.cautious
    undone = 1.0 - 1.0 / xp.clip(affine.inverse, min=1.0)
    center = undone * undone * xp.clip(undone, min=0.05) * linear.excess
    careful = xp.maximum(center, 0.5 * linear.excess)
    center = xp.maximum(xp.where(cautious, careful, center), problem.least)
    return Aim(center, xp.where(cautious, xp.zeros_like(center), xp.ones_like(center)))


def _cautious(linear: System, aim: Aim) -> Aim:
    """Step 5: at least half the excess as centering, and no second-order term."""
    xp = compat.array_namespace(aim.center)
    return Aim(xp.maximum(aim.center, 0.5 * linear.excess), xp.zeros_like(aim.center))


def _correct(problem: Problem, linear: System, affine: Affine, aim: Aim) -> Move:
    """Step 4: the direction for an aim, and the longest step within the neighborhood."""
    xp, state, (m, second) = compat.array_namespace(problem.shares), linear.state, aim
    b = linear.b_target + m * linear.b_center - second * affine.second
    center = problem.sigma.shape[0] * m  # as much per sample as a label's product
    target = problem.shares + center - second * affine.dt * affine.dp
    dp = solve(problem, linear, _right_side(problem, linear, target, b))
    dp = xp.where(xp.isfinite(dp), dp, xp.zeros_like(dp))
    dt = _mass_step(problem, linear, target, dp)
    priced, safe_p = _priced(problem, state)
    tp = xp.where(priced, linear.mass * state.prices, xp.ones_like(dp))
    part = xp.clip(NEIGHBORHOOD * (problem.shares + center) / tp, max=0.5)
    inverse = _largest(_inverse_step(dp / safe_p, dt / linear.mass, part), priced)
    for block in blocks(problem, state):
        _, dg, dy = _corrected_row_step(block, affine, dp, aim)
        a, y, g = block
        part = xp.clip(NEIGHBORHOOD * (a + m) / xp.clip(y * g, min=TINY), max=0.5)
        inverse = xp.maximum(inverse, xp.max(_inverse_step(dy / y, dg / g, part)))
    return Move(dp, 1.0 / xp.clip(inverse, min=1.0), aim)


def _advance(problem: Problem, state: State, affine: Affine, move: Move, frozen: Array) -> State:
    """Step 6: the next interior point. Where a number is not finite, it stays where it was."""
    xp = compat.array_namespace(problem.shares)
    step, (_, slack, drops, prices, _) = move.length, state
    step = xp.where(frozen | ~xp.isfinite(step), xp.zeros_like(step), step)
    drops = drops - step * move.dp
    shift = xp.min(drops)
    labels, slacks = [], []
    # The mass is the labels' sum: Newton's dt is only an estimate of it.
    for rows, block in zip(problem.rows(), blocks(problem, state), strict=True):
        dnu, _, dy = _corrected_row_step(block, affine, move.dp, move.aim)
        moved = slack[rows] + step * dnu + shift
        moved = xp.where(xp.isfinite(moved), xp.maximum(moved, problem.lowest), slack[rows])
        slacks.append(moved)
        moved = block.labels + step * dy
        moved = xp.where(xp.isfinite(moved), xp.clip(moved, min=TINY), block.labels)
        # A row sum costs the gap its error, a product the square of its error.
        labels.append(moved / xp.sum(moved, axis=1, keepdims=True))
    moved = xp.maximum(prices + step * move.dp, problem.lowest)
    prices = xp.where(problem.shares > 0, moved, prices)
    cautious = ~frozen & (step < CAUTION)
    return State(tuple(labels), xp.concat(slacks), drops - shift, prices, cautious)


def _row_step(block: Block, target: Array, dp: Array) -> tuple[Array, Array, Array]:
    """Steps ``dnu`` (b,), ``dg`` and ``dy`` (b, k) of a block, given those of the prices."""
    xp, (_, y, g) = compat.array_namespace(dp), block
    h, tq = y / g, target / g
    dnu = (xp.sum(tq, axis=1) - 1.0 + xp.matmul(h, dp)) / xp.sum(h, axis=1)
    dg = dnu[:, None] - dp
    return dnu, dg, tq - y - h * dg


def _corrected_row_step(
    block: Block, affine: Affine, dp: Array, aim: Aim
) -> tuple[Array, Array, Array]:
    """The same with the centering, and without the products of the affine direction."""
    _, dg, dy = _row_step(block, block.targets, affine.dp)
    return _row_step(block, block.targets + aim.center - aim.second * dy * dg, dp)


def _right_side(problem: Problem, linear: System, target: Array, b: Array) -> Array:
    """Right-hand side of the system for targets of the products ``t p``; 0 at a fixed price."""
    xp = compat.array_namespace(target)
    priced, safe_p = _priced(problem, linear.state)
    missing = target - linear.mass * linear.state.prices
    return xp.where(priced, missing / safe_p - b, xp.zeros_like(target))


def _mass_step(problem: Problem, linear: System, target: Array, dp: Array) -> Array:
    """Step of the masses that belongs to one of the prices."""
    xp = compat.array_namespace(dp)
    priced, safe_p = _priced(problem, linear.state)
    missing = target - linear.mass * linear.state.prices
    return xp.where(priced, missing / safe_p - linear.mass / safe_p * dp, xp.zeros_like(dp))


def _priced(problem: Problem, state: State) -> tuple[Array, Array]:
    """Which clusters have a price, and the prices with 1 in place of those fixed at 0."""
    xp, priced = compat.array_namespace(problem.shares), problem.shares > 0
    return priced, xp.where(priced, state.prices, xp.ones_like(state.prices))


def _inverse_step(r: Array, q: Array, part: Array) -> Array:
    """``1 / t`` for the largest step t up to which ``(1 + t r)(1 + t q) >= part``, part < 1."""
    xp = compat.array_namespace(r)
    r, q = xp.clip(r, min=-HUGE, max=HUGE), xp.clip(q, min=-HUGE, max=HUGE)
    root = xp.sqrt((r - q) * (r - q) + 4.0 * part * r * q)
    return (root - (r + q)) / (2.0 * (1.0 - part))


def _largest(x: Array, where: Array) -> Array:
    xp = compat.array_namespace(x)
    return xp.max(xp.where(where, x, xp.zeros_like(x)))
