r"""Labels inside the bounds for any scores, at the cost of two passes and the memory of one block.

Problem: where so many clusters nearly tie that no lists of a size that memory holds allow labels
inside the bounds, still end with such labels, and with a proof of how good they are.

Method: online passes (`assignment`) from prices that are good already, with steps so small that
they hardly leave them: the first learns under relaxed bounds, the second enforces. Each pass adds
up the dual value of the prices that it starts from,

``D(pi) = sum_i max_k (s_ik + pi_k) - sum_k pi+_k l_k + sum_k pi-_k u_k``,

block by block beside the labels; the smaller is the upper bound.

=====================  ===============  =======  =================================================
paper                  here             shape    meaning
=====================  ===============  =======  =================================================
:math:`s_{i,k}`        ``source``       (n, k)   read in blocks of rows, in order
:math:`\rho - \rho'`   ``prices``       (k,)     in units of score, float64
:math:`D(\pi)`         ``upper_bound``  ()       no labels inside the bounds are worth more
=====================  ===============  =======  =================================================
"""

from __future__ import annotations

import math
from typing import NamedTuple

import array_api_compat as compat

from ..bounds.sizes import SizeBounds, relaxed
from ..core.errors import InvalidValueError
from ..core.types import Array
from ..online.assignment import AssignmentState, assign, init_state, next_pass
from ..online.certificates import price_of_bounds, violation
from ..online.duals import Duals
from ..online.steps import StepRule, measured_steps
from ..scores.sources import ScoreSource, block_rows
from ._learning import FORBIDDEN, SAMPLE, score_range, strided_ids
from ._reduced import OfflineAssignment, relative_gap, rounding_of

__all__ = ["assign_streamed"]

LATE, FLOOR = 8, 0.02  # epoch of the steps, and rise of a starved price in a pass, in score ranges


def assign_streamed(
    source: ScoreSource, bounds: SizeBounds, prices: Array
) -> OfflineAssignment | None:
    """Labels by online passes over all rows, with the gap that the prices prove.

    Parameters
    ----------
    source : ScoreSource
        Of one rank.
    bounds : SizeBounds
        Of a known number of samples.
    prices : (k,) float64 array
        Good ones; those of `price_box`.

    Returns
    -------
    OfflineAssignment or None
        None if a sample would have to go to a cluster that it must not.

    Raises
    ------
    InvalidValueError
        If the rows are shared out over ranks: each label depends on those before it.

    Notes
    -----
    Guarantee: ``lower <= counts <= upper``, for any scores and prices; how large the gap is depends
    on both. Cost: O(n k) time; O(n) memory for the labels.
    Source: CoKe section 3.2.1; SeCu supplement section 2; dual values in the same pass are ours.

    Examples
    --------
    >>> import numpy as np
    >>> from dualclust.algos.bounds.sizes import SizeBounds
    >>> from dualclust.algos.scores.sources import score_source
    >>> source = score_source(np.asarray([[0.9, 0.1], [0.8, 0.1], [0.6, 0.5]]))
    >>> bounds = SizeBounds.from_counts([1, 1], n_samples=3)
    >>> found = assign_streamed(source, bounds, np.asarray([0.0, 0.1]))
    >>> found.labels, round(found.upper_bound, 3)
    (array([0, 0, 1]), 2.2)
    """
    group = source.group
    if group.n_local != group.n_total:
        msg = (
            f"source must be of one rank where lists of a bounded size allow no labels, got "
            f"{group.n_local} of {group.n_total} rows. To fix this, loosen the bounds, or run one "
            f"process"
        )
        raise InvalidValueError(msg)
    xp, n = compat.array_namespace(prices), group.n_total
    rows = source.take(strided_ids(n, min(n, SAMPLE), prices))
    steps = measured_steps(bounds, epoch=LATE, kappa_floor=FLOOR, scale=score_range(rows))
    start = Duals(xp.clip(prices, min=0.0), xp.clip(-prices, min=0.0))
    state = init_state(bounds)._replace(duals=start)
    learned = _one_pass(source, relaxed(bounds), bounds, state, steps)
    last = _one_pass(source, bounds, bounds, next_pass(learned.state), steps)
    if not math.isfinite(last.objective):
        return None
    best = learned if learned.dual <= last.dual else last
    rounding = rounding_of(last.size + best.size)
    # A difference of two large sums: what rounding can hide of it counts as lost.
    lost = max(best.dual - last.objective, 0.0) + rounding
    return OfflineAssignment(
        last.labels,
        last.state.counts,
        best.prices,
        last.objective,
        best.dual,
        rounding,
        violation(last.state.counts, bounds),
        relative_gap(lost, last.worth, best.dual),
    )


class _Pass(NamedTuple):
    """Labels and their value, and the dual value of the prices at the start.

    `worth` adds up the absolute values of the terms of the first, `size` those of both.
    """

    labels: Array
    objective: float
    worth: float
    prices: Array
    dual: float
    size: float
    state: AssignmentState


def _one_pass(
    source: ScoreSource,
    enforced: SizeBounds,
    bounds: SizeBounds,
    state: AssignmentState,
    steps: StepRule,
) -> _Pass:
    """Label all rows under the bounds `enforced`, and price all rows under `bounds`."""
    xp, n = compat.array_namespace(bounds.lower), source.group.n_total
    prices = state.duals.lower - state.duals.upper
    bound = price_of_bounds(prices, bounds)
    objective, worth, size, labels = 0.0, 0.0, abs(bound), []
    n_block = block_rows(source.n_clusters)
    for first in range(0, n, n_block):
        block = source.block(first, min(first + n_block, n))
        # Forbidden pairs are far away here: online passes take finite scores.
        y, state = assign(xp.clip(block, min=FORBIDDEN), enforced, state, steps=steps)
        own = xp.astype(xp.take_along_axis(block, y[:, None], axis=1), xp.float64)
        best = xp.max(xp.astype(block, xp.float64) + prices, axis=1)
        objective += float(xp.sum(own))
        bound += float(xp.sum(best))
        worth += float(xp.sum(xp.abs(own)))
        size += float(xp.sum(xp.abs(best)))
        labels.append(y)
    return _Pass(xp.concat(labels), objective, worth, prices, bound, worth + size, state)
