"""``--show``: a column of text, image paths or addresses, or a text file with a line for each row.

Values are read where they are needed, once and in order, so memory is that of the rows asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..algos.core.errors import InvalidValueError, MissingFileError
from ..common.formats import Ids, Selection
from .values_of_rows import column_of, column_values

__all__ = ["ShownColumn", "open_shown", "values_of"]

LINES = 2**14
"""Lines of a text file that are read at a time."""


class ShownColumn(NamedTuple):
    """Where what is shown of rows is read.

    Attributes
    ----------
    name : str
        Of the column or the file.
    values : callable
        Yields the values of all rows in order, some at a time.
    folder : Path
        Where relative paths of images start.
    """

    name: str
    values: Ids
    folder: Path


def open_shown(show: str, place: Path, selection: Selection, n: int) -> ShownColumn:
    """Find what ``--show`` names.

    Parameters
    ----------
    show : str
        A file with one line of UTF-8 text for each row, or else a column or array of the input.
    place : Path
        The input.
    selection : Selection
        What is read of the input.
    n : int
        Its number of rows.

    Raises
    ------
    MissingFileError, UsageError
        If there is neither a file nor a column of that name.
    InvalidValueError
        If a text file has another number of lines.
    """
    if column_of(show) is None:
        return _lines_of(Path(show), n)
    folder = place if place.is_dir() else place.parent
    values = column_values("--show", show, place, selection)
    return ShownColumn(show, values, folder)


def values_of(values: Ids, rows: NDArray[np.int64]) -> dict[int, str]:
    """Read the values of some rows, as text.

    Parameters
    ----------
    values : callable
        As in `ShownColumn`, or the ids of an input.
    rows : (m,) int64 array
        Distinct, ascending.

    Examples
    --------
    >>> values_of(lambda: iter([np.asarray([5, 6]), np.asarray([b"a"])]), np.asarray([1, 2]))
    {1: '6', 2: 'a'}
    """
    found: dict[int, str] = {}
    start = 0
    for part in values():
        low, high = np.searchsorted(rows, [start, start + len(part)])
        for row in rows[low:high].tolist():
            found[row] = _text(part[row - start])
        start += len(part)
        if high == len(rows):
            break
    if len(found) < len(rows):
        msg = (
            f"row {int(rows[len(found)])} has no value: the input has {start} of them now. To fix "
            f"this, let nobody write to it while it is read"
        )
        raise InvalidValueError(msg)
    return found


def _text(value: Any) -> str:
    value = value.as_py() if hasattr(value, "as_py") else value
    if value is None:
        return ""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _lines_of(path: Path, n: int) -> ShownColumn:
    if not path.is_file():
        msg = f"no file at {path}. To fix this, look at the path, or name a column of the input"
        raise MissingFileError(msg)

    def values() -> Iterator[list[str]]:
        with path.open(encoding="utf-8", errors="replace", newline="\n") as file:
            while lines := [line.rstrip("\r\n") for line in islice(file, LINES)]:
                yield lines

    count = sum(len(lines) for lines in values())
    if count != n:
        msg = (
            f"--show {path} has {count} lines, and the input has {n} rows. To fix this, write one "
            f"line for each row, in their order"
        )
        raise InvalidValueError(msg)
    return ShownColumn(path.name, values, path.absolute().parent)
