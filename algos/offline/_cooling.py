r"""Prices at falling temperatures, each learned from the minimum of the one before.

Problem: minimize the smoothed dual over the box of prices (`_smoothed_dual`) at a temperature T so
low that few rows are undecided, from the minimum of a higher one.

1. *Descend* to the minimum at one temperature, or near it where step 2 will not stop (`descend`).
2. *Stop* once each cluster has only a few rows on its border, or nearly as many as before: rows
   that tie stay on their borders at any temperature. Where there are few already, more than half
   count as nearly as many: paths part what repeats sooner than Newton's steps do.
3. *Cool*: divide T by four.

=================  =================  =======  ===================================================
symbol             here               shape    meaning
=================  =================  =======  ===================================================
:math:`\pi_k`      ``prices``         (k,)     float64, in units of score
:math:`T`          ``temperature``    ()       in units of score
=================  =================  =======  ===================================================
"""

from __future__ import annotations

import math
from collections.abc import Callable

import array_api_compat as compat

from ..core.types import Array
from ._smoothed_dual import Problem, RefinedPrices, descend

__all__ = ["COOLING", "LEAST_TEMPERATURE", "refine_prices"]

COOLING = 4.0
TIED, HALF, FEW = 0.8, 0.5, 32.0  # shares of the rows on borders, and so many per cluster
MOST_LEVELS = 30

LEAST_TEMPERATURE = 1e-290
"""Temperatures, and parts of them, divide: they stay normal numbers."""


def refine_prices(
    problem: Problem,
    prices: Array,
    *,
    start: float,
    border: float,
    is_over: Callable[[], bool] = lambda: False,
) -> RefinedPrices:
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
    is_over : callable, optional
        Asked after each temperature: whether the time is up.

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
    temperature, before = start, math.inf
    for level in range(MOST_LEVELS):
        few = border * k if level < MOST_LEVELS - 1 else math.inf  # then all are few enough
        many = (TIED if before > FEW * k else HALF) * before

        def is_last(at_border: float, few: float = few, many: float = many) -> bool:
            return at_border <= few or at_border > many

        prices, at_border = descend(problem, prices, temperature, is_last=is_last)  # step 1
        if is_last(at_border) or is_over():  # step 2
            break
        temperature, before = temperature / COOLING, at_border  # step 3
    return RefinedPrices(prices, temperature)
