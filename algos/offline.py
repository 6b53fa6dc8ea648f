r"""Assignment with all samples at hand: learn the prices, then label the confident samples first.

Problem: ``max sum_i s_{i, y_i}  s.t.  l_k <= n_k <= u_k`` again, but the samples may be visited
several times and in any order. Two observations make the online algorithm near-optimal here:

* *Learn prices without enforcing anything.* A cap or a completion hides from the dual how wrong its
  price is. So passes that learn use `bounds.relaxed`; smaller steps refine the prices (`steps`).
* *Label in order of falling margin.* With good prices a few samples are still forced away from
  their choice, the last ones to arrive. In this order those are the samples that lose least by it.

Prices are learned in an order that strides through the rows by the golden ratio, so that rows
sorted by class do not meet cold prices one class after the other. Every result carries its upper
bound.

=====================  ==============  =======  ===================================================
paper                  here            shape    meaning
=====================  ==============  =======  ===================================================
:math:`s_{i,k}`        ``score_rows``  (m, k)   function from ids (m,) to their scores
:math:`\rho - \rho'`   ``prices``      (k,)     in units of score, float64
\-                     ``margins``     (n,)     priced score of the best cluster minus the second
=====================  ==============  =======  ===================================================
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import array_api_compat as compat

from ._typing import Array
from .assignment import AssignmentState, assign, init_state, next_pass
from .bounds import SizeBounds, relaxed
from .certificates import price_of_bounds
from .checks import check_count, check_finite, check_real, check_same_place, check_shape
from .errors import InvalidValueError
from .steps import StepRule, measured_steps

__all__ = ["OfflineAssignment", "assign_offline", "finish", "learn_prices", "top_two"]

ScoreRows = Callable[[Array], Array]

BLOCK_ENTRIES = 2**22  # scores held at a time: 16 MiB in float32
SAMPLE = 1024  # rows on which the range of scores is measured
FROZEN = 2.0**-40  # step of the last pass, in units of scale: prices stand still, and the
# certificate still holds


class OfflineAssignment(NamedTuple):
    """Labels inside their bounds, and how far they can be from the best ones.

    Attributes
    ----------
    labels : (n,) int64 array
    margins : (n,) float64 array
        Priced score of each sample's best cluster minus its second best: how clear the choice is.
        Infinite for one cluster.
    state : AssignmentState
        Of the last pass: prices, counts, and what certifies them.
    objective : float
        ``sum_i s_{i, y_i}``, in units of score.
    upper_bound : float
        No labels inside the bounds have a larger objective.
    """

    labels: Array
    margins: Array
    state: AssignmentState
    objective: float
    upper_bound: float


def assign_offline(
    scores: Array, bounds: SizeBounds, *, n_passes: int = 8, scale: float | None = None
) -> OfflineAssignment:
    """Best labels for a matrix of scores, every cluster size inside its bounds.

    Parameters
    ----------
    scores : (n, k) real array
        Finite, float32 or wider; n = ``bounds.n_samples``.
    bounds : SizeBounds
        On the library and device of `scores`.
    n_passes : int >= 1
        Passes that learn prices; one more gives the labels.
    scale : float > 0, optional
        How far scores of one sample differ between clusters; measured on some rows by default.

    Returns
    -------
    OfflineAssignment

    Raises
    ------
    InvalidValueError, InvalidTypeError, DeviceMismatchError
        As `assign` does.

    Notes
    -----
    Guarantee: ``lower <= counts <= upper``; the gap ``upper_bound - objective`` is proven.
    Cost: O(n k) per pass. Not exact: where the gap matters, look at it.

    Examples
    --------
    Cluster 0 may keep two of three; the one that loses least by moving is the last.

    >>> import numpy as np
    >>> from dualclust.algos.bounds import from_counts
    >>> scores = np.asarray([[0.9, 0.1], [0.8, 0.1], [0.6, 0.5]])
    >>> found = assign_offline(scores, from_counts([1, 1], n_samples=3))
    >>> found.labels, round(found.objective, 3)
    (array([0, 0, 1]), 2.2)
    """
    xp = check_real("scores", scores)
    check_shape("scores", scores, (_known_length(bounds), bounds.n_clusters))
    check_count("n_passes", n_passes, 1)
    check_same_place(scores=scores, bounds=bounds.lower)
    check_finite("scores", scores)

    def score_rows(ids: Array) -> Array:
        return xp.take(scores, ids, axis=0)

    state = init_state(bounds)
    for epoch in range(n_passes):
        _, state = learn_prices(score_rows, bounds, state, epoch=epoch, scale=scale)
    return finish(score_rows, bounds, state)


def learn_prices(
    score_rows: ScoreRows,
    bounds: SizeBounds,
    state: AssignmentState,
    *,
    epoch: int,
    scale: float | None = None,
) -> tuple[Array, AssignmentState]:
    """One pass that moves the prices and enforces nothing.

    Parameters
    ----------
    score_rows : callable
        Maps (m,) int64 ids to their (m, k) scores.
    bounds : SizeBounds of a known number of samples
    state : AssignmentState
        Its prices are where this pass starts.
    epoch : int
        Passes done so far; later ones take smaller steps.
    scale : float > 0, optional
        Of `measured_steps`; by default the mean range of a row, over some rows.

    Returns
    -------
    labels : (n,) int64 array
        In the order of the ids, near the bounds but not inside.
    state : AssignmentState
    """
    n = _known_length(bounds)
    free = relaxed(bounds)
    order = _strided(n, bounds)
    scale = _mean_range(score_rows(order[: min(n, SAMPLE)])) if scale is None else scale
    steps = measured_steps(free, epoch=epoch, kappa_floor=0.05, scale=scale)
    return _pass(score_rows, free, next_pass(state), order, steps)


def finish(score_rows: ScoreRows, bounds: SizeBounds, state: AssignmentState) -> OfflineAssignment:
    """The pass that gives the labels: prices frozen, bounds enforced, confident samples first.

    Parameters as in `learn_prices`. Cost: two passes.
    """
    xp, n = compat.array_namespace(bounds.lower), _known_length(bounds)
    prices = state.duals.lower - state.duals.upper
    margins, bound = [], price_of_bounds(prices, bounds)
    for ids in _blocks(_arange(n, bounds), bounds.n_clusters):
        best, second = top_two(xp.astype(score_rows(ids), xp.float64) + prices)
        margins.append(best - second)
        bound += float(xp.sum(best))
    margin = xp.concat(margins)
    order = xp.argsort(margin, descending=True, stable=True)
    scale = _mean_range(score_rows(_arange(min(n, SAMPLE), bounds)))
    steps = StepRule(FROZEN * scale, n, measured_steps(relaxed(bounds)).free_sign)
    labels, state = _pass(score_rows, bounds, next_pass(state), order, steps)
    value = 0.0
    for ids in _blocks(_arange(n, bounds), bounds.n_clusters):
        own = xp.take_along_axis(score_rows(ids), xp.take(labels, ids)[:, None], axis=1)
        value += float(xp.sum(xp.astype(own, xp.float64)))
    return OfflineAssignment(labels, margin, state, value, bound)


def _pass(
    score_rows: ScoreRows,
    bounds: SizeBounds,
    state: AssignmentState,
    order: Array,
    steps: StepRule,
) -> tuple[Array, AssignmentState]:
    """Assign all samples in the order given; labels come back in the order of the ids."""
    xp = compat.array_namespace(order)
    labels = []
    for ids in _blocks(order, bounds.n_clusters):
        part, state = assign(score_rows(ids), bounds, state, steps=steps)
        labels.append(part)
    return xp.take(xp.concat(labels), xp.argsort(order)), state


def _blocks(ids: Array, k: int) -> Iterator[Array]:
    rows = max(1, BLOCK_ENTRIES // k)
    for i in range(0, ids.shape[0], rows):
        yield ids[i : min(i + rows, ids.shape[0])]


def top_two(values: Array) -> tuple[Array, Array]:
    """Largest and second largest entry of each row; the second is -inf for one column."""
    xp = compat.array_namespace(values)
    first = xp.argmax(values, axis=1)[:, None]
    columns = xp.arange(values.shape[1], dtype=first.dtype, device=compat.device(values))
    others = xp.where(columns == first, -math.inf * xp.ones_like(values), values)
    return xp.max(values, axis=1), xp.max(others, axis=1)


def _mean_range(scores: Array) -> float:
    """Mean over rows of the largest minus the smallest score; 1 where all are equal."""
    xp = compat.array_namespace(scores)
    ranges = xp.astype(xp.max(scores, axis=1) - xp.min(scores, axis=1), xp.float64)
    return float(xp.mean(ranges)) or 1.0


def _strided(n: int, bounds: SizeBounds) -> Array:
    """0 ... n-1 in steps of about n / golden ratio: neighbors in the order lie far apart."""
    stride = max(1, round(n * (math.sqrt(5) - 1) / 2))
    while math.gcd(stride, n) != 1:
        stride += 1
    return (_arange(n, bounds) * stride) % n


def _arange(n: int, bounds: SizeBounds) -> Array:
    xp = compat.array_namespace(bounds.lower)
    return xp.arange(n, dtype=xp.int64, device=compat.device(bounds.lower))


def _known_length(bounds: SizeBounds) -> int:
    if bounds.n_samples is None:
        msg = "bounds must be of a known number of samples, got those of a stream"
        raise InvalidValueError(msg)
    return bounds.n_samples
