"""The kernels of the smoothed dual, compiled by numba: sums over candidates, on one core."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from .numba_compilation import ENTRY

__all__ = ["curvature", "curvature_product", "soft_counts"]

FloatArray = NDArray[np.floating[Any]]
Doubles = NDArray[np.float64]
Candidates = NDArray[np.int32]

FAR = 24.0  # as in `dualclust.algos.offline._smoothed_dual`


@njit(**ENTRY)
def _soft_counts(values, clusters, prices, temperature, counts, spread, p):
    n, width = values.shape
    total_best = 0.0
    total_log = 0.0
    weights = np.empty(width)
    for i in range(n):
        best = -np.inf
        base = np.float64(values[i, 0])
        listed = 0
        for j in range(width):
            a = clusters[i, j]
            if a < 0:
                break
            listed += 1
            weights[j] = (np.float64(values[i, j]) - base) + prices[a]
            best = max(best, weights[j])
        total = 0.0
        for j in range(listed):
            away = (weights[j] - best) / temperature
            weights[j] = np.exp(away) if away > -FAR else 0.0
            total += weights[j]
        total_best += best
        if total == 1.0:  # all others are far away
            for j in range(listed):
                if weights[j] == 1.0:
                    p[i, j] = 1.0
                    counts[clusters[i, j]] += 1.0
            continue
        total_log += np.log(total)
        for j in range(listed):
            share = weights[j] / total
            p[i, j] = share
            if share > 0.0:
                counts[clusters[i, j]] += share
                spread[clusters[i, j]] += share * (1.0 - share)
    return total_best + temperature * total_log


def soft_counts(
    values: FloatArray, clusters: Candidates, prices: Doubles, *, temperature: float
) -> tuple[float, Doubles, Doubles, FloatArray]:
    """See `dualclust.algos.offline._smoothed_dual.soft_counts`."""
    counts, spread, p = np.zeros_like(prices), np.zeros_like(prices), np.zeros_like(values)
    value = _soft_counts(values, clusters, prices, float(temperature), counts, spread, p)
    return float(value), counts, spread, p


@njit(**ENTRY)
def _curvature(p, clusters, matrix):
    n, width = p.shape
    for i in range(n):
        for j in range(width):
            if p[i, j] == 0.0 or p[i, j] == 1.0:
                continue
            a = clusters[i, j]
            own = np.float64(p[i, j])
            matrix[a, a] += own
            for h in range(width):
                if p[i, h] != 0.0:
                    matrix[a, clusters[i, h]] -= own * np.float64(p[i, h])


def curvature(probabilities: FloatArray, clusters: Candidates, *, n_clusters: int) -> Doubles:
    """See `dualclust.algos.offline._smoothed_dual.curvature`."""
    matrix = np.zeros((n_clusters, n_clusters))
    _curvature(probabilities, clusters, matrix)
    return matrix


@njit(**ENTRY)
def _curvature_product(p, clusters, direction, out):
    n, width = p.shape
    for i in range(n):
        if p[i, 0] == 1.0:
            continue
        mean = 0.0
        for j in range(width):
            if p[i, j] != 0.0:
                mean += np.float64(p[i, j]) * direction[clusters[i, j]]
        for j in range(width):
            if p[i, j] != 0.0:
                a = clusters[i, j]
                out[a] += np.float64(p[i, j]) * (direction[a] - mean)


def curvature_product(
    probabilities: FloatArray, clusters: Candidates, direction: Doubles
) -> Doubles:
    """See `dualclust.algos.offline._smoothed_dual.curvature_product`."""
    out = np.zeros_like(direction)
    _curvature_product(probabilities, clusters, direction, out)
    return out
