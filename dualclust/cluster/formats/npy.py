"""An ``.npy`` file, and a file of raw numbers without a header."""

from __future__ import annotations

import ast
import math
import re
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from ...algos.core.errors import UsageError
from .checks import check_numbers, check_shape, refuse, refuse_options
from .kinds import kind_of
from .plain import PlainRows, plain_rows
from .rows import Selection

__all__ = ["Header", "open_npy", "open_raw", "raw_dtype", "read_header"]

MAGIC = b"\x93NUMPY"

LONGEST_HEADER = 2**20
"""Most bytes of a header that is still read; one of numbers has about a hundred."""

RAW_TYPES = "float16, bfloat16, float32, float64, int8, uint8, int16, ..., or >f4 for big endian"


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
        values = ast.literal_eval(re.sub(r"(\d)L\b", r"\1", words).strip())  # Python 2: 10L
        dtype = np.lib.format.descr_to_dtype(values["descr"])
        shape = tuple(int(n) for n in values["shape"])
        by_columns = bool(values["fortran_order"]) and len(shape) > 1
    except (ValueError, SyntaxError, KeyError, TypeError, MemoryError, RecursionError):
        refuse(name, "has a damaged .npy header", rule, again)
    if any(n < 0 for n in shape):
        refuse(name, "has a damaged .npy header", rule, again)
    return Header(dtype, shape, by_columns, len(start) + digits + length)


def open_npy(path: Path, selection: Selection) -> PlainRows:
    """Read the header of an .npy file of (n, d) real numbers."""
    refuse_options(path, "an .npy file, which holds a single array", selection, "")
    with path.open("rb") as file:
        header = read_header(file, path)
    check_numbers(path, header.dtype)
    check_shape(path, header.shape)
    n, d = header.shape
    return plain_rows(
        path, path, (n, d), header.dtype, offset=header.length, by_columns=header.by_columns
    )


def raw_dtype(name: str) -> tuple[np.dtype[Any], bool]:
    """Return the dtype that a user names, and whether it stands for bfloat16.

    Raises
    ------
    UsageError
    """
    if name == "bfloat16":
        return np.dtype("<u2"), True
    try:
        dtype = np.dtype(name)
    except TypeError:
        dtype = np.dtype(object)
    if dtype.kind not in "fiu":
        msg = f"--dtype must be a type of real numbers ({RAW_TYPES}), got {name!r}"
        raise UsageError(msg)
    return dtype, False


def open_raw(path: Path, selection: Selection) -> PlainRows:
    """Return the rows of a file that holds numbers alone, `selection.dim` to a row."""
    refuse_options(path, "read as raw numbers", selection, "dtype dim")
    if selection.dtype is None or selection.dim is None:
        missing = "--dim" if selection.dim is None else "--dtype"
        msg = (
            f"{path} is read as raw numbers, got no {missing}. To fix this, give --dtype and --dim"
        )
        raise UsageError(msg)
    if selection.dim < 1:
        msg = f"--dim must be at least 1, got {selection.dim}"
        raise UsageError(msg)
    dtype, bfloat16 = raw_dtype(selection.dtype)
    kind = kind_of(path)
    if kind.format and kind.key != "text":
        rule = "--dtype and --dim are for files of numbers alone, without a header"
        refuse(path, f"is {kind.what}", rule, "leave out --dtype and --dim", UsageError)
    size, row = path.stat().st_size, selection.dim * dtype.itemsize
    if size == 0:
        rule = "Embeddings have at least one row"
        refuse(path, "is empty (0 bytes)", rule, "look at the program that wrote it")
    if size % row:
        found = f"has {size} bytes, which are {size // row} whole rows and {size % row} bytes more"
        rule = f"A row of {selection.dim} {selection.dtype} numbers has {row} bytes"
        refuse(path, found, rule, "look at --dtype and --dim, or copy the file again")
    return plain_rows(path, path, (size // row, selection.dim), dtype, bfloat16=bfloat16)
