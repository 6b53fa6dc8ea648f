"""Files and folders that appear on the disk complete or not at all.

Content goes into a temporary sibling, is flushed to the disk, and only then renamed to its final
name; the folder that lists the name is flushed last, so that the name survives a power cut.
Whatever stops the process, the name stands for what was there before or for the new content.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from ..algos.core.errors import OutputError

__all__ = ["TEMPORARY", "doomed", "remove_leftovers", "write_file", "write_folder"]

TEMPORARY = r"\.tmp-(?:doomed|[0-9a-f]{12})"
"""How the name of what is not there yet, or soon gone, ends; it begins with a dot. A pattern."""

_LEFTOVER = re.compile(rf"\..+{TEMPORARY}")


def write_file(
    path: Path, content: bytes | str | Iterable[bytes], *, parents: bool = False
) -> None:
    """Write a file, all of it or nothing; a file of that name is replaced.

    Parameters
    ----------
    path : Path
    content : bytes, str (as UTF-8), or an iterable of bytes
        The parts of an iterable are written one after the other.
    parents : bool
        Whether folders above the file are made; otherwise a missing one is an error.

    Raises
    ------
    OutputError
        If the disk is full or the folder cannot be written. What stood there stands unchanged.
    """
    if isinstance(content, str):
        content = content.encode()
    parts = [content] if isinstance(content, bytes) else content
    if parents:
        _make_folder(path.parent)
    temporary = _temporary(path)
    try:
        _write_flushed(temporary, parts)
        os.replace(temporary, path)
        _flush_folder(path.parent)
    except BaseException as error:  # an interrupt, too, leaves nothing behind
        with contextlib.suppress(OSError):
            temporary.unlink()
        _raise_output_error(path, error)


def write_folder(
    folder: Path,
    files: Mapping[str, bytes],
    *,
    aside: Path | None = None,
    inside: Path | None = None,
) -> None:
    """Write a folder of files, all of them or none.

    Parameters
    ----------
    folder : Path
        Its final place; folders above it are made.
    files : mapping from name to content
        They are flushed to the disk in this order.
    aside : Path, optional
        Where a folder that stands at the final place is moved to, since a folder cannot be renamed
        over another one. What was there is removed. Without `aside`, a folder with content that
        stands at the final place is an error.
    inside : Path, optional
        A folder above it that is not made: without it, the folder cannot be written.

    Raises
    ------
    OutputError
        If the disk is full or the folder cannot be written. What stood there stands unchanged.
    """
    _make_folder(folder.parent, inside)
    temporary, moved = _temporary(folder), False
    try:
        temporary.mkdir()
        for name, content in files.items():
            _write_flushed(temporary / name, [content])
        _flush_folder(temporary)
        if aside is not None and folder.exists():
            shutil.rmtree(aside, ignore_errors=True)
            os.replace(folder, aside)
            moved = True
        os.replace(temporary, folder)
        _flush_folder(folder.parent)
    except BaseException as error:  # an interrupt, too, leaves nothing behind
        if moved and aside is not None and not folder.exists():
            with contextlib.suppress(OSError):
                os.replace(aside, folder)
        shutil.rmtree(temporary, ignore_errors=True)
        _raise_output_error(folder, error)


def remove_leftovers(folder: Path) -> None:
    """Remove what writers that were killed left in a folder and below it.

    Nobody else may be writing there: what a living process is about to rename looks the same.

    Parameters
    ----------
    folder : Path. One that does not exist has no leftovers.
    """
    for path in list(folder.rglob(".*.tmp-*")):
        if _LEFTOVER.fullmatch(path.name) is None:
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            with contextlib.suppress(OSError):
                path.unlink()


def doomed(path: Path) -> Path:
    """Return where something is moved before it is removed, so that no half of it has its name.

    Examples
    --------
    >>> doomed(Path("runs/X")).name
    '.X.tmp-doomed'
    """
    return path.with_name(f".{path.name.lstrip('.')}.tmp-doomed")


def _make_folder(folder: Path, inside: Path | None = None) -> None:
    try:
        if inside is None:
            folder.mkdir(parents=True, exist_ok=True)
        else:
            parts = folder.relative_to(inside).parts
            for place in (inside.joinpath(*parts[: i + 1]) for i in range(len(parts))):
                place.mkdir(exist_ok=True)
    except OSError as error:
        msg = (
            f"cannot write into {folder}: {error.strerror or error}"
            ". To fix this, write to another place, or make room there"
        )
        raise OutputError(msg) from error


def _temporary(path: Path) -> Path:
    """Sibling of a path that no other process, on this machine or another, writes to."""
    return path.with_name(f".{path.name}.tmp-{secrets.token_hex(6)}")


def _write_flushed(path: Path, parts: Iterable[bytes]) -> None:
    with path.open("xb") as file:
        for part in parts:
            file.write(part)
        file.flush()
        os.fsync(file.fileno())


def _flush_folder(folder: Path) -> None:
    """Make a rename in a folder durable; file systems that refuse to flush a folder need not."""
    if os.name != "posix":
        return
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _raise_output_error(path: Path, error: BaseException) -> None:
    if not isinstance(error, OSError):
        raise error
    msg = (
        f"cannot write {path}: {error.strerror or error}"
        ". To fix this, write to another place, or make room there"
    )
    raise OutputError(msg) from error
