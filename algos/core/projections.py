r"""Exact Euclidean projections onto the four sets that the methods need.

===============  ==================================================  ==============================
function         set                                                 used by
===============  ==================================================  ==============================
project_sphere   ``{w : ||w|| = 1}``                                 centers and features, all
project_simplex  ``{p : p >= 0, sum p = total}``                     pseudo-labels
project_l1_ball  ``{p : p >= 0, sum p <= radius}``                   duals, CoKe Theorem 1
project_capped   ``{p : 0 <= p <= cap, sum p = 1}``                  shares under an upper bound
===============  ==================================================  ==============================

All act on the last axis; leading axes are a batch. For each of the three polytopes the solution is
``p = clip(x - theta, 0, cap)`` for one number theta, the multiplier of the sum. It is found exactly
by sorting the values of theta where the slope of ``sum p`` changes.
"""

from __future__ import annotations

import math

import array_api_compat as compat

from .checks import check_interval, check_real
from .errors import InvalidValueError
from .types import Array, Namespace

__all__ = ["project_capped", "project_l1_ball", "project_simplex", "project_sphere"]


def project_sphere(x: Array, fallback: Array | None = None) -> Array:
    """Project onto the unit sphere, ``w = x / ||x||``.

    Parameters
    ----------
    x : (..., d) real array
        Finite, of any magnitude: rows are first scaled by their largest entry, so that squares
        neither overflow nor vanish.
    fallback : (..., d) real array, optional
        Result for x = 0, which has no projection. Without it, zero rows stay zero.

    Returns
    -------
    w : (..., d) array
        Same namespace, dtype and device; unit norm within 4 eps.

    Notes
    -----
    Cost O(d) per row. Source: SeCu supplement Eq. 4, CoKe Eq. 12.
    Claims: docs/claims.md#C19.

    Examples
    --------
    >>> import numpy as np
    >>> project_sphere(np.asarray([[3e300, 4e300], [0.0, 0.0]]))
    array([[0.6, 0.8],
           [0. , 0. ]])
    """
    xp = _check(x)
    largest = xp.max(xp.abs(x), axis=-1, keepdims=True)
    zero = largest == 0
    scaled = x / xp.where(zero, xp.ones_like(largest), largest)
    norm = xp.linalg.vector_norm(scaled, axis=-1, keepdims=True)
    w = scaled / xp.where(zero, xp.ones_like(norm), norm)
    return w if fallback is None else xp.where(zero, fallback, w)


def project_simplex(x: Array, total: float = 1.0) -> Array:
    """Project onto the simplex: ``min_p ||p - x||  s.t.  p >= 0, sum p = total``.

    Parameters
    ----------
    x : (..., k) real array, finite
    total : float > 0

    Returns
    -------
    p : (..., k) array
        Same namespace, dtype and device; sums to `total` within 4 k eps.

    Raises
    ------
    InvalidValueError
        If `total` is not positive.

    Notes
    -----
    With x sorted downwards, theta is ``(x_1 + ... + x_j - total) / j`` for the largest j that
    keeps ``x_j > theta``. Cost O(k log k).

    Examples
    --------
    >>> import numpy as np
    >>> project_simplex(np.asarray([0.5, 0.3, -1.0]))
    array([0.6, 0.4, 0. ])
    """
    xp = _check(x)
    _check_size("total", total, x)
    # The shift and the clip keep the solution: theta lies in [max x - total, max x), where the sums
    # are exact however large x is.
    x = xp.clip(x - xp.max(x, axis=-1, keepdims=True), min=-total)
    descending = xp.sort(x, axis=-1, descending=True)
    j = xp.arange(1, x.shape[-1] + 1, dtype=x.dtype, device=compat.device(x))
    theta = (xp.cumulative_sum(descending, axis=-1) - total) / j
    support = xp.sum(xp.astype(descending > theta, xp.int64), axis=-1, keepdims=True)
    theta = xp.take_along_axis(theta, support - 1, axis=-1)
    return xp.clip(x - theta, min=0.0)


def project_l1_ball(x: Array, radius: float) -> Array:
    """Project onto the nonnegative l1 ball: ``min_p ||p - x||  s.t.  p >= 0, sum p <= radius``.

    Parameters
    ----------
    x : (..., k) real array, finite
    radius : float > 0
        tau of CoKe's Theorem 1; inf leaves only ``p >= 0``.

    Returns
    -------
    p : (..., k) array
        Same namespace, dtype and device.

    Raises
    ------
    InvalidValueError
        If `radius` is not positive.

    Notes
    -----
    If clipping at 0 gives a point inside the ball, that point is the projection. Otherwise the sum
    is active and the set is a simplex. Cost O(k log k).
    Claims: docs/claims.md#C6, #C8, #C9, #C12, #C15, #T1, #T6.

    Examples
    --------
    >>> import numpy as np
    >>> project_l1_ball(np.asarray([[0.5, -1.0], [2.0, 1.5]]), 1.0)
    array([[0.5 , 0.  ],
           [0.75, 0.25]])
    """
    xp = _check(x)
    clipped = xp.clip(x, min=0.0)
    if radius == math.inf:
        return clipped
    _check_size("radius", radius, x)
    inside = xp.sum(clipped, axis=-1, keepdims=True) <= radius
    return xp.where(inside, clipped, project_simplex(x, radius))


