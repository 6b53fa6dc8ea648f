r"""The von Mises-Fisher density, whose normalizer leaves the range of float64.

Problem (ProPos section 8): the density on the unit sphere of R^d around a mean direction is

``f(x) = C_d(kappa) exp(kappa mu . x)``,
``C_d(kappa) = kappa^nu / ( (2 pi)^{d/2} I_nu(kappa) )``,   ``nu = d/2 - 1``           ProPos Eq. 17

with I_nu the modified Bessel function. For d = 512, I_255(2) is 3e-505, which is 0 in float64, so
the formula as printed gives infinity (claim P12). Everything here is computed in the log domain,
from one quantity that is never a difference of large numbers,

``h_nu(kappa) = log( Gamma(nu + 1) (2 / kappa)^nu I_nu(kappa) ) - kappa``,

which falls from 0 at kappa = 0. In its terms

``log f(x) = -log area(d) - kappa || x - mu ||^2 / 2 - h_nu(kappa)``

with the area of the sphere. h is computed

- for nu >= 12 by Debye's uniform expansion (DLMF 10.41.3), as the logarithm of its series with
  Stirling's series removed term by term, so that every term vanishes at kappa = 0. With
  ``r = (nu^2 + kappa^2)^{1/2}``, ``p = nu / r`` and the polynomials D_j of `debye_polynomials`,

  ``h = (r - nu - kappa) - nu log((nu + r) / 2 nu) - log(r / nu) / 2
  + sum_j (D_j(p) - D_j(1)) / nu^j``;

- for nu < 12 by the power series up to kappa = 30, and beyond by Hankel's expansion (DLMF 10.40.1).

==================  ================  ========  ==============================================
paper               here              shape     meaning
==================  ================  ========  ==============================================
:math:`\mu`         ``mean``          (..., d)  normalized here
:math:`\kappa`      ``kappa``         (...)     concentration >= 0; 0 is the uniform density
:math:`C_d`         `log_normalizer`  (...)     in nats
==================  ================  ========  ==============================================

Values of h agree with mpmath at 60 digits to a relative 1e-15, for d to 4,096 and kappa to 1e300.

Claims: docs/claims.md#P12.
"""

from __future__ import annotations

import functools
import math
from fractions import Fraction

import array_api_compat as compat

from ..core.checks import check_count, check_interval, check_real, check_same_place, check_shape
from ..core.directions import unit_directions
from ..core.precision import at_least_float32
from ..core.types import Array

__all__ = [
    "debye_polynomials",
    "log_bessel_i",
    "log_density",
    "log_normalizer",
    "log_sphere_area",
]

UNIFORM_FROM = 12.0
"""Smallest order of the uniform expansion; at 10 its error is 2e-15 with 18 terms."""
N_DEBYE = ((50.0, 8), (20.0, 12), (UNIFORM_FROM, 18))
"""Number of terms that suffices from an order on. Measured errors: 3e-16 at 20 (1e-15 with 10
terms), 3e-16 at 50, 4e-16 at 12 (5e-15 with 14 terms)."""
HANKEL_FROM = 30.0
N_SERIES = 52
N_HANKEL = 24


def log_sphere_area(n_features: int) -> float:
    """Return the log area of the unit sphere in R^d, ``log 2 + (d/2) log pi - log Gamma(d/2)``.

    Notes
    -----
    Claims: docs/claims.md#P12, #P17.

    Examples
    --------
    >>> import math
    >>> math.isclose(log_sphere_area(3), math.log(4 * math.pi))
    True
    """
    half = 0.5 * check_count("n_features", n_features, 2)
    return math.log(2.0) + half * math.log(math.pi) - math.lgamma(half)


