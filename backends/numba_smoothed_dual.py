"""The kernels of the smoothed dual, compiled by numba: sums over candidates, on one core."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from .numba_compilation import ENTRY, INNER, read_only

__all__ = ["curvature", "curvature_product", "soft_counts"]

FloatArray = NDArray[np.floating[Any]]
Doubles = NDArray[np.float64]
Candidates = NDArray[np.int32]

FAR, INSIDE = 24.0, 1.0 + 2.0**-14  # as in `dualclust.algos.offline._smoothed_dual`
ROWS = 64  # whose weights are computed at a time: they stay in the first cache

PER_LN2 = 1.4426950408889634
LN2_HIGH, LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10  # the first has 21 zeros
WHOLE = 1.5 * 2.0**52  # a number that is added to this one is rounded to a whole one
COEFFICIENTS = tuple(1.0 / math.factorial(n) for n in range(11, -1, -1))  # of the series of e^r


@njit(**INNER)
def _exponentials(x, shifted, n):
    """Replace the first n entries of x, between -`FAR` and 0, by their exponentials.

    ``x = m ln 2 + r`` with a whole m and ``|r| <= (ln 2) / 2``: a polynomial gives ``e^r``, and m
    is added to the exponent of that number. Loops without a branch, so that they are vectorized.
    """
    for j in range(n):
        shifted[j] = x[j] * PER_LN2 + WHOLE
        m = shifted[j] - WHOLE
        r = (x[j] - m * LN2_HIGH) - m * LN2_LOW
        y = 1.0 / 479001600.0
        for c in COEFFICIENTS:
            y = y * r + c
        x[j] = y
    exponents, m_at_end = x.view(np.int64), shifted.view(np.int64)
    for j in range(n):
        exponents[j] += m_at_end[j] << np.int64(52)


@njit(**INNER)
def _list(p, names, shares, places, clusters):
    """Write the shares of a row, and which clusters have them; what is left is empty."""
    for j in range(len(shares)):
        p[j], names[j] = shares[j], clusters[places[j]]
    for j in range(len(shares), len(p)):
        p[j], names[j] = 0.0, -1


@njit(**ENTRY)
def _soft_counts(values, clusters, prices, temperature, counts, spread, p, names):
    n, width = values.shape
    total_best = 0.0
    total_log = 0.0
    n_kept = 0
    farthest, per_temperature = -FAR * temperature, 1.0 / temperature
    priced = np.empty(width)
    # What is near the best of its row, of some rows at a time: the rest has no weight.
    weights, shifted = np.empty(ROWS * width), np.empty(ROWS * width)
    place = np.empty(ROWS * width, dtype=np.int64)
    ends = np.empty(ROWS, dtype=np.int64)
    for start in range(0, n, ROWS):
        n_rows, n_near = min(ROWS, n - start), 0
        for t in range(n_rows):
            i = start + t
            best = -np.inf
            base = np.float64(values[i, 0])
            listed = 0
            for j in range(width):
                a = clusters[i, j]
                if a < 0:
                    break
                listed += 1
                priced[j] = (np.float64(values[i, j]) - base) + prices[a]
                best = max(best, priced[j])
            for j in range(listed):  # what is far is written as well, and the next in its place
                away = priced[j] - best
                weights[n_near], place[n_near] = away * per_temperature, j
                n_near += away > farthest
            ends[t] = n_near
            total_best += best
        _exponentials(weights, shifted, n_near)
        end = 0
        for t in range(n_rows):
            i, first, end = start + t, end, ends[t]
            if end == first + 1:  # one cluster has all of the row
                counts[clusters[i, place[first]]] += 1.0
                continue
            total = 0.0
            for e in range(first, end):
                total += weights[e]
            total_log += np.log(total)
            per_total = 1.0 / total
            for e in range(first, end):
                share, a = weights[e] * per_total, clusters[i, place[e]]
                counts[a] += share
                spread[a] += share * (1.0 - share)
                weights[e] = share
            if total <= INSIDE:  # one cluster has nearly all of it
                continue
            _list(p[n_kept], names[n_kept], weights[first:end], place[first:end], clusters[i])
            n_kept += 1
    return total_best + temperature * total_log, n_kept


def soft_counts(
    values: FloatArray, clusters: Candidates, prices: Doubles, *, temperature: float
) -> tuple[float, Doubles, Doubles, FloatArray, Candidates]:
    """See `dualclust.algos.offline._smoothed_dual.soft_counts`; lists the rows on borders alone."""
    counts, spread = np.zeros_like(prices), np.zeros_like(prices)
    p, names = np.empty_like(values), np.empty_like(clusters)
    given = read_only(values), read_only(clusters), read_only(prices)
    value, n_kept = _soft_counts(*given, float(temperature), counts, spread, p, names)
    return float(value), counts, spread, p[:n_kept, :].copy(), names[:n_kept, :].copy()


@njit(**ENTRY)
def _curvature(p, clusters, matrix):
    n, width = p.shape
    shares, names = np.empty(width), np.empty(width, dtype=np.int64)
    for i in range(n):
        listed = 0
        for j in range(width):
            a = clusters[i, j]
            if a < 0:
                break
            shares[listed], names[listed] = p[i, j], a
            listed += 1
        if listed == 1:  # the row has no curvature
            continue
        for j in range(listed):
            own, a = shares[j], names[j]
            matrix[a, a] += own - own * own
            for h in range(j):
                matrix[a, names[h]] -= own * shares[h]
    for a in range(len(matrix)):  # each pair was counted on one side
        for b in range(a):
            matrix[a, b] += matrix[b, a]
            matrix[b, a] = matrix[a, b]


def curvature(probabilities: FloatArray, clusters: Candidates, *, n_clusters: int) -> Doubles:
    """See `dualclust.algos.offline._smoothed_dual.curvature`."""
    matrix = np.zeros((n_clusters, n_clusters))
    _curvature(probabilities, clusters, matrix)
    return matrix


@njit(**ENTRY)
def _curvature_product(p, clusters, direction, out):
    n, width = p.shape
    shares, moves = np.empty(width), np.empty(width)
    for i in range(n):
        mean = 0.0
        listed = 0
        for j in range(width):
            a = clusters[i, j]
            if a < 0:
                break
            shares[j], moves[j] = p[i, j], direction[a]
            mean += shares[j] * moves[j]
            listed += 1
        for j in range(listed):
            out[clusters[i, j]] += shares[j] * (moves[j] - mean)


def curvature_product(
    probabilities: FloatArray, clusters: Candidates, direction: Doubles
) -> Doubles:
    """See `dualclust.algos.offline._smoothed_dual.curvature_product`."""
    out = np.zeros_like(direction)
    _curvature_product(probabilities, clusters, direction, out)
    return out
