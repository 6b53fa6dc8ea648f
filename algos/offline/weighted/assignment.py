r"""Labels of rows with sizes: loads inside their bounds, or off by one row, and a proof.

Problem: sample i has the size ``w_i`` (`bounds.loads`); find labels that

maximize ``sum_i s_{i, y_i}``   subject to   ``L_k <= N_k <= U_k``,   ``N_k = sum_{y_i = k} w_i``.

Whether any exist is NP-hard to say. What is found instead, and proven for each result:

1. *Program*: the best labels that may share rows out among clusters, and prices of a unit of load:
   no labels inside are worth more than its dual value (`_search`). At most k - 1 rows are shared.
2. *Rounding*: each shared row goes to one of its clusters, so that labels are worth as much as the
   program, and each load is inside up to the size of one row (`_program`).
3. *Repair*: moves and swaps that bring all loads inside, at little loss, if they find any.
4. *Whole program*, where it is asked for and small: the best labels inside by branch and bound.

Rows that all have one size are the plain problem: its labels, as they are.

==============  =================  ======  =====================================================
paper           here               shape   meaning
==============  =================  ======  =====================================================
:math:`s_{ik}`  ``scores``         (n, k)  minus infinity forbids a pair
:math:`w_i`     ``bounds.sizes``   (n,)    count in the bounds
\-              ``weights``        (n,)    count in the objective
:math:`\pi_k`   ``prices``         (k,)    of a unit of load; a row wants most s_ik + w_i pi_k
==============  =================  ======  =====================================================
"""

from __future__ import annotations

import math
from typing import NamedTuple

import array_api_compat as compat

from ...bounds.loads import LOAD_ROUNDING, LoadBounds, loads_of
from ...bounds.sizes import SizeBounds
from ...core.checks import (
    check_interval,
    check_kind,
    check_per_cluster,
    check_shape,
)
from ...core.errors import InfeasibleBoundsError, InvalidValueError
from ...core.precision import times_power_of_two
from ...core.reads import entries, read
from ...core.segments import segment_counts
from ...core.types import Array
from ...scores.sources import ScoreSource, largest_score
from ...scores.statistics import (
    FAR,
    ScoresOutOfRangeError,
    in_range,
    places_of,
    rescaled,
    source_of_one_rank,
    strided_ids,
)
from .._proof import in_unit, relative_gap, rounding_of
from .._whole_program import best_whole
from ..assignment import assign_source
from ._problem import Problem, problem_of
from ._program import rounded
from ._repair import repaired
from ._search import Found, solved

__all__ = ["WeightedAssignment", "assign_weighted"]

MOST_EXACT = 2**14
"""Scores of a problem that branch and bound may solve: n k of them."""

REPAIRED = 2**18, 2**21
"""Scores that a repair sees at first, and if it fails: of all rows, or of some from all over."""


class WeightedAssignment(NamedTuple):
    """Labels, the loads of clusters, and what is proven of both.

    Attributes
    ----------
    labels : (n,) int64 array
    counts : (k,) int64 array
        Samples of each cluster.
    loads : (k,) float64 array
        Sum of their sizes.
    overload : (k,) float64 array
        How far each load is outside its bounds: above the upper one where it is positive, below
        the lower one where it is negative, 0 inside.
    n_shared : int
        Rows that the program shares out among clusters, at most k - 1; all others have the label
        that it gives them, unless a repair moved them.
    prices : (k,) float64 array
        Of a unit of load, in units of score: a sample wants the cluster of its largest
        ``s_ik + w_i p_k``.
    objective : float
        ``sum_i s_{i, y_i}``; weighted if there are weights.
    upper_bound : float
        No labels with loads inside are worth more. Labels whose loads are not may be.
    rounding : float
        By how much the additions can be off that led to either.
    gap : float
        What labels inside can be worth more, at most, relative to ``sum_i |s_{i, y_i}|``; 0 where
        these are worth as much as the bound, or more.
    """

    labels: Array
    counts: Array
    loads: Array
    overload: Array
    n_shared: int
    prices: Array
    objective: float
    upper_bound: float
    rounding: float
    gap: float

    @property
    def status(self) -> str:
        """Of all loads: "inside" their bounds, or "inside up to one row"."""
        xp = compat.array_namespace(self.overload)
        return "inside up to one row" if bool(xp.any(self.overload != 0.0)) else "inside"


