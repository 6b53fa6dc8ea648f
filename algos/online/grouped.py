r"""Online assignment of samples to clusters inside bounds on clusters and on groups in them.

Problem: as in `assignment`, and sample i has a group ``g_i``, or none. With the bounds of
`bounds.groups`, each sample gets a label at once, in order to

maximize ``sum_i s_{i, y_i}``  subject to  ``l_k <= n_k <= u_k``,  ``L_gk <= n_gk <= U_gk``.

Each cluster has a price, and each group in each cluster has one that comes on top,

``y_i = argmax_k  s_ik + p_k + q_{g_i k}``,

and both move as in `duals`: after m samples, ``m_g`` of group g, that of a group in a cluster by

``rho_gk  <- max(0, rho_gk  - h_g (c_gk - m_g L_gk / n_g))``
``rho'_gk <- max(0, rho'_gk + h_g (c_gk - m_g U_gk / n_g))``     ``q_gk = rho_gk - rho'_gk``

with ``h_g`` of `group_rule`.

If the samples of each group, ``n_g``, are known, a row joins the best of the clusters that leave
*some* way to end inside all bounds (`_group_plan`). That is cap and completion of `assignment` at
once, and equal to them where no bound on a group binds. Without ``n_g`` no rule can keep the
bounds (docs/math/completion.md).

==============  ================  ==========  ====================================================
symbol          here              shape       meaning
==============  ================  ==========  ====================================================
:math:`p_k`     ``prices[0]``     (k,)        in units of score
:math:`q_{gk}`  ``prices[1]``     (G, k)      added for samples of group g
:math:`n_{gk}`  ``group_counts``  (G + 1, k)  labels of this pass so far; the last row: no group
:math:`x_{gk}`  ``plan``          (G + 1, k)  counts inside all bounds that a pass can end with
==============  ================  ==========  ====================================================
"""

from __future__ import annotations

import math
from typing import NamedTuple

import array_api_compat as compat

from ..bounds.groups import GroupBounds, check_counts_exist
from ..bounds.sizes import SizeBounds
from ..core.checks import (
    check_finite,
    check_integral,
    check_kind,
    check_pair,
    check_same_place,
    check_shape,
)
from ..core.errors import InvalidValueError
from ..core.reads import entries, read
from ..core.segments import segment_counts
from ..core.types import Array
from ._group_plan import GroupPlan
from .assignment import (
    STREAM_SAMPLES_PER_CLUSTER,
    AssignmentState,
    check_arguments,
    check_stream_bounds,
    init_state,
    raise_not_finite,
    remaining_samples,
)
from .duals import DualRule, Duals, update_duals
from .step_sizes import StepRule, measured_steps

__all__ = [
    "GroupedLabels",
    "GroupedState",
    "assign_grouped_stream",
    "group_rule",
    "init_grouped_state",
]

BEGIN = "begin with dualclust.algos.online.init_grouped_state(bounds, groups)"
BOUNDS = "build it by GroupBounds.from_counts or .from_shares"
BLOCK = 2**18  # scores of rows that are priced at once


class GroupedState(NamedTuple):
    """Everything that a stream with groups remembers between two calls.

    Attributes
    ----------
    clusters : AssignmentState
        Prices and counts of the clusters, for `certificates.size_certificate` as well.
    group_duals : Duals of (G, k) float64 arrays
        Prices of groups in clusters.
    group_counts : (G + 1, k) int64 array
        Samples of each group in each cluster in this pass; the last row is of those of no group.
    plan : (G + 1, k) int64 array, or None
        Counts inside all bounds that the pass can end with; None where its length is unknown.
    """

    clusters: AssignmentState
    group_duals: Duals
    group_counts: Array
    plan: Array | None

    @property
    def prices(self) -> tuple[Array, Array]:
        """What is added to scores: (k,) for every sample, (G, k) for those of a group."""
        return (
            self.clusters.duals.lower - self.clusters.duals.upper,
            self.group_duals.lower - self.group_duals.upper,
        )


class GroupedLabels(NamedTuple):
    """Labels of the samples just seen, (n,) int64, and the state after them."""

    labels: Array
    state: GroupedState


