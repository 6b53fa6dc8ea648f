r"""Labels of two online passes, with a proof: the last resort, in the memory of one block.

Problem: where so many clusters nearly tie that the candidates which memory holds allow no labels
inside the bounds, still end with such labels, and with a proof of how good they are
(`assign_in_passes`):

1. *Learn* in one pass under relaxed bounds, from prices that are good already, with steps so small
   that they hardly leave them.
2. *Enforce* the bounds in a second pass, which labels all rows.
3. *Prove*: each pass adds up the dual value of the prices that it starts from, block by block
   beside the labels, ``D(pi) = sum_i max_k (s_ik + pi_k) - sum_k pi+_k l_k + sum_k pi-_k u_k``; the
   smaller is the upper bound.

A *singleton* is a row that one cluster alone may take. An online pass reserves rows for unmet lower
bounds, but not for singletons, which could then be forced into a forbidden cluster. So the first
pass counts singletons (`singleton_counts`); the others are labeled under bounds less these counts
(`remaining_bounds`), and singletons by their cluster (`assign_remaining`). If the others may go
anywhere, caps and completion now end inside the bounds for any scores.

=====================  ===============  =======  =================================================
paper                  here             shape    meaning
=====================  ===============  =======  =================================================
:math:`s_{i,k}`        ``source``       (n, k)   read in blocks of rows; minus infinity forbids
:math:`\rho - \rho'`   ``prices``       (k,)     in units of score, float64
:math:`D(\pi)`         ``upper_bound``  ()       no labels inside the bounds are worth more
:math:`f_k`            ``singletons``   (k,)     rows with one finite score, in column k
:math:`l_k - f_k`      ``lower``        (k,)     of `remaining_bounds`, at least 0
=====================  ===============  =======  =================================================
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import array_api_compat as compat

from ..bounds.sizes import SizeBounds, price_of_bounds
from ..core.reads import on_host, read, unread
from ..core.segments import segment_counts
from ..core.types import Array
from ..online.assignment import AssignmentState, assign, init_state, next_pass, relaxed
from ..online.certificates import violation
from ..online.duals import Duals
from ..online.step_sizes import StepRule, measured_steps
from ..scores.nearest import best_clusters
from ..scores.sources import Group, ScoreSource
from ..scores.statistics import score_range, strided_ids
from ..scores.turns import Turn, hand_on, turns_of
from ._online_prices import FORBIDDEN
from ._options import DEFAULT_OPTIONS, SolverOptions
from ._proof import OfflineAssignment, relative_gap, rounding_of

__all__ = ["assign_in_passes", "assign_remaining", "remaining_bounds", "singleton_counts"]

EPOCH, FLOOR = 8, 0.02
"""Epoch whose small steps the passes take, and the rise of the price of a starved cluster in ranges
of scores: they hardly leave the prices given."""


def assign_in_passes(
    source: ScoreSource,
    bounds: SizeBounds,
    prices: Array,
    options: SolverOptions = DEFAULT_OPTIONS,
    *,
    learns: bool = True,
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
    learns : bool
        Whether step 1 is made. Prices that all rows have led to are mostly good enough without it,
        but singletons are then not known.

    Returns
    -------
    OfflineAssignment or None
        Labels of this rank's rows, all else of all rows. None if a sample would have to go to a
        cluster that it must not: never, with step 1, where each may join one cluster or all of
        them, and labels inside the bounds exist.

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
    scale = score_range(source.take(strided_ids(n, min(n, options.typical_rows), prices)))
    steps = measured_steps(bounds, epoch=EPOCH, kappa_floor=FLOOR, scale=scale)
    start = Duals.of(prices)
    state = init_state(bounds)._replace(duals=start)
    loose, singletons = relaxed(bounds), xp.zeros_like(bounds.lower)

    def learning(block: Array, state: AssignmentState) -> tuple[Array, AssignmentState]:
        nonlocal singletons
        singletons = singletons + singleton_counts(block)
        return assign(xp.clip(block, min=FORBIDDEN), loose, state, steps=steps)

    learned = None
    if learns:
        learned = _one_pass(source, bounds, state, learning, steps, keep=False)  # step 1: learn
        singletons = xp.sum(source.group.gather(singletons[None, :]), axis=0)
        state = next_pass(learned.state)
    left, is_any = remaining_bounds(bounds, singletons), bool(xp.any(singletons > 0))
    if left is None:
        return None

    def enforcing(block: Array, state: AssignmentState) -> tuple[Array, AssignmentState]:
        if is_any:
            return assign_remaining(block, left, state, steps)
        return assign(xp.clip(block, min=FORBIDDEN), bounds, state, steps=steps)

    last = _one_pass(source, bounds, state, enforcing, steps, keep=True)  # step 2: enforce
    if not math.isfinite(last.objective):
        return None
    # Step 3: prove.
    best = last if learned is None or last.dual < learned.dual else learned
    rounding = rounding_of(last.worth + best.size)
    # A difference of two large sums: what rounding can hide of it counts as lost, and the bound
    # lies above that of the prices by as much.
    lost = max(best.dual - last.objective, 0.0) + rounding
    counts = last.state.counts + singletons
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


def singleton_counts(scores: Array) -> Array:
    """Count the rows of a block that one cluster alone may take, (k,) int64.

    Examples
    --------
    >>> import numpy as np
    >>> singleton_counts(np.asarray([[0.5, -np.inf], [0.1, 0.2], [0.3, -np.inf]]))
    array([2, 0])
    """
    xp, (b, k) = compat.array_namespace(scores), scores.shape
    if not b or (k > 1 and on_host(scores) and bool(xp.all(xp.isfinite(scores)))):
        return xp.zeros((k,), dtype=xp.int64, device=compat.device(scores))
    own = xp.astype(xp.argmax(scores, axis=1), xp.int64)
    own = xp.where(_is_singleton(scores), own, xp.full_like(own, k))
    return segment_counts(own, n_segments=k + 1)[:k]


def remaining_bounds(bounds: SizeBounds, singletons: Array) -> SizeBounds | None:
    """Return the bounds of the rows that have a choice.

    Parameters
    ----------
    bounds : SizeBounds
        Of all rows, of a known number.
    singletons : (k,) int64 array
        Singletons of each cluster, of all ranks.

    Returns
    -------
    SizeBounds or None
        None if the singletons alone leave no labels inside the bounds.

    Examples
    --------
    >>> import numpy as np
    >>> bounds = SizeBounds.from_counts([2, 1], [3, 4], n_samples=6)
    >>> left = remaining_bounds(bounds, np.asarray([2, 0]))
    >>> left.lower, left.upper, left.n_samples
    (array([0, 1]), array([1, 4]), 4)
    >>> remaining_bounds(bounds, np.asarray([4, 0])) is None
    True
    """
    xp, n = compat.array_namespace(singletons), bounds.n_samples or 0
    lower, upper = xp.clip(bounds.lower - singletons, min=0), bounds.upper - singletons
    taken, owed, room, least = read(xp.sum(singletons), xp.sum(lower), xp.sum(upper), xp.min(upper))
    n_free, counts = n - int(taken), xp.astype(singletons, xp.float64)
    if least < 0 or not owed <= n_free <= room:
        return None
    low, high = (
        xp.clip((share * n - counts) / max(1, n_free), min=0.0, max=1.0)
        for share in (bounds.lower_share, bounds.upper_share)
    )
    return SizeBounds(low, high, lower, upper, n_free)


def assign_remaining(
    scores: Array, bounds: SizeBounds, state: AssignmentState, steps: StepRule
) -> tuple[Array, AssignmentState]:
    """Label the singletons of a block by their cluster, and the others online.

    Parameters
    ----------
    scores : (b, k) array
    bounds : SizeBounds
        Of `remaining_bounds`.
    state : AssignmentState
        Of the rows that have a choice; singletons do not move it.
    steps : StepRule

    Returns
    -------
    labels : (b,) int64 array
    state : AssignmentState
    """
    xp, b = compat.array_namespace(scores), scores.shape[0]
    singletons = xp.astype(_is_singleton(scores), xp.int64)
    n_free = b - int(read(xp.sum(singletons))[0])
    # Rows with a choice come first by a sort: not every library has boolean indices.
    order = xp.argsort(singletons, stable=True)
    free, rest = order[:n_free], order[n_free:]
    some = xp.clip(xp.take(scores, free, axis=0), min=FORBIDDEN)
    chosen, state = assign(some, bounds, state, steps=steps)
    own = xp.astype(xp.argmax(xp.take(scores, rest, axis=0), axis=1), xp.int64)
    return xp.take(xp.concat([chosen, own]), xp.argsort(order)), state


def _is_singleton(scores: Array) -> Array:
    """Which rows have one finite score, (b,) bool."""
    xp = compat.array_namespace(scores)
    return xp.sum(xp.astype(xp.isfinite(scores), xp.int64), axis=1) == 1
