"""One line on the terminal where a command waits for the compiler: the first run on a machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

__all__ = ["announced_compilation"]

PATIENCE = 1.0
"""Seconds of compiling after which somebody who waits is told why."""

KEPT = "dualclust: compiling for this machine, once: later runs start at once"
NOT_KEPT = (
    "dualclust: compiling for this machine, which no later run will find. To fix this, let "
    "NUMBA_CACHE_DIR name a folder that can be written"
)


@contextmanager
def announced_compilation(stream: TextIO) -> Iterator[None]:
    """Write one line if compiling takes more than a second inside the block.

    Parameters
    ----------
    stream : text file
        Standard error. Where it is not a terminal nobody waits, and nothing is written.
    """
    if not stream.isatty():
        yield
        return
    from ..backends.numba_compilation import ENTRY, watched

    was_told = False

    def tell(_: str, seconds: float) -> None:
        nonlocal was_told
        if seconds > PATIENCE and not was_told:
            was_told = True
            print(KEPT if ENTRY["cache"] else NOT_KEPT, file=stream, flush=True)

    with watched(tell):
        yield
