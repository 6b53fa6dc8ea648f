"""One writer a folder: a lock that ends with its process, however that ends.

The operating system holds the lock of the open file ``.lock`` and drops it when the process ends,
killed or not, so that none is ever stale. ``.lock-holder`` says who holds it, for the message.
"""

from __future__ import annotations

import errno
import json
import os
import socket
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ..algos.core.errors import OutputError
from .files import write_file
from .untrusted import parse_json

__all__ = ["LOCK_FILES", "only_writer"]

_LOCK, _HOLDER = ".lock", ".lock-holder"

LOCK_FILES = frozenset({_LOCK, _HOLDER})
"""Names in a folder that has, or had, a writer."""


@contextmanager
def only_writer(folder: Path, *, file: str = "") -> Iterator[None]:
    """Keep all other processes that ask from writing into a folder; it is made if it is not there.

    Parameters
    ----------
    folder : Path
    file : str
        Name of a file of the folder, where that alone is to have one writer.

    Raises
    ------
    OutputError
        If another writer holds it, and which process that is; if it cannot be made or written.

    Warns
    -----
    RuntimeWarning
        Where the file system has no locks: then two writers would not notice each other.
    """
    from filelock import FileLock, Timeout

    name, holds, what = _LOCK, _HOLDER, folder
    if file:
        name, holds, what = f".{file}{_LOCK}", f".{file}{_HOLDER}", folder / file
    lock = FileLock(folder / name, fallback_to_soft=False)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=0)
    except Timeout:
        msg = (
            f"{what} is in use by {_holder(folder / holds)}. "
            f"To fix this, wait until it has ended, or end it"
        )
        raise OutputError(msg) from None
    except OSError as error:
        if error.errno in (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK):
            msg = f"{folder} is on a file system without locks: see that nobody else writes there"
            warnings.warn(msg, RuntimeWarning, stacklevel=3)
            yield
            return
        msg = (
            f"cannot write into {folder}: {error.strerror or error}"
            ". To fix this, write to another place, or make room there"
        )
        raise OutputError(msg) from error
    try:
        holder = {"pid": os.getpid(), "host": socket.gethostname()}
        write_file(folder / holds, json.dumps(holder) + "\n")
        yield
    finally:
        # Removed while it is held: who has already opened the file finds that its name has gone,
        # and opens the name again.
        try:
            with suppress(OSError):
                for each in (holds, name):
                    (folder / each).unlink(missing_ok=True)
        finally:
            lock.release()


def _holder(note: Path) -> str:
    """Say who holds a lock, as far as it has said so."""
    try:
        holder = parse_json(note.read_text(encoding="utf-8"))
        return f"process {int(holder['pid'])} on {str(holder['host'])[:64]!r}"
    except (OSError, ValueError, KeyError, TypeError):  # it has just begun, or just ended
        return "another process"