def assign_weighted(
    scores: Array | ScoreSource,
    bounds: LoadBounds,
    *,
    weights: Array | None = None,
    prices: Array | None = None,
    repair: bool = True,
    exact: bool = False,
    time_limit: float = 60.0,
) -> WeightedAssignment:
    """Find good labels whose loads are inside their bounds, or off by one row at most.

    Parameters
    ----------
    scores : (n, k) real array, or ScoreSource
        Finite, or minus infinity where a sample must not go. A source of one rank.
    bounds : LoadBounds
        Sizes of the samples, which count in the bounds, and the bounds, on the library and device
        of `scores`.
    weights : (n,) real array, optional
        At least 0; they count in the objective, ``sum_i v_i s_{i, y_i}``, and nowhere else.
    prices : (k,) float64 array, optional
        Where to start, such as those of a similar problem.
    repair : bool
        Whether to seek loads wholly inside. Without it labels are worth at least as much as the
        program, and loads are inside up to one row.
    exact : bool
        Whether to seek the best labels inside by branch and bound (HiGHS): of at most 16,384
        scores, n k of them. What is done without comes first.
    time_limit : float >= 0
        Seconds of that search, after which the best labels so far are returned, with their gap.

    Returns
    -------
    WeightedAssignment

    Raises
    ------
    InfeasibleBoundsError
        If no labels have loads inside, whole or in parts, or `exact` has shown that none have.
    InvalidValueError, InvalidTypeError, DeviceMismatchError
        For NaN, plus infinity, and shapes, dtypes or places that do not fit.

    Notes
    -----
    Guarantee: each load is inside its bounds, or off by less than the size of one of its shared
    rows; the objective is that of the program, `upper_bound`, or more, unless a repair has moved
    rows; the gap is proven. All to the tolerance of HiGHS, 1e-7 of the largest size. Bounds hold to
    2^-40 of the sum of sizes. If all sizes are the same, the result is that of `assign_exact`.
    Cost: a few passes over the scores and linear programs of some rows for each cluster.
    Source: Shmoys and Tardos, An approximation algorithm for the generalized assignment problem,
    Math. Programming 62, 1993; the method is ours (docs/decisions/0083-weights.md).
    Claims: docs/claims.md#R9.

    Examples
    --------
    Two trucks carry 90 each. All stops are nearer to the first.

    >>> import numpy as np
    >>> nearness = np.asarray([[5.0, 1.0], [4.0, 2.0], [3.0, 2.5], [6.0, 2.0]])
    >>> demand = np.asarray([50.0, 40.0, 30.0, 40.0])
    >>> found = assign_weighted(nearness, LoadBounds.from_loads(demand, 2, upper=90.0))
    >>> found.labels, found.loads, found.status
    (array([0, 1, 1, 0]), array([90., 70.]), 'inside')
    """
    check_kind("bounds", bounds, LoadBounds, "build it by LoadBounds.from_loads or .from_ratios")
    check_interval("time_limit", time_limit, 0.0, math.inf)
    for name, choice in (("repair", repair), ("exact", exact)):
        check_kind(name, choice, bool, "give True or False")
    source = source_of_one_rank(scores, weights, bounds=bounds.lower, prices=prices)
    n, k = source.group.n_total, source.n_clusters
    check_shape("bounds.sizes", bounds.sizes, (n,))
    check_shape("bounds.lower", bounds.lower, (k,))
    prices = check_per_cluster("prices", prices, k)
    if exact and n * k > MOST_EXACT:
        msg = f"exact must be of at most {MOST_EXACT} scores, got n k = {n * k}"
        msg = f"{msg}. To fix this, leave it out: the gap says how far labels are from the best"
        raise InvalidValueError(msg)
    size = bounds.common_size
    if size is not None:
        return _plain(source, bounds, size, prices)
    source = in_range(source, strided_ids(n, min(n, 2**10), bounds.lower)) if n else source
    try:
        return _of(source, bounds, prices, repair=repair, seconds=time_limit if exact else None)
    except ScoresOutOfRangeError:  # a row that the sample did not have
        source = rescaled(source)
        return _of(source, bounds, prices, repair=repair, seconds=time_limit if exact else None)


