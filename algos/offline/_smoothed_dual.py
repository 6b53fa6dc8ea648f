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

with p_i the softmax. Only samples near a border of two clusters have curvature, so T falls by
fours until each cluster has only a few of them; each level starts at the minimum of the last.

==================  =================  =======  ==================================================
paper               here               shape    meaning
==================  =================  =======  ==================================================
:math:`s_{i,k}`     ``values``         (m, w)   scores of the listed clusters (`shortlists`)
:math:`\pi_k`       ``prices``         (k,)     float64, in units of score
:math:`p_{i,k}`     ``probabilities``  (m, w)   softmax of the priced scores
:math:`T`           ``temperature``    ()       in units of score
\-                  ``settled``        (k,)     counts of the samples that have no list
==================  =================  =======  ==================================================

The settled samples are worth ``settled . pi`` up to a constant, for every price in the box.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import array_api_compat as compat

from ...backends import kernel
from ..core.segments import segment_sum
from ..core.types import Array

__all__ = [
    "Problem",
    "RefinedPrices",
    "curvature",
    "curvature_product",
    "price_errors",
    "refine_prices",
    "soft_counts",
]

DENSE = 256  # clusters up to which a linear system is solved by elimination, above by CG
COOLING, TIED = 4.0, 0.8
MOST_STEPS, MOST_LEVELS = 16, 30
LONGEST = 8.0  # step of a price, in units of T
DRAWS, SEED = 8, 0x9E3779B97F4A7C15
FAR = 24.0  # temperatures; what is worse by more has no weight: 4e-11 would count for nothing
RIDGE = 1e-8  # share of the largest curvature, for directions that have none
CG_STEPS, CG_ACCURACY = 60, 0.03
UNITS = 2.0**40  # of the sums of the reference text


class Problem(NamedTuple):
    """Lists, and what the counts are to be.

    Attributes
    ----------
    values : (m, w) array
    clusters : (m, w) int32 array
    settled, lower, upper : (k,) float64 array
        In samples; they may be fractions of one where the samples are a part of all.
    low, high : (k,) float64 array
        The box in which the lists are complete.
    """

    values: Array
    clusters: Array
    settled: Array
    lower: Array
    upper: Array
    low: Array
    high: Array


class RefinedPrices(NamedTuple):
    """Prices, and the temperature at which they are best."""

    prices: Array
    temperature: float


@kernel
def soft_counts(
    values: Array, clusters: Array, prices: Array, *, temperature: float
) -> tuple[float, Array, Array, Array]:
    """Rounded maxima ``sum_i T lse_i``, their counts ``sum_i p_i``, ``sum_i p_i (1 - p_i)``, and p.

    Maxima are counted from the score of each row's first listed cluster: what prices change is not
    lost beside scores that are large. Arguments are assumed checked, of one listed cluster at least
    in each row. Counts are float64, p is of the dtype of `values`.
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
    value = float(xp.sum(best) + temperature * xp.sum(xp.log(total)))
    sums = xp.stack([xp.reshape(p, (-1,)), xp.reshape(p * (1.0 - p), (-1,))], axis=1)
    sums = segment_sum(xp.astype(xp.round(sums * UNITS), xp.int64), flat, n_segments=k)
    counts = xp.astype(sums, xp.float64) / UNITS
    return value, counts[:, 0], counts[:, 1], xp.astype(p, values.dtype)


@kernel
def curvature(probabilities: Array, clusters: Array, *, n_clusters: int) -> Array:
    """``sum_i diag(p_i) - p_i p_i^T`` as a (k, k) float64 array."""
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


def refine_prices(problem: Problem, prices: Array, *, start: float, border: float) -> RefinedPrices:
    """Minimize the smoothed dual over the box, at falling temperatures.

    Parameters
    ----------
    problem : Problem
    prices : (k,) float64 array
        Where to start.
    start : float > 0
        First temperature, in units of score: about how far the prices are off.
    border : float > 0
        Stop once each cluster has on average so many samples that are on its border,
        ``sum_i p_ik (1 - p_ik)``.

    Returns
    -------
    RefinedPrices

    Notes
    -----
    Cost: O(m w) a step and O(k^3), or O(m w^2) and less for many clusters; about 3 steps for each
    of 5 temperatures.
    """
    xp = compat.array_namespace(prices)
    prices = xp.clip(prices, problem.low, problem.high)
    temperature, before = start, math.inf
    for _ in range(MOST_LEVELS):
        prices, at_border = _descend(problem, prices, temperature)
        # Samples that tie stay on their borders at any temperature: the chains part them.
        if at_border <= border * prices.shape[0] or at_border > TIED * before:
            break
        temperature, before = temperature / COOLING, at_border
    return RefinedPrices(prices, temperature)


def price_errors(problem: Problem, found: RefinedPrices, share: float) -> Array:
    """How far prices learned on a sample are off, as a standard deviation per cluster.

    Counts of a sample scatter by about ``sqrt(n_k)``; a scatter dn moves the prices by
    ``curvature^-1 dn``. Root mean square over a few draws of signs, never below the mean of all,
    and never far above the box: its radius counts as what was known before.

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
    known = xp.mean((problem.high - problem.low) / 2.0)
    prior = point.temperature * xp.mean(scatter) / known
    solve = _solver(problem, point, xp.ones_like(prices), prior)
    state, total = SEED, xp.zeros_like(prices)
    for _ in range(DRAWS):
        signs = []
        for _ in range(prices.shape[0]):
            state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
            signs.append(1.0 if state >> 63 else -1.0)
        draw = xp.asarray(signs, dtype=xp.float64, device=compat.device(prices)) * scatter
        moved = solve(draw - xp.mean(draw))
        total = total + moved * moved
    square = total / DRAWS
    return xp.sqrt(xp.maximum(square, xp.mean(square)))


