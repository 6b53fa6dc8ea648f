"""An ``.npz`` archive: read in place where it is not packed, unpacked once where it is."""

from __future__ import annotations

import math
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, load_npz

from ...algos.core.errors import DualclustError
from ..array_headers import (
    BROKEN,
    PARSING,
    Header,
    archive_headers,
    check_entry,
    content_offset,
    refuse_archive,
)
from .checks import Array, check_ids, check_numbers, check_shape, pick_array, refuse, refuse_options
from .kinds import kind_of
from .plain import OpenFile, PlainRows, plain_rows
from .rows import BATCH_BYTES, Ids, Part, Selection, Stream, computed_dtype
from .sparse import FEW_BYTES, Entries, along, sparse_stream

__all__ = ["open_npz", "wide_sparse_matrix"]


SPARSE = {"data", "shape", "format"}
"""Entries of every archive of `scipy.sparse.save_npz`."""


def open_npz(path: Path, selection: Selection) -> PlainRows | Stream:
    """Find the rows of one array of an archive, or of the sparse matrix that scipy saves so."""
    refuse_options(path, "an .npz archive", selection, "array id")
    entries = archive_headers(path)
    if entries.keys() >= SPARSE and not selection.array:
        return _open_sparse(path, entries)
    arrays = {key: Array(str(h.dtype), h.shape) for key, (_, h) in entries.items()}
    beside = (selection.id, *selection.besides)
    key, part = pick_array(path, arrays, selection.array, beside=beside)
    name, (info, header) = f"{path}:{key}", entries[key]
    check_numbers(name, header.dtype)
    check_shape(name, header.shape)
    check_entry(name, info, header)
    ids = None
    if selection.id is not None:
        ids = _ids(path, entries, selection.id, arrays, header.shape[0])
    n, d = header.shape
    if info.compress_type == zipfile.ZIP_STORED:
        with path.open("rb") as file:
            offset = content_offset(file, info) + header.length
        by_columns = header.by_columns
        return plain_rows(
            name,
            path,
            (n, d),
            header.dtype,
            offset=offset,
            by_columns=by_columns,
            ids=ids,
            part=part,
        )

    def batches() -> Iterator[NDArray[Any]]:
        return _unpacked(path, info, header)

    return Stream(name, n, d, header.dtype, batches, ids, part)


def wide_sparse_matrix(path: Path) -> Any:
    """Return a matrix of `scipy.sparse.save_npz` that is too large to be laid out with its zeros.

    Returns
    -------
    csr_array or None
        Of float32 or float64. None for all other files, and for one that is small enough.

    Raises
    ------
    InvalidTypeError, InvalidValueError
        For a damaged one, and for entries that are no finite real numbers.
    """
    if not path.is_file() or kind_of(path).key != "npz":
        return None
    entries = archive_headers(path)
    if not entries.keys() >= SPARSE or entries["shape"][1].shape != (2,):
        return None
    for key, (info, header) in entries.items():
        check_entry(f"{path}:{key}", info, header)
    stored = entries["data"][1].dtype
    check_numbers(str(path), stored)
    try:
        with PARSING, np.load(path, allow_pickle=False) as archive:
            shape = archive["shape"].tolist()
        dtype = computed_dtype(stored)
        if math.prod(shape) * dtype.itemsize <= FEW_BYTES:
            return None
        with PARSING:
            matrix = load_npz(path)
        matrix = csr_array(matrix).astype(dtype)
        matrix.check_format(full_check=True)
    except (*BROKEN, MemoryError) as error:
        refuse_archive(path, error)
    if not np.isfinite(matrix.data).all():
        rule = "Embeddings are finite numbers"
        refuse(path, "holds NaN or infinity", rule, "look at the program that wrote it")
    return matrix


def _open_sparse(path: Path, entries: dict[str, tuple[zipfile.ZipInfo, Header]]) -> Stream:
    for key, (info, header) in entries.items():
        check_entry(f"{path}:{key}", info, header)

    def read(key: str) -> NDArray[Any]:
        try:
            with PARSING, np.load(path, allow_pickle=False) as archive:
                array: NDArray[Any] = archive[key]
            return array
        except BROKEN as error:
            refuse_archive(f"{path}:{key}", error)

    form, shape = str(np.char.decode(read("format"))), tuple(read("shape").tolist())

    def found() -> Entries:
        if form == "coo":
            return Entries(read("row"), read("col"), read("data"))
        lines, others = along(read("indptr")), read("indices")
        rows, columns = (lines, others) if form == "csr" else (others, lines)
        return Entries(rows, columns, read("data"))

    if form not in ("csr", "csc", "coo"):
        rule = "Sparse matrices are read from the forms csr, csc and coo"
        refuse(path, f"is a sparse matrix of the form {form}", rule, "save x.tocsr()")
    part = Part(f"sparse matrix ({form})")
    return sparse_stream(str(path), shape, entries["data"][1].dtype, found, ids=None, part=part)


def _ids(
    path: Path,
    entries: dict[str, tuple[zipfile.ZipInfo, Header]],
    key: str,
    arrays: dict[str, Array],
    n: int,
) -> Ids:
    _ = pick_array(path, arrays, key, option="--id")
    info, header = entries[key]
    check_ids(f"{path}:{key}", header.dtype, header.shape, n)
    check_entry(f"{path}:{key}", info, header)

    def ids() -> Iterator[NDArray[Any]]:
        return _unpacked(path, info, header)

    return ids


def _unpacked(path: Path, info: zipfile.ZipInfo, header: Header) -> Iterator[NDArray[Any]]:
    """Yield the rows of an entry, some at a time."""
    name = f"{path}:{info.filename.removesuffix('.npy')}"
    shape = (*header.shape, 1)[:2]
    try:
        with zipfile.ZipFile(path) as archive, archive.open(info) as file:
            file.read(header.length)
            if header.by_columns:
                yield from _turned(name, file, header)  # type: ignore[arg-type]
                return
            size = max(1, shape[1] * header.dtype.itemsize)
            for start in range(0, shape[0], step := max(1, BATCH_BYTES // size)):
                m = min(step, shape[0] - start)
                content = file.read(m * size)
                if len(content) < m * size:
                    refuse_archive(name, EOFError("the end is missing"))
                part = np.frombuffer(content, header.dtype)
                yield part.reshape(m, *header.shape[1:])
            file.read(1)  # the sum of all bytes is compared at the end
    except DualclustError:
        raise
    except BROKEN as error:
        refuse_archive(name, error)


def _turned(name: str, file: BinaryIO, header: Header) -> Iterator[NDArray[Any]]:
    """Yield the rows of columns that come one after the other: they are laid down first."""
    n, d = header.shape
    with tempfile.TemporaryFile() as copy:
        shutil.copyfileobj(file, copy, BATCH_BYTES)
        copy.flush()
        stored = header.dtype
        if copy.tell() != n * d * stored.itemsize:
            refuse_archive(name, EOFError("the end is missing"))
        rows = PlainRows(
            name,
            OpenFile(copy),
            n,
            d,
            stored,
            computed_dtype(stored),
            by_columns=True,
        )
        for start in range(0, n, step := max(1, BATCH_BYTES // (d * stored.itemsize))):
            yield rows.rows(start, min(n, start + step))