def project_capped(x: Array, cap: float) -> Array:
    """Project onto the capped simplex: ``min_p ||p - x||  s.t.  0 <= p <= cap, sum p = 1``.

    Parameters
    ----------
    x : (..., k) real array, finite
    cap : float in [1 / k, 1]
        Largest share of one entry.

    Returns
    -------
    p : (..., k) array
        Same namespace, dtype and device; sums to 1 within 8 k eps.

    Raises
    ------
    InvalidValueError
        If `cap` < 1 / k: the set is empty.

    Notes
    -----
    ``F(theta) = sum clip(x - theta, 0, cap)`` falls from k cap to 0, with kinks at ``x_j - cap``
    and ``x_j``. Going down through the 2 k kinks, F is a running sum of slope times distance, and
    theta follows by linear interpolation where it passes 1. Cost O(k log k).

    Examples
    --------
    >>> import numpy as np
    >>> project_capped(np.asarray([5.0, 0.0, 0.0]), 0.5)
    array([0.5 , 0.25, 0.25])
    """
    xp = _check(x)
    k = x.shape[-1]
    check_interval("cap", cap, 0.0, 1.0, open_low=True)
    if cap * k < 1.0 - 1e-15 * k:  # 49 * (1 / 49) is below 1 in floating point
        msg = (
            f"cap must be at least 1/k = {1 / k:g} for k={k} entries, got {cap}"
            ". To fix this, pass a larger cap"
        )
        raise InvalidValueError(msg)
    # With r = ceil(1 / cap), r - 1 entries cannot hold a sum of 1, but r full ones can. So theta
    # lies in [x_(r) - cap, x_(r)) for the r-th largest entry, and of entries further than cap from
    # x_(r) only the side matters.
    r = min(k, math.ceil(1.0 / cap - 1e-9))
    pivot = xp.sort(x, axis=-1, descending=True)[..., r - 1 : r]
    x = xp.clip(x - pivot, min=-cap, max=cap)
    ones = xp.ones_like(x)
    kinks = xp.concat([x, x - cap], axis=-1)
    order = xp.argsort(kinks, axis=-1, descending=True)
    kinks = xp.take_along_axis(kinks, order, axis=-1)
    # Passing a kink x_j downwards, entry j begins to grow; passing x_j - cap, it stops.
    slope = xp.cumulative_sum(
        xp.take_along_axis(xp.concat([ones, -ones], axis=-1), order, axis=-1), axis=-1
    )
    grown = xp.cumulative_sum(slope[..., :-1] * (kinks[..., :-1] - kinks[..., 1:]), axis=-1)
    total = xp.concat([xp.zeros_like(grown[..., :1]), grown], axis=-1)  # F at each kink
    below = xp.sum(xp.astype(total < 1.0, xp.int64), axis=-1, keepdims=True) - 1
    at, value, rate = (xp.take_along_axis(v, below, axis=-1) for v in (kinks, total, slope))
    # rate is 0 only at the last kink, where F = k cap = 1; theta is then that kink.
    theta = at - (1.0 - value) / xp.where(rate > 0, rate, xp.ones_like(rate))
    return xp.clip(x - theta, min=0.0, max=cap)


def _check(x: Array) -> Namespace:
    xp = check_real("x", x)
    if x.ndim == 0 or x.shape[-1] == 0:
        msg = (
            f"x must have at least one entry on its last axis, got shape {tuple(x.shape)}"
            ". To fix this, pass at least one"
        )
        raise InvalidValueError(msg)
    return xp


def _check_size(name: str, value: float, x: Array) -> None:
    """Raise unless the size of the set is a number that the dtype of `x` can hold."""
    info = compat.array_namespace(x).finfo(x.dtype)
    check_interval(name, value, 0.0, math.inf, open_low=True)
    low, high = float(info.smallest_normal), float(info.max)
    if not low <= value <= high:
        msg = (
            f"{name} must lie in [{low:g}, {high:g}], the range of {x.dtype}, got {value!r}. "
            f"To fix this, use float64"
        )
        raise InvalidValueError(msg)
