"""SplitMix64 and the method of Box and Muller a second time, apart from `core.random`.

Written from Steele, Lea and Flood (OOPSLA 2014) in Python's integers, which do not wrap around: a
state that grows by one constant, and a function of it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

__all__ = ["KNOWN_WORDS", "normal_numbers", "random_words"]

Floats = NDArray[np.float64]

KNOWN_WORDS = {
    0: (0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F),
    1234567: (0x599ED017FB08FC85, 0x2C73F08458540FA5, 0x883EBCE5A3F27C77),
}
"""The first words of two seeds, as implementations of the published generator print them."""

_LAST = 2**64 - 1


def random_words(seed: int, n: int, stream: int = 0) -> Iterator[int]:
    """Yield n words, from where a generator of this seed is after ``2^32 stream`` words."""
    state = (seed + stream * 2**32 * 0x9E3779B97F4A7C15) & _LAST
    for _ in range(n):
        state = (state + 0x9E3779B97F4A7C15) & _LAST
        word = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _LAST
        word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & _LAST
        yield word ^ (word >> 31)


def normal_numbers(n: int, key: int, stream: int) -> Floats:
    """Return the first n normal numbers of a key and a stream.

    Two words give two, first by the cosine and then by the sine.
    """
    shares = np.asarray([w // 2**11 for w in random_words(key, n + n % 2, stream)]) / 2.0**53
    u, v = shares.reshape(-1, 2).T
    z = np.sqrt(-2.0 * np.log1p(-u)) * np.exp(2j * np.pi * v)
    found: Floats = np.stack([z.real, z.imag], axis=-1).reshape(-1)[:n]
    return found
