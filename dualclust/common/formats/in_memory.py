"""Rows that a rank holds in memory, in chunks: its share of a problem that lies in no file."""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .rows import Floats, Ids, Part, computed_dtype

__all__ = ["HeldRows"]


class HeldRows:
    """Consecutive rows in memory, numbered among those of all ranks.

    Parameters
    ----------
    name : str
        What messages call them.
    chunks : list of (m, d) arrays
        One after the other.
    first_row : int
        Number of the first of them.
    n_samples, n_features : int
        Of all ranks.
    stored : dtype
        Of the chunks.
    """

    ids: Ids | None = None
    part = Part("array")

    def __init__(
        self,
        name: str,
        chunks: list[NDArray[Any]],
        first_row: int,
        n_samples: int,
        n_features: int,
        stored: np.dtype[Any],
    ) -> None:
        self.name, self.chunks = name, chunks
        self.n_samples, self.n_features = n_samples, n_features
        self.dtype = computed_dtype(stored)
        self.edges = np.asarray(list(accumulate(map(len, chunks), initial=first_row)))

    def rows(self, start: int, stop: int) -> Floats:
        """Return rows `start` to `stop`, (stop - start, d), C order; a view where it can be."""
        parts = [
            chunk[max(start - low, 0) : stop - low]
            for chunk, (low, high) in zip(self.chunks, pairwise(self.edges.tolist()), strict=True)
            if low < stop and high > start
        ]
        joined = parts[0] if len(parts) == 1 else self._empty(0) if not parts else None
        joined = np.concatenate(parts) if joined is None else joined
        return np.ascontiguousarray(joined, dtype=self.dtype)

    def take(self, ids: NDArray[np.int64]) -> Floats:
        """Return rows by their numbers, in any order, (m, d), C order."""
        rows = self._empty(len(ids))
        for chunk, (low, high) in zip(self.chunks, pairwise(self.edges.tolist()), strict=True):
            here = (ids >= low) & (ids < high)
            rows[here] = chunk[ids[here] - low]
        return rows

    def where(self, row: int) -> str:
        """Return the words that lead a reader of a message to a row."""
        return f"row {row}"

    def _empty(self, m: int) -> Floats:
        return np.empty((m, self.n_features), dtype=self.dtype)
