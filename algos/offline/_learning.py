r"""Prices from scratch: a few online passes over a sample, with nothing enforced.

Problem: good starting prices for ``max sum_i s_{i, y_i}  s.t.  l_k <= n_k <= u_k`` from rows that
one can afford to look at several times.

The online step moves the price of a cluster by its count minus its aim (`duals`). A cap or a
completion would hide from it how wrong a price is, so these passes use `bounds.relaxed`, and
smaller steps from one to the next. The rows come in steps of the golden ratio through the data, so
that neighbors in the order lie far apart, and rows sorted by class do not meet cold prices one
class after the other.

=====================  ==============  ===========  ==============================================
paper                  here            shape        meaning
=====================  ==============  ===========  ==============================================
:math:`\rho - \rho'`   ``prices``      (k,)         in units of score, float64
\-                     ``scale``       ()           how far scores of one row differ
=====================  ==============  ===========  ==============================================
"""

from __future__ import annotations

import math

import array_api_compat as compat

from ..bounds.sizes import SizeBounds
from ..core.types import Array
from ..online.assignment import assign, init_state, next_pass
from ..online.duals import Duals
from ..online.steps import measured_steps
from ..scores.sources import ScoreSource, block_rows

__all__ = ["learn_prices", "lift_idle", "may_be_free", "median", "score_range", "strided_ids"]

FORBIDDEN = -1e37
SAMPLE = 1024  # rows on which the range of scores is measured


def learn_prices(
    source: ScoreSource,
    bounds: SizeBounds,
    *,
    n_passes: int,
    prices: Array | None = None,
) -> Array:
    """Prices after some online passes over all rows of a source.

    Parameters
    ----------
    source : ScoreSource
        Finite scores, in an order without runs of one class.
    bounds : SizeBounds
        Relaxed, with the number of rows of `source`.
    n_passes : int >= 0
        Each with smaller steps.
    prices : (k,) float64 array, optional
        Where to start; 0 by default.

    Returns
    -------
    (k,) float64 array

    Notes
    -----
    Cost: O(n k) per pass. No guarantee; what the prices are worth, `dual_value` says.
    Source: CoKe section 3.2.1 and SeCu supplement section 2; relaxing the bounds is ours.

    Examples
    --------
    >>> import numpy as np
    >>> from dualclust.algos.bounds.sizes import SizeBounds, relaxed
    >>> from dualclust.algos.scores.sources import score_source
    >>> source = score_source(np.asarray([[0.9, 0.1], [0.8, 0.3], [0.7, 0.5], [0.6, 0.2]]))
    >>> bounds = relaxed(SizeBounds.from_ratios(2, n_samples=4, lower=1.0))
    >>> prices = learn_prices(source, bounds, n_passes=4)
    >>> bool(prices[1] > prices[0])  # nobody wants the second cluster
    True
    """
    xp, n = compat.array_namespace(bounds.lower), source.group.n_total
    state = init_state(bounds)
    if prices is not None:
        state = state._replace(duals=Duals(xp.clip(prices, min=0.0), xp.clip(-prices, min=0.0)))
    scale = score_range(source.block(0, min(n, SAMPLE)))
    rows = block_rows(source.n_clusters)
    for epoch in range(n_passes):
        steps = measured_steps(bounds, epoch=epoch, kappa_floor=0.05, scale=scale)
        state = next_pass(state)
        for start in range(0, n, rows):
            # Forbidden pairs are far away here: online passes take finite scores.
            block = xp.clip(source.block(start, min(start + rows, n)), min=FORBIDDEN)
            _, state = assign(block, bounds, state, steps=steps)
    return state.duals.lower - state.duals.upper


