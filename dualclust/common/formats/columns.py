"""Which columns of a table hold the rows: one of lists, or several of numbers."""

from __future__ import annotations

import re
from collections import Counter
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...algos.core.errors import InvalidTypeError
from ..untrusted import parse_json
from .checks import listed, refuse
from .rows import Part, Selection, common_dtype, computed_dtype

__all__ = [
    "Chosen",
    "check_no_ids",
    "choose_columns",
    "choose_names",
    "numbers_of",
    "part_of",
    "refuse_null",
]

RULE = "A table gives its rows in one column of lists, or in columns of numbers"

FLOATS = {"halffloat": "float16", "float": "float32", "double": "float64"}
"""Arrow's names where they are not NumPy's."""


class Chosen(NamedTuple):
    """The columns of a table that hold the rows.

    Attributes
    ----------
    names : list of str
    lists : bool
        Whether they are one column of lists.
    stored : dtype
        Of the numbers.
    part : Part
    """

    names: list[str]
    lists: bool
    stored: np.dtype[Any]
    part: Part


def choose_names(name: object, there: list[str], selection: Selection) -> list[str]:
    """Return the columns that the user's names and patterns stand for, in the file's order.

    Raises
    ------
    InvalidValueError
        For a name that no column has, and for names that several columns have.
    """
    twice = sorted(column for column, count in Counter(there).items() if count > 1)
    if twice:
        found = f"has several columns of the name {twice[0]!r}"
        refuse(name, found, "Columns are told apart by their names", "rename them")
    has = f"It has {listed(there)}"
    if selection.id is not None and selection.id not in there:
        fix = "name one of these with --id, or leave --id out"
        refuse(name, f"has no column {selection.id!r} for the ids", has, fix)
    if not selection.columns:
        return [column for column in there if column not in _beside(selection)]
    chosen: set[str] = set()
    for pattern in selection.columns:
        some = {column for column in there if column == pattern or fnmatchcase(column, pattern)}
        if not some:
            fix = "name some of these with --columns; 'x*' names all that begin with x"
            refuse(name, f"has no column {pattern!r}", has, fix)
        chosen |= some
    return [column for column in there if column in chosen and column != selection.id]


def choose_columns(path: Path, schema: Any, selection: Selection) -> Chosen:
    """Return the columns of an Arrow schema that hold the rows.

    Raises
    ------
    InvalidTypeError, InvalidValueError
        If the names or types do not say which these are.
    """
    import pyarrow as pa

    names = choose_names(path, schema.names, selection)
    types = {name: schema.field(name).type for name in names}
    if selection.id is not None and pa.types.is_nested(schema.field(selection.id).type):
        found = f"gives ids of type {schema.field(selection.id).type} in column {selection.id!r}"
        refuse(path, found, "Ids are numbers or text", "name another column with --id")
    lists = [name for name in names if _is_list(types[name])]
    if len(lists) == 1 and (not selection.columns or len(names) == 1):
        stored = _dtype(path, lists[0], _inner(types[lists[0]]))
        part = part_of("column of lists", lists, schema.names, selection)
        return Chosen(lists, True, computed_dtype(stored) if selection.drop else stored, part)
    if lists:
        rule = f"One column of lists can be clustered, and it has {listed(lists)}"
        fix = f"name one: --columns {lists[0]}"
        refuse(path, f"has {len(names)} columns, {len(lists)} of them lists", rule, fix)
    index = _pandas_index(schema)
    names = [name for name in names if selection.columns or name not in index]
    if not names:
        refuse(path, "has no columns of numbers", RULE, "look at the program that wrote it")
    stored = common_dtype([_dtype(path, name, types[name]) for name in names])
    part = part_of("columns", names, schema.names, selection)
    return Chosen(names, False, computed_dtype(stored) if selection.drop else stored, part)


def part_of(kind: str, names: list[str], there: list[str], selection: Selection) -> Part:
    """Return what is clustered of a table, and which of its columns are left out."""
    used = {*names, *_beside(selection)}
    return Part(kind, tuple(names), tuple(name for name in there if name not in used))


