"""Blocks of rows: every row once, in order, with edges that do not depend on who reads them."""

import pytest

from dualclust.algos.scores.blocks import FEWEST_ROWS, MOST_ROWS, block_rows, row_blocks


@pytest.mark.parametrize("n", [0, 1, 6, 7, 8, 21])
def test_blocks_cover_every_row_once(n):
    blocks = list(row_blocks(n, 7))
    assert [row for start, stop in blocks for row in range(start, stop)] == list(range(n))
    assert all(0 < stop - start <= 7 for start, stop in blocks)


def test_no_rows_are_one_empty_block_where_one_is_asked_for():
    assert list(row_blocks(0, 7, at_least_one=True)) == [(0, 0)]
    assert list(row_blocks(9, 7, at_least_one=True)) == list(row_blocks(9, 7))


@pytest.mark.parametrize("k", [1, 100, 1000, 10**9])
def test_the_largest_block_holds_whole_blocks(k):
    assert FEWEST_ROWS <= block_rows(k) <= MOST_ROWS
    assert MOST_ROWS % block_rows(k) == 0
