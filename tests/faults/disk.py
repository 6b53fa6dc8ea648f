"""A disk on which something happens at the n-th operation: it fails, or the process dies or hears.

Counted are what the library does to the disk: a file that is written and flushed, a flush, a
rename, a removed file or folder, a folder that is made. So a fault lands between any two of them,
and never depends on a clock.
"""

from __future__ import annotations

import errno
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from dualclust.common import files

__all__ = [
    "ERRORS",
    "Act",
    "Disk",
    "Killed",
    "failing",
    "killing",
    "on_disk",
    "removing",
    "signaling",
    "taking",
]

Act = Callable[["Disk", str], None]

ERRORS = {
    "full disk": errno.ENOSPC,
    "quota": errno.EDQUOT,
    "read-only": errno.EROFS,
    "broken disk": errno.EIO,
}

GROWS = ("write", "fsync", "replace", "mkdir")
"""What needs room; removing does not."""


class Killed(BaseException):
    """Stands for SIGKILL inside one process: nothing that follows reaches the disk."""


class Disk:
    """Counts operations; from the n-th on, `act` is asked before each of them.

    Parameters
    ----------
    at : int
        Operations that go well. With `at` below 0, all do.
    act : callable
        ``act(disk, name)``: raises, ends the process, sends a signal, or lets the operation be.
    """

    def __init__(self, at: int, act: Act) -> None:
        self.at, self.act, self.count, self.acted = at, act, 0, 0

    def before(self, name: str) -> None:
        """Count an operation."""
        self.count += 1
        if 0 <= self.at < self.count:
            self.acted += 1
            self.act(self, name)


def failing(number: int) -> Act:
    """Let everything that needs room fail from here on."""

    def act(disk: Disk, name: str) -> None:
        if name in GROWS:
            raise OSError(number, os.strerror(number))

    return act


def killing(*, really: bool) -> Act:
    """End the process here: by SIGKILL, or as far as one process can feign it."""

    def act(disk: Disk, name: str) -> None:
        if really:
            os.kill(os.getpid(), signal.SIGKILL)
        raise Killed

    return act


def removing(folder: Path) -> Act:
    """Remove all folders that are in a folder, before the first operation from here on."""

    def act(disk: Disk, name: str) -> None:
        disk.at = -1  # what follows is the removal itself
        for path in folder.iterdir():
            if path.is_dir():
                shutil.rmtree(path)

    return act


def signaling(number: int, times: int = 1) -> Act:
    """Send this process a signal, so many operations in a row."""

    def act(disk: Disk, name: str) -> None:
        if disk.acted <= times:
            os.kill(os.getpid(), number)

    return act


def taking(seconds: float, then: Act | None = None) -> Act:
    """Let everything take so long from here on, with another act after the first wait."""

    def act(disk: Disk, name: str) -> None:
        time.sleep(seconds)
        if then is not None and disk.acted == 1:
            then(disk, name)

    return act


@contextmanager
def on_disk(disk: Disk) -> Iterator[Disk]:
    """Let the library's operations go over a disk, inside the block."""
    write = files._write_flushed

    def writing(path: Path, parts: Any) -> None:
        content = b"".join(parts)
        try:
            disk.before("write")
        except BaseException:
            path.write_bytes(content[: len(content) // 2])  # as far as it came
            raise
        write(path, [content])

    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(files, "_write_flushed", writing))
        for name in ("fsync", "replace", "unlink", "rmdir", "mkdir"):
            stack.enter_context(mock.patch.object(os, name, _counted(disk, name)))
        yield disk


def _counted(disk: Disk, name: str) -> Callable[..., Any]:
    plain = getattr(os, name)

    def call(*args: Any, **kwargs: Any) -> Any:
        disk.before(name)
        return plain(*args, **kwargs)

    return call
