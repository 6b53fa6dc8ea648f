"""Several files as one: those of a folder, or of a pattern, in natural order.

In natural order, part-2 comes before part-10.
"""

from __future__ import annotations

import glob
import re
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...algos.core.errors import MissingFileError
from .checks import listed, refuse
from .rows import Floats, Ids, Rows

__all__ = ["JoinedRows", "check_widths", "natural_order", "shards_of"]


class JoinedRows(NamedTuple):
    """The rows of several files, one after the other.

    Attributes
    ----------
    name : str
    parts : list of Rows
    edges : (m + 1,) int64 array
        First row of each file, and the number of all rows.
    dtype : dtype
        float64 if one of the files has wide floats, else float32.
    ids : callable or None
    """

    name: str
    parts: list[Rows]
    edges: NDArray[np.int64]
    dtype: np.dtype[Any]
    ids: Ids | None = None

    @property
    def n_samples(self) -> int:
        """Number of all rows."""
        return int(self.edges[-1])

    @property
    def n_features(self) -> int:
        """Numbers per row."""
        return self.parts[0].n_features

    def rows(self, start: int, stop: int) -> Floats:
        """Return rows `start` to `stop`, (stop - start, d), C order."""
        rows = np.empty((stop - start, self.n_features), dtype=self.dtype)
        first, last = (int(np.searchsorted(self.edges, row, "right")) for row in (start, stop - 1))
        for i in range(max(0, first - 1), last if stop > start else 0):
            low, high = (int(edge) for edge in self.edges[i : i + 2])
            begin, end = max(start, low), min(stop, high)
            if begin < end:
                rows[begin - start : end - start] = self.parts[i].rows(begin - low, end - low)
        return rows

    def take(self, ids: NDArray[np.int64]) -> Floats:
        """Return rows by their numbers, in any order, (m, d), C order."""
        rows = np.empty((len(ids), self.n_features), dtype=self.dtype)
        order = np.argsort(ids, kind="stable")
        places = np.searchsorted(ids[order], self.edges)
        for i, (begin, end) in enumerate(pairwise(places)):
            if begin < end:
                some = order[begin:end]
                rows[some] = self.parts[i].take(ids[some] - self.edges[i])
        return rows

    def where(self, row: int) -> str:
        """Return the words that lead a reader of a message to a row."""
        i = int(np.searchsorted(self.edges, row, "right")) - 1
        return f"row {row} (row {row - int(self.edges[i])} of {self.parts[i].name})"


def natural_order(paths: list[Path]) -> list[Path]:
    """Sort by names, with numbers inside them by their values.

    Examples
    --------
    >>> [path.name for path in natural_order([Path("x10.npy"), Path("x9.npy"), Path("x1.npy")])]
    ['x1.npy', 'x9.npy', 'x10.npy']
    """

    def key(path: Path) -> list[tuple[int, int, str]]:
        words = re.split(r"(\d+)", str(path))
        return [(0, int(w), w) if w.isdecimal() else (1, 0, w) for w in words if w]

    return sorted(paths, key=key)


def shards_of(place: Path) -> list[Path]:
    """Return the files of a folder or of a pattern, all with one suffix.

    Raises
    ------
    MissingFileError
        If there is none.
    InvalidValueError
        If their names end differently.
    """
    if place.is_dir():
        found = [path for path in place.iterdir() if path.is_file() and path.name[0] not in "._"]
        what = "is a folder without files"
    else:
        found = [Path(path) for path in glob.glob(str(place), recursive=True)]
        found, what = [path for path in found if path.is_file()], "matches no file"
    if not found:
        rule = "Shards are files of one format"
        refuse(place, what, rule, "look at the path", MissingFileError)
    by_suffix: dict[str, list[Path]] = {}
    for path in found:
        by_suffix.setdefault(path.suffix.lower(), []).append(path)
    if len(by_suffix) > 1:
        some = [paths[0].name for paths in by_suffix.values()]
        rule = f"Shards are files of one format, and here are {listed(sorted(some))}"
        suffix = max(by_suffix, key=lambda suffix: len(by_suffix[suffix]))
        fix = f"name those you mean by a pattern in quotes: '{place}/*{suffix}'"
        fix = fix if place.is_dir() else "give a pattern of one suffix"
        refuse(place, f"has files of {len(by_suffix)} kinds", rule, fix)
    return natural_order(found)


def check_widths(name: str, parts: list[Any]) -> None:
    """Refuse shards whose rows have different lengths.

    Raises
    ------
    InvalidValueError
    """
    for part in parts:
        if part.n_features != parts[0].n_features:
            found = f"has rows of {parts[0].n_features} numbers in {parts[0].name}, and of "
            found += f"{part.n_features} in {part.name}"
            fix = "give the files of one model only"
            refuse(name, found, "All shards must have rows of the same length", fix)
