"""The kernels of numba as the Python that they are written in, without compiling anything.

Compiled code reads and writes beyond the end of an array without a word; Python refuses. And what
runs as Python is seen line by line: `tests.mutation.trace` finds the tests that run a kernel.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any

import numba

from dualclust import backends

__all__ = ["ending", "interpreted"]

CPU_SECONDS = 20.0  # a hundred times what such a test takes


def interpreted(name: str) -> ModuleType:
    """Import a module of `dualclust.backends`, and those of numba that it imports, uncompiled.

    The compiled modules stay what everybody else imports. Each test imports anew, which takes
    milliseconds: so each is known to run the lines that run on import, the constants.
    """
    names = ((sys.modules, "dualclust.backends.numba_"), (vars(backends), "numba_"))
    places = [(where, prefix, _taken(where, prefix)) for where, prefix in names]
    before, numba.config.DISABLE_JIT = numba.config.DISABLE_JIT, True
    try:
        return import_module(f"dualclust.backends.{name}")
    finally:
        numba.config.DISABLE_JIT = before
        for where, prefix, compiled in places:
            _taken(where, prefix)
            where.update(compiled)


@contextmanager
def ending(name: str) -> Iterator[ModuleType]:
    """The module, as `interpreted` imports it, for a test whose loops have to come to an end.

    By the CPU time of the process, so that a busy machine is no error.
    """

    def tell(*_: object) -> None:
        msg = f"{name} has computed for {CPU_SECONDS:g} seconds: a loop does not end"
        raise AssertionError(msg)

    before = signal.signal(signal.SIGVTALRM, tell)
    signal.setitimer(signal.ITIMER_VIRTUAL, CPU_SECONDS)
    try:
        yield interpreted(name)
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
        signal.signal(signal.SIGVTALRM, before)


def _taken(names: dict[str, Any], prefix: str) -> dict[str, Any]:
    """Take the entries whose names begin so out of a dict."""
    return {name: names.pop(name) for name in list(names) if name.startswith(prefix)}
