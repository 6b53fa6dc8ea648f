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

from collections.abc import Iterator
from typing import NamedTuple

import array_api_compat as compat

from ..bounds.sizes import SizeBounds
from ..core.checks import check_count, check_kind, check_same_place
from ..core.errors import DualclustError, InvalidValueError
from ..core.reads import entries
from ..core.types import Array
from ..online.assignment import AssignmentState
from ..online.duals import Duals
from ..online.step_sizes import StepRule
from ..scores.blocks import MOST_ROWS, map_blocks
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
        As `minibatch_step`, on all ranks alike; for values of rows with the rows of the batch.

    Notes
    -----
    Guarantee: the bits do not depend on the number of ranks. Cost O(n k d), one rank after the
    other: ranks share out the reading and the memory, and save no time. Inside `workers`, threads
    read batches ahead; each is labeled after those before it. Memory: one batch, or as many as are
    read ahead, and the labels. Source: CoKe Eq. 10, 11 and 13; turns of ranks are ours.

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
    if MOST_ROWS % check_count("batch_size", batch_size, 1):
        msg = (
            f"batch_size must divide {MOST_ROWS}, so that no batch lies on two ranks, "
            f"got {batch_size}. To fix this, take a power of two up to {MOST_ROWS}"
        )
        raise InvalidValueError(msg)
    group, like = source.group, source.rows(0, 0)
    xp = compat.array_namespace(like)
    # What is wrong with the arguments is so on all ranks: each says it before the first turn.
    minibatch_step(like, state, bounds, metric=metric, empty=empty)
    check_same_place(features=like, weights=weights)
    if weights is not None:
        weights = check_weights("weights", weights, group.n_total)
    labels = [xp.zeros((0,), dtype=xp.int64, device=compat.device(like))]
    for turn in turns_of(group, like=state.means):
        error: DualclustError | None = None
        if turn.is_own:
            try:
                for batch in _batches(source, turn, batch_size, weights):
                    step = _step(batch, state, bounds, metric=metric, empty=empty)
                    state = step.state
                    labels.append(step.labels)
            except DualclustError as wrong:
                error = wrong
        _raise_together(group, error, like=state.means)
        state = _handed_on(group, turn, state)
    return MiniBatchStep(xp.concat(labels), state)


class _Batch(NamedTuple):
    """Rows of all ranks from `first` on, and their weights."""

    first: int
    rows: Array
    weights: Array | None


def _batches(
    source: FeatureSource, turn: Turn, batch_size: int, weights: Array | None
) -> Iterator[_Batch]:
    """Yield the batches of a turn; the threads of the caller read ahead."""

    def batch(first: int, last: int) -> _Batch:
        start, stop = turn.start + first, turn.start + last
        place = source.group.first_row + start
        own = None if weights is None else weights[place : place + stop - start]
        return _Batch(place, source.rows(start, stop), own)

    return map_blocks(batch, turn.stop - turn.start, batch_size, like=source.rows(0, 0))


def _step(
    batch: _Batch, state: MiniBatchState, bounds: SizeBounds, *, metric: str, empty: str
) -> MiniBatchStep:
    """Label a batch; an error says which rows of all ranks it has met."""
    first, rows, weights = batch
    try:
        return minibatch_step(rows, state, bounds, metric=metric, weights=weights, empty=empty)
    except InvalidValueError as error:
        msg = (
            f"the batch of rows {first} to {first + rows.shape[0] - 1} cannot be added: {error}"
            ". To fix this, look at these rows"
        )
        raise InvalidValueError(msg) from error


def _raise_together(group: Group, error: DualclustError | None, *, like: Array) -> None:
    """Raise on every rank what one of them has met in its turn, for which the others wait."""
    if not group.is_alone:
        xp = compat.array_namespace(like)
        codes = [] if error is None else [ord(letter) for letter in str(error)]
        own = xp.asarray(codes, dtype=xp.int64, device=compat.device(like))
        text = "".join(map(chr, entries("text", group.gather(own))))
        if error is None and text:
            raise InvalidValueError(text)
    if error is not None:
        raise error


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
