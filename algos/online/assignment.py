r"""Online assignment of samples to clusters whose sizes have bounds.

Problem (CoKe Eq. 6, SeCu supplement section 2): samples arrive one by one, with scores ``s_ik``,
and each gets a label ``y_i`` at once, in order to

maximize ``sum_i s_{i, y_i}``   subject to   ``l_k <= n_k <= u_k``,

where ``n_k`` counts the labels ``k``. The method is primal-dual: each cluster has a price, which
rises while the cluster is too small and falls while it is too large,

``y_i = argmax_k  s_ik + rho_k - rho'_k``          CoKe Eq. 10, SeCu supplement section 2

(`duals` has the step that moves the prices.) Prices alone leave some bounds violated. If the number
of samples is known, two rules make the counts end inside the bounds for *any* scores, prices and
order:

* *cap*: a cluster with ``u_k`` samples takes no more;
* *completion*: once ``sum_k max(l_k - n_k, 0)``, the number of samples still owed, equals the
  number of samples left, only clusters below ``l_k`` are chosen. (By feasibility, the samples owed
  never start above the samples left; from then on, each sample lowers both numbers by one.)

====================  ===============  =======  ==================================================
paper                 here             shape    meaning
====================  ===============  =======  ==================================================
:math:`s_{i,k}`       ``scores``       (n, k)   similarity x_i . c_k, or any score to maximize
:math:`\mu_i`         ``labels``       (n,)     index of the one-hot assignment
:math:`\rho, \rho'`   ``state.duals``  (k,)     prices, in units of score
:math:`n_k`           ``counts``       (k,)     labels of this pass so far
====================  ===============  =======  ==================================================
"""

from __future__ import annotations

import math
from typing import NamedTuple

import array_api_compat as compat

from ...backends import kernel
from ..bounds.loads import LoadBounds
from ..bounds.sizes import SizeBounds, check_bounds
from ..core.checks import check_kind, check_real, check_same_place, check_shape, check_values
from ..core.errors import InvalidTypeError, InvalidValueError
from ..core.projections import project_l1_ball
from ..core.reads import read
from ..core.types import Array, Namespace
from .duals import DualRule, Duals, init_duals, update_duals
from .step_sizes import StepRule, measured_steps

__all__ = [
    "Assignment",
    "AssignmentState",
    "assign",
    "assign_stream",
    "check_arguments",
    "check_stream_bounds",
    "init_state",
    "next_pass",
    "raise_not_finite",
    "relaxed",
    "remaining_samples",
]

STREAM_SAMPLES_PER_CLUSTER = 1000
"""A stream of unknown length gets the default step of a pass with this many samples per cluster."""


BEGIN = "begin with init_state(bounds)"


class AssignmentState(NamedTuple):
    """Everything an online assignment remembers between two calls.

    Attributes
    ----------
    duals : Duals
        Prices now.
    start : Duals
        Prices at the start of this pass, for the certificate.
    counts : (k,) int64 array
        Samples assigned to each cluster in this pass.
    seen : int
        Samples of this pass so far, the sum of `counts`.
    step_size : float or None
        The step of this pass; None before its first sample. NaN after mixed steps or a projection,
        which leave no certificate.
    free_sign : bool
        Whether the lower dual of this pass has a free sign.
    """

    duals: Duals
    start: Duals
    counts: Array
    seen: int
    step_size: float | None
    free_sign: bool


class Assignment(NamedTuple):
    """Labels of the samples just seen, (n,) int64, and the state after them."""

    labels: Array
    state: AssignmentState


