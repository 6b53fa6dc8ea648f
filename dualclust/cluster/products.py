"""Products of matrices on several threads, with the bits of one.

A BLAS that shares out one product over threads adds in another order for another number of them.
Here BLAS has one thread, always, and the threads share out tiles of the product whose edges follow
from its shape alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

__all__ = ["Multiply", "products_on", "tiles"]

Floats = NDArray[np.floating[Any]]
Multiply = Callable[[Any, Any], Any]

TILES = 8
"""Parts of a product: most threads that have something to do."""

SMALLEST = 64
"""Rows or columns below which a tile is not made narrower: its product would get slow."""


@contextmanager
def products_on(threads: int) -> Iterator[Multiply]:
    """Give BLAS one thread while this lasts, and hand out a product that runs on `threads`.

    Parameters
    ----------
    threads : int
        At least 1. It decides the time that a product takes, and none of its bits.

    Yields
    ------
    callable
        ``multiply(a, b)``: the product of (m, d) and (d, n) arrays of NumPy, of one dtype.

    Examples
    --------
    >>> a = np.arange(600.0).reshape(200, 3)
    >>> with products_on(2) as multiply:
    ...     found = multiply(a, a.T)
    >>> bool((found == a @ a.T).all())  # whole numbers, so nothing is rounded
    True
    """
    with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(threads) as pool:

        def multiply(a: Floats, b: Floats) -> Floats:
            product = np.empty((a.shape[0], b.shape[1]), dtype=np.result_type(a, b))

            def fill(tile: tuple[slice, slice]) -> None:
                rows, columns = tile
                np.matmul(a[rows], b[:, columns], out=product[rows, columns])

            for _ in (pool.map if threads > 1 else map)(fill, tiles(*product.shape)):
                pass
            return product

        yield multiply


def tiles(m: int, n: int) -> list[tuple[slice, slice]]:
    """Parts of an (m, n) product: at most `TILES`, along its longer side.

    Examples
    --------
    >>> [(rows.start, rows.stop) for rows, _ in tiles(150, 10)]
    [(0, 64), (64, 128), (128, 150)]
    """
    longest = max(m, n)
    step = max(SMALLEST, -(-longest // (TILES * SMALLEST)) * SMALLEST)
    edges = [slice(start, min(start + step, longest)) for start in range(0, longest, step)]
    whole = slice(None)
    return [(edge, whole) if m >= n else (whole, edge) for edge in edges]
