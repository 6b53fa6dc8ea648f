r"""Sums and differences of floating-point numbers, and what rounding takes from them.

Problem: what a row loses by its label, ``(s_ij - s_iy) + (pi_j - pi_y)``, is often a rounding of
the prices and nothing else, or so much smaller than the prices that a sum in float64 loses it. A
proof has to tell the two apart. The rounded sum of two numbers and its error are both floats, and
the error costs five more operations:

``a + b = s + e``, ``s = fl(a + b)``, ``z = fl(s - a)``, ``e = fl(fl(a - fl(s - z)) + fl(b - z))``.

So a sum of four terms is known to about twice the precision, whatever cancels. Rounding to nearest
is assumed, and that nothing overflows; underflow does no harm, because sums of subnormal numbers
are exact.

Source: Knuth, The Art of Computer Programming 2, section 4.2.2, Theorem B; the name `two_sum` is
that of Ogita, Rump and Oishi, Accurate Sum and Dot Product, 2005.

==========  ==========  =====  =================================
symbol      here        shape  meaning
==========  ==========  =====  =================================
a, b        ``a, b``    any    finite float64, of one shape
s           ``total``   same   the sum as float64 rounds it
e           ``error``   same   what rounding took away, exactly
==========  ==========  =====  =================================
"""

from __future__ import annotations

import math

from .types import Array

__all__ = ["sum_of_differences", "sum_rounded_up", "two_sum"]


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """Return the rounded sum of two arrays, and its error, entry by entry.

    Parameters
    ----------
    a, b : float64 arrays of one shape
        Finite, with finite sums; else the error is NaN.

    Returns
    -------
    total, error : float64 arrays
        ``total + error`` is the sum of `a` and `b` in exact arithmetic.

    Examples
    --------
    >>> import numpy as np
    >>> two_sum(np.asarray([1e16]), np.asarray([1.0]))
    (array([1.e+16]), array([1.]))
    """
    total = a + b
    of_b = total - a
    return total, (a - (total - of_b)) + (b - of_b)


def sum_of_differences(score: Array, own: Array, price: Array, own_price: Array) -> Array:
    """Return ``(score - own) + (price - own_price)``, rounded once.

    Parameters
    ----------
    score, own, price, own_price : float64 arrays
        Of shapes that broadcast; finite.

    Returns
    -------
    float64 array
        To about twice the precision before it is rounded: exact differences have a value of 0.

    Examples
    --------
    >>> import numpy as np
    >>> score, price = np.asarray([3.0]), np.asarray([1e17])
    >>> (score + price) - (1.0 + price)  # float64 loses the scores
    array([0.])
    >>> sum_of_differences(score, np.asarray([1.0]), price, price)
    array([2.])
    """
    gain, of_gain = two_sum(score, -own)
    more, of_more = two_sum(price, -own_price)
    total, of_total = two_sum(gain, more)
    return total + (of_total + (of_gain + of_more))


def sum_rounded_up(terms: list[float]) -> float:
    """Return the smallest float64 that is not below the exact sum of some numbers.

    Parameters
    ----------
    terms : list of float

    Returns
    -------
    float
        Infinity where the sum, or a part of it, is beyond float64.

    Notes
    -----
    Cost: O(n), by `math.fsum`, which rounds the exact sum once.

    Examples
    --------
    >>> sum_rounded_up([1e16, 1.0, -1e16])
    1.0
    >>> sum_rounded_up([1.0, 2.0**-80]) > 1.0
    True
    """
    try:
        total = math.fsum(terms)
    except OverflowError:
        return math.inf
    if math.isfinite(total) and math.fsum([*terms, -total]) > 0.0:
        return math.nextafter(total, math.inf)
    return total
