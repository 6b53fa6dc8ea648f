r"""Prices learned by online passes over samples: to start from, and averaged over one pass.

Problem: good prices for ``max sum_i s_{i, y_i}  s.t.  l_k <= n_k <= u_k`` from rows of a sample.

*To start from* (`learn_prices`). The online step moves the price of a cluster by its count minus
its aim (`duals`). A cap or a completion would hide from it how wrong a price is, so these passes
use `online.relaxed`, and smaller steps from one to the next. The rows come in steps of the golden
ratio through the data, so that sorted rows do not bias the first steps.

*Averaged* (`averaged_region`). The last prices of an online pass scatter by what one step moves
them. Their average does not (Polyak and Juditsky, 1992): with steps that are larger than the best
last ones, it comes as near the best prices as the rows allow, to the first order of 1 / m. So they
are nearly as good as those of Newton's method on the same rows, which costs several passes:

1. *Pass* over all rows, with steps of an early epoch: the prices converge in its first half.
2. *Average* the prices after each part of its second half.
3. *Shrink* the trust region around them as the errors do: counts of m of n rows scatter by the root
   of ``1 / m - 1 / n``, in shares.
4. *Doubt* prices that went far in the last region, which then did not hold the best ones, or that
   change between the third quarter of the pass and the last, which have not converged.

=====================  ===============  =======  =================================================
paper                  here             shape    meaning
=====================  ===============  =======  =================================================
:math:`s_{i,k}`        ``source``       (m, k)   read in blocks of rows, in order
:math:`\rho - \rho'`   ``prices``       (k,)     in units of score, float64
:math:`m, n`           ``m``, ``n``     ()       rows of the pass, and all rows
\-                     ``scale``        ()       how far scores of one row differ
=====================  ===============  =======  =================================================
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import chain
from typing import NamedTuple

import array_api_compat as compat

from ...backends import select
from ..bounds.sizes import SizeBounds
from ..core.reads import on_host
from ..core.types import Array
from ..core.workers import map_in_order
from ..online.assignment import AssignmentState, assign, init_state, next_pass, relaxed
from ..online.duals import Duals
from ..online.step_sizes import measured_steps
from ..scores.blocks import block_rows, row_blocks
from ..scores.sources import ScoreSource
from ..scores.statistics import score_range
from ._candidates import TrustRegion
from ._options import DEFAULT_OPTIONS, SolverOptions

__all__ = [
    "FORBIDDEN",
    "AveragedPrices",
    "averaged_prices",
    "averaged_region",
    "learn_prices",
    "parts_of_pass",
    "passes_are_fast",
]

FORBIDDEN = -1e37
"""Score of a forbidden pair in an online pass, which takes finite scores."""

PASSES = 4
"""Online passes that learn prices; 2 and 8 cost about the same, but on scores of rank one."""

LEARNING_FLOOR = 0.05
"""Rise of the price of a starved cluster in a pass that learns, in ranges of scores."""

EPOCH, LOSS = 1, 1.25
"""Epoch of the steps of a pass whose prices are averaged, larger than the best last ones; and the
error of averaged prices over that of Newton's method, 1.0 to 1.3 on unit features: a factor of the
radius at each sample, which is the safe side after the first. 1.5 costs a third more time."""

PARTS = 16
"""Parts of a pass after which its prices are averaged."""

FARTHEST, RESTLESS = 0.75, 0.5
"""Step 4: farthest move of a price, in radii of the last region; largest change between quarters,
the root of the mean square in radii of the next one."""

LEAST_RADIUS, MOST_RADII = 1e-300, 1e100
"""Radius that is as good as none, and moves in radii beyond which their number does not matter."""


def learn_prices(
    source: ScoreSource,
    bounds: SizeBounds,
    options: SolverOptions = DEFAULT_OPTIONS,
    *,
    scale: float | None = None,
) -> Array:
    """Return the prices after some online passes over all rows of a sample.

    Parameters
    ----------
    source : ScoreSource
        Scores in an order without runs of one class; minus infinity forbids a pair.
    bounds : SizeBounds
        Of any number of rows: only their shares count.
    options : SolverOptions
    scale : float > 0, optional
        How far scores of a row differ; that of the first rows by default.

    Returns
    -------
    (k,) float64 array

    Raises
    ------
    InvalidValueError
        For NaN or plus infinity.

    Notes
    -----
    Cost: O(m k) per pass. No guarantee; what the prices are worth, `dual_value` says.
    Source: CoKe section 3.2.1 and SeCu supplement section 2; relaxing the bounds is ours.

    Examples
    --------
    >>> import numpy as np
    >>> from dualclust.algos.scores.sources import score_source
    >>> source = score_source(np.asarray([[0.9, 0.1], [0.8, 0.3], [0.7, 0.5], [0.6, 0.2]]))
    >>> prices = learn_prices(source, SizeBounds.from_ratios(2, n_samples=4, lower=1.0))
    >>> bool(prices[1] > prices[0])  # nobody wants the second cluster
    True
    """
    m, free = source.group.n_total, _free(source, bounds)
    if scale is None:
        scale = score_range(source.block(0, min(m, options.typical_rows)))
    read, state = _clipped(source), init_state(free)
    for epoch in range(PASSES):
        steps = measured_steps(free, epoch=epoch, kappa_floor=LEARNING_FLOOR, scale=scale)
        state = next_pass(state)
        # Each block's labels wait for those before it; its scores do not.
        for block in source.map_blocks(lambda *edge: read(edge), like=bounds.lower):
            _, state = assign(block, free, state, steps=steps)
    return _prices(state)


def _free(source: ScoreSource, bounds: SizeBounds) -> SizeBounds:
    """The shares of the bounds, without caps and completion, for the rows of a sample."""
    xp, m = compat.array_namespace(bounds.lower), source.group.n_total
    return relaxed(bounds)._replace(upper=xp.full_like(bounds.upper, m), n_samples=m)


def _clipped(source: ScoreSource) -> Callable[[tuple[int, int]], Array]:
    """Blocks of a source by their edges, with a finite score for a forbidden pair."""

    def block(edge: tuple[int, int]) -> Array:
        scores = source.block(*edge)
        return compat.array_namespace(scores).clip(scores, min=FORBIDDEN)

    return block


def _prices(state: AssignmentState) -> Array:
    return state.duals.lower - state.duals.upper


class AveragedPrices(NamedTuple):
    """Prices averaged over the second half of a pass, and how they changed between its quarters.

    Attributes
    ----------
    prices : (k,) float64 array
        In units of score, on the library and device of the prices given.
    change : (k,) float64 array
        Mean of the last quarter minus that of the third, in units of score.
    """

    prices: Array
    change: Array


def passes_are_fast(like: Array) -> bool:
    """Tell whether online passes cost as little as other passes over the rows of a sample.

    They take row after row: that is slow without an engine, and away from the host.

    Examples
    --------
    >>> import numpy as np
    >>> passes_are_fast(np.zeros(3))
    True
    """
    return on_host(like) and select("assign_stream", like) is not None


def parts_of_pass(m: int, k: int, *, like: Array) -> list[tuple[int, int]]:
    """Return the edges of the parts in which m rows are passed: of a block of rows at most.

    Examples
    --------
    >>> import numpy as np
    >>> len(parts_of_pass(2**15, 100, like=np.zeros(1))), parts_of_pass(2, 100, like=np.zeros(1))
    (16, [(0, 1), (1, 2)])
    """
    rows = min(math.ceil(m / PARTS), block_rows(k, like=like))
    return list(row_blocks(m, max(rows, 1)))


def averaged_prices(
    source: ScoreSource,
    bounds: SizeBounds,
    prices: Array,
) -> AveragedPrices:
    """Return the mean of the prices in the second half of an online pass.

    Parameters
    ----------
    source : ScoreSource
        m rows without NaN or plus infinity, in an order without runs of one class.
    bounds : SizeBounds
        Of any number of rows: only their shares count.
    prices : (k,) float64 array
        Where to start.

    Returns
    -------
    AveragedPrices

    Notes
    -----
    Cost: O(m k). No guarantee; what the prices are worth, `dual_value` says.

    Examples
    --------
    >>> import numpy as np
    >>> from dualclust.algos.scores.sources import score_source
    >>> scores = np.asarray([[0.9, 0.1], [0.8, 0.3], [0.7, 0.5], [0.6, 0.2]] * 64)
    >>> bounds = SizeBounds.from_ratios(2, n_samples=256, lower=1.0)
    >>> found = averaged_prices(score_source(scores), bounds, np.zeros(2))
    >>> bool(found.prices[1] > found.prices[0])  # nobody wants the second cluster
    True
    """
    xp, m, free = compat.array_namespace(prices), source.group.n_total, _free(source, bounds)
    duals = Duals.of(prices)
    state = init_state(free)._replace(duals=duals)
    # A part waits for the labels of those before it, its scores do not.
    parts = parts_of_pass(m, source.n_clusters, like=prices)
    blocks = map_in_order(_clipped(source), parts, like=None if source.in_turn else prices)
    first = next(blocks)
    scale = _range_of_finite(first)
    steps = measured_steps(free, epoch=EPOCH, kappa_floor=LEARNING_FLOOR, scale=scale)
    rows, done, seen = math.ceil(m / PARTS), 0, list[Array]()
    after = m // 2
    for scores in chain([first], blocks):
        _, state = assign(scores, free, state, steps=steps)  # step 1
        done += scores.shape[0]
        if done > after:  # step 2; a block may be less than a part
            seen.append(_prices(state))
            after = done + rows - 1
    half = (len(seen) + 1) // 2
    third, last = (xp.mean(xp.stack(part), axis=0) for part in (seen[:half], seen[-half:]))
    return AveragedPrices(xp.mean(xp.stack(seen), axis=0), last - third)


def _range_of_finite(clipped: Array) -> float:
    """The range of scores among which forbidden pairs have a finite one."""
    xp = compat.array_namespace(clipped)
    return score_range(xp.where(clipped > FORBIDDEN, clipped, xp.full_like(clipped, -math.inf)))


def averaged_region(
    sample: ScoreSource,
    bounds: SizeBounds,
    region: TrustRegion,
    before: int,
) -> TrustRegion | None:
    """Return the region around the averaged prices of m rows, from that of `before` rows.

    Parameters
    ----------
    sample : ScoreSource
        m of all n rows.
    bounds : SizeBounds
        Of all rows; where their number is not known, the sample counts as a small part of them.
    region : TrustRegion
        Learned on `before` of them.
    before : int
        Rows of a smaller sample: ``before < m < n``.

    Returns
    -------
    TrustRegion or None
        None where the averages are in doubt.

    Notes
    -----
    Cost: O(m k). Guarantee: none; whether the region was right, the proof says in the end. The
    factors of steps 3 and 4 are measured (docs/decisions/0054-averaged-prices.md).
    """
    xp = compat.array_namespace(region.center)
    m, n = sample.group.n_total, bounds.n_samples or math.inf
    prices, change = averaged_prices(sample, bounds, region.center)
    fall = math.sqrt((1.0 / m - 1.0 / n) / (1.0 / before - 1.0 / n))  # step 3
    radius = LOSS * fall * region.radius
    farthest = xp.max(_in_radii(prices - region.center, region.radius))  # step 4
    restless = xp.mean(_in_radii(change, radius) ** 2)
    if float(farthest) <= FARTHEST and float(restless) <= RESTLESS**2:
        return TrustRegion(prices, radius)
    return None


def _in_radii(moves: Array, radius: Array) -> Array:
    """Sizes of moves in units of the radius, up to a number whose square is finite."""
    xp = compat.array_namespace(moves)
    radius = xp.clip(radius, min=LEAST_RADIUS)
    return xp.minimum(xp.abs(moves), MOST_RADII * radius) / radius
