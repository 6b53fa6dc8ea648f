"""The temporary copy of rows that cannot be read in any order.

Clustering takes up to 20 passes over the rows, and rows by their numbers in between. From a packed
file, each of these would unpack everything again (`docs/decisions/0025-formats.md` has the times).
So the rows are laid down once as plain numbers, a batch at a time, in a file that has no name: the
system gives its space back whatever ends the process. Where the headers of the files tell how many
rows there are, this waits until the first row is read: what that number does not suit is refused
before anything is unpacked.

Ranks copy the rows of their own share alone where these lie in several files that know their
lengths: no rank then unpacks the shards of another. The ranks of one machine share a copy of a
single file (`shared_copies`), which has to be unpacked from its beginning anyway.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

import numpy as np
from numpy.typing import NDArray

from ...algos.core.errors import OutputError
from ..ranks import Ranks, read_launch
from .checks import refuse
from .plain import OpenFile, PlainRows
from .rows import BATCH_BYTES, WHOLE, Floats, Ids, Part, Stream, common_dtype, computed_dtype
from .shared_copies import remove_leftovers, shared_copy

__all__ = ["CopiedRows", "copy_rows"]

START = 4096
"""Bytes before the first row."""


class CopiedRows:
    """Rows whose number headers tell; they are copied when the first of them is read.

    Parameters
    ----------
    name : str
    n_samples, n_features : int
    stored : dtype
        Of the copy.
    ids : callable or None
    part : Part
    copy : callable
        Makes the copy, and is called once.

    Attributes
    ----------
    dtype : dtype
        Of the rows returned.
    """

    def __init__(
        self,
        name: str,
        n_samples: int,
        n_features: int,
        stored: np.dtype[Any],
        ids: Ids | None,
        part: Part,
        copy: Callable[[], PlainRows],
    ) -> None:
        self.name, self.n_samples, self.n_features = name, n_samples, n_features
        self.stored, self.dtype = stored, computed_dtype(stored)
        self.ids, self.part = ids, part
        self._copy, self._made = copy, threading.Lock()  # blocks may be read by several threads
        self._rows: PlainRows | None = None

    def rows(self, start: int, stop: int) -> Floats:
        """Return rows `start` to `stop`, (stop - start, d), C order."""
        return self._there().rows(start, stop)

    def take(self, ids: NDArray[np.int64]) -> Floats:
        """Return rows by their numbers, in any order, (m, d), C order."""
        return self._there().take(ids)

    def where(self, row: int) -> str:
        """Return the words that lead a reader of a message to a row."""
        return f"row {row}"

    def _there(self) -> PlainRows:
        with self._made:
            if self._rows is None:
                self._rows = self._copy()
            return self._rows


def copy_rows(
    name: str,
    parts: list[Stream | PlainRows],
    ids: Ids | None,
    *,
    files: list[Path],
    part: Part = WHOLE,
    unit: int | None = None,
) -> PlainRows | CopiedRows:
    """Lay down the rows of one or several files as plain numbers: at once, or when one is read.

    Parameters
    ----------
    name : str
        For messages.
    parts : list of Stream or PlainRows
        Of equal width; joined in this order.
    ids : callable or None
        Of all rows.
    files : list of Path
        Where the rows are.
    part : Part
        What of the files they are.
    unit : int, optional
        Of the shares of ranks, in rows, where each needs those of its own share alone.

    Returns
    -------
    PlainRows, or CopiedRows where all headers tell how many rows there are

    Raises
    ------
    OutputError
        If the folder for temporary files has not enough space; on reading, if it cannot be written.
    InvalidValueError
        If a file turns out to be damaged, or to have no rows; on reading, where that is when rows
        are copied.
    """
    stored = common_dtype([part.stored for part in parts])
    if any(isinstance(part, PlainRows) and part.bfloat16 for part in parts):
        stored = np.dtype(np.float32)
    d = parts[0].n_features
    known = [part.n_samples for part in parts]
    span = None if unit is None else _own_span(known, unit)
    n_rows = sum(n for n in known if n is not None) if span is None else span[1] - span[0]
    needed = n_rows * d * stored.itemsize
    free = shutil.disk_usage(tempfile.gettempdir()).free
    if needed + START > free:
        _refuse_space(name, f"{needed / 1e9:.3g} GB, and {free / 1e9:.3g} GB are free there")
    lengths = [n for n in known if n is not None]
    total = sum(lengths) if len(lengths) == len(known) else None

    def copied() -> PlainRows:
        return _copied(name, parts, ids, files, part, stored, span, total)

    if total is None:
        return copied()
    if total == 0:
        _refuse_no_rows(name)
    return CopiedRows(name, total, d, stored, ids, part, copied)


def _copied(
    name: str,
    parts: list[Stream | PlainRows],
    ids: Ids | None,
    files: list[Path],
    part: Part,
    stored: np.dtype[Any],
    span: tuple[int, int] | None,
    promised: int | None,
) -> PlainRows:
    """Make the copy, and check that it has as many rows as the headers say."""
    folder = Path(tempfile.gettempdir())
    remove_leftovers(folder)
    lay_down = partial(_lay_down, parts=parts, dtype=stored, span=span)
    try:
        if span is not None or read_launch() is None or not hasattr(os, "O_NOFOLLOW"):
            file: BinaryIO = tempfile.TemporaryFile()
            place = OpenFile(file)
            n = lay_down(file)
        else:
            shapes = [f"{one.name} {one.n_samples} {one.n_features} {one.stored}" for one in parts]
            place, n = shared_copy(folder, [name, *shapes], files, lay_down)
    except OSError as error:
        _refuse_space(name, f"and writing it failed: {error.strerror or error}")
    if n == 0:
        _refuse_no_rows(name)
    if promised not in (None, n):
        found, rule = f"promises {promised} rows and holds {n}", "A file holds what its header says"
        refuse(name, found, rule, "write or copy it again")
    d = parts[0].n_features
    # Where the first row of all would lie, if it were in the copy.
    offset = START - (span[0] * d * stored.itemsize if span is not None else 0)
    dtype = computed_dtype(stored)
    return PlainRows(name, place, n, d, stored, dtype, offset=offset, ids=ids, part=part)


def _refuse_no_rows(name: str) -> NoReturn:
    rule = "Embeddings have at least one row"
    refuse(name, "has no rows", rule, "look at the program that wrote it")


def _refuse_space(name: str, why: str) -> NoReturn:
    msg = (
        f"{name} needs a temporary copy of its rows in {tempfile.gettempdir()}: {why}. "
        f"To fix this, set TMPDIR to a folder with more space, or give the rows as .npy"
    )
    raise OutputError(msg)


def _own_span(known: list[int | None], unit: int) -> tuple[int, int] | None:
    """Return the first and the last row of this rank's share; None if it copies all rows."""
    launch, lengths = read_launch(), [n for n in known if n is not None]
    if launch is None or len(known) < 2 or len(lengths) < len(known):
        return None
    return Ranks(launch.rank, launch.world_size).shard(sum(lengths), unit=unit)


