"""Sums of integer rows by segment, and counts: the kernel of those of clusters.

Sums of integers do not depend on the order of the additions: any batch split, any number of ranks
and any device give the same sums, and so the same centers.
"""

from __future__ import annotations

import array_api_compat as compat

from ...backends import kernel
from .types import Array

__all__ = ["segment_counts", "segment_sum"]


@kernel
def segment_sum(values: Array, segments: Array, *, n_segments: int) -> Array:
    """Sum the rows of each segment: ``out[k] = sum of values[i] over segments[i] == k``.

    Sorts the rows by segment and subtracts running sums. In int64 this is exact even if a running
    sum wraps around, as long as each segment's own sum fits.

    Parameters
    ----------
    values : (n, d) int64 array
    segments : (n,) int64 array
        In [0, n_segments); assumed checked.
    n_segments : int

    Returns
    -------
    (n_segments, d) int64 array
        0 for a segment without rows.

    Examples
    --------
    >>> import numpy as np
    >>> segment_sum(np.asarray([[1], [2], [3]]), np.asarray([1, 0, 1]), n_segments=3)
    array([[2],
           [4],
           [0]])
    """
    xp = compat.array_namespace(values)
    device = compat.device(values)
    order = xp.argsort(segments, stable=True)
    running = xp.cumulative_sum(xp.take(values, order, axis=0), axis=0, include_initial=True)
    wanted = xp.arange(n_segments + 1, dtype=xp.int64, device=device)
    ends = xp.searchsorted(xp.take(segments, order), wanted)
    at_ends = xp.take(running, ends, axis=0)
    return at_ends[1:, :] - at_ends[:-1, :]


def segment_counts(segments: Array, *, n_segments: int) -> Array:
    """Return how many of the (n,) segments are each of them, (n_segments,) int64.

    Examples
    --------
    >>> import numpy as np
    >>> segment_counts(np.asarray([1, 0, 1]), n_segments=3)
    array([1, 2, 0])
    """
    xp = compat.array_namespace(segments)
    ones = xp.ones_like(segments, dtype=xp.int64)
    return segment_sum(ones[:, None], segments, n_segments=n_segments)[:, 0]
