r"""Mini-batch k-means over the rows of a source, also where they are shared out over ranks.

Problem: rows in a file, on one rank or many, are to be labeled once, batch by batch, while centers
and prices move (`minibatch`). A batch depends on those before it.

Method: the batches are consecutive rows, counted from the first row of all ranks. The ranks take
turns (`scores.turns`): each goes through the batches of its own rows and hands on the state, which
is a few numbers per cluster. Labels, centers and prices are those of one rank to the last bit.

==============  ===============  =======  =====================================================
symbol          here             shape    meaning
==============  ===============  =======  =====================================================
:math:`x_i`     of ``source``    (n, d)   rows of all ranks
:math:`w_i`     ``weights``      (n,)     of all rows of all ranks, or None
:math:`y_i`     ``labels``       (n,)     of this rank's rows
==============  ===============  =======  =====================================================
"""

from __future__ import annotations

import array_api_compat as compat

from ..bounds.sizes import SizeBounds
from ..core.checks import check_count, check_kind
from ..core.errors import InvalidValueError
from ..core.types import Array
from ..online.assignment import AssignmentState
from ..online.duals import Duals
from ..online.step_sizes import StepRule
from ..scores.blocks import MOST_ROWS, row_blocks
from ..scores.sources import FeatureSource, Group, check_weights
from ..scores.turns import Turn, hand_on, turns_of
from .minibatch import MiniBatchState, MiniBatchStep, minibatch_step

__all__ = ["minibatch_pass"]


def minibatch_pass(
    source: FeatureSource,
    state: MiniBatchState,
    bounds: SizeBounds,
    *,
    metric: str = "cosine",
    weights: Array | None = None,
    empty: str = "relocate",
    batch_size: int = 1024,
) -> MiniBatchStep:
    """Go once through the rows of all ranks in mini-batches.

    Parameters
    ----------
    source : FeatureSource
        Unit rows for "cosine".
    state : MiniBatchState
        Of `init_minibatch`, or of what came before; the same on all ranks.
    bounds : SizeBounds
        Only its shares are used.
    metric, empty
        As in `minibatch_step`.
    weights : (n,) real array, optional
        Of all rows of all ranks.
    batch_size : int
        Rows of a batch; divides 8192, so that no batch lies on two ranks.

    Returns
    -------
    MiniBatchStep
        Labels of this rank's rows, and the state after all rows.

    Raises
    ------
    InvalidValueError, InvalidTypeError, DeviceMismatchError
        As `minibatch_step`.

    Notes
    -----
    Guarantee: the bits do not depend on the number of ranks. Cost O(n k d), one rank after the
    other: ranks share out the reading and the memory, and save no time. Memory: one batch, and the
    labels. Source: CoKe Eq. 10, 11 and 13; turns of ranks are ours.

    Examples
    --------
    >>> import numpy as np
    >>> from dualclust.algos.bounds.sizes import SizeBounds
    >>> from dualclust.algos.clustering.minibatch import init_minibatch
    >>> from dualclust.algos.scores.sources import feature_source
    >>> x = np.asarray([[0.0], [2.0], [8.0], [12.0]])
    >>> bounds = SizeBounds.for_stream(2, lower=0.8)
    >>> state = init_minibatch(np.asarray([[1.0], [9.0]]), bounds)
    >>> found = minibatch_pass(feature_source(x), state, bounds, metric="euclidean")
    >>> found.labels, found.state.centers[:, 0]
    (array([0, 0, 1, 1]), array([ 1., 10.]))
    """
    check_kind("source", source, FeatureSource, "pass feature_source(features)")
    check_kind("state", state, MiniBatchState, "begin with init_minibatch")
    if MOST_ROWS % check_count("batch_size", batch_size, 1):
        msg = (
            f"batch_size must divide {MOST_ROWS}, so that no batch lies on two ranks, "
            f"got {batch_size}. To fix this, take a power of two up to {MOST_ROWS}"
        )
        raise InvalidValueError(msg)
    group, like = source.group, source.rows(0, 0)
    xp = compat.array_namespace(like)
    if weights is not None:
        weights = check_weights("weights", weights, group.n_total)
    labels = [xp.zeros((0,), dtype=xp.int64, device=compat.device(like))]
    for turn in turns_of(group, like=state.means):
        if turn.is_own:
            for first, last in row_blocks(turn.stop - turn.start, batch_size):
                start, stop = turn.start + first, turn.start + last
                own = None
                if weights is not None:
                    own = weights[group.first_row + start : group.first_row + stop]
                rows = source.rows(start, stop)
                step = minibatch_step(rows, state, bounds, metric=metric, weights=own, empty=empty)
                state = step.state
                labels.append(step.labels)
        state = _handed_on(group, turn, state)
    return MiniBatchStep(xp.concat(labels), state)


def _handed_on(group: Group, turn: Turn, state: MiniBatchState) -> MiniBatchState:
    """Return the state of the rank whose turn it was."""
    if group.is_alone:
        return state
    xp, before = compat.array_namespace(state.means), state.assignment
    rule = state.steps or StepRule(1.0)  # of the others before the first batch: not looked at
    step = float("nan") if before.step_size is None else before.step_size
    whole = (rule.chunk_size, rule.free_sign, rule.mean_over_chunk)
    numbers = (rule.step_size, *(float(number) for number in whole), rule.l1_radius, step)
    arrays = (
        xp.asarray(numbers, dtype=xp.float64, device=compat.device(state.means)),
        *(state.centers, state.means, state.weight),
        *(before.duals.lower, before.duals.upper, before.counts),
    )
    told, centers, means, weight, lower, upper, counts = hand_on(group, turn, arrays)
    size, chunk, sign, mean, radius, step = (float(told[i]) for i in range(6))
    steps = StepRule(size, int(chunk), bool(sign), bool(mean), radius)
    assignment = AssignmentState(
        Duals(lower, upper), before.start, counts, int(xp.sum(counts)), step, steps.free_sign
    )
    return MiniBatchState(centers, means, weight, assignment, steps)
