r"""Soft labels of one batch, every cluster size inside its bounds: entropic transport with slack.

Problem, over soft labels ``P >= 0`` whose rows sum to 1, of rows that count ``w_i`` times:

maximize ``sum_ij w_i (P_ij s_ij - epsilon P_ij log P_ij)``
subject to ``n l_j <= sum_i w_i P_ij <= n u_j``,   ``n = sum_i w_i``.

The solution is a softmax under prices. A price is at least 0 where the lower bound holds the
cluster, at most 0 where the upper one does, and 0 in between; prices minimize the dual value D:

``P_ij = exp((s_ij + pi_j - v_i) / epsilon)``,
``v_i = epsilon log sum_j exp((s_ij + pi_j) / epsilon)``,
``D(pi) = sum_i w_i v_i - n sum_j (l_j pi_j^+ - u_j pi_j^-)``.

Equal bounds make it Sinkhorn's problem (`baselines.sinkhorn_transport`), and the iteration is his,
with a clip (`_scaling`). Each half of a step is an exact minimum of the dual in its variables, so
that its value never rises.

==================================  ================  =======  ====================================
paper                               here              shape    meaning
==================================  ================  =======  ====================================
:math:`Z^\top C`                    ``scores``        (n, k)   to maximize; minus infinity forbids
:math:`\varepsilon`                 ``epsilon``       ()       temperature, in units of score
\-                                  ``lower_share``   (k,)     l, in units of n
\-                                  ``upper_share``   (k,)     u, in units of n
``epsilon log(scaling)``            ``prices``        (k,)     pi, in units of score, float64
==================================  ================  =======  ====================================

Sources: Cuturi (2013); Benamou et al. (2015), section 4, for projections on inequalities; SwAV
(Caron et al. 2020), section 3.1, for the use of the plan.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from ..core.checks import check_real, check_shape
from ..core.types import Array
from ._scaling import Options, Ranks, scaled
from ._tables import weight_table

__all__ = ["SoftBatch", "balance_soft"]


class SoftBatch(NamedTuple):
    """Soft labels of a batch, and the prices that make them.

    Attributes
    ----------
    plan : (n, k) array
        Rows sum to 1, also those of weight 0; NaN in a row that does not count.
    prices : (k,) float64 array
        In units of score; a similar batch can start from them.
    residual : () float64 array, or None
        Mass that the next step would move between clusters, in units of n: 0 at the optimum, and
        never less than the mass outside of the bounds. None where ``tol=0`` did not ask for it.
    n_iter : int
        Steps taken.
    """

    plan: Array
    prices: Array
    residual: Array | None
    n_iter: int


def balance_soft(
    scores: Array,
    lower_share: Array,
    upper_share: Array,
    *,
    epsilon: float = 0.02,
    prices: Array | None = None,
    weights: Array | None = None,
    n_iter: int = 3,
    tol: float = 0.0,
    max_iter: int = 100_000,
    ranks: Ranks | None = None,
) -> SoftBatch:
    """Return soft labels of a batch whose columns add up to sizes inside the bounds.

    Parameters
    ----------
    scores : (n, k) real array
        Half precision is computed in float32. Minus infinity forbids a pair. A row with NaN, with
        plus infinity or with nothing but minus infinity does not count.
    lower_share, upper_share : (k,) float64 arrays
        l and u, with ``sum l <= 1 <= sum u`` and u above 0, as `SizeBounds` has them.
    epsilon : float in [1e-30, 1e30]
        Temperature, in units of score.
    prices : (k,) float64 array, optional
        Where to start; zeros by default.
    weights : (n,) real or boolean array, optional
        How often a row counts, at least 0.
    n_iter : int >= 1
        Steps with one set of exponentials; if `tol` is 0, all that are taken, and no value is read.
    tol : float >= 0
        If above 0, take exponentials anew, and `n_iter` steps more, until the residual is no larger
        or `max_iter` steps are taken. Each set reads one number.
    max_iter : int >= 1
    ranks : Ranks, optional
        Where several processes hold parts of the batch: a sum of k numbers for each step.

    Returns
    -------
    SoftBatch

    Raises
    ------
    InvalidValueError, InvalidTypeError, DeviceMismatchError
        For shapes, dtypes, places or options that do not fit.

    Notes
    -----
    Guarantee: rows that count are finite and sum to 1 to rounding; the dual value of the prices
    never rises from step to step. How far sizes are outside after `n_iter` steps is not bounded in
    advance: `SoftBatch.residual` says it. A batch without rows moves no price.
    Cost: n k exponentials for a set, two products of a matrix with a vector for a step.

    Examples
    --------
    Three of four rows prefer cluster 0, which may have half of them.

    >>> import numpy as np
    >>> scores = np.asarray([[0.9, 0.1], [0.8, 0.1], [0.7, 0.5], [0.1, 0.9]])
    >>> half = np.asarray([0.5, 0.5])
    >>> found = balance_soft(scores, 0 * half, half, epsilon=0.05, tol=1e-9)
    >>> found.plan.sum(axis=0).round(6), bool(found.prices[0] < found.prices[1])
    (array([2., 2.]), True)
    """
    xp, (_, k) = check_real("scores", scores), check_shape("scores", scores, ("n", "k"))
    check_shape("lower_share", lower_share, (k,))
    check_shape("upper_share", upper_share, (k,))
    found = scaled(
        scores,
        lambda total: (lower_share, upper_share),
        Options(epsilon, n_iter, tol, max_iter),
        prices=prices,
        weights=weights,
        ranks=ranks,
    )
    sums = xp.where(found.rows.counted, found.sums, math.nan)
    plan = weight_table(found.rows.entries, found.factors, sums[:, None])
    return SoftBatch(plan, found.prices, found.residual, found.n_iter)
