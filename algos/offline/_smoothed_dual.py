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

with p_i the softmax. Only samples near a border of two clusters have curvature, so that a low
temperature is minimized from the minimum of a higher one (`_cooling`):

1. *Evaluate* value, gradient and curvature of the smoothed dual (`soft_counts`, `curvature`): sums
   over samples, in parts that threads share out. The samples on a border are listed, once for all
   products with the curvature: at low temperatures they are few.
2. *Fix* the variables at an edge of the box that the gradient pushes outward.
3. *Step*: Newton's direction on the free variables, damped so that no price moves by more than some
   T, within which the curvature holds; by elimination, or by conjugate gradients.
4. *Stop* where the direction promises little: what is then left to move are fewer samples than lie
   on the borders. Where the temperature will fall, stop early: its minimum is not the one sought.
5. *Search* along the projection of the direction onto the box, by halves, until the value falls
   (Armijo).

==================  =================  =======  ==================================================
paper               here               shape    meaning
==================  =================  =======  ==================================================
:math:`s_{i,k}`     ``values``         (m, w)   scores of the candidates of each sample
:math:`\pi_k`       ``prices``         (k,)     float64, in units of score
:math:`p_{i,k}`     ``probabilities``  (m, w)   softmax of the priced scores
:math:`T`           ``temperature``    ()       in units of score
\-                  ``fixed_counts``   (k,)     counts of the samples whose cluster is fixed
==================  =================  =======  ==================================================

A sample whose cluster is the same for every price in the box is a fixed variable. Such samples are
worth ``fixed_counts . pi``, up to a constant, and have no candidates.
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
from ..core.random import random_signs
from ..core.reads import read, unread
from ..core.segments import segment_sum
from ..core.types import Array
from ..core.workers import map_in_order, row_parts

__all__ = [
    "Problem",
    "RefinedPrices",
    "curvature",
    "curvature_product",
    "descend",
    "price_errors",
    "soft_counts",
]

DENSE = 96  # clusters up to which a linear system is solved by elimination, above by CG
MOST_STEPS = 16
LONGEST, SHORTEST = 16.0, 1e-4  # step of a price in units of T; part of a step
ARMIJO = 1e-4  # of the decrease that the gradient promises
PROMISE = 0.02  # of T per cluster: a smaller decrease is not worth a step
EARLY_PROMISE = 0.05  # of T per sample on a border: the same where T will fall
DRAWS, KEY = 8, 0
FAR_INSIDE = 4.0  # standard deviations of a count: so far from its bounds it does not get out
FAR = 24.0  # temperatures; what is worse by more has no weight: 4e-11 would count for nothing
INSIDE = 1.0 + 2.0**-14  # weights of a row, the best one's 1, up to which no product counts it:
# of a border that rows lie around evenly, those have one part of 8,000 of the curvature
RIDGE = 1e-8  # share of the largest curvature, for directions that have none
UNDERFLOW = 800.0  # temperatures: the exponential of as many is 0
NOTHING = 2.0**-900  # curvature that is as good as none: its ridge would vanish
CG_STEPS, CG_ACCURACY = 60, 0.1  # as exact as a Newton step needs its direction
UNITS = 2.0**40  # of the sums of the reference text
PART_ENTRIES = 2**16  # candidates of a part at least, which threads then hand out in no time


class Problem(NamedTuple):
    """The candidates of samples, and what the counts of the clusters are to be.

    Attributes
    ----------
    values : (m, w) array
    clusters : (m, w) int32 array
    fixed_counts, lower, upper : (k,) float64 array
        In samples; they may be fractions of one where the samples are a part of all.
    low, high : (k,) float64 array
        The box of prices for which the candidates are all that a sample may be assigned to.
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
    """Prices, and the temperature at which they are best."""

    prices: Array
    temperature: float


@kernel
def soft_counts(
    values: Array, clusters: Array, prices: Array, *, temperature: float
) -> tuple[Array | float, Array, Array, Array, Array]:
    """Rounded maxima ``sum_i T lse_i``, their counts ``sum_i p_i``, ``sum_i p_i (1 - p_i)``, and p.

    Maxima are counted from the score of each row's first candidate: what prices change is not lost
    beside scores that are large. Arguments are assumed checked, with at least one candidate in each
    row. Counts are float64, p is of the dtype of `values`; the first result may be an array without
    axes, so that nothing has to be read from a device. The last results are p and its clusters, -1
    where there are fewer, for the curvature: p is 0 in rows that lie inside a cluster (`INSIDE`),
    which an engine may leave out, as it may entries without weight.
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


