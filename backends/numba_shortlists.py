"""The kernel `shortlist`, compiled by numba: one vectorized scan of a row, on one core."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["shortlist"]

FloatArray = NDArray[np.floating[Any]]

LANES = 64  # independent running maxima, so that the loop vectorizes; see `numba_engine`


# Rows with NaN or an infinity are found by `total`; "nnan" only lets the maximum vectorize.
@njit(cache=True, nogil=True, fastmath={"nnan", "nsz"})
def _row_max(row, low, lanes):
    k = row.shape[0]
    lanes[:] = -np.inf
    for start in range(0, k - LANES + 1, LANES):
        values, prices = row[start : start + LANES], low[start : start + LANES]
        for lane in range(LANES):
            lanes[lane] = max(lanes[lane], values[lane] + prices[lane])
    full = k // LANES * LANES
    values, prices = row[full:], low[full:]
    for lane in range(k - full):
        lanes[lane] = max(lanes[lane], values[lane] + prices[lane])
    best = lanes[0]
    for lane in range(1, LANES):
        best = max(best, lanes[lane])
    return best


# 0 * x is 0 for every finite x and NaN otherwise, so the order of this sum is free.
@njit(cache=True, nogil=True, fastmath={"reassoc", "nsz"})
def _all_finite(row, zero):
    total = zero
    for j in range(row.shape[0]):
        total += row[j] * zero
    return total == zero


@njit(cache=True, nogil=True)
def _none_wrong(row):
    """No NaN and no plus infinity."""
    for value in row:
        if not value < np.inf:
            return False
    return True


@njit(cache=True, nogil=True)
def _insert(clusters, values, keys, cuts, i, j, score, at_most, listed, k):
    """Put a cluster into the sorted list of row `i`, or cut off the worst; returns the length."""
    width = clusters.shape[1]
    turned = (j - i) % k  # ties begin at cluster i
    if listed == width:
        last = keys[width - 1]
        cuts[i] = max(cuts[i], np.float64(min(at_most, last)))
        if at_most < last or (at_most == last and turned > (clusters[i, width - 1] - i) % k):
            return listed
        listed -= 1
    place = listed
    while place > 0 and (
        keys[place - 1] < at_most
        or (keys[place - 1] == at_most and (clusters[i, place - 1] - i) % k > turned)
    ):
        keys[place] = keys[place - 1]
        clusters[i, place] = clusters[i, place - 1]
        values[i, place] = values[i, place - 1]
        place -= 1
    keys[place], clusters[i, place], values[i, place] = at_most, j, score
    return listed + 1


@njit(cache=True, nogil=True)
def _shortlist(scores, low, high, slack, largest, lanes, clusters, values, found, cuts, keys):
    n, k = scores.shape
    zero = scores.dtype.type(0)
    widest = zero
    for j in range(k):
        widest = max(widest, high[j] - low[j])
    # The difference of two rounded prices can be short by their rounding.
    widest += slack * largest
    for i in range(n):
        row = scores[i]
        if not _all_finite(row, zero) and not _none_wrong(row):
            continue
        best = _row_max(row, low, lanes)
        if not np.isfinite(best):
            continue
        reach = best - slack * (abs(best) + largest)
        # Only a lane whose largest entry is this near can hold a cluster within reach.
        near = reach - widest - slack * abs(reach)
        listed = 0
        total = 0
        for lane in range(min(LANES, k)):
            if lanes[lane] < near:
                continue
            for j in range(lane, k, LANES):
                at_most = row[j] + high[j]
                if at_most >= reach:
                    total += 1
                    listed = _insert(clusters, values, keys, cuts, i, j, row[j], at_most, listed, k)
        found[i] = total


def shortlist(
    scores: FloatArray, low: FloatArray, high: FloatArray, *, width: int
) -> tuple[NDArray[np.int32], FloatArray, NDArray[np.int64], NDArray[np.float64]]:
    """See `dualclust.algos.offline._candidates.shortlist`."""
    native = scores.dtype.newbyteorder("=")
    scores = np.ascontiguousarray(scores, dtype=native)
    n, k = scores.shape
    width = min(width, k)
    kind = scores.dtype.type
    largest = kind(max(np.abs(low).max(), np.abs(high).max()))
    clusters = np.full((n, width), -1, dtype=np.int32)
    values = np.full((n, width), -np.inf, dtype=native)
    found = np.zeros(n, dtype=np.int64)
    cuts = np.full(n, -np.inf)
    _shortlist(
        scores,
        low.astype(native),
        high.astype(native),
        kind(8.0 * np.finfo(native).eps),
        largest,
        np.empty(LANES, dtype=native),
        clusters,
        values,
        found,
        cuts,
        np.empty(width, dtype=native),
    )
    return clusters, values, found, cuts
