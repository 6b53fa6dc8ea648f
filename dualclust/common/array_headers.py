"""Headers of ``.npy`` files and ``.npz`` archives, read before anything is allocated.

NumPy allocates what a header says and then reads; for a stranger's file that is the wrong order.
Here a header is parsed, nothing in it is run, and its numbers are compared with the length of what
stands behind it.
"""

from __future__ import annotations

import ast
import lzma
import math
import re
import sys
import threading
import zipfile
import zlib
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, NoReturn

import numpy as np

from ..algos.core.errors import DualclustError, InvalidTypeError
from .untrusted import MOST_ENTRIES, MOST_PACKED, packed_too_much, refuse

__all__ = [
    "BROKEN",
    "PARSING",
    "Header",
    "archive_headers",
    "check_array_file",
    "check_entry",
    "content_offset",
    "read_header",
    "refuse_archive",
]

MAGIC = b"\x93NUMPY"

LONGEST_HEADER = 2**16
"""Most bytes of a header that is still read; one of numbers has about a hundred."""

PARSING: AbstractContextManager[Any] = (
    threading.RLock() if sys.version_info < (3, 12, 2) else nullcontext()
)
"""Held while a header is parsed, or while NumPy parses one and reads what follows: before 3.11.8
and 3.12.2, Python counts how deeply literals are nested for all threads together (gh-106905), and
two at a time may end in a SystemError."""

BROKEN = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError, RuntimeError, ValueError
)  # fmt: skip
"""What a damaged archive, or one with a password, raises."""

MOST_AXES = 64
"""Of an array of NumPy's."""

UNREADABLE = (
    ValueError, SyntaxError, KeyError, TypeError, AttributeError, IndexError, OverflowError,
    MemoryError, RecursionError,
)  # fmt: skip
"""What a header raises that is no literal, or says what is no type or no shape."""

AGAIN = "write the archive again with np.savez"


