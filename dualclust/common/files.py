"""Files and folders that appear on the disk complete or not at all.

Content goes into a temporary sibling, is flushed to the disk, and only then renamed to its final
name; the folder that lists the name is flushed last, so that the name survives a power cut.
Whatever stops the process, the name stands for what was there before or for the new content.

A temporary sibling is locked until it has its name. The operating system drops the lock when the
process ends, killed or not: a sibling without a lock is the leftover of a killed writer, and goes
before the same name is written again. Where the file system has no locks, leftovers stay.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NoReturn

from ..algos.core.errors import OutputError

__all__ = [
    "TEMPORARY",
    "doomed",
    "other_advice",
    "remove_folder",
    "remove_leftovers",
    "remove_leftovers_of",
    "write_file",
    "write_folder",
]

TEMPORARY = r"\.tmp-(?:doomed|[0-9a-f]{12})"
"""How the name of what is not there yet, or soon gone, ends; it begins with a dot. A pattern."""

_LEFTOVER = re.compile(rf"\..+{TEMPORARY}")
_OWN = re.compile(r"\.tmp-[0-9a-f]{12}")


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
    remove_leftovers_of(path)
    try:
        with _sibling(path) as temporary:
            _write_flushed(temporary, parts)
            os.replace(temporary, path)
            _flush_folder(path.parent)
    except OSError as error:
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
    remove_leftovers_of(folder)
    try:
        with _sibling(folder, is_folder=True) as temporary:
            for name, content in files.items():
                _write_flushed(temporary / name, [content])
            _flush_folder(temporary)
            _put(temporary, folder, aside)
    except OSError as error:
        _raise_output_error(folder, error)


def remove_leftovers(folder: Path) -> None:
    """Remove what writers that were killed left in a folder and below it.

    Parameters
    ----------
    folder : Path. One that does not exist has no leftovers.
    """
    for path in list(folder.rglob(".*.tmp-*")):
        if _LEFTOVER.fullmatch(path.name) is not None:
            _remove_unlocked(path)


def remove_leftovers_of(path: Path) -> None:
    """Remove what writers of a path that were killed left beside it.

    Parameters
    ----------
    path : Path. Of a file or a folder, which is not touched.
    """
    own = f".{path.name}"  # and no pattern of it: `re` would keep each in its cache
    with contextlib.suppress(OSError):  # without a folder there are none
        for entry in [e for e in os.listdir(path.parent) if e.startswith(own)]:
            if _OWN.fullmatch(entry, len(own)):
                _remove_unlocked(path.with_name(entry))


def remove_folder(folder: Path, *, of: Path | None = None) -> None:
    """Remove a folder, no half of which ever has its name.

    Parameters
    ----------
    folder : Path
    of : Path, optional
        Beside it, whose next write removes what is left if this process is killed; `folder` itself
        by default.

    Raises
    ------
    OSError
        If it cannot be renamed. What then cannot be removed is a leftover.
    """
    gone = _temporary(of or folder)
    os.replace(folder, gone)
    shutil.rmtree(gone, ignore_errors=True)


def other_advice(error: OutputError, advice: str) -> OutputError:
    """Return an error that says the same, and what is to be done about it here.

    Examples
    --------
    >>> str(other_advice(OutputError("cannot write a. To fix this, wait"), "To fix this, ask"))
    'cannot write a. To fix this, ask'
    """
    return OutputError(f"{str(error).partition('. To fix this')[0]}. {advice}")


def doomed(path: Path) -> Path:
    """Return where a folder is set aside by the one that replaces it.

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


@contextlib.contextmanager
def _sibling(path: Path, *, is_folder: bool = False) -> Iterator[Path]:
    """Make a temporary sibling, locked inside the block; an error or an interrupt removes it."""
    while True:
        temporary = _temporary(path)
        if is_folder:
            temporary.mkdir()
        else:
            temporary.touch(exist_ok=False)
        try:
            with _locked(temporary) as is_there:
                if is_there:  # else it was taken for a leftover before it was locked
                    yield temporary
                    return
        except BaseException:
            _remove(temporary)
            raise


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[bool]:
    """Hold the lock of a file or a folder inside the block; yields whether it is still there."""
    if os.name != "posix":
        yield True
        return
    import fcntl

    try:
        handle = _open(path)
    except FileNotFoundError:
        yield False
        return
    try:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield path.exists()
    finally:
        os.close(handle)


def _remove_unlocked(path: Path) -> None:
    """Remove a file or a folder, unless somebody has locked it or nobody can tell."""
    if os.name != "posix":
        return
    import fcntl

    with contextlib.suppress(OSError):
        if path.is_symlink():
            path.unlink()
            return
        handle = _open(path)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove(path)
        finally:
            os.close(handle)


def _open(path: Path) -> int:
    """Open a file or a folder to lock it: NFS asks for a handle that can write."""
    is_folder = stat.S_ISDIR(os.lstat(path).st_mode)
    return os.open(path, (os.O_RDONLY if is_folder else os.O_RDWR) | os.O_NOFOLLOW)


def _remove(path: Path) -> None:
    """Remove a file or a folder as far as that can be done."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink()


def _put(temporary: Path, folder: Path, aside: Path | None) -> None:
    """Rename a folder to its final place; what stood there is set aside, and back on an error."""
    moved = False
    try:
        if aside is not None and folder.exists():
            shutil.rmtree(aside, ignore_errors=True)
            os.replace(folder, aside)
            moved = True
        os.replace(temporary, folder)
        _flush_folder(folder.parent)
    except BaseException:
        if moved and aside is not None and not folder.exists():
            with contextlib.suppress(OSError):
                os.replace(aside, folder)
        raise


def _write_flushed(path: Path, parts: Iterable[bytes]) -> None:
    with path.open("wb") as file:
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


def _raise_output_error(path: Path, error: OSError) -> NoReturn:
    msg = (
        f"cannot write {path}: {error.strerror or error}"
        ". To fix this, write to another place, or make room there"
    )
    raise OutputError(msg) from error