def price_errors(problem: Problem, found: RefinedPrices, share: float) -> Array:
    """Return how far prices learned on a sample are off, as a standard deviation per cluster.

    Counts of a sample scatter by about ``sqrt(n_k)``, and a scatter dn of the counts moves the
    prices by ``curvature^-1 dn``. The result is the root mean square over a few draws of signs. It
    is never below the mean of all clusters, and never far above the radius of the box, which enters
    as the standard deviation known before.

    Parameters
    ----------
    problem : Problem
    found : RefinedPrices
        Of `refine_prices`, with some samples left on the borders.
    share : float in [0, 1]
        Share of all samples that the sample has: 1 leaves no error.

    Returns
    -------
    (k,) float64 array, in units of score
    """
    xp, prices = compat.array_namespace(found.prices), found.prices
    point = _evaluate(problem, prices, found.temperature)
    scatter = xp.sqrt(xp.clip(point.counts, min=1.0) * (1.0 - share))
    # Bounds hold a price near 0 only as long as counts stay inside them, and these scatter.
    inside = xp.minimum(point.counts - problem.lower, problem.upper - point.counts)
    is_far = inside > FAR_INSIDE * scatter
    point = point._replace(corner=xp.where(is_far, point.corner, xp.zeros_like(prices)))
    known = float(xp.mean((problem.high - problem.low) / 2.0))
    known = max(known, 2.0**-52 * point.temperature)  # a region may have no extent at all
    prior = point.temperature * xp.mean(scatter) / known
    solve = _solver(point, xp.ones_like(prices), prior, problem)
    k, device, total = prices.shape[0], compat.device(prices), xp.zeros_like(prices)
    draws = random_signs((DRAWS, k), key=KEY, xp=xp, device=device) * scatter
    draws = draws - xp.stack([xp.mean(draws[i, :]) for i in range(DRAWS)])[:, None]
    moves = solve(draws) if k <= DENSE else xp.stack([solve(draws[i, :]) for i in range(DRAWS)])
    unit = xp.max(xp.abs(moves))  # of squares that would overflow or vanish
    unit = xp.where((unit == 0.0) | ((1e-150 < unit) & (unit < 1e150)), xp.ones_like(unit), unit)
    for i in range(DRAWS):
        total = total + (moves[i, :] / unit) * (moves[i, :] / unit)
    square = total / DRAWS
    return unit * xp.sqrt(xp.maximum(square, xp.mean(square)))


class _Borders(NamedTuple):
    """The samples of a part that lie on a border: their shares of clusters, and which these are."""

    probabilities: Array
    clusters: Array


class _Point(NamedTuple):
    """The smoothed dual at some prices; `corner` is the curvature of the bounds' terms."""

    value: Array | float
    gradient: Array
    counts: Array
    spread: Array
    corner: Array
    borders: list[_Borders]
    temperature: float


def _joined(parts: list[_Borders]) -> list[_Borders]:
    """Join short parts."""
    xp, joined, size = compat.array_namespace(parts[0].clusters), list[list[_Borders]](), 0
    for part in parts:
        if not joined or size >= PART_ENTRIES:
            joined.append([])
            size = 0
        joined[-1].append(part)
        size += math.prod(part.clusters.shape)
    return [
        some[0] if len(some) == 1 else _Borders(*(xp.concat(c) for c in zip(*some, strict=True)))
        for some in joined
    ]


