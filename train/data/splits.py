"""What a reader of files returns: splits, their labels, and how to read their samples.

The samples are read when they are asked for, so that a split which nobody uses costs nothing.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy.typing as npt

from ...algos.core.errors import DualclustError, InvalidValueError

__all__ = ["Array", "File", "Reading", "Source", "Split", "damaged"]

Array = npt.NDArray[Any]


class File(NamedTuple):
    """A picture as it is stored: what messages call it, and its path or its bytes."""

    name: str
    content: str | memoryview

    def read(self) -> bytes:
        """Return the bytes of the file."""
        if isinstance(self.content, str):
            return Path(self.content).read_bytes()
        return bytes(self.content)


class Split(NamedTuple):
    """Some of a source's samples.

    Attributes
    ----------
    read : callable. Returns the samples: uint8 images with the channels second or last, or float
        embeddings (n, d).
    labels : (n,) array of integers or strings, or None. -1: a sample without a class.
    names : tuple of str, one for each sample, or None. File names.
    files : callable, or None where samples are no picture files. Returns them, not decoded.
    """

    read: Callable[[], Array]
    labels: Array | None = None
    names: tuple[str, ...] | None = None
    files: Callable[[], list[File]] | None = None


class Source(NamedTuple):
    """Splits by name, or all samples under ``"all"`` where a source has no splits.

    Attributes
    ----------
    splits : dict from ``"train"``, ``"test"``, ``"unlabeled"`` or ``"all"`` to `Split`.
    class_names : tuple of str or None. Name i is that of the integer label i.
    """

    splits: dict[str, Split]
    class_names: tuple[str, ...] | None = None


class Reading(NamedTuple):
    """Settings that readers need: ``data.classes``, ``size``, ``fit``, and whether to map files."""

    classes: str = "fine"
    size: int = 0
    mapped: bool = False
    fit: str = "crop"


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
