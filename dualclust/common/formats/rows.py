"""What every reader gives, and what the user can choose."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "BATCH_BYTES",
    "WHOLE",
    "Floats",
    "Ids",
    "Part",
    "Rows",
    "Selection",
    "Stream",
    "common_dtype",
    "computed_dtype",
]

Floats = NDArray[np.floating[Any]]
Ids = Callable[[], Iterator[Any]]
"""Returns the ids of all rows, in order, as NumPy or Arrow arrays of some rows each."""

BATCH_BYTES = 2**20
"""About the size of one batch of a stream."""


class Part(NamedTuple):
    """What of a file is clustered, for the screen and `result.json`.

    Attributes
    ----------
    kind : str
        "array", "data set", "tensor", "column of lists", "columns"; empty for a whole file.
    names : tuple of str
    left_out : tuple of str
        What else the file holds, so that nobody takes it for clustered.
    """

    kind: str = ""
    names: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


WHOLE = Part()


class Selection(NamedTuple):
    """What to read of a file.

    Attributes
    ----------
    array : str
        Name of the array, tensor or data set; empty for the only one.
    columns : tuple of str
        Columns of a table, or patterns of their names; empty for all columns of numbers.
    id : str or None
        The column or array with the ids of the rows.
    dtype : str or None
        Of the numbers of a raw file, or of those that are read from text.
    dim : int or None
        Numbers per row of a raw file.
    offset : int or None
        Bytes of a raw file before its first number.
    besides : tuple of str
        Further columns that are not clustered: `registry.open_ids` reads one in the place of `id`.
    drop : bool
        Whether rows that are not finite will be dropped: a missing value is then NaN, no error.
    """

    array: str = ""
    columns: tuple[str, ...] = ()
    id: str | None = None
    dtype: str | None = None
    dim: int | None = None
    offset: int | None = None
    besides: tuple[str, ...] = ()
    drop: bool = False


class Rows(Protocol):
    """Rows of numbers that can be read in any order; no more than a block is in memory."""

    @property
    def name(self) -> str:
        """What messages call the file."""

    @property
    def n_samples(self) -> int:
        """Number of rows."""

    @property
    def n_features(self) -> int:
        """Numbers per row."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the rows returned: float64 for wide floats, else float32."""

    @property
    def ids(self) -> Ids | None:
        """The ids of the rows, if the user named them or the format has them."""

    @property
    def part(self) -> Part:
        """What of the file they are."""

    def rows(self, start: int, stop: int) -> Floats:
        """Return rows `start` to `stop`, (stop - start, d), C order."""

    def take(self, ids: NDArray[np.int64]) -> Floats:
        """Return rows by their numbers, in any order, (m, d), C order."""

    def where(self, row: int) -> str:
        """Return the words that lead a reader of a message to a row."""


class Stream(NamedTuple):
    """Rows that can only be read from the first to the last.

    Attributes
    ----------
    name : str
    n_samples : int or None
        None if only the end of the file tells.
    n_features : int
    stored : dtype
        Of the batches.
    batches : callable
        Yields the rows, (m, d) arrays.
    ids : callable or None
    part : Part
    """

    name: str
    n_samples: int | None
    n_features: int
    stored: np.dtype[Any]
    batches: Callable[[], Iterator[NDArray[Any]]]
    ids: Ids | None = None
    part: Part = WHOLE


def computed_dtype(stored: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype in which stored numbers are computed."""
    wide = stored.kind == "f" and stored.itemsize >= 8
    return np.dtype(np.float64 if wide else np.float32)


def common_dtype(dtypes: list[np.dtype[Any]]) -> np.dtype[Any]:
    """Return the dtype of several columns or files: theirs, or that in which all are computed."""
    if len(set(dtypes)) == 1:
        return dtypes[0]
    wide = any(computed_dtype(dtype) == np.float64 for dtype in dtypes)
    return np.dtype(np.float64 if wide else np.float32)
