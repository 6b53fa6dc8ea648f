"""Bounds on sizes as a command says them: shares of n/k, numbers of rows, or a file of both.

The messages speak the command's language: flags, with the unit of each number.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path
from typing import Any, NamedTuple

from ..algos.bounds.sizes import SizeBounds
from ..algos.core.errors import InfeasibleBoundsError, InvalidValueError, MissingFileError
from ..common.formats.checks import refuse
from ..common.formats.kinds import kind_of

__all__ = ["COLUMNS", "bounds_of", "read_bounds"]

COLUMNS = ("cluster", "size", "min_count", "max_count", "price")
"""Of sizes.csv. A file of bounds needs the first and one of the two counts."""

TOLD = 3
"""Most wrong lines in a message."""

OLD = {"lower", "upper"}


def bounds_of(
    options: argparse.Namespace,
    n: int,
    *,
    stored: tuple[list[int], list[int]] | None = None,
    **place: Any,
) -> SizeBounds:
    """Return the bounds that the options ask for.

    Parameters
    ----------
    options : argparse.Namespace
        With k, lower, upper, min_count, max_count, bounds, rounding. A side without share and count
        has no bound.
    n : int
        Number of rows, at least k.
    stored : pair of lists of int, optional
        Bounds of a side that the options leave out; without it such a side has none.
    **place
        `xp` and `device` of the arrays.

    Raises
    ------
    InfeasibleBoundsError
        If no sizes of n rows keep the bounds.
    InvalidValueError, MissingFileError
        If the file of bounds is missing or wrong.
    """
    k: int = options.k
    if options.bounds is not None:
        said = f"--bounds {options.bounds}"
        low, high = read_bounds(options.bounds, k, n)
    else:
        sides = ("lower", "upper", "min_count", "max_count")
        given = [side for side in sides if getattr(options, side) is not None]
        said = " ".join(f"--{side.replace('_', '-')} {getattr(options, side):g}" for side in given)
        low, high = _bounds_of_flags(options, n, said)
        if stored is not None:
            low = low if {"lower", "min_count"} & {*given} else stored[0]
            high = high if {"upper", "max_count"} & {*given} else stored[1]
            said = said or "the bounds of the model"
    try:
        return SizeBounds.from_counts(low, high, n_samples=n, **place)
    except InfeasibleBoundsError as error:
        raise _error_in_flags(error, said, options, n) from error


def read_bounds(path: Path, k: int, n: int) -> tuple[list[int], list[int]]:
    r"""Read smallest and largest sizes from a .csv with the columns of sizes.csv.

    An empty field, or a missing column of one side, is no bound. Other columns are left unread.

    Raises
    ------
    MissingFileError
        If there is no such file.
    InvalidValueError
        For a file that is no such table; the message names the first wrong lines.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "bounds.csv"
    >>> _ = path.write_text("cluster,min_count,max_count\n1,3,\n0,2,4\n")
    >>> read_bounds(path, 2, 9)
    ([2, 3], [4, 9])
    """
    if not path.is_file():
        msg = f"no file at {path}, which --bounds names. To fix this, look at the path"
        raise MissingFileError(msg)
    rule = f"--bounds is a .csv file with a line for each of the {k} clusters, and the columns "
    rule += "cluster, min_count and max_count"
    if (kind := kind_of(path)).key != "text":
        refuse(path, f"is {kind.what}", rule, "write it as sizes.csv of an output folder is")
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            lines = list(csv.reader(file))
    except (UnicodeDecodeError, csv.Error) as error:
        refuse(path, f"cannot be read ({error})", rule, "write it in UTF-8 with commas")
    names = [name.strip() for name in lines[0]] if lines else []
    if "cluster" not in names or not {"min_count", "max_count"} & {*names}:
        fix = "rename them" if {*names} >= OLD else "add them"
        fix += " (lower to min_count, upper to max_count)" if {*names} >= OLD else ""
        refuse(path, f"has the columns {', '.join(names) or 'of an empty file'}", rule, fix)
    rows = [_line(i + 2, names, fields, k, n) for i, fields in enumerate(lines[1:]) if fields]
    faults = [row for row in rows if isinstance(row, str)]
    found = [row for row in rows if not isinstance(row, str)]
    faults += _repeated(found)
    faults += _missing({row.cluster for row in found}, k) if not faults else []
    if faults:
        more = f"; and {len(faults) - TOLD} more" if len(faults) > TOLD else ""
        refuse(path, f"is wrong: {'; '.join(faults[:TOLD])}{more}", rule, "correct these lines")
    found.sort(key=lambda row: row.cluster)
    return [row.low for row in found], [row.high for row in found]


class _Row(NamedTuple):
    line: int
    cluster: int
    low: int
    high: int


def _line(number: int, names: list[str], fields: list[str], k: int, n: int) -> _Row | str:
    """Return what a line says, or what is wrong with it."""
    if len(fields) != len(names):
        return f"line {number} has {len(fields)} fields under {len(names)} names"
    values = {"min_count": 0, "max_count": n}
    for name, field in zip(names, (field.strip() for field in fields), strict=True):
        if name not in ("cluster", *values) or (name in values and not field):
            continue
        if not (field.isascii() and field.isdigit()):
            what = "the number of a cluster" if name == "cluster" else "a whole number of rows"
            return f"line {number}: {name} must be {what}, got {field!r}"
        values[name] = int(field)
    if values["cluster"] >= k:
        return f"line {number}: cluster must be at most {k - 1} for -k {k}, got {values['cluster']}"
    if values["min_count"] > values["max_count"]:
        return (
            f"line {number}: min_count {values['min_count']} exceeds "
            f"max_count {values['max_count']}"
        )
    return _Row(number, values["cluster"], values["min_count"], min(values["max_count"], n))


def _repeated(rows: list[_Row]) -> list[str]:
    first: dict[int, int] = {}
    faults = []
    for row in rows:
        if row.cluster in first:
            faults.append(f"line {row.line}: cluster {row.cluster} is in line {first[row.cluster]}")
        first.setdefault(row.cluster, row.line)
    return faults


def _missing(there: set[int], k: int) -> list[str]:
    missing = [str(i) for i in range(k) if i not in there]
    if not missing:
        return []
    more = f" and {len(missing) - TOLD} more" if len(missing) > TOLD else ""
    return [f"no line for cluster {', '.join(missing[:TOLD])}{more}"]


def _bounds_of_flags(options: argparse.Namespace, n: int, said: str) -> tuple[list[int], list[int]]:
    """Return sizes in whole rows for the flags of shares and counts."""
    k: int = options.k
    if options.min_count is not None:
        _check_total("--min-count", options.min_count, k, n, most=True)
    if options.max_count is not None:
        _check_total("--max-count", options.max_count, k, n, most=False)
    try:
        bounds = SizeBounds.of(
            k,
            n_samples=n,
            lower=options.lower,
            upper=options.upper,
            min_count=options.min_count,
            max_count=options.max_count,
            rounding=options.rounding,
        )
    except InfeasibleBoundsError as error:
        raise _error_in_flags(error, said, options, n) from error
    return bounds.lower.tolist(), bounds.upper.tolist()


def _check_total(flag: str, count: int, k: int, n: int, *, most: bool) -> None:
    total = count * k
    if total > n if most else total < n:
        apart = f"{total - n} more than" if most else f"{n - total} fewer than"
        fix = f"at most {n // k}" if most else f"at least {-(-n // k)}"
        verb = "asks for" if most else "allows"
        msg = (
            f"{flag} {count} {verb} {total} rows in {k} clusters, {apart} the {n} rows of the "
            f"file. To fix this, give {fix}"
        )
        raise InfeasibleBoundsError(msg, clusters=tuple(range(k)), excess=abs(total - n))


def _error_in_flags(
    error: InfeasibleBoundsError, said: str, options: argparse.Namespace, n: int
) -> InvalidValueError:
    """Return the error of the functions in the words of the command."""
    text = str(error).replace(f"n_samples={n}", f"the {n} rows of the file")
    text = text.replace("pass rounding='outward'", "leave out --rounding")
    if options.rounding != "outward" and "--rounding" not in text:
        text += ", or leave out --rounding"
    mean = f"the mean size n/k is {n / options.k:.6g} rows"
    msg = f"{said}, where {mean}: {text}"
    return InfeasibleBoundsError(
        msg, clusters=error.clusters, excess=error.excess, vector=error.vector
    )
