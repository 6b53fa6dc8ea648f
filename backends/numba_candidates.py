"""The kernels of lists of candidates, compiled by numba: scans of a row, one core."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from .numba_compilation import ENTRY, INNER
from .numba_engine import all_finite, largest

__all__ = ["best_priced", "select_candidates"]

FloatArray = NDArray[np.floating[Any]]


@njit(**INNER)
def _row_max(row, low, sums, bits):
    """Return the largest sum; `bits` are those of `sums`, an array to compute in."""
    for j in range(len(row)):
        sums[j] = row[j] + low[j]
    return largest(sums, bits)


@njit(**INNER)
def _mark(row, high, threshold, marks):
    """Mark the candidates of a row by 1, all others by 0: one byte each, without a branch."""
    for j in range(len(row)):
        marks[j] = row[j] + high[j] >= threshold


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
    scores,
    low,
    high,
    slack,
    largest,
    sums,
    bits,
    marks,
    clusters,
    values,
    n_candidates,
    truncation,
    keys,
):
    n, k = scores.shape
    eights = marks.view(np.uint64)
    zero = scores.dtype.type(0)
    for i in range(n):
        row = scores[i]
        if not all_finite(row, zero) and not _none_wrong(row):
            continue
        best = _row_max(row, low, sums, bits)
        if not np.isfinite(best):
            continue
        threshold = best - slack * (abs(best) + largest)
        _mark(row, high, threshold, marks)
        kept, total = np.int64(0), 0
        for e in range(len(eights)):
            if eights[e] == 0:  # most of them: eight clusters at a time are passed over
                continue
            for j in range(8 * e, 8 * e + 8):
                if marks[j]:
                    total += 1
                    at_most = row[j] + high[j]
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
    sums = np.empty(k, dtype=native)
    _select_candidates(
        scores,
        low.astype(native),
        high.astype(native),
        kind(8.0 * np.finfo(native).eps),
        largest,
        sums,
        sums.view(f"i{native.itemsize}"),
        np.zeros(-(-k // 8) * 8, dtype=np.uint8),
        clusters,
        values,
        n_candidates,
        truncation,
        np.empty(width, dtype=native),
    )
    return clusters, values, n_candidates, truncation


@njit(**ENTRY)
def _best_priced(values, clusters, prices, best):
    for i in range(len(values)):
        first = np.float64(values[i, 0])
        best[i] = -np.inf
        for j in range(values.shape[1]):
            if clusters[i, j] < 0:  # nothing comes after the last candidate
                break
            best[i] = max(best[i], (np.float64(values[i, j]) - first) + prices[clusters[i, j]])


def best_priced(
    values: FloatArray, clusters: NDArray[np.int32], prices: NDArray[np.float64]
) -> NDArray[np.float64]:
    """See `dualclust.algos.offline._proof.best_priced`."""
    best = np.empty(len(values))
    native = values.dtype.newbyteorder("=")
    lists = np.require(values, native, ("C", "W")), np.require(clusters, np.int32, ("C", "W"))
    _best_priced(*lists, np.require(prices, np.float64, ("C", "W")), best)
    return best
