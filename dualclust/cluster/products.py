"""Products of matrices on several threads, with the same bits as on one.

If a BLAS shares out a product over threads, the order of its additions depends on their number.
Here BLAS always has one thread, and our threads share out tiles of the product. The edges of the
tiles follow from the product's shape alone.
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
"""Most tiles of a product, and so most threads that have work."""

SMALLEST = 64
"""Fewest rows or columns of a tile: the product of a narrower one would be slow."""


@contextmanager
def products_on(threads: int) -> Iterator[Multiply]:
    """Give BLAS one thread inside the context, and yield a product that runs on `threads`.

    Parameters
    ----------
    threads : int
        At least 1. It changes the time that a product takes, and none of its bits.

    Yields
    ------
    callable
        ``multiply(a, b)``: the product of (m, d) and (d, n) NumPy arrays of one dtype.

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
    """Return the tiles of an (m, n) product: at most `TILES`, along its longer side.

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
