"""One data set of an HDF5 file: read in place where it lies in one piece, else copied once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from ...algos.core.errors import DualclustError, InvalidTypeError
from ...common.untrusted import MOST_PACKED, packed_too_much
from .checks import (
    Array,
    check_ids,
    check_numbers,
    check_shape,
    listed,
    load_extra,
    pick_array,
    refuse,
    refuse_options,
)
from .plain import PlainRows, plain_rows
from .rows import BATCH_BYTES, Selection, Stream

__all__ = ["open_hdf5"]

AGAIN = "write or copy it again"

LARGEST_BATCH = 2**28
"""Bytes of rows that are read at once where a chunk has very many."""

DAMAGED = (OSError, RuntimeError, KeyError, ValueError, TypeError, OverflowError)
"""What h5py raises at damaged files."""


def open_hdf5(path: Path, selection: Selection) -> PlainRows | Stream:
    """Find the rows of one data set."""
    refuse_options(path, "an HDF5 file", selection, "array id")
    h5py = load_extra("h5py", "hdf5", path, "an HDF5 file")
    try:
        with h5py.File(path, "r") as file:
            return _open(path, file, selection, h5py)
    except DualclustError:
        raise
    except DAMAGED as error:
        _refuse_damaged_hdf5(path, error)


def _open(path: Path, file: Any, selection: Selection, h5py: Any) -> PlainRows | Stream:
    sets: dict[str, Any] = {}

    def visit(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset) and item.shape is not None:
            sets[name] = item

    file.visititems(visit)
    arrays = {name: Array(_words(item.dtype), item.shape) for name, item in sets.items()}
    own_id = None if selection.id is None else selection.id.strip("/")
    shown = {key: array for key, array in arrays.items() if key != own_id}
    key = pick_array(path, shown, selection.array.strip("/"), what="data set")
    found, name = sets[key], f"{path}:{key}"
    _check_type(name, found.dtype)
    check_shape(name, found.shape)
    n, d = found.shape
    ids = None
    if own_id is not None:
        pick_array(path, arrays, own_id, what="data set", option="--id")
        text = h5py.check_string_dtype(sets[own_id].dtype) is not None
        kind = np.dtype("U1") if text else sets[own_id].dtype
        check_ids(f"{path}:{own_id}", kind, sets[own_id].shape, n)

        def ids() -> Iterator[Any]:
            return _parts(path, own_id, 2**16, text=text)

    _check_own(path, name, found)
    offset = found.id.get_offset()
    if found.chunks is None and offset is not None and _lies_there(path, found, offset):
        return plain_rows(name, path, (n, d), found.dtype, offset=offset, ids=ids)
    chunk = found.chunks[0] if found.chunks else 1
    step = max(1, BATCH_BYTES // (d * found.dtype.itemsize))
    most = max(step, LARGEST_BATCH // (d * found.dtype.itemsize))
    step = min(-(-step // chunk) * chunk, most)  # whole chunks, so that none is unpacked twice
    return Stream(name, n, d, found.dtype, lambda: _parts(path, key, step), ids)


def _words(dtype: np.dtype[Any]) -> str:
    return "text or lists" if dtype.kind == "O" else str(dtype)


def _check_type(name: str, dtype: np.dtype[Any]) -> None:
    if dtype.kind == "O":
        rule = "Embeddings are real numbers, in rows of one length"
        fix = "write a data set of shape (n, d): file['X'] = np.stack(rows)"
        refuse(name, "holds text or lists of several lengths", rule, fix, InvalidTypeError)
    check_numbers(name, dtype)


def _check_own(path: Path, name: str, found: Any) -> None:
    """Refuse a data set whose numbers lie in other files, or that promises far more than is there.

    HDF5 lets a file name any other one as the place of its numbers: opening a stranger's file would
    then read files of the user's.
    """
    if found.external or found.is_virtual:
        others = [place[0] for place in found.external or ()]
        if found.is_virtual:
            others += [source.file_name for source in found.virtual_sources()]
        rule = "A data set must lie in the file that is named"
        fix = f"copy it into one: file.create_dataset('X', data=other[{found.name!r}][:])"
        refuse(name, f"takes its numbers from other files ({listed(others)})", rule, fix)
    promised, there = found.size * found.dtype.itemsize, path.stat().st_size
    if packed_too_much(promised, there):
        rule = f"Embeddings do not pack {MOST_PACKED} times: this may be made to fill the disk"
        what = f"promises {promised} bytes in a file of {there}"
        refuse(name, what, rule, "unpack it yourself and give the .npy file")


def _lies_there(path: Path, found: Any, offset: int) -> bool:
    """Return whether the first row lies where the library says, also behind a user's block."""
    size = found.dtype.itemsize * found.shape[1]
    with path.open("rb") as file:
        file.seek(offset)
        return file.read(size) == np.ascontiguousarray(found[:1]).tobytes()


def _parts(path: Path, key: str, step: int, *, text: bool = False) -> Iterator[NDArray[Any]]:
    import h5py

    try:
        with h5py.File(path, "r") as file:
            found = file[key].asstr() if text else file[key]
            for start in range(0, len(file[key]), step):
                yield np.asarray(found[start : start + step])
    except DAMAGED as error:
        _refuse_damaged_hdf5(path, error)


def _refuse_damaged_hdf5(path: Path, error: BaseException) -> NoReturn:
    reason = " ".join(str(error).split())[:160]
    rule = "An HDF5 file must be whole, and packed by a filter that h5py has"
    refuse(path, f"cannot be read ({reason})", rule, AGAIN)
