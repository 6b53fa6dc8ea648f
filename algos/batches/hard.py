r"""Hard labels of one batch, every count inside its bounds, by a fixed number of operations.

Problem: maximize ``sum_i s_{i, y_i}`` subject to ``L_j <= #{i : y_i = j} <= U_j``, whole numbers.
Its optimum is `offline.assign_exact`, which decides by values that it reads. Here no value is read:
the labels are always inside the bounds, and near the optimum.

1. *Prices* of the soft problem with these bounds (`_scaling`).
2. *Seats*: the soft sizes, moved into the bounds where they are outside, are rounded to whole ones
   that add up to n. Running sums are rounded, so that each size becomes one of its two neighbors,
   and so keeps its whole bounds (`seats_of`).
3. *Rounds* of acceptance (`_accepted`): each row without a seat asks for the cluster of its highest
   priced score among those with free seats, and each cluster accepts as many as it has seats, the
   highest soft labels first.
4. *Rest*: rows that are left take the seats that are left, in their order.

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

__all__ = ["HardBatch", "balance_hard", "whole_bounds"]

UNITS = 2**20  # parts of a row in which soft sizes are added up
FARTHEST_BELOW = 1e9  # temperatures; more count as this many
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
    n_rounds: int = 4,
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
    n_rounds : int >= 0
        Rounds of acceptance. After each, fewer rows are left, which take any seat in the end.

    Returns
    -------
    HardBatch
        The label of a row that does not count is that of its largest priced score.

    Notes
    -----
    Guarantee: the labels of rows that count are inside the bounds, whatever the scores are. Bounds
    come before forbidden pairs: where the rounds do not end, a row may get a pair of minus
    infinity.
    Cost: that of `balance_soft`, and for each round three passes over the scores and one sort.

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
    check_count("n_rounds", n_rounds, 0)
    if counted is not None:
        check_shape("counted", counted, (n,))
        counted = xp.astype(counted, xp.bool)

    def bounds(total: Array) -> tuple[Array, Array]:
        whole, most = whole_bounds(lower_share, upper_share, total), xp.clip(total, min=1.0)
        return whole[0] / most, xp.minimum(whole[1] / most, xp.ones_like(upper_share))

    found = scaled(
        scores, bounds, Options(epsilon, n_iter), prices=prices, weights=counted, ranks=ranks
    )
    labels = _labels(xp, scores, found, bounds(found.total), epsilon, n_rounds, ranks)
    return HardBatch(labels, found.prices)


def seats_of(sizes: Array, lower: Array, upper: Array, total: Array) -> Array:
    """Return whole sizes inside whole bounds that add up to `total`, near soft ones.

    Parameters
    ----------
    sizes, lower, upper : (k,) float64 arrays
        In units of `total`; bounds are whole numbers of rows, with the total between their sums.
    total : () float64 array

    Returns
    -------
    (k,) int64 array

    Examples
    --------
    >>> import numpy as np
    >>> lower, upper = np.asarray([0.1, 0.1, 0.1]), np.asarray([0.4, 0.6, 0.6])
    >>> seats_of(np.asarray([0.7, 0.16, 0.14]), lower, upper, np.asarray(10.0))
    array([4, 3, 3])
    """
    xp = compat.array_namespace(sizes)
    inside = xp.maximum(lower, xp.minimum(upper, sizes))
    missing = 1.0 - xp.sum(inside)
    room = xp.where(missing > 0, upper - inside, inside - lower)
    inside = inside + missing * room / xp.clip(xp.sum(room), min=NEAR)
    inside = xp.maximum(lower, xp.minimum(upper, inside))
    ends = xp.cumulative_sum(xp.astype(xp.round(inside * (total * UNITS)), xp.int64))
    ends = (ends + UNITS // 2) // UNITS
    return xp.concat([ends[:1], ends[1:] - ends[:-1]])


def _labels(
    xp: Namespace,
    scores: Array,
    found: Scaled,
    bounds: tuple[Array, Array],
    epsilon: float,
    n_rounds: int,
    ranks: Ranks | None,
) -> Array:
    """Steps 2 to 4, from the prices of step 1."""
    rows, k = found.rows, scores.shape[1]
    sizes = found.factors * xp.matmul(rows.columns, rows.share / found.sums)
    sizes = sizes if ranks is None else ranks.total(sizes)
    seats = seats_of(xp.astype(sizes, xp.float64), *bounds, found.total)
    free = xp.concat([seats, xp.zeros_like(seats[:1])])
    priced = xp.astype(scores, rows.entries.dtype) + xp.astype(found.prices, rows.entries.dtype)
    values = rows.largest[:, 0] + epsilon * xp.log(found.sums)
    places = xp.arange(scores.shape[0], dtype=xp.int64, device=compat.device(scores))
    waiting, labels = rows.share > 0, xp.argmax(priced, axis=1)
    for _ in range(n_rounds):
        open_ones = xp.where(free[:k] > 0, priced, -math.inf)
        asked = xp.argmax(open_ones, axis=1)
        best = open_ones[places, asked]
        asks = waiting & (best > -math.inf)
        asked = xp.where(asks, asked, k)
        below = xp.where(asks, values - best, 0.0)
        granted, free = _accepted(xp, asked, below / epsilon, places, free, ranks)
        labels = xp.where(granted, asked, labels)
        waiting = waiting & ~granted
    return xp.where(waiting, _rest(xp, waiting, free, ranks), labels)


def _accepted(
    xp: Namespace,
    asked: Array,
    below: Array,
    places: Array,
    free: Array,
    ranks: Ranks | None,
) -> tuple[Array, Array]:
    """Let each cluster accept the rows that are best for it; also return the seats that are left.

    Cluster k is none, and has no seats. `below` is how many temperatures a row's priced score is
    below its value: 0 for a soft label of 1.
    """
    below = xp.clip(xp.astype(below, xp.float64), 0.0, FARTHEST_BELOW)
    order = xp.argsort(xp.astype(asked, xp.float64) + below / (1.0 + below))
    sorted_asked = asked[order]
    clusters = xp.arange(free.shape[0] + 1, dtype=xp.int64, device=compat.device(asked))
    starts = xp.searchsorted(sorted_asked, clusters)
    sizes = starts[1:] - starts[:-1]
    own, given = (xp.minimum(free, sizes),) * 2
    if ranks is not None:
        ends = xp.cumulative_sum(ranks.gather(sizes), axis=0, include_initial=True)
        given = xp.minimum(free, ends[-1, :])
        shares = ends * given // xp.clip(ends[-1, :], min=1)
        own = shares[ranks.rank + 1, :] - shares[ranks.rank, :]
    granted = places - starts[sorted_asked] < own[sorted_asked]
    return granted[xp.argsort(order)], free - given


def _rest(xp: Namespace, waiting: Array, free: Array, ranks: Ranks | None) -> Array:
    """Number the rows that wait over all ranks, and the seats that are left, alike."""
    numbers = xp.cumulative_sum(xp.astype(waiting, xp.int64))
    if ranks is not None:
        own = xp.sum(xp.astype(waiting, xp.int64))
        before = xp.cumulative_sum(ranks.gather(own), include_initial=True)
        numbers = numbers + before[ranks.rank]
    ends = xp.cumulative_sum(free[:-1])
    return xp.clip(xp.searchsorted(ends, numbers), max=free.shape[0] - 2)
