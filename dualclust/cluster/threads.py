"""Threads for the passes over rows, and a BLAS that keeps to one of them.

If a BLAS shares out a product over threads, the order of its additions depends on their number, and
its threads wait for ours. Here BLAS has one thread, and ours share out whole blocks of rows, whose
edges are fixed (`algos.scores.blocks`). The shape of each product, and so each of its bits, is the
same for any number of threads.

A block of scores is taken from the allocator and given back for each pass over it, by each thread.
glibc returns freed memory to the system from a size on that grows with the largest array that it
has freed, 32 MiB at most: with a smaller one before, threads fault in the same pages again and
again, and interrupt each other to tell of it. So one array of that size is freed at the start; none
of its pages is ever touched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from ..algos.core.workers import workers

__all__ = ["Multiply", "products_on"]

FREED_BYTES = 2**25 - 2**14
"""Of the array that is freed at the start: just below the largest from which glibc learns."""

Multiply = Callable[[Any, Any], Any]


@contextmanager
def products_on(threads: int) -> Iterator[Multiply]:
    """Run passes over rows on `threads` and give BLAS one thread, inside the context.

    Parameters
    ----------
    threads : int
        At least 1. It changes the time that a pass takes, and none of its bits.

    Yields
    ------
    callable
        ``multiply(a, b)``: the product of (m, d) and (d, n) NumPy arrays of one dtype.

    Raises
    ------
    InvalidValueError, InvalidTypeError
        If `threads` is no integer of at least 1.

    Notes
    -----
    From the first call on, the process may keep 64 MiB of what it frees, for as long as it lives.

    Examples
    --------
    >>> a = np.arange(600.0).reshape(200, 3)
    >>> with products_on(2) as multiply:
    ...     found = multiply(a, a.T)
    >>> bool((found == a @ a.T).all())  # whole numbers, so nothing is rounded
    True
    """
    _keep_freed_memory()
    with workers(threads), threadpool_limits(1, user_api="blas"):
        yield np.matmul


@cache
def _keep_freed_memory() -> None:
    """Let the allocator keep up to twice `FREED_BYTES` of what this process frees, once for all."""
    np.empty(FREED_BYTES, dtype=np.uint8)
