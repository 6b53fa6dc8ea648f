r"""Prices for all samples at once, by Newton's method on the dual with its corners rounded off.

Problem: minimize over the prices pi, in a box,

``D(pi) = sum_i max_k (s_ik + pi_k) - sum_k (l_k pi_k^+ - u_k pi_k^-)``,

the upper bound of `certificates`. Its minimum is the optimum of the assignment, but it has corners
everywhere. With a temperature T each maximum becomes ``T log sum_k exp(. / T)``, and the term of
the bounds, ``-l_k pi_k + (u_k - l_k) max(-pi_k, 0)``, is the same thing with two entries:

``D_T = sum_i T lse_k((s_ik + pi_k) / T)``
``      - sum_k l_k pi_k + sum_k (u_k - l_k) T log(1 + e^{-pi_k / T})``

``gradient_k  = sum_i p_ik - l_k - (u_k - l_k) sigmoid(-pi_k / T)``
``curvature   = (1 / T) [ sum_i (diag(p_i) - p_i p_i^T) + diag((u_k - l_k) sigmoid sigmoid') ]``

with p_i the softmax. Only *fractional* rows, whose best clusters nearly tie, have curvature: a low
temperature is minimized from the minimum of a higher one.

1. *Evaluate* value, gradient and curvature of the smoothed dual (`soft_counts`, `curvature`): sums
   over rows, in parts that threads share out. The fractional rows are listed, once for all products
   with the curvature: at low temperatures they are few.
2. *Fix* the variables at a bound of the box that the gradient pushes outward.
3. *Step*: Newton's direction on the free variables, damped so that no price moves by more than some
   T, within which the curvature holds; by elimination, or by conjugate gradients.
4. *Stop* where the direction promises a decrease of less than 0.02 k T. Where the temperature will
   fall, stop earlier: its minimum is not the one sought.
5. *Search* along the projection of the direction onto the box, by halves, until the value falls
   (Armijo).
6. *Cool* until few rows are fractional, or nearly as many as before: rows that tie stay fractional
   at any temperature. Where there are few already, more than half count as nearly as many: paths
   part what repeats sooner than Newton's steps do.

==================  =================  =======  ==================================================
paper               here               shape    meaning
==================  =================  =======  ==================================================
:math:`s_{i,k}`     ``values``         (m, w)   scores of the candidates of each row
:math:`\pi_k`       ``prices``         (k,)     float64, in units of score
:math:`p_{i,k}`     ``probabilities``  (m, w)   softmax of the priced scores
:math:`T`           ``temperature``    ()       in units of score
\-                  ``fixed_counts``   (k,)     counts of the rows with one candidate
==================  =================  =======  ==================================================
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from operator import add
from typing import NamedTuple

import array_api_compat as compat

from ...backends import kernel
from ..core.conjugate_gradients import conjugate_gradients
from ..core.reads import read, unread
from ..core.segments import segment_sum
from ..core.types import Array
from ..core.workers import map_in_order, row_parts
from ._near_host import beside, eliminate, is_dense, near_host

__all__ = [
    "LEAST_TEMPERATURE",
    "RefinedPrices",
    "SmoothedDual",
    "curvature",
    "curvature_product",
    "descend",
    "evaluate",
    "linear_solver",
    "refine_prices",
    "soft_counts",
]

MOST_STEPS = 16
MOST_LEVELS, COOLING = 30, 4.0  # temperatures at most, each of them so many times the next
TIED, HALF, FEW = 0.8, 0.5, 32.0  # step 6: shares of the fractional rows, and so many per cluster
LEAST_TEMPERATURE = 1e-290  # temperatures, and parts of them, divide: they stay normal numbers
LONGEST, SHORTEST = 16.0, 1e-4  # step of a price in units of T; part of a step
ARMIJO = 1e-4  # of the decrease that the gradient promises
PROMISE = 0.02  # of T per cluster: a smaller decrease is not worth a step
EARLY_PROMISE = 0.05  # of T per fractional row: the same where T will fall
FAR = 24.0  # temperatures; what is worse by more has no weight: 4e-11 would count for nothing
INSIDE = 1.0 + 2.0**-14  # weights of a row, the best one's 1, up to which it is not fractional:
# of rows that lie evenly around a tie, those have one part of 8,000 of the curvature
RIDGE = 1e-8  # share of the largest curvature, for directions that have none
UNDERFLOW = 800.0  # temperatures: the exponential of as many is 0
NOTHING = 2.0**-900  # curvature that is as good as none: its ridge would vanish
CG_STEPS, CG_ACCURACY = 60, 0.1  # as exact as a Newton step needs its direction
UNITS = 2.0**40  # of the sums of the reference text
PART_ENTRIES = 2**16  # candidates of a part at least, which threads then hand out in no time


class SmoothedDual(NamedTuple):
    """The candidates of rows, and what the counts of the clusters are to be.

    Attributes
    ----------
    values : (m, w) array
    clusters : (m, w) int32 array
    fixed_counts, lower, upper : (k,) float64 array
        In rows; they may be fractions of one where the rows are a part of all.
    low, high : (k,) float64 array
        The box of prices for which the candidates are all that a row may be assigned to.
    tree : (k, k) float64 array, optional
        1 where the column is the row's parent (`_augmenting_paths`): bounds are then of sets.
    """

    values: Array
    clusters: Array
    fixed_counts: Array
    lower: Array
    upper: Array
    low: Array
    high: Array
    tree: Array | None = None

    def own(self, prices: Array) -> Array:
        """Return what each price adds to that of its parent."""
        return prices if self.tree is None else prices - self.tree @ prices

    def pulled(self, slopes: Array) -> Array:
        """Return slopes in the prices from those in what each adds."""
        return slopes if self.tree is None else slopes - self.tree.T @ slopes


class RefinedPrices(NamedTuple):
    """Prices, the temperature at which they are best, and how many were evaluated on the way."""

    prices: Array
    temperature: float
    n_points: int = 0


@kernel
def soft_counts(
    values: Array, clusters: Array, prices: Array, *, temperature: float
) -> tuple[Array | float, Array, Array, Array, Array]:
    """Rounded maxima ``sum_i T lse_i``, their counts ``sum_i p_i``, ``sum_i p_i (1 - p_i)``, and p.

    Maxima are counted from the score of each row's first candidate: what prices change is not lost
    beside scores that are large. Arguments are assumed checked, with at least one candidate in each
    row. Counts are float64, p is of the dtype of `values`; the first result may be an array without
    axes, still on its device. The last are p and its clusters, -1 where there are fewer: p is 0 in
    rows inside a cluster (`INSIDE`), which an engine may leave out, as entries without weight.
    """
    xp = compat.array_namespace(values)
    k = prices.shape[0]
    listed = clusters >= 0
    places = xp.astype(xp.where(listed, clusters, xp.zeros_like(clusters)), xp.int64)
    flat = xp.reshape(places, (-1,))
    away = xp.astype(values, xp.float64)
    priced = (away - away[:, :1]) + xp.reshape(xp.take(prices, flat), places.shape)
    best = xp.max(priced, axis=1, keepdims=True)
    away = (priced - best) / temperature
    weights = xp.where(away > -FAR, xp.exp(away), xp.zeros_like(away))
    total = xp.sum(weights, axis=1, keepdims=True)
    p = weights / total
    value = unread(xp.sum(best) + temperature * xp.sum(xp.log(total)))
    sums = xp.stack([xp.reshape(p, (-1,)), xp.reshape(p * (1.0 - p), (-1,))], axis=1)
    sums = segment_sum(xp.astype(xp.round(sums * UNITS), xp.int64), flat, n_segments=k)
    counts = xp.astype(sums, xp.float64) / UNITS
    p = xp.astype(xp.where(total > INSIDE, p, xp.zeros_like(p)), values.dtype)
    return value, counts[:, 0], counts[:, 1], p, clusters


@kernel
def curvature(probabilities: Array, clusters: Array, *, n_clusters: int) -> Array:
    """``sum_i diag(p_i) - p_i p_i^T`` as a (k, k) float64 array.

    A row has its clusters first and then -1, with p = 0.
    """
    xp = compat.array_namespace(probabilities)
    columns = xp.arange(n_clusters, dtype=clusters.dtype, device=compat.device(clusters))
    # A row of zeros, because an array of no rows has no product in every library.
    dense = xp.zeros((1, n_clusters), dtype=xp.float64, device=compat.device(clusters))
    if probabilities.shape[0]:
        p = xp.astype(probabilities, xp.float64)[:, :, None]
        dense = xp.sum(xp.where(clusters[:, :, None] == columns, p, xp.zeros_like(p)), axis=1)
    diagonal = xp.eye(n_clusters, dtype=xp.float64, device=compat.device(clusters))
    return diagonal * xp.sum(dense, axis=0) - xp.matmul(dense.T, dense)


@kernel
def curvature_product(probabilities: Array, clusters: Array, direction: Array) -> Array:
    """``sum_i p_i * (v_i - p_i . v_i)``: the matrix of `curvature` times a (k,) vector."""
    xp = compat.array_namespace(probabilities)
    k = direction.shape[0]
    listed = clusters >= 0
    places = xp.astype(xp.where(listed, clusters, xp.zeros_like(clusters)), xp.int64)
    flat = xp.reshape(places, (-1,))
    p = xp.astype(probabilities, xp.float64)
    v = xp.reshape(xp.take(direction, flat), places.shape)
    part = xp.reshape(p * (v - xp.sum(p * v, axis=1, keepdims=True)), (-1, 1))
    largest = float(xp.max(xp.abs(direction))) or 1.0
    sums = segment_sum(xp.astype(xp.round(part * (UNITS / largest)), xp.int64), flat, n_segments=k)
    return xp.astype(sums[:, 0], xp.float64) * (largest / UNITS)


class Fractional(NamedTuple):
    """The fractional rows of a part: their shares of clusters, and which these are."""

    probabilities: Array
    clusters: Array


class Point(NamedTuple):
    """The smoothed dual at some prices; `corner` is the curvature of the bounds' terms.

    The value stays on its device (`unread`): the host reads only what it decides on.
    """

    value: Array | float
    gradient: Array
    counts: Array
    spread: Array
    corner: Array
    fractional: list[Fractional]
    temperature: float


def _joined(parts: list[Fractional]) -> list[Fractional]:
    """Join short parts, so that each but the last has `PART_ENTRIES` at least."""
    xp, joined, size = compat.array_namespace(parts[0].clusters), list[list[Fractional]](), 0
    for part in parts:
        if not joined or size >= PART_ENTRIES:
            joined.append([])
            size = 0
        joined[-1].append(part)
        size += math.prod(part.clusters.shape)
    return [
        some[0] if len(some) == 1 else Fractional(*(xp.concat(c) for c in zip(*some, strict=True)))
        for some in joined
    ]


def evaluate(problem: SmoothedDual, prices: Array, temperature: float) -> Point:
    xp = compat.array_namespace(prices)
    n, width = problem.values.shape
    least = max(PART_ENTRIES // max(width, 1), prices.shape[0])  # it has sums of k clusters

    def of_part(rows: slice) -> tuple[Array | float, Array, Array, Array, Array]:
        candidates = problem.values[rows, :], problem.clusters[rows, :]
        return soft_counts(*candidates, prices, temperature=temperature)

    found = map_in_order(of_part, row_parts(n, least, like=prices), like=prices)
    values, all_counts, spreads, *p = (list(column) for column in zip(*found, strict=True))
    fractional = _joined(list(map(Fractional, *p)))
    value, counts, spread = (reduce(add, terms) for terms in (values, all_counts, spreads))
    counts = counts + problem.fixed_counts
    slack, own = problem.upper - problem.lower, problem.own(prices)
    decay = xp.exp(-xp.minimum(xp.abs(own), UNDERFLOW * temperature) / temperature)
    softplus = temperature * xp.log1p(decay) + xp.maximum(-own, xp.zeros_like(own))
    sigmoid = xp.where(own < 0, xp.ones_like(decay), decay) / (1.0 + decay)
    terms = problem.fixed_counts * prices - problem.lower * own + slack * softplus
    corner = slack * decay / (1.0 + decay) ** 2
    gradient = counts - problem.pulled(problem.lower + slack * sigmoid)
    value = value + unread(xp.sum(terms))
    return Point(value, gradient, counts, spread, corner, fractional, temperature)


def descend(
    problem: SmoothedDual,
    prices: Array,
    temperature: float,
    *,
    is_last: Callable[[float], bool] = lambda n_fractional: True,
) -> tuple[Array, float, int]:
    """Run Newton's method in the box at one temperature, from prices in it (steps 1 to 5).

    Returns the prices, how many rows are fractional there, and the number of steps. By the second,
    `is_last` tells whether the temperature is the last; otherwise near the minimum is enough.
    """
    xp = compat.array_namespace(prices)
    point = evaluate(problem, prices, temperature)  # step 1
    for n_steps in range(MOST_STEPS):
        gradient = point.gradient
        outward = ((prices <= problem.low) & (gradient > 0)) | (
            (prices >= problem.high) & (gradient < 0)
        )
        free = xp.where(outward, xp.zeros_like(prices), xp.ones_like(prices))  # step 2
        # As much curvature more as the gradient would overcome within the longest step.
        damping = xp.abs(gradient) / LONGEST
        step = -linear_solver(point, free, damping, problem)(gradient * free)  # step 3
        slope, n_fractional = read(xp.sum(gradient * step), xp.sum(point.spread))
        early = 0.0 if is_last(n_fractional) else EARLY_PROMISE * n_fractional
        enough = max(PROMISE * prices.shape[0], early)
        if not -slope > enough * temperature:  # step 4
            return prices, n_fractional, n_steps
        point = point._replace(fractional=[])  # frees their memory
        found = _line_search(problem, prices, step, point)  # step 5
        if found is None:
            break
        prices, point = found
    return prices, float(xp.sum(point.spread)), n_steps


def _line_search(
    problem: SmoothedDual, prices: Array, step: Array, point: Point
) -> tuple[Array, Point] | None:
    """Prices along a direction whose value falls as it should, and their point; None if none do."""
    xp, length = compat.array_namespace(prices), 1.0
    while length > SHORTEST:
        tried = xp.minimum(xp.maximum(prices + length * step, problem.low), problem.high)
        found = evaluate(problem, tried, point.temperature)
        promised = unread(xp.sum(point.gradient * (tried - prices)))
        if bool(found.value <= point.value + ARMIJO * promised):
            return tried, found
        length /= 2.0
    return None


def linear_solver(
    point: Point, free: Array, extra: Array, problem: SmoothedDual
) -> Callable[[Array], Array]:
    """``rhs -> (curvature + extra / T)^-1 rhs`` on the free clusters, for rhs that are 0 elsewhere.

    For (k,) vectors; by elimination, also for each row of an (r, k) array.
    """
    xp, k, temperature = compat.array_namespace(free), free.shape[0], point.temperature
    diagonal = point.spread + 2.0 * point.corner - problem.pulled(point.corner)
    largest = xp.max(diagonal)
    ridge = extra + RIDGE * xp.where(largest < NOTHING, xp.ones_like(largest), largest)
    like, corner = point.fractional[0].probabilities, point.corner

    def summed(of_part: Callable[[Fractional], Array]) -> Array:
        return reduce(add, map_in_order(of_part, point.fractional, like=free))

    if is_dense(k, like=like):
        matrix, more = summed(lambda part: curvature(*part, n_clusters=k)), ridge + (1.0 - free)
        if problem.tree is None:
            more = more + corner * free
        else:
            eye = xp.eye(k, dtype=xp.float64, device=compat.device(free))
            matrix = matrix + problem.pulled(corner[:, None] * problem.own(eye))
        return lambda rhs: eliminate(matrix, free, more, rhs * temperature)

    home = free
    free, corner, ridge, diagonal = beside(like, free, corner, ridge, diagonal)

    def times(v: Array) -> Array:
        moved = free * v
        product = summed(lambda part: curvature_product(*part, moved))
        return free * (product + problem.pulled(corner * problem.own(moved))) + ridge * v

    def iterate(rhs: Array) -> Array:
        return conjugate_gradients(
            times, rhs * temperature, diagonal=diagonal + ridge, tol=CG_ACCURACY, max_iter=CG_STEPS
        )

    return lambda rhs: beside(home, iterate(*beside(like, rhs)))[0]


def refine_prices(
    problem: SmoothedDual,
    prices: Array,
    *,
    start: float,
    fractional: float,
    is_over: Callable[[], bool] = lambda: False,
) -> RefinedPrices:
    """Minimize the smoothed dual over the box, at falling temperatures.

    Parameters
    ----------
    problem : SmoothedDual
    prices : (k,) float64 array
    start : float > 0
        First temperature, in units of score: about how far the prices are off.
    fractional : float > 0
        Stop once so many rows are fractional, ``sum_ik p_ik (1 - p_ik)``.
    is_over : callable, optional
        Asked after each temperature: whether the time is up.

    Returns
    -------
    RefinedPrices

    Notes
    -----
    Cost of a step: O(m w^2 + k^3), or O(m w) per conjugate gradient for more than 96 clusters, for
    m fractional rows; one to seven steps each time.
    """
    xp, k = compat.array_namespace(prices), prices.shape[0]
    home, problem = prices, near_host(problem)
    prices = xp.clip(*beside(problem.low, prices), problem.low, problem.high)
    temperature, before, n_points = start, math.inf, 0
    for _ in range(MOST_LEVELS):
        many = (TIED if before > FEW * k else HALF) * before

        def is_last(n_fractional: float, many: float = many) -> bool:
            return n_fractional <= fractional or n_fractional > many

        prices, n_fractional, n_steps = descend(problem, prices, temperature, is_last=is_last)
        n_points += 1 + n_steps
        if is_last(n_fractional) or is_over():
            break
        temperature, before = temperature / COOLING, n_fractional  # step 6
    return RefinedPrices(beside(home, prices)[0], temperature, n_points)
