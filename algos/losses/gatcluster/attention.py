r"""Gaussian attention: a soft window over a feature map, from a few numbers that a network gives.

``A(u) = exp( -(1/alpha) (u - mu)' Sigma^-1 (u - mu) )``,   u on a grid over [0, 1]^2     (Eq. 9)

The paper says nothing of how Sigma stays positive definite. Its table applies a ReLU, so that
Sigma can be 0 and A(mu) = 0 / 0 (claim G9). Here every finite network output is a valid window:

``mu = sigmoid(r_1, r_2)``,  ``var = v + (1 - v) sigmoid(r_3, r_4)``,  ``rho = c tanh(r_5)``

``Sigma = [[var_x, rho s_x s_y], [rho s_x s_y, var_y]]``,  ``s = sqrt(var)``,  v > 0,  c < 1,

with the determinant ``var_x var_y (1 - rho^2) >= v^2 (1 - c^2)``. The paper's isotropic case has
three numbers: ``var_x = var_y = delta``, ``rho = 0``.

======================  ==================  =============  =======================================
paper                   here                shape          meaning
======================  ==================  =============  =======================================
:math:`\mu`             ``mean``            (..., 2)       center, along H then W, in [0, 1]
:math:`\Sigma`          ``variances``       (..., 2)       diagonal of Sigma, > 0
:math:`\Sigma`          ``correlation``     (...)          rho, in (-1, 1)
:math:`\delta`          ``variances``       (..., 2)       the isotropic case: two equal entries
:math:`\alpha`          ``alpha``           ()             0.1 as executed; the paper prints 0.05
A                       `attention_map`     (..., H, W)    in [0, 1], 1 at the center
======================  ==================  =============  =======================================

The code's exponent is ``-d^2 / (2 * 0.05 delta)``, the paper's ``-d^2 / (0.05 delta)``.

Claims: docs/claims.md#G9.
"""

from __future__ import annotations

from typing import NamedTuple

import array_api_compat as compat

from ...core.checks import check_count, check_interval, check_real, check_same_place, check_shape
from ...core.errors import InvalidValueError
from ...core.precision import at_least_float32
from ...core.types import Array

__all__ = [
    "Gaussian",
    "attended_features",
    "attention_map",
    "full_gaussian",
    "isotropic_gaussian",
    "released_gaussian",
]


class Gaussian(NamedTuple):
    """Windows: mean (..., 2), variances (..., 2), correlation (...), as in the module's table."""

    mean: Array
    variances: Array
    correlation: Array


def isotropic_gaussian(raw: Array, *, min_variance: float = 1e-4) -> Gaussian:
    """Round windows from three network outputs, the paper's case ``Sigma = delta I``.

    Parameters
    ----------
    raw : (..., 3) real array
        Any finite values, before an activation: two of the center, one of the size.
    min_variance : float in (0, 1)
        v, least delta. 1e-4 is that of the code's EPS at alpha = 0.1; such a window may fall
        between the points of the grid and be 0 everywhere. From ``3 / (alpha (H - 1)^2)`` on, some
        point has A > 0.84.

    Returns
    -------
    Gaussian
        In at least float32.

    Notes
    -----
    Source: GATCluster section 3.3.4 and Table S8, with a sigmoid as in the released code.
    Claims: docs/claims.md#G9.

    Examples
    --------
    >>> import numpy as np
    >>> isotropic_gaussian(np.zeros(3), min_variance=0.5)
    Gaussian(mean=array([0.5, 0.5]), variances=array([0.75, 0.75]), correlation=array(0.))
    """
    raw = _check_raw(raw, 3)
    xp = compat.array_namespace(raw)
    _check_variance(min_variance)
    delta = min_variance + (1.0 - min_variance) * _sigmoid(raw[..., 2:])
    return Gaussian(
        _sigmoid(raw[..., :2]),
        xp.concat([delta, delta], axis=-1),
        xp.zeros(raw.shape[:-1], dtype=raw.dtype, device=compat.device(raw)),
    )


