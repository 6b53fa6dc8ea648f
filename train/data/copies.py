"""Keep copies of pictures on disk: each file is decoded once, and its whole picture made smaller.

A camera's picture takes a tenth of a second to decode, in each epoch anew. Its copy, whose shorter
side is twice that of a view, takes a ten-thousandth: it lies decoded in one file, which is mapped.
Boxes are drawn in pixels of the full picture and carried over (`picture_files.cut_picture`), so
that a random crop of a copy shows what the same crop of the file would. Copies hold no more pixels
than their file; what is smaller than a copy stays as it is.

The copies of a set of files lie in a folder of their own, under ``$DUALCLUST_CACHE`` or
``~/.cache/dualclust``, named by a hash of paths, lengths and times: they serve all runs on the
same files, and are made again where they are missing or damaged.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ...algos.core.errors import DualclustError, InvalidValueError, OutputError
from ...common.array_headers import PARSING
from ...common.cores import cpu_count
from ...common.files import other_advice, write_file
from .image_files import head_of, parted, tried
from .picture_files import copy_size, shrunk
from .splits import Array, Copy, File, Skipped

__all__ = ["CopiedFiles", "cache_folder", "copies_of"]

T = TypeVar("T")

# Changes when the same files would give other copies.
_VERSION = 1
# The last file written, and so the sign that the others are whole.
_SIGN = "copies.json"


class CopiedFiles(NamedTuple):
    """Copies of the files that can be read, their positions, and the files that cannot."""

    files: list[File]
    positions: Array
    skipped: tuple[Skipped, ...]


def cache_folder() -> Path:
    """Return the folder of what can be made again."""
    own = os.environ.get("DUALCLUST_CACHE")
    if own:
        return Path(own)
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "dualclust"


def copies_of(files: Sequence[File], side: int, *, skip: bool, workers: int = 0) -> CopiedFiles:
    """Return copies of pictures, made if they are not there yet.

    Parameters
    ----------
    files : sequence of File
    side : int. Shorter side of a copy in pixels, where the picture is larger.
    skip : bool. Whether files that cannot be decoded are left out.
    workers : int, 0 or more. Threads that decode; 0: one for each CPU. Each holds one picture.

    Raises
    ------
    InvalidValueError
        If a file cannot be decoded and `skip` is False, or none can.
    OutputError
        If the cache cannot be written, or has too little room.
    """
    stamps = "\n".join(file.stamp() for file in files)
    name = hashlib.sha256(f"{_VERSION} {side}\n{stamps}".encode()).hexdigest()[:32]
    folder = cache_folder() / "pictures" / name
    found = _kept(folder, files, skip)
    if found is None:
        try:
            _make(folder, files, side, skip, workers or cpu_count())
        except OutputError as error:
            if not (folder / _SIGN).is_file():  # else another process has just made them
                advice = (
                    "To fix this, name a place for copies of pictures by the environment variable "
                    "DUALCLUST_CACHE, or set data.decode='views'"
                )
                raise other_advice(error, advice) from error
        found = _read(folder, files, skip)
    return found


def _kept(folder: Path, files: Sequence[File], skip: bool) -> CopiedFiles | None:
    """Read copies that are there; None if there are none, or they are damaged."""
    if not (folder / _SIGN).is_file():
        return None
    try:
        return _read(folder, files, skip)
    except DualclustError:
        raise
    except (OSError, ValueError, TypeError, KeyError, IndexError):
        return None


def _read(folder: Path, files: Sequence[File], skip: bool) -> CopiedFiles:
    said = json.loads((folder / _SIGN).read_text(encoding="utf-8"))
    skipped = tuple(Skipped(*one) for one in said["skipped"])
    if skipped and not skip:
        raise InvalidValueError(skipped[0].reason)
    with PARSING, (folder / "table.npy").open("rb") as file:  # np.load takes archives, too
        table = np.lib.format.read_array(file, allow_pickle=False)
    flat = np.asarray(np.memmap(folder / "pixels", np.uint8, "r"))
    depth = () if said["channels"] == 1 else (said["channels"],)
    positions = np.flatnonzero(table[:, 1])
    copies = []
    for i in positions.tolist():
        start, height, width, *size = table[i].tolist()
        shape = (height, width, *depth)
        pixels = flat[start : start + height * width * said["channels"]].reshape(shape)
        copies.append(File(files[i].name, Copy(pixels, (size[0], size[1]))))
    return CopiedFiles(copies, positions, skipped)


def _make(folder: Path, files: Sequence[File], side: int, skip: bool, workers: int) -> None:
    """Write the pixels, where each copy lies in them, and last what was left out."""
    table = np.zeros((len(files), 5), np.int64)
    with ThreadPoolExecutor(workers, "copies") as pool:

        def each(function: Callable[[int], Any], rows: Sequence[int]) -> Iterator[tuple[int, Any]]:
            return _in_order(pool, lambda i: (i, tried(function, skip, i)), rows, 2 * workers)

        found = dict(each(lambda i: head_of(files[i]), range(len(files))))
        opens, _ = parted(files, found)
        channels = 1 if all(found[i][0] for i in opens) else 3
        full = [found[i][1] for i in opens]
        sizes = [copy_size(width, height, side) for width, height in full]
        _check_room(folder, sum(width * height for width, height in sizes) * channels)

        def parts() -> Iterator[bytes]:
            end = 0
            for i, copy in each(lambda i: shrunk(files[i], side, channels=channels), opens):
                found[i] = copy
                if isinstance(copy, Copy):
                    table[i] = (end, *copy.pixels.shape[:2], *copy.size)
                    end += copy.pixels.size
                    found[i] = None  # the pixels go
                    yield copy.pixels.tobytes()

        write_file(folder / "pixels", parts(), parents=True)
    _, skipped = parted(files, found)
    write_file(folder / "table.npy", _npy(table))
    said = {"channels": channels, "skipped": skipped}
    write_file(folder / _SIGN, json.dumps(said, indent=1) + "\n")


def _in_order(
    pool: ThreadPoolExecutor, function: Callable[[int], T], rows: Sequence[int], ahead: int
) -> Iterator[T]:
    """Yield what a function has for each row, in order, with at most `ahead` of them held."""
    waiting: deque[Future[T]] = deque()
    try:
        for i in rows:
            waiting.append(pool.submit(function, i))
            if len(waiting) > ahead:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()


def _check_room(folder: Path, size: int) -> None:
    place = next(path for path in (folder, *folder.parents) if path.exists())
    free = shutil.disk_usage(place).free
    if size > free:
        msg = f"copies of the pictures take {size / 1e9:.1f} GB, and {place} has {free / 1e9:.1f}"
        raise OutputError(msg)


def _npy(table: Array) -> bytes:
    content = io.BytesIO()
    np.save(content, table, allow_pickle=False)
    return content.getvalue()
