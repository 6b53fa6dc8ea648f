"""Rows of an ``.npy`` file as a source of features, read a block at a time.

A memory map would do, but the pages that it has touched count as the process's memory, also for a
scheduler that limits memory. Positioned reads into a buffer need the memory of one block only,
however long the file is.

Which rows a rank reads is decided by `row_group`, and their order by `algos.scores.blocks`.
`check_embeddings` reads every value once before the clustering starts. A bad row therefore ends the
run in its first seconds, and the error gives its number.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from io import FileIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..algos.core.errors import InvalidTypeError, InvalidValueError, MissingFileError, UsageError
from ..algos.core.projections import project_sphere
from ..algos.scores.blocks import MOST_ROWS
from ..algos.scores.sources import FeatureSource, Group, alone, check_weights
from .products import Multiply

__all__ = [
    "Embeddings",
    "check_embeddings",
    "check_path",
    "embedding_source",
    "open_embeddings",
    "read_weights",
]

Floats = NDArray[np.floating[Any]]

SPAN_BYTES = 2**20
"""Most bytes of one read for scattered rows."""

SKIPPED_BYTES = 2**13
"""Unused bytes that may be read for a row: reading them takes as long as one more call."""


class Embeddings(NamedTuple):
    """The header of an ``.npy`` file.

    Attributes
    ----------
    path : Path
    n_samples, n_features : int
    stored : dtype
        Of the file.
    dtype : dtype
        Of the rows returned: float64 for wide floats, else float32.
    by_columns : bool
        Fortran order.
    offset : int
        Bytes before the first value.
    """

    path: Path
    n_samples: int
    n_features: int
    stored: np.dtype[Any]
    dtype: np.dtype[Any]
    by_columns: bool
    offset: int

    def rows(self, start: int, stop: int) -> Floats:
        """Return rows `start` to `stop` as they are stored, (stop - start, d), C order."""
        return self._read(lambda read, out: read(start, out), stop - start)

    def take(self, ids: NDArray[np.int64]) -> Floats:
        """Return rows by their ids, in any order, (m, d), C order."""
        order = np.argsort(ids, kind="stable")
        ascending = ids[order]
        rows = np.empty((len(ids), self.n_features), dtype=self.dtype)
        rows[order] = self._read(lambda read, out: _read_scattered(read, ascending, out), len(ids))
        return rows

    def _read(self, fill: Callable[[_Read, NDArray[Any]], None], m: int) -> Floats:
        """Run `fill` once, or once per column of a file in Fortran order, and convert."""
        width = 1 if self.by_columns else self.n_features
        rows = np.empty((m, self.n_features), dtype=self.dtype)
        if m == 0:
            return rows
        with self.path.open("rb", buffering=0) as file:
            for j in range(self.n_features // width):
                first = self.offset + j * self.n_samples * self.stored.itemsize
                part = np.empty((m, width), dtype=self.stored)

                def read(start: int, out: NDArray[Any], first: int = first) -> None:
                    place = first + start * width * self.stored.itemsize
                    view, done = out.reshape(-1).view(np.uint8).data, 0
                    while done < len(view):
                        got = _read_at(file, view[done:], place + done)
                        if not got:
                            msg = f"{self.path} has become shorter since its header was read"
                            raise InvalidValueError(msg)
                        done += got

                fill(read, part)
                with np.errstate(over="ignore"):  # overflow gives infinity, which the check reports
                    rows[:, j : j + width] = part
        return rows


def _read_at(file: FileIO, view: memoryview, place: int) -> int:
    """Read some bytes from a place of a file, in one system call where the system has one."""
    if hasattr(os, "preadv"):
        return os.preadv(file.fileno(), [view], place)
    file.seek(place)
    return file.readinto(view) or 0


_Read = Callable[[int, NDArray[Any]], None]


def _read_scattered(read: _Read, ids: NDArray[np.int64], out: NDArray[Any]) -> None:
    """Fill `out` with the rows `ids`, in ascending order: neighbors in one read, others singly."""
    size = out.shape[1] * out.dtype.itemsize
    span, start = max(1, SPAN_BYTES // size), 0
    while start < len(ids):
        first = int(ids[start])
        stop = int(np.searchsorted(ids, first + span))
        length = int(ids[stop - 1]) - first + 1
        if length * size <= SKIPPED_BYTES * (stop - start):
            block = np.empty((length, out.shape[1]), dtype=out.dtype)
            read(first, block)
            out[start:stop] = block[ids[start:stop] - first]
        else:
            for i in range(start, stop):
                read(int(ids[i]), out[i : i + 1])
        start = stop


def open_embeddings(path: Path) -> Embeddings:
    """Read the header of an ``.npy`` file of (n, d) real numbers.

    Raises
    ------
    MissingFileError
        If there is no file at `path`.
    InvalidTypeError, InvalidValueError
        If the file is no .npy file, holds no real numbers, is not 2-D, is empty or is cut off.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "X.npy"
    >>> np.save(path, np.eye(3, dtype=np.float16))
    >>> rows = open_embeddings(path)
    >>> rows.n_samples, rows.rows(1, 2)
    (3, array([[0., 1., 0.]], dtype=float32))
    """
    array = _load(path)
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "fiu":
        kind = array.dtype if isinstance(array, np.ndarray) else "an archive of several arrays"
        msg = f"{path} must hold one array of real numbers, got {kind}"
        raise InvalidTypeError(msg)
    if array.ndim != 2 or array.size == 0:
        msg = f"{path} must have shape (n, d) with n, d >= 1, got {array.shape}"
        raise InvalidValueError(msg)
    wide = array.dtype.kind == "f" and array.dtype.itemsize >= 8
    n, d = array.shape
    return Embeddings(
        path,
        n,
        d,
        stored=array.dtype,
        dtype=np.dtype(np.float64 if wide else np.float32),
        by_columns=not array.flags.c_contiguous,
        offset=array.offset,  # type: ignore[attr-defined]
    )


def check_embeddings(
    rows: Embeddings, metric: str, group: Group | None = None, *, digest: bool = False
) -> str:
    """Check every value of this rank's rows once.

    Parameters
    ----------
    rows : Embeddings
    metric : {"cosine", "euclidean"}
        "cosine" refuses a zero row, which has no direction.
    group : Group, optional
        Which rows are this rank's.
    digest : bool
        Whether to compute the hash, which costs time.

    Returns
    -------
    str
        A hash of all values, the same for any number of ranks; empty without `digest`.

    Raises
    ------
    InvalidValueError
        On every rank, with the first wrong row of the file and the number of wrong rows.
    """
    group = alone(rows.n_samples) if group is None else group
    bad: list[NDArray[np.int64]] = []
    zero: list[NDArray[np.int64]] = []
    hashes = np.zeros((-(-group.n_local // MOST_ROWS), 32), dtype=np.uint8)
    for i, start in enumerate(range(0, group.n_local, MOST_ROWS)):
        first = group.first_row + start
        block = rows.rows(first, first + min(MOST_ROWS, group.n_local - start))
        bad.append(np.flatnonzero(~np.isfinite(block).all(axis=1)) + first)
        zero.append(np.flatnonzero(~block.any(axis=1)) + first)
        if digest:
            hashes[i] = np.frombuffer(hashlib.sha256(block.data).digest(), dtype=np.uint8)
    found = [_summary(parts) for parts in (bad, zero)]
    bad_rows, zero_rows = group.gather(np.asarray([found])).transpose(1, 0, 2)
    if count := int(bad_rows[:, 1].sum()):
        row = _first(bad_rows)
        msg = f"{rows.path} must be finite, got NaN or infinity in row {row} ({count} such rows)"
        raise InvalidValueError(msg)
    if (count := int(zero_rows[:, 1].sum())) and metric == "cosine":
        msg = (
            f"{rows.path} has a zero row, {_first(zero_rows)} ({count} such rows), which has no "
            f"direction. To fix this, drop those rows"
        )
        raise InvalidValueError(msg)
    return hashlib.sha256(group.gather(hashes).data).hexdigest() if digest else ""


def embedding_source(
    rows: Embeddings,
    metric: str,
    group: Group | None = None,
    *,
    device: str = "cpu",
    multiply: Multiply | None = None,
) -> FeatureSource:
    """Return rows as a source: of unit length for "cosine", as stored for "euclidean".

    Parameters
    ----------
    rows : Embeddings
    metric : {"cosine", "euclidean"}
    group : Group, optional
        Which rows are this rank's. Rows by id are read from the file, also those of other ranks.
    device : str
        "cpu" gives NumPy arrays, any other device gives tensors there.
    multiply : callable, optional
        How NumPy arrays are multiplied (`products`); torch multiplies tensors.
    """
    group = alone(rows.n_samples) if group is None else group
    first = group.first_row

    def finish(block: Floats) -> Any:
        points = project_sphere(block) if metric == "cosine" and len(block) else block
        if device == "cpu":
            return points
        import torch

        return torch.from_numpy(points).to(device)

    source = FeatureSource(
        rows.n_features,
        lambda start, stop: finish(rows.rows(first + start, first + stop)),
        lambda ids: finish(rows.take(ids if isinstance(ids, np.ndarray) else ids.cpu().numpy())),
        group,
    )
    return source if multiply is None or device != "cpu" else source._replace(multiply=multiply)


def read_weights(path: Path, n: int) -> NDArray[np.float64]:
    """Read one weight per row, (n,) numbers of at least 0, as float64."""
    array = _load(path)
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "fiu" or array.shape != (n,):
        found = f"{array.dtype} {array.shape}" if isinstance(array, np.ndarray) else "an archive"
        msg = f"{path} must hold one real number for each of the {n} rows, got {found}"
        raise InvalidValueError(msg)
    weights: NDArray[np.float64] = check_weights(str(path), np.array(array, np.float64), n)
    return weights


def check_path(option: str, path: Path) -> None:
    """Refuse a path that names no file: no name, a NUL, or too long for the file system.

    Raises
    ------
    UsageError
    """
    text = str(path)
    why = f"got {text!r}, which names no file"
    if path.name:
        try:
            path.stat()
            return
        except (FileNotFoundError, NotADirectoryError):
            return
        except (OSError, ValueError) as error:  # a name too long or a loop of links; a NUL
            why = f"got {text[:60]!r}: {getattr(error, 'strerror', None) or error}"
    msg = f"{option} must be the path of a file or folder, {why}. To fix this, give another path"
    raise UsageError(msg)


def _load(path: Path) -> Any:
    if not path.is_file():
        msg = f"no file at {path}"
        raise MissingFileError(msg)
    try:
        return np.load(path, allow_pickle=False, mmap_mode="r")
    except (ValueError, OSError, EOFError) as error:
        msg = f"{path} is not a readable .npy file: {error}"
        raise InvalidValueError(msg) from error


def _summary(parts: list[NDArray[np.int64]]) -> tuple[int, int]:
    """Return the first row, or -1 if there is none, and the number of rows."""
    ids = np.concatenate([np.empty(0, np.int64), *parts])
    return (int(ids[0]) if len(ids) else -1), len(ids)


def _first(found: NDArray[np.int64]) -> int:
    return int(found[found[:, 1] > 0, 0][0])
