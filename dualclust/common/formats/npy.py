"""An ``.npy`` file, and a file of raw numbers without a header."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ...algos.core.errors import UsageError
from ..array_headers import read_header
from .checks import check_numbers, check_shape, refuse, refuse_options
from .kinds import kind_of
from .plain import PlainRows, plain_rows
from .rows import Selection
from .vectors import structure_of

__all__ = ["open_npy", "open_raw", "raw_dtype"]

RAW_TYPES = "float16, bfloat16, float32, float64, int8, uint8, int16, ..., or >f4 for big endian"


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
    refuse_options(path, "read as raw numbers", selection, "dtype dim offset")
    if selection.dtype is None or selection.dim is None:
        missing = "--dim" if selection.dim is None else "--dtype"
        msg = (
            f"{path} is read as raw numbers, got no {missing}. To fix this, give --dtype and --dim"
        )
        raise UsageError(msg)
    for flag, value, least in (("--dim", selection.dim, 1), ("--offset", selection.offset or 0, 0)):
        if value < least:
            msg = f"{flag} must be at least {least}, got {value}"
            raise UsageError(msg)
    dtype, bfloat16 = raw_dtype(selection.dtype)
    kind = kind_of(path)
    if kind.format and kind.key != "text":
        rule = "--dtype and --dim are for files of numbers alone, without a header"
        fix = "leave out --dtype and --dim"
        fix = fix if selection.offset is None else "leave out --dtype, --dim and --offset"
        refuse(path, f"is {kind.what}", rule, fix, UsageError)
    if selection.offset is None and (suffix := structure_of(path)):
        rule = "A file of numbers alone has no lengths of rows, and no header"
        name = path.with_suffix(suffix).name
        fix = "" if path.suffix.lower() == suffix else f"rename it to {name} and "
        fix += "leave out --dtype and --dim, or give --offset 0 if these are numbers"
        refuse(path, f"is built like {suffix}, by its first bytes", rule, fix)
    start = selection.offset or 0
    size, row = path.stat().st_size - start, selection.dim * dtype.itemsize
    if size <= 0:
        found = "is empty (0 bytes)" if start == 0 else f"ends before --offset {start}"
        rule = "Embeddings have at least one row"
        fix = "give a smaller --offset" if start else "look at the program that wrote it"
        refuse(path, found, rule, fix)
    if size % row:
        found = f"has {size} bytes, which are {size // row} whole rows and {size % row} bytes more"
        rule = f"A row of {selection.dim} {selection.dtype} numbers has {row} bytes"
        fix = "look at --dtype and --dim, "
        header = f"give --offset {size % row} if a header stands before the numbers, "
        fix += f"{header if size > row else ''}or copy the file again"
        refuse(path, found, rule, fix)
    shape = size // row, selection.dim
    return plain_rows(path, path, shape, dtype, offset=start, bfloat16=bfloat16)
