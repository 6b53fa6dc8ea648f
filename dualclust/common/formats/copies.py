"""The temporary copy of rows that cannot be read in any order.

Clustering takes up to 20 passes over the rows, and rows by their numbers in between. From a packed
file, each of these would unpack everything again (`docs/decisions/0025-formats.md` has the times).
So the rows are laid down once as plain numbers, a batch at a time, in a file that has no name: the
system gives its space back whatever ends the process.

Ranks copy the rows of their own share alone where these lie in several files that know their
lengths: no rank then unpacks the shards of another. The ranks of one machine share a copy of a
single file, which has to be unpacked from its beginning anyway. For this the copy has a name until
the last of them has opened it. The name says which files in which state it is of, and whose run it
belongs to, so that what a killed run leaves is taken by no other.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import struct
import sys
import tempfile
import weakref
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

import numpy as np
from numpy.typing import NDArray

from ...algos.core.errors import OutputError
from ..ranks import Ranks, local_world_size, read_launch, run_token
from .checks import refuse
from .plain import OpenFile, PlainRows
from .rows import BATCH_BYTES, WHOLE, Ids, Part, Stream, common_dtype, computed_dtype

__all__ = ["copy_rows"]

HEADER = struct.Struct("<QQ")
"""Of a shared copy: rows (0 while it is being written), and ranks that have opened it."""

START = 4096
"""Bytes before the first row."""


def copy_rows(
    name: str,
    parts: list[Stream | PlainRows],
    ids: Ids | None,
    *,
    files: list[Path],
    part: Part = WHOLE,
    unit: int | None = None,
) -> PlainRows:
    """Lay down the rows of one or several files as plain numbers, and return these.

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

    Raises
    ------
    OutputError
        If the folder for temporary files has not enough space.
    InvalidValueError
        If a file turns out to be damaged, or to have no rows.
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
    try:
        if span is not None or read_launch() is None or not hasattr(os, "O_NOFOLLOW"):
            file: BinaryIO = tempfile.TemporaryFile()
            place = OpenFile(file)
            n = _lay_down(file, parts, stored, span)
        else:
            place, n = _shared_copy(_key(name, parts, files), parts, stored)
    except OSError as error:
        _refuse_space(name, f"and writing it failed: {error.strerror or error}")
    if n == 0:
        rule = "Embeddings have at least one row"
        refuse(name, "has no rows", rule, "look at the program that wrote it")
    dtype = computed_dtype(stored)
    # Where the first row of all would lie, if it were in the copy.
    offset = START - (span[0] * d * stored.itemsize if span is not None else 0)
    return PlainRows(name, place, n, d, stored, dtype, offset=offset, ids=ids, part=part)


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


# Ranks -------------------------------------------------------------------------------------------


def _key(name: str, parts: list[Stream | PlainRows], files: list[Path]) -> str:
    """Return what only the ranks of this run have in common, of these files as they are now.

    Ports and ids of launchers come again; the first rank's token does not.
    """
    run = [os.environ.get(v, "") for v in ("MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID")]
    shape = [f"{part.name} {part.n_samples} {part.n_features} {part.stored}" for part in parts]
    state = [f"{file.absolute()} {(s := file.stat()).st_size} {s.st_mtime_ns}" for file in files]
    text = "\n".join([*run, run_token(), str(os.getuid()), os.getcwd(), name, *shape, *state])
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def _shared_copy(
    key: str, parts: list[Stream | PlainRows], dtype: np.dtype[Any]
) -> tuple[OpenFile, int]:
    """Return the copy of this machine's ranks and its number of rows; the first rank writes it."""
    import fcntl

    path = Path(tempfile.gettempdir(), f"dualclust-{key}.rows")
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    file: BinaryIO = os.fdopen(descriptor, "r+b")
    if os.fstat(descriptor).st_uid != os.getuid():
        msg = "a file of another user has the name of the copy"
        raise OSError(msg)
    # A rank that fails before the others have opened the copy takes the name away with it.
    place = OpenFile(file)
    end = weakref.finalize(place, _forget, path)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        n, opened = HEADER.unpack(file.read(HEADER.size).ljust(HEADER.size, b"\0"))
        if n == 0:
            file.truncate(0)
            n = _lay_down(file, parts, dtype)
        file.seek(0)
        file.write(HEADER.pack(n, opened + 1))
        file.flush()
        if opened + 1 >= local_world_size():
            end()
    finally:
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    return place, n


def _forget(path: Path) -> None:
    with suppress(OSError):
        path.unlink()
