r"""Random numbers as functions of a key: no generator, no state, the same on every library.

Problem: ProPos adds noise to features in every step (Eq. 9), k-means++ draws rows, and random signs
estimate the errors of prices. Numbers from a library's generator depend on earlier draws, and
differ between libraries, devices and resumed runs. A *counter-based* generator has no state: the
i-th number is a function of i and a key. Here it is SplitMix64 (Steele, Lea and Flood, OOPSLA
2014), which mixes the bits of a counter c of 64 bits in three steps:

``z = key + c 0x9E3779B97F4A7C15``,   ``z <- (z ^ (z >> 30)) 0xBF58476D1CE4E5B9``,
``z <- (z ^ (z >> 27)) 0x94D049BB133111EB``,   ``z ^ (z >> 31)``

The highest 53 bits are a uniform number. Two of them make two normal ones (Box and Muller),

``sqrt(-2 log(1 - u)) cos(2 pi v)``,   ``sqrt(-2 log(1 - u)) sin(2 pi v)``,

and the highest bit of one makes a sign.

=========  =================  ==================================================================
symbol     here               meaning
=========  =================  ==================================================================
key        ``key``, ``seed``  the run: one integer below 2^64
c          place and          ``2^32 s + i``: the i-th number, from 1, of stream s below 2^31,
           ``stream``         such as a step; streams of up to 2^32 numbers do not overlap
=========  =================  ==================================================================

The bits are equal everywhere; normal numbers may differ in the last bits of log, cos and sin.
"""

from __future__ import annotations

import math
from typing import Any

import array_api_compat as compat

from .checks import check_count
from .errors import InvalidValueError
from .types import Array, Namespace

__all__ = ["normal_noise", "random_signs", "uniforms"]

GOLDEN = 0x9E3779B97F4A7C15
STREAM = 2**32
MIXERS = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
LAST = 31


def normal_noise(
    shape: tuple[int, ...],
    *,
    key: int,
    stream: int | Array = 0,
    xp: Namespace,
    dtype: Any = None,
    device: object | None = None,
) -> Array:
    """Return independent standard normal numbers: a pure function of key, stream and index.

    Parameters
    ----------
    shape : tuple of int
    key : int in [0, 2^64)
        The run.
    stream : int in [0, 2^31), or () int64 array
        Which noise of the run, for example the number of the step. An array is not read back.
    xp : namespace of the array library
    dtype : dtype, optional
        Dtype of the result, float64 by default; computed in float64 in any case.
    device : optional

    Returns
    -------
    array of `shape`
        Below 8.58 in magnitude, as 53 bits allow.

    Notes
    -----
    Cost: some 30 operations on as many numbers. No global state is read or changed.
    Claims: docs/claims.md#P8, #P13.

    Examples
    --------
    >>> import numpy as np
    >>> normal_noise((3,), key=1, stream=5, xp=np).shape
    (3,)
    """
    n = math.prod(shape)
    drawn = _words(key, n + n % 2, stream, "key", xp, device)
    xp = compat.array_namespace(drawn)  # also where `xp` is the library's own module
    drawn = xp.reshape(_fractions(drawn), (-1, 2))
    u, v = drawn[:, 0], drawn[:, 1]
    radius, angle = xp.sqrt(-2.0 * xp.log(1.0 - u)), 2.0 * math.pi * v
    pairs = xp.stack([radius * xp.cos(angle), radius * xp.sin(angle)], axis=-1)
    flat = xp.reshape(pairs, (-1,))[:n]
    kind = xp.float64 if dtype is None else dtype
    return xp.astype(xp.reshape(flat, shape), kind, copy=False)


def random_signs(
    shape: tuple[int, ...],
    *,
    key: int,
    stream: int | Array = 0,
    xp: Namespace,
    device: object | None = None,
) -> Array:
    """Return independent signs, -1 or 1 equally likely: a pure function of key, stream and index.

    Parameters
    ----------
    shape : tuple of int
    key, stream : int
        As in `normal_noise`.
    xp : namespace of the array library
    device : optional

    Returns
    -------
    float64 array of `shape`

    Notes
    -----
    Cost: some 20 operations on as many integers.

    Examples
    --------
    >>> import numpy as np
    >>> random_signs((6,), key=2, xp=np)
    array([-1., -1., -1., -1.,  1.,  1.])
    """
    words = _words(key, math.prod(shape), stream, "key", xp, device)
    xp = compat.array_namespace(words)
    return xp.reshape(1.0 - 2.0 * xp.astype(words < 0, xp.float64), shape)


def uniforms(seed: int, n: int, *, xp: Namespace, device: object | None = None) -> Array:
    """Return random numbers in [0, 1): a function of seed and index, the same on every library.

    Parameters
    ----------
    seed : int in [0, 2^64)
    n : int >= 0
    xp : namespace of the array library
    device : optional

    Returns
    -------
    (n,) float64 array, in [0, 1)
        Multiples of 2^-53.

    Notes
    -----
    Products of 64-bit integers wrap around, as the generator requires.

    Examples
    --------
    >>> import numpy as np
    >>> uniforms(0, 2, xp=np).round(6)
    array([0.883311, 0.431528])
    """
    return _fractions(_words(seed, n, 0, "seed", xp, device))


def _words(
    key: int, n: int, stream: int | Array, name: str, xp: Namespace, device: object | None
) -> Array:
    """Random bits of the first n places of a stream: (n,) int64. The key is called `name`."""
    counted = not compat.is_array_api_obj(stream)
    for what, value, size in ((name, key, 64), ("stream", stream if counted else 0, 31)):
        if check_count(what, value, 0) >= 2**size:
            msg = f"{what} must be below 2^{size}, got {value}. To fix this, pass a smaller number"
            raise InvalidValueError(msg)
    check_count("n", n, 0)
    place = xp.arange(1, n + 1, dtype=xp.int64, device=device) + stream * STREAM
    bits = place * _signed(GOLDEN) + _signed(key)
    for shift, factor in MIXERS:
        bits = (bits ^ _shifted(bits, shift)) * _signed(factor)
    return bits ^ _shifted(bits, LAST)


def _fractions(words: Array) -> Array:
    """The highest 53 bits as numbers in [0, 1)."""
    xp = compat.array_namespace(words)
    return xp.astype(_shifted(words, 11), xp.float64) * 2.0**-53


def _signed(word: int) -> int:
    """Return the int64 with the bits of an unsigned word."""
    return word - 2**64 if word >= 2**63 else word


def _shifted(bits: Array, shift: int) -> Array:
    """Shift to the right and fill with zeros; the shift of int64 would fill with the sign."""
    return (bits >> shift) & ((1 << (64 - shift)) - 1)
