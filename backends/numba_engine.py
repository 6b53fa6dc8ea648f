"""Kernels compiled by numba for NumPy arrays (one core, no copy of the scores).

Each function repeats the name and signature of the kernel in `dualclust.algos` whose readable text
is the specification, and gives the same answer to the last bit: sums are not re-associated, and
ties go to the lowest index.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from .numba_compilation import ENTRY, INNER

__all__ = ["add_limbs", "all_finite", "assign_stream", "best_clusters", "row_max", "segment_sum"]

FloatArray = NDArray[np.floating[Any]]
IntArray = NDArray[np.int64]


# A maximum of floats is taken one after the other; one of integers by vectors. The bits of floats
# without NaN are in the order of integers once those of negative ones, but for the sign, are turned
# round. Of zeros +0.0 is the larger there; they are equal to whoever compares the floats.
@njit(**INNER)
def row_max(row, price, sums, bits):
    """Return the largest sum and leave all in `sums`; `bits` are those of `sums`, to compute in."""
    for j in range(len(row)):
        sums[j] = row[j] + price[j]
    sign, rest = 8 * bits.itemsize - 1, np.iinfo(bits.dtype).max
    best = bits[0] ^ ((bits[0] >> sign) & rest)
    for j in range(len(bits)):
        best = max(best, bits[j] ^ ((bits[j] >> sign) & rest))
    kept = bits[0]
    bits[0] = best ^ ((best >> sign) & rest)
    largest = sums[0]
    bits[0] = kept
    return largest


# No early exit: the least index of those that tie is taken by vectors, too. A scan that stops is as
# fast at k = 100 and slower at k = 1,000. The label of a row with a NaN is never used.
@njit(**INNER)
def _first_argmax(row, price, sums, bits):
    k = len(row)
    best = row_max(row, price, sums, bits)
    first = k
    for j in range(k):
        first = min(first, j if sums[j] == best else k)
    return first


# 0 * x is 0 for every finite x and NaN otherwise. Not as a sum of free order ("reassoc"): that lets
# the compiler multiply last, and then a row of 1e308 passes for an infinite one.
@njit(**INNER)
def all_finite(row, zero):
    """Whether a row has no NaN and no infinity; `zero` is that of its dtype."""
    finite = True
    for j in range(len(row)):
        finite &= row[j] * zero == zero
    return finite


@njit(**ENTRY)
def _assign_stream(  # noqa: C901  one pass, in the order of the reference text
    scores,
    zero,
    rho,
    rho_up,
    counts,
    lower_share,
    upper_share,
    lower,
    upper,
    step_size,
    chunk_size,
    remaining,
    free_sign,
    price,
    sums,
    bits,
    labels,
):
    n, k = scores.shape
    chunk_counts = np.empty_like(counts)
    shortage = 0
    for j in range(k):
        shortage += max(lower[j] - counts[j], 0)
    completing = remaining >= 0 and shortage >= remaining
    floor = -np.inf if free_sign else 0.0
    start = 0
    while start < n:
        stop = min(start + chunk_size, n)
        for j in range(k):
            chunk_counts[j] = 0
            blocked = counts[j] >= upper[j] or (completing and counts[j] >= lower[j])
            price[j] = -np.inf if blocked else rho[j] - rho_up[j]
        for i in range(start, stop):
            row = scores[i]
            y = _first_argmax(row, price, sums, bits)
            if not all_finite(row, zero):  # second, when the row is in the cache
                return i
            labels[i] = y
            if counts[y] < lower[y]:
                shortage -= 1
            counts[y] += 1
            chunk_counts[y] += 1
            if counts[y] >= upper[y] or (completing and counts[y] >= lower[y]):
                price[y] = -np.inf
            if remaining >= 0:
                remaining -= 1
                if not completing and shortage >= remaining:
                    completing = True
                    for j in range(k):
                        if counts[j] >= lower[j]:
                            price[j] = -np.inf
        m = stop - start
        for j in range(k):
            rho[j] = max(rho[j] + step_size * (m * lower_share[j] - chunk_counts[j]), floor)
        if not free_sign:
            for j in range(k):
                rise = step_size * (chunk_counts[j] - m * upper_share[j])
                rho_up[j] = max(rho_up[j] + rise, 0.0)
        start = stop
    return -1


def _work_arrays(k: int) -> tuple[FloatArray, FloatArray]:
    # Cut from one buffer, so that their distance is fixed: where both begin at the same offset in
    # a page, the store of a sum delays the load of a price (measured: 1.5x the whole time).
    line = 8  # doubles in a cache line
    width = -(-k // line) * line
    buffer = np.empty(2 * width + line)
    start = -(buffer.ctypes.data // 8) % line
    return buffer[start : start + k], buffer[start + width : start + width + k]


def assign_stream(
    scores: FloatArray,
    rho: FloatArray,
    rho_up: FloatArray,
    counts: IntArray,
    *,
    lower_share: FloatArray,
    upper_share: FloatArray,
    lower: IntArray,
    upper: IntArray,
    step_size: float,
    chunk_size: int,
    remaining: int,
    free_sign: bool,
) -> tuple[IntArray, FloatArray, FloatArray, IntArray, int]:
    """See `dualclust.algos.online.assignment.assign_stream`."""
    native = scores.dtype.newbyteorder("=")
    if scores.dtype != native:
        scores = np.ascontiguousarray(scores, dtype=native)
    labels = np.empty(scores.shape[0], dtype=np.int64)
    price, sums = _work_arrays(scores.shape[1])
    rho, rho_up, counts = rho.copy(), rho_up.copy(), counts.copy()
    bad_row = _assign_stream(
        scores,
        scores.dtype.type(0),
        rho,
        rho_up,
        counts,
        lower_share,
        upper_share,
        lower,
        upper,
        float(step_size),
        int(chunk_size),
        int(remaining),
        bool(free_sign),
        price,
        sums,
        sums.view(np.int64),
        labels,
    )
    return labels, rho, rho_up, counts, int(bad_row)


@njit(**ENTRY)
def _segment_sum(values, segments, sums):
    for i in range(values.shape[0]):
        segment = segments[i]
        for j in range(values.shape[1]):
            sums[segment, j] += values[i, j]


def segment_sum(values: IntArray, segments: IntArray, *, n_segments: int) -> IntArray:
    """See `dualclust.algos.core.segments.segment_sum`."""
    sums = np.zeros((n_segments, values.shape[1]), dtype=np.int64)
    _segment_sum(values, segments, sums)
    return sums


# A float64 below 2^51 plus this lies where floats are the integers: the sum rounds to the nearest,
# halves to even, and its bits count on from these. Both steps vectorize on any processor.
MAGIC = 1.5 * 2.0**52
MAGIC_BITS = int(np.float64(MAGIC).view(np.int64))


@njit(**ENTRY)
def _add_limbs(values, labels, sums, first, scale, depth, rest, rounded, bits):
    n, d = values.shape
    for i in range(n):
        for j in range(d):
            rest[j] = values[i, j] * first
        for limb in range(depth):
            if limb:
                for j in range(d):
                    rest[j] = (rest[j] - (rounded[j] - MAGIC)) * scale
            for j in range(d):
                rounded[j] = rest[j] + MAGIC
            own = sums[labels[i], limb * d :]
            for j in range(d):
                own[j] += bits[j] - MAGIC_BITS


def add_limbs(
    values: FloatArray,
    labels: IntArray,
    sums: IntArray,
    *,
    unit: float,
    bits: int,
    depth: int,
) -> IntArray:
    """See `dualclust.algos.core.exact_sums.add_limbs`; writes into `sums`."""
    wide = np.float32 if values.dtype.char in "ef" else np.float64  # half and single precision
    scale, rounded = 2.0**bits, np.empty(values.shape[1])
    _add_limbs(
        np.ascontiguousarray(values, dtype=wide),
        np.ascontiguousarray(labels),
        sums,
        scale / unit,
        scale,
        depth,
        np.empty_like(rounded),
        rounded,
        rounded.view(np.int64),
    )
    return sums


@njit(**ENTRY)
def _best_clusters(scores, offsets, sums, bits, labels, values):
    for i in range(scores.shape[0]):
        row = scores[i]
        label = _first_argmax(row, offsets, sums, bits)
        labels[i] = label
        values[i] = row[label] + offsets[label]


def best_clusters(scores: FloatArray, offsets: FloatArray) -> tuple[IntArray, FloatArray]:
    """See `dualclust.algos.scores.nearest.best_clusters`."""
    native = scores.dtype.newbyteorder("=")
    scores = np.ascontiguousarray(scores, dtype=native)
    n, k = scores.shape
    labels, values, sums = np.empty(n, np.int64), np.empty(n, native), np.empty(k, native)
    _best_clusters(
        scores,
        np.ascontiguousarray(offsets, dtype=native),
        sums,
        sums.view(f"i{native.itemsize}"),
        labels,
        values,
    )
    return labels, values