def _lay_down(
    file: BinaryIO,
    parts: list[Stream | PlainRows],
    dtype: np.dtype[Any],
    span: tuple[int, int] | None = None,
) -> int:
    """Write all rows after `START`, or those of a span, and return the number of all rows."""
    row = 0
    start, stop = (0, sys.maxsize) if span is None else span
    file.seek(START)
    for part in parts:
        after = sys.maxsize if part.n_samples is None else row + part.n_samples
        if span is not None and (after <= start or row >= stop):
            row = after  # nothing of it is opened
            continue
        for batch in _batches(part):
            own = batch[max(0, start - row) : max(0, stop - row)]
            with np.errstate(over="ignore"):  # infinity is reported by the check of all values
                file.write(np.ascontiguousarray(own, dtype=dtype).data)
            row += len(batch)
            if row >= stop:
                row = after
                break
    file.flush()
    return row


def _batches(part: Stream | PlainRows) -> Iterable[NDArray[Any]]:
    if isinstance(part, Stream):
        return part.batches()
    return _blocks(part)


def _blocks(part: PlainRows) -> Iterator[NDArray[Any]]:
    step = max(1, BATCH_BYTES // (part.n_features * part.dtype.itemsize))
    for start in range(0, part.n_samples, step):
        yield part.rows(start, min(part.n_samples, start + step))
