"""Parquet and Arrow files: rows in one column of lists, or in several columns of numbers.

pyarrow reads them a batch at a time. A value that is missing has no place in a row of numbers, so
it is an error that names its row.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from ..untrusted import MOST_PACKED, packed_too_much
from .checks import load_extra, refuse, refuse_options
from .columns import Chosen, check_no_ids, choose_columns, numbers_of, refuse_null
from .rows import BATCH_BYTES, Selection, Stream

__all__ = ["open_arrow", "open_parquet"]

AGAIN = "write or copy it again"


def open_parquet(path: Path, selection: Selection) -> Stream:
    """Find the rows of a Parquet file."""
    refuse_options(path, "a Parquet file", selection, "columns id")
    parquet = load_extra("pyarrow.parquet", "parquet", path, "a Parquet file")
    import pyarrow as pa

    _check_end(path, b"PAR1", 12)
    try:
        with parquet.ParquetFile(path) as file:
            schema, n = file.schema_arrow, file.metadata.num_rows
            _ = schema.names  # damaged ones are not in UTF-8
    except (pa.ArrowException, OSError, ValueError) as error:
        _refuse_damaged_table(path, error)

    def batches(names: list[str], size: int = 1024) -> Iterator[Any]:
        try:
            with parquet.ParquetFile(path, pre_buffer=False, buffer_size=2**20) as file:
                yield from file.iter_batches(batch_size=size, columns=names, use_threads=False)
        except (pa.ArrowException, OSError, ValueError) as error:
            _refuse_damaged_table(path, error)

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
            _ = schema.names  # damaged ones are not in UTF-8
            sizes = range(reader.num_record_batches) if whole else ()
            n = sum(reader.get_batch(i).num_rows for i in sizes) if whole else None
    except (pa.ArrowException, OSError, ValueError) as error:
        _refuse_damaged_table(path, error)

    def batches(names: list[str], size: int = 1024) -> Iterator[Any]:
        try:
            with pa.memory_map(str(path)) as file:
                reader = opened(file)
                parts = map(reader.get_batch, sizes) if whole else reader
                for part in parts:
                    own = part.select(names)
                    own.validate(full=True)  # lengths of lists and texts lead outside, if believed
                    for start in range(0, own.num_rows, size):
                        yield own.slice(start, size)
        except (pa.ArrowException, OSError, ValueError) as error:
            _refuse_damaged_table(path, error)

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


def _refuse_damaged_table(path: Path, error: BaseException) -> NoReturn:
    reason = " ".join(str(error).split())[:200]
    refuse(path, f"cannot be read ({reason})", "A table must be whole and not encrypted", AGAIN)


def _open(path: Path, schema: Any, n: int | None, selection: Selection, batches: Any) -> Stream:
    chosen = choose_columns(path, schema, selection)
    if n == 0:
        rule = "Embeddings have at least one row"
        refuse(path, "has no rows", rule, "look at the program that wrote it")
    key = selection.id
    wanted = [*chosen.names, *([] if key is None else [key])]
    width = len(chosen.names)
    if chosen.lists:
        width = _first_width(path, chosen, schema, batches, drop=selection.drop)
    promised, there = (n or 0) * width * chosen.stored.itemsize, path.stat().st_size
    if packed_too_much(promised, there):
        rule = f"Embeddings do not pack {MOST_PACKED} times: this may be made to fill the disk"
        found = f"promises {promised} bytes in a file of {there}"
        refuse(path, found, rule, "unpack it yourself and give the .npy file")
    size = max(1, BATCH_BYTES // (width * chosen.stored.itemsize))

    def rows() -> Iterator[NDArray[Any]]:
        first = 0
        for batch in batches(wanted, size):
            columns = batch.columns[: len(chosen.names)]
            if key is not None:
                refuse_null(path, key, batch.column(batch.num_columns - 1), first, of="id")
            if first == 0 and not selection.columns and not chosen.lists:
                check_no_ids(path, chosen.names, columns)
            if chosen.lists:
                yield _lists(path, chosen, columns[0], width, first, drop=selection.drop)
            else:
                how = chosen.stored, first
                yield numbers_of(path, chosen.names, columns, *how, drop=selection.drop)
            first += batch.num_rows

    def ids() -> Iterator[Any]:
        return (batch.column(0) for batch in batches([key], 2**16))

    ids_there = None if key is None else ids
    return Stream(str(path), n, width, chosen.stored, rows, ids_there, chosen.part)


def _first_width(path: Path, chosen: Chosen, schema: Any, batches: Any, *, drop: bool) -> int:
    """Return the length of the first list."""
    size = getattr(schema.field(chosen.names[0]).type, "list_size", None)
    if size is None:
        for batch in batches(chosen.names, 1):
            column = getattr(batch.column(0), "storage", batch.column(0))
            if not drop:
                refuse_null(path, chosen.names[0], column, 0)
            if there := [len(each) for each in column if each.is_valid]:
                size = there[0]
                break
    if not size:
        rule = "Embeddings have at least one column"
        refuse(path, "holds lists without numbers", rule, "look at the program that wrote it")
    return int(size)


def _lists(
    path: Path, chosen: Chosen, column: Any, width: int, first: int, *, drop: bool
) -> NDArray[Any]:
    """Return the rows of a batch of lists that begins with row `first`."""
    import pyarrow.compute as compute

    name, column = chosen.names[0], getattr(column, "storage", column)
    if not drop:
        refuse_null(path, name, column, first)
    there = column.is_valid().to_numpy(zero_copy_only=False)
    lengths = compute.list_value_length(column.drop_null()).to_numpy(zero_copy_only=False)
    if (wrong := np.flatnonzero(lengths != width)).size:
        row = int(np.flatnonzero(there)[wrong[0]])
        found = f"has lists of several lengths in column {name!r}: {width} numbers in one row, "
        found += f"{lengths[wrong[0]]} in row {first + row}"
        refuse(path, found, "All rows must have the same length", "write rows of one length")
    values = column.drop_null().flatten()
    if values.null_count and not drop:
        missing = values.is_null().to_numpy(zero_copy_only=False).reshape(-1, width).any(axis=1)
        refuse_null(path, name, _marked(missing), first)
    numbers: NDArray[Any] = values.to_numpy(zero_copy_only=False).reshape(-1, width)
    if there.all():
        return numbers
    rows = np.full((len(there), width), np.nan, dtype=chosen.stored)
    rows[there] = numbers
    return rows


def _marked(missing: NDArray[np.bool_]) -> Any:
    import pyarrow as pa

    return pa.array(np.zeros(len(missing)), mask=missing)
