"""Several files as one: those of a folder, or of a pattern, in natural order.

In natural order, part-2 comes before part-10.
"""

from __future__ import annotations

import glob
import re
from collections.abc import Container
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...algos.core.errors import MissingFileError
from .checks import listed, refuse
from .rows import WHOLE, Floats, Ids, Part, Rows
from .unpacked import suffix_of

__all__ = ["JoinedRows", "check_widths", "left_out", "natural_order", "shards_of"]


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
    part : Part
    """

    name: str
    parts: list[Rows]
    edges: NDArray[np.int64]
    dtype: np.dtype[Any]
    ids: Ids | None = None
    part: Part = WHOLE

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


def shards_of(place: Path, read: Container[str]) -> list[Path]:
    """Return the files of a folder or of a pattern, all with one suffix.

    Parameters
    ----------
    place : Path
    read : container of str
        Ends of names of files that are read. Others beside such files are left out.

    Raises
    ------
    MissingFileError
        If there is none.
    InvalidValueError
        If the names of those that are read end differently.
    """
    by_suffix = _by_suffix(place)
    rule = "Shards are files of one format"
    if not by_suffix:
        what = "is a folder without files" if place.is_dir() else "matches no file"
        inside = _folders_with(place, read)
        fix = f"name one of its folders: {inside[0]}" if inside else "look at the path"
        refuse(place, what, rule, fix, MissingFileError)
    found = {suffix: by_suffix[suffix] for suffix in by_suffix if suffix in read} or by_suffix
    if found is by_suffix and (inside := _folders_with(place, read)):
        some = listed(sorted(paths[0].name for paths in by_suffix.values()))
        fix = f"name one of its folders: {inside[0]}"
        refuse(place, f"has no file that is read, but {some}", rule, fix)
    if len(found) > 1:
        some = listed(sorted(paths[0].name for paths in found.values()))
        suffix = max(found, key=lambda suffix: sum(p.stat().st_size for p in found[suffix]))
        ending = "".join(found[suffix][0].suffixes[-2:]) if place.is_dir() else ""
        ending = ending if ending == f"{suffix}.gz" else suffix
        fix = f"name those you mean by a pattern in quotes: '{place}/*{ending}'"
        fix = fix if place.is_dir() else "give a pattern of one suffix"
        refuse(place, f"has files of {len(found)} kinds", f"{rule}, and here are {some}", fix)
    return natural_order(next(iter(found.values())))


def left_out(place: Path, read: Container[str]) -> list[str]:
    """Return the names of the files of a folder that are no shards."""
    shards = set(shards_of(place, read))
    files = natural_order([path for paths in _by_suffix(place).values() for path in paths])
    return [path.name for path in files if path not in shards]


def _by_suffix(place: Path) -> dict[str, list[Path]]:
    if place.is_dir():
        found = [path for path in place.iterdir() if path.is_file() and path.name[0] not in "._"]
    else:
        found = [Path(path) for path in glob.glob(str(place), recursive=True)]
    by_suffix: dict[str, list[Path]] = {}
    for path in found:
        if path.is_file():
            by_suffix.setdefault(suffix_of(path), []).append(path)
    return by_suffix


def _folders_with(place: Path, read: Container[str]) -> list[Path]:
    """Return the folders of a folder that hold files that are read."""
    inside = [path for path in place.iterdir() if path.is_dir()] if place.is_dir() else []
    return [path for path in natural_order(inside) if any(s in read for s in _by_suffix(path))]


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
