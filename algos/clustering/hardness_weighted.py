r"""SeCu's hardness-weighted centers, solved with a certificate.

Problem (SeCu supplement Eq. 1): features, labels and the *other* centers fixed, the center of
cluster j minimizes, over its own samples,

``f(w) = sum_i log(1 + A_i exp(-x_i . w / lambda))``

where ``A_i = sum_{k != j} exp(x_i . w_k / lambda)``.

Theorem 1 prints the solution as ``w = Pi(sum_i (1 - p_ij) x_i / sum_i (1 - p_ij))``        (Eq. 4)
but ``p_ij`` depends on w: this is a fixed-point equation, and iterating it as printed oscillates
on spread clusters at lambda <= 0.2. The following holds, and is used here:

* f is convex, and on the ball ``||w|| <= 1`` its linear minimization ``argmin_v grad f(w) . v`` is
  exactly ``T(w) = Pi(sum_i (1 - p_ij) x_i)``. So the printed iteration is the Frank-Wolfe method
  with step 1, and with a line search it converges: fast where the minimum is on the sphere and the
  slope there is not small, else sublinearly.
* Clusters that Frank-Wolfe has not finished after a few steps go on by Newton steps over the ball
  (`_newton_center`), with the same line search. They end at the minimum on the sphere or inside.
* Convexity gives ``f(w) - min_ball f <= grad f(w) . (w - T(w))``, the Frank-Wolfe gap: a
  certificate. On the sphere it is ``||grad f|| (1 - w . T(w))``, zero exactly at a fixed point.
* If the minimum over the ball lies inside the ball, no fixed point exists. The status says so.

=========================  =================  =======  ============================================
paper                      here               shape    meaning
=========================  =================  =======  ============================================
:math:`x_i`                ``features``       (n, d)   unit vectors
:math:`y_i`                ``labels``         (n,)     cluster of each sample
:math:`w_j`                ``centers``        (k, d)   unit vectors
:math:`\tilde w_k`         ``centers`` given  (k, d)   the others, held fixed (stop-gradient)
:math:`1 - p_{i,j}`        ``hardness``       (n,)     weight of a sample for its own center
:math:`\lambda`            ``temperature``    ()       in units of similarity
=========================  =================  =======  ============================================
"""

from __future__ import annotations

import enum
import itertools
import math
from typing import NamedTuple

import array_api_compat as compat

from ..core.checks import (
    check_count,
    check_finite,
    check_interval,
    check_labels,
    check_real,
    check_same_place,
    check_shape,
)
from ..core.projections import project_sphere
from ..core.reads import entries
from ..core.types import Array
from ._newton_center import newton_center

__all__ = ["CenterStatus", "HardnessCenters", "hardness", "hardness_centers"]

LINE_SEARCH_STEPS = 16
FRANK_WOLFE_STEPS = 10
"""Steps before Newton's: they cost no Hessian, and finish most clusters."""


class CenterStatus(enum.IntEnum):
    """Outcome for one cluster; `advice` explains it and says what to do.

    CERTIFIED: optimal within the tolerance. INTERIOR: the loss has its minimum inside the ball, so
    that no unit center is a fixed point. NOT_CONVERGED: the steps ended above the tolerance. EMPTY:
    the cluster has no sample.
    """

    CERTIFIED = 0
    INTERIOR = 1
    NOT_CONVERGED = 2
    EMPTY = 3

    @property
    def advice(self) -> str:
        """Return a sentence or two for the user."""
        return _ADVICE[self]


_ADVICE = {
    CenterStatus.CERTIFIED: "The center is optimal within the gap, on the ball and on the sphere.",
    CenterStatus.INTERIOR: (
        "The loss has its minimum inside the ball, so no unit center is a fixed point of Eq. 4; "
        "the direction of the minimum is returned. Use the mean center, or a larger temperature."
    ),
    CenterStatus.NOT_CONVERGED: (
        "The gap is above the tolerance. Raise max_iter, or the temperature."
    ),
    CenterStatus.EMPTY: "The cluster has no sample and keeps its center.",
}


class HardnessCenters(NamedTuple):
    """Result of `hardness_centers`.

    Attributes
    ----------
    centers : (k, d) array
        Unit rows.
    residual : (k,) float64 array
        ``||w - T(w)||``: distance to the right-hand side of Eq. 4.
    gap : (k,) float64 array
        Proven bound on ``f(w) - min f``, in nats per sample of the cluster.
    status : (k,) int64 array
        Values of `CenterStatus`.
    n_iter : int
        Steps taken, of either kind.
    """

    centers: Array
    residual: Array
    gap: Array
    status: Array
    n_iter: int


