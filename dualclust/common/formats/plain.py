"""Rows that lie in a file as plain numbers, read in place.

A memory map would do, but the pages that it has touched count as the process's memory, also for a
scheduler that limits memory. Positioned reads into a buffer need the memory of one block only,
however long the file is.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...algos.core.errors import InvalidValueError
from .checks import refuse
from .rows import WHOLE, Floats, Ids, Part, computed_dtype

__all__ = ["OpenFile", "PlainRows", "plain_rows"]

SPAN_BYTES = 2**20
"""Most bytes of one read for scattered rows."""

SKIPPED_BYTES = 2**13
"""Unused bytes that may be read for a row: reading them takes as long as one more call."""

AGAIN = "write or copy it again"

LENGTH = np.dtype("<i4")
"""Of the length before each row of .fvecs and its relatives."""

_SEEKING = threading.Lock()


class OpenFile:
    """An open file without a name, closed with the last rows that refer to it."""

    def __init__(self, file: BinaryIO) -> None:
        self.fileno = file.fileno
        weakref.finalize(self, file.close)


class PlainRows(NamedTuple):
    """Where rows lie in a file, and of which type.

    Attributes
    ----------
    name : str
    place : Path or OpenFile
        The latter is a temporary copy.
    n_samples, n_features : int
    stored : dtype
        Of the file.
    dtype : dtype
        Of the rows returned: float64 for wide floats, else float32.
    by_columns : bool
        Fortran order.
    offset : int
        Bytes before the first value.
    bfloat16 : bool
        Whether the file holds the upper halves of float32 numbers, `stored` as uint16.
    ids : callable or None
    part : Part
    record : bool
        Whether each row begins with its length as an int32, as .fvecs has it.
    """

    name: str
    place: Path | OpenFile
    n_samples: int
    n_features: int
    stored: np.dtype[Any]
    dtype: np.dtype[Any]
    by_columns: bool = False
    offset: int = 0
    bfloat16: bool = False
    ids: Ids | None = None
    part: Part = WHOLE
    record: bool = False

    def rows(self, start: int, stop: int) -> Floats:
        """Return rows `start` to `stop` as they are stored, (stop - start, d), C order."""
        return self._read(lambda read, out: read(start, out), stop - start)

    def take(self, ids: NDArray[np.int64]) -> Floats:
        """Return rows by their numbers, in any order, (m, d), C order."""
        order = np.argsort(ids, kind="stable")
        ascending = ids[order]
        rows = np.empty((len(ids), self.n_features), dtype=self.dtype)
        rows[order] = self._read(lambda read, out: _read_scattered(read, ascending, out), len(ids))
        return rows

    def where(self, row: int) -> str:
        """Return the words that lead a reader of a message to a row."""
        return f"row {row}"

    def _read(self, fill: Callable[[_Read, NDArray[Any]], None], m: int) -> Floats:
        """Run `fill` once, or once per column of a file in Fortran order, and convert."""
        if self.record:
            return self._read_records(fill, m)
        width = 1 if self.by_columns else self.n_features
        rows = np.empty((m, self.n_features), dtype=self.dtype)
        if m == 0:
            return rows
        with _descriptor(self.place) as file:
            for j in range(self.n_features // width):
                first = self.offset + j * self.n_samples * self.stored.itemsize
                part = np.empty((m, width), dtype=self.stored)
                fill(self._reader(file, first, width * self.stored.itemsize), part)
                if self.bfloat16:
                    part = (part.astype(np.uint32) << 16).view(np.float32)
                with np.errstate(over="ignore"):  # overflow gives infinity, which the check reports
                    rows[:, j : j + width] = part
        return rows

    def _read_records(self, fill: Callable[[_Read, NDArray[Any]], None], m: int) -> Floats:
        """Read whole records, whose lengths must be those of the first one, and convert."""
        size = LENGTH.itemsize + self.n_features * self.stored.itemsize
        content = np.empty((m, size), dtype=np.uint8)
        with _descriptor(self.place) as file:
            fill(self._reader(file, self.offset, size), content)
        lengths = np.ascontiguousarray(content[:, : LENGTH.itemsize]).view(LENGTH)
        if (lengths != self.n_features).any():
            found = f"has records of other lengths than {self.n_features}"
            refuse(self.name, found, "All rows must have the same length", AGAIN)
        numbers = np.ascontiguousarray(content[:, LENGTH.itemsize :]).view(self.stored)
        return numbers.astype(self.dtype)

    def _reader(self, file: int, first: int, size: int) -> _Read:
        """Return what reads rows of `size` bytes from row 0 at the place `first`."""

        def read(start: int, out: NDArray[Any]) -> None:
            view, done = out.reshape(-1).view(np.uint8).data, 0
            while done < len(view):
                got = _read_at(file, view[done:], first + start * size + done)
                if not got:
                    msg = (
                        f"{self.name} has become shorter since its header was read. To fix "
                        f"this, let nobody write to it while it is read"
                    )
                    raise InvalidValueError(msg)
                done += got

        return read


def plain_rows(
    name: object,
    place: Path,
    shape: tuple[int, int],
    stored: np.dtype[Any],
    *,
    offset: int = 0,
    by_columns: bool = False,
    bfloat16: bool = False,
    ids: Ids | None = None,
    part: Part = WHOLE,
) -> PlainRows:
    """Return the rows of a file after a look at its length.

    Raises
    ------
    InvalidValueError
        If the file ends before its last row.
    """
    needed, there = offset + shape[0] * shape[1] * stored.itemsize, place.stat().st_size
    if there < needed:
        found = f"is cut off: its header promises {needed} bytes, and it has {there}"
        rule = "A file must be as long as its header says"
        refuse(name, found, rule, AGAIN)
    dtype = computed_dtype(stored)
    return PlainRows(
        str(name), place, *shape, stored, dtype, by_columns, offset, bfloat16, ids, part
    )


@contextmanager
def _descriptor(place: Path | OpenFile) -> Iterator[int]:
    if isinstance(place, Path):
        with place.open("rb", buffering=0) as file:
            yield file.fileno()
    else:
        yield place.fileno()


def _read_at(file: int, view: memoryview, place: int) -> int:
    """Read some bytes from a place of a file, in one system call where the system has one."""
    if hasattr(os, "preadv"):
        return os.preadv(file, [view], place)
    with _SEEKING:  # the place is the file's, and threads share the file
        os.lseek(file, place, os.SEEK_SET)
        content = os.read(file, len(view))
    view[: len(content)] = content
    return len(content)


_Read = Callable[[int, NDArray[Any]], None]


def _read_scattered(read: _Read, ids: NDArray[np.int64], out: NDArray[Any]) -> None:
    """Fill `out` with the rows `ids`, in ascending order: neighbors in one read, others singly."""
    size = out.shape[1] * out.dtype.itemsize
    span, start = max(1, SPAN_BYTES // size), 0
    while start < len(ids):
        first = int(ids[start])
        stop = int(np.searchsorted(ids, first + span))
        length = int(ids[stop - 1]) - first + 1
        if length * size <= SKIPPED_BYTES * (stop - start):
            block = np.empty((length, out.shape[1]), dtype=out.dtype)
            read(first, block)
            out[start:stop] = block[ids[start:stop] - first]
        else:
            for i in range(start, stop):
                read(int(ids[i]), out[i : i + 1])
        start = stop
