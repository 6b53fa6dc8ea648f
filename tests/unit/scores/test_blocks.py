"""Blocks of rows: every row once, in order, with edges that do not depend on who reads them."""

from threading import Barrier, get_ident

import numpy as np
import pytest

from dualclust.algos.core.workers import workers
from dualclust.algos.scores.blocks import (
    BLOCK_ENTRIES,
    DEVICE_ENTRIES,
    FEWEST_ROWS,
    MOST_DEVICE_ROWS,
    MOST_ROWS,
    block_rows,
    map_blocks,
    row_blocks,
)


@pytest.mark.parametrize("n", [0, 1, 6, 7, 8, 21])
def test_blocks_cover_every_row_once(n):
    blocks = list(row_blocks(n, 7))
    assert [row for start, stop in blocks for row in range(start, stop)] == list(range(n))
    assert all(0 < stop - start <= 7 for start, stop in blocks)


def test_no_rows_are_one_empty_block_where_one_is_asked_for():
    assert list(row_blocks(0, 7, at_least_one=True)) == [(0, 0)]
    assert list(row_blocks(9, 7, at_least_one=True)) == list(row_blocks(9, 7))
    assert list(row_blocks(1, 1, at_least_one=True)) == [(0, 1)]


@pytest.mark.parametrize("k", [1, 100, 1000, 10**9])
def test_the_largest_block_holds_whole_blocks(k):
    assert FEWEST_ROWS <= block_rows(k) <= MOST_ROWS
    assert MOST_ROWS % block_rows(k) == 0


def test_the_edges_by_which_labels_repeat():
    """Other edges are other bits: they may change with a version, and never by accident."""
    assert (BLOCK_ENTRIES, MOST_ROWS, FEWEST_ROWS) == (1_048_576, 8192, 64)
    # As many rows as fit: a block may be full to the last entry.
    assert [block_rows(k) for k in (128, 129, 256, 257)] == [8192, 4096, 4096, 2048]
    assert [block_rows(k) for k in (2**13, 2**13 + 1, 2**14, 2**20)] == [128, 64, 64, 64]


def test_blocks_of_a_device_are_whole_blocks_of_the_host():
    """There each operation costs its launch, so that more rows go into one."""
    there, here = pytest.importorskip("torch").zeros(1, device="meta"), np.zeros(1)
    assert DEVICE_ENTRIES == 2**27
    assert [block_rows(k, like=there) for k in (1, 2**14, 2**14 + 1, 2**20)] == [
        8192,
        8192,
        4096,
        128,
    ]
    for k in (1, 100, 1000, 5000, 10**6):
        assert block_rows(k, like=here, is_alone=True) == block_rows(k)
        assert block_rows(k, like=there) % block_rows(k) == 0
        assert block_rows(k, like=there, is_alone=True) % block_rows(k, like=there) == 0


def test_one_rank_has_larger_blocks_on_a_device():
    there = pytest.importorskip("torch").zeros(1, device="meta")
    found = [block_rows(k, like=there, is_alone=True) for k in (1, 2**10, 2**10 + 1, 2000, 2**20)]
    assert found == [MOST_DEVICE_ROWS, 131_072, 65_536, 65_536, 128]


def test_a_function_of_each_block_in_order():
    def span(start, stop):
        return start, stop

    assert list(map_blocks(span, 5, 2, like=None)) == [(0, 2), (2, 4), (4, 5)]
    assert list(map_blocks(span, 0, 2, like=None)) == []
    assert list(map_blocks(span, 0, 2, like=None, at_least_one=True)) == [(0, 0)]


@pytest.mark.parametrize("on_workers", [True, False])
def test_the_workers_compute_the_blocks_unless_there_is_no_array(on_workers):
    like = np.zeros(1) if on_workers else None
    both = Barrier(2, timeout=30.0)  # broken, unless two threads meet at it

    def thread(start, stop):
        if on_workers and start < 2:
            both.wait()
        return get_ident()

    with workers(2):
        threads = list(map_blocks(thread, 3, 1, like=like))
    assert len(set(threads)) == 1 + on_workers
    assert get_ident() in threads