@kernel
def assign_stream(
    scores: Array,
    rho: Array,
    rho_up: Array,
    counts: Array,
    *,
    lower_share: Array,
    upper_share: Array,
    lower: Array,
    upper: Array,
    step_size: float,
    chunk_size: int,
    remaining: int,
    free_sign: bool,
) -> tuple[Array, Array, Array, Array, int]:
    """Label samples one by one under prices, caps and completion: the kernel of `assign`.

    Arguments are assumed checked. `remaining` is the number of samples left in the pass, these
    included, or -1 if it is unknown. Returns the labels, both duals, the counts, and the index of
    the first row that is not finite (-1 if there is none; otherwise ignore the other results).
    """
    xp = compat.array_namespace(scores)
    device = compat.device(scores)
    n, k = scores.shape
    clusters = xp.arange(k, dtype=xp.int64, device=device)
    never = xp.asarray(-math.inf, dtype=xp.float64, device=device)
    duals = Duals(rho, rho_up)
    rule = DualRule(lower_share, upper_share, step_size, chunk_size, free_sign)
    labels = []
    for first in range(0, n, chunk_size):
        before = counts
        price = duals.lower - duals.upper
        for i in range(first, min(first + chunk_size, n)):
            row = xp.astype(scores[i, :], xp.float64)
            if not bool(xp.all(xp.isfinite(row))):
                return counts[:0], rho, rho_up, counts, i
            owed = int(xp.sum(xp.clip(lower - counts, min=0)))
            full_at = lower if 0 <= remaining <= owed else upper  # completion, or cap
            y = xp.argmax(xp.where(counts < full_at, row + price, never))
            counts = counts + xp.astype(clusters == y, xp.int64)
            remaining -= 1 if remaining > 0 else 0
            labels.append(y)
        duals = update_duals(duals, counts - before, min(chunk_size, n - first), rule)
    stacked = xp.stack(labels) if labels else xp.zeros((0,), dtype=xp.int64, device=device)
    return stacked, duals.lower, duals.upper, counts, -1


def check_stream_bounds(bounds: SizeBounds) -> None:
    """Raise unless `bounds` are of sizes: a stream cannot keep loads (docs/math/completion.md)."""
    if isinstance(bounds, LoadBounds):
        msg = (
            "bounds must be a SizeBounds for a stream, got bounds on loads: "
            "no online rule can keep loads inside for any order. To fix this, label all rows by "
            "dualclust.algos.offline.weighted.assign_weighted, or later rows at its prices"
        )
        raise InvalidTypeError(msg)
    check_bounds(bounds)


def init_state(bounds: SizeBounds) -> AssignmentState:
    """Return the state before the first sample, on the library and device of `bounds`."""
    check_stream_bounds(bounds)
    xp, device = compat.array_namespace(bounds.lower), compat.device(bounds.lower)
    duals = init_duals(bounds.lower.shape, xp=xp, device=device)
    counts = xp.zeros(bounds.lower.shape, dtype=xp.int64, device=device)
    return AssignmentState(duals, duals, counts, 0, None, False)


def next_pass(state: AssignmentState) -> AssignmentState:
    """Start the next pass over the data: keep the prices, forget the counts.

    Enforced bounds hide the errors of the prices, and labels forced at the end of a pass can even
    reverse the prices: more passes under the same bounds need not be better. Learn under
    `relaxed` bounds and enforce in the last pass. If you have all samples, use `offline`.

    Notes
    -----
    Claims: docs/claims.md#R1.
    """
    check_kind("state", state, AssignmentState, BEGIN)
    xp = compat.array_namespace(state.counts)
    return AssignmentState(state.duals, state.duals, xp.zeros_like(state.counts), 0, None, False)


def relaxed(bounds: SizeBounds) -> SizeBounds:
    """Return bounds with the same targets for the duals, but without caps and completion.

    Forced labels hide the errors of the duals (a capped cluster never looks too large). Prices are
    therefore learned under these bounds and used under the real ones. If the number of samples is
    known, the shares are those of the bounds in whole samples.

    Examples
    --------
    >>> from dualclust.algos.bounds.sizes import SizeBounds
    >>> bounds = relaxed(SizeBounds.from_ratios(2, n_samples=20, lower=0.85))
    >>> bounds.lower, bounds.lower_share
    (array([0, 0]), array([0.4, 0.4]))
    """
    check_bounds(bounds)
    n = bounds.n_samples
    if n is None:
        return bounds
    xp = compat.array_namespace(bounds.lower)
    return SizeBounds(
        xp.astype(bounds.lower, xp.float64) / n,
        xp.astype(bounds.upper, xp.float64) / n,
        xp.zeros_like(bounds.lower),
        xp.full_like(bounds.upper, n),
        n,
    )


