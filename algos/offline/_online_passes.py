r"""Online passes that serve the offline solver: prices to start from, and labels as a last resort.

Problem 1: good starting prices for ``max sum_i s_{i, y_i}  s.t.  l_k <= n_k <= u_k`` from rows that
one can afford to look at several times (`learn_prices`).

The online step moves the price of a cluster by its count minus its aim (`duals`). A cap or a
completion would hide from it how wrong a price is, so these passes use `online.relaxed`, and
smaller steps from one to the next. The rows come in steps of the golden ratio through the data, so
that neighbors in the order lie far apart, and rows sorted by class do not meet cold prices one
class after the other.

Problem 2: where so many clusters nearly tie that the candidates which memory holds allow no labels
inside the bounds, still end with such labels, and with a proof of how good they are, at the cost of
two passes and the memory of one block (`assign_in_passes`):

1. *Learn* in one pass under relaxed bounds, from prices that are good already, with steps so small
   that they hardly leave them.
2. *Enforce* the bounds in a second pass, which labels all rows; those that one cluster alone may
   take have their room there (`_forced_rows`).
3. *Prove*: each pass adds up the dual value of the prices that it starts from, block by block
   beside the labels, ``D(pi) = sum_i max_k (s_ik + pi_k) - sum_k pi+_k l_k + sum_k pi-_k u_k``; the
   smaller is the upper bound.

=====================  ===============  =======  =================================================
paper                  here             shape    meaning
=====================  ===============  =======  =================================================
:math:`s_{i,k}`        ``source``       (n, k)   read in blocks of rows, in order
:math:`\rho - \rho'`   ``prices``       (k,)     in units of score, float64
:math:`D(\pi)`         ``upper_bound``  ()       no labels inside the bounds are worth more
\-                     ``scale``        ()       how far scores of one row differ
=====================  ===============  =======  =================================================
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from itertools import pairwise
from operator import add
from typing import NamedTuple

import array_api_compat as compat

from ..bounds.sizes import SizeBounds, price_of_bounds
from ..core.reads import read, unread
from ..core.segments import segment_sum
from ..core.types import Array
from ..core.workers import map_in_order
from ..online.assignment import AssignmentState, assign, init_state, next_pass, relaxed
from ..online.certificates import violation
from ..online.duals import DualRule, Duals, update_duals
from ..online.step_sizes import StepRule, measured_steps
from ..scores.blocks import block_rows, row_blocks
from ..scores.nearest import best_clusters
from ..scores.sources import Group, ScoreSource
from ..scores.statistics import score_range, strided_ids
from ..scores.turns import Turn, hand_on, turns_of
from ._forced_rows import FORBIDDEN, assign_remaining, forced_counts, remaining_bounds
from ._options import DEFAULT_OPTIONS, SolverOptions
from ._proof import OfflineAssignment, relative_gap, rounding_of

__all__ = ["assign_in_passes", "learn_prices"]

SHARED_ENTRIES = 2**19
"""Scores of a chunk from which on threads share it out: about 0.2 ms of work."""

PARTS_OF_BLOCK = 4
"""What part of a block threads then take at a time."""


def learn_prices(
    source: ScoreSource,
    bounds: SizeBounds,
    *,
    n_passes: int,
    prices: Array | None = None,
    options: SolverOptions = DEFAULT_OPTIONS,
) -> Array:
    """Return the prices after some online passes over all rows of a source.

    Parameters
    ----------
    source : ScoreSource
        Scores in an order without runs of one class; minus infinity forbids a pair.
    bounds : SizeBounds
        Relaxed, with the number of rows of `source`.
    n_passes : int >= 0
        Each with smaller steps.
    prices : (k,) float64 array, optional
        Where to start; 0 by default.
    options : SolverOptions

    Returns
    -------
    (k,) float64 array

    Raises
    ------
    InvalidValueError
        For NaN or plus infinity, unless threads share the chunks of a pass, which compare scores
        and do not check them: the look at candidates that follows names the row.

    Notes
    -----
    Cost: O(n k) per pass; chunks of `SHARED_ENTRIES` scores or more run on all threads. No
    guarantee; what the prices are worth, `dual_value` says.
    Source: CoKe section 3.2.1 and SeCu supplement section 2; relaxing the bounds is ours.

    Examples
    --------
    >>> import numpy as np
    >>> from dualclust.algos.bounds.sizes import SizeBounds
    >>> from dualclust.algos.online.assignment import relaxed
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
    scale = score_range(source.block(0, min(n, options.range_rows)))
    floor = options.learning_floor

    def clipped(start: int, stop: int) -> Array:
        return xp.clip(source.block(start, stop), min=FORBIDDEN)

    for epoch in range(n_passes):
        steps = measured_steps(bounds, epoch=epoch, kappa_floor=floor, scale=scale)
        state = next_pass(state)
        if steps.chunk_size * source.n_clusters >= SHARED_ENTRIES:
            state = state._replace(duals=_shared_pass(source, bounds, state.duals, steps))
            continue
        # Each block's labels wait for those before it; its scores do not.
        for block in source.map_blocks(clipped, like=bounds.lower):
            _, state = assign(block, bounds, state, steps=steps)
    return state.duals.lower - state.duals.upper


