"""Files of vectors as search engines write them: .fvecs and .fbin, and their relatives.

Neither has magic bytes, so a file is known by its structure. In ``.fvecs``, ``.ivecs`` and
``.bvecs`` each row begins with its length, an int32 (http://corpus-texmex.irisa.fr). ``.fbin``,
``.ibin``, ``.u8bin``, ``.i8bin`` and ``.f16bin`` begin with the numbers of rows and of numbers in
a row, two uint32 (https://big-ann-benchmarks.com). All are little-endian.
"""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import numpy as np

from .checks import refuse, refuse_options
from .plain import LENGTH, PlainRows, plain_rows
from .rows import Selection

__all__ = ["HEADED", "RECORDS", "open_headed", "open_records", "structure_of"]

RECORDS = {".fvecs": "<f4", ".ivecs": "<i4", ".bvecs": "|u1"}
"""Types of the numbers of files whose rows begin with their length."""

HEADED = {".fbin": "<f4", ".f16bin": "<f2", ".ibin": "<i4", ".u8bin": "|u1", ".i8bin": "|i1"}
"""Types of the numbers of files that begin with their shape."""

HEADER = 8
LOOKED_AT = 64
"""Most records whose lengths are compared before a file is taken for records."""


def open_records(path: Path, selection: Selection) -> PlainRows:
    """Find the rows of an .fvecs, .ivecs or .bvecs file."""
    suffix = path.suffix.lower()
    refuse_options(path, f"a file of vectors ({suffix})", selection, "")
    dtype = np.dtype(RECORDS[suffix])
    shape = _records(path, dtype.itemsize)
    if shape is None:
        rule = f"Each row of {suffix} is its length, an int32, and as many {dtype.name} numbers"
        _refuse_structure(path, "is not built so", rule)
    return plain_rows(path, path, shape, dtype)._replace(record=True)


def open_headed(path: Path, selection: Selection) -> PlainRows:
    """Find the rows of an .fbin, .ibin, .u8bin, .i8bin or .f16bin file."""
    suffix = path.suffix.lower()
    refuse_options(path, f"a file of vectors ({suffix})", selection, "")
    dtype = np.dtype(HEADED[suffix])
    n, d = _header(path)
    needed, there = HEADER + n * d * dtype.itemsize, path.stat().st_size
    if n == 0 or d == 0 or needed != there:
        rule = f"A {suffix} file begins with n and d, two uint32, and holds n * d {dtype.name} "
        found = f"has {there} bytes, and {needed} for the {n} rows of {d} numbers of its header"
        _refuse_structure(path, found, f"{rule}numbers", d)
    return plain_rows(path, path, (n, d), dtype, offset=HEADER)


def structure_of(path: Path) -> str:
    """Return the end of the name that fits how a file is built; empty where none does.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "X.bin"
    >>> _ = path.write_bytes(np.array([[2, 7, 8], [2, 9, 9]], np.int32).tobytes())
    >>> structure_of(path)
    '.fvecs'
    """
    for suffix, dtype in RECORDS.items():
        shape = _records(path, np.dtype(dtype).itemsize)
        if shape is not None and shape[0] > 1:
            return suffix
    n, d = _header(path)
    body = path.stat().st_size - HEADER
    sizes = (np.dtype(dtype).itemsize for dtype in HEADED.values())
    fits = (suffix for suffix, size in zip(HEADED, sizes, strict=True) if n * d * size == body)
    return next(fits, "") if n > 0 and d > 0 else ""


def _header(path: Path) -> tuple[int, int]:
    with path.open("rb") as file:
        numbers = np.frombuffer(file.read(HEADER).ljust(HEADER, b"\0"), "<u4")
    return int(numbers[0]), int(numbers[1])


def _records(path: Path, itemsize: int) -> tuple[int, int] | None:
    """Return the shape of a file of records; None for a file of another structure."""
    there = path.stat().st_size
    with path.open("rb") as file:
        d = int.from_bytes(file.read(LENGTH.itemsize), "little", signed=True)
        size = LENGTH.itemsize + d * itemsize
        if d < 1 or there % size:
            return None
        n = there // size
        for row in np.linspace(0, n - 1, min(n, LOOKED_AT)).astype(np.int64).tolist():
            file.seek(row * size)
            if int.from_bytes(file.read(LENGTH.itemsize), "little", signed=True) != d:
                return None
    return n, d


def _refuse_structure(path: Path, found: str, rule: str, d: int = 0) -> NoReturn:
    suffix = structure_of(path)
    if suffix and suffix != path.suffix.lower():
        refuse(path, found, rule, f"rename it to {path.with_suffix(suffix).name}, which fits")
    fix = "copy it again, or give --dtype and --dim if it holds raw numbers"
    if d:
        fix += f" (--offset {HEADER} leaves out the header)"
    refuse(path, found, rule, fix)
