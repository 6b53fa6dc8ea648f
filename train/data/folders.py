"""Find the picture files of a folder as strangers keep them: links, hidden files, other files.

Links to files and to folders are followed, each folder once, so that a circle of links ends. What
is hidden stays hidden: names that begin with a dot, and ``__MACOSX``. A link that leads nowhere is
found like a file, and turns out to be bad when it is read; a folder that cannot be opened is told.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import NamedTuple

from .splits import Skipped

__all__ = ["SUFFIXES", "Listing", "find_pictures", "visible"]

SUFFIXES = frozenset(
    {".png", ".jpg", ".jpeg", ".jfif", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm"}
    | {".heic", ".heif", ".avif", ".jp2"}
)
"""Endings of the names of pictures. Pillow alone does not decode all of them: see `opened`."""


class Listing(NamedTuple):
    """What a folder holds.

    Attributes
    ----------
    names : tuple of tuples of str. The parts of each picture's path below the folder, in order.
    unread : tuple of Skipped. Folders that cannot be opened.
    """

    names: tuple[tuple[str, ...], ...]
    unread: tuple[Skipped, ...]


def visible(name: str) -> bool:
    """Whether a file or folder of this name is looked at."""
    return not name.startswith(".") and name != "__MACOSX"


def find_pictures(folder: Path, root: Path) -> Listing:
    """List the pictures in a folder and below it, in the order of their paths.

    Parameters
    ----------
    folder : Path
    root : Path
        The folder, or one above it, in whose terms `unread` is told.
    """
    names: list[tuple[str, ...]] = []
    unread: list[Skipped] = []
    entered = {os.path.realpath(folder)}

    def refused(error: OSError) -> None:
        where = Path(error.filename).relative_to(root).as_posix()
        unread.append(Skipped(f"{where}/", f"cannot open the folder: {error.strerror or error}"))

    for place, inner, files in os.walk(folder, followlinks=True, onerror=refused):
        parts = Path(place).relative_to(folder).parts
        # What is taken out of `inner` is not entered; a folder comes before links to it.
        seen = sorted(inner, key=lambda name: (os.path.islink(os.path.join(place, name)), name))
        inner[:] = [name for name in seen if visible(name) and _first(place, name, entered)]
        shown = [name for name in files if visible(name)]
        names += [(*parts, name) for name in shown if _is_picture(os.path.join(place, name))]
    return Listing(tuple(sorted(names)), tuple(unread))


def _is_picture(path: str) -> bool:
    """Whether a picture's name is that of a file, or leads nowhere; a pipe would never end."""
    if os.path.splitext(path)[1].lower() not in SUFFIXES:
        return False
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except OSError:
        return True


def _first(place: str, name: str, entered: set[str]) -> bool:
    """Whether a folder has not been entered under any name."""
    real = os.path.realpath(os.path.join(place, name))
    if real in entered:
        return False
    entered.add(real)
    return True
