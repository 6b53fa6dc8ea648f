"""A table of columns as CSV, Parquet, Arrow or Feather, complete or not at all."""

from __future__ import annotations

import csv
import importlib
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..algos.core.errors import MissingExtraError, OutputError, UsageError
from .files import write_file

__all__ = ["TABLES", "check_table_path", "csv_text", "write_table"]

TABLES = (".csv", ".parquet", ".arrow", ".feather")
"""Ends of names of tables."""


def check_table_path(path: Path, option: str, *, hint: str = "") -> None:
    """Refuse a table that could not be written, before there is anything to write.

    Parameters
    ----------
    path : Path
    option : str
        What the user gave it by, for messages.
    hint : str
        What the message adds about a name with another ending.

    Raises
    ------
    UsageError
        If the name does not end in one of `TABLES`.
    OutputError
        If there is something at `path`.
    MissingExtraError
        If pyarrow is needed and missing.
    """
    suffix = path.suffix.lower()
    if suffix not in TABLES:
        msg = (
            f"{option} must end in {', '.join(TABLES)}, got {str(path)!r}{hint}"
            f". To fix this, write for example {path.stem or 'labels'}.csv"
        )
        raise UsageError(msg)
    if path.exists():
        msg = f"{path} exists. To fix this, name another file with {option}"
        raise OutputError(msg)
    if suffix != ".csv":
        try:
            importlib.import_module("pyarrow.parquet")
        except ImportError as error:
            msg = f"{path} needs pyarrow. To fix this: pip install 'dualclust[parquet]'"
            raise MissingExtraError(msg) from error


def write_table(path: Path, columns: Mapping[str, Sequence[Any] | np.ndarray[Any, Any]]) -> None:
    """Write a table; `check_table_path` has passed its name.

    Parameters
    ----------
    path : Path
    columns : mapping from name to values
        All of one length: text, or arrays of numbers. Types are kept where the format has types.

    Raises
    ------
    OutputError
        If the file cannot be written.
    """
    suffix = path.suffix.lower()
    if suffix == ".csv":
        write_file(path, csv_text(columns), parents=True)
        return
    import pyarrow as pa
    import pyarrow.feather as feather
    import pyarrow.parquet as parquet

    table, content = pa.table(dict(columns)), io.BytesIO()
    if suffix == ".parquet":
        parquet.write_table(table, content)
    else:
        feather.write_feather(table, content, compression="uncompressed")
    write_file(path, content.getvalue(), parents=True)


def csv_text(
    columns: Mapping[str, Sequence[Any] | np.ndarray[Any, Any]],
    digits: str = ".9g",
    *,
    is_named: bool = True,
) -> str:
    """Return a table as CSV.

    Parameters
    ----------
    columns : mapping from name to values
        All of one length.
    digits : str
        Format of the numbers that are not whole.
    is_named : bool
        Whether the first line has the names.

    Examples
    --------
    >>> print(csv_text({"row": np.arange(2), "margin": np.array([0.5, 1 / 3])}), end="")
    row,margin
    0,0.5
    1,0.333333333
    """
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    if is_named:
        table.writerow(columns)
    rows = zip(
        *(v.tolist() if isinstance(v, np.ndarray) else v for v in columns.values()), strict=True
    )
    table.writerows([f"{v:{digits}}" if isinstance(v, float) else v for v in row] for row in rows)
    return text.getvalue()
