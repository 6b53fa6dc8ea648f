"""CSV and TSV files: a line of names, then numbers, read by pyarrow a block at a time.

Text has no dtype. Numbers are read as float64, or as `--dtype` says; ids stay text, so that 007
keeps its zeros.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NoReturn, TextIO

import numpy as np
from numpy.typing import NDArray

from ...algos.core.errors import InvalidTypeError, UsageError
from .checks import load_extra, refuse, refuse_options
from .columns import choose_names
from .rows import Selection, Stream

__all__ = ["open_csv", "open_tsv"]

BLOCK_BYTES = 2**19
"""Of text at a time. pyarrow keeps some forty blocks, and a line must fit into one."""

RULE = "A table in text has a line of names, and then one number in each column of each line"


def open_csv(path: Path, selection: Selection) -> Stream:
    """Find the rows of a file with commas."""
    return _open(path, selection, ",")


def open_tsv(path: Path, selection: Selection) -> Stream:
    """Find the rows of a file with tabs."""
    return _open(path, selection, "\t")


def _open(path: Path, selection: Selection, delimiter: str) -> Stream:
    refuse_options(path, "a table in text", selection, "columns id dtype")
    load_extra("pyarrow.csv", "parquet", path, "a table in text")
    first, second = _lines(path, delimiter)
    if len(first) == 1:
        _check_delimiter(path, first[0], delimiter)
    headless = _is_numbers(first)
    names = [f"f{j}" for j in range(len(first))] if headless else first
    if second is None and not headless:
        refuse(path, "has a line of names and no row", RULE, "look at the program that wrote it")
    if not headless and not selection.columns and "" in names and selection.id != "":
        fix = "write it without the index (index=False), or name columns with --columns"
        refuse(path, "has a column without a name, as pandas writes its index", RULE, fix)
    columns = choose_names(path, names, selection)
    if not columns:
        refuse(path, "has no columns of numbers", RULE, "name others with --columns")
    stored = _dtype(path, selection.dtype)
    wanted = [*columns, *([] if selection.id is None else [selection.id])]

    def batches(some: list[str]) -> Iterator[Any]:
        return _batches(path, names, some, selection.id, delimiter, headless)

    def rows() -> Iterator[NDArray[Any]]:
        done = 0
        for batch in batches(wanted):
            numbers = np.empty((batch.num_rows, len(columns)), dtype=stored)
            for j, name in enumerate(wanted):
                column = batch.column(j)
                if column.null_count:
                    empty = column.is_null().to_numpy(zero_copy_only=False)
                    _refuse_null(path, name, done + int(np.flatnonzero(empty)[0]))
                if j < len(columns):
                    numbers[:, j] = column.to_numpy(zero_copy_only=False)
            yield numbers
            done += batch.num_rows

    def ids() -> Iterator[Any]:
        return (batch.column(0) for batch in batches([str(selection.id)]))

    return Stream(
        str(path), None, len(columns), stored, rows, None if selection.id is None else ids
    )


def _lines(path: Path, delimiter: str) -> tuple[list[str], list[str] | None]:
    """Return the fields of the first line that is not empty, and of the next one."""
    with path.open(encoding="utf-8-sig", newline="", errors="replace") as file:
        try:
            pieces = iter(partial(_short_line, path, file), "")
            lines = list(
                islice((line for line in csv.reader(pieces, delimiter=delimiter) if line), 2)
            )
        except csv.Error as error:
            refuse(path, f"cannot be read as a table ({error})", RULE, "write the table again")
    if not lines:
        refuse(path, "has no line that is not empty", RULE, "look at the program that wrote it")
    return lines[0], lines[1] if len(lines) > 1 else None


def _short_line(path: Path, file: TextIO) -> str:
    """Read a line, of which no more than a block is ever held."""
    line = file.readline(BLOCK_BYTES)
    if len(line) == BLOCK_BYTES:
        _refuse_long_line(path)
    return line


def _refuse_long_line(path: Path) -> NoReturn:
    has = f"has a line of more than {BLOCK_BYTES} bytes, or a quote without its end"
    refuse(path, has, "A line must fit into a block", "write the rows as .npy or .parquet")


def _check_delimiter(path: Path, line: str, delimiter: str) -> None:
    between = {",": "commas", "\t": "tabs"}
    marks = {";": "semicolons", "\t": "tabs", ",": "commas", " ": "spaces"}
    for mark, word in marks.items():
        if mark != delimiter and mark in line.strip():
            fix = "rename it to .tsv" if mark == "\t" else f"write it with {between[delimiter]}"
            fix = "rename it to .csv" if mark == "," else fix
            rule = f"Columns of a {path.suffix.lower()} file are divided by {between[delimiter]}"
            refuse(path, f"has {word} in its first line and one column", rule, fix)


def _is_numbers(fields: list[str]) -> bool:
    """Return whether a first line is a row: numbers that are not 0, 1, 2, ... (pandas's names)."""
    if fields == [str(j) for j in range(len(fields))]:
        return False
    try:
        return bool([float(field) for field in fields])
    except ValueError:
        return False


def _dtype(path: Path, name: str | None) -> np.dtype[Any]:
    if name is None:
        return np.dtype(np.float64)
    if name not in ("float16", "float32", "float64"):
        msg = f"--dtype must be float16, float32 or float64 for the text of {path}, got {name!r}"
        raise UsageError(msg)
    return np.dtype(name)


def _batches(
    path: Path, names: list[str], some: list[str], key: str | None, delimiter: str, headless: bool
) -> Iterator[Any]:
    import pyarrow as pa
    from pyarrow import csv as text

    types = {name: pa.string() if name == key else pa.float64() for name in some}
    read = text.ReadOptions(
        use_threads=False,
        block_size=BLOCK_BYTES,
        column_names=names,
        skip_rows=0 if headless else 1,
    )
    parse = text.ParseOptions(delimiter=delimiter, newlines_in_values=False)
    convert = text.ConvertOptions(
        column_types=types, include_columns=some, strings_can_be_null=True, null_values=MISSING
    )
    try:
        with text.open_csv(path, read, parse, convert) as reader:
            yield from reader
    except (pa.ArrowException, OSError, ValueError) as error:
        _refuse_line(path, names, str(error))


MISSING = ["", "NA", "N/A", "#N/A", "null", "NULL", "None", "<NA>"]
"""What stands for a missing value. NaN is a number, which the check of all values reports."""


def _refuse_line(path: Path, names: list[str], reason: str) -> NoReturn:
    """Say what pyarrow says in the words of the file: its lines and the names of its columns."""
    where = re.search(r"Row #(\d+)", reason)
    line = f"line {where[1]}" if where else "one of its lines"
    if found := re.search(r"CSV column #(\d+): .*invalid value '(.*)'", reason):
        column, value = names[int(found[1])], found[2][:40]
        fix = "name the columns of numbers with --columns, or the column of ids with --id"
        has = f"has no number in column {column!r}, {line}: {value!r}"
        refuse(path, has, RULE, fix, InvalidTypeError)
    if found := re.search(r"Expected (\d+) columns, got (\d+)", reason):
        has = (
            f"has {found[2]} field{'s' * (found[2] != '1')} in {line}, and {found[1]} in the first"
        )
        refuse(path, has, "All lines must have the same number of fields", "write the table again")
    if "straddl" in reason:
        _refuse_long_line(path)
    short = " ".join(reason.split())[:200]
    refuse(path, f"cannot be read as a table ({short})", RULE, "write the table again as UTF-8")


def _refuse_null(path: Path, name: str, row: int) -> NoReturn:
    rule = "Every row must have all its numbers, and its id where --id asks for one"
    fix = "drop the rows with missing values, or fill them"
    refuse(path, f"has a missing value in column {name!r}, row {row}", rule, fix)
