"""One temporary copy of a file's rows for all ranks of a machine.

The copy has a name until the last of them has opened it. The name says which files in which state
it is of, and whose run it belongs to, so that what a killed run leaves is taken by no other; the
next copy removes it.
"""

from __future__ import annotations

import hashlib
import os
import struct
import weakref
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from ..ranks import local_world_size, run_token
from .plain import OpenFile

__all__ = ["remove_leftovers", "shared_copy"]

HEADER = struct.Struct("<QQQ")
"""Rows (0 while they are written), ranks that have opened the copy, and the process that wrote."""

NAMES = "dualclust-*.rows"
"""Names of copies; the star stands for the key of one."""


def shared_copy(
    folder: Path, about: Iterable[str], files: list[Path], lay_down: Callable[[BinaryIO], int]
) -> tuple[OpenFile, int]:
    """Return the copy of this machine's ranks and its number of rows; the first rank writes it.

    Parameters
    ----------
    folder : Path
        For temporary files.
    about : iterable of str
        Of what it is a copy, besides the files.
    files : list of Path
        Where the rows are.
    lay_down : callable
        Writes the rows behind the header and returns how many there are.

    Raises
    ------
    OSError
        If it cannot be written, or its name is that of another user's file.
    """
    import fcntl

    path = folder / NAMES.replace("*", _key(about, files))
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    file: BinaryIO = os.fdopen(descriptor, "r+b")
    if os.fstat(descriptor).st_uid != os.getuid():
        msg = "a file of another user has the name of the copy"
        raise OSError(msg)
    # A rank that fails before the others have opened the copy takes the name away with it.
    place = OpenFile(file)
    end = weakref.finalize(place, _forget, path)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        n, opened, writer = HEADER.unpack(file.read(HEADER.size).ljust(HEADER.size, b"\0"))
        if n == 0:
            file.truncate(0)
            n, writer = lay_down(file), os.getpid()
        file.seek(0)
        file.write(HEADER.pack(n, opened + 1, writer))
        file.flush()
        if opened + 1 >= local_world_size():
            end()
    finally:
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    return place, n


def remove_leftovers(folder: Path) -> None:
    """Remove copies of processes that were killed before all ranks had opened them.

    A copy is left if nobody is writing it and it is not whole, or its writer has ended. Whoever
    has it open, or opens it just now, keeps its rows: only the name goes, and a rank that does not
    find the name makes a copy of its own.
    """
    if not hasattr(os, "O_NOFOLLOW"):
        return
    import fcntl

    for path in folder.glob(NAMES):
        with suppress(OSError):  # gone meanwhile, or of another user
            descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                head = os.read(descriptor, HEADER.size).ljust(HEADER.size, b"\0")
                n, _, writer = HEADER.unpack(head)
                if os.fstat(descriptor).st_uid == os.getuid() and (n == 0 or _has_ended(writer)):
                    path.unlink()
            finally:
                os.close(descriptor)


def _has_ended(process: int) -> bool:
    """Whether there is no process of that number; one that is not ours counts as there."""
    try:
        os.kill(process, 0)
    except PermissionError:
        return False
    except (ProcessLookupError, OverflowError):
        return True
    return process == 0  # all of this process's group


def _key(about: Iterable[str], files: list[Path]) -> str:
    """Return what only the ranks of this run have in common, of these files as they are now.

    Ports and ids of launchers come again; the first rank's token does not.
    """
    run = [os.environ.get(v, "") for v in ("MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID")]
    state = [f"{file.absolute()} {(s := file.stat()).st_size} {s.st_mtime_ns}" for file in files]
    text = "\n".join([*run, run_token(), str(os.getuid()), os.getcwd(), *about, *state])
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def _forget(path: Path) -> None:
    with suppress(OSError):
        path.unlink()