def log_bessel_i(order: float, x: Array) -> Array:
    """Return the logarithm of the modified Bessel function of the first kind, ``log I_nu(x)``.

    Parameters
    ----------
    order : float >= 0
        nu.
    x : (...) real array
        Nonnegative; a negative number counts as 0.

    Returns
    -------
    (...) array
        In the dtype of `x`, at least float32; -inf at x = 0 for a positive order.

    Notes
    -----
    The error is below 1e-15 of the largest term ``|nu log(x/2)|``, ``log Gamma(nu + 1)`` or x.
    Cost: some 200 to 1,000 operations per number. Source: DLMF 10.25.2, 10.40.1, 10.41.3.

    Examples
    --------
    >>> import numpy as np
    >>> log_bessel_i(255.0, np.asarray([2.0])).round(4)  # I_255(2) is 3e-505, below float64
    array([-1161.7082])
    """
    nu = check_interval("order", order, 0.0, math.inf)
    xp = check_real("x", x)
    z = xp.clip(xp.astype(x, xp.float64), min=0.0)
    value = z + _scaled_log(nu, z) - math.lgamma(nu + 1.0)
    if nu > 0.0:
        positive = z > 0.0
        log_half = xp.log(xp.where(positive, z, xp.ones_like(z))) - math.log(2.0)
        value = xp.where(positive, value + nu * log_half, xp.full_like(z, -math.inf))
    return xp.astype(value, at_least_float32(x).dtype)


def log_normalizer(kappa: Array, *, n_features: int) -> Array:
    """Return the logarithm of the density's constant, ``log C_d(kappa)``.

    Parameters
    ----------
    kappa : (...) real array
        Concentration; a negative number counts as 0.
    n_features : int >= 2
        d.

    Returns
    -------
    (...) array
        In the dtype of `kappa`, at least float32. Differentiable; the derivative is minus the mean
        resultant length.

    Notes
    -----
    Source: ProPos Eq. 17; claim P12.
    Claims: docs/claims.md#P12.

    Examples
    --------
    >>> import numpy as np
    >>> log_normalizer(np.asarray([0.0, 2.0, 1e3]), n_features=512).round(3)
    array([867.968, 867.964, 327.709])
    """
    xp = check_real("kappa", kappa)
    nu = 0.5 * check_count("n_features", n_features, 2) - 1.0
    concentration = xp.clip(xp.astype(kappa, xp.float64), min=0.0)
    value = -log_sphere_area(n_features) - concentration - _scaled_log(nu, concentration)
    return xp.astype(value, at_least_float32(kappa).dtype)


def log_density(x: Array, mean: Array, kappa: Array) -> Array:
    """Return the logarithm of the von Mises-Fisher density, ``log C_d(kappa) + kappa mu . x``.

    Parameters
    ----------
    x : (..., d) real array
        Points of any length, d >= 2; normalized here.
    mean : (..., d) real array
        Mean directions, also normalized here.
    kappa : (...) real array
        Concentrations; a negative number counts as 0. The three broadcast.

    Returns
    -------
    (...) array
        In nats, by area of the sphere; in the dtype of `x`, at least float32. A row of zeros has no
        direction: it counts as being at a right angle to the other vector.

    Notes
    -----
    ``kappa (mu . x - 1)`` is computed from ``|| x - mu ||^2``, which keeps its digits if kappa is
    large and x is near the mean. This is a density over x; ProPos's Eq. 26 is not, since its sum
    over k is 1 at every x (claim P17). Source: ProPos Eq. 17; claim P12.
    Claims: docs/claims.md#P12, #P16, #P17, #P18, #P19.

    Examples
    --------
    >>> import numpy as np
    >>> x, mean = np.asarray([[0.0, 0.0, 2.0], [0.0, 0.0, -2.0]]), np.asarray([0.0, 0.0, 1.0])
    >>> log_density(x, mean, np.asarray(1e3)).round(3)
    array([    5.07, -1994.93])
    """
    xp = check_real("x", x)
    check_real("mean", mean)
    check_real("kappa", kappa)
    check_same_place(x=x, mean=mean, kappa=kappa)
    points, means = unit_directions(x), unit_directions(mean)
    d = x.shape[-1]
    check_shape("mean", mean, (*mean.shape[:-1], d))
    check_count("n_features", d, 2)
    difference = points.vectors - means.vectors
    squares = xp.sum(difference * difference, axis=-1)
    squares = xp.where(points.valid & means.valid, squares, xp.full_like(squares, 2.0))
    concentration = xp.clip(xp.astype(kappa, xp.float64), min=0.0)
    scaled = _scaled_log(0.5 * d - 1.0, concentration)
    value = -log_sphere_area(d) - concentration * (0.5 * squares) - scaled
    return xp.astype(value, at_least_float32(x).dtype)


