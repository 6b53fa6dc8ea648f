"""What a reader of files returns: splits, their labels, and how to read their samples.

The samples are read when they are asked for, so that a split which nobody uses costs nothing.
"""

from __future__ import annotations

import hashlib
import os
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy.typing as npt

from ...algos.core.errors import DualclustError, InvalidValueError
from ..config.run import MOST_PIXELS

__all__ = ["Array", "Copy", "File", "Reading", "Skipped", "Source", "Split", "damaged"]

Array = npt.NDArray[Any]


class Copy(NamedTuple):
    """A smaller copy of a whole picture, decoded (`copies`).

    Attributes
    ----------
    pixels : (h, w) or (h, w, 3) uint8 array. Mapped from a file.
    size : (width, height) of the upright picture that it was made from.
    """

    pixels: Array
    size: tuple[int, int]


class File(NamedTuple):
    """A picture as it is stored.

    Attributes
    ----------
    name : str. What messages call it.
    content : its path, its bytes, or a `Copy` of it.
    max_pixels : int. Pixels above which it is refused before anything is decoded.
    """

    name: str
    content: str | memoryview | Copy
    max_pixels: int = MOST_PIXELS

    def read(self) -> bytes:
        """Return the bytes of the file, or the pixels of the copy."""
        if isinstance(self.content, Copy):
            return self.content.pixels.tobytes()
        if isinstance(self.content, str):
            return Path(self.content).read_bytes()
        return bytes(self.content)

    def stamp(self) -> str:
        """Return what changes when the file does: path, length and time; or a hash of its bytes."""
        if not isinstance(self.content, str):
            return f"{self.name} {hashlib.sha256(self.read()).hexdigest()}"
        try:
            found = os.stat(self.content)
        except OSError:  # a link that leads nowhere
            return f"{self.content} gone"
        return f"{self.content} {found.st_size} {found.st_mtime_ns}"


class Skipped(NamedTuple):
    """A file, or a folder, that cannot be read, and why."""

    name: str
    reason: str


class Split(NamedTuple):
    """Some of a source's samples.

    Attributes
    ----------
    read : callable. Returns the samples: uint8 images with the channels second or last, or float
        embeddings (n, d).
    labels : (n,) array of integers or strings, or None. -1: a sample without a class.
    names : tuple of str, one for each sample, or None. File names.
    files : callable, or None where samples are no picture files. Returns them, not decoded.
    unread : tuple of Skipped. Folders that could not be looked into.
    shape : tuple of int, or None. Of what `read` returns, where headers tell it before any sample
        is read; of files ``(n,)``, and of these some may yet turn out to be damaged.
    """

    read: Callable[[], Array]
    labels: Array | None = None
    names: tuple[str, ...] | None = None
    files: Callable[[], list[File]] | None = None
    unread: tuple[Skipped, ...] = ()
    shape: tuple[int, ...] | None = None


class Source(NamedTuple):
    """Splits by name, or all samples under ``"all"`` where a source has no splits.

    Attributes
    ----------
    splits : dict from ``"train"``, ``"test"``, ``"unlabeled"`` or ``"all"`` to `Split`.
    class_names : tuple of str or None. Name i is that of the integer label i.
    rows : bool. Whether the samples are embeddings.
    """

    splits: dict[str, Split]
    class_names: tuple[str, ...] | None = None
    rows: bool = False


class Reading(NamedTuple):
    """Settings that readers need, those of `config.DataConfig`, and whether to map files."""

    classes: str = "fine"
    size: int = 0
    mapped: bool = False
    fit: str = "crop"
    folders: str = "names"
    max_pixels: int = MOST_PIXELS


@contextmanager
def damaged(path: Path) -> Iterator[None]:
    """Turn what reading a broken file raises into one error that names the file."""
    try:
        yield
    except DualclustError:
        raise
    except (OSError, ValueError, MemoryError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        msg = (
            f"cannot read {path}: damaged, or not plain arrays ({error}). "
            f"To fix this, write or copy it again"
        )
        raise InvalidValueError(msg) from error
