"""Tables in text, plain or packed by gzip, read by pyarrow a block at a time.

Text has no dtype. Numbers are read as float64, or as `--dtype` says; ids stay text, so that 007
keeps its zeros. Text whose fields are divided by spaces is read by `words`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from ...algos.core.errors import DualclustError, InvalidTypeError, UsageError
from .checks import load_extra, refuse, refuse_options
from .columns import check_no_ids, choose_names, numbers_of, part_of, refuse_null
from .rows import Selection, Stream
from .text_layout import BLOCK_BYTES, MISSING, RULE, Layout, layout_of, refuse_long_line
from .unpacked import opened
from .words import open_words

__all__ = ["open_text"]


def open_text(path: Path, selection: Selection) -> Stream:
    """Find the rows of a table in text, or of a text of words and vectors."""
    layout = layout_of(path)
    stored = _dtype(path, selection.dtype)
    if not layout.mark:
        return open_words(path, selection, layout.skipped, stored)
    refuse_options(path, "a table in text", selection, "columns id dtype")
    load_extra("pyarrow.csv", "parquet", path, "a table in text")
    names = layout.names[:-1] if layout.ends_in_mark else layout.names
    if not selection.columns and "" in names and selection.id != "":
        fix = "write it without the index (index=False), or name columns with --columns"
        refuse(path, "has a column without a name, as pandas writes its index", RULE, fix)
    columns = choose_names(path, names, selection)
    if not columns:
        refuse(path, "has no columns of numbers", RULE, "name others with --columns")
    wanted = [*columns, *([] if selection.id is None else [selection.id])]
    wanted += [""] if layout.ends_in_mark else []

    def rows() -> Iterator[NDArray[Any]]:
        done = 0
        for batch in _batches(path, layout, wanted, selection.id):
            found = dict(zip(wanted, batch.columns, strict=True))
            own = [found[name] for name in columns]
            if done == 0 and not selection.columns:
                check_no_ids(path, columns, own)
            if selection.id is not None:
                refuse_null(path, selection.id, found[selection.id], done, of="id")
            if layout.ends_in_mark and found[""].null_count < len(found[""]):
                found_text = "has values behind the mark at the end of its lines"
                refuse(path, found_text, RULE, "write a name for this column")
            yield numbers_of(path, columns, own, stored, done, drop=selection.drop)
            done += batch.num_rows

    def ids() -> Iterator[Any]:
        key = str(selection.id)
        return (batch.column(0) for batch in _batches(path, layout, [key], key))

    return Stream(
        str(path),
        None,
        len(columns),
        stored,
        rows,
        None if selection.id is None else ids,
        part_of("columns", columns, names, selection),
    )


def _dtype(path: Path, name: str | None) -> np.dtype[Any]:
    if name is None:
        return np.dtype(np.float64)
    if name not in ("float16", "float32", "float64"):
        msg = (
            f"--dtype must be float16, float32 or float64 for the text of {path}, got {name!r}. "
            f"To fix this, name one of these, or leave out --dtype"
        )
        raise UsageError(msg)
    return np.dtype(name)


def _batches(path: Path, layout: Layout, some: list[str], key: str | None) -> Iterator[Any]:
    import pyarrow as pa
    from pyarrow import csv as text

    types = dict.fromkeys(some, pa.float64())
    types |= {name: pa.bool_() for name in some if name in layout.truth}
    types |= {name: pa.string() for name in some if name in (key, "")}
    read = text.ReadOptions(
        use_threads=False,
        block_size=BLOCK_BYTES,
        column_names=layout.names,
        skip_rows=layout.skipped,
    )
    parse = text.ParseOptions(delimiter=layout.mark, newlines_in_values=False)
    convert = text.ConvertOptions(
        column_types=types,
        include_columns=some,
        strings_can_be_null=True,
        null_values=MISSING,
        decimal_point=layout.decimal,
    )
    try:
        with opened(path) as file, text.open_csv(file, read, parse, convert) as reader:
            yield from reader
    except DualclustError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        _refuse_line(path, layout.names, str(error))


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
        refuse_long_line(path)
    short = " ".join(reason.split())[:200]
    refuse(path, f"cannot be read as a table ({short})", RULE, "write the table again as UTF-8")