def group_rule(groups: GroupBounds, steps: StepRule) -> DualRule:
    """Return how the prices of groups in clusters move, by the step of the clusters' prices.

    Shares are of the samples of each group. A group with a share w of the samples has its step
    times 1 / w, so that its prices rise as much in a pass as those of clusters, but at most times
    ``chunk_size / k``: a sample moves none by more than a chunk moves that of a mean cluster.

    Returns
    -------
    DualRule
        Of (G, k) shares and (G, 1) steps.

    Examples
    --------
    >>> import numpy as np
    >>> rule = group_rule(
    ...     GroupBounds.from_counts(np.asarray([0, 0, 1, -1]), 2, lower=0, upper=1),
    ...     StepRule(0.5, chunk_size=8),
    ... )
    >>> rule.upper_share.tolist(), rule.step_size.tolist()
    ([[0.5, 0.5], [1.0, 1.0]], [[1.0], [2.0]])
    """
    xp = compat.array_namespace(groups.groups)
    sizes = xp.astype(groups.sizes[:-1, None], xp.float64)
    some = xp.clip(sizes, min=1.0)
    lower, upper = (xp.astype(part, xp.float64) / some for part in (groups.lower, groups.upper))
    most = max(1.0, steps.chunk_size / groups.n_clusters)
    # Two arrays are divided: torch multiplies a number by the reciprocal of a tensor.
    times = xp.full_like(some, float(groups.groups.shape[0])) / some
    step_size = steps.step_size * xp.clip(times, max=most)
    return DualRule(lower, xp.where(sizes == 0.0, 1.0, upper), step_size, steps.chunk_size)


def init_grouped_state(
    bounds: SizeBounds,
    groups: GroupBounds,
    *,
    prices: tuple[Array, Array] | None = None,
) -> GroupedState:
    """Return the state before the first sample of a pass.

    Parameters
    ----------
    bounds : SizeBounds
    groups : GroupBounds
        On the library and device of `bounds`, for as many samples and clusters. Where `bounds` are
        of a stream of unknown length, only its shares count, and samples may be some of the past.
    prices : pair of (k,) and (G, k) float64 arrays, optional
        To start from: `GroupedState.prices` of a pass before, or those of
        `offline.grouped.assign_grouped`. 0 by default.

    Raises
    ------
    InfeasibleBoundsError
        If no counts are inside all bounds; the error names groups and clusters that prove it.
    InvalidValueError, InvalidTypeError, DeviceMismatchError
        For arguments that do not fit, and prices that are not finite.
    """
    check_stream_bounds(bounds)
    check_kind("groups", groups, GroupBounds, BOUNDS)
    check_same_place(bounds=bounds.lower, groups=groups.groups)
    check_shape("groups.lower", groups.lower, (groups.n_groups, bounds.n_clusters))
    xp, k = compat.array_namespace(bounds.lower), bounds.n_clusters
    plan = None
    if bounds.n_samples is not None:
        check_shape("groups.groups", groups.groups, (bounds.n_samples,))
        plan = check_counts_exist(bounds, groups)
    clusters = init_state(bounds)
    zeros = xp.astype(xp.zeros_like(groups.lower), xp.float64)
    of_groups = Duals(zeros, zeros)
    if prices is not None:
        check_pair("prices", prices, "arrays, of clusters and of groups")
        p, q = prices
        check_same_place(bounds=bounds.lower, p=p, q=q)
        for name, price, shape in (("prices[0]", p, (k,)), ("prices[1]", q, (groups.n_groups, k))):
            check_shape(name, price, shape)
            check_finite(name, price)
        duals, of_groups = (Duals.of(xp.astype(price, xp.float64)) for price in (p, q))
        clusters = clusters._replace(duals=duals, start=duals)
    device = compat.device(bounds.lower)
    counts = xp.zeros((groups.n_groups + 1, k), dtype=xp.int64, device=device)
    return GroupedState(clusters, of_groups, counts, plan)


