r"""Agreement of two partitions, corrected for chance, from their table of counts.

Problem: two clusterings of the same samples number their clusters differently. The adjusted Rand
index (Hubert and Arabie, 1985) counts pairs of samples that are together in both:

``ARI = (S - E) / ((A + B) / 2 - E)``,   ``E = A B / C(n, 2)``

It is 1 for equal partitions, and 0 on average for partitions that know nothing of each other, for
any number of clusters: the share of equal pairs would fall or rise with k by itself.

=====================  =============  =======  ===================================================
symbol                 here           shape    meaning
=====================  =============  =======  ===================================================
:math:`n_{ab}`         ``table``      (k, k)   samples in cluster a of the one and b of the other
S                      ``together``   ()       ``sum_ab C(n_ab, 2)``
A, B                   ``pairs``      ()       the same for the sums of rows and of columns
=====================  =============  =======  ===================================================
"""

from __future__ import annotations

import array_api_compat as compat

from ..core.checks import check_count, check_integral, check_labels, check_same_place, check_shape
from ..core.errors import InvalidValueError
from ..core.reads import read
from ..core.segments import segment_counts
from ..core.types import Array

__all__ = ["adjusted_rand_index"]


def adjusted_rand_index(labels: Array, other: Array, n_clusters: int) -> float:
    """Compare two partitions of the same samples into at most `n_clusters` clusters each.

    Parameters
    ----------
    labels, other : (n,) int64 arrays
        Entries 0 to k - 1; n >= 1. Which number a cluster has does not matter.
    n_clusters : int
        k >= 1.

    Returns
    -------
    float
        At most 1; 1 for equal partitions. Of one sample, or where both put all samples into one
        cluster or each into its own, 1.

    Raises
    ------
    InvalidValueError, InvalidTypeError, DeviceMismatchError
        For no sample, labels out of range, and shapes, dtypes or places that do not fit.

    Notes
    -----
    Counts are whole numbers, so equal labels give equal bits on every library. Cost O(n + k^2).

    Examples
    --------
    >>> import numpy as np
    >>> adjusted_rand_index(np.asarray([0, 0, 1, 1]), np.asarray([1, 1, 0, 0]), 2)
    1.0
    >>> adjusted_rand_index(np.asarray([0, 0, 1, 1]), np.asarray([0, 1, 0, 1]), 2)
    -0.5
    """
    k = check_count("n_clusters", n_clusters, 1)
    check_integral("labels", labels)
    (n,) = check_shape("labels", labels, ("n",))
    check_same_place(labels=labels, other=other)
    if n == 0:
        msg = "labels must hold at least one sample, got none. To fix this, pass at least one"
        raise InvalidValueError(msg)
    check_labels("labels", labels, n, k)
    check_labels("other", other, n, k)
    xp = compat.array_namespace(labels)
    table = xp.reshape(segment_counts(labels * k + other, n_segments=k * k), (k, k))
    sums = [table, xp.sum(table, axis=1), xp.sum(table, axis=0)]
    found = read(*(xp.sum(m * (m - 1)) // 2 for m in sums))
    together, first, second = (int(value) for value in found)
    if first == second == together:  # equal partitions, also those without a pair
        return 1.0
    total, expected = n * (n - 1) // 2, first * second
    return 2 * (together * total - expected) / ((first + second) * total - 2 * expected)
