"""Where samples come from: a built-in set, files of arrays, known archives, folders of images."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from glob import has_magic
from pathlib import Path

import numpy as np

from ...algos.core.checks import choice_fix
from ...algos.core.errors import MissingFileError, UsageError
from ...common.array_headers import PARSING, archive_headers, check_array_file, read_header
from ...common.formats import SUFFIXES, file_of
from ...common.formats.unpacked import suffix_of
from .archives import archive_reader
from .arrays import check_row_shape
from .folders import SUFFIXES as PICTURES
from .folders import visible
from .image_files import image_folder, jpeg_container
from .row_files import labels_beside, row_source, rows_of
from .splits import Array, Reading, Source, Split, damaged

__all__ = ["BUILT_IN", "SPLITS", "SUPPORTED", "choose", "read_source", "stay_whole"]

# What may be asked for, and the splits that it is put together from.
SPLITS = {
    "train": ("train",),
    "test": ("test",),
    "unlabeled": ("unlabeled",),
    "train+unlabeled": ("train", "unlabeled"),
    "all": ("train", "test"),
}
SUPPORTED = (
    "To fix this, name one of these sources: 'digits'; an .npz file with 'images' (uint8) and "
    "optional 'labels', or "
    "with 'train_images' and 'test_images', or with JPEG files ('train_jpeg', 'train_offsets'); "
    "embeddings (n, d) in any file that 'dualclust cluster' reads, or a folder of such files; a "
    "folder of images, with or without sub-folders of "
    "classes; a folder with the binary files of CIFAR-10, CIFAR-100, STL-10 or MNIST"
)


def read_source(source: str | Path, reading: Reading) -> Source:
    """Look at a source and say what splits it has; see `SUPPORTED`.

    Raises
    ------
    MissingFileError
        If `source` is neither a known name nor an existing path.
    UsageError
        If the kind of source is not supported, or has not what the settings ask for.
    InvalidTypeError, InvalidValueError
        If a file is damaged, or an array has the wrong type or shape.
    """
    path = Path(source)
    built_in = BUILT_IN.get(str(source))
    if has_magic(str(source)) and not path.exists():
        return row_source(path)  # files of a pattern
    if built_in is None and not file_of(path).exists():
        msg = f"no data at {str(path)!r}. {SUPPORTED}"
        raise MissingFileError(msg)
    if built_in is None and path.is_dir():
        if (reader := archive_reader(path)) is not None:
            return reader(reading)
        return row_source(path) if _is_of_shards(path) else image_folder(path, reading)
    if reading.classes != "fine":
        msg = (
            f"data.classes={reading.classes!r} is for a folder of CIFAR-100, got {str(source)!r}. "
            f"To fix: set data.classes='fine'"
        )
        raise UsageError(msg)
    if built_in is not None:
        return built_in()
    if path.suffix.lower() == ".npy":
        return _embeddings(path, mapped=reading.mapped)
    if path.suffix.lower() == ".npz":
        found = _names(path)
        if any(name.endswith("_jpeg") for name in found):
            return jpeg_container(path, found, reading)
        if any(name.endswith("images") for name in found):
            return _images(path, found)
    if suffix_of(path) in SUFFIXES or not path.exists():
        return row_source(path)
    msg = f"cannot read {path}, which is of another kind. {SUPPORTED}"
    raise UsageError(msg)


def choose(found: Source, split: str, source: str | Path) -> list[Split]:
    """Return the splits that are asked for; ``"auto"``: the training images, or all there are.

    Raises
    ------
    UsageError
        If `split` is no known name, or the source does not have it.
    """
    if split not in (*SPLITS, "auto"):
        known = ", ".join(map(repr, ("auto", *SPLITS)))
        fix = choice_fix(split, ("auto", *SPLITS))
        msg = f"split must be one of {known}, got {split!r}. To fix this, {fix}"
        raise UsageError(msg)
    if "all" in found.splits:
        if split not in ("auto", "all"):
            msg = (
                f"source {str(source)!r} is not split into train and test, got split={split!r}. "
                f"To fix this, leave data.split at 'auto'"
            )
            raise UsageError(msg)
        return [found.splits["all"]]
    parts = SPLITS["train" if split == "auto" else split]
    for part in parts:
        if part not in found.splits:
            known = ", ".join(found.splits)
            msg = (
                f"source {str(source)!r} has no split {part!r}; it has {known}. "
                f"To fix this, set data.split to one of these, or to 'auto'"
            )
            raise UsageError(msg)
    return [found.splits[part] for part in parts]


def stay_whole(parts: list[Split], decode: str, size: int, source: str | Path) -> bool:
    """Whether pictures stay in their files, to be decoded for each view; see `data.load_source`.

    Raises
    ------
    UsageError
        If `decode` is ``"views"`` or ``"copies"`` and there are no picture files, or no size of a
        view.
    """
    if decode == "once":
        return False
    able = size > 0 and all(part.files is not None for part in parts)
    if decode in ("views", "copies") and not able:
        what = "data.size is 0" if size == 0 else f"{source} holds no picture files"
        msg = (
            f"data.decode={decode!r} cuts views of data.size pixels out of picture files, and "
            f"{what}. To fix: set data.size, or set data.decode='once'"
        )
        raise UsageError(msg)
    return able


def _digits() -> Source:
    from sklearn.datasets import load_digits

    bunch = load_digits()

    def read() -> Array:
        # Ink runs from 0 to 16 there.
        pixels: Array = np.rint(bunch.images * (255 / 16)).astype(np.uint8)
        return pixels

    split = Split(read, bunch.target, shape=bunch.images.shape)
    return Source({"all": split}, tuple("0123456789"))


BUILT_IN: dict[str, Callable[[], Source]] = {"digits": _digits}
"""Sets that come with an installed package, by the name that `read_source` takes."""


def _names(path: Path) -> list[str]:
    # Pickled objects stay shut, here and below: a data file must not be able to run code.
    with damaged(path):
        return check_array_file(path)


def _images(path: Path, found: list[str]) -> Source:
    prefixes = {"train": "train_", "test": "test_"}
    if "images" in found:
        prefixes = {"all": ""}
    splits, headers = {}, archive_headers(path)
    for split, prefix in prefixes.items():
        if (name := f"{prefix}images") in found:
            labels = _read(path, f"{prefix}labels") if f"{prefix}labels" in found else None
            shape = headers[name][1].shape
            splits[split] = Split(partial(_read, path, name), labels, shape=shape)
    if not splits:
        some = ", ".join(map(repr, found[:8])) + ", ..." * (len(found) > 8)
        msg = f"{path} holds {some}, and no images by a known name. {SUPPORTED}"
        raise UsageError(msg)
    names = _read(path, "class_names") if "class_names" in found else None
    return Source(splits, None if names is None else tuple(map(str, names)))


def _read(path: Path, name: str) -> Array:
    with damaged(path), path.open("rb") as file:
        with PARSING, np.load(file, allow_pickle=False) as archive:
            array: Array = archive[name]
        return array


def _embeddings(path: Path, *, mapped: bool) -> Source:
    def read() -> Array:
        with damaged(path):
            check_array_file(path)
            with PARSING:
                array: Array = np.load(path, mmap_mode="c" if mapped else None, allow_pickle=False)
        if array.dtype.isnative and array.dtype != np.bool_:
            return array
        return rows_of(path)

    with damaged(path), path.open("rb") as file:
        shape = read_header(file, path).shape
    check_row_shape(shape, f"{path}: ")
    return Source({"all": Split(read, labels_beside(path), shape=shape)}, rows=True)


def _is_of_shards(folder: Path) -> bool:
    """Whether a folder holds embeddings, and neither pictures nor folders."""
    shown = [path for path in folder.iterdir() if visible(path.name)]
    pictures = any(path.is_dir() or path.suffix.lower() in PICTURES for path in shown)
    return not pictures and any(suffix_of(path) in SUFFIXES for path in shown)