def _shared_pass(source: ScoreSource, bounds: SizeBounds, duals: Duals, steps: StepRule) -> Duals:
    """Return the duals after one pass under relaxed bounds, chunk by chunk.

    Samples of a chunk have the same prices, and nothing but these decides on their labels: threads
    share them out.
    """
    xp, n, k = compat.array_namespace(duals.lower), source.group.n_total, source.n_clusters
    rule, like = DualRule.of(bounds, steps), None if source.in_turn else duals.lower
    part = max(block_rows(k, like=duals.lower) // PARTS_OF_BLOCK, 1)
    for first, last in row_blocks(n, steps.chunk_size):
        prices = duals.lower - duals.upper

        def sizes(rows: tuple[int, int], prices: Array = prices) -> Array:
            labels, _ = best_clusters(source.block(*rows), prices)
            return segment_sum(xp.ones_like(labels)[:, None], labels, n_segments=k)[:, 0]

        # Edges at multiples of a part, so that a part lies in one block.
        edges = [first, *range(first // part * part + part, last, part), last]
        counted = map_in_order(sizes, list(pairwise(edges)), like=like)
        duals = update_duals(duals, reduce(add, counted), last - first, rule)
    return duals


def assign_in_passes(
    source: ScoreSource,
    bounds: SizeBounds,
    prices: Array,
    options: SolverOptions = DEFAULT_OPTIONS,
) -> OfflineAssignment | None:
    """Label all rows by online passes, with the gap that the prices prove.

    Parameters
    ----------
    source : ScoreSource
    bounds : SizeBounds
        Of a known number of samples.
    prices : (k,) float64 array
        Good ones; the best that candidates have led to.
    options : SolverOptions

    Returns
    -------
    OfflineAssignment or None
        Labels of this rank's rows, all else of all rows. None if a sample would have to go to a
        cluster that it must not: never where each may join one cluster or all of them, and labels
        inside the bounds exist.

    Notes
    -----
    Guarantee: ``lower <= counts <= upper``, for any scores and prices; how large the gap is depends
    on both. Cost: O(n k) time, on several ranks one after the other (`scores.turns`); O(n) memory
    for the labels.
    Source: CoKe section 3.2.1; SeCu supplement section 2; dual values in the same pass are ours.

    Examples
    --------
    >>> import numpy as np
    >>> from dualclust.algos.bounds.sizes import SizeBounds
    >>> from dualclust.algos.scores.sources import score_source
    >>> source = score_source(np.asarray([[0.9, 0.1], [0.8, 0.1], [0.6, 0.5]]))
    >>> bounds = SizeBounds.from_counts([1, 1], n_samples=3)
    >>> found = assign_in_passes(source, bounds, np.asarray([0.0, 0.1]))
    >>> found.labels, round(found.upper_bound, 3)
    (array([0, 0, 1]), 2.2)
    """
    xp, n = compat.array_namespace(prices), source.group.n_total
    rows = source.take(strided_ids(n, min(n, options.range_rows), prices))
    steps = measured_steps(
        bounds,
        epoch=options.fallback_epoch,
        kappa_floor=options.fallback_floor,
        scale=score_range(rows),
    )
    start = Duals(xp.clip(prices, min=0.0), xp.clip(-prices, min=0.0))
    state = init_state(bounds)._replace(duals=start)
    loose, forced = relaxed(bounds), xp.zeros_like(bounds.lower)

    def learning(block: Array, state: AssignmentState) -> tuple[Array, AssignmentState]:
        nonlocal forced
        forced = forced + forced_counts(block)
        return assign(xp.clip(block, min=FORBIDDEN), loose, state, steps=steps)

    learned = _one_pass(source, bounds, state, learning, steps, keep=False)  # step 1: learn
    forced = xp.sum(source.group.gather(forced[None, :]), axis=0)
    left, is_any = remaining_bounds(bounds, forced), bool(xp.any(forced > 0))
    if left is None:
        return None

    def enforcing(block: Array, state: AssignmentState) -> tuple[Array, AssignmentState]:
        if is_any:
            return assign_remaining(block, left, state, steps)
        return assign(xp.clip(block, min=FORBIDDEN), bounds, state, steps=steps)

    state = next_pass(learned.state)
    last = _one_pass(source, bounds, state, enforcing, steps, keep=True)  # step 2: enforce
    if not math.isfinite(last.objective):
        return None
    # Step 3: prove.
    best = learned if learned.dual <= last.dual else last
    rounding = rounding_of(last.worth + best.size)
    # A difference of two large sums: what rounding can hide of it counts as lost, and the bound
    # lies above that of the prices by as much.
    lost = max(best.dual - last.objective, 0.0) + rounding
    counts = last.state.counts + forced
    return OfflineAssignment(
        labels=last.labels,
        counts=counts,
        prices=best.prices,
        objective=last.objective,
        upper_bound=last.objective + lost,
        rounding=rounding,
        violation=violation(counts, bounds),
        gap=relative_gap(lost, last.worth, last.objective + lost),
        phase="online passes",
    )


_Label = Callable[[Array, AssignmentState], tuple[Array, AssignmentState]]
"""Labels of a block of rows, and the state after it."""


class _Pass(NamedTuple):
    """Labels of this rank; the value of all labels, and the dual value of the prices at the start.

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
    bounds: SizeBounds,
    state: AssignmentState,
    label: _Label,
    steps: StepRule,
    *,
    keep: bool,
) -> _Pass:
    """Label all rows, whether the labels are kept or not, and price all rows under `bounds`."""
    xp, group = compat.array_namespace(bounds.lower), source.group
    prices = state.duals.lower - state.duals.upper
    bound = price_of_bounds(prices, bounds)
    sums = _Sums(0.0, bound, 0.0, abs(bound))
    labels = [xp.zeros((0,), dtype=xp.int64, device=compat.device(prices))]
    for turn in turns_of(group, like=prices):
        if turn.is_own:
            y, state, sums = _one_turn(source, prices, state, sums, label, turn)
            if keep:
                labels.append(y)
        state, sums = _handed_on(group, turn, state, sums, steps)
    objective, bound, worth, size = read(*sums)
    return _Pass(
        labels=xp.concat(labels),
        objective=objective,
        worth=worth,
        prices=prices,
        dual=bound,
        size=worth + size,
        state=state,
    )


class _Sums(NamedTuple):
    """Value of the labels, dual value, and the sizes of the terms of both, of the rows so far."""

    objective: Array | float
    bound: Array | float
    worth: Array | float
    size: Array | float


def _one_turn(
    source: ScoreSource,
    prices: Array,
    state: AssignmentState,
    sums: _Sums,
    label: _Label,
    turn: Turn,
) -> tuple[Array, AssignmentState, _Sums]:
    """Label and price some rows of this rank, block by block."""
    xp, labels = compat.array_namespace(prices), []
    rows = turn.start, turn.stop
    for block in source.map_blocks(source.block, like=prices, within=rows):
        y, state = label(block, state)
        value = xp.astype(xp.take_along_axis(block, y[:, None], axis=1), xp.float64)
        _, best = best_clusters(block, prices)
        added = (xp.sum(v) for v in (value, best, xp.abs(value), xp.abs(best)))
        sums = _Sums(*(so_far + unread(more) for so_far, more in zip(sums, added, strict=True)))
        labels.append(y)
    return xp.concat(labels), state, sums


def _handed_on(
    group: Group, turn: Turn, state: AssignmentState, sums: _Sums, steps: StepRule
) -> tuple[AssignmentState, _Sums]:
    """Return state and sums of the rank whose turn it was."""
    if group.is_alone:
        return state, sums
    xp, device = compat.array_namespace(state.counts), compat.device(state.counts)
    numbers = xp.asarray(read(*sums), dtype=xp.float64, device=device)
    handed = (numbers, state.duals.lower, state.duals.upper, state.counts)
    numbers, lower, upper, counts = hand_on(group, turn, handed)
    duals, seen = Duals(lower, upper), int(xp.sum(counts))
    state = AssignmentState(duals, state.start, counts, seen, steps.step_size, steps.free_sign)
    return state, _Sums(*(numbers[i] for i in range(4)))
