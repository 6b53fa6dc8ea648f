"""Readers of image files, by Pillow: a folder of them, and JPEG files packed into an .npz.

==============================  ===================================================================
folder                          what is read
==============================  ===================================================================
``*.png``, ``DAY/*.jpg``, ...   images, wherever they lie; their paths are their names
``CLASS/*.png``, ...            with ``data.folders = "classes"``, the sub-folder is the class
``train/...``, ``test/...``     splits, each as above; ``val`` counts as ``test``
==============================  ===================================================================

Images are brought to one size, as ``data.size`` and ``data.fit`` say (`crops.plain_cut`). They are
gray where all files are gray, else in color. A run that cuts its views out of whole pictures gets
the files instead, not decoded (`Split.files`). `folders` finds them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np

from ...algos.core.errors import InvalidTypeError, InvalidValueError, UsageError
from ...common.array_headers import PARSING
from ..augment.crops import Cut, plain_cut
from .folders import SUFFIXES, find_pictures, visible
from .picture_files import cut_picture, is_gray, opened, picture_size, upright
from .splits import Array, Copy, File, Reading, Skipped, Source, Split, damaged

__all__ = [
    "Decoded",
    "all_gray",
    "decode_files",
    "head_of",
    "image_folder",
    "jpeg_container",
    "parted",
    "tried",
]

_SPLITS = {"train": "train", "test": "test", "val": "test"}


def image_folder(folder: Path, reading: Reading) -> Source:
    """Read a folder of images; classes are sub-folders, if the settings say so.

    Raises
    ------
    UsageError
        If there is no image, or images that lie beside sub-folders of classes.
    """
    _only_fine(reading)
    shown = [path for path in folder.iterdir() if visible(path.name)]
    inner = {path.name for path in shown if path.is_dir()}
    beside = any(path.suffix.lower() in SUFFIXES for path in shown)
    if inner and inner <= set(_SPLITS) and "train" in inner and not beside:
        if {"test", "val"} <= inner:
            msg = (
                f"{folder} has both test/ and val/, and one of them can be the test split. "
                f"To fix this, name a folder with one of them"
            )
            raise UsageError(msg)
        names = sorted(inner)
        return Source({_SPLITS[n]: _folder_split(folder / n, folder, reading) for n in names})
    return Source({"all": _folder_split(folder, folder, reading)})


def _folder_split(folder: Path, root: Path, reading: Reading) -> Split:
    found = find_pictures(folder, root)
    if not found.names:
        _refuse_empty(folder)
    flat = sum(len(parts) == 1 for parts in found.names)
    labels = None
    if reading.folders == "classes" and flat < len(found.names):
        if flat:
            msg = (
                f"{folder} holds {flat} images beside sub-folders with {len(found.names) - flat} "
                f"more, so that sub-folders cannot be classes. To fix this, leave out --classes "
                f"(data.folders='names'), or move them into sub-folders"
            )
            raise UsageError(msg)
        labels = np.array([parts[0] for parts in found.names])
    above = folder.relative_to(root).parts
    names = tuple("/".join((*above, *parts)) for parts in found.names)
    files = partial(_listed, root, names, reading.max_pixels)
    n = (len(names),)
    return Split(partial(_read, files, reading), labels, names, files, found.unread, n)


def _refuse_empty(folder: Path) -> NoReturn:
    if (folder / "data_batch_1").is_file():
        msg = (
            f"{folder} holds the Python version of CIFAR-10, which is pickled and not read. "
            f"To fix this, name a folder of the binary version, cifar-10-batches-bin"
        )
        raise UsageError(msg)
    known = ", ".join(sorted(SUFFIXES))
    msg = f"{folder} holds no image. To fix: name a folder with files of {known}"
    raise UsageError(msg)


def _listed(root: Path, names: Sequence[str], max_pixels: int) -> list[File]:
    # Absolute: a run reads its files until its end, wherever it goes meanwhile.
    return [File(name, f"{root.absolute()}/{name}", max_pixels) for name in names]


def jpeg_container(path: Path, found: Sequence[str], reading: Reading) -> Source:
    """Read an .npz with ``train_jpeg`` and ``train_offsets``, likewise ``test_``.

    Image i is ``train_jpeg[train_offsets[i]:train_offsets[i + 1]]``, the bytes of one file.
    """
    splits = {}
    with damaged(path), PARSING, np.load(path, allow_pickle=False) as archive:
        for split in ("train", "test"):
            if f"{split}_jpeg" not in found:
                continue
            if f"{split}_offsets" not in found:
                msg = (
                    f"{path} holds '{split}_jpeg' without '{split}_offsets'. "
                    f"To fix this, write where each file begins, and where the last one ends"
                )
                raise UsageError(msg)
            offsets = archive[f"{split}_offsets"]
            if offsets.dtype.kind not in "iu" or offsets.ndim != 1 or len(offsets) < 2:
                msg = (
                    f"{split}_offsets of {path} must be n + 1 integers, got {offsets.shape}. "
                    f"To fix this, write where each file begins, and where the last one ends"
                )
                raise InvalidTypeError(msg)
            offsets = offsets.astype(np.int64)  # differences of unsigned numbers are never negative
            named = f"{split}_labels" in found
            labels = archive[f"{split}_labels"] if named else None
            unread = partial(_unpack, path, split, offsets, reading.max_pixels)
            read, n = partial(_read, unread, reading), (len(offsets) - 1,)
            splits[split] = Split(read, labels, files=unread, shape=n)
        titles = tuple(map(str, archive["class_names"])) if "class_names" in found else None
    return Source(splits, titles)


def _unpack(path: Path, split: str, offsets: Array, max_pixels: int) -> list[File]:
    with damaged(path), PARSING, np.load(path, allow_pickle=False) as archive:
        content = archive[f"{split}_jpeg"]
    whole = 0 <= offsets[0] and bool((np.diff(offsets) > 0).all()) and offsets[-1] <= len(content)
    if content.dtype != np.uint8 or not whole:
        msg = (
            f"{split}_offsets of {path} must rise within the {len(content)} bytes of JPEG files. "
            f"To fix this, write where each file begins, and where the last one ends"
        )
        raise InvalidValueError(msg)
    packed = memoryview(content)
    ends = enumerate(pairwise(offsets))
    return [File(f"{split}[{i}]", packed[a:b], max_pixels) for i, (a, b) in ends]


def _read(files: Callable[[], list[File]], reading: Reading) -> Array:
    return decode_files(files(), reading).images


def all_gray(files: Sequence[File]) -> bool:
    """Whether no file has colors, by its head; the first one that has ends the search."""
    for file in files:
        if isinstance(file.content, Copy):
            return file.content.pixels.ndim == 2  # as all others
        if not head_of(file)[0]:
            return False
    return True


class Decoded(NamedTuple):
    """Images that could be decoded: (m, h, w, c) uint8, their positions, and what was left out."""

    images: Array
    positions: Array
    skipped: tuple[Skipped, ...]


def decode_files(files: Sequence[File], reading: Reading, *, skip: bool = False) -> Decoded:
    """Decode files to squares of one array, by a few threads.

    Parameters
    ----------
    files : sequence of File
    reading : Reading. Its `size` and `fit` say what is kept of a picture.
    skip : bool. Whether files that cannot be decoded are left out.

    Raises
    ------
    InvalidValueError
        If a file cannot be decoded and `skip` is False, or none can.
    UsageError
        If sizes differ and ``data.size`` is 0.
    """
    size = reading.size
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:

        def each(function: Callable[[int], Any], rows: Sequence[int]) -> dict[int, Any]:
            return dict(zip(rows, pool.map(partial(tried, function, skip), rows), strict=True))

        heads = each(lambda i: head_of(files[i], exact=not size), range(len(files)))
        opens, _ = parted(files, heads)
        channels = 1 if all(heads[i][0] for i in opens) else 3
        if not size:
            _check_one_size([files[i] for i in opens], [heads[i][1] for i in opens])
        width, height = (size, size) if size else heads[opens[0]][1]
        out = np.empty((len(opens), height, width, channels), np.uint8)
        row = {i: place for place, i in enumerate(opens)}

        def plan(width: int, height: int) -> list[Cut]:
            return [plain_cut(width, height, size=size, fit=reading.fit)]

        def fill(i: int) -> None:
            if size:
                out[row[i]] = cut_picture(files[i], plan, channels=channels)[0]
                return
            with opened(files[i]) as image:
                pixels = np.asarray(upright(image, gray=channels == 1))
                out[row[i]] = pixels.reshape(height, width, channels)

        kept, skipped = parted(files, heads | each(fill, opens))
    images = out if len(kept) == len(opens) else out[[row[i] for i in kept]]
    return Decoded(images, np.array(kept), skipped)


def parted(
    files: Sequence[File], found: Mapping[int, Any]
) -> tuple[list[int], tuple[Skipped, ...]]:
    """Part what was found in files, by their positions, into those that went well and errors.

    Raises
    ------
    InvalidValueError
        If there are errors alone.
    """
    wrong = {i: x for i, x in sorted(found.items()) if isinstance(x, InvalidValueError)}
    if len(wrong) == len(files):
        msg = f"none of {len(files)} pictures can be read; the first one: {wrong[0]}"
        raise InvalidValueError(msg)
    kept = [i for i in sorted(found) if i not in wrong]
    return kept, tuple(Skipped(files[i].name, str(error)) for i, error in wrong.items())


def tried(function: Callable[[int], Any], skip: bool, i: int) -> Any:
    """Return what a function returns, or its error where that is to be skipped."""
    try:
        return function(i)
    except InvalidValueError as error:
        if not skip:
            raise
        return error


def head_of(file: File, *, exact: bool = False) -> tuple[bool, tuple[int, int]]:
    """Whether a picture has no colors, and its width and height, as `picture_size` has them."""
    with opened(file) as image:
        return is_gray(image), picture_size(image, exact=exact)


def _check_one_size(files: Sequence[File], shapes: Sequence[tuple[int, int]]) -> None:
    for file, shape in zip(files, shapes, strict=True):
        if shape != shapes[0]:
            a, b = (f"{w} × {h}" for w, h in (shapes[0], shape))
            msg = (
                f"images have different sizes: {files[0].name} is {a}, {file.name} is {b}. "
                f"To fix: set data.size, the side that all are brought to"
            )
            raise UsageError(msg)


def _only_fine(reading: Reading) -> None:
    if reading.classes != "fine":
        msg = (
            f"data.classes={reading.classes!r} is for CIFAR-100, and the source is image files. "
            f"To fix: set data.classes='fine'"
        )
        raise UsageError(msg)