def assign(
    scores: Array,
    bounds: SizeBounds,
    state: AssignmentState | None = None,
    *,
    steps: StepRule | None = None,
) -> Assignment:
    """Give each sample a cluster, in order, so that cluster sizes end inside their bounds.

    Solves ``max sum_i s_{i, y_i}  s.t.  l_k <= n_k <= u_k`` online: a sample's label depends on the
    samples up to it, never on later ones. Call it once with all scores, or once per batch with the
    state of the previous call; start each further pass with `next_pass`.

    Parameters
    ----------
    scores : (n, k) real array
        Score of each sample for each cluster, finite, float32 or wider (half precision changes
        labels); higher is better. Any array-API library and device. The default steps suit scores
        that differ by about 1 between clusters, as cosines do. For other scores, pass
        ``steps=measured_steps(bounds, scale=...)`` with the typical range of a row.
    bounds : SizeBounds
        On the library and device of `scores`.
    state : AssignmentState, optional
        Where the last call ended; a fresh state by default.
    steps : StepRule, optional
        How prices move; `measured_steps` of `bounds` by default, for a stream as if it had
        1000 samples per cluster (`STREAM_SAMPLES_PER_CLUSTER`). A pass with several rules has no
        certificate.

    Returns
    -------
    labels : (n,) int64 array
        Ties go to the lowest index.
    state : AssignmentState

    Raises
    ------
    InvalidValueError
        For a shape that is not (n, k), an entry that is not finite, or more samples than
        ``bounds.n_samples`` in one pass. `state` is unchanged.
    InvalidTypeError
        For a dtype that is not real floating, or is narrower than float32.
    DeviceMismatchError
        For `bounds` or `state` on another device or of another library.

    Notes
    -----
    Guarantee: after ``bounds.n_samples`` samples, ``lower <= counts <= upper``, for any scores and
    order. At any time, `certificates.size_certificate` bounds the counts by the duals alone.
    Cost: O(n k) time, O(k) memory beyond the labels; no copy of the scores.
    Source: CoKe section 3.2.1; SeCu supplement section 2; caps and completion are ours.
    Claims: docs/claims.md#S7, #S8, #C15, #C37, #R1, #T2, #T6.

    Examples
    --------
    >>> import numpy as np
    >>> from dualclust.algos.bounds.sizes import SizeBounds
    >>> scores = np.asarray([[0.9, 0.1], [0.8, 0.3], [0.7, 0.5], [0.6, 0.2]])
    >>> labels, state = assign(scores, SizeBounds.from_ratios(2, n_samples=4, lower=1.0))
    >>> labels, state.counts
    (array([0, 0, 1, 1]), array([2, 2]))
    """
    xp = check_arguments(scores, bounds, state, steps)
    n = scores.shape[0]
    state = init_state(bounds) if state is None else state
    check_same_place(scores=scores, bounds=bounds.lower, state=state.counts)
    check_shape("state.counts", state.counts, (bounds.n_clusters,))
    remaining = remaining_samples(n, state, bounds)
    if steps is None:
        n_pass = bounds.n_samples or STREAM_SAMPLES_PER_CLUSTER * bounds.n_clusters
        steps = measured_steps(bounds, n_samples=n_pass)
    # A constant step runs in one call of the kernel; the published variants need one per chunk.
    plain = math.isinf(steps.l1_radius) and not steps.mean_over_chunk
    span = max(n, 1) if plain else steps.chunk_size
    duals, counts = state.duals, state.counts
    labels = [xp.zeros((0,), dtype=xp.int64, device=compat.device(scores))]
    for first in range(0, n, span):
        part = scores[first : min(first + span, n), :]
        m = part.shape[0]
        y, rho, rho_up, counts, bad_row = assign_stream(
            part,
            duals.lower,
            duals.upper,
            counts,
            lower_share=bounds.lower_share,
            upper_share=bounds.upper_share,
            lower=bounds.lower,
            upper=bounds.upper,
            step_size=steps.step_size / m if steps.mean_over_chunk else steps.step_size,
            chunk_size=steps.chunk_size,
            remaining=remaining,
            free_sign=steps.free_sign,
        )
        if bad_row >= 0:
            raise_not_finite(scores, first + bad_row)
        if not math.isinf(steps.l1_radius):  # the projection of CoKe Theorem 1
            rho = project_l1_ball(rho, steps.l1_radius)
            rho_up = project_l1_ball(rho_up, steps.l1_radius)
        duals = Duals(rho, rho_up)
        remaining = remaining - m if remaining >= 0 else remaining
        labels.append(y)
    rule = (steps.step_size, steps.free_sign)
    constant = plain and (state.step_size is None or rule == (state.step_size, state.free_sign))
    step_size = steps.step_size if constant else math.nan
    state = AssignmentState(duals, state.start, counts, state.seen + n, step_size, steps.free_sign)
    return Assignment(xp.concat(labels), state)