def released_gaussian(raw: Array, *, min_variance: float = 1e-4) -> Gaussian:
    """Round windows as the released code reads three network outputs.

    It takes every second of ``(r_1, r_2, r_3)`` for the center and the last for the size: the
    center is ``sigmoid(r_1, r_3)``, so that windows further across are also wider, and r_2 has no
    part and no gradient. A slip in all likelihood; `isotropic_gaussian` is what the paper means.

    Parameters
    ----------
    raw : (..., 3) real array
        Any finite values, before an activation.
    min_variance : float in (0, 1)
        What is added to the size: EPS / alpha, which is 1e-4 at alpha = 0.1.

    Returns
    -------
    Gaussian
        In at least float32; variances from `min_variance` to 1 + `min_variance`.

    Examples
    --------
    >>> import numpy as np
    >>> window = released_gaussian(np.asarray([0.0, 5.0, -2.0]))
    >>> window.mean.round(3), window.variances.round(3)
    (array([0.5  , 0.119]), array([0.119, 0.119]))
    """
    raw = _check_raw(raw, 3)
    xp = compat.array_namespace(raw)
    _check_variance(min_variance)
    down, size = _sigmoid(raw[..., :1]), _sigmoid(raw[..., 2:])
    delta = size + min_variance
    return Gaussian(
        xp.concat([down, size], axis=-1),
        xp.concat([delta, delta], axis=-1),
        xp.zeros(raw.shape[:-1], dtype=raw.dtype, device=compat.device(raw)),
    )


def full_gaussian(
    raw: Array, *, min_variance: float = 1e-4, max_correlation: float = 0.95
) -> Gaussian:
    """Elliptic windows of any direction from five network outputs.

    Parameters
    ----------
    raw : (..., 5) real array
        Any finite values: two of the center, two of the size, one of the tilt.
    min_variance : float in (0, 1)
        v, least variance along H and W.
    max_correlation : float in [0, 1 - 1e-6]
        c: the narrow axis is at least ``sqrt(1 - c^2)`` times what it is without tilt.

    Returns
    -------
    Gaussian
        In at least float32; Sigma is positive definite for every finite input.

    Notes
    -----
    Every positive definite Sigma with variances in (v, 1) and ``|rho| < c`` is reached, and no
    other.
    Source: GATCluster Eq. 9 with a full Sigma.
    Claims: docs/claims.md#G9.

    Examples
    --------
    >>> import numpy as np
    >>> full_gaussian(np.asarray([0.0, 0.0, 0.0, 0.0, 1e300]), min_variance=0.5)
    Gaussian(mean=array([0.5, 0.5]), variances=array([0.75, 0.75]), correlation=np.float64(0.95))
    """
    raw = _check_raw(raw, 5)
    xp = compat.array_namespace(raw)
    _check_variance(min_variance)
    check_interval("max_correlation", max_correlation, 0.0, 1.0 - 1e-6)  # some width is left
    variances = min_variance + (1.0 - min_variance) * _sigmoid(raw[..., 2:4])
    return Gaussian(_sigmoid(raw[..., :2]), variances, max_correlation * xp.tanh(raw[..., 4]))