def _beside(selection: Selection) -> tuple[str | None, ...]:
    """Return the columns that say something about rows, and are not clustered."""
    return (selection.id, *selection.besides)


def numbers_of(
    path: Path,
    names: list[str],
    columns: list[Any],
    stored: np.dtype[Any],
    first: int,
    *,
    drop: bool,
) -> NDArray[Any]:
    """Return the rows of columns of Arrow, of which the first has the number `first`.

    A missing value is an error, or NaN where rows that are not finite will be dropped.
    """
    rows = np.empty((len(columns[0]), len(columns)), dtype=stored)
    for j, (name, column) in enumerate(zip(names, columns, strict=True)):
        if not drop:
            refuse_null(path, name, column, first)
        rows[:, j] = column.to_numpy(zero_copy_only=False)
    return rows


def refuse_null(path: Path, name: str, column: Any, first: int, of: str = "number") -> None:
    """Refuse a column of Arrow with a missing value; its first row has the number `first`.

    Raises
    ------
    InvalidValueError
    """
    if column.null_count:
        row = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
        fix = "fill them, or drop these rows with --invalid drop"
        fix = "name another column with --id, or leave --id out" if of == "id" else fix
        rule = "Every row must have all its numbers, and its id where --id asks for one"
        refuse(path, f"has a missing value in column {name!r}, row {first + row}", rule, fix)


ID_NAMES = {"id", "index", "idx", "row", "rowid", "key", "pk", "uid", "unnamed: 0"}
LONG = 1e9
"""Whole numbers that are all at least this large are ids, or times."""

COUNTED = 16
"""Least rows of which whole numbers that follow each other are taken for a counter."""


def check_no_ids(path: Path, names: list[str], columns: list[Any]) -> None:
    """Refuse columns that are ids by the look of their first rows, unless the user named columns.

    Raises
    ------
    InvalidValueError
    """
    for name, column in zip(names, columns, strict=True) if len(names) > 1 else ():
        values = column.drop_null().to_numpy(zero_copy_only=False)
        if _like_ids(name, values):
            shown = ", ".join(f"{value:.17g}" for value in values[:3].tolist())
            found = f"has a column {name!r} that looks like ids or times ({shown}, ...)"
            rule = "All columns of numbers are clustered, unless you name some"
            fix = f"name it with --id {name}, or the columns to cluster with --columns"
            refuse(path, found, rule, fix)


def _like_ids(name: str, values: NDArray[Any]) -> bool:
    if len(values) < 3 or values.dtype.kind not in "iuf" or (values != np.floor(values)).any():
        return False
    if (steps := np.diff(values)).size >= COUNTED - 1 and (steps == 1).all():
        return True
    if (np.abs(values) >= LONG).all():
        return True
    named = name.lower() in ID_NAMES or re.search(r"(_id|[a-z]I[dD])$", name) is not None
    return named and len(np.unique(values)) == len(values)


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
    try:
        index = parse_json((schema.metadata or {}).get(b"pandas", b"{}"))["index_columns"]
        return {name for name in index if isinstance(name, str)}
    except (ValueError, KeyError, TypeError):  # a note of another program's
        return set()


def _dtype(path: Path, column: str, found: Any) -> np.dtype[Any]:
    import pyarrow.types as types

    if types.is_integer(found) or types.is_floating(found):
        return np.dtype(FLOATS.get(str(found), str(found)))
    if types.is_boolean(found):
        return np.dtype(np.uint8)
    name = f"{path}, column {column!r},"
    fix = "name the columns of numbers with --columns, or the column of ids with --id"
    if types.is_decimal(found):
        fix = "write the column as float32 or float64"
    if _is_list(found):
        fix = "write the numbers of each row as one list, not as lists of lists"
    refuse(name, f"holds values of type {found}", RULE, fix, InvalidTypeError)
