"""Which columns of a table hold the rows: one of lists, or several of numbers."""

from __future__ import annotations

from collections import Counter
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...algos.core.errors import InvalidTypeError
from ...common.untrusted import parse_json
from .checks import check_numbers, listed, refuse
from .rows import Selection, common_dtype

__all__ = ["Chosen", "choose_columns", "choose_names"]

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
    id : str or None
        The column of the ids.
    """

    names: list[str]
    lists: bool
    stored: np.dtype[Any]
    id: str | None


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
        return [column for column in there if column not in (selection.id, selection.show)]
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
    try:
        index = parse_json((schema.metadata or {}).get(b"pandas", b"{}"))["index_columns"]
        return {name for name in index if isinstance(name, str)}
    except (ValueError, KeyError, TypeError):  # a note of another program's
        return set()


def _dtype(path: Path, column: str, found: Any) -> np.dtype[Any]:
    import pyarrow.types as types

    if types.is_integer(found) or types.is_floating(found):
        return np.dtype(FLOATS.get(str(found), str(found)))
    name = f"{path}, column {column!r},"
    if types.is_boolean(found):
        check_numbers(name, np.dtype(bool))
    fix = "name the columns of numbers with --columns, or the column of ids with --id"
    if types.is_decimal(found):
        fix = "write the column as float32 or float64"
    if _is_list(found):
        fix = "write the numbers of each row as one list, not as lists of lists"
    refuse(name, f"holds values of type {found}", RULE, fix, InvalidTypeError)
