"""The kernel `select_candidates`, compiled by numba: one vectorized scan of a row, one core."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from .numba_compilation import ENTRY, INNER
from .numba_engine import LANES, all_finite

__all__ = ["select_candidates"]

FloatArray = NDArray[np.floating[Any]]


# Rows with NaN or an infinity are found by `total`; "nnan" only lets the maximum vectorize.
@njit(**INNER, fastmath={"nnan", "nsz"})
def _row_max(row, lanes, low):
    k = len(row)
    if k <= LANES:  # a lane for each cluster
        best = lanes[0] = row[0] + low[0]
        for j in range(1, k):
            lanes[j] = row[j] + low[j]
            best = max(best, lanes[j])
        return best
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
    for lane in range(LANES):
        best = max(best, lanes[lane])
    return best


@njit(**INNER)
def _none_wrong(row):
    """No NaN and no plus infinity."""
    for value in row:
        if not value < np.inf:
            return False
    return True


@njit(**INNER)
def _is_first(j, other, i, k):
    """Whether cluster `j` comes before another that ties with it: ties begin at cluster i."""
    return (j - i) % k < (other - i) % k


@njit(**INNER)
def _insert(clusters, values, keys, truncation, i, j, score, at_most, kept, k):
    """Insert a cluster into the sorted candidates of row `i`; return how many there are now."""
    width = clusters.shape[1]
    if kept == width:
        last = keys[width - 1]
        truncation[i] = max(truncation[i], np.float64(min(at_most, last)))
        if at_most < last or (at_most == last and not _is_first(j, clusters[i, width - 1], i, k)):
            return kept
        kept -= 1
    place = kept
    while place > 0 and (
        keys[place - 1] < at_most
        or (keys[place - 1] == at_most and _is_first(j, clusters[i, place - 1], i, k))
    ):
        keys[place] = keys[place - 1]
        clusters[i, place] = clusters[i, place - 1]
        values[i, place] = values[i, place - 1]
        place -= 1
    keys[place], clusters[i, place], values[i, place] = at_most, j, score
    return kept + 1


@njit(**ENTRY)
def _select_candidates(
    scores, low, high, slack, largest, lanes, clusters, values, n_candidates, truncation, keys
):
    n, k = scores.shape
    near_lanes = np.empty(LANES, dtype=np.int64)
    zero = scores.dtype.type(0)
    width_of_region = zero
    for j in range(k):
        width_of_region = max(width_of_region, high[j] - low[j])
    # The difference of two rounded prices can be short by their rounding.
    width_of_region += slack * largest
    for i in range(n):
        row = scores[i]
        if not all_finite(row, zero) and not _none_wrong(row):
            continue
        best = _row_max(row, lanes, low)
        if not np.isfinite(best):
            continue
        threshold = best - slack * (abs(best) + largest)
        # Only a lane whose largest entry is this near can hold a candidate.
        near = threshold - width_of_region - slack * abs(threshold)
        n_near = np.int64(0)
        for lane in range(min(LANES, k)):  # no branch: which lanes are near cannot be foreseen
            near_lanes[n_near] = lane
            n_near += lanes[lane] >= near
        kept, total = np.int64(0), 0
        for t in range(n_near):
            for j in range(near_lanes[t], k, LANES):
                at_most = row[j] + high[j]
                if at_most >= threshold:
                    total += 1
                    kept = _insert(
                        clusters, values, keys, truncation, i, j, row[j], at_most, kept, k
                    )
        n_candidates[i] = total


def select_candidates(
    scores: FloatArray, low: FloatArray, high: FloatArray, *, width: int
) -> tuple[NDArray[np.int32], FloatArray, NDArray[np.int64], NDArray[np.float64]]:
    """See `dualclust.algos.offline._candidates.select_candidates`."""
    native = scores.dtype.newbyteorder("=")
    # Of one kind whoever calls: read-only arrays would be compiled for once more.
    scores = np.require(scores, native, ("C", "W"))
    n, k = scores.shape
    width = min(width, k)
    kind = scores.dtype.type
    largest = kind(max(np.abs(low).max(), np.abs(high).max()))
    clusters = np.full((n, width), -1, dtype=np.int32)
    values = np.full((n, width), -np.inf, dtype=native)
    n_candidates = np.zeros(n, dtype=np.int64)
    truncation = np.full(n, -np.inf)
    _select_candidates(
        scores,
        low.astype(native),
        high.astype(native),
        kind(8.0 * np.finfo(native).eps),
        largest,
        np.empty(LANES, dtype=native),
        clusters,
        values,
        n_candidates,
        truncation,
        np.empty(width, dtype=native),
    )
    return clusters, values, n_candidates, truncation
