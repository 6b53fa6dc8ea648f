"""How numba compiles our kernels: as little as possible, kept if there is a place, and not unseen.

A function that Python calls is an *entry*: compiled once for each kind of array, and kept beside
its source or, where that cannot be written, in the user's folder of caches (``NUMBA_CACHE_DIR``
names another). Where there is neither, each process compiles anew, which costs seconds and nothing
else. A function that only compiled ones call is *inner*: nothing is compiled for calls from Python,
and nothing is kept, since it is part of its entry.

`watched` tells whoever waits what is about to be compiled.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from numba import njit
from numba.core import event
from numba.core.cpu import CPUTargetOptions
from numpy.typing import NDArray

__all__ = ["ENTRY", "INNER", "read_only", "watched"]


def _can_keep() -> bool:
    """Whether numba finds a place for what it compiles; it raises where it finds none."""
    try:
        njit(cache=True)(_nothing)
    except RuntimeError:
        return False
    return True


def _nothing() -> None:
    """Stand for a kernel of this folder."""


ENTRY: dict[str, Any] = {"nogil": True, "cache": _can_keep()}
"""Options of `njit` for a function that Python calls."""

INNER: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
"""Options of `njit` for a function that only compiled ones call."""

if hasattr(CPUTargetOptions, "_nrt"):
    INNER["_nrt"] = False  # arrays are its caller's: counting who holds them took most of its time


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Return a view that cannot be written: what a kernel only reads is of one kind, whoever calls.

    An array that can be written and one that cannot are two kinds for numba, which takes seconds
    for each; a view costs no copy.
    """
    view = array.view()
    view.flags.writeable = False
    return view


class _Listener(event.Listener):
    """Calls `tell` with a name and the seconds so far, whenever something is to be compiled."""

    def __init__(self, tell: Callable[[str, float], None]) -> None:
        self.tell, self.seconds, self.begun = tell, 0.0, []  # type: ignore[var-annotated]

    def on_start(self, event: Any) -> None:
        """One function calls for others, so starts are nested."""
        nested = time.perf_counter() - self.begun[0] if self.begun else 0.0
        self.tell(event.data["dispatcher"].py_func.__name__.lstrip("_"), self.seconds + nested)
        self.begun.append(time.perf_counter())

    def on_end(self, event: Any) -> None:
        """Only the outermost one adds to the time."""
        begun = self.begun.pop()
        if not self.begun:
            self.seconds += time.perf_counter() - begun


@contextmanager
def watched(notify: Callable[[str, float], None]) -> Iterator[None]:
    """Call ``notify(name, seconds)`` before each function is compiled inside the block.

    `seconds` is the time that compiling has taken in this block so far. What the cache holds is not
    compiled, so nothing is said of it.
    """
    with event.install_listener("numba:compile", _Listener(notify)):
        yield
