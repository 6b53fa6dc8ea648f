r"""Hard labels of one batch, every count inside its bounds, by a fixed number of operations.

Problem: maximize ``sum_i s_{i, y_i}`` subject to ``L_j <= #{i : y_i = j} <= U_j``, whole numbers.
Its optimum is `offline.assign_exact`, which decides by values that it reads. Here no value is read:
the labels are always inside the bounds, and near the optimum.

1. *Prices* of the soft problem with these bounds (`_scaling`).
2. *Acceptance* (`_accepted`): each row asks for the cluster of its largest soft label, and each
   cluster accepts as many as it has seats, the largest soft labels first. The seats are the counts
   of what rows ask for, moved into the bounds and shared out so that they add up to n (`seats_of`).
3. *Rounds* of acceptance: rows without a seat ask again, among clusters that have one free.
4. *Rest*: rows that are left, in the order of what they would ask for, take the seats that are
   left, in the order of clusters.

Several ranks share out the seats of a cluster in proportion to the rows that ask for them; a round
gathers k whole numbers of each rank. So the labels depend on how rows lie on ranks; that they are
inside the bounds does not.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import array_api_compat as compat

from ..core.checks import check_count, check_real, check_shape
from ..core.types import Array, Namespace
from ._scaling import Options, Ranks, Scaled, scaled
from ._tables import shift_table

__all__ = ["HardBatch", "balance_hard", "whole_bounds"]

NEAR = 1e-9  # so near to a whole number, a bound is that number


class HardBatch(NamedTuple):
    """Labels of a batch, and the prices that led to them.

    Attributes
    ----------
    labels : (n,) int64 array
    prices : (k,) float64 array
        In units of score.
    """

    labels: Array
    prices: Array


def whole_bounds(
    lower_share: Array, upper_share: Array, total: Array | float
) -> tuple[Array, Array]:
    """Return the bounds of `total` rows, rounded outward to whole numbers, (k,) float64 each.

    Examples
    --------
    >>> import numpy as np
    >>> whole_bounds(np.asarray([0.09, 0.1]), np.asarray([0.11, 1.0]), 128)
    (array([11., 12.]), array([ 15., 128.]))
    """
    xp = compat.array_namespace(lower_share)
    return xp.floor(total * lower_share + NEAR), xp.ceil(total * upper_share - NEAR)


def balance_hard(
    scores: Array,
    lower_share: Array,
    upper_share: Array,
    *,
    epsilon: float = 0.05,
    prices: Array | None = None,
    counted: Array | None = None,
    n_iter: int = 3,
    n_rounds: int = 2,
    ranks: Ranks | None = None,
) -> HardBatch:
    """Label a batch inside whole bounds, without reading a value.

    Parameters
    ----------
    scores, lower_share, upper_share, prices, n_iter, ranks
        As in `balance_soft`; bounds are rounded outward (`whole_bounds`).
    epsilon : float in [1e-30, 1e30]
        Temperature of the prices, in units of score. A lower one comes nearer to the optimum with
        enough steps, and farther from it with few.
    counted : (n,) boolean array, optional
        Whether a row counts: False for padding.
    n_rounds : int >= 1
        Rounds of acceptance. After each, fewer rows are left.

    Returns
    -------
    HardBatch
        A row that does not count has any label: that of its largest priced score, or, where that
        score is not finite, of the largest price.

    Notes
    -----
    Guarantee: the labels of rows that count are inside the bounds, whatever the scores are. Bounds
    come before forbidden pairs: where the rounds do not end, a row may get a pair of minus
    infinity.
    Cost: that of `balance_soft`, and for each round three passes over the scores and two sorts of
    n numbers.

    Examples
    --------
    >>> import numpy as np
    >>> scores = np.asarray([[0.9, 0.1], [0.8, 0.1], [0.7, 0.5], [0.1, 0.0]])
    >>> half = np.asarray([0.5, 0.5])
    >>> balance_hard(scores, half, half).labels
    array([0, 0, 1, 1])
    """
    xp, (n, k) = check_real("scores", scores), check_shape("scores", scores, ("n", "k"))
    check_shape("lower_share", lower_share, (k,))
    check_shape("upper_share", upper_share, (k,))
    check_count("n_rounds", n_rounds, 1)
    if counted is not None:
        check_shape("counted", counted, (n,))
        counted = xp.astype(counted, xp.bool)

    def whole(total: Array) -> tuple[Array, Array]:
        return whole_bounds(lower_share, upper_share, total)

    def bounds(total: Array) -> tuple[Array, Array]:
        most = xp.clip(total, min=1.0)
        lower, upper = (bound / most for bound in whole(total))
        return lower, upper

    found = scaled(
        scores, bounds, Options(epsilon, n_iter), prices=prices, weights=counted, ranks=ranks
    )
    labels = _labels(xp, found, whole(found.total), n_rounds, ranks)
    return HardBatch(labels, found.prices)


def seats_of(asks: Array, lower: Array, upper: Array) -> Array:
    """Return sizes inside whole bounds that add up as `asks` do: counts, moved into the bounds.

    What is then too much or too little is shared out in proportion to the room that is left.

    Parameters
    ----------
    asks, lower, upper : (k,) int64 arrays
        ``sum lower <= sum asks <= sum upper``.

    Returns
    -------
    (k,) int64 array

    Examples
    --------
    >>> import numpy as np
    >>> seats_of(np.asarray([7, 2, 1]), np.asarray([1, 1, 1]), np.asarray([4, 6, 6]))
    array([4, 3, 3])
    """
    xp = compat.array_namespace(asks)
    inside = xp.clip(asks, lower, upper)
    missing = xp.sum(asks) - xp.sum(inside)
    room = xp.where(missing > 0, upper - inside, inside - lower)
    ends = xp.cumulative_sum(room, include_initial=True)
    ends = ends * missing // xp.clip(ends[-1:], min=1)
    return inside + ends[1:] - ends[:-1]


def _labels(
    xp: Namespace,
    found: Scaled,
    whole: tuple[Array, Array],
    n_rounds: int,
    ranks: Ranks | None,
) -> Array:
    """Steps 2 to 4, from the prices of step 1."""
    logs, k = found.rows.logs, found.factors.shape[0]
    logs = shift_table(logs, xp.log(found.factors), xp.log(found.sums)[:, None])
    waiting, labels = found.rows.share > 0, xp.argmax(logs, axis=1)
    asked = xp.where(waiting, labels, k)
    free: Array = None  # until all have asked
    for _ in range(n_rounds):
        if free is not None:
            logs = _closed(xp, logs, free)
            asked = xp.where(waiting, xp.argmax(logs, axis=1), k)
        places, sizes = _queued(xp, asked, xp.max(logs, axis=1), k)
        by_rank = None if ranks is None else ranks.gather(sizes)
        asks = sizes if by_rank is None else xp.sum(by_rank, axis=0)
        if free is None:
            lower, upper = (xp.astype(bound, xp.int64) for bound in whole)
            free = xp.concat([seats_of(asks[:k], lower, upper), xp.zeros_like(asks[:1])])
        given = xp.minimum(free, asks)
        own = given if ranks is None else _own_part(xp, given, by_rank, ranks.rank)
        granted = places < own[asked]
        labels, free = xp.where(granted, asked, labels), free - given
        waiting = waiting & ~granted
    logs = _closed(xp, logs, free)
    asked = xp.where(waiting, xp.argmax(logs, axis=1), k)
    return xp.where(waiting, _rest(xp, asked, free[:k], ranks), labels)


def _closed(xp: Namespace, logs: Array, free: Array) -> Array:
    """Close clusters without a free seat, for good."""
    closed = xp.where(free[:-1] > 0, 0.0, xp.asarray(-math.inf, dtype=logs.dtype))
    return shift_table(logs, closed, None)


def _queued(xp: Namespace, asked: Array, best: Array, k: int) -> tuple[Array, Array]:
    """Queue rows up at the clusters they ask, those with the largest soft label first.

    Returns the place of each row in its queue and the length of each of the ``k + 1`` queues, of
    which the last is of rows that ask none. `best` are logarithms of soft labels.
    """
    order = xp.argsort(xp.astype(asked, xp.float64) - 0.5 / (1.0 - best))
    clusters = xp.arange(k + 2, dtype=xp.int64, device=compat.device(asked))
    starts = xp.searchsorted(asked[order], clusters)
    return xp.argsort(order) - starts[asked], starts[1:] - starts[:-1]


def _own_part(xp: Namespace, given: Array, by_rank: Array, rank: int) -> Array:
    """How many of the seats that each cluster gives go to a rank, in proportion to its rows."""
    ends = xp.cumulative_sum(by_rank, axis=0, include_initial=True)
    shares = ends * given // xp.clip(ends[-1, :], min=1)
    return shares[rank + 1, :] - shares[rank, :]


def _rest(xp: Namespace, asked: Array, free: Array, ranks: Ranks | None) -> Array:
    """Number the rows that ask over all ranks, and the seats that are left, alike."""
    k = free.shape[0]
    numbers = xp.argsort(xp.argsort(asked))
    if ranks is not None:
        own = xp.sum(xp.astype(asked < k, xp.int64))
        before = xp.cumulative_sum(ranks.gather(own), include_initial=True)
        numbers = numbers + before[ranks.rank]
    ends = xp.cumulative_sum(free)
    return xp.clip(xp.searchsorted(ends, numbers, side="right"), max=k - 1)
