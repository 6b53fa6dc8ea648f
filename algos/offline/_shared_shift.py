r"""One shift for the prices of a group of clusters that have to move together.

Problem: the clusters of a group take each other's rows and hardly any others: rows of one dense
direction that has several centers. If it has a few rows more than its clusters may hold, all of
their prices have to fall together until those rows leave for clusters far away, and which price
stands where beside the others does not change. A region that is right within the group is a tenth
of that way.

With ``t_i = u_i - max_{k in g} (s_ik + pi_k)``, by how much row i is better off outside, the dual
value along the shift d is, up to a constant,

``D(d) = sum_i max(t_i, d) - sum_{k in g} (l_k (pi_k + d)^+ - u_k (pi_k + d)^-)``,

convex and piecewise linear. Far below, its slope is ``-sum_k u_k``. It rises by 1 at each ``t_i``,
where a row joins, and by ``u_k - l_k`` at each ``-pi_k``, where a price becomes positive. So the
least value is at the corner, in their order, where what the slope has risen by reaches
``sum_k u_k``.

=====================  ===========  =====  ========================================================
symbol                 here         shape  meaning
=====================  ===========  =====  ========================================================
:math:`t_i`            ``leads``    (m,)   what row i gains outside of the group, in units of score
:math:`\pi_k`          ``prices``   (b,)   of the group
=====================  ===========  =====  ========================================================
"""

from __future__ import annotations

import math

import array_api_compat as compat

from ..core.reads import read
from ..core.types import Array

__all__ = ["best_shift"]


def best_shift(leads: Array, prices: Array, lower: Array, upper: Array) -> float:
    """Return the shift of all prices of a group that makes the dual value least.

    Parameters
    ----------
    leads : (m,) float64 array
        How much better off each row is outside; minus infinity if it may not be there.
    prices : (b,) float64 array
        Of the group.
    lower, upper : (b,) real array
        Bounds of its clusters.

    Returns
    -------
    float
        In units of score; the one closest to 0 of several. 0 where there is none: fewer rows may
        join than the group has to hold, or more than it may hold cannot leave.

    Notes
    -----
    Cost: O(m log m).

    Examples
    --------
    Two clusters that may hold one row each have three: one leaves that gains least inside.

    >>> import numpy as np
    >>> leads, ones = np.asarray([-0.9, -0.4, -0.6, 0.3]), np.ones(2)
    >>> best_shift(leads, np.asarray([-0.1, -0.2]), 0 * ones, ones)
    -0.4
    """
    xp = compat.array_namespace(prices)
    corners = xp.concat([leads, -prices])
    rises = xp.concat([xp.ones_like(leads), xp.astype(upper - lower, xp.float64)])
    order = xp.argsort(corners)
    corners, full = xp.take(corners, order), xp.sum(xp.astype(upper, xp.float64))
    slope = xp.cumulative_sum(xp.take(rises, order)) - full
    last = slope.shape[0] - 1
    first = xp.clip(xp.sum(xp.astype(slope < 0.0, xp.int64)), max=last)
    after = xp.clip(xp.sum(xp.astype(slope <= 0.0, xp.int64)), max=last)
    ends = xp.take(corners, xp.stack([first, after]))
    least, most, steepest, full = read(ends[0], ends[1], slope[last], full)
    low = least if full > 0.0 else -math.inf  # the slope begins at 0
    high = most if steepest > 0.0 else math.inf
    shift = min(max(0.0, low), high)
    return shift if steepest >= 0.0 and math.isfinite(shift) else 0.0
