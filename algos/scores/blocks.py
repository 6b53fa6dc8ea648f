r"""Blocks of rows, whose edges depend on the number of clusters and the kind of device alone.

Problem: a product of matrices may change its last bit with its shape. The labels of four ranks, of
a file read in pieces and of one array must be the same, so all of them read the same blocks:

1. A block has a power of two rows, as many as fit into about `BLOCK_ENTRIES` scores, and on a
   device into `DEVICE_ENTRIES`: there each operation on a block costs its launch.
2. Blocks are counted from the first row of the whole problem; every rank owns whole multiples of
   the largest block, `MOST_ROWS` rows. A device that has all rows takes `MOST_DEVICE_ROWS`: the
   last bit of its products may then be another than on several.
3. Every pass goes through `map_blocks`: the caller and its workers compute the blocks, whose
   results come in the order of the rows (`core.workers`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from ..core.reads import on_host
from ..core.types import Array
from ..core.workers import map_in_order

__all__ = [
    "BLOCK_ENTRIES",
    "DEVICE_ENTRIES",
    "FEWEST_ROWS",
    "MOST_DEVICE_ROWS",
    "MOST_ROWS",
    "block_rows",
    "map_blocks",
    "row_blocks",
]

R = TypeVar("R")

BLOCK_ENTRIES = 2**20
"""Scores in a block: 4 MiB of float32, about the size of a core's cache."""

DEVICE_ENTRIES = 2**27
"""Scores in a block on a device, where launches cost more than memory: on an H200, best clusters
of a million rows at the prices of 1,000 took 219 ms in 977 blocks, product and argmax 9 in 15.
One rank has 8 blocks of them."""

MOST_ROWS, FEWEST_ROWS = 2**13, 2**6
"""Most and fewest rows of a block; shards of ranks are whole multiples of the most."""

MOST_DEVICE_ROWS = 2**17
"""Most rows of a block on a device, for one rank that has all of them."""


def block_rows(n_clusters: int, *, like: Array | None = None, is_alone: bool = False) -> int:
    """Return the number of rows of a block: a power of two that does not depend on the ranks.

    Parameters
    ----------
    n_clusters : int
    like : array, optional
        Where the scores are; the host without it. Blocks of the host divide those of a device.
    is_alone : bool
        Whether one rank has all rows, so that no shard ends in a block (`Group.is_alone`).

    Examples
    --------
    >>> block_rows(10), block_rows(1000), block_rows(10**6)
    (8192, 1024, 64)
    """
    most, rows = BLOCK_ENTRIES, MOST_ROWS
    if like is not None and not on_host(like):
        most, rows = DEVICE_ENTRIES, MOST_DEVICE_ROWS if is_alone else MOST_ROWS
    while rows > FEWEST_ROWS and rows * n_clusters > most:
        rows //= 2
    return rows


def row_blocks(n: int, rows: int, *, at_least_one: bool = False) -> Iterator[tuple[int, int]]:
    """Yield the edges ``(start, stop)`` of blocks of `rows` rows that cover rows 0 to n.

    Parameters
    ----------
    n : int >= 0
    rows : int >= 1
        Of each block; the last one may have fewer.
    at_least_one : bool
        Yield one empty block if there are no rows, so that a rank without rows still has arrays to
        send, of the right library, dtype and device.

    Examples
    --------
    >>> list(row_blocks(5, 2)), list(row_blocks(0, 2)), list(row_blocks(0, 2, at_least_one=True))
    ([(0, 2), (2, 4), (4, 5)], [], [(0, 0)])
    """
    for start in range(0, max(n, 1) if at_least_one else n, rows):
        yield start, min(start + rows, n)


def map_blocks(
    function: Callable[[int, int], R],
    n: int,
    rows: int,
    *,
    like: Array | None,
    at_least_one: bool = False,
) -> Iterator[R]:
    """Yield ``function(start, stop)`` of the blocks of `row_blocks`, in the order of the rows.

    Parameters
    ----------
    function : callable
        Inside `workers`, several threads call it at once.
    n, rows, at_least_one
        As in `row_blocks`.
    like : array, or None
        As in `map_in_order`: None calls `function` in the caller's thread.

    Examples
    --------
    >>> import numpy as np
    >>> list(map_blocks(lambda start, stop: stop - start, 5, 2, like=np.zeros(1)))
    [2, 2, 1]
    """
    edges = row_blocks(n, rows, at_least_one=at_least_one)
    return map_in_order(lambda edge: function(*edge), edges, like=like)