@functools.cache
def debye_polynomials(n: int) -> tuple[dict[int, Fraction], ...]:
    """Return coefficients by power of D_1 to D_n; ``sum_j D_j / nu^j = log sum_j U_j / nu^j``.

    U_j are Debye's polynomials (DLMF 10.41.9), U_0 = 1 and

    ``U_{j+1} = p^2 (1 - p^2) U_j' / 2 + int_0^p (1 - 5 t^2) U_j dt / 8``,

    and the logarithm of a power series is ``D_j = U_j - sum_{i < j} (i / j) D_i U_{j - i}``.

    Examples
    --------
    >>> debye_polynomials(1)
    ({1: Fraction(1, 8), 3: Fraction(-5, 24)},)
    """
    powers: list[dict[int, Fraction]] = [{0: Fraction(1)}]
    for _ in range(n):
        following: dict[int, Fraction] = {}
        for i, c in powers[-1].items():
            following[i + 1] = following.get(i + 1, Fraction(0)) + c * Fraction(i, 2)
            following[i + 1] += c * Fraction(1, 8 * (i + 1))
            following[i + 3] = -c * Fraction(i, 2) - c * Fraction(5, 8 * (i + 3))
        powers.append(following)
    logs: list[dict[int, Fraction]] = []
    for j in range(1, n + 1):
        log = dict(powers[j])
        for i in range(1, j):
            for a, x in logs[i - 1].items():
                for b, y in powers[j - i].items():
                    log[a + b] = log.get(a + b, Fraction(0)) - Fraction(i, j) * x * y
        logs.append(log)
    return tuple(logs)


@functools.cache
def _quotients(n: int) -> tuple[tuple[float, ...], ...]:
    """Return coefficients of ``(D_j(1) - D_j(p)) / (1 - p)``; the i-th sums D_j's above i."""
    return tuple(
        tuple(float(sum(c for power, c in log.items() if power > i)) for i in range(max(log)))
        for log in debye_polynomials(n)
    )


def _scaled_log(nu: float, kappa: Array) -> Array:
    """Compute h of the module's docstring, for kappa >= 0 in float64."""
    if nu >= UNIFORM_FROM:
        return _uniform(nu, kappa)
    xp = compat.array_namespace(kappa)
    large, limit = kappa > HANKEL_FROM, xp.full_like(kappa, HANKEL_FROM)
    return xp.where(
        large,
        _hankel(nu, xp.where(large, kappa, limit)),
        _power_series(nu, xp.where(large, limit, kappa)),
    )


def _uniform(nu: float, kappa: Array) -> Array:
    xp = compat.array_namespace(kappa)
    r = xp.hypot(kappa, xp.full_like(kappa, nu))
    p, q = nu / r, kappa / (r + nu)  # r - nu = kappa q, without cancellation
    correction = xp.zeros_like(kappa)
    n_terms = next(n for order, n in N_DEBYE if nu >= order)
    for coefficients in reversed(_quotients(n_terms)):
        polynomial = xp.zeros_like(kappa)
        for c in reversed(coefficients):
            polynomial = polynomial * p + c
        correction = (correction + polynomial) / nu
    excess = kappa * (q / nu)  # (r - nu) / nu
    return (
        -q * nu * (1.0 + nu / (r + kappa))
        - nu * xp.log1p(0.5 * excess)
        - 0.5 * xp.log1p(excess)
        - correction * (kappa / r * q)  # 1 - p
    )


def _power_series(nu: float, kappa: Array) -> Array:
    xp = compat.array_namespace(kappa)
    quarter = 0.25 * kappa * kappa
    term, total = xp.ones_like(kappa), xp.zeros_like(kappa)
    for j in range(1, N_SERIES + 1):
        term = term * (quarter / (j * (nu + j)))
        total = total + term
    return xp.log1p(total) - kappa


def _hankel(nu: float, kappa: Array) -> Array:
    xp = compat.array_namespace(kappa)
    term, total = xp.ones_like(kappa), xp.zeros_like(kappa)
    for j in range(1, N_HANKEL + 1):
        term = term * (((2 * j - 1) ** 2 - 4.0 * nu * nu) / (8 * j) / kappa)
        total = total + term
    constant = math.lgamma(nu + 1.0) + nu * math.log(2.0) - 0.5 * math.log(2.0 * math.pi)
    return constant - (nu + 0.5) * xp.log(kappa) + xp.log1p(total)