class Header(NamedTuple):
    """What the beginning of an .npy file says.

    Attributes
    ----------
    dtype : dtype
    shape : tuple of int
    by_columns : bool
        Fortran order.
    length : int
        Bytes before the first value.
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    by_columns: bool
    length: int

    @property
    def n_bytes(self) -> int:
        """Bytes of the whole file."""
        return self.length + math.prod(self.shape) * self.dtype.itemsize


def read_header(file: BinaryIO, name: object) -> Header:
    """Read the header of an .npy file from where `file` stands. Nothing in it is run.

    Raises
    ------
    InvalidValueError
        If the header is cut off or damaged.

    Examples
    --------
    >>> import io
    >>> file = io.BytesIO()
    >>> np.save(file, np.zeros((3, 2), np.float16))
    >>> read_header(io.BytesIO(file.getvalue()), "X.npy")[:3]
    (dtype('float16'), (3, 2), False)
    """
    start = file.read(len(MAGIC) + 2)
    digits = 2 if start[6:7] == b"\x01" else 4
    length = int.from_bytes(size := file.read(digits), "little")
    text = file.read(min(length, LONGEST_HEADER))
    rule = "An .npy file begins with a header that gives type and shape"
    again = "write or copy it again"
    if len(start) < len(MAGIC) + 2 or len(size) < digits:
        refuse(name, "is cut off within its header", rule, again)
    if not start.startswith(MAGIC) or start[6] not in (1, 2, 3) or length > LONGEST_HEADER:
        refuse(name, "has a damaged .npy header", rule, again)
    if len(text) < length:
        refuse(name, "is cut off within its header", rule, again)
    try:
        words = text.decode("utf-8" if start[6] == 3 else "latin1")
        with PARSING:
            values = ast.literal_eval(re.sub(r"(\d)L\b", r"\1", words).strip())  # Python 2: 10L
        dtype = np.lib.format.descr_to_dtype(values["descr"])
        shape = tuple(values["shape"])
        if len(shape) > MOST_AXES or not all(type(n) is int and n >= 0 for n in shape):
            raise ValueError
        by_columns = bool(values["fortran_order"]) and len(shape) > 1
    except UNREADABLE:
        refuse(name, "has a damaged .npy header", rule, again)
    return Header(dtype, shape, by_columns, len(start) + digits + length)


def archive_headers(path: Path) -> dict[str, tuple[zipfile.ZipInfo, Header]]:
    """Return what the entries of an archive say, by their names; nothing else is unpacked.

    Raises
    ------
    InvalidValueError
        If the archive or a header is damaged or locked, has very many entries, or two of one name.
    """
    found: dict[str, tuple[zipfile.ZipInfo, Header]] = {}
    try:
        with zipfile.ZipFile(path) as archive:
            infos = archive.infolist()
            if len(infos) > MOST_ENTRIES:
                rule = f"An archive of arrays has {MOST_ENTRIES} entries at most"
                refuse(path, f"has {len(infos)} entries", rule, "write one array of all rows")
            for info in infos:
                key = info.filename.removesuffix(".npy")
                if key in found:
                    rule = "Entries are told apart by their names"
                    refuse(path, f"has several entries of the name {key!r}", rule, AGAIN)
                found[key] = info, _entry_header(archive, info, f"{path}:{key}")
    except DualclustError:
        raise
    except BROKEN as error:
        refuse_archive(path, error)
    return found


def _entry_header(archive: zipfile.ZipFile, info: zipfile.ZipInfo, name: str) -> Header:
    if info.flag_bits & 1:
        rule = "Its arrays must be readable without a password"
        refuse(name, "is locked by a password", rule, AGAIN)
    try:
        with archive.open(info) as file:
            return read_header(file, name)  # type: ignore[arg-type]
    except DualclustError:
        raise
    except BROKEN as error:
        refuse_archive(name, error)


def refuse_archive(name: object, error: BaseException) -> NoReturn:
    """Refuse an archive that cannot be unpacked."""
    rule = "An archive must be whole, and packed by a method that Python reads"
    refuse(name, f"cannot be unpacked ({error})", rule, "write or copy the archive again")


def check_entry(name: object, info: zipfile.ZipInfo, header: Header) -> None:
    """Refuse an entry that is not as long as its header says, or far longer than its packed form.

    Raises
    ------
    InvalidValueError
    """
    if info.file_size != header.n_bytes:
        found = f"has a header for {header.n_bytes} bytes in an entry of {info.file_size} bytes"
        refuse(name, found, "An entry of an archive must be as long as its array", AGAIN)
    stored = info.compress_type == zipfile.ZIP_STORED
    if stored and info.compress_size != info.file_size:
        found = f"has {info.file_size} bytes, and {info.compress_size} where it is stored unpacked"
        refuse(name, found, "An entry of an archive must be as long as its array", AGAIN)
    if packed_too_much(info.file_size, info.compress_size):
        found = f"promises {info.file_size} bytes packed into {info.compress_size}"
        rule = f"Embeddings do not pack {MOST_PACKED} times: this may be made to fill the disk"
        refuse(name, found, rule, "unpack it yourself and give the .npy file")


def content_offset(file: BinaryIO, info: zipfile.ZipInfo) -> int:
    """Return where the content of an entry begins: after a header with two texts."""
    file.seek(info.header_offset + 26)
    lengths = file.read(4)
    two = int.from_bytes(lengths[:2], "little") + int.from_bytes(lengths[2:], "little")
    return info.header_offset + 30 + two


def check_array_file(path: Path) -> list[str]:
    """Look at all headers of an .npy or .npz file that is about to be loaded whole.

    Returns
    -------
    names : list of str
        Of the arrays; of an .npy file none.

    Raises
    ------
    InvalidValueError, InvalidTypeError
        If a header is damaged, promises another length than the file's, or Python objects.
    """
    with path.open("rb") as file:
        if file.read(len(MAGIC)) == MAGIC:
            file.seek(0)
            header = read_header(file, path)
            _check_plain(path, header)
            if (there := path.stat().st_size) != header.n_bytes:
                found = f"has {there} bytes under a header for {header.n_bytes}"
                rule = "A file must be as long as its header says"
                refuse(path, found, rule, "write or copy it again")
            return []
    entries = archive_headers(path)
    for key, (info, header) in entries.items():
        _check_plain(f"{path}:{key}", header)
        check_entry(f"{path}:{key}", info, header)
    return list(entries)


def _check_plain(name: object, header: Header) -> None:
    rule, fix = "Arrays hold numbers or text", "save them as one array of numbers: np.stack(rows)"
    if header.dtype.hasobject:
        found = f"holds Python objects, which only a pickle can bring back ({header.dtype})"
        refuse(name, found, rule, fix, InvalidTypeError)
    if header.dtype.kind == "V":
        refuse(name, f"holds records or raw bytes ({header.dtype})", rule, fix, InvalidTypeError)