def lift_idle(scores: Array, prices: Array, lower: Array) -> Array:
    """Raise the price of each cluster that is best for no row until it is for one.

    An online pass can throw a cluster that everybody wants first far below the others, and its
    small steps do not bring it back. A cluster without a lower bound is raised to 0 at most.

    Parameters
    ----------
    scores : (b, k) real array
        Some rows.
    prices : (k,) float64 array
    lower : (k,) real array
        Lower bounds, of any unit.

    Returns
    -------
    (k,) float64 array

    Examples
    --------
    >>> import numpy as np
    >>> lift_idle(np.asarray([[1.0, 0.5], [1.0, 0.0]]), np.asarray([0.0, -3.0]), np.ones(2))
    array([0. , 0.5])
    """
    xp = compat.array_namespace(prices)
    allowed = xp.isfinite(scores)
    priced = xp.astype(xp.where(allowed, scores, xp.zeros_like(scores)), xp.float64) + prices
    never = xp.full_like(priced, math.inf)
    best = xp.max(xp.where(allowed, priced, -never), axis=1, keepdims=True)
    best = xp.where(xp.isfinite(best), best, xp.zeros_like(best))
    missing = xp.min(xp.where(allowed, best - priced, never), axis=0)
    missing = xp.where(xp.isfinite(missing), missing, xp.zeros_like(missing))
    most = xp.where(lower > 0, missing, xp.clip(-prices, min=0.0))
    return prices + xp.minimum(missing, most)


def may_be_free(source: ScoreSource, bounds: SizeBounds) -> bool:
    """Whether, by a few rows, the best cluster of each is inside the bounds: no price is needed.

    Parameters
    ----------
    source : ScoreSource
    bounds : SizeBounds of a known number of samples

    Returns
    -------
    bool
        True wherever bounds cannot bind.

    Examples
    --------
    >>> import numpy as np
    >>> from dualclust.algos.bounds.sizes import SizeBounds
    >>> from dualclust.algos.scores.sources import score_source
    >>> source = score_source(np.asarray([[1.0, 1.0], [1.0, 0.0]]))
    >>> bounds = [SizeBounds.from_counts(lower, n_samples=2) for lower in ([1, 1], [0, 2])]
    >>> [may_be_free(source, b) for b in bounds]  # a row that ties may go to either
    [True, False]
    """
    xp, n = compat.array_namespace(bounds.lower), source.group.n_total
    m = min(n, SAMPLE)
    rows = source.take(strided_ids(n, m, bounds.lower))
    best = xp.astype(rows == xp.max(rows, axis=1, keepdims=True), xp.int64)
    alone = xp.where(xp.sum(best, axis=1, keepdims=True) == 1, best, xp.zeros_like(best))
    at_most, at_least = xp.sum(best, axis=0), xp.sum(alone, axis=0)
    return bool(xp.all((at_most * n >= bounds.lower * m) & (at_least * n <= bounds.upper * m)))


def score_range(scores: Array) -> float:
    """Median of the largest minus the smallest finite score, over rows where they differ; or 1."""
    xp = compat.array_namespace(scores)
    finite = xp.isfinite(scores)
    low = xp.min(xp.where(finite, scores, xp.full_like(scores, math.inf)), axis=1)
    ranges = xp.astype(xp.max(scores, axis=1), xp.float64) - xp.astype(low, xp.float64)
    ranges = xp.where(xp.isfinite(ranges), ranges, xp.zeros_like(ranges))
    n_equal = int(xp.sum(xp.astype(ranges == 0.0, xp.int64)))
    return median(xp.sort(ranges)[n_equal:]) or 1.0


def median(values: Array) -> float:
    """Upper median of a (n,) array; 0 of none. A few rows that are far out do not move it."""
    xp, n = compat.array_namespace(values), values.shape[0]
    return float(xp.sort(values)[n // 2]) if n else 0.0


def strided_ids(n: int, m: int, like: Array) -> Array:
    """Some of the ids 0 ... n-1, all different, in steps of about n / golden ratio.

    Examples
    --------
    >>> import numpy as np
    >>> strided_ids(8, 5, np.zeros(1))
    array([0, 5, 2, 7, 4])
    """
    xp = compat.array_namespace(like)
    stride = max(1, round(n * (math.sqrt(5) - 1) / 2))
    while math.gcd(stride, n) != 1:
        stride += 1
    return (xp.arange(m, dtype=xp.int64, device=compat.device(like)) * stride) % n
