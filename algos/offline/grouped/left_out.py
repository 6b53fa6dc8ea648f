r"""Rows that may stay out of all clusters: at most some of them, or each at a price.

Problem: a row that stays out has the label -1 and the score ``o_i``. For at most r of them

maximize ``sum_{i in} s_{i, y_i} + sum_{i out} o_i``  subject to  ``l_k <= n_k <= u_k``,
``n_out <= r``.

That is one cluster more, of the scores o and of at most r rows, so that `offline` solves it as it
is, with the same proof. Where scores are distances with a minus sign, ``o = 0`` leaves out the
farthest rows that sizes allow (trimmed assignment), and ``o = -d`` those that cost more than d.

==============  ==============  ======  ============================================
symbol          here            shape   meaning
==============  ==============  ======  ============================================
:math:`o_i`     ``out_score``   (n,)    score of a row that stays out, or of each
r               ``max_out``     int     most rows that may
==============  ==============  ======  ============================================
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import array_api_compat as compat

from ...bounds.sizes import SizeBounds
from ...core.checks import (
    check_count,
    check_finite,
    check_interval,
    check_pair,
    check_per_cluster,
    check_real,
    check_same_place,
    check_shape,
)
from ...core.errors import InvalidValueError
from ...core.types import Array
from ...scores.sources import ScoreSource
from ...scores.statistics import source_of_one_rank
from ..assignment import OfflineAssignment, assign_source

__all__ = ["PartialAssignment", "assign_partial"]


class PartialAssignment(NamedTuple):
    """Labels inside their bounds, -1 for rows that stay out, and how good they are.

    Attributes
    ----------
    labels : (n,) int64 array
    counts : (k,) int64 array
        Of the clusters.
    n_out : int
        Rows that stay out.
    prices : (k,) float64 array
    out_price : float
        A row is in unless ``o_i + out_price`` exceeds its best priced score. Above 0 only where
        upper bounds on the clusters leave too few places for all rows.
    objective, upper_bound, rounding, gap : float
        As in `offline.OfflineAssignment`; rows that stay out count with their score.
    """

    labels: Array
    counts: Array
    n_out: int
    prices: Array
    out_price: float
    objective: float
    upper_bound: float
    rounding: float
    gap: float

    @property
    def status(self) -> str:
        """Proven: "optimal", or "within gap"."""
        return "optimal" if self.gap == 0.0 else "within gap"


def assign_partial(
    scores: Array | ScoreSource,
    *,
    max_out: int,
    out_score: float | Array = 0.0,
    min_count: int | Sequence[int] = 0,
    max_count: int | Sequence[int] | None = None,
    prices: tuple[Array, float] | None = None,
    tol: float = 0.0,
) -> PartialAssignment:
    """Label rows inside bounds on sizes, of which at most some may stay out.

    Parameters
    ----------
    scores : (n, k) real array, or ScoreSource
        Finite, or minus infinity where a sample must not go. A source of one rank.
    max_out : int in [0, n]
        Most rows that may stay out.
    out_score : float, or (n,) real array
        Score of a row that stays out, of each row or of all; finite.
    min_count, max_count : int, or sequence of k ints
        Bounds on the sizes of clusters; no upper one by default. Together with `max_out` they may
        have less room than there are rows only by an error.
    prices : pair of (k,) float64 array and float, optional
        `prices` and `out_price` to start from.
    tol : float in [0, 1]
        Relative gap to prove; 0 for the best labels.

    Returns
    -------
    PartialAssignment

    Raises
    ------
    InfeasibleBoundsError
        If no labels are inside the bounds; cluster k of its proof stands for the rows outside.
    InvalidValueError, InvalidTypeError, DeviceMismatchError
        For NaN, infinity, and shapes, dtypes or places that do not fit.

    Notes
    -----
    Guarantee, cost and memory: those of `assign_exact`, or of `assign_offline`, for k + 1 clusters.

    Examples
    --------
    >>> import numpy as np
    >>> distances = np.asarray([[1.0, 4.0], [2.0, 5.0], [50.0, 60.0], [6.0, 1.0]])
    >>> found = assign_partial(-distances, max_out=1, min_count=1)
    >>> found.labels, found.objective, found.status
    (array([ 0,  0, -1,  1]), -4.0, 'optimal')
    """
    source = source_of_one_rank(scores)
    n, k = source.group.n_total, source.n_clusters
    if source.exponent:
        msg = f"scores must be in their own unit, got a source in 2**{source.exponent} of it"
        msg = f"{msg}. To fix this, multiply scores by the weights yourself"
        raise InvalidValueError(msg)
    check_count("max_out", max_out, 0)
    if max_out > n:
        msg = f"max_out must be at most the {n} rows, got {max_out}. To fix this, lower it"
        raise InvalidValueError(msg)
    like = source.block(0, 0)
    xp, device = compat.array_namespace(like), compat.device(like)
    outside = _scores_outside(out_score, like, n)
    low = _of_each("min_count", min_count, k)
    high = _of_each("max_count", n if max_count is None else max_count, k)
    bounds = SizeBounds.from_counts([*low, 0], [*high, max_out], n_samples=n, xp=xp, device=device)

    def block(start: int, stop: int) -> Array:
        return xp.concat([source.block(start, stop), outside[start:stop, None]], axis=1)

    def take(ids: Array) -> Array:
        return xp.concat([source.take(ids), xp.take(outside, ids)[:, None]], axis=1)

    start = None
    if prices is not None:
        check_pair("prices", prices, "an array and a number")
        last = check_interval("prices[1]", prices[1], -math.inf, math.inf)
        check_same_place(scores=like, prices=prices[0])
        first = check_per_cluster("prices[0]", prices[0], k)
        start = xp.concat([first, xp.asarray([last], dtype=xp.float64, device=device)])
    found = assign_source(
        ScoreSource(k + 1, block, take, source.group), bounds, prices=start, tol=tol
    )
    return _result(found, k)


def _scores_outside(out_score: float | Array, like: Array, n: int) -> Array:
    """Return the score of each row that stays out, of the dtype of the scores."""
    xp = compat.array_namespace(like)
    if not isinstance(out_score, int | float):
        check_real("out_score", out_score)
        check_shape("out_score", out_score, (n,))
        check_same_place(scores=like, out_score=out_score)
        outside = xp.astype(out_score, like.dtype)
    else:
        score = check_interval("out_score", out_score, -math.inf, math.inf)
        outside = xp.full((n,), score, dtype=like.dtype, device=compat.device(like))
    check_finite("out_score", outside[:, None])
    return outside


def _of_each(name: str, count: int | Sequence[int], k: int) -> list[int]:
    """Return one whole number for each cluster."""
    counts = list(count) if isinstance(count, Sequence) else [count] * k
    if len(counts) != k:
        msg = f"{name} must be one number or one per cluster (k={k}), got {len(counts)}"
        msg = f"{msg}. To fix this, give one for each cluster"
        raise InvalidValueError(msg)
    return [check_count(name, one, 0) for one in counts]


def _result(found: OfflineAssignment, k: int) -> PartialAssignment:
    xp = compat.array_namespace(found.labels)
    n_out, out_price = int(found.counts[k]), float(found.prices[k])
    return PartialAssignment(
        labels=xp.where(found.labels == k, xp.full_like(found.labels, -1), found.labels),
        counts=found.counts[:k],
        n_out=n_out,
        prices=found.prices[:k],
        out_price=out_price if n_out else min(out_price, 0.0),  # nobody is out at a lower one
        objective=found.objective,
        upper_bound=found.upper_bound,
        rounding=found.rounding,
        gap=found.gap,
    )
