"""The kernels of the lists of free rows, compiled by numba: one scan of each list, one core."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from .numba_compilation import ENTRY

__all__ = ["split_rows"]

FloatArray = NDArray[np.floating[Any]]
Lists = tuple[NDArray[np.int32], FloatArray, NDArray[np.int64], NDArray[np.float64]]


@njit(**ENTRY)
def _split_rows(
    clusters,
    values,
    n_candidates,
    truncation,
    largest,
    eps,
    limit,
    labels,
    fixed_values,
    counts,
    kept_clusters,
    kept_values,
    kept_truncation,
):
    """Return the first row with something wrong, or -1."""
    kept, bad, size = 0, -1, 0.0
    for i in range(len(values)):
        labels[i], best = clusters[i, 0], np.float64(values[i, 0])
        if np.isfinite(best):
            size = max(size, abs(best))
        if n_candidates[i] == 1:
            fixed_values[i] = best
            counts[labels[i]] += 1
        elif n_candidates[i] > 1:
            for j in range(values.shape[1]):
                kept_clusters[kept, j], kept_values[kept, j] = clusters[i, j], values[i, j]
                if np.isfinite(values[i, j]):
                    size = max(size, np.float64(abs(values[i, j])))
            most = truncation[i]
            if largest > 0.0 and np.isfinite(most):  # the rounding of a price and of its sum
                most += eps * (abs(most) + largest)
            kept_truncation[kept] = most
            kept += 1
        elif bad < 0:
            bad = i
    if bad < 0 and size > limit:
        return 0
    return bad


def split_rows(
    clusters: NDArray[np.int32],
    values: FloatArray,
    n_candidates: NDArray[np.int64],
    truncation: NDArray[np.float64],
    *,
    n_clusters: int,
    largest: float,
    limit: float,
) -> tuple[
    NDArray[np.int32],
    NDArray[np.bool_],
    NDArray[np.int32],
    FloatArray,
    NDArray[np.float64],
    NDArray[np.int64],
    NDArray[np.float64],
    int,
]:
    """See `dualclust.algos.offline._free_rows.split_rows`."""
    native, (n, w) = values.dtype.newbyteorder("="), values.shape
    is_free = n_candidates > 1
    m = np.count_nonzero(is_free)
    labels, fixed_values = np.empty(n, dtype=np.int32), np.zeros(n)
    counts = np.zeros((1, n_clusters), dtype=np.int64)
    kept = np.empty((m, w), dtype=np.int32), np.empty((m, w), dtype=native), np.empty(m)
    bad = _split_rows(
        np.require(clusters, np.int32, ("C", "W")),
        np.require(values, native, ("C", "W")),
        np.require(n_candidates, np.int64, ("C", "W")),
        np.require(truncation, np.float64, ("C", "W")),
        largest,
        float(np.finfo(native).eps),
        limit,
        labels,
        fixed_values,
        counts[0],
        *kept,
    )
    # Added up by NumPy, so that the sums are those of the reference text to the last bit.
    sums = np.asarray([[fixed_values.sum(), np.abs(fixed_values).sum()]])
    return labels, is_free, *kept, counts, sums, bad