def assign_grouped_stream(
    scores: Array,
    bounds: SizeBounds,
    groups: GroupBounds,
    state: GroupedState | None = None,
    *,
    of_rows: Array | None = None,
    steps: StepRule | None = None,
) -> GroupedLabels:
    """Give each sample a cluster, in order, so that sizes and groups end inside their bounds.

    A label depends on the samples up to it, and on how many samples of each group there will be.
    Call it once with all scores, or once per batch with the state of the call before. Another pass
    begins with ``init_grouped_state(bounds, groups, prices=state.prices)``.

    Parameters
    ----------
    scores : (n, k) real array
        As in `assign`.
    bounds : SizeBounds
        Of the clusters, on the library and device of `scores`.
    groups : GroupBounds
        Of groups in clusters. Of its `groups` only the number of each is used, but for `of_rows`.
    state : GroupedState, optional
        Where the last call ended; a fresh one by default.
    of_rows : (n,) integer array, optional
        Group of each of these samples; -1: none. By default those of `groups`, in order.
    steps : StepRule, optional
        As in `assign`, for all prices; without `l1_radius` and `mean_over_chunk`.

    Returns
    -------
    labels : (n,) int64 array
        Ties go to the lowest index.
    state : GroupedState

    Raises
    ------
    InfeasibleBoundsError
        As `init_grouped_state`.
    InvalidValueError
        For scores that are not finite, more samples, or more of a group, than there are in a pass,
        a group that is unknown, and a state of other bounds. `state` is unchanged.
    InvalidTypeError, DeviceMismatchError
        As in `assign`.

    Notes
    -----
    Guarantee: after ``bounds.n_samples`` samples all bounds hold, for any scores and any order; and
    a cluster is refused only where it would leave no labels for the rest. For a stream of unknown
    length the prices alone steer, as in `assign`.
    Cost: O(n k), and O(G k) where a row changes the plan, at worst for each row; rows that need
    no change are read in blocks. Memory: O(G k).
    Source: the exchange along circles of a flow; caps and completion with groups are ours
    (docs/math/completion.md). Claims: docs/claims.md#L4.

    Examples
    --------
    Two brothers (group 0) want the same class, which has two places.

    >>> import numpy as np
    >>> scores = np.asarray([[0.9, 0.1], [0.8, 0.6], [0.9, 0.3], [0.2, 0.4]])
    >>> sizes = SizeBounds.from_counts([2, 2], [2, 2], n_samples=4)
    >>> apart = GroupBounds.at_most_one(np.asarray([-1, 0, 0, -1]), 2)
    >>> labels, state = assign_grouped_stream(scores, sizes, apart)
    >>> labels, state.group_counts
    (array([0, 0, 1, 1]), array([[1, 1],
           [1, 1]]))
    """
    check_kind("groups", groups, GroupBounds, BOUNDS)
    state = init_grouped_state(bounds, groups) if state is None else state
    check_kind("state", state, GroupedState, BEGIN)
    xp = check_arguments(scores, bounds, state.clusters, steps)
    check_same_place(scores=scores, bounds=bounds.lower, state=state.group_counts, of_rows=of_rows)
    n, k = scores.shape
    remaining_samples(n, state.clusters, bounds)
    if steps is None:
        n_pass = bounds.n_samples or STREAM_SAMPLES_PER_CLUSTER * k
        steps = measured_steps(bounds, n_samples=n_pass)
    if steps.mean_over_chunk or not math.isinf(steps.l1_radius):
        msg = (
            f"steps must have l1_radius=inf and mean_over_chunk=False with groups, got {steps}. "
            f"To fix this, take measured_steps(bounds)"
        )
        raise InvalidValueError(msg)
    of_rows = _groups_of_rows(state, bounds, groups, of_rows, n)
    plan = _plan_of(state, bounds, groups)
    (duals, of_groups), counts = (state.clusters.duals, state.group_duals), state.group_counts
    rule, own = DualRule.of(bounds, steps), group_rule(groups, steps)
    labels = [of_rows[:0]]
    for first in range(0, n, steps.chunk_size):
        chunk = slice(first, min(first + steps.chunk_size, n))
        q = xp.concat([of_groups.lower - of_groups.upper, xp.zeros_like(duals.lower)[None, :]])
        labels.append(_labels(scores, q + (duals.lower - duals.upper), of_rows, chunk, plan))
        cells = of_rows[chunk] * k + labels[-1]
        taken = xp.reshape(segment_counts(cells, n_segments=counts.shape[0] * k), counts.shape)
        counts = counts + taken
        duals = update_duals(duals, xp.sum(taken, axis=0), chunk.stop - first, rule)
        # The step of m samples with shares l is that of one sample with shares m l.
        m = xp.astype(xp.sum(taken[:-1, :], axis=1, keepdims=True), xp.float64)
        targets = {"lower_share": m * own.lower_share, "upper_share": m * own.upper_share}
        of_groups = update_duals(of_groups, taken[:-1, :], 1, own._replace(**targets))
    before, now = state.clusters, (steps.step_size, steps.free_sign)
    constant = before.step_size is None or now == (before.step_size, before.free_sign)
    clusters = AssignmentState(
        duals,
        before.start,
        xp.sum(counts, axis=0),
        before.seen + n,
        steps.step_size if constant else math.nan,
        steps.free_sign,
    )
    planned = None if plan is None else plan.plan
    return GroupedLabels(xp.concat(labels), GroupedState(clusters, of_groups, counts, planned))


