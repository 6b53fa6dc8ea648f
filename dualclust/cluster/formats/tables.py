"""Parquet and Arrow files: rows in one column of lists, or in several columns of numbers.

pyarrow reads them a batch at a time. A value that is missing has no place in a row of numbers, so
it is an error that names its row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from ...algos.core.errors import InvalidTypeError
from .rows import (
    BATCH_BYTES,
    Selection,
    Stream,
    check_numbers,
    common_dtype,
    listed,
    load_extra,
    refuse,
    refuse_options,
)

__all__ = ["Chosen", "choose_names", "open_arrow", "open_parquet"]

RULE = "A table gives its rows in one column of lists, or in columns of numbers"
AGAIN = "write or copy it again"
Batches = Callable[[list[str]], Iterator[Any]]
"""Yields record batches with these columns."""


class Chosen(NamedTuple):
    """The columns of a table that hold the rows.

    Attributes
    ----------
    names : list of str
    lists : bool
        Whether they are one column of lists.
    stored : dtype
        Of the numbers.
    id : str or None
        The column of the ids.
    """

    names: list[str]
    lists: bool
    stored: np.dtype[Any]
    id: str | None


def open_parquet(path: Path, selection: Selection) -> Stream:
    """Find the rows of a Parquet file."""
    refuse_options(path, "a Parquet file", selection, "columns id")
    parquet = load_extra("pyarrow.parquet", "parquet", path, "a Parquet file")
    import pyarrow as pa

    _check_end(path, b"PAR1", 12)
    try:
        with parquet.ParquetFile(path) as file:
            schema, n = file.schema_arrow, file.metadata.num_rows
    except (pa.ArrowException, OSError) as error:
        _refuse_damaged(path, error)

    def batches(names: list[str], size: int = 1024) -> Iterator[Any]:
        try:
            with parquet.ParquetFile(path, pre_buffer=False, buffer_size=2**20) as file:
                yield from file.iter_batches(batch_size=size, columns=names, use_threads=False)
        except (pa.ArrowException, OSError) as error:
            _refuse_damaged(path, error)

    return _open(path, schema, n, selection, batches)


def open_arrow(path: Path, selection: Selection) -> Stream:
    """Find the rows of an Arrow file or stream; Feather files are the former."""
    refuse_options(path, "an Arrow file", selection, "columns id")
    pa = load_extra("pyarrow", "parquet", path, "an Arrow file")
    with path.open("rb") as start:
        whole = start.read(6) == b"ARROW1"
    if whole:
        _check_end(path, b"ARROW1", 20)

    def opened(file: Any) -> Any:
        return pa.ipc.open_file(file) if whole else pa.ipc.open_stream(file)

    try:
        with pa.memory_map(str(path)) as file:
            reader = opened(file)
            schema = reader.schema
            sizes = range(reader.num_record_batches) if whole else ()
            n = sum(reader.get_batch(i).num_rows for i in sizes) if whole else None
    except (pa.ArrowException, OSError) as error:
        _refuse_damaged(path, error)

    def batches(names: list[str], size: int = 1024) -> Iterator[Any]:
        try:
            with pa.memory_map(str(path)) as file:
                reader = opened(file)
                parts = map(reader.get_batch, sizes) if whole else reader
                for part in parts:
                    for start in range(0, part.num_rows, size):
                        yield part.slice(start, size).select(names)
        except (pa.ArrowException, OSError) as error:
            _refuse_damaged(path, error)

    return _open(path, schema, n, selection, batches)


def _check_end(path: Path, magic: bytes, least: int) -> None:
    """Refuse a file whose last bytes are not those that its format ends with."""
    size = path.stat().st_size
    with path.open("rb") as file:
        file.seek(max(0, size - len(magic)))
        end = file.read()
    if size < least or end != magic:
        found = f"is cut off: it does not end with {magic.decode()}"
        refuse(path, found, "What is in it is listed at its end", AGAIN)


def _refuse_damaged(path: Path, error: BaseException) -> NoReturn:
    reason = " ".join(str(error).split())[:200]
    refuse(path, f"cannot be read ({reason})", "A table must be whole and not encrypted", AGAIN)


# Which columns -----------------------------------------------------------------------------------


def choose_names(name: object, there: list[str], selection: Selection) -> list[str]:
    """Return the columns that the user's names and patterns stand for, in the file's order.

    Raises
    ------
    InvalidValueError
        For a name that no column has, and for names that several columns have.
    """
    twice = sorted({column for column in there if there.count(column) > 1})
    if twice:
        found = f"has several columns of the name {twice[0]!r}"
        refuse(name, found, "Columns are told apart by their names", "rename them")
    has = f"It has {listed(there)}"
    if selection.id is not None and selection.id not in there:
        fix = "name one of these with --id, or leave --id out"
        refuse(name, f"has no column {selection.id!r} for the ids", has, fix)
    if not selection.columns:
        return [column for column in there if column != selection.id]
    chosen: set[str] = set()
    for pattern in selection.columns:
        some = {column for column in there if column == pattern or fnmatchcase(column, pattern)}
        if not some:
            fix = "name some of these with --columns; 'x*' names all that begin with x"
            refuse(name, f"has no column {pattern!r}", has, fix)
        chosen |= some
    return [column for column in there if column in chosen and column != selection.id]


def _choose(path: Path, schema: Any, selection: Selection) -> Chosen:
    import pyarrow as pa

    names = choose_names(path, schema.names, selection)
    types = {name: schema.field(name).type for name in names}
    if selection.id is not None and pa.types.is_nested(schema.field(selection.id).type):
        found = f"gives ids of type {schema.field(selection.id).type} in column {selection.id!r}"
        refuse(path, found, "Ids are numbers or text", "name another column with --id")
    lists = [name for name in names if _is_list(types[name])]
    if len(lists) == 1 and (not selection.columns or len(names) == 1):
        return Chosen(lists, True, _dtype(path, lists[0], _inner(types[lists[0]])), selection.id)
    if lists:
        rule = f"One column of lists can be clustered, and it has {listed(lists)}"
        fix = f"name one: --columns {lists[0]}"
        refuse(path, f"has {len(names)} columns, {len(lists)} of them lists", rule, fix)
    index = _pandas_index(schema)
    names = [name for name in names if selection.columns or name not in index]
    if not names:
        refuse(path, "has no columns of numbers", RULE, "look at the program that wrote it")
    return Chosen(
        names,
        False,
        common_dtype([_dtype(path, name, types[name]) for name in names]),
        selection.id,
    )


def _is_list(dtype: Any) -> bool:
    import pyarrow.types as types

    dtype = getattr(dtype, "storage_type", dtype)
    return bool(
        types.is_list(dtype) or types.is_large_list(dtype) or types.is_fixed_size_list(dtype)
    )


def _inner(dtype: Any) -> Any:
    return getattr(dtype, "storage_type", dtype).value_type


def _pandas_index(schema: Any) -> set[str]:
    """Return the columns in which pandas keeps the names of rows."""
    index = (schema.pandas_metadata or {}).get("index_columns", [])
    return {name for name in index if isinstance(name, str)}


def _dtype(path: Path, column: str, found: Any) -> np.dtype[Any]:
    import pyarrow.types as types

    if types.is_integer(found) or types.is_floating(found):
        dtype: np.dtype[Any] = np.dtype(found.to_pandas_dtype())
        return dtype
    name = f"{path}, column {column!r},"
    if types.is_boolean(found):
        check_numbers(name, np.dtype(bool))
    fix = "name the columns of numbers with --columns, or the column of ids with --id"
    if types.is_decimal(found):
        fix = "write the column as float32 or float64"
    if _is_list(found):
        fix = "write the numbers of each row as one list, not as lists of lists"
    refuse(name, f"holds values of type {found}", RULE, fix, InvalidTypeError)


# Rows --------------------------------------------------------------------------------------------


def _open(path: Path, schema: Any, n: int | None, selection: Selection, batches: Any) -> Stream:
    chosen = _choose(path, schema, selection)
    if n == 0:
        rule = "Embeddings have at least one row"
        refuse(path, "has no rows", rule, "look at the program that wrote it")
    wanted = [*chosen.names, *([] if chosen.id is None else [chosen.id])]
    width = len(chosen.names)
    if chosen.lists:
        width = _first_width(path, chosen, schema, batches)
    size = max(1, BATCH_BYTES // (width * chosen.stored.itemsize))

    def rows() -> Iterator[NDArray[Any]]:
        first = 0
        for batch in batches(wanted, size):
            yield _numbers(path, chosen, batch, width, first)
            first += batch.num_rows

    def ids() -> Iterator[Any]:
        return (batch.column(0) for batch in batches([chosen.id], 2**16))

    return Stream(str(path), n, width, chosen.stored, rows, None if chosen.id is None else ids)


def _first_width(path: Path, chosen: Chosen, schema: Any, batches: Any) -> int:
    """Return the length of the first list."""
    size = getattr(schema.field(chosen.names[0]).type, "list_size", None)
    if size is None:
        for batch in batches(chosen.names, 1):
            if batch.num_rows:
                _check_nulls(path, chosen.names[0], batch.column(0), 0)
                size = len(getattr(batch.column(0), "storage", batch.column(0))[0])
                break
    if not size:
        rule = "Embeddings have at least one column"
        refuse(path, "holds lists without numbers", rule, "look at the program that wrote it")
    return int(size)


def _numbers(path: Path, chosen: Chosen, batch: Any, width: int, first: int) -> NDArray[Any]:
    """Return the rows of a batch that begins with row `first`."""
    if chosen.id is not None:
        _check_nulls(path, chosen.id, batch.column(batch.num_columns - 1), first)
    if not chosen.lists:
        rows = np.empty((batch.num_rows, width), dtype=chosen.stored)
        for j, name in enumerate(chosen.names):
            column = batch.column(j)
            _check_nulls(path, name, column, first)
            rows[:, j] = column.to_numpy(zero_copy_only=False)
        return rows
    name, column = chosen.names[0], batch.column(0)
    column = getattr(column, "storage", column)
    _check_nulls(path, name, column, first)
    import pyarrow.compute as compute

    lengths = compute.list_value_length(column).to_numpy(zero_copy_only=False)
    if (wrong := np.flatnonzero(lengths != width)).size:
        row = int(wrong[0])
        found = f"has lists of several lengths in column {name!r}: {width} numbers in row 0, "
        found += f"{lengths[row]} in row {first + row}"
        refuse(path, found, "All rows must have the same length", "write rows of one length")
    values = column.flatten()
    if values.null_count:
        row = int(np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False))[0]) // width
        _refuse_null(path, name, first + row)
    numbers: NDArray[Any] = values.to_numpy(zero_copy_only=False)
    return numbers.reshape(-1, width)


def _check_nulls(path: Path, name: str, column: Any, first: int) -> None:
    if column.null_count:
        row = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
        _refuse_null(path, name, first + row)


def _refuse_null(path: Path, name: str, row: int) -> NoReturn:
    rule = "Every row must have all its numbers, and its id where --id asks for one"
    fix = "drop the rows with missing values, or fill them"
    refuse(path, f"has a missing value (null) in column {name!r}, row {row}", rule, fix)
