r"""Prices averaged over one online pass: nearly as good as those of Newton's method on its rows.

Problem: the prices of the smoothed dual of m rows, from prices that a smaller sample has left, at
the cost of one look at these rows.

The last prices of an online pass scatter by what one step moves them. Their average does not
(Polyak and Juditsky, 1992): with steps that are larger than the best last ones, it comes as near
the best prices as the rows allow, to the first order of 1 / m.

1. *Pass* over all rows, with steps of an early epoch, so that the prices arrive in its first half.
2. *Average* the prices after each part of its second half.
3. *Shrink* the trust region around them as the errors do: counts of m of n rows scatter by the root
   of ``1 / m - 1 / n``, in shares.
4. *Doubt* prices that went far in the last region, which then did not hold the best ones, or that
   change between the third quarter of the pass and the last, which have not arrived.

=====================  ===============  =======  =================================================
symbol                 here             shape    meaning
=====================  ===============  =======  =================================================
:math:`\rho - \rho'`   ``prices``       (k,)     in units of score, float64
:math:`m`              ``m``            ()       rows of the pass
:math:`n`              ``n``            ()       all rows
=====================  ===============  =======  =================================================
"""

from __future__ import annotations

import math
from itertools import chain
from typing import NamedTuple

import array_api_compat as compat

from ...backends import select
from ..bounds.sizes import SizeBounds
from ..core.reads import on_host
from ..core.types import Array
from ..core.workers import map_in_order
from ..online.assignment import assign, init_state, relaxed
from ..online.duals import Duals
from ..online.step_sizes import measured_steps
from ..scores.blocks import block_rows, row_blocks
from ..scores.sources import ScoreSource
from ..scores.statistics import score_range
from ._candidates import TrustRegion
from ._forced_rows import FORBIDDEN
from ._options import DEFAULT_OPTIONS, SolverOptions

__all__ = [
    "AveragedPrices",
    "averaged_prices",
    "averaged_region",
    "parts_of_pass",
    "passes_are_fast",
]

PARTS = 16
"""Parts of a pass after which its prices are looked at."""

FARTHEST, RESTLESS = 0.75, 0.5
"""Step 4: farthest move of a price, in radii of the last region; largest change between quarters,
the root of the mean square in radii of the next one."""

LEAST_RADIUS, MOST_RADII = 1e-300, 1e100
"""Radius that is as good as none, and moves in radii beyond which their number does not matter."""


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
    """Tell whether online passes cost as little as other looks at the rows of a sample.

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
    *,
    options: SolverOptions = DEFAULT_OPTIONS,
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
    options : SolverOptions

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
    xp, m = compat.array_namespace(prices), source.group.n_total
    free = relaxed(bounds)._replace(upper=xp.full_like(bounds.upper, m), n_samples=m)
    duals = Duals(xp.clip(prices, min=0.0), xp.clip(-prices, min=0.0))
    state = init_state(free)._replace(duals=duals)

    def clipped(edge: tuple[int, int]) -> Array:
        return xp.clip(source.block(*edge), min=FORBIDDEN)

    # A part waits for the labels of those before it, its scores do not.
    parts = parts_of_pass(m, source.n_clusters, like=prices)
    blocks = map_in_order(clipped, parts, like=None if source.in_turn else prices)
    first = next(blocks)
    steps = measured_steps(
        free,
        epoch=options.averaging_epoch,
        kappa_floor=options.learning_floor,
        scale=_range_of_finite(first[: options.range_rows, :]),
    )
    rows, done, seen = math.ceil(m / PARTS), 0, list[Array]()
    after = m // 2
    for scores in chain([first], blocks):
        _, state = assign(scores, free, state, steps=steps)  # step 1
        done += scores.shape[0]
        if done > after:  # step 2; a block may be less than a part
            seen.append(state.duals.lower - state.duals.upper)
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
    *,
    options: SolverOptions = DEFAULT_OPTIONS,
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
    options : SolverOptions

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
    prices, change = averaged_prices(sample, bounds, region.center, options=options)
    fall = math.sqrt((1.0 / m - 1.0 / n) / (1.0 / before - 1.0 / n))  # step 3
    radius = options.averaging_loss * fall * region.radius
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
