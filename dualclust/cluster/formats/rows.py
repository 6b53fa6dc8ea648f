"""What every reader gives, and what the user can choose."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "BATCH_BYTES",
    "Floats",
    "Ids",
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
    show : str or None
        A further column that is not clustered: `registry.open_ids` reads it in the place of `id`.
    """

    array: str = ""
    columns: tuple[str, ...] = ()
    id: str | None = None
    dtype: str | None = None
    dim: int | None = None
    show: str | None = None


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
        """The ids of the rows, if the user named them."""

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
    """

    name: str
    n_samples: int | None
    n_features: int
    stored: np.dtype[Any]
    batches: Callable[[], Iterator[NDArray[Any]]]
    ids: Ids | None = None


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