def _plain(
    source: ScoreSource, bounds: LoadBounds, size: float, prices: Array | None
) -> WeightedAssignment:
    """Rows of one size: bounds on loads are bounds on counts."""
    n, xp = source.group.n_total, compat.array_namespace(bounds.lower)
    sides = (entries("loads", side) for side in (bounds.lower, bounds.upper))
    low, high = ([min(v / size, 2.0 * n) for v in side] for side in sides)
    counts = SizeBounds.from_counts(
        [math.ceil(v * (1.0 - LOAD_ROUNDING)) for v in low],
        [math.floor(v * (1.0 + LOAD_ROUNDING)) for v in high],
        n_samples=n,
        xp=xp,
        device=compat.device(bounds.lower),
    )
    start = None if prices is None else prices * size
    found = assign_source(source, counts, prices=start, tol=0.0)
    return WeightedAssignment(
        labels=found.labels,
        counts=found.counts,
        loads=loads_of(bounds.sizes, found.labels, source.n_clusters),
        overload=xp.zeros_like(bounds.lower),
        n_shared=0,
        prices=found.prices / size,
        objective=found.objective,
        upper_bound=found.upper_bound,
        rounding=found.rounding,
        gap=found.gap,
    )


def _of(
    source: ScoreSource,
    bounds: LoadBounds,
    prices: Array | None,
    *,
    repair: bool,
    seconds: float | None,
) -> WeightedAssignment:
    """Steps 1 to 4, in the unit of the source."""
    problem, unit = problem_of(source, bounds)
    power = math.frexp(unit)[1] - 1
    if prices is not None:
        xp = compat.array_namespace(prices)
        (most,) = read(xp.max(xp.abs(prices)))
        is_near = (
            math.isfinite(most) and math.frexp(most)[1] + power - source.exponent <= FAR
        )  # else as if none came
        prices = times_power_of_two(prices, power - source.exponent) if is_near else None
    found = solved(problem, prices)
    labels = _rounded(found)
    if repair:
        labels = _inside(problem, labels)
    bound = found.bound
    if seconds is not None:
        labels, bound = _whole(problem, labels, bound, seconds)
    return _result(problem, bounds, found, labels, bound, power)


def _rounded(found: Found) -> Array:
    """Step 2: labels of which those of shared rows are whole."""
    return _changed(found.labels, [row.row for row in found.shared], rounded(found.shared))


def _changed(labels: Array, rows: list[int], targets: list[int]) -> Array:
    """Return labels of which some are others."""
    xp = compat.array_namespace(labels)
    ids = xp.arange(labels.shape[0], dtype=xp.int64, device=compat.device(labels))
    for row, target in zip(rows, targets, strict=True):
        labels = xp.where(ids == row, xp.full_like(labels, target), labels)
    return labels


def _is_inside(problem: Problem, loads: Array) -> bool:
    xp = compat.array_namespace(loads)
    return not bool(xp.any((loads < problem.lower) | (loads > problem.upper)))


