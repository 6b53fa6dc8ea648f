"""How a text is laid out: what divides its fields, which lines come before its rows, its names.

Programs write tables in text in many ways: with commas, tabs, semicolons and decimal commas, or
bars; after lines that begin with ``#``, or after Excel's ``sep=;``; with a mark at the end of each
line. The first lines tell which; what they leave open is an error, not a guess.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, NoReturn

from .checks import refuse
from .unpacked import opened

__all__ = ["BLOCK_BYTES", "RULE", "Layout", "layout_of", "refuse_long_line"]

BLOCK_BYTES = 2**19
"""Of text at a time. pyarrow keeps some forty blocks, and a line must fit into one."""

RULE = "A table in text has a line of names, and then one number in each column of each line"

MARKS = (";", "\t", ",", "|")
"""What divides fields; the first that fits. A comma may also be the decimal point of others."""

TRUTH = {"true", "false"}
MISSING = ["", "NA", "N/A", "#N/A", "null", "NULL", "None", "<NA>", "\\N"]
"""What stands for a missing value. NaN is a number, which the check of all values reports."""

LINES = 64
"""Lines that are looked at."""


class Layout(NamedTuple):
    """How a table is laid out.

    Attributes
    ----------
    mark : str
        Between fields; empty where spaces divide them.
    names : list of str
    skipped : int
        Lines before the first row.
    decimal : str
        The decimal point.
    truth : set of str
        Names of columns of true and false.
    ends_in_mark : bool
        Whether each line ends in a mark: the last column has no name and no values.
    """

    mark: str
    names: list[str]
    skipped: int
    decimal: str
    truth: set[str]
    ends_in_mark: bool


def layout_of(path: Path) -> Layout:
    """Look at the first lines of a text.

    Raises
    ------
    InvalidValueError
        If it has no row, or its first line may be one of names or a row.
    """
    lines = [(i, line) for i, line in enumerate(_first_lines(path)) if line.strip()]
    mark, comment = "", ""
    if lines and (excel := re.fullmatch(r'"?sep=(.)"?', lines[0][1])):
        mark, lines = excel[1], lines[1:]
    while lines and lines[0][1].startswith("#"):
        comment, lines = lines[0][1].lstrip("# "), lines[1:]
    if not lines:
        refuse(path, "has no line that is not empty", RULE, "look at the program that wrote it")
    texts = [line for _, line in lines]
    mark = mark or _mark(texts)
    if not mark and _divided_by_spaces(texts):
        return Layout("", [], lines[0][0], ".", set(), ends_in_mark=False)
    mark = mark or ","
    fields = [_fields(path, line, mark) for line in texts]
    rows = fields[1:]
    decimal = "," if mark != "," and any(map(_has_decimal_comma, fields)) else "."
    names = _fields(path, comment, mark)
    ends = bool(rows) and rows[0][-1:] == [""] and len(rows[0]) > 1
    width = len(fields[0]) - (ends and fields[0][-1] == "")
    first = fields[0][:width]
    if _is_row(first, decimal):
        rows, names = fields, names if len(names) == width > 1 else [f"f{j}" for j in range(width)]
    elif comment and len(names) == width > 1 and _has_number(first, decimal):
        rows = fields
    else:
        _check_names(path, first, rows, decimal, ends=ends)
        lines, names = lines[1:], first
    if not lines:
        refuse(path, "has a line of names and no row", RULE, "look at the program that wrote it")
    truth = {
        name
        for j, name in enumerate(names)
        if any(len(row) > j and row[j].strip().lower() in TRUTH for row in rows)
    }
    return Layout(mark, [*names, ""] if ends else names, lines[0][0], decimal, truth, ends)


def refuse_long_line(path: Path) -> NoReturn:
    """Refuse a file whose line does not fit into a block."""
    has = f"has a line of more than {BLOCK_BYTES} bytes, or a quote without its end"
    refuse(path, has, "A line must fit into a block", "write the rows as .npy or .parquet")


def _first_lines(path: Path) -> Iterator[str]:
    with opened(path) as binary:
        file = io.TextIOWrapper(binary, encoding="utf-8-sig", errors="replace")
        for _ in range(LINES):
            line = file.readline(BLOCK_BYTES)
            if len(line) == BLOCK_BYTES:
                refuse_long_line(path)
            if not line:
                return
            yield line.rstrip("\r\n")


def _fields(path: Path, line: str, mark: str) -> list[str]:
    try:
        return next(csv.reader([line], delimiter=mark), [])
    except csv.Error as error:
        refuse(path, f"cannot be read as a table ({error})", RULE, "write the table again")


def _mark(lines: list[str]) -> str:
    """Return the mark that divides the first two lines into as many fields, or into some."""
    counts = {
        mark: [len(next(csv.reader([line], delimiter=mark), [])) for line in lines[:2]]
        for mark in MARKS
    }
    some = [mark for mark in MARKS if counts[mark][0] > 1]
    return next((mark for mark in some if len(set(counts[mark])) == 1), next(iter(some), ""))


def _divided_by_spaces(lines: list[str]) -> bool:
    """Return whether the second line, or the only one, has a number among several words."""
    fields = lines[min(1, len(lines) - 1)].split()
    return len(fields) > 1 and _has_number(fields, ".")


def _is_number(field: str, decimal: str) -> bool:
    try:
        float(field.replace(decimal, ".", 1))
    except ValueError:
        return False
    return True


def _has_decimal_comma(fields: list[str]) -> bool:
    return any(re.fullmatch(r"\s*[+-]?\d*,\d+(e[+-]?\d+)?\s*", field, re.I) for field in fields)


def _has_number(fields: list[str], decimal: str) -> bool:
    return any(_is_number(field, decimal) for field in fields)


def _is_row(fields: list[str], decimal: str) -> bool:
    """Return whether a first line is a row: numbers, but not 0, 1, 2, ... (pandas's names)."""
    if fields == [str(j) for j in range(len(fields))]:
        return False
    words = [f for f in fields if f not in MISSING and f.strip().lower() not in TRUTH]
    return bool(words) and all(_is_number(field, decimal) for field in words)


def _check_names(
    path: Path, names: list[str], rows: list[list[str]], decimal: str, *, ends: bool
) -> None:
    """Refuse a line of names that may be a row, or that has one name too few."""
    odd = [name for name in names if _is_number(name, decimal) and not name.strip().isdigit()]
    if odd:
        fix = "write a line of names before the rows"
        refuse(path, f"has the number {odd[0]!r} in its line of names", RULE, fix)
    if rows and len(rows[0]) == len(names) + 1 and not ends:
        found = f"has {len(names)} names over {len(rows[0])} fields, as R writes the names of rows"
        refuse(path, found, RULE, "write it without these (row.names = FALSE)")