def _evaluate(problem: Problem, prices: Array, temperature: float) -> _Point:
    xp, (n, width) = compat.array_namespace(prices), problem.values.shape
    # Each part has sums of k clusters.
    least = max(PART_ENTRIES // max(width, 1), prices.shape[0])

    def of_part(rows: slice) -> tuple[Array | float, Array, Array, Array, Array]:
        candidates = problem.values[rows, :], problem.clusters[rows, :]
        return soft_counts(*candidates, prices, temperature=temperature)

    found = map_in_order(of_part, row_parts(n, least, like=prices), like=prices)
    values, all_counts, spreads, *p = (list(column) for column in zip(*found, strict=True))
    borders = _joined(list(map(_Borders, *p)))
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
    return _Point(value, gradient, counts, spread, corner, borders, temperature)


def descend(
    problem: Problem,
    prices: Array,
    temperature: float,
    *,
    is_last: Callable[[float], bool] = lambda at_border: True,
) -> tuple[Array, float]:
    """Run Newton's method in the box at one temperature; also count the samples on borders.

    Parameters
    ----------
    problem : Problem
    prices : (k,) float64 array
        In the box, in units of score.
    temperature : float > 0
        In units of score.
    is_last : callable
        Tells by the samples on borders, ``sum_ik p_ik (1 - p_ik)``, whether the temperature is the
        last one; otherwise prices near the minimum are near enough (step 4).

    Returns
    -------
    prices : (k,) float64 array
    at_border : float
        The samples on borders at these prices.
    """
    xp = compat.array_namespace(prices)
    point = _evaluate(problem, prices, temperature)  # step 1
    for _ in range(MOST_STEPS):
        gradient = point.gradient
        outward = ((prices <= problem.low) & (gradient > 0)) | (
            (prices >= problem.high) & (gradient < 0)
        )
        free = xp.where(outward, xp.zeros_like(prices), xp.ones_like(prices))  # step 2
        # As much curvature more as the gradient would overcome within the longest step.
        damping = xp.abs(gradient) / LONGEST
        step = -_solver(point, free, damping, problem)(gradient * free)  # step 3
        slope, at_border = read(xp.sum(gradient * step), xp.sum(point.spread))
        enough = PROMISE * prices.shape[0]
        if not is_last(at_border):
            enough = max(enough, EARLY_PROMISE * at_border)
        if not -slope > enough * temperature:  # step 4
            return prices, at_border
        point = point._replace(borders=[])  # frees their memory
        found = _search(problem, prices, step, point)  # step 5
        if found is None:
            break
        prices, point = found
    return prices, float(xp.sum(point.spread))


def _search(
    problem: Problem, prices: Array, step: Array, point: _Point
) -> tuple[Array, _Point] | None:
    """Prices along a direction whose value falls as it should, and their point; None if none do."""
    xp, length = compat.array_namespace(prices), 1.0
    while length > SHORTEST:
        tried = xp.minimum(xp.maximum(prices + length * step, problem.low), problem.high)
        found = _evaluate(problem, tried, point.temperature)
        promised = unread(xp.sum(point.gradient * (tried - prices)))
        if bool(found.value <= point.value + ARMIJO * promised):
            return tried, found
        length /= 2.0
    return None


def _solver(
    point: _Point, free: Array, extra: Array | float, problem: Problem
) -> Callable[[Array], Array]:
    """``rhs -> (curvature + extra / T)^-1 rhs`` on the free clusters, for rhs 0 elsewhere."""
    xp, k, temperature = compat.array_namespace(free), free.shape[0], point.temperature
    diagonal = point.spread + 2.0 * point.corner - problem.pulled(point.corner)
    largest = xp.max(diagonal)
    ridge = extra + RIDGE * xp.where(largest < NOTHING, xp.ones_like(largest), largest)

    def summed(of_part: Callable[[_Borders], Array]) -> Array:
        return reduce(add, map_in_order(of_part, point.borders, like=free))

    if k <= DENSE:
        matrix = summed(lambda part: curvature(*part, n_clusters=k))
        both = free[:, None] * free[None, :]
        eye = xp.eye(k, dtype=xp.float64, device=compat.device(free))
        adds = eye if problem.tree is None else eye - problem.tree
        matrix = (matrix + (adds.T * point.corner) @ adds) * both + eye * (ridge + (1.0 - free))

        def eliminate(rhs: Array) -> Array:
            return xp.linalg.solve(matrix, (rhs * temperature)[..., None])[..., 0]

        return eliminate

    def times(v: Array) -> Array:
        moved = free * v
        product = summed(lambda part: curvature_product(*part, moved))
        return free * (product + problem.pulled(point.corner * problem.own(moved))) + ridge * v

    def iterate(rhs: Array) -> Array:
        return conjugate_gradients(
            times, rhs * temperature, diagonal=diagonal + ridge, tol=CG_ACCURACY, max_iter=CG_STEPS
        )

    return iterate
