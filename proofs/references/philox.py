"""Philox 4x32-10 and the method of Box and Muller a second time, apart from `core.random`.

Written from Salmon et al. (SC 2011) in 64-bit words; the known answers are those of the authors'
test of the counter, key and result.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["KNOWN_ANSWERS", "normal_numbers", "random_words"]

Floats = NDArray[np.float64]
Words = NDArray[np.uint64]

KNOWN_ANSWERS = (
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
)
"""Counter, key and result."""

_HALF, _MASK = np.uint64(32), np.uint64(2**32 - 1)


def random_words(counter: Words, key: tuple[int, int]) -> Words:
    """Run ten rounds on counters (..., 4) of 32-bit words under one key."""
    c0, c1, c2, c3 = (counter[..., i].astype(np.uint64) for i in range(4))
    for i in range(10):
        k0 = np.uint64((key[0] + i * 0x9E3779B9) % 2**32)
        k1 = np.uint64((key[1] + i * 0xBB67AE85) % 2**32)
        a, b = c0 * np.uint64(0xD2511F53), c2 * np.uint64(0xCD9E8D57)
        c0, c1, c2, c3 = (b >> _HALF) ^ c1 ^ k0, b & _MASK, (a >> _HALF) ^ c3 ^ k1, a & _MASK
    return np.stack([c0, c1, c2, c3], axis=-1)


def normal_numbers(n: int, key: int, stream: int) -> Floats:
    """Return the first n normal numbers of a key and a stream.

    Each block gives two, first by the cosine and then by the sine.
    """
    blocks = np.arange((n + 1) // 2, dtype=np.uint64)
    high, low = np.uint64(stream >> 32), np.uint64(stream % 2**32)
    counter = np.stack([blocks, blocks * 0, blocks * 0 + low, blocks * 0 + high], axis=-1)
    words = random_words(counter, (key % 2**32, key >> 32)).astype(np.float64)
    first, second = np.floor(words[:, 1] / 2**11), np.floor(words[:, 3] / 2**11)
    u, v = ((words[:, 2 * i] * 2**21 + (first, second)[i] + 0.5) / 2**53 for i in range(2))
    z = np.sqrt(-2.0 * np.log(u)) * np.exp(2j * np.pi * v)
    found: Floats = np.stack([z.real, z.imag], axis=-1).reshape(-1)[:n]
    return found
