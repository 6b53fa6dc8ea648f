r"""Random numbers as functions of a key: no generator, no state, the same on every library.

Problem: ProPos adds noise to features in every step (Eq. 9), k-means++ draws rows, and random signs
estimate the errors of prices. Numbers from a library's generator depend on earlier draws, and
differ between libraries, devices and resumed runs. A *counter-based* generator has no state: the
i-th block of random bits is a function of i and a key, here Philox 4x32-10 (Salmon et al., SC
2011), ten rounds of

``(c0, c1, c2, c3) <- (hi(M1 c2) ^ c1 ^ k0,  lo(M1 c2),  hi(M0 c0) ^ c3 ^ k1,  lo(M0 c0))``

with hi and lo the halves of a 64-bit product, and the key raised by a constant between rounds. Two
uniform numbers of 53 bits from each block make two normal ones (Box and Muller),

``sqrt(-2 log u) cos(2 pi v)``,   ``sqrt(-2 log u) sin(2 pi v)``,

and the highest bit of each word makes a sign.

=========  =================  ==================================================================
symbol     here               meaning
=========  =================  ==================================================================
k0, k1     ``key``            the run: one integer below 2^64
c2, c3     ``stream``         a noise of the run, such as its step: one integer below 2^64
c0, c1     index of a block   (b,) int64
=========  =================  ==================================================================

The starts of k-means have a seed but no stream. Their `uniforms` come from *SplitMix64* (Steele,
Lea and Flood, OOPSLA 2014), also a counter-based generator: the i-th number is a function of
``seed + i * 0x9E3779B97F4A7C15``. Published results depend on these starts, so they stay.

The bits are equal everywhere; normal numbers may differ in the last bits of log, cos and sin.
"""

from __future__ import annotations

import math
from typing import Any

import array_api_compat as compat

from .checks import check_count
from .errors import InvalidValueError
from .types import Array, Namespace

__all__ = ["normal_noise", "philox", "random_signs", "uniforms"]

MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
ROUNDS = 10
WORD = 2**32 - 1

GOLDEN = 0x9E3779B97F4A7C15
MIXERS = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1))


def philox(blocks: Array, *, key: int, stream: int | Array, xp: Namespace) -> tuple[Array, ...]:
    """Return the random bits of each block: four int64 arrays of numbers in [0, 2^32).

    Parameters
    ----------
    blocks : (b,) int64 array, the low half of the counter
    key : int in [0, 2^64)
    stream : int in [0, 2^64), or () int64 array of a value in [0, 2^63), which is not read back

    Notes
    -----
    A product of two words wraps around in int64, but its bits are those of the unsigned product: a
    shift and a mask give both halves.
    """
    counted = not compat.is_array_api_obj(stream)
    for name, value in (("key", key), ("stream", stream if counted else 0)):
        if check_count(name, value, 0) >= 2**64:
            msg = f"{name} must be below 2^64, got {value}. To fix this, pass a smaller number"
            raise InvalidValueError(msg)
    c0, c1 = blocks & WORD, (blocks >> 32) & WORD
    if counted:
        c2, c3 = xp.full_like(blocks, stream & WORD), xp.full_like(blocks, stream >> 32)
    else:
        c2, c3 = (xp.zeros_like(blocks) + part for part in (stream & WORD, stream >> 32))
    k0, k1 = key & WORD, key >> 32
    for _ in range(ROUNDS):
        first, second = MULTIPLIERS[0] * c0, MULTIPLIERS[1] * c2
        c0, c1, c2, c3 = (
            ((second >> 32) & WORD) ^ c1 ^ k0,
            second & WORD,
            ((first >> 32) & WORD) ^ c3 ^ k1,
            first & WORD,
        )
        k0, k1 = (k0 + KEY_STEPS[0]) & WORD, (k1 + KEY_STEPS[1]) & WORD
    return c0, c1, c2, c3


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
    stream : int in [0, 2^64), or () int64 array
        Which noise of the run, for example the number of the step. An array is not read back.
    xp : namespace of the array library
    dtype : dtype, optional
        Dtype of the result, float64 by default; computed in float64 in any case.
    device : optional

    Returns
    -------
    array of `shape`
        Below 8.66 in magnitude, as 53 bits allow.

    Notes
    -----
    Cost: some 120 operations on half as many integers. No global state is read or changed.
    Claims: docs/claims.md#P8, #P13.

    Examples
    --------
    >>> import numpy as np
    >>> normal_noise((3,), key=1, stream=5, xp=np).shape
    (3,)
    """
    n = math.prod(shape)
    blocks = xp.arange((n + 1) // 2, dtype=xp.int64, device=device)
    xp = compat.array_namespace(blocks)  # also where `xp` is the library's own module
    words = philox(blocks, key=key, stream=stream, xp=xp)
    u, v = (
        (xp.astype((words[i] << 21) | (words[i + 1] >> 11), xp.float64) + 0.5) * 2.0**-53
        for i in (0, 2)
    )
    radius, angle = xp.sqrt(-2.0 * xp.log(u)), 2.0 * math.pi * v
    pairs = xp.stack([radius * xp.cos(angle), radius * xp.sin(angle)], axis=-1)
    flat = xp.reshape(pairs, (-1,))[:n]
    return xp.astype(xp.reshape(flat, shape), xp.float64 if dtype is None else dtype)


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
    key, stream : int in [0, 2^64)
        As in `normal_noise`.
    xp : namespace of the array library
    device : optional

    Returns
    -------
    float64 array of `shape`

    Notes
    -----
    Cost: some 100 operations on a quarter as many integers.

    Examples
    --------
    >>> import numpy as np
    >>> random_signs((6,), key=2, xp=np)
    array([ 1.,  1., -1.,  1.,  1.,  1.])
    """
    n = math.prod(shape)
    blocks = xp.arange((n + 3) // 4, dtype=xp.int64, device=device)
    xp = compat.array_namespace(blocks)
    words = xp.stack(philox(blocks, key=key, stream=stream, xp=xp), axis=-1)
    flat = xp.reshape(words >> 31, (-1,))[:n]
    return xp.reshape(1.0 - 2.0 * xp.astype(flat, xp.float64), shape)


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
    if check_count("seed", seed, 0) >= 2**64:
        msg = f"seed must be below 2^64, got {seed}. To fix this, pass a smaller number"
        raise InvalidValueError(msg)
    check_count("n", n, 0)
    place = xp.arange(1, n + 1, dtype=xp.int64, device=device)
    bits = place * _signed(GOLDEN) + _signed(seed)
    for shift, factor in MIXERS:
        bits = (bits ^ _shifted(bits, shift)) * _signed(factor)
    return xp.astype(_shifted(bits, 11), xp.float64) * 2.0**-53


def _signed(word: int) -> int:
    """Return the int64 with the bits of an unsigned word."""
    return word - 2**64 if word >= 2**63 else word


def _shifted(bits: Array, shift: int) -> Array:
    """Shift to the right and fill with zeros; the shift of int64 would fill with the sign."""
    return (bits >> shift) & ((1 << (64 - shift)) - 1)
