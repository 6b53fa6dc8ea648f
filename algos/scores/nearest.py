r"""The best cluster of each row of a block of scores, also at prices: the kernel of every look.

Problem: ``argmax_k s_ik + o_k`` and its value. Offsets ``o_k = -||c_k||^2 / 2`` turn products with
centers into distances; prices as offsets give the cluster that a row takes at these prices. In two
steps the sum is written to memory and read again, which takes as long as a product with few
columns. Scores come a block of rows at a time (`blocks`), so that no pass holds n x k of them.
"""

from __future__ import annotations

import array_api_compat as compat

from ...backends import kernel
from ..core.types import Array

__all__ = ["best_clusters"]


@kernel
def best_clusters(scores: Array, offsets: Array) -> tuple[Array, Array]:
    """Return the cluster of the largest ``scores + offsets`` of each row, and that largest value.

    Parameters
    ----------
    scores : (n, k) array
        Without NaN; k >= 1.
    offsets : (k,) array
        Halves of squared lengths, or prices; minus infinity leaves a cluster out. Of the dtype of
        the scores, or float64: then sums of float32 scores are float64 as well, without a copy of
        the scores.

    Returns
    -------
    labels : (n,) int64 array
        Ties go to the lowest cluster.
    values : (n,) array
        Of the wider dtype of the two.

    Examples
    --------
    >>> import numpy as np
    >>> best_clusters(np.asarray([[1.0, 0.5], [0.0, 2.0]]), np.asarray([0.0, 0.5]))
    (array([0, 1]), array([1. , 2.5]))
    """
    xp = compat.array_namespace(scores)
    scores = scores + offsets
    labels = xp.astype(xp.argmax(scores, axis=1), xp.int64)
    return labels, xp.take_along_axis(scores, labels[:, None], axis=1)[:, 0]
