r"""Soft pseudo-labels of MI + margin, solved to a certified gap.

Problem (supplement of "entropy self-labeling", Lemma B.1), for M samples with network outputs
sigma, each label on the simplex:

``min_y  E(y) = -(beta / M) sum_ik sigma_ik ln y_ik - lambda sum_k u_k ln( sum_i y_ik / M )``

the reverse cross-entropy to the outputs plus the divergence of u from the mean label (up to a
constant). It is convex, and strictly so only where sigma > 0: compare objectives, not labels.

*Optimality.* With prices ``p_k = lambda u_k / mean_i y_ik`` there are row multipliers nu with
``y_ik (nu_i - p_k) = beta sigma_ik`` and ``nu_i >= p_k``.

*Certificate.* `label_gap` bounds ``E(y) - min E`` for any labels.

*Stopping rule.* `pseudo_labels` takes the Newton steps of `_newton` until a bound on that gap,
`_newton.bound`, is at most ``tol beta`` or the rounding of E.

*Envelope.* ``d min E / d sigma = -(beta / M) ln y``: a step on the network with y held fixed
descends the solved energy, and nothing is differentiated through the solver.

=====================  ===================  =======  ===============================================
paper                  here                 shape    meaning
=====================  ===================  =======  ===============================================
:math:`\sigma_i^k`     ``sigma``            (m, k)   network outputs, rows on the simplex
:math:`y_i^k`          ``labels``           (m, k)   soft pseudo-labels, rows on the simplex
:math:`\beta`          ``beta``             ()       weight of the cross-entropy
:math:`\lambda`        ``fairness_weight``  ()       weight of the fairness; 100 as printed
:math:`u_k`            ``prior``            (k,)     shares wanted; uniform by default
:math:`p_k`            ``prices``           (k,)     dual, in nats
:math:`\nu_i-\max p`   ``slack``            (m,)     dual, in nats
=====================  ===================  =======  ===============================================

*Zeros.* ``0 ln y = 0``: a label may have mass where sigma is 0, and must have it where a cluster
with u_k > 0 has no sigma at all. Zeros are solved exactly; the label there ends at about
``0.1 tol / k`` or above. Near-ties then decide the label but not the objective: for reproducible
labels and a bounded ``-ln y``, solve for `floor_outputs` of sigma instead.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import array_api_compat as compat

from ..core.checks import (
    check_count,
    check_finite,
    check_interval,
    check_real,
    check_same_place,
    check_shape,
)
from ..core.precision import at_least_float32
from ..core.types import Array
from ._interior_point import Problem
from ._newton import bound, init, iterate, residual
from .energy import (
    BLOCK,
    LabelDuals,
    check_problem,
    detached,
    floor_outputs,
    label_gap,
    pseudo_label_energy,
)

__all__ = [
    "LabelDuals",
    "PseudoLabels",
    "floor_outputs",
    "label_gap",
    "pseudo_label_energy",
    "pseudo_labels",
]

ROUNDING = 1e-14  # of the objective, as a part of beta + lambda


class PseudoLabels(NamedTuple):
    """Result of `pseudo_labels`. The three numbers are 0-d float64 arrays: reading them is yours.

    Attributes
    ----------
    labels : (m, k) array
        Of the dtype of sigma, float32 for half precision; no graph attached.
    objective : array
        E(y), in nats.
    gap : array
        Proven bound on ``E(y) - min E``, in nats, before y is rounded to its dtype.
    residual : array
        Largest error of an optimality condition, ``|sigma - y (nu - p) / beta|`` with the prices
        that belong to y; nu - p where it is negative. In units of probability.
    n_iter : int
        Newton steps; in a fixed number of them, the last ones may have been idle.
    duals : LabelDuals
    """

    labels: Array
    objective: Array
    gap: Array
    residual: Array
    n_iter: int
    duals: LabelDuals


def pseudo_labels(
    sigma: Array,
    *,
    fairness_weight: float,
    beta: float = 1.0,
    prior: Array | None = None,
    tol: float = 1e-10,
    max_iter: int = 60,
    n_iter: int | None = None,
    start: Array | None = None,
    block_rows: int | None = None,
) -> PseudoLabels:
    """Solve for the pseudo-labels of a batch, or of a data set, to a proven gap.

    Parameters
    ----------
    sigma : (m, k) real array
        Softmax outputs, any floating dtype; the problem is solved in float64. Entries are read
        clipped to [0, 1]; a row's sum is the weight of its sample. Detached if it has a graph.
    fairness_weight : float in [0, 1e100]
        lambda, the weight of the fairness term.
    beta : float in [0, 1e100]
        Weight of the cross-entropy.
    prior : (k,) real array, optional
        Wanted shares, nonnegative; 1 / k by default. Their sum multiplies `fairness_weight`.
    tol : float > 0
        Stop at a gap of ``tol beta``, or at the rounding of E where that is more,
        ``1e-14 (beta + fairness_weight sum(prior))``. An error d of the labels costs about
        ``beta d^2``.
    max_iter : int
        Most Newton steps; then the gap says how good the labels are.
    n_iter : int, optional
        Take exactly so many steps, idle once `tol` is reached, and read no value back: for a
        training step on an accelerator, or in a captured graph. 12 for soft outputs, 25 for sharp.
    start : (m, k) real array, optional
        Labels of the same samples for a similar sigma.
    block_rows : int, optional
        Rows worked on at a time; 2^17 entries by default.

    Returns
    -------
    PseudoLabels

    Raises
    ------
    InvalidValueError, InvalidTypeError, DeviceMismatchError
        For shapes, dtypes, devices or weights that break the rules above; without `n_iter`, also
        for NaN and infinity.

    Notes
    -----
    Cost per step O(m k min(m, k) + min(m, k)^3), or O(m k) per conjugate gradient where both are
    above 1,024. Memory: the labels twice in float64, and O(block k + min(m, k)^2). Without
    `n_iter`, values are read back in each step. Source: supplement, Lemma B.1 (M1, M3,
    M4); the solver is ours.
    Claims: docs/claims.md#M1, #M3, #M4.

    Examples
    --------
    >>> import numpy as np
    >>> sigma = np.asarray([[0.9, 0.1], [0.8, 0.2], [0.6, 0.4]])
    >>> result = pseudo_labels(sigma, fairness_weight=1.0)
    >>> result.labels.round(3)
    array([[0.805, 0.195],
           [0.665, 0.335],
           [0.45 , 0.55 ]])
    >>> bool(result.gap < 1e-10), result.n_iter < 10
    (True, True)
    """
    xp, shares = check_problem(sigma, fairness_weight, beta, prior)
    check_interval("tol", tol, 0.0, math.inf, open_low=True)
    check_count("max_iter", max_iter, 1)
    m, k = sigma.shape
    if n_iter is None:  # reads values, as that mode does
        check_finite("sigma", sigma)
        check_finite("prior", shares)
    else:
        check_count("n_iter", n_iter, 0)
    if start is not None:
        check_real("start", start)
        check_shape("start", start, (m, k))
        check_same_place(sigma=sigma, start=start)
        start = detached(start)
    if block_rows is None:
        block_rows = max(1, BLOCK // k)
    check_count("block_rows", block_rows, 1)
    sigma = detached(sigma)

    whole = xp.sum(shares)
    weight, fair, total = _scaled(beta, fairness_weight * whole)
    scaled = shares / xp.where(whole > 0, whole, xp.ones_like(whole))
    goal = xp.clip(tol * weight, min=ROUNDING)
    fixed = n_iter is not None
    problem = Problem(sigma, weight, m * fair * scaled, 0.1 * goal / k, block_rows, fixed)
    state, done = init(problem, start), 0
    for _ in range(max_iter if n_iter is None else n_iter):
        reached = bound(problem, state) <= goal
        if not fixed and bool(reached):
            break
        state, done = iterate(problem, state, reached), done + 1

    duals = LabelDuals(total * state.prices, total * state.slack)
    weights = {"fairness_weight": fairness_weight, "beta": beta, "prior": shares}
    labels = xp.concat(state.labels)
    return PseudoLabels(
        xp.astype(labels, at_least_float32(sigma).dtype),
        pseudo_label_energy(sigma, labels, **weights),
        label_gap(sigma, labels, **weights, duals=duals),
        residual(problem, state.labels),
        done,
        duals,
    )


def _scaled(beta: float, fairness_weight: Array) -> tuple[Array, Array, Array]:
    """Both weights as parts of their sum, and the sum; (1, 0, 0) where both are 0."""
    xp = compat.array_namespace(fairness_weight)
    total = beta + fairness_weight
    safe = xp.where(total > 0, total, xp.ones_like(total))
    # Torch multiplies a plain number by 1 / safe, which overflows.
    weight = xp.full_like(safe, beta) / safe
    return xp.where(total > 0, weight, xp.ones_like(total)), fairness_weight / safe, total