def attention_map(gaussian: Gaussian, size: tuple[int, int], *, alpha: float = 0.1) -> Array:
    """Evaluate windows on the grid of a feature map (Eq. 9).

    Parameters
    ----------
    gaussian : Gaussian
        Of `isotropic_gaussian` or `full_gaussian`; or any with variances >= 1e-6 and
        ``|correlation| <= 1 - 1e-6``, for which means up to 1e9 are safe.
    size : (int, int)
        H and W, each at least 1. An axis of one point has it in the middle, 1/2, where the
        published ``i / (H - 1)`` is 0 / 0.
    alpha : float in [1e-6, 1e6]
        Width factor of Eq. 9.

    Returns
    -------
    (..., H, W) array
        In [0, 1], at least float32; points far outside a window underflow to 0.

    Notes
    -----
    With ``z = (u - mu) / s`` per axis the quadratic form is
    ``(z_x^2 - 2 rho z_x z_y + z_y^2) / (1 - rho^2)``, summed here as
    ``z_x^2 + (z_y - rho z_x)^2 / (1 - rho^2)``, which rounding cannot make negative. Elementwise
    throughout, so that autocast leaves it alone. Cost O(H W) per window. Source: Eq. 9, claim G9.
    Claims: docs/claims.md#G9.

    Examples
    --------
    >>> import numpy as np
    >>> window = Gaussian(np.asarray([0.5, 0.5]), np.asarray([0.25, 1.0]), np.asarray(0.0))
    >>> attention_map(window, (3, 3), alpha=1.0).round(3)  # narrower along the first axis
    array([[0.287, 0.368, 0.287],
           [0.779, 1.   , 0.779],
           [0.287, 0.368, 0.287]])
    """
    mean, variances, correlation = gaussian
    check_same_place(mean=mean, variances=variances, correlation=correlation)
    for name, part in gaussian._asdict().items():
        check_real(f"gaussian.{name}", part)
    mean, variances, correlation = (at_least_float32(part) for part in gaussian)
    xp = compat.array_namespace(mean)
    if mean.ndim == 0 or mean.shape[-1] != 2:
        msg = (
            f"gaussian.mean must have shape (..., 2), got {tuple(mean.shape)}"
            ". To fix this, make it by dualclust.algos.losses.gatcluster.isotropic_gaussian"
        )
        raise InvalidValueError(msg)
    check_shape("gaussian.variances", variances, tuple(mean.shape))
    check_shape("gaussian.correlation", correlation, tuple(mean.shape[:-1]))
    check_interval("alpha", alpha, 1e-6, 1e6)
    if len(size) != 2:
        msg = f"size must be (H, W), got {size!r}. To fix this, pass two numbers, such as (7, 7)"
        raise InvalidValueError(msg)
    scales = xp.sqrt(variances)
    steps = []
    for axis, length in enumerate(size):
        check_count("size", length, 1)
        grid = xp.arange(length, dtype=mean.dtype, device=compat.device(mean))
        grid = grid / (length - 1) if length > 1 else grid + 0.5
        center, scale = mean[..., axis : axis + 1], scales[..., axis : axis + 1]
        steps.append((grid - center) / scale)
    down, across = steps[0][..., :, None], steps[1][..., None, :]
    rho = correlation[..., None, None]
    tilted = across - rho * down
    form = down * down + tilted * tilted / ((1.0 - rho) * (1.0 + rho))
    return xp.exp(-form / alpha)


def attended_features(features: Array, attention: Array) -> Array:
    """Weigh every channel by the window and sum over positions.

    Parameters
    ----------
    features : (..., c, H, W) real array
    attention : (..., H, W) real array
        `attention_map`; leading axes as those of `features`.

    Returns
    -------
    (..., c) array
        At least float32.

    Notes
    -----
    The *sum*, as the released code has it: with the mean that "global pooling" suggests, a narrow
    window would also shrink the features. Source: GATCluster section 3.2.

    Examples
    --------
    >>> import numpy as np
    >>> attended_features(np.ones((2, 3, 3)), np.full((3, 3), 0.5))
    array([4.5, 4.5])
    """
    xp = check_real("features", features)
    check_real("attention", attention)
    check_same_place(features=features, attention=attention)
    if features.ndim < 3:
        msg = (
            f"features must have shape (..., c, H, W), got {tuple(features.shape)}"
            ". To fix this, pass the map of features from before pooling"
        )
        raise InvalidValueError(msg)
    check_shape("attention", attention, tuple(features.shape[:-3] + features.shape[-2:]))
    weighted = at_least_float32(features) * at_least_float32(attention)[..., None, :, :]
    return xp.sum(weighted, axis=(-2, -1))


def _sigmoid(x: Array) -> Array:
    """``1 / (1 + exp(-x))`` without overflow for any finite x, in value and gradient."""
    return 0.5 + 0.5 * compat.array_namespace(x).tanh(0.5 * x)


def _check_raw(raw: Array, length: int) -> Array:
    check_real("raw", raw)
    raw = at_least_float32(raw)
    if raw.ndim == 0 or raw.shape[-1] != length:
        msg = (
            f"raw must have shape (..., {length}), got {tuple(raw.shape)}"
            f". To fix this, give the last layer of the network {length} outputs"
        )
        raise InvalidValueError(msg)
    return raw


def _check_variance(min_variance: float) -> None:
    if check_interval("min_variance", min_variance, 1e-6, 1.0) == 1.0:
        msg = (
            f"min_variance must lie in [1e-6, 1), got {min_variance!r}"
            ". To fix this, pass a number in there"
        )
        raise InvalidValueError(msg)
