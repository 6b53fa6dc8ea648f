"""The precision of computations: at least float32, whatever the dtype of the features.

A sum of many exponentials, or of squares, has 3 digits in float16 and 2 in bfloat16, and float16
overflows at 65504: a score of 6.6 at temperature 1e-4. Losses, norms and means therefore begin
with `at_least_float32` and return the dtype in which they computed. Arrays in float32 and float64
pass unchanged, as the same object.
"""

from __future__ import annotations

import array_api_compat as compat

from .checks import check_real
from .types import Array

__all__ = ["LARGEST_WEIGHT", "at_least_float32", "finite_log", "times_power_of_two"]

# Largest weight of a loss term: its product with any logarithm is finite in float32.
LARGEST_WEIGHT = 1e30


def at_least_float32(scores: Array) -> Array:
    """Raise half precision to float32, without rounding; leave float32 and float64 as they are.

    Parameters
    ----------
    scores : (...) real array
        float16 or bfloat16 is converted exactly; a wider array is returned itself, not copied.

    Returns
    -------
    (...) array
        Same namespace and device; float32 or float64. Gradients pass through.

    Raises
    ------
    InvalidTypeError
        If `scores` is not an array of real floating-point numbers.

    Notes
    -----
    Cost O(1) for float32 and float64, one copy for half precision. Under PyTorch's autocast a
    *product of matrices* may still come out in half precision: convert after it, not only before.

    Examples
    --------
    >>> import numpy as np
    >>> at_least_float32(np.asarray([60000.0], dtype=np.float16)).dtype
    dtype('float32')
    >>> x = np.asarray([1.0])
    >>> at_least_float32(x) is x
    True
    """
    xp = check_real("scores", scores)
    return xp.astype(scores, xp.float32) if xp.finfo(scores.dtype).bits < 32 else scores


def finite_log(p: Array) -> Array:
    """Return the logarithm of probabilities, clipped from below at the smallest normal number.

    Parameters
    ----------
    p : (...) real array, nonnegative
        Half precision is computed and returned in float32.

    Returns
    -------
    (...) array
        At least -87.4 in float32 and -708.4 in float64.

    Notes
    -----
    So ``p log p`` is 0 at 0, and a label of 0 has a large, finite cost. An infinite cost would turn
    the mean of a whole batch, and its gradient, into NaN. Below the floor the gradient is 0.

    Examples
    --------
    >>> import numpy as np
    >>> finite_log(np.asarray([1.0, 0.0])).round(1)
    array([   0. , -708.4])
    """
    p = at_least_float32(p)
    xp = compat.array_namespace(p)
    return xp.log(xp.clip(p, min=float(xp.finfo(p.dtype).smallest_normal)))


def times_power_of_two(values: Array, exponent: int) -> Array:
    """Return ``values * 2**exponent``, exact, unless the result is subnormal or overflows."""
    if exponent == 0:
        return values
    half = exponent // 2  # the whole power may be out of range although the product is not
    return values * 2.0**half * 2.0 ** (exponent - half)
