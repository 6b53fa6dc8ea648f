"""Readers of image files, by Pillow: a folder of them, and JPEG files packed into an .npz.

==============================  ===================================================================
folder                          what is read
==============================  ===================================================================
``*.png``, ``*.jpg``, ...       images without classes
``CLASS/*.png``, ...            the sub-folder is the class, to judge the clusters
``train/...``, ``test/...``     splits, each as above; ``val`` counts as ``test``
==============================  ===================================================================

Images are brought to one size: the shorter side by bicubic resampling with antialias, then the
middle is cut out. They are gray where all files are gray, else in color; transparency is dropped,
and a camera's note on orientation is obeyed.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

from ..algos.errors import DualclustError, InvalidTypeError, InvalidValueError, UsageError
from .splits import Array, Reading, Source, Split, damaged

__all__ = ["SUFFIXES", "image_folder", "jpeg_container"]

SUFFIXES = frozenset(
    {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm"}
)
_GRAY = frozenset({"1", "L", "LA"})
_ORIENTATION = 0x0112  # of EXIF
_SPLITS = {"train": "train", "test": "test", "val": "test"}


def image_folder(folder: Path, reading: Reading) -> Source:
    """Read a folder of images; classes are sub-folders, where there are any.

    Raises
    ------
    UsageError
        If there is no image, images stand both beside and inside sub-folders, or sizes differ and
        ``data.size`` is 0.
    InvalidValueError
        If a file cannot be decoded.
    """
    _only_fine(reading)
    inner = {path.name for path in folder.iterdir() if path.is_dir()}
    if inner and inner <= set(_SPLITS) and "train" in inner:
        if {"test", "val"} <= inner:
            msg = f"{folder} has both test/ and val/, and one of them can be the test split"
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
        msg = f"{folder} holds no image. To fix: name a folder with files of {known}"
        raise UsageError(msg)
    classes = [path.relative_to(folder).parts[:-1] for path in files]
    flat = sum(not parts for parts in classes)
    if 0 < flat < len(files):
        msg = (
            f"{folder} holds {flat} images beside sub-folders with {len(files) - flat} more. "
            f"To fix: move them into sub-folders of classes, or all into one folder"
        )
        raise UsageError(msg)
    labels = None if flat else np.array([parts[0] for parts in classes])
    names = tuple(path.relative_to(root).as_posix() for path in files)
    return Split(partial(_decode, files, names, reading.size), labels, names)


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
                msg = f"{path} holds '{split}_jpeg' without '{split}_offsets'"
                raise UsageError(msg)
            offsets = archive[f"{split}_offsets"]
            if offsets.dtype.kind not in "iu" or offsets.ndim != 1 or len(offsets) < 2:
                msg = f"{split}_offsets of {path} must be n + 1 integers, got {offsets.shape}"
                raise InvalidTypeError(msg)
            named = f"{split}_labels" in found
            labels = archive[f"{split}_labels"] if named else None
            names = tuple(f"{split}[{i}]" for i in range(len(offsets) - 1))
            splits[split] = Split(partial(_unpack, path, split, offsets, names, reading), labels)
        titles = tuple(map(str, archive["class_names"])) if "class_names" in found else None
    return Source(splits, titles)


def _unpack(
    path: Path, split: str, offsets: Array, names: Sequence[str], reading: Reading
) -> Array:
    with damaged(path), np.load(path, allow_pickle=False) as archive:
        content = archive[f"{split}_jpeg"]
    whole = 0 <= offsets[0] and bool((np.diff(offsets) > 0).all()) and offsets[-1] <= len(content)
    if content.dtype != np.uint8 or not whole:
        msg = f"{split}_offsets of {path} must rise within the {len(content)} bytes of JPEG files"
        raise InvalidValueError(msg)
    files = [content[a:b].tobytes() for a, b in pairwise(offsets)]
    return _decode(files, names, reading.size)


def _decode(files: Sequence[Path | bytes], names: Sequence[str], size: int) -> Array:
    """Decode files to one (n, h, w, c) array, by a few threads."""
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        heads = list(pool.map(_head, files, names))
        gray = all(mode in _GRAY for mode, _ in heads)
        if not size:
            first = heads[0][1]
            for name, (_, shape) in zip(names, heads, strict=True):
                if shape != first:
                    a, b = (f"{w} × {h}" for w, h in (first, shape))
                    msg = (
                        f"images have different sizes: {names[0]} is {a}, {name} is {b}. "
                        f"To fix: set data.size, the side that all are brought to"
                    )
                    raise UsageError(msg)
        width, height = (size, size) if size else heads[0][1]
        out = np.empty((len(files), height, width, 1 if gray else 3), np.uint8)

        def fill(i: int) -> None:
            with _opened(files[i], names[i]) as image:
                upright = ImageOps.exif_transpose(image).convert("L" if gray else "RGB")
                out[i] = np.asarray(_resized(upright, size)).reshape(height, width, -1)

        list(pool.map(fill, range(len(files))))
    return out


def _head(file: Path | bytes, name: str) -> tuple[str, tuple[int, int]]:
    with _opened(file, name) as image:
        if image.mode.startswith(("I", "F")):
            msg = f"{name} has values of more than 8 bits ({image.mode}). To fix: save it as 8-bit"
            raise UsageError(msg)
        # Orientations 5 to 8 lie on their side.
        turned = image.getexif().get(_ORIENTATION, 1) > 4
        width, height = image.size
        return image.mode, (height, width) if turned else (width, height)


@contextmanager
def _opened(file: Path | bytes, name: str) -> Iterator[Image.Image]:
    """Open an image; whatever goes wrong inside the block names the file."""
    try:
        with Image.open(io.BytesIO(file) if isinstance(file, bytes) else file) as image:
            yield image
    except DualclustError:
        raise
    except (OSError, SyntaxError, ValueError, EOFError, Image.DecompressionBombError) as error:
        msg = f"cannot decode {name}: {error}"
        raise InvalidValueError(msg) from error


def _resized(image: Image.Image, size: int) -> Image.Image:
    """Bring the shorter side to `size` and cut out the middle; 0 leaves the size."""
    if not size:
        return image
    width, height = image.size
    scale = size / min(width, height)
    width, height = (max(size, round(side * scale)) for side in (width, height))
    image = image.resize((width, height), Image.Resampling.BICUBIC)
    left, top = (width - size) // 2, (height - size) // 2
    return image.crop((left, top, left + size, top + size))


def _only_fine(reading: Reading) -> None:
    if reading.classes != "fine":
        msg = (
            f"data.classes={reading.classes!r} is for CIFAR-100, and the source is image files. "
            f"To fix: set data.classes='fine'"
        )
        raise UsageError(msg)
