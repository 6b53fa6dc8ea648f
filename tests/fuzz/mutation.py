"""Changes of bytes at random, for where no fuzzer is installed: it is blind to coverage."""

from __future__ import annotations

import random
from collections.abc import Iterator

__all__ = ["mutants"]

WORDS = (
    b"-1", b"0", b"1e999", b"NaN", b"null", b"true", b"[]", b"{}", b'""', b"9" * 30, b"\0", b"\xff",
    b"-", b"(", b"[", b"{", b"'", b'"', b"shape", b"dtype", b"<f8", b"|O", b"\xff\xff\xff\xff",
    b"\0\0\0\0", b"\x7f\xff\xff\xff", b",", b":", b"=", b"\n",
)  # fmt: skip
"""What is put in, beside single bits and bytes."""


def mutants(seeds: list[bytes], seed: int) -> Iterator[bytes]:
    """Yield changed copies of the seeds without end; equal seeds give equal ones."""
    rng = random.Random(seed)
    while True:
        content = bytearray(rng.choice(seeds))
        for _ in range(rng.choice((1, 1, 1, 2, 4, 8))):
            _change(content, rng)
        yield bytes(content)


def _change(content: bytearray, rng: random.Random) -> None:
    """Change one place."""
    n = len(content)
    at, other = rng.randrange(n + 1), rng.randrange(n + 1)
    way = rng.randrange(7)
    if way == 0 and n:
        content[at % n] ^= 1 << rng.randrange(8)
    elif way == 1 and n:
        content[at % n] = rng.randrange(256)
    elif way == 2:
        content[at:at] = rng.choice(WORDS)
    elif way == 3:
        word = rng.choice(WORDS)
        content[at : at + len(word)] = word
    elif way == 4:
        del content[at : at + rng.choice((1, 2, 8, 64))]
    elif way == 5:
        content[at:at] = content[other : other + rng.choice((1, 8, 64))]
    else:
        del content[at:]