class _Point(NamedTuple):
    """The smoothed dual at some prices; `corner` is the curvature of the bounds' term."""

    value: float
    gradient: Array
    counts: Array
    spread: Array
    corner: Array
    probabilities: Array
    temperature: float


def _evaluate(problem: Problem, prices: Array, temperature: float) -> _Point:
    xp = compat.array_namespace(prices)
    value, counts, spread, p = soft_counts(
        problem.values, problem.clusters, prices, temperature=temperature
    )
    counts = counts + problem.settled
    slack = problem.upper - problem.lower
    decay = xp.exp(-xp.abs(prices) / temperature)
    softplus = temperature * xp.log1p(decay) + xp.clip(-prices, min=0.0)
    sigmoid = xp.where(prices < 0, xp.ones_like(decay), decay) / (1.0 + decay)
    value += float(xp.sum((problem.settled - problem.lower) * prices + slack * softplus))
    corner = slack * decay / (1.0 + decay) ** 2
    gradient = counts - problem.lower - slack * sigmoid
    return _Point(value, gradient, counts, spread, corner, p, temperature)


def _descend(problem: Problem, prices: Array, temperature: float) -> tuple[Array, float]:
    """Newton's method in the box at one temperature; also how many samples lie on borders."""
    xp = compat.array_namespace(prices)
    point = _evaluate(problem, prices, temperature)
    for _ in range(MOST_STEPS):
        gradient = point.gradient
        held = ((prices <= problem.low) & (gradient > 0)) | (
            (prices >= problem.high) & (gradient < 0)
        )
        free = xp.where(held, xp.zeros_like(prices), xp.ones_like(prices))
        # The curvature holds for moves of a few T; this much more of it allows no longer ones.
        damping = xp.abs(gradient) / LONGEST
        step = -_solver(problem, point, free, damping)(gradient * free)
        # Within this of the minimum, the samples still to be moved are few beside those on borders.
        if not -float(xp.sum(gradient * step)) > 0.02 * temperature * prices.shape[0]:
            break
        point = point._replace(probabilities=point.probabilities[:0, :])  # as large as the lists
        length = 1.0
        while length > 1e-4:
            tried = xp.clip(prices + length * step, problem.low, problem.high)
            found = _evaluate(problem, tried, temperature)
            if found.value <= point.value + 1e-4 * float(xp.sum(gradient * (tried - prices))):
                break
            length /= 2.0
        else:
            break
        prices, point = tried, found
    return prices, float(xp.sum(point.spread))


def _solver(
    problem: Problem, point: _Point, free: Array, extra: Array | float = 0.0
) -> Callable[[Array], Array]:
    """``rhs -> (curvature + extra / T)^-1 rhs`` on the free clusters, for rhs that are 0 elsewhere.

    For (k,) vectors, or, by elimination, the columns of a (k, r) matrix.
    """
    xp, k, temperature = compat.array_namespace(free), free.shape[0], point.temperature
    diagonal = point.spread + point.corner
    ridge = extra + RIDGE * (float(xp.max(diagonal)) or 1.0)
    if k <= DENSE:
        matrix = curvature(point.probabilities, problem.clusters, n_clusters=k)
        both = free[:, None] * free[None, :]
        eye = xp.eye(k, dtype=xp.float64, device=compat.device(free))
        matrix = matrix * both + eye * (free * point.corner + ridge + (1.0 - free))

        def eliminate(rhs: Array) -> Array:
            columns = xp.reshape(rhs * temperature, (k, -1))
            return xp.reshape(xp.linalg.solve(matrix, columns), rhs.shape)

        return eliminate

    def times(v: Array) -> Array:
        product = curvature_product(point.probabilities, problem.clusters, free * v)
        return free * (product + point.corner * v) + ridge * v

    return lambda rhs: _conjugate_gradients(times, rhs * temperature, diagonal + ridge)


def _conjugate_gradients(times: Callable[[Array], Array], rhs: Array, diagonal: Array) -> Array:
    """Solve to a few percent, as Newton's method asks for; preconditioned by the diagonal."""
    xp = compat.array_namespace(rhs)
    x, residual = xp.zeros_like(rhs), rhs
    z = residual / diagonal
    p, rho = z, float(xp.sum(residual * z))
    target = CG_ACCURACY**2 * rho
    for _ in range(CG_STEPS):
        if not rho > target:
            break
        q = times(p)
        bend = float(xp.sum(p * q))
        if not bend > 0.0:
            break
        x, residual = x + (rho / bend) * p, residual - (rho / bend) * q
        z = residual / diagonal
        before, rho = rho, float(xp.sum(residual * z))
        p = z + (rho / before) * p
    return x