def hardness(features: Array, labels: Array, centers: Array, *, temperature: float) -> Array:
    """Return the weights ``1 - p_{i, y_i}`` of Eq. 4, accurate where p rounds to 1.

    Computed as a logistic function of log-sum-exp over the *other* clusters. At temperature 0.05,
    the difference 1 - p is exactly 0 for similarity gaps from 0.85 in float32, 1.84 in float64.

    Parameters
    ----------
    features : (n, d) real array, unit rows
    labels : (n,) int64 array
    centers : (k, d) real array, unit rows
    temperature : float > 0

    Returns
    -------
    (n,) float64 array, in [0, 1]

    Notes
    -----
    Claims: docs/claims.md#S3c, #S3e.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.asarray([[1.0, 0.0]])
    >>> w = np.asarray([[1.0, 0.0], [-1.0, 0.0]])
    >>> hardness(x, np.asarray([0]), w, temperature=0.05)
    array([4.24835426e-18])
    """
    xp = check_real("features", features)
    others = _log_others(features, labels, centers, temperature)
    x, w = xp.astype(features, xp.float64), project_sphere(xp.astype(centers, xp.float64))
    own = xp.sum(x * xp.take(w, xp.astype(labels, xp.int64), axis=0), axis=1)
    return _sigmoid(others - own / temperature)


def hardness_centers(
    features: Array,
    labels: Array,
    centers: Array,
    *,
    temperature: float,
    tol: float = 1e-8,
    max_iter: int = 200,
) -> HardnessCenters:
    """Minimize SeCu's loss over each center, with the others fixed, and prove optimality.

    All clusters are solved at the same time, each with its own step.

    Parameters
    ----------
    features : (n, d) real array
        Unit rows.
    labels : (n,) integer array
        In [0, k).
    centers : (k, d) real array
        The start of each cluster's problem, and its fixed other centers; scaled to unit rows.
    temperature : float > 0
        lambda, in units of similarity.
    tol : float > 0
        Largest gap of a certified center, in nats per sample.
    max_iter : int
        Most steps. Where we measured, 30 end every cluster of random rows.

    Returns
    -------
    HardnessCenters

    Raises
    ------
    InvalidValueError, InvalidTypeError
        For shapes, dtypes, labels or values that break the rules above.

    Notes
    -----
    Cost: O(n k d) per step, and from the 11th on O(m d r + r^3) more for each cluster of m rows
    that is not finished, r = min(m, d); memory O(n (k + d)). Float64 inside.
    Source: SeCu supplement, Eq. 1 to 4; the Frank-Wolfe reading, the gap and Newton's step are
    ours.
    Claims: docs/claims.md#S3c, #S3d, #S3e.

    Examples
    --------
    >>> import numpy as np
    >>> x = project_sphere(np.asarray([[1.0, 0.2], [1.0, -0.4], [-1.0, 0.1]]))
    >>> w = np.asarray([[0.0, 1.0], [-1.0, 0.0]])
    >>> result = hardness_centers(x, np.asarray([0, 0, 1]), w, temperature=0.5)
    >>> result.centers.round(3)
    array([[ 0.995, -0.104],
           [-0.995,  0.1  ]])
    >>> [CenterStatus(s).name for s in result.status]
    ['CERTIFIED', 'CERTIFIED']
    """
    xp = check_real("features", features)
    check_interval("tol", tol, 0.0, math.inf, open_low=True)
    check_count("max_iter", max_iter, 1)
    log_a = _log_others(features, labels, centers, temperature)
    k = centers.shape[0]
    x, labels = xp.astype(features, xp.float64), xp.astype(labels, xp.int64)
    clusters = xp.arange(k, dtype=xp.int64, device=compat.device(labels))
    member = xp.astype(labels[:, None] == clusters, xp.float64)
    size = xp.sum(member, axis=0)
    per_sample = 1.0 / xp.clip(size, min=1.0)
    w = start = project_sphere(xp.astype(centers, xp.float64))

    for steps in itertools.count():
        target, gap = _linear_minimum(w, start, x, labels, member, log_a, temperature)
        is_open = gap * per_sample > 0.25 * tol
        if steps == max_iter or not bool(xp.any(is_open)):
            break
        if steps >= FRANK_WOLFE_STEPS:
            target = _newton_targets(w, target, is_open, x, labels, size, log_a, temperature)
        step = _line_search(w, target, x, labels, member, log_a, temperature)
        step = xp.where(is_open, step, xp.zeros_like(step))  # what is finished stays
        w = w + step[:, None] * (target - w)
    found = (gap * per_sample <= tol) & (xp.linalg.vector_norm(w, axis=1) < 1.0)

    w = project_sphere(w, start)
    target, gap = _linear_minimum(w, start, x, labels, member, log_a, temperature)
    gap = gap * per_sample
    status = {s: xp.full_like(size, float(s)) for s in CenterStatus}
    # Over the ball nothing is better by more than tol, and on the sphere something may be.
    code = xp.where(found, status[CenterStatus.INTERIOR], status[CenterStatus.NOT_CONVERGED])
    code = xp.where(gap <= tol, status[CenterStatus.CERTIFIED], code)
    code = xp.where(size == 0, status[CenterStatus.EMPTY], code)
    return HardnessCenters(
        xp.astype(w, centers.dtype),
        xp.linalg.vector_norm(w - target, axis=1),
        xp.clip(gap, min=0.0),
        xp.astype(code, xp.int64),
        steps,
    )


