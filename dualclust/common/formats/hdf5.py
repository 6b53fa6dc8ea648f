"""One data set of an HDF5 file: read in place where it lies in one piece, else copied once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from ...algos.core.errors import DualclustError, InvalidTypeError
from ..untrusted import MOST_PACKED, packed_too_much
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
from .hdf5_sparse import entries_of, is_sparse, shape_of
from .plain import PlainRows, plain_rows
from .rows import BATCH_BYTES, Selection, Stream
from .sparse import Entries, sparse_stream

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
        inside = any(name.startswith(f"{other}/") for other in sets)
        if inside or name.startswith("#refs#"):  # of a sparse matrix, or of MATLAB's cells
            return
        if is_sparse(item) or (isinstance(item, h5py.Dataset) and item.shape is not None):
            sets[name] = item

    file.visititems(visit)
    arrays = {name: _array(item) for name, item in sets.items()}
    own_id = None if selection.id is None else selection.id.strip("/")
    beside = (own_id, *(name.strip("/") for name in selection.besides))
    wanted = selection.array.strip("/")
    key, part = pick_array(path, arrays, wanted, beside=beside, what="data set")
    found, name = sets[key], f"{path}:{key}"
    shape = arrays[key].shape
    if not is_sparse(found):
        _check_type(name, found.dtype, arrays[key].dtype)
    check_shape(name, shape)
    n, d = shape
    ids = None
    if own_id is not None:
        _ = pick_array(path, arrays, own_id, what="data set", option="--id")
        text = h5py.check_string_dtype(sets[own_id].dtype) is not None
        kind = np.dtype("U1") if text else sets[own_id].dtype
        turned, own_shape = _is_turned(sets[own_id]), arrays[own_id].shape
        flat = own_shape[:1] if turned and own_shape[1:] == (1,) else own_shape
        check_ids(f"{path}:{own_id}", kind, flat, n)

        def ids() -> Iterator[Any]:
            parts = _parts(path, own_id, 2**16, text=text, turned=turned)
            return (part.reshape(-1) for part in parts)

    if is_sparse(found):
        for own in found.values():
            _check_own(path, name, own)
        stored = found["data"].dtype
        return sparse_stream(name, shape, stored, lambda: _entries(path, key), ids=ids, part=part)
    _check_own(path, name, found)
    turned = _is_turned(found)
    offset = found.id.get_offset()
    if found.chunks is None and offset is not None and _lies_there(path, found, offset):
        return plain_rows(
            name, path, (n, d), found.dtype, offset=offset, by_columns=turned, ids=ids, part=part
        )
    chunk = found.chunks[int(turned)] if found.chunks else 1
    step = max(1, BATCH_BYTES // (d * found.dtype.itemsize))
    most = max(step, LARGEST_BATCH // (d * found.dtype.itemsize))
    step = min(-(-step // chunk) * chunk, most)  # whole chunks, so that none is unpacked twice
    return Stream(
        name, n, d, found.dtype, lambda: _parts(path, key, step, turned=turned), ids, part
    )


TURNED = "MATLAB_class"
"""Attribute of MATLAB's data sets, whose axes come in the reverse order."""


def _is_turned(item: Any) -> bool:
    """Return whether a data set holds the columns of a matrix: MATLAB's -v7.3, Octave's -hdf5."""
    return TURNED in item.attrs or "OCTAVE_NEW_FORMAT" in item.parent.attrs


def _array(item: Any) -> Array:
    """Return type and shape of a data set, or of a sparse matrix, as its user knows them."""
    if is_sparse(item):
        return Array(f"sparse {item['data'].dtype}", shape_of(item))
    kind = item.attrs.get(TURNED, b"")
    text = item.dtype.kind == "O" or kind in (b"char", b"cell", "char", "cell")
    shape = item.shape[::-1] if _is_turned(item) else item.shape
    return Array("text or lists" if text else str(item.dtype), shape)


def _entries(path: Path, key: str) -> Entries:
    import h5py

    try:
        with h5py.File(path, "r") as file:
            return entries_of(file[key])
    except DAMAGED as error:
        _refuse_damaged_hdf5(path, error)


def _check_type(name: str, dtype: np.dtype[Any], words: str) -> None:
    if words == "text or lists":
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


def _parts(
    path: Path, key: str, step: int, *, text: bool = False, turned: bool = False
) -> Iterator[NDArray[Any]]:
    import h5py

    try:
        with h5py.File(path, "r") as file:
            found = file[key].asstr() if text else file[key]
            for start in range(0, file[key].shape[-1 if turned else 0], step):
                some = slice(start, start + step)
                yield np.asarray(found[..., some].T if turned else found[some])
    except DAMAGED as error:
        _refuse_damaged_hdf5(path, error)


def _refuse_damaged_hdf5(path: Path, error: BaseException) -> NoReturn:
    reason = " ".join(str(error).split())[:160]
    rule = "An HDF5 file must be whole, and packed by a filter that h5py has"
    refuse(path, f"cannot be read ({reason})", rule, AGAIN)
