"""Readers of image files, by Pillow: a folder of them, and JPEG files packed into an .npz.

==============================  ===================================================================
folder                          what is read
==============================  ===================================================================
``*.png``, ``*.jpg``, ...       images without classes
``CLASS/*.png``, ...            the sub-folder is the class, for evaluation only
``train/...``, ``test/...``     splits, each as above; ``val`` counts as ``test``
==============================  ===================================================================

Images are brought to one size, as ``data.size`` and ``data.fit`` say (`crops.plain_cut`). They are
gray where all files are gray, else in color. A run that cuts its views out of whole pictures gets
the files instead, not decoded (`Split.files`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np

from ...algos.core.errors import InvalidTypeError, InvalidValueError, UsageError
from ..augment.crops import Cut, plain_cut
from .picture_files import cut_picture, is_gray, opened, picture_size, upright
from .splits import Array, File, Reading, Source, Split, damaged

__all__ = ["SUFFIXES", "all_gray", "image_folder", "jpeg_container"]

SUFFIXES = frozenset(
    {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm"}
)
_SPLITS = {"train": "train", "test": "test", "val": "test"}


def image_folder(folder: Path, reading: Reading) -> Source:
    """Read a folder of images; classes are sub-folders, where there are any.

    Raises
    ------
    UsageError
        If there is no image, there are images in the folder itself and in sub-folders, or sizes
        differ and ``data.size`` is 0.
    InvalidValueError
        If a file cannot be decoded.
    """
    _only_fine(reading)
    inner = {path.name for path in folder.iterdir() if path.is_dir()}
    if inner and inner <= set(_SPLITS) and "train" in inner:
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
    files = sorted(
        path
        for path in folder.rglob("*")
        if path.suffix.lower() in SUFFIXES
        and path.is_file()
        and not any(part.startswith(".") for part in path.relative_to(root).parts)
    )
    if not files:
        known = ", ".join(sorted(SUFFIXES))
        if (folder / "data_batch_1").is_file():
            msg = (
                f"{folder} holds the Python version of CIFAR-10, which is pickled and not read. "
                f"To fix this, name a folder of the binary version, cifar-10-batches-bin"
            )
            raise UsageError(msg)
        msg = f"{folder} holds no image. To fix: name a folder with files of {known}"
        raise UsageError(msg)
    classes = [path.relative_to(folder).parts[:-1] for path in files]
    flat = sum(not parts for parts in classes)
    if 0 < flat < len(files):
        msg = (
            f"{folder} holds {flat} images and sub-folders with {len(files) - flat} more. "
            f"To fix: move them into sub-folders of classes, or all into one folder"
        )
        raise UsageError(msg)
    labels = None if flat else np.array([parts[0] for parts in classes])
    names = tuple(path.relative_to(root).as_posix() for path in files)

    unread = partial(_listed, root, names)
    return Split(partial(_read, unread, reading), labels, names, unread)


def _listed(root: Path, names: Sequence[str]) -> list[File]:
    # Absolute: a run reads its files until its end, wherever it goes meanwhile.
    return [File(name, f"{root.absolute()}/{name}") for name in names]


def jpeg_container(path: Path, found: Sequence[str], reading: Reading) -> Source:
    """Read an .npz with ``train_jpeg`` and ``train_offsets``, likewise ``test_``.

    Image i is ``train_jpeg[train_offsets[i]:train_offsets[i + 1]]``, the bytes of one file.
    """
    _only_fine(reading)
    splits = {}
    with damaged(path), np.load(path, allow_pickle=False) as archive:
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
            unread = partial(_unpack, path, split, offsets)
            splits[split] = Split(partial(_read, unread, reading), labels, files=unread)
        titles = tuple(map(str, archive["class_names"])) if "class_names" in found else None
    return Source(splits, titles)


def _unpack(path: Path, split: str, offsets: Array) -> list[File]:
    with damaged(path), np.load(path, allow_pickle=False) as archive:
        content = archive[f"{split}_jpeg"]
    whole = 0 <= offsets[0] and bool((np.diff(offsets) > 0).all()) and offsets[-1] <= len(content)
    if content.dtype != np.uint8 or not whole:
        msg = (
            f"{split}_offsets of {path} must rise within the {len(content)} bytes of JPEG files. "
            f"To fix this, write where each file begins, and where the last one ends"
        )
        raise InvalidValueError(msg)
    packed = memoryview(content)
    return [File(f"{split}[{i}]", packed[a:b]) for i, (a, b) in enumerate(pairwise(offsets))]


def _read(files: Callable[[], list[File]], reading: Reading) -> Array:
    return _decode(files(), reading)


def all_gray(files: Sequence[File]) -> bool:
    """Whether no file has colors, by its head; the first one that has ends the search."""
    for file in files:
        with opened(file) as image:
            if not is_gray(image):
                return False
    return True


def _decode(files: Sequence[File], reading: Reading) -> Array:
    """Decode files to one (n, h, w, c) array, by a few threads."""
    size = reading.size
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        heads = list(pool.map(_head, files))
        gray = all(gray for gray, _ in heads)
        channels = 1 if gray else 3
        if not size:
            _check_one_size(files, [shape for _, shape in heads])
        width, height = (size, size) if size else heads[0][1]
        out = np.empty((len(files), height, width, channels), np.uint8)

        def plan(width: int, height: int) -> list[Cut]:
            return [plain_cut(width, height, size=size, fit=reading.fit)]

        def fill(i: int) -> None:
            if size:
                out[i] = cut_picture(files[i], plan, channels=channels)[0]
                return
            with opened(files[i]) as image:
                out[i] = np.asarray(upright(image, gray=gray)).reshape(height, width, channels)

        list(pool.map(fill, range(len(files))))
    return out


def _head(file: File) -> tuple[bool, tuple[int, int]]:
    with opened(file) as image:
        return is_gray(image), picture_size(image)


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