def check_arguments(
    scores: Array, bounds: SizeBounds, state: AssignmentState | None, steps: StepRule | None
) -> Namespace:
    """Check the arguments of `assign`; return the library of the scores."""
    xp = check_real("scores", scores)
    check_values("scores", scores)
    check_stream_bounds(bounds)
    if state is not None:
        check_kind("state", state, AssignmentState, BEGIN)
    if steps is not None:
        check_kind("steps", steps, StepRule, "take measured_steps(bounds), or build one")
    check_shape("scores", scores, ("n", bounds.n_clusters))
    bits = xp.finfo(scores.dtype).bits
    if bits < 32:
        msg = (
            f"scores must be float32 or wider, got {scores.dtype}: half precision changes labels. "
            f"To fix this, compute the scores in float32"
        )
        raise InvalidValueError(msg)
    if bits > 64:
        msg = f"scores must be float32 or float64, got {scores.dtype}. To fix this, use float64"
        raise InvalidValueError(msg)
    return xp


def remaining_samples(n: int, state: AssignmentState, bounds: SizeBounds) -> int:
    """Return how many samples of the pass are left, these n included; -1 if it is unknown."""
    remaining = -1 if bounds.n_samples is None else bounds.n_samples - state.seen
    if bounds.n_samples is not None and n > remaining:
        msg = (
            f"scores has {n} rows, but only {remaining} of n_samples={bounds.n_samples} are left "
            f"in this pass. To fix this, start a new pass with next_pass(state)"
        )
        raise InvalidValueError(msg)
    _check_can_end_inside(state, bounds, remaining)
    return remaining


def _check_can_end_inside(state: AssignmentState, bounds: SizeBounds, remaining: int) -> None:
    """Raise if a pass begun under other bounds can no longer end inside these."""
    if remaining < 0 or state.seen == 0:
        return
    xp = compat.array_namespace(state.counts)
    lacking = xp.sum(xp.clip(bounds.lower - state.counts, min=0))
    beyond = xp.sum(xp.clip(state.counts - bounds.upper, min=0))
    owed, over = (int(number) for number in read(lacking, beyond))
    if over > 0 or owed > remaining:
        msg = (
            f"state must come from a pass under the same bounds: its counts exceed the upper "
            f"bounds by {over} and owe {owed} to the lower ones, with {remaining} samples left. "
            f"To fix this, keep the bounds for a pass, or start one with next_pass(state)"
        )
        raise InvalidValueError(msg)


def raise_not_finite(scores: Array, row: int) -> None:
    """Raise an error that names the first entry of a row that is not finite."""
    xp = compat.array_namespace(scores)
    column = int(xp.argmin(xp.astype(xp.isfinite(scores[row, :]), xp.int8)))
    msg = (
        f"scores must be finite, got {float(scores[row, column])} in row {row}, column {column}. "
        f"To fix this, check the features and centers behind that row"
    )
    raise InvalidValueError(msg)
