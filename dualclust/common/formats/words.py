"""Words and their vectors: what GloVe, word2vec and fastText write, as text and in binary.

A line of text is a word and its numbers, with spaces between. word2vec's begin with a line of the
number of words and the length of a vector; so does its binary form, where a word ends at a space
and float32 numbers follow. Words are the ids of the rows. Text without words is read as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from ...algos.core.errors import InvalidTypeError
from .checks import refuse, refuse_options
from .rows import BATCH_BYTES, Part, Selection, Stream
from .text_layout import BLOCK_BYTES, refuse_long_line
from .unpacked import opened

__all__ = ["open_word2vec", "open_words"]

RULE = "Each line is a word and its numbers, or numbers alone, with spaces between"
SAME = "write the same number of numbers in each line"
AGAIN = "write or copy it again"
LINES = 2**10
"""Of text at a time."""

LONGEST_WORD = 2**12
"""Bytes of a word in a binary file."""


class _Lines(NamedTuple):
    """How lines are divided."""

    skipped: int
    words: bool
    d: int


def open_words(path: Path, selection: Selection, skipped: int, stored: np.dtype[Any]) -> Stream:
    """Find the rows of a text whose fields are divided by spaces, after `skipped` lines."""
    refuse_options(path, "text with spaces between its fields", selection, "dtype")
    layout, n = _layout(path, skipped)

    def rows() -> Iterator[NDArray[Any]]:
        done = 0
        for first, lines in _batches(path, layout.skipped):
            yield _numbers(path, layout, first, lines).astype(stored)
            done += len(lines)
        if n not in (None, done):
            rule = "The first line says how many follow, and how many numbers each has"
            refuse(path, f"says that it has {n} lines, and has {done}", rule, AGAIN)

    def ids() -> Iterator[NDArray[Any]]:
        for _, lines in _batches(path, layout.skipped):
            words = [line.rsplit(None, layout.d)[0] for line in lines]
            yield np.asarray([word.decode("utf-8", "replace") for word in words])

    part = Part("vectors of words" if layout.words else "")
    return Stream(str(path), None, layout.d, stored, rows, ids if layout.words else None, part)


def open_word2vec(path: Path, selection: Selection) -> Stream:
    """Find the rows of a binary file of word2vec."""
    refuse_options(path, "a word2vec file", selection, "")
    with opened(path) as file:
        n, d = map(int, file.readline(BLOCK_BYTES).split())
    if n < 1 or d < 1:
        rule = "Embeddings have at least one row and one column"
        refuse(path, f"says that it has {n} words of {d} numbers", rule, "write it again")

    def records(file: BinaryIO) -> Iterator[tuple[bytes, bytes]]:
        file.readline(BLOCK_BYTES)
        for _ in range(n):
            word = bytearray()
            while (byte := file.read(1)) not in (b" ", b"") and len(word) < LONGEST_WORD:
                word += byte
            vector = file.read(4 * d)
            if len(vector) < 4 * d:
                rule = f"It must hold {n} words of {d} numbers, as its first line says"
                refuse(path, "is cut off", rule, AGAIN)
            yield bytes(word).lstrip(b"\n"), vector

    def batches() -> Iterator[list[tuple[bytes, bytes]]]:
        with opened(path) as file:
            found = records(file)
            while some := list(islice(found, max(1, BATCH_BYTES // (4 * d)))):
                yield some

    def rows() -> Iterator[NDArray[Any]]:
        for some in batches():
            yield np.frombuffer(b"".join(vector for _, vector in some), "<f4").reshape(-1, d)

    def ids() -> Iterator[NDArray[Any]]:
        for some in batches():
            yield np.asarray([word.decode("utf-8", "replace") for word, _ in some])

    return Stream(str(path), n, d, np.dtype("<f4"), rows, ids, Part("vectors of words"))


def _layout(path: Path, skipped: int) -> tuple[_Lines, int | None]:
    """Look at the first two lines; return how to divide lines, and n where the first says it."""
    _, lines = next(_batches(path, skipped))
    first, second = (line.split() for line in (lines[0], lines[min(1, len(lines) - 1)]))
    if len(lines) > 1 and len(first) == 2 and all(field.isdigit() for field in first):
        n, d = map(int, first)
        if d > 0 and len(second) >= d and _is_header(path, skipped, n, second):
            return _Lines(skipped + 1, len(second) > d, d), n
    if len(lines) > 1 and len(first) > 1 and not any(map(_is_number, first)):
        return _layout(path, skipped + 1)  # a line of names
    words = not _is_number(first[0])
    return _Lines(skipped, words, len(first) - words), None


def _is_header(path: Path, skipped: int, n: int, second: list[bytes]) -> bool:
    """Return whether a first line of two whole numbers is n and d, and not a row of two numbers."""
    if len(second) != 2 or not _is_number(second[0]):
        return True
    return n == sum(len(lines) for _, lines in _batches(path, skipped)) - 1


def _batches(path: Path, skipped: int) -> Iterator[tuple[int, list[bytes]]]:
    """Yield lines with the number of the first of them, from 1; empty ones are left out."""
    with opened(path) as file:
        number = 0
        while lines := list(islice(iter(lambda: file.readline(BLOCK_BYTES), b""), LINES)):
            if max(map(len, lines)) == BLOCK_BYTES:
                refuse_long_line(path)
            if number == 0:
                lines[0] = lines[0].removeprefix(b"\xef\xbb\xbf")
            own = [line for line in lines[max(0, skipped - number) :] if line.strip()]
            if own:
                yield number + 1 + max(0, skipped - number), own
            number += len(lines)


def _numbers(path: Path, layout: _Lines, first: int, lines: list[bytes]) -> NDArray[np.float64]:
    d, words = layout.d, layout.words
    divided = [line.rsplit(None, d) if words else line.split() for line in lines]
    fields = [some[words:] for some in divided]
    for i, some in enumerate(fields):
        word = divided[i][0].split() if words else []
        # A word may hold spaces ("at name@domain.com"), but no number behind one.
        if len(word) > 1 and _is_number(word[-1]):
            refuse(path, f"has more than {d} numbers in line {first + i}", RULE, SAME)
        if len(some) != d:
            found = f"has {len(some)} numbers in line {first + i}, and {d} in the first"
            refuse(path, found, RULE, SAME)
    try:
        return np.asarray(fields, dtype=np.float64)
    except ValueError:
        _refuse_number(path, first, fields)


def _refuse_number(path: Path, first: int, fields: list[list[bytes]]) -> NoReturn:
    i, field = next((i, f) for i, some in enumerate(fields) for f in some if not _is_number(f))
    found = f"has no number in line {first + i}: {field[:40].decode('utf-8', 'replace')!r}"
    refuse(path, found, RULE, "write numbers alone: np.savetxt('X.txt', x)", InvalidTypeError)


def _is_number(field: bytes) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True
