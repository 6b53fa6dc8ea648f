"""Readers of the binary files in which CIFAR-10, CIFAR-100, STL-10 and MNIST are published.

None of them unpickles anything. A folder is known by the names of its files; the folder that an
archive unpacks to may stand one level below.
"""

from __future__ import annotations

import gzip
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from ...algos.core.errors import InvalidValueError, UsageError
from ...common.untrusted import MOST_TEXT, packed_too_much
from .splits import Array, Reading, Source, Split, damaged

__all__ = ["archive_reader"]

CIFAR_PIXELS, STL_PIXELS = 3 * 32 * 32, 3 * 96 * 96
# Unpacked from the published archives.
FOLDERS = ("cifar-10-batches-bin", "cifar-100-binary", "stl10_binary", "MNIST/raw")


def archive_reader(folder: Path) -> Callable[[Reading], Source] | None:
    """Return the reader of a folder with the files of a known archive, or None."""
    for place in (folder, *(folder / name for name in FOLDERS)):
        if (place / "data_batch_1.bin").is_file():
            return partial(_cifar10, place)
        if (place / "train.bin").is_file() and (place / "test.bin").is_file():
            return partial(_cifar100, place)
        if (place / "train_X.bin").is_file():
            return partial(_stl10, place)
        if _idx_file(place, "train", "images") is not None:
            return partial(_mnist, place)
    return None


def _cifar10(folder: Path, reading: Reading) -> Source:
    _only_fine(reading, "CIFAR-10")
    train = sorted(folder.glob("data_batch_*.bin"))
    parts = {"train": train, "test": [folder / "test_batch.bin"]}
    splits = {
        name: _cifar_split(files, 1, 0) for name, files in parts.items() if files[0].is_file()
    }
    return Source(splits, _lines(folder / "batches.meta.txt"))


def _cifar100(folder: Path, reading: Reading) -> Source:
    # A record holds the superclass, the class, then the pixels.
    column = 0 if reading.classes == "coarse" else 1
    splits = {name: _cifar_split([folder / f"{name}.bin"], 2, column) for name in ("train", "test")}
    return Source(splits, _lines(folder / f"{reading.classes}_label_names.txt"))


def _cifar_split(files: list[Path], labels: int, column: int) -> Split:
    records = [_records(path, labels + CIFAR_PIXELS) for path in files]
    classes = np.concatenate([record[:, column] for record in records]).astype(np.int64)

    def read() -> Array:
        return np.concatenate([r[:, labels:].reshape(-1, 3, 32, 32) for r in records])

    return Split(read, classes, shape=(len(classes), 3, 32, 32))


def _stl10(folder: Path, reading: Reading) -> Source:
    _only_fine(reading, "STL-10")
    splits = {}
    for name in ("train", "test", "unlabeled"):
        pixels, file = folder / f"{name}_X.bin", folder / f"{name}_y.bin"
        if not pixels.is_file():
            continue
        records = _records(pixels, STL_PIXELS)
        labels = np.full(len(records), -1, np.int64)
        if file.is_file():
            # Classes count from 1 there.
            labels = _records(file, 1)[:, 0].astype(np.int64) - 1
            _same_length(len(records), len(labels), file)
        shape = len(records), 3, 96, 96
        splits[name] = Split(partial(_stl_images, records), labels, shape=shape)
    return Source(splits, _lines(folder / "class_names.txt"))


def _stl_images(records: Array) -> Array:
    # Stored column by column.
    return records.reshape(-1, 3, 96, 96).transpose(0, 1, 3, 2)


def _mnist(folder: Path, reading: Reading) -> Source:
    _only_fine(reading, "MNIST")
    splits = {}
    for name, prefix in (("train", "train"), ("test", "t10k")):
        images, labels = (_idx_file(folder, prefix, what) for what in ("images", "labels"))
        if images is None:
            continue
        classes = None if labels is None else _read_idx(labels, 1).astype(np.int64)
        splits[name] = Split(partial(_read_idx, images, 3), classes, shape=_idx_shape(images, 3))
    return Source(splits)


def _idx_file(folder: Path, prefix: str, what: str) -> Path | None:
    axes = 3 if what == "images" else 1
    stems = (f"{prefix}-{what}-idx{axes}-ubyte", f"{prefix}-{what}.idx{axes}-ubyte")
    found = [folder / f"{stem}{end}" for stem in stems for end in ("", ".gz")]
    return next((path for path in found if path.is_file()), None)


def _read_idx(path: Path, axes: int) -> Array:
    """Read the idx format: 0, 0, type 8 (uint8), number of axes, lengths (big-endian), values."""
    with damaged(path):
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            head = file.read(4 + 4 * axes)
            shape = [int(x) for x in np.frombuffer(head[4:], ">u4")]
            promised, there = math.prod(shape), path.stat().st_size
            if packed_too_much(promised, there):
                msg = f"it promises {promised} bytes in a file of {there}"
                raise ValueError(msg)
            content = file.read(promised + 1)
        if head[:4] != bytes([0, 0, 8, axes]) or len(content) != promised or len(shape) != axes:
            msg = f"not an idx file of {axes} axes of bytes, or cut short"
            raise ValueError(msg)
        return np.frombuffer(content, np.uint8).reshape(shape)


def _idx_shape(path: Path, axes: int) -> tuple[int, ...] | None:
    """Return what the head says; None of a damaged one, of which `_read_idx` tells."""
    with damaged(path), gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        head = file.read(4 + 4 * axes)
    if len(head) != 4 + 4 * axes or head[:4] != bytes([0, 0, 8, axes]):
        return None
    shape = tuple(int(x) for x in np.frombuffer(head[4:], ">u4"))
    return None if packed_too_much(math.prod(shape), path.stat().st_size) else shape


def _records(path: Path, length: int) -> Array:
    """Map a file as rows of `length` bytes."""
    with damaged(path):
        size = path.stat().st_size
        if size == 0 or size % length:
            msg = f"{size} bytes are no whole number of records of {length}"
            raise ValueError(msg)
        return np.memmap(path, np.uint8, "r").reshape(-1, length)


def _lines(path: Path) -> tuple[str, ...] | None:
    if not path.is_file():
        return None
    with damaged(path):
        if (there := path.stat().st_size) > MOST_TEXT:
            msg = f"{there} bytes are no list of names"
            raise ValueError(msg)
        return tuple(path.read_text(encoding="utf-8").split())


def _same_length(images: int, labels: int, file: Path) -> None:
    if images != labels:
        msg = f"{file} holds {labels} labels of {images} images. To fix this, copy both files again"
        raise InvalidValueError(msg)


def _only_fine(reading: Reading, what: str) -> None:
    if reading.classes != "fine":
        msg = (
            f"data.classes={reading.classes!r} is for CIFAR-100, and the source is {what}. "
            f"To fix: set data.classes='fine'"
        )
        raise UsageError(msg)
