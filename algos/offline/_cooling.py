r"""Prices at falling temperatures, each learned from the rows that still lie near a border.

Problem: minimize the smoothed dual over the box of prices (`_smoothed_dual`) at a temperature T so
low that few rows are undecided, from the minimum of a higher one.

At each temperature prices move by a few T, and a cluster that is ``FAR`` temperatures behind the
best of its row has no weight. So most rows of a high temperature are fixed variables of a low one:
the lower it is, the fewer rows each look of Newton's method has to read.

1. *Descend* to the minimum at one temperature, or near it where step 2 will not stop (`descend`).
2. *Stop* once each cluster has only a few rows on its border, or nearly as many as before: rows
   that tie stay on their borders at any temperature. Where there are few already, more than half
   count as nearly as many: paths part what repeats sooner than Newton's steps do.
3. *Cool*: divide T by four.
4. *Narrow*: for prices within R = ``REACH`` T of those found, cluster k keeps weight in row i if

   ``s_ik + pi_k + R + FAR T / 2 >= max_j (s_ij + pi_j) - R - FAR T / 2``.

   These are its candidates, by the inequality of `_free_rows`; rows with one are fixed.
5. *Widen*: where a price stands at the end of its reach, descend at this temperature once more, in
   the whole box and on all rows.

A problem narrowed at T may be narrowed further at T / 4: prices move by R at most, so that whatever
was left out is behind by ``2 R + FAR T - 2 R = FAR T`` still, and ``R / 2 + FAR T / 4`` is less.

=================  =================  =======  ===================================================
symbol             here               shape    meaning
=================  =================  =======  ===================================================
:math:`s_{i,k}`    ``values``         (m, w)   scores of the candidates of each row
:math:`\pi_k`      ``prices``         (k,)     float64, in units of score
:math:`T`          ``temperature``    ()       in units of score
=================  =================  =======  ===================================================
"""

from __future__ import annotations

import math
from functools import partial

import array_api_compat as compat

from ...backends import select
from ..core.types import Array
from ..core.workers import map_in_order, row_parts
from ._free_rows import Part, free_rows, join, narrow_candidates
from ._smoothed_dual import FAR, PART_ENTRIES, Problem, RefinedPrices, descend

__all__ = ["refine_prices"]

COOLING = 4.0
TIED, HALF, FEW = 0.8, 0.5, 32.0  # shares of the rows on borders, and so many per cluster
MOST_LEVELS = 30
REACH = 16.0  # temperatures; 9 have been seen, and more than 1.5 FAR would not narrow further
NARROWED_ENTRIES = 2**18  # candidates from which on it costs less than it saves


def refine_prices(problem: Problem, prices: Array, *, start: float, border: float) -> RefinedPrices:
    """Minimize the smoothed dual over the box, at falling temperatures.

    Parameters
    ----------
    problem : Problem
    prices : (k,) float64 array
        Where to start.
    start : float > 0
        First temperature, in units of score: about how far the prices are off.
    border : float > 0
        Stop once each cluster has on average so many rows that are on its border,
        ``sum_i p_ik (1 - p_ik)``.

    Returns
    -------
    RefinedPrices

    Notes
    -----
    Cost of a step: O(m w^2 + k^3), or O(m w) per conjugate gradient for more than 96 clusters, for
    the m rows that are near a border; one to seven steps for each temperature.
    """
    xp, k = compat.array_namespace(prices), prices.shape[0]
    prices = xp.clip(prices, problem.low, problem.high)
    near, temperature, before = problem, start, math.inf
    for level in range(MOST_LEVELS):
        few = border * k if level < MOST_LEVELS - 1 else math.inf  # then all are few enough
        left = TIED if before > FEW * k else HALF
        is_last = partial(_is_last, few=few, many=left * before)
        prices, at_border = descend(near, prices, temperature, is_last=is_last)  # step 1
        if _is_held(near, problem, prices):  # step 5
            near = problem
            prices, at_border = descend(problem, prices, temperature, is_last=is_last)
        if is_last(at_border):
            break
        temperature, before = temperature / COOLING, at_border  # step 3
        near = _narrowed(near, problem, prices, temperature)  # step 4
    return RefinedPrices(prices, temperature)


def _is_last(at_border: float, *, few: float, many: float) -> bool:
    """Step 2: whether few rows are on borders, or nearly as many as before."""
    return at_border <= few or at_border > many


def _narrowed(near: Problem, whole: Problem, prices: Array, temperature: float) -> Problem:
    """Step 4: the problem of the rows that may have weight in several clusters."""
    xp, (m, width) = compat.array_namespace(prices), near.values.shape
    # Without an engine lists are narrowed by sorts, which cost more than looks at all rows.
    if m * width < NARROWED_ENTRIES or select("narrow_candidates", prices) is None:
        return near
    reach = REACH * temperature
    apart = reach + 0.5 * FAR * temperature
    low, high = prices - apart, prices + apart

    def of_part(rows: slice) -> Part:
        lists = near.values[rows, :], near.clusters[rows, :]
        looked = narrow_candidates(*lists, low, high, width=width)
        return free_rows([looked], prices.shape[0], 0.0)[0]  # no list is truncated

    least = max(PART_ENTRIES // width, prices.shape[0])
    parts = list(map_in_order(of_part, row_parts(m, least, like=prices), like=prices))
    if 2 * sum(part.clusters.shape[0] for part in parts) > m:  # not worth a copy: the box stays
        return near
    part = join(parts)
    return near._replace(
        values=part.values,
        clusters=part.clusters,
        fixed_counts=near.fixed_counts + xp.astype(part.counts[0, :], xp.float64),
        low=xp.maximum(whole.low, prices - reach),
        high=xp.minimum(whole.high, prices + reach),
    )


def _is_held(near: Problem, whole: Problem, prices: Array) -> bool:
    """Step 5: whether a price stands at an end of its reach that is no end of the box."""
    xp = compat.array_namespace(prices)
    lowest = (prices <= near.low) & (near.low > whole.low)
    highest = (prices >= near.high) & (near.high < whole.high)
    return near is not whole and bool(xp.any(lowest | highest))
