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

from .numba_compilation import ENTRY, INNER, read_only

__all__ = ["add_limbs", "all_finite", "assign_stream", "best_clusters", "largest", "segment_sum"]

FloatArray = NDArray[np.floating[Any]]
IntArray = NDArray[np.int64]

# A running maximum is a chain of dependent operations. 64 independent ones, element l of each
# group of 64 against lane l, vectorize: measured 3x faster than one chain at k = 1,000.
LANES = 64


# A maximum of floats is taken one after the other; one of integers by vectors. The bits of floats
# without NaN are in the order of integers once those of negative ones, but for the sign, are turned
# round. Of zeros +0.0 is the larger there; they are equal to whoever compares the floats.
@njit(**INNER)
def largest(values, bits):
    """Return the largest of some values, whose `bits` are left as they were."""
    sign, rest = 8 * bits.itemsize - 1, np.iinfo(bits.dtype).max
    best, kept = bits[0] ^ ((bits[0] >> sign) & rest), bits[0]
    for j in range(len(bits)):
        best = max(best, bits[j] ^ ((bits[j] >> sign) & rest))
    bits[0] = best ^ ((best >> sign) & rest)
    value = values[0]
    bits[0] = kept
    return value


# "nnan" and "nsz" let the compiler vectorize the maximum. They are safe: rows that hold a NaN or an
# infinity are found by `all_finite`, and their label is never used.
@njit(**INNER, fastmath={"nnan", "nsz"})
def _fill_lanes(row, lanes, price):
    """Take the largest sum of each lane; the last group may be shorter than the others."""
    k = len(row)
    full = k // LANES * LANES
    lanes[:] = -np.inf
    for start in range(0, full, LANES):
        values, prices = row[start : start + LANES], price[start : start + LANES]
        for lane in range(LANES):
            lanes[lane] = max(lanes[lane], values[lane] + prices[lane])
    values, prices = row[full:], price[full:]
    for lane in range(k - full):
        lanes[lane] = max(lanes[lane], values[lane] + prices[lane])


@njit(**INNER)
def _first_of_few(row, price):
    """Compare one after the other, which is quickest for fewer clusters than lanes."""
    best, first = -np.inf, 0
    for j in range(len(row)):
        value = row[j] + price[j]
        if value > best:
            best, first = value, j
    return first


@njit(**INNER)
def _first_argmax(row, lanes, bits, price):
    """Return the first cluster of the largest sum, and some cluster where a NaN hides it."""
    k = len(row)
    if k < LANES:
        return _first_of_few(row, price)
    _fill_lanes(row, lanes, price)
    best = largest(lanes, bits)
    first = k - 1
    for lane in range(LANES):
        if lanes[lane] == best:
            for j in range(lane, k, LANES):
                if row[j] + price[j] == best:
                    first = min(first, j)
                    break
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
    lanes,
    bits,
    price,
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
            y = _first_argmax(row, lanes, bits, price)
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
    # a page, the store of a lane delays the load of a price (measured: 1.5x the whole time).
    line = 8  # doubles in a cache line
    buffer = np.empty(k + LANES + line)
    start = -(buffer.ctypes.data // 8) % line
    return buffer[start : start + LANES], buffer[start + LANES : start + LANES + k]


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
    lanes, price = _work_arrays(scores.shape[1])
    rho, rho_up, counts = rho.copy(), rho_up.copy(), counts.copy()
    bad_row = _assign_stream(
        read_only(scores),
        scores.dtype.type(0),
        rho,
        rho_up,
        counts,
        read_only(lower_share),
        read_only(upper_share),
        read_only(lower),
        read_only(upper),
        float(step_size),
        int(chunk_size),
        int(remaining),
        bool(free_sign),
        lanes,
        lanes.view(np.int64),
        price,
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
    values, segments = np.ascontiguousarray(values), np.ascontiguousarray(segments)
    _segment_sum(read_only(values), read_only(segments), sums)
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
        read_only(np.ascontiguousarray(values, dtype=wide)),
        read_only(np.ascontiguousarray(labels)),
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
def _best_clusters(scores, offsets, lanes, bits, labels, values):
    for i in range(scores.shape[0]):
        row = scores[i]
        label = _first_argmax(row, lanes, bits, offsets)
        labels[i] = label
        values[i] = row[label] + offsets[label]


def best_clusters(scores: FloatArray, offsets: FloatArray) -> tuple[IntArray, FloatArray]:
    """See `dualclust.algos.scores.nearest.best_clusters`."""
    native = scores.dtype.newbyteorder("=")
    wide = np.result_type(native, offsets.dtype)
    scores = np.ascontiguousarray(scores, dtype=native)
    n = scores.shape[0]
    labels, values = np.empty(n, dtype=np.int64), np.empty(n, dtype=wide)
    lanes = np.empty(LANES, dtype=wide)
    _best_clusters(
        read_only(scores),
        read_only(np.ascontiguousarray(offsets, dtype=wide)),
        lanes,
        lanes.view(f"i{wide.itemsize}"),
        labels,
        values,
    )
    return labels, values
