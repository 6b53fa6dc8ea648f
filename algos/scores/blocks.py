r"""Blocks of rows, whose edges depend on the number of clusters alone.

Problem: a product of matrices may change its last bit with its shape. The labels of four ranks, of
a file read in pieces and of one array must be the same, so all of them read the same blocks:

1. A block has a power of two rows, as many as fit into about `BLOCK_ENTRIES` scores.
2. Blocks are counted from the first row of the whole problem; every rank owns whole multiples of
   the largest block, `MOST_ROWS` rows.
"""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["BLOCK_ENTRIES", "FEWEST_ROWS", "MOST_ROWS", "block_rows", "row_blocks"]

BLOCK_ENTRIES = 2**20
"""Scores in a block: 4 MiB of float32, about the size of a core's cache."""

MOST_ROWS, FEWEST_ROWS = 2**13, 2**6
"""Most and fewest rows of a block."""


def block_rows(n_clusters: int) -> int:
    """Return the number of rows of a block: a power of two that does not depend on the ranks.

    Examples
    --------
    >>> block_rows(10), block_rows(1000), block_rows(10**6)
    (8192, 1024, 64)
    """
    rows = MOST_ROWS
    while rows > FEWEST_ROWS and rows * n_clusters > BLOCK_ENTRIES:
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