def _groups_of_rows(
    state: GroupedState, bounds: SizeBounds, groups: GroupBounds, of_rows: Array | None, n: int
) -> Array:
    """Return the group of each of the next n rows, G for none, if a pass has so many of each."""
    g, seen = groups.n_groups, state.clusters.seen
    if of_rows is None:
        if bounds.n_samples is None:
            msg = "of_rows must be given for a stream of unknown length, got None"
            msg = f"{msg}. To fix this, pass the group of each of these rows"
            raise InvalidValueError(msg)
        of_rows = groups.groups[seen : seen + n]
    xp = check_integral("of_rows", of_rows)
    check_shape("of_rows", of_rows, (n,))
    ids = xp.astype(of_rows, xp.int64)
    if n == 0:
        return ids
    least, most = (int(number) for number in read(xp.min(ids), xp.max(ids)))
    if least < -1 or most >= g:
        msg = (
            f"of_rows must lie in [-1, {g}), got values from {least} to {most}"
            ". To fix this, number the groups as in groups"
        )
        raise InvalidValueError(msg)
    ids = xp.where(ids < 0, xp.full_like(ids, g), ids)
    if bounds.n_samples is not None:
        now = segment_counts(ids, n_segments=g + 1)
        left = entries("left", groups.sizes - xp.sum(state.group_counts, axis=1) - now)
        if min(left) < 0:
            worst = left.index(min(left))
            name = f"group {worst}" if worst < g else "no group"
            msg = (
                f"of_rows must have no more rows of a group than are left in the pass, got "
                f"{-left[worst]} more of {name}. To fix this, count the groups of the whole pass "
                f"in groups"
            )
            raise InvalidValueError(msg)
    return ids


def _plan_of(state: GroupedState, bounds: SizeBounds, groups: GroupBounds) -> GroupPlan | None:
    """Return the plan of a pass of known length, which must be one under these bounds."""
    if bounds.n_samples is None:
        return None
    if state.plan is not None and tuple(state.plan.shape) == tuple(state.group_counts.shape):
        plan = GroupPlan(state.group_counts, state.plan, bounds, groups)
        if plan.is_inside():
            return plan
    msg = (
        "state must come from a pass under the same bounds, got one whose plan is outside of these"
        f". To fix this, keep the bounds for a pass, or {BEGIN}"
    )
    raise InvalidValueError(msg)


def _labels(
    scores: Array, prices: Array, of_rows: Array, chunk: slice, plan: GroupPlan | None
) -> Array:
    """Label the rows of a chunk at the prices of each group, the last of no group."""
    xp, rows = compat.array_namespace(scores), max(1, BLOCK // scores.shape[1])
    labels = []
    for first in range(chunk.start, chunk.stop, rows):
        part = slice(first, min(first + rows, chunk.stop))
        block = xp.astype(scores[part, :], xp.float64)
        is_finite = xp.all(xp.isfinite(block), axis=1)
        if not bool(xp.all(is_finite)):
            raise_not_finite(scores, first + int(xp.argmin(xp.astype(is_finite, xp.int8))))
        priced = block + xp.take(prices, of_rows[part], axis=0)
        best = xp.argmax(priced, axis=1) if plan is None else plan.labels(priced, of_rows[part])
        labels.append(best)
    return xp.concat(labels)
