"""Files of rows and clusters: ``--seeds``, rows whose cluster is known, and ``--forbidden`` pairs.

A table names rows by their number or, where ``--id`` says which column has them, by their id; the
table that ``--table`` writes is one. Ids of the input are read once and compared as text, so memory
is that of the pairs and not of all ids.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..algos.core.errors import MissingFileError
from ..common.array_headers import PARSING, read_header
from ..common.formats import Rows
from ..common.formats.checks import listed, load_extra, refuse
from ..common.formats.kinds import Kind, kind_of

__all__ = ["read_forbidden", "read_links", "read_seeds", "seeds_of_column"]

Integers = NDArray[np.int64]

TABLES = {"parquet": "a Parquet file", "arrow": "an Arrow file", "text": "text"}


class Pairs(NamedTuple):
    """Rows and clusters as a table names them.

    Attributes
    ----------
    by_id : bool
        Whether `names` are ids; otherwise they are numbers of rows.
    names, clusters : list of str
    first : int
        Number of the first pair in the file: its line, or its row.
    """

    by_id: bool
    names: list[str]
    clusters: list[str]
    first: int


def read_seeds(path: Path, rows: Rows, k: int, key: str | None) -> Integers:
    """Read the known clusters of rows.

    Parameters
    ----------
    path : Path
        An .npy file of n labels, -1 where the cluster is not known; or a table (.csv, .tsv,
        .parquet, .arrow) with the columns cluster and row, or cluster and `key`.
    rows : Rows
        The input.
    k : int
        Number of clusters.
    key : str or None
        Column of ids, of the input and of the table.

    Returns
    -------
    (n,) int64 array, -1 where the cluster is not known

    Raises
    ------
    MissingFileError, InvalidValueError, InvalidTypeError, MissingExtraError
    """
    n, option = rows.n_samples, "--seeds"
    rule = f"--seeds is an .npy file of {n} labels from 0 to {k - 1}, -1 where the cluster is not "
    rule += "known, or a table with the columns cluster and row"
    kind = _kind(path, option, rule)
    if kind.key == "npy":
        labels = _array(path, (n,), rule)
        _check_range(path, "a label", labels, -1, k, rule)
        return labels
    pairs = _resolved(path, _table(path, kind, key, option, rule), rows, k, rule)
    fixed = np.full(n, -1, dtype=np.int64)
    fixed[pairs[:, 0]] = pairs[:, 1]
    wrong = np.flatnonzero(fixed[pairs[:, 0]] != pairs[:, 1])
    if wrong.size:
        row, cluster = pairs[wrong[0]].tolist()
        found = f"puts row {row} into cluster {cluster} and into cluster {int(fixed[row])}"
        refuse(path, found, "A row has one cluster", "drop one of these lines")
    return fixed


def seeds_of_column(column: str, values: NDArray[np.float64], k: int) -> Integers:
    """Return the known clusters of rows from a column of the input: NaN or -1 where not known.

    Raises
    ------
    InvalidValueError
        For values that are no clusters.

    Examples
    --------
    >>> seeds_of_column("group", np.asarray([1.0, np.nan, -1.0]), 2)
    array([ 1, -1, -1])
    """
    known = np.where(np.isnan(values), -1.0, values)
    wrong = np.flatnonzero((known < -1.0) | (known >= k) | (known != np.floor(known)))
    if wrong.size:
        found = f"has the value {known[wrong[0]]:g} in row {wrong[0]}"
        rule = f"Known clusters are whole numbers from 0 to {k - 1}, -1 or empty where not known"
        refuse(f"--seeds {column}", found, rule, "number clusters from 0")
    return known.astype(np.int64)


def read_forbidden(path: Path, rows: Rows, k: int, key: str | None) -> Integers:
    """Read pairs of a row and a cluster that it must not join.

    Parameters
    ----------
    path : Path
        An .npy file of m pairs, (m, 2) integers; or a table as of `read_seeds`.
    rows, k, key
        As of `read_seeds`.

    Returns
    -------
    (m, 2) int64 array of a row and a cluster each

    Raises
    ------
    MissingFileError, InvalidValueError, InvalidTypeError, MissingExtraError
    """
    rule = "--forbidden is an .npy file of m pairs (row, cluster), of shape (m, 2), or a table "
    rule += "with the columns row and cluster"
    kind = _kind(path, "--forbidden", rule)
    if kind.key != "npy":
        return _resolved(path, _table(path, kind, key, "--forbidden", rule), rows, k, rule)
    pairs = _array(path, (-1, 2), rule)
    _check_range(path, "a row", pairs[:, 0], 0, rows.n_samples, rule)
    _check_range(path, "a cluster", pairs[:, 1], 0, k, rule)
    return pairs


def read_links(path: Path, rows: Rows, key: str | None) -> tuple[Integers, Integers]:
    """Read pairs of rows that must be together, and of rows that must not.

    Parameters
    ----------
    path : Path
        A table with the columns link, of "must" or "cannot", other, and row or that of the ids.
    rows, key
        As of `read_seeds`.

    Returns
    -------
    (a, 2) and (b, 2) int64 arrays of two rows each

    Raises
    ------
    MissingFileError, InvalidValueError, MissingExtraError
    """
    rule = "--links is a table with the columns row, other and link, which is must or cannot"
    kind = _kind(path, "--links", rule)
    if kind.key == "npy":
        refuse(path, "is an array of NumPy", rule, "write it as .csv or .parquet")
    columns = _text_columns(path) if kind.key == "text" else _arrow_columns(path, kind)
    by_id = key is not None and key in columns
    name = key if by_id and key is not None else "row"
    if not {name, "other", "link"} <= columns.keys():
        fix = "name the columns so" + ("" if key else ", or name the column of ids with --id")
        refuse(path, f"has the columns {listed(columns)}", rule, fix)
    first, links = 2 if kind.key == "text" else 0, [word.strip() for word in columns["link"]]
    wrong = next((i for i, word in enumerate(links) if word not in ("must", "cannot")), None)
    if wrong is not None:
        found = f"has the link {links[wrong]!r} in line {wrong + first}"
        refuse(path, found, rule, "write must or cannot")
    zeros = ["0"] * len(links)  # no clusters here
    ends = [
        _resolved(path, Pairs(by_id, columns[end], zeros, first), rows, 1, rule)[:, 0]
        for end in (name, "other")
    ]
    pairs, is_must = np.stack(ends, axis=1), np.asarray(links, dtype=np.str_) == "must"
    return pairs[is_must], pairs[~is_must]


def _kind(path: Path, option: str, rule: str) -> Kind:
    if not path.is_file():
        msg = f"no file at {path}, which {option} names. To fix this, look at the path"
        raise MissingFileError(msg)
    kind = kind_of(path)
    if kind.key != "npy" and kind.key not in TABLES:
        refuse(path, f"is {kind.what}", rule, "write it as .npy or .csv")
    return kind


def _array(path: Path, shape: tuple[int, ...], rule: str) -> Integers:
    """Read integers; -1 in `shape` stands for any length."""
    with path.open("rb") as file:
        header = read_header(file, path)
    fits = len(header.shape) == len(shape) and all(
        want in (-1, got) for want, got in zip(shape, header.shape, strict=True)
    )
    if header.dtype.kind not in "iu" or not fits:
        found = f"holds {header.dtype} of shape {header.shape}"
        refuse(path, found, rule, "save whole numbers for these very rows")
    if path.stat().st_size < header.n_bytes:
        refuse(path, "is cut off", rule, "write or copy it again")
    with PARSING:
        array: Integers = np.load(path, allow_pickle=False).astype(np.int64)
    return array


def _check_range(path: Path, what: str, values: Integers, low: int, high: int, rule: str) -> None:
    wrong = np.flatnonzero((values < low) | (values >= high))
    if wrong.size:
        found = f"has {what} outside {low} to {high - 1}: {values[wrong[0]]} at {wrong[0]}"
        more = f", and {wrong.size - 1} more" if wrong.size > 1 else ""
        refuse(path, found + more, rule, "number rows and clusters from 0")


def _table(path: Path, kind: Kind, key: str | None, option: str, rule: str) -> Pairs:
    """Read the two columns of a table."""
    columns = _text_columns(path) if kind.key == "text" else _arrow_columns(path, kind)
    by_id = key is not None and key in columns
    name = key if by_id and key is not None else "row"
    if "cluster" not in columns or name not in columns:
        fix = "name the columns so"
        if key is None:
            fix += f", or name the column of ids with --id, if {option} goes by ids"
        refuse(path, f"has the columns {listed(columns)}", rule, fix)
    return Pairs(by_id, columns[name], columns["cluster"], 2 if kind.key == "text" else 0)


def _text_columns(path: Path) -> dict[str, list[str]]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            tabs = path.suffix.lower() == ".tsv"
            lines = csv.reader(file, delimiter="\t" if tabs else ",")
            names = [name.strip() for name in next(lines, [])]
            columns: dict[str, list[str]] = {name: [] for name in names}
            for number, fields in enumerate(lines, 2):
                if len(fields) != len(names):
                    found = f"has {len(fields)} fields in line {number}, under {len(names)} names"
                    rule = "Every line of a table has a field for each column"
                    refuse(path, found, rule, "correct that line")
                for name, field in zip(names, fields, strict=True):
                    columns[name].append(field)
    except (UnicodeDecodeError, csv.Error) as error:
        rule = "A table of rows and clusters is text in UTF-8, with commas, or tabs in a .tsv file"
        refuse(path, f"cannot be read ({error})", rule, "write it again")
    return columns


def _arrow_columns(path: Path, kind: Kind) -> dict[str, list[str]]:
    module = load_extra("pyarrow.parquet", "parquet", path, kind.what)
    import pyarrow as pa
    import pyarrow.feather as feather

    try:
        read = module.read_table if kind.key == "parquet" else feather.read_table
        table = read(str(path))
        names = table.column_names
        return {name: [str(v) for v in table.column(name).to_pylist()] for name in names}
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())[:200]
        rule = "A table must be whole and not encrypted"
        refuse(path, f"cannot be read ({reason})", rule, "write or copy it again")


def _resolved(path: Path, pairs: Pairs, rows: Rows, k: int, rule: str) -> Integers:
    """Return numbers of rows and clusters, (m, 2)."""
    clusters = [_number(path, pairs, i, "cluster", k, rule) for i in range(len(pairs.names))]
    if not pairs.by_id:
        n = rows.n_samples
        own = [_number(path, pairs, i, "row", n, rule) for i in range(len(pairs.names))]
    else:
        place = _places(path, set(pairs.names), rows)
        missing = [name for name in pairs.names if name not in place]
        if missing:
            found = f"has {len(missing)} ids that no row of {rows.name} has: {listed(missing)}"
            refuse(path, found, "Ids are those of the rows", "drop these lines")
        own = [place[name] for name in pairs.names]
    return np.array([own, clusters], dtype=np.int64).T.reshape(-1, 2)


def _number(path: Path, pairs: Pairs, i: int, what: str, most: int, rule: str) -> int:
    text = (pairs.clusters if what == "cluster" else pairs.names)[i].strip()
    if not (text.isascii() and text.isdigit() and len(text) < 20 and int(text) < most):
        found = f"has the {what} {text!r} in line {i + pairs.first}"
        refuse(path, found, rule, f"give whole numbers from 0 to {most - 1}")
    return int(text)


def _places(path: Path, wanted: set[str], rows: Rows) -> dict[str, int]:
    """Return the number of the row of each wanted id, in one pass over the ids of the input."""
    place: dict[str, int] = {}
    start = 0
    for part in rows.ids() if rows.ids is not None else ():
        own: list[Any] = part.tolist() if isinstance(part, np.ndarray) else part.to_pylist()
        for i, name in enumerate(own, start):
            text = name.decode() if isinstance(name, bytes) else str(name)
            if text not in wanted:
                continue
            if text in place:
                found = (
                    f"names the id {text!r}, which rows {place[text]} and {i} of {rows.name} have"
                )
                refuse(path, found, "An id names one row", "name rows by their number: row")
            place[text] = i
        start += len(own)
    return place
