r"""What each row would choose with and without prices, and the first few rows of each cluster.

Problem: a label :math:`y_i` of a row says neither how sure it is nor whose doing it is. Two numbers
do, of the scores :math:`s_{ij}` and prices :math:`\pi_j`:

1. the *margin* :math:`s_{i y_i} + \pi_{y_i} - \max_{j \ne y_i} (s_{ij} + \pi_j)`: how far the
   second choice is behind. Rows of small margin are doubtful.
2. the *loss* :math:`\max_j s_{ij} - s_{i y_i}`: what the bounds cost this row. A row of loss 0 has
   its own first choice; all others were moved.

The losses of all rows add up to the price of balance: the value without bounds minus the value
found, for the same centers.

=========================  ==============  =========================================
symbol                     here            shape
=========================  ==============  =========================================
:math:`s`                  ``scores``      (n, k), minus infinity for forbidden pairs
:math:`y`                  ``labels``      (n,) int64
:math:`\pi`                ``prices``      (k,) float64
=========================  ==============  =========================================
"""

from __future__ import annotations

import math
from typing import NamedTuple

import array_api_compat as compat

from ..bounds.sizes import SizeBounds, check_bounds
from ..core.checks import check_count, check_real, check_same_place, check_shape
from ..core.reads import read
from ..core.types import Array
from ..scores.sources import ScoreSource
from ._restrictions import restrictions_of

__all__ = ["RowChoices", "first_of_each", "restricted_scores", "row_choices"]


class RowChoices(NamedTuple):
    """The choices of rows.

    Attributes
    ----------
    margin : (n,) float64 array
        In units of score; infinite where no other cluster is allowed, below 0 where the label is
        not the best priced choice.
    runner_up : (n,) int64 array
        The best other cluster by score plus price; -1 where none is allowed.
    free : (n,) int64 array
        The cluster of the largest score; the label itself where that is as large.
    loss : (n,) float64 array
        At least 0, and 0 exactly where `free` is the label.
    """

    margin: Array
    runner_up: Array
    free: Array
    loss: Array


def row_choices(
    scores: Array, labels: Array, prices: Array, *, ties: Array | float = 0.0
) -> RowChoices:
    """Return the second choice and the choice without prices of each row.

    Parameters
    ----------
    scores : (n, k) real array
        Finite, or minus infinity for a forbidden pair; finite at the labels.
    labels : (n,) int64 array
    prices : (k,) float64 array
    ties : float or (n,) float64 array
        Losses up to this are rounding, and none: the row has its own choice.

    Returns
    -------
    RowChoices
        Of equal choices the cluster of lowest number is named.

    Raises
    ------
    InvalidTypeError, InvalidValueError
        For arrays of other dtypes or shapes, or on several devices.

    Notes
    -----
    Cost O(n k) time and three (n, k) float64 arrays: call it a block at a time.

    Examples
    --------
    The second row would rather have cluster 0, and gave up 0.25 for the bounds.

    >>> import numpy as np
    >>> scores = np.asarray([[0.75, 0.5], [0.5, 0.25]])
    >>> row_choices(scores, np.asarray([0, 1]), np.asarray([0.0, 0.25]))
    RowChoices(margin=array([0., 0.]), runner_up=array([1, 0]), free=array([0, 0]), \
loss=array([0.  , 0.25]))
    """
    xp = check_real("scores", scores)
    n, k = check_shape("scores", scores, ("n", "k"))
    check_shape("labels", labels, (n,))
    check_shape("prices", prices, (k,))
    check_same_place(scores=scores, labels=labels, prices=prices)
    check_real("prices", prices)
    clusters = xp.arange(k, dtype=xp.int64, device=compat.device(scores))
    scores = xp.astype(scores, xp.float64)
    priced = scores + prices
    own = clusters == labels[:, None]
    lowest = xp.full_like(priced, -math.inf)
    others = xp.where(own, lowest, priced)
    second = xp.max(others, axis=1)
    margin = xp.max(xp.where(own, priced, lowest), axis=1) - second
    runner_up = xp.astype(xp.argmax(others, axis=1), xp.int64)
    runner_up = xp.where(second == -math.inf, xp.full_like(runner_up, -1), runner_up)
    loss = xp.max(scores, axis=1) - xp.max(xp.where(own, scores, lowest), axis=1)
    loss = xp.where(loss > ties, loss, xp.zeros_like(loss))
    free = xp.where(loss > 0.0, xp.astype(xp.argmax(scores, axis=1), xp.int64), labels)
    return RowChoices(margin, runner_up, free, loss)


def restricted_scores(
    source: ScoreSource,
    bounds: SizeBounds,
    *,
    fixed: Array | None = None,
    forbidden: Array | None = None,
) -> ScoreSource:
    """Return scores that are minus infinity where `constrained_kmeans` must not put a row.

    Parameters
    ----------
    source : ScoreSource
    bounds : SizeBounds
    fixed : (n,) int64 array, optional
    forbidden : (m, 2) int64 array, optional
        As in `constrained_kmeans`, which raises the same errors.

    Examples
    --------
    >>> import numpy as np
    >>> from dualclust.algos.scores.sources import score_source
    >>> bounds = SizeBounds.from_counts([0, 0], None, n_samples=2)
    >>> known = np.asarray([1, -1])
    >>> restricted_scores(score_source(np.eye(2)), bounds, fixed=known).block(0, 2)
    array([[-inf,   0.],
           [  0.,   1.]])
    """
    check_bounds(bounds)
    restrictions = restrictions_of(fixed, forbidden, bounds)
    return source if restrictions is None else restrictions.of_scores(source)


def first_of_each(groups: Array, keys: Array, most: int) -> Array:
    """Return the places of the smallest keys of each group.

    Parameters
    ----------
    groups : (n,) int64 array
    keys : (n,) float64 array
        No NaN.
    most : int
        At least 1; a smaller group is returned whole.

    Returns
    -------
    (m,) int64 array
        Ascending by group, then by key, then by place.

    Notes
    -----
    Cost O(n log n). The result of parts can be merged: the first of each of the joined results of
    several parts, in order, are the first of each of all.

    Examples
    --------
    >>> import numpy as np
    >>> first_of_each(np.asarray([1, 0, 1, 1]), np.asarray([3.0, 9.0, 2.0, 2.0]), 2)
    array([1, 2, 3])
    """
    xp = check_real("keys", keys)
    (n,) = check_shape("keys", keys, ("n",))
    check_shape("groups", groups, (n,))
    check_same_place(groups=groups, keys=keys)
    check_count("most", most, 1)
    order = xp.argsort(keys, stable=True)
    order = xp.take(order, xp.argsort(xp.take(groups, order), stable=True))
    ordered = xp.take(groups, order)
    place = xp.arange(n, dtype=xp.int64, device=compat.device(keys))
    rank = place - xp.astype(xp.searchsorted(ordered, ordered), xp.int64)
    # The kept ones first: a stable sort, because not every library can select by a mask.
    late = rank >= most
    (n_kept,) = read(xp.sum(xp.astype(~late, xp.int64)))
    kept = xp.argsort(xp.astype(late, xp.int64), stable=True)[: int(n_kept)]
    return xp.astype(xp.take(order, kept), xp.int64)
