r"""The largest scores of each row of a block, in order: the neighbors of a row, if scores say so.

Problem: the m columns of the largest ``s_ik``. Scores come a block of rows at a time (`blocks`);
a row is read once, and most of its scores are below the last one that is kept.
"""

from __future__ import annotations

import array_api_compat as compat

from ...backends import kernel
from ..core.types import Array

__all__ = ["largest_scores"]


@kernel
def largest_scores(scores: Array, n_kept: int) -> tuple[Array, Array]:
    """Return the largest scores of each row, and their columns, from the largest on.

    Parameters
    ----------
    scores : (n, k) array
        Without NaN.
    n_kept : int
        How many of each row; 1 to k.

    Returns
    -------
    values : (n, n_kept) array
        Falling along a row.
    columns : (n, n_kept) int64 array
        Different along a row. Of equal scores an engine may take any; this text takes the first.

    Notes
    -----
    Cost: O(n k), and of the compiled engine O(n_kept) for each score that enters the list.

    Examples
    --------
    >>> import numpy as np
    >>> values, columns = largest_scores(np.asarray([[1.0, 3.0, 2.0], [5.0, 4.0, 6.0]]), 2)
    >>> values.tolist(), columns.tolist()
    ([[3.0, 2.0], [6.0, 5.0]], [[1, 2], [2, 0]])
    """
    xp = compat.array_namespace(scores)
    columns = xp.argsort(scores, axis=1, descending=True, stable=True)[:, :n_kept]
    columns = xp.astype(columns, xp.int64)
    return xp.take_along_axis(scores, columns, axis=1), columns
