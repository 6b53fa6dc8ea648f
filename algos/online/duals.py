r"""The primal-dual step: labels by priced scores, then prices by counted labels.

For a bound on cluster sizes from below (gamma) and above (gamma'), with m samples since the last
step, ``c_k`` of them labeled k,

``y_i = argmax_k  s_ik + rho_k - rho'_k``                          CoKe Eq. 10, SeCu suppl. 2
``rho_k  <- max(0, rho_k  - h (c_k - m gamma_k / N))``             CoKe Eq. 11 and 18
``rho'_k <- max(0, rho'_k + h (c_k - m gamma'_k / N))``            SeCu suppl. 2

======================  =================  ===========  ==========================================
paper                   here               shape        meaning
======================  =================  ===========  ==========================================
:math:`s_{i,k}`         ``scores``         (..., b, k)  similarity x_i . c_k, to maximize
:math:`\rho`            ``duals.lower``    (..., k)     bonus of a small cluster, >= 0
:math:`\rho'`           ``duals.upper``    (..., k)     penalty of a large cluster, >= 0
:math:`\gamma_k / N`    ``lower_share``    (..., k)     smallest share of the samples
:math:`\gamma'_k / N`   ``upper_share``    (..., k)     largest share of the samples
:math:`\eta / b`        ``step_size``      ()           h, price change per sample (`step_sizes`)
======================  =================  ===========  ==========================================

The released codes minimize ``-s`` and keep prices in units of similarity. The supplement's cost
``-log p`` is ``-s / lambda`` plus a constant per sample, so its prices are 1 / lambda times larger.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import array_api_compat as compat

from ..bounds.sizes import SizeBounds
from ..core.checks import (
    check_count,
    check_integral,
    check_interval,
    check_kind,
    check_namespace,
    check_real,
    check_same_place,
    check_shape,
    shown,
)
from ..core.errors import InvalidTypeError, InvalidValueError
from ..core.projections import project_l1_ball
from ..core.types import Array, Namespace
from .step_sizes import StepRule

__all__ = ["DualRule", "Duals", "assign_batch", "init_duals", "update_duals"]


class Duals(NamedTuple):
    """Prices of the size bounds, in units of score; (..., k) float64 each."""

    lower: Array
    upper: Array

    @classmethod
    def of(cls, prices: Array) -> Duals:
        """Return prices of either sign as those of the lower and of the upper bounds.

        Examples
        --------
        >>> import numpy as np
        >>> Duals.of(np.asarray([0.5, -0.25]))
        Duals(lower=array([0.5, 0. ]), upper=array([0.  , 0.25]))
        """
        xp = compat.array_namespace(prices)
        return cls(xp.clip(prices, min=0.0), xp.clip(-prices, min=0.0))


class DualRule(NamedTuple):
    """How prices move, for one head or for several that share their operations.

    Attributes
    ----------
    lower_share, upper_share : (..., k) float64 arrays
        Bounds on the sizes, as shares of the samples.
    step_size : float, or (..., 1) float64 array
        h, in units of score per sample; one per head.
    chunk_size : int
        Samples labeled with the same prices; a batch longer than this is labeled chunk by chunk.
    free_sign : bool
        One signed dual, for bounds without slack: nothing is clipped, and the upper dual does not
        move.
    mean_over_chunk : bool
        Divide the step by the length of the chunk, as the released code does.
    l1_radius : float
        CoKe's projection onto {rho >= 0, sum rho <= l1_radius} after each step; inf for none.
    """

    lower_share: Array
    upper_share: Array
    step_size: float | Array
    chunk_size: int = 1
    free_sign: bool = False
    mean_over_chunk: bool = False
    l1_radius: float = math.inf

    @classmethod
    def of(cls, bounds: SizeBounds, steps: StepRule) -> DualRule:
        """Return the rule of one head, from `bounds` and `steps` as in `assign`."""
        return cls(
            bounds.lower_share,
            bounds.upper_share,
            steps.step_size,
            steps.chunk_size,
            steps.free_sign,
            steps.mean_over_chunk,
            steps.l1_radius,
        )

    @classmethod
    def of_heads(cls, bounds: Sequence[SizeBounds], steps: Sequence[StepRule]) -> DualRule:
        """Return the rule of several heads: (h, kmax) shares, and a step size for each head.

        A head of fewer clusters is padded: a padded cluster has no bounds, and its scores must be
        the lowest. The heads share the smallest chunk; all other fields must be equal.

        Raises
        ------
        InvalidValueError
            Unless each head has one rule and the rules differ only in step and chunk.
        """
        if not bounds or len(bounds) != len(steps):
            msg = (
                f"steps must have one rule for each head, got {len(steps)} for {len(bounds)}"
                ". To fix this, make one for the bounds of each, by dualclust.measured_steps"
            )
            raise InvalidValueError(msg)
        kinds = {(s.free_sign, s.mean_over_chunk, s.l1_radius) for s in steps}
        if len(kinds) > 1:
            msg = (
                "steps must agree but for step_size and chunk_size: heads share one update"
                ". To fix this, make all of them by one function, e.g. dualclust.measured_steps"
            )
            raise InvalidValueError(msg)
        xp = compat.array_namespace(bounds[0].lower_share)
        device = compat.device(bounds[0].lower_share)
        k = max(b.n_clusters for b in bounds)

        def padded(row: Array, value: float) -> Array:
            more = xp.full((k - row.shape[0],), value, dtype=xp.float64, device=device)
            return xp.concat([row, more])

        [(free_sign, mean_over_chunk, l1_radius)] = kinds
        sizes = [[s.step_size] for s in steps]
        return cls(
            xp.stack([padded(b.lower_share, 0.0) for b in bounds]),
            xp.stack([padded(b.upper_share, 1.0) for b in bounds]),
            xp.asarray(sizes, dtype=xp.float64, device=device),
            min(s.chunk_size for s in steps),
            free_sign,
            mean_over_chunk,
            l1_radius,
        )


def init_duals(shape: tuple[int, ...], *, xp: Namespace, device: object | None = None) -> Duals:
    """Return the starting prices: float64 zeros of `shape`, which make the first labels greedy."""
    check_namespace(xp)
    if not isinstance(shape, tuple):
        msg = (
            f"shape must be a tuple of ints, got {shown(shape)} ({type(shape).__name__}). "
            f"To fix this, pass (k,) for k clusters"
        )
        raise InvalidTypeError(msg)
    for length in shape:
        check_count("shape", length, 0)
    zeros = xp.zeros(shape, dtype=xp.float64, device=device)
    return Duals(zeros, zeros)


def update_duals(
    duals: Duals,
    sizes: Array,
    n_samples: int,
    rule: DualRule,
) -> Duals:
    """Take one dual step after `n_samples` samples, of which the clusters took `sizes`.

    ``rho <- max(0, rho - h (c - m gamma / N))``, and likewise for the upper bounds. The true number
    of samples m gives a short last batch its proper weight. Dividing by its length, as the released
    code does, multiplied violations by five in our runs.

    Parameters
    ----------
    duals : Duals of (..., k) float64 arrays
    sizes : (..., k) integer array. Labels per cluster since the last step.
    n_samples : int. Number of labels since the last step, m.
    rule : DualRule

    Returns
    -------
    Duals

    Notes
    -----
    Claims: docs/claims.md#S4, #S5, #C8, #C9, #C18, #R1, #R2, #R3, #R4, #R7, #R8.
    """
    _check(duals, rule)
    check_integral("sizes", sizes)
    check_shape("sizes", sizes, tuple(duals.lower.shape))
    check_same_place(duals=duals.lower, sizes=sizes)
    check_count("n_samples", n_samples, 0)
    xp = compat.array_namespace(duals.lower)
    h = rule.step_size / max(n_samples, 1) if rule.mean_over_chunk else rule.step_size
    c = xp.astype(sizes, xp.float64)
    rho = duals.lower + h * (n_samples * rule.lower_share - c)  # CoKe Eq. 11
    if rule.free_sign:
        return Duals(rho, duals.upper)
    rho_up = duals.upper + h * (c - n_samples * rule.upper_share)  # SeCu suppl. 2
    rho = xp.clip(rho, min=0.0)  # CoKe Eq. 18
    rho_up = xp.clip(rho_up, min=0.0)
    if not math.isinf(rule.l1_radius):  # CoKe Theorem 1
        rho = project_l1_ball(rho, rule.l1_radius)
        rho_up = project_l1_ball(rho_up, rule.l1_radius)
    return Duals(rho, rho_up)


def assign_batch(
    scores: Array,
    duals: Duals,
    rule: DualRule,
) -> tuple[Array, Duals]:
    """Label one mini-batch by prices alone, for any number of heads at once.

    This is the published mini-batch algorithm, for use inside a training step: a fixed number of
    array operations, no host synchronization, any leading axes. It counts only the batch and
    guarantees no bound; `assign` counts the pass and guarantees the bounds.

    Parameters
    ----------
    scores : (..., b, k) real array
        Score of each sample for each cluster; -inf marks a padded cluster (whose lower share must
        be 0). Computed in float64, also under autocast.
    duals : Duals of (..., k) float64 arrays
    rule : DualRule
        From `DualRule.of` with bounds and steps as in `assign`, or from `DualRule.of_heads`.

    Returns
    -------
    labels : (..., b) int64 array
        Ties go to the lowest index.
    duals : Duals
        Prices after the batch.

    Notes
    -----
    Cost O(b k) per head; ceil(b / chunk_size) sequential rounds of about ten operations.
    Source: SeCu supplement, section 2; CoKe Eq. 10, 11 and 18.
    Claims: docs/claims.md#S4, #S7, #S11, #C5, #C7, #C11, #C12, #C14, #C17, #C23, #R1, #R3, #R4,
    #R5, #T1, #T3, #T4, #T5, #T7.

    Examples
    --------
    Two samples prefer cluster 0; the price moves the second batch to cluster 1.

    >>> import numpy as np
    >>> scores, share = np.asarray([[0.3, 0.2], [0.3, 0.2]]), np.asarray([0.5, 0.5])
    >>> duals = init_duals((2,), xp=np)
    >>> rule = DualRule(share, 1.0 + 0 * share, step_size=0.2, chunk_size=2)
    >>> labels, duals = assign_batch(scores, duals, rule)
    >>> labels, duals.lower
    (array([0, 0]), array([0. , 0.2]))
    >>> assign_batch(scores, duals, rule)[0]
    array([1, 1])
    """
    xp = check_real("scores", scores)
    _check(duals, rule)
    *heads, k = duals.lower.shape
    if scores.ndim < 2 or tuple(scores.shape) != (*heads, scores.shape[-2], k):
        wanted = ", ".join(map(str, (*heads, "b", k)))
        msg = (
            f"scores must have shape ({wanted}), as duals of shape {(*heads, k)} say, got "
            f"{tuple(scores.shape)}. To fix this, give both the same heads and clusters"
        )
        raise InvalidValueError(msg)
    check_count("rule.chunk_size", rule.chunk_size, 1)
    check_same_place(duals=duals.lower, scores=scores)
    scores = xp.astype(scores, xp.float64)
    clusters = xp.arange(scores.shape[-1], dtype=xp.int64, device=compat.device(scores))
    labels = []
    b = scores.shape[-2]
    for first in range(0, b, rule.chunk_size):
        chunk = scores[..., first : min(first + rule.chunk_size, b), :]
        price = duals.lower - duals.upper
        y = xp.argmax(chunk + price[..., None, :], axis=-1)
        sizes = xp.sum(xp.astype(y[..., None] == clusters, xp.int64), axis=-2)
        duals = update_duals(duals, sizes, chunk.shape[-2], rule)
        labels.append(y)
    if not labels:
        return xp.zeros(scores.shape[:-1], dtype=xp.int64, device=compat.device(scores)), duals
    return xp.concat(labels, axis=-1), duals


def _check(duals: Duals, rule: DualRule) -> None:
    """Check duals and rule without reading a value, and that they are on one library and device."""
    check_kind("duals", duals, Duals, "begin with init_duals")
    check_kind("rule", rule, DualRule, "make it by DualRule.of(bounds, steps)")
    shares = {"lower_share": rule.lower_share, "upper_share": rule.upper_share}
    for name, share in shares.items():
        check_real(f"rule.{name}", share)
    check_same_place(duals=duals.lower, **shares)
    if compat.is_array_api_obj(rule.step_size):
        check_real("rule.step_size", rule.step_size)
        check_same_place(duals=duals.lower, step_size=rule.step_size)
    else:
        check_interval("rule.step_size", rule.step_size, 0.0, math.inf)
    if rule.free_sign and not math.isinf(rule.l1_radius):
        msg = (
            f"rule.l1_radius must be inf when free_sign is set, got {rule.l1_radius}. "
            f"To fix this, leave one of them out"
        )
        raise InvalidValueError(msg)
