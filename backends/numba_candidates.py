"""The kernels of lists of candidates, compiled by numba: scans of a row, one core."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from .numba_compilation import ENTRY, INNER
from .numba_engine import all_finite, largest

__all__ = ["largest_scores", "regrets", "select_candidates"]

FloatArray = NDArray[np.floating[Any]]

ONES = np.uint64(0x0101010101010101)  # times eight marks: their sum is in the highest byte


@njit(**INNER)
def _row_max(row, low, sums, bits):
    """Return the largest sum; `bits` are those of `sums`, an array to compute in."""
    for j in range(len(row)):
        sums[j] = row[j] + low[j]
    return largest(sums, bits)


@njit(**INNER)
def _mark(row, high, threshold, at_most, marks):
    """Write what each cluster is worth at most, and mark the candidates by 1: without a branch."""
    for j in range(len(row)):
        at_most[j] = row[j] + high[j]
        marks[j] = at_most[j] >= threshold


@njit(**INNER)
def _any_reaches(worth, last):
    """Whether one of eight clusters is worth as much as the last one that is kept."""
    reaches = False
    for j in range(8):
        reaches |= worth[j] >= last
    return reaches


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
def _insert(names, keys, i, j, at_most, kept, k):
    """Insert a cluster into the sorted candidates of row i; return how many there are now."""
    if kept == len(keys):
        kept -= 1
        last = keys[kept]
        if at_most < last or (at_most == last and not _is_first(j, names[kept], i, k)):
            return kept + 1
    place = kept
    while place > 0 and (
        keys[place - 1] < at_most
        or (keys[place - 1] == at_most and _is_first(j, names[place - 1], i, k))
    ):
        keys[place], names[place] = keys[place - 1], names[place - 1]
        place -= 1
    keys[place], names[place] = at_most, j
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
    at_most,
    marks,
    names,
    keys,
    clusters,
    values,
    n_candidates,
    truncation,
):
    n, k = scores.shape
    width = clusters.shape[1]
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
        _mark(row, high, threshold, at_most, marks)
        kept, total = np.int64(0), np.int64(0)
        for e in range(len(eights)):
            if eights[e] == 0:  # most of them: eight clusters at a time are passed over
                continue
            total += np.int64((eights[e] * ONES) >> np.uint64(56))
            first = 8 * e
            if kept > width and not _any_reaches(at_most[first : first + 8], keys[width]):
                continue
            for j in range(first, first + 8):
                if marks[j]:
                    kept = _insert(names, keys, i, j, at_most[j], kept, k)
        n_candidates[i] = total
        for place in range(min(kept, width)):
            clusters[i, place], values[i, place] = names[place], row[names[place]]
        if kept > width:
            truncation[i] = keys[width]


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
    # Sums stay finite in single precision; prices that are cut alike are within the slack alike.
    most = float(np.finfo(native).max) / 4.0
    low, high = (np.clip(v, -most, most).astype(native) for v in (low, high))
    largest = kind(max(np.abs(low).max(), np.abs(high).max()))
    clusters = np.full((n, width), -1, dtype=np.int32)
    values = np.full((n, width), -np.inf, dtype=native)
    n_candidates = np.zeros(n, dtype=np.int64)
    truncation = np.full(n, -np.inf)
    sums = np.empty(k, dtype=native)
    padded = -(-k // 8) * 8
    _select_candidates(
        scores,
        low,
        high,
        kind(8.0 * np.finfo(native).eps),
        largest,
        sums,
        sums.view(f"i{native.itemsize}"),
        np.full(padded, -np.inf, dtype=native),
        np.zeros(padded, dtype=np.uint8),
        np.empty(width + 1, dtype=np.int32),
        np.empty(width + 1, dtype=native),
        clusters,
        values,
        n_candidates,
        truncation,
    )
    return clusters, values, n_candidates, truncation


@njit(**ENTRY)
def _largest_scores(scores, values, columns):
    n, k = scores.shape
    m = values.shape[1]
    for i in range(n):
        row, best, names = scores[i], values[i], columns[i]
        for j in range(k):
            value = row[j]
            if j >= m and not value > best[m - 1]:
                continue
            place = min(j, m - 1)
            while place > 0 and best[place - 1] < value:
                best[place], names[place] = best[place - 1], names[place - 1]
                place -= 1
            best[place], names[place] = value, j


def largest_scores(scores: FloatArray, n_kept: int) -> tuple[FloatArray, NDArray[np.int64]]:
    """See `dualclust.algos.scores.largest.largest_scores`."""
    scores = np.require(scores, scores.dtype.newbyteorder("="), ("C", "W"))
    values = np.empty((len(scores), n_kept), dtype=scores.dtype)
    columns = np.empty((len(scores), n_kept), dtype=np.int64)
    _largest_scores(scores, values, columns)
    return values, columns


@njit(**INNER)
def _two_sum(a, b):
    """See `dualclust.algos.core.error_free.two_sum`."""
    total = a + b
    of_b = total - a
    return total, (a - (total - of_b)) + (b - of_b)


@njit(**ENTRY)
def _regrets(values, clusters, prices, slots, regret):
    for i in range(len(values)):
        own = np.float64(values[i, slots[i]])
        own_price = prices[clusters[i, slots[i]]]
        most = 0.0
        for j in range(values.shape[1]):
            if clusters[i, j] < 0:  # nothing comes after the last candidate
                break
            gain, of_gain = _two_sum(np.float64(values[i, j]), -own)
            more, of_more = _two_sum(prices[clusters[i, j]], -own_price)
            total, of_total = _two_sum(gain, more)
            most = max(most, total + (of_total + (of_gain + of_more)))
        regret[i] = most


def regrets(
    values: FloatArray,
    clusters: NDArray[np.int32],
    prices: NDArray[np.float64],
    slots: NDArray[np.int64],
) -> NDArray[np.float64]:
    """See `dualclust.algos.offline._proof.regrets`."""
    regret = np.empty(len(values))
    native = values.dtype.newbyteorder("=")
    lists = np.require(values, native, ("C", "W")), np.require(clusters, np.int32, ("C", "W"))
    own = np.require(prices, np.float64, ("C", "W")), np.require(slots, np.int64, ("C", "W"))
    _regrets(*lists, *own, regret)
    return regret
