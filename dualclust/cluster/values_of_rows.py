"""One value for each row, as an option names it: a column of the input, or a file.

``--weights``, ``--seeds`` and ``--show`` name a file where there is one, and else a column of a
table, or an array of an .npz or .h5 file. Such a column is not clustered.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..algos.core.errors import DualclustError, InvalidValueError, MissingFileError, UsageError
from ..algos.scores.sources import check_weights
from ..common.array_headers import PARSING, read_header
from ..common.formats import Ids, Selection, open_ids, open_rows
from ..common.formats.checks import refuse
from ..common.formats.kinds import kind_of
from ..common.formats.registry import SUFFIXES

__all__ = ["column_of", "column_values", "numbers_in_column", "read_weights"]


def column_of(value: object) -> str | None:
    """Return the name of a column, or None where there is a file of that name.

    Examples
    --------
    >>> column_of("price"), column_of("w.npy")
    ('price', None)
    """
    path = Path(str(value))
    is_file = path.is_file() or path.suffix.lower() in SUFFIXES
    return None if is_file else str(value)


def column_values(option: str, column: str, place: Path, selection: Selection) -> Ids:
    """Find a column of the input.

    Raises
    ------
    UsageError
        If the input has none, or none of that name: the error says what it has.
    """
    besides = tuple({*selection.besides, *([] if selection.id is None else [selection.id])})
    try:
        return open_ids(place, selection._replace(id=column, besides=besides))
    except DualclustError as error:
        reason = str(error).replace("--id", option)
        if selection.id is not None and "--id" not in str(error):
            raise  # about something else than the column
        msg = f"{option} {column} is no file, so it must be a column of the input. {reason}"
        kind = UsageError if isinstance(error, UsageError) else type(error)
        raise kind(msg) from error


def numbers_in_column(
    option: str, column: str, place: Path, selection: Selection, n: int
) -> NDArray[np.float64]:
    """Read a column of numbers, (n,) float64; NaN where a value is missing.

    Raises
    ------
    UsageError, InvalidValueError
        As `column_values`, and for values that are no numbers.
    """
    parts = [
        _numbers(option, column, part) for part in column_values(option, column, place, selection)()
    ]
    values = np.concatenate([np.empty(0), *parts])
    if len(values) != n:
        msg = (
            f"{option} {column} has {len(values)} values, and the input has {n} rows. To fix this, "
            f"let nobody write to it while it is read"
        )
        raise InvalidValueError(msg)
    return values


def _numbers(option: str, column: str, part: Any) -> NDArray[np.float64]:
    values = part if isinstance(part, np.ndarray) else part.to_numpy(zero_copy_only=False)
    if values.dtype.kind in "OSU":
        values = [np.nan if value is None or value in ("", b"") else value for value in values]
    try:
        return np.asarray(values, dtype=np.float64)
    except ValueError as error:
        msg = (
            f"{option} {column} must be a column of numbers, and holds others ({error}). "
            f"To fix this, name another column"
        )
        raise InvalidValueError(msg) from error


def read_weights(path: Path, n: int) -> NDArray[np.float64]:
    """Read one weight per row, (n,) numbers of at least 0, as float64.

    Parameters
    ----------
    path : Path
        An .npy file of n numbers, or any file that is read as n rows of one number.
    n : int
    """
    if not path.is_file():
        msg = f"no file at {path}. To fix this, look at the path, or name a column of the input"
        raise MissingFileError(msg)
    rule = f"Weights are one real number for each of the {n} rows"
    if kind_of(path).key != "npy":
        rows = open_rows(path)
        if (rows.n_samples, rows.n_features) != (n, 1):
            found = f"holds {rows.n_samples} rows of {rows.n_features} numbers"
            refuse(path, found, rule, "save them with np.save")
        return checked_weights(path, rows.rows(0, n)[:, 0])
    with path.open("rb") as file:
        header = read_header(file, path)
    if header.dtype.kind not in "fiu" or header.shape != (n,):
        fix = "give the weights of these very rows"
        refuse(path, f"holds {header.dtype} of shape {header.shape}", rule, fix)
    if path.stat().st_size < header.n_bytes:
        refuse(path, "is cut off", rule, "write or copy it again")
    with PARSING:
        array = np.load(path, allow_pickle=False)
    return checked_weights(path, array)


def checked_weights(name: object, values: NDArray[Any]) -> NDArray[np.float64]:
    """Return weights as float64 if they are finite and at least 0, not all of them 0."""
    own = np.array(values, np.float64)
    weights: NDArray[np.float64] = check_weights(str(name), own, len(own))
    return weights
