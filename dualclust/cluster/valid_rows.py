"""``--invalid drop``: the rows of a file without those that cannot be clustered.

One pass finds the rows that hold NaN or infinity, and, where directions are compared, those of
zeros. All other rows are numbered anew, so that everything behind sees a file without such rows.
What is written goes by the numbers of the input: a dropped row has the label -1.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..algos.clustering.choices import RowChoices
from ..algos.core.errors import InvalidValueError
from ..common.formats import Ids, Rows
from ..common.formats.rows import Floats, Part
from .notable import Lines, Notable

__all__ = ["KeptRows", "in_input"]

Integers = NDArray[np.int64]


class KeptRows:
    """Rows without some of them.

    Parameters
    ----------
    inside : Rows
        All rows of the input.
    dropped : (m,) int64 array
        Numbers of those that are left out, ascending.

    Raises
    ------
    InvalidValueError
        If none is left.

    Examples
    --------
    >>> from dualclust.common.formats.in_memory import HeldRows
    >>> x = np.asarray([[1.0], [np.nan], [3.0]])
    >>> rows = KeptRows(HeldRows("x", [x], 0, 3, 1, x.dtype), np.asarray([1]))
    >>> rows.n_samples, rows.rows(0, 2).ravel(), rows.where(1)
    (2, array([1., 3.]), 'row 2')
    """

    def __init__(self, inside: Rows, dropped: Integers) -> None:
        self.inside, self.dropped = inside, dropped
        self.name, self.n_features, self.dtype = inside.name, inside.n_features, inside.dtype
        self.n_samples = inside.n_samples - len(dropped)
        if self.n_samples == 0:
            msg = (
                f"{self.name} has no row that can be clustered: all {len(dropped)} are dropped. "
                f"To fix this, look at the program that wrote them"
            )
            raise InvalidValueError(msg)
        self._before = dropped - np.arange(len(dropped))  # kept rows before each dropped one

    @property
    def part(self) -> Part:
        """What of the file they are."""
        return self.inside.part

    @property
    def ids(self) -> Ids | None:
        """The ids of all rows of the input: what is written goes by these."""
        return self.inside.ids

    @property
    def stored(self) -> np.dtype[Any]:
        """Of the file."""
        return np.dtype(getattr(self.inside, "stored", self.dtype))

    def numbers(self, kept: Integers) -> Integers:
        """Return the numbers in the input of rows by their numbers here."""
        return kept + np.searchsorted(self._before, kept, side="right")

    def places(self, numbers: Integers) -> Integers:
        """Return the numbers here of rows by their numbers in the input; -1 for dropped rows."""
        before = np.searchsorted(self.dropped, numbers)
        there = np.isin(numbers, self.dropped)
        return np.where(there, -1, numbers - before)

    def rows(self, start: int, stop: int) -> Floats:
        """Return rows `start` to `stop`, (stop - start, d), C order."""
        if stop <= start:
            return self.inside.rows(0, 0)
        first, last = self.numbers(np.asarray([start, stop - 1])).tolist()
        block = self.inside.rows(first, last + 1)
        low, high = np.searchsorted(self.dropped, [first, last])
        if low == high:
            return block
        return np.delete(block, self.dropped[low:high] - first, axis=0)

    def take(self, ids: Integers) -> Floats:
        """Return rows by their numbers, in any order, (m, d), C order."""
        return self.inside.take(self.numbers(ids))

    def where(self, row: int) -> str:
        """Return the words that lead a reader of a message to a row."""
        return self.inside.where(int(self.numbers(np.asarray([row]))[0]))

    def without(self, array: NDArray[Any]) -> NDArray[Any]:
        """Return an array of all rows of the input without those that are dropped."""
        return np.delete(array, self.dropped, axis=0)

    def in_input(self, values: NDArray[Any], missing: float) -> NDArray[Any]:
        """Return values of these rows as an array of all rows of the input."""
        whole = np.full(self.inside.n_samples, missing, dtype=values.dtype)
        whole[self.numbers(np.arange(self.n_samples))] = values
        return whole


def in_input(rows: KeptRows, notable: Notable) -> Notable:
    """Return the rows worth a look by their numbers in the input."""

    def numbered(lines: Lines) -> Lines:
        return lines._replace(row=rows.numbers(lines.row))

    choices = notable.choices
    if choices is not None:
        missing = (np.inf, -1, -1, 0.0)
        columns = zip(choices, missing, strict=True)
        choices = RowChoices(*(rows.in_input(column, value) for column, value in columns))
    return notable._replace(
        exemplars=numbered(notable.exemplars),
        doubtful=numbered(notable.doubtful),
        moved=numbered(notable.moved),
        choices=choices,
    )