def _inside(problem: Problem, labels: Array) -> Array:
    """Step 3: labels with all loads inside, if some rows allow them."""
    xp, k = compat.array_namespace(labels), problem.source.n_clusters
    loads, n = loads_of(problem.sizes, labels, k), int(labels.shape[0])
    if _is_inside(problem, loads):
        return labels
    for most in REPAIRED:
        ids = strided_ids(n, min(n, max(most // k, 1)), labels)
        some, sizes = xp.take(labels, ids), xp.take(problem.sizes, ids)
        scores = xp.astype(problem.source.take(ids), xp.float64)
        moved = repaired(scores, sizes, some, loads, problem.lower, problem.upper)
        if moved is not None:
            places = places_of(moved != some)
            rows, targets = (entries("rows", xp.take(part, places)) for part in (ids, moved))
            return _changed(labels, rows, targets)
        if n * k <= most:
            break
    return labels


def _whole(problem: Problem, labels: Array, bound: float, seconds: float) -> tuple[Array, float]:
    """Step 4: the best labels inside, or the better of those that are known, and a bound."""
    xp, n, k = compat.array_namespace(labels), labels.shape[0], problem.source.n_clusters
    ids = xp.arange(n, dtype=xp.int64, device=compat.device(labels))
    scores = xp.astype(problem.source.take(ids), xp.float64)
    flat = entries("scores", xp.reshape(scores, (-1,)))
    values = [flat[i * k : (i + 1) * k] for i in range(n)]
    low, high = (entries("loads", side) for side in (problem.lower, problem.upper))
    sizes = entries("sizes", problem.sizes)
    best, most, _ = best_whole(values, sizes, low, high, seconds=seconds)
    if most is None:
        msg = "no labels have loads inside the bounds: branch and bound has looked at all of them"
        msg = f"{msg}. To fix this, widen the bounds"
        raise InfeasibleBoundsError(msg)
    bound = min(bound, most)
    if best is None:
        return labels, bound
    found = xp.asarray(best, dtype=xp.int64, device=compat.device(labels))
    if not _is_inside(problem, loads_of(problem.sizes, found, k)):
        return labels, bound  # by the tolerance of HiGHS
    known = entries("labels", labels)
    is_inside = _is_inside(problem, loads_of(problem.sizes, labels, k))
    worth = [math.fsum(row[j] for row, j in zip(values, y, strict=True)) for y in (best, known)]
    return (labels, bound) if is_inside and worth[1] >= worth[0] else (found, bound)


def _result(
    problem: Problem, bounds: LoadBounds, found: Found, labels: Array, bound: float, power: int
) -> WeightedAssignment:
    """Return loads, values and prices in the units of the caller."""
    xp, k = compat.array_namespace(labels), problem.source.n_clusters
    moved = places_of(labels != found.labels)
    change, size = 0.0, found.size
    if moved.shape[0]:
        scores = xp.astype(problem.source.take(moved), xp.float64)
        was, now = (
            xp.take_along_axis(scores, xp.take(y, moved)[:, None], axis=1)
            for y in (found.labels, labels)
        )
        change, more = read(xp.sum(now - was), xp.sum(xp.abs(now) - xp.abs(was)))
        size = size + more
    objective = found.objective + change
    loads = loads_of(bounds.sizes, labels, k)
    slack = LOAD_ROUNDING * math.fsum(entries("loads", loads))
    over = xp.where(loads > bounds.upper + slack, loads - bounds.upper, xp.zeros_like(loads))
    over = xp.where(loads < bounds.lower - slack, loads - bounds.lower, over)
    if not bool(xp.any(over != 0.0)):
        bound = max(bound, objective)
    rounding = 2.0 * rounding_of(size + abs(bound))
    lost = max(bound - objective, 0.0)
    result = in_unit(
        WeightedAssignment(
            labels=labels,
            counts=segment_counts(labels, n_segments=k),
            loads=loads,
            overload=over,
            n_shared=len(found.shared),
            prices=found.prices,
            objective=objective,
            upper_bound=bound,
            rounding=rounding,
            gap=relative_gap(lost if lost > rounding else 0.0, size, bound),
        ),
        problem.source.exponent,
    )
    try:
        math.ldexp(largest_score(result.prices), -power)
    except OverflowError:
        msg = "sizes must have prices of a unit that float64 holds, got some of more than 1e308"
        msg = f"{msg}. To fix this, multiply sizes and bounds by the same number"
        raise InvalidValueError(msg) from None
    return result._replace(prices=times_power_of_two(result.prices, -power))
