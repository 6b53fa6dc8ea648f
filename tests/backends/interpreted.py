"""The kernels of numba as the Python that they are written in, without compiling anything.

Compiled code reads and writes beyond the end of an array without a word; Python refuses. And what
runs as Python is seen line by line: `tests.mutation.trace` finds the tests that run a kernel.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType

import numba

from dualclust import backends

__all__ = ["interpreted"]

PREFIX = "dualclust.backends.numba_"


def interpreted(name: str) -> ModuleType:
    """Import a module of `dualclust.backends`, and those of numba that it imports, uncompiled.

    The compiled modules stay what everybody else imports.
    """
    compiled = {
        full: sys.modules.pop(full) for full in list(sys.modules) if full.startswith(PREFIX)
    }
    named = {
        key: vars(backends).pop(key) for key in list(vars(backends)) if key.startswith("numba_")
    }
    before, numba.config.DISABLE_JIT = numba.config.DISABLE_JIT, True
    try:
        return import_module(f"dualclust.backends.{name}")
    finally:
        numba.config.DISABLE_JIT = before
        for full in list(sys.modules):
            if full.startswith(PREFIX):
                del sys.modules[full]
        for key in list(vars(backends)):
            if key.startswith("numba_"):
                delattr(backends, key)
        sys.modules.update(compiled)
        vars(backends).update(named)