def _linear_minimum(
    w: Array, start: Array, x: Array, labels: Array, member: Array, log_a: Array, lam: float
) -> tuple[Array, Array]:
    """Return T(w) of Eq. 4 and each cluster's gap ``grad f . (w - T(w))``, summed over samples."""
    xp = compat.array_namespace(x)
    q = _sigmoid(log_a - xp.sum(x * xp.take(w, labels, axis=0), axis=1) / lam)  # 1 - p
    pull = xp.matmul(member.T, q[:, None] * x)  # -lambda grad f
    target = project_sphere(pull, start)
    return target, xp.sum(pull * (target - w), axis=1) / lam


def _newton_targets(
    w: Array,
    target: Array,
    is_open: Array,
    x: Array,
    labels: Array,
    size: Array,
    log_a: Array,
    lam: float,
) -> Array:
    """Return T(w), and in its place the minimizer of the Newton model of each open cluster."""
    xp = compat.array_namespace(x)
    order = xp.argsort(labels)
    stop, rows = 0, []
    counts = entries("size", size), entries("is_open", xp.astype(is_open, xp.int64))
    for j, (count, newton) in enumerate(zip(*counts, strict=True)):
        start, stop = stop, stop + int(count)
        own = order[start:stop]
        rows.append(
            newton_center(w[j, :], xp.take(x, own, axis=0), xp.take(log_a, own, axis=0), lam)
            if newton
            else target[j, :]
        )
    return xp.stack(rows)


def _line_search(
    w: Array, target: Array, x: Array, labels: Array, member: Array, log_a: Array, lam: float
) -> Array:
    """Minimize ``f(w + t (T(w) - w))`` over t in [0, 1] per cluster: Newton inside a bracket."""
    xp = compat.array_namespace(x)
    z = log_a - xp.sum(x * xp.take(w, labels, axis=0), axis=1) / lam
    b = xp.sum(x * xp.take(target - w, labels, axis=0), axis=1) / lam
    t = xp.ones_like(w[:, 0])
    low, high = xp.zeros_like(t), t
    for _ in range(LINE_SEARCH_STEPS):
        q = _sigmoid(z - xp.take(t, labels) * b)
        slopes = xp.matmul(member.T, xp.stack([-q * b, q * (1.0 - q) * b * b], axis=1))
        first, second = slopes[:, 0], slopes[:, 1]
        low, high = xp.where(first < 0, t, low), xp.where(first < 0, high, t)
        curved = second > 1e-9 * xp.abs(first)  # otherwise the step would leave [0, 1] by far
        newton = t - first / xp.where(curved, second, xp.ones_like(second))
        safe = curved & (newton > low) & (newton < high)
        at_end = (first <= 0) & (t == 1.0)  # still descending at the full step of the paper
        t = xp.where(at_end, t, xp.where(safe, newton, 0.5 * (low + high)))
    return t


def _log_others(features: Array, labels: Array, centers: Array, temperature: float) -> Array:
    """Return ``log A_i``, the log-sum-exp over all other clusters of a sample; -inf if k = 1."""
    xp = check_real("features", features)
    n, d = check_shape("features", features, ("n", "d"))
    k, _ = check_shape("centers", centers, ("k", d))
    check_same_place(features=features, labels=labels, centers=centers)
    check_real("centers", centers)
    check_labels("labels", labels, n, k)
    check_finite("features", features)
    check_finite("centers", centers)
    check_interval("temperature", temperature, 0.0, math.inf, open_low=True)
    logits = xp.matmul(
        xp.astype(features, xp.float64), project_sphere(xp.astype(centers, xp.float64)).T
    )
    clusters = xp.arange(k, dtype=xp.int64, device=compat.device(labels))
    own = xp.astype(labels, xp.int64)[:, None] == clusters
    logits = xp.where(own, -math.inf * xp.ones_like(logits), logits / temperature)
    top = xp.max(logits, axis=1, keepdims=True)
    top = xp.where(xp.isfinite(top), top, xp.zeros_like(top))
    total = xp.sum(xp.exp(logits - top), axis=1)
    positive = total > 0
    log_total = xp.log(xp.where(positive, total, xp.ones_like(total)))
    return xp.where(positive, top[:, 0] + log_total, -math.inf * xp.ones_like(total))


def _sigmoid(z: Array) -> Array:
    """Return ``1 / (1 + exp(-z))`` without overflow; 0 at minus infinity."""
    xp = compat.array_namespace(z)
    e = xp.exp(-xp.abs(z))
    return xp.where(z >= 0, 1.0 / (1.0 + e), e / (1.0 + e))
