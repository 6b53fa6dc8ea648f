r"""Directions of vectors, with gradients that stay finite.

Problem: losses on the unit sphere first normalize features, ``w = x / ||x||``. The square of a long
or a short vector leaves the range of its dtype, 0 has no direction, and near 0 the gradient
``(I - w w^T) / ||x||`` overflows: one such feature makes every weight of a network NaN.
`projections.project_sphere` is the same map for values only; it normalizes short vectors too.

=========================  ===============  ==========  ==========================================
symbol                     here             shape       meaning
=========================  ===============  ==========  ==========================================
:math:`x`                  ``x``            (..., d)    vectors of any length
:math:`w`                  ``vectors``      (..., d)    unit length; 0 where there is no direction
\                          ``valid``        (...)       whether there is one
=========================  ===============  ==========  ==========================================
"""

from __future__ import annotations

from typing import NamedTuple

from .checks import check_real, check_shape
from .errors import InvalidValueError
from .precision import at_least_float32
from .reads import detached
from .types import Array

__all__ = ["Directions", "directions_of", "unit_directions"]

# Keeps the products of `_one_bit` within the range of float64.
_UNIT = 2.0**-60


class Directions(NamedTuple):
    """Unit rows, (..., d), 0 without a direction; and whether a row has one, (...) bool."""

    vectors: Array
    valid: Array


def unit_directions(x: Array) -> Directions:
    """Scale rows to unit length with safe gradients; mark rows without a direction.

    Parameters
    ----------
    x : (..., d) real array
        Finite, d >= 1.

    Returns
    -------
    Directions
        ``vectors`` in float64 whatever the dtype of `x`.

    Raises
    ------
    InvalidValueError
        If `x` has no columns.

    Notes
    -----
    A row has no direction if no entry exceeds the square root of the smallest normal number of
    its dtype (1e-19 in float32, 1e-154 in float64): its gradient, of size 1 / ||x||, would
    overflow. Such a row gets value and gradient 0. Cost O(d) per row.
    Claims: docs/claims.md#P11.

    Examples
    --------
    >>> import numpy as np
    >>> unit_directions(np.asarray([[3e300, 4e300], [0.0, 0.0]])).vectors
    array([[0.6, 0.8],
           [0. , 0. ]])
    """
    xp = check_real("x", x)
    if x.ndim < 1 or x.shape[-1] < 1:
        msg = (
            f"x must have at least one column, got shape {tuple(x.shape)}"
            ". To fix this, pass at least one"
        )
        raise InvalidValueError(msg)
    smallest = float(xp.finfo(at_least_float32(x).dtype).smallest_normal) ** 0.5
    is_narrow = xp.finfo(x.dtype).bits < 64
    x = xp.astype(x, xp.float64, copy=False)
    largest = xp.max(xp.abs(detached(x)), axis=-1, keepdims=True)
    valid = largest > smallest
    if not is_narrow:  # the square of a float32 is a float64
        x = x / _one_bit(xp.where(valid, largest, xp.ones_like(largest))) * _UNIT
    x = xp.where(valid, x, xp.zeros_like(largest))
    squares = xp.sum(x * x, axis=-1, keepdims=True)
    # A valid row has a larger square; the other ones are 0.
    return Directions(x / xp.sqrt(xp.clip(squares, min=0.5 * smallest**2)), valid[..., 0])


def directions_of(name: str, x: Array | Directions) -> Directions:
    """Directions of the rows of an array (..., b, d) called `name`, or those that are given."""
    given = x.vectors if isinstance(x, Directions) else x
    check_real(name, given)
    check_shape(name, given, (*given.shape[:-2], "b", "d"))
    return x if isinstance(x, Directions) else unit_directions(x)


def _one_bit(values: Array) -> Array:
    """Round positive numbers to one significant bit and multiply them by `_UNIT`.

    What is left is a power of two, by which a division rounds nothing. Three roundings find it
    (Veltkamp 1968), which every device does alike: ``pow(2, floor(log2(x)))`` is off by a last bit
    on CUDA.
    """
    small = values * _UNIT
    wide = (2.0**52 + 1.0) * small
    return wide - (wide - small)
