"""An ``.npz`` archive: read in place where it is not packed, unpacked once where it is."""

from __future__ import annotations

import lzma
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

import numpy as np
from numpy.typing import NDArray

from ...algos.core.errors import DualclustError
from .checks import Array, check_ids, check_numbers, check_shape, pick_array, refuse, refuse_options
from .npy import Header, read_header
from .plain import OpenFile, PlainRows, plain_rows
from .rows import BATCH_BYTES, Ids, Selection, Stream, computed_dtype

__all__ = ["open_npz"]

MOST_PACKED = 250
"""An array that becomes this many times as large is no data: noise packs to nine tenths."""

SMALL = 2**26
"""Bytes of an array whose packing does not matter."""

PACKING = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError)
BROKEN = (*PACKING, OSError, RuntimeError, ValueError)
"""What a damaged archive, or one with a password, raises."""


def open_npz(path: Path, selection: Selection) -> PlainRows | Stream:
    """Find the rows of one array of an archive."""
    refuse_options(path, "an .npz archive", selection, "array id")
    with zipfile.ZipFile(path) as archive:
        infos = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
        headers = {key: _header(archive, info, path) for key, info in infos.items()}
    arrays = {key: Array(str(h.dtype), h.shape) for key, h in headers.items()}
    shown = (
        arrays if selection.id is None else {k: v for k, v in arrays.items() if k != selection.id}
    )
    key = pick_array(path, shown, selection.array)
    name, info, header = f"{path}:{key}", infos[key], headers[key]
    check_numbers(name, header.dtype)
    check_shape(name, header.shape)
    if info.file_size != header.n_bytes:
        found = f"has a header for {header.n_bytes} bytes in an entry of {info.file_size} bytes"
        rule = "An entry of an archive must be as long as its array"
        refuse(name, found, rule, "write the archive again with np.savez")
    ids = None
    if selection.id is not None:
        ids = _ids(path, infos, headers, selection.id, header.shape[0])
    n, d = header.shape
    if info.compress_type == zipfile.ZIP_STORED:
        offset = _data_offset(path, info) + header.length
        by_columns = header.by_columns
        return plain_rows(
            name, path, (n, d), header.dtype, offset=offset, by_columns=by_columns, ids=ids
        )
    if info.file_size > SMALL and info.file_size > MOST_PACKED * info.compress_size:
        found = f"promises {info.file_size} bytes packed into {info.compress_size}"
        rule = f"Embeddings do not pack {MOST_PACKED} times: this may be made to fill the disk"
        refuse(name, found, rule, "unpack it yourself and give the .npy file")

    def batches() -> Iterator[NDArray[Any]]:
        return _unpacked(path, info, header)

    return Stream(name, n, d, header.dtype, batches, ids)


def _header(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: Path) -> Header:
    name = f"{path}:{info.filename.removesuffix('.npy')}"
    rule = "Its arrays must be readable without a password"
    if info.flag_bits & 1:
        refuse(name, "is locked by a password", rule, "write the archive again with np.savez")
    try:
        with archive.open(info) as file:
            return read_header(file, name)  # type: ignore[arg-type]
    except DualclustError:
        raise
    except BROKEN as error:
        _refuse_damaged_archive(name, error)


def _data_offset(path: Path, info: zipfile.ZipInfo) -> int:
    """Return where the content of an entry begins: after a header with two texts."""
    with path.open("rb") as file:
        file.seek(info.header_offset + 26)
        lengths = file.read(4)
    two = int.from_bytes(lengths[:2], "little") + int.from_bytes(lengths[2:], "little")
    return info.header_offset + 30 + two


def _ids(
    path: Path, infos: dict[str, zipfile.ZipInfo], headers: dict[str, Header], key: str, n: int
) -> Ids:
    arrays = {name: Array(str(header.dtype), header.shape) for name, header in headers.items()}
    pick_array(path, arrays, key, option="--id")
    check_ids(f"{path}:{key}", headers[key].dtype, headers[key].shape, n)

    def ids() -> Iterator[NDArray[Any]]:
        return _unpacked(path, infos[key], headers[key])

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
                    _refuse_damaged_archive(name, EOFError("the end is missing"))
                part = np.frombuffer(content, header.dtype)
                yield part.reshape(m, *header.shape[1:])
            file.read(1)  # the sum of all bytes is compared at the end
    except DualclustError:
        raise
    except BROKEN as error:
        _refuse_damaged_archive(name, error)


def _turned(name: str, file: BinaryIO, header: Header) -> Iterator[NDArray[Any]]:
    """Yield the rows of columns that come one after the other: they are laid down first."""
    n, d = header.shape
    with tempfile.TemporaryFile() as copy:
        shutil.copyfileobj(file, copy, BATCH_BYTES)
        copy.flush()
        stored = header.dtype
        if copy.tell() != n * d * stored.itemsize:
            _refuse_damaged_archive(name, EOFError("the end is missing"))
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


def _refuse_damaged_archive(name: str, error: BaseException) -> NoReturn:
    rule = "An archive must be whole, and packed by a method that Python reads"
    refuse(name, f"cannot be unpacked ({error})", rule, "write or copy the archive again")
