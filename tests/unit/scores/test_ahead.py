"""Blocks that workers begin ahead: the same scores, few of them, and none where ranks read."""

from __future__ import annotations

import threading
import time
from itertools import accumulate

import numpy as np
import pytest

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.core.workers import workers
from dualclust.algos.offline import assign_source
from dualclust.algos.offline._averaged_prices import averaged_prices, parts_of_pass
from dualclust.algos.scores.ahead import HELD_ENTRIES, blocks_ahead
from dualclust.algos.scores.blocks import block_rows, row_blocks
from dualclust.algos.scores.sources import feature_source, product_source, score_source
from tests.problems import cone_features, unit_rows

LIKE = np.zeros(1)


def watched(source):
    """The source, and the blocks that are asked of it, with the threads that ask."""
    asked = []

    def block(start, stop):
        asked.append(((start, stop), threading.get_ident()))
        return source.block(start, stop)

    return source._replace(block=block), asked


def begun(asked, n):
    """The blocks that workers have begun: n of them, and then no more for a while."""
    until = time.monotonic() + 30.0
    while len(asked) < n and time.monotonic() < until:
        time.sleep(0.001)
    time.sleep(0.05)
    return [edge for edge, _ in asked]


def test_the_first_blocks_of_a_pass_are_begun_by_workers():
    n, k = 45_000, 128  # five blocks and a half
    scores = np.arange(1.0 * n * k).reshape(n, k)
    source, asked = watched(score_source(scores))
    edges = list(row_blocks(n, block_rows(k)))
    with workers(2), blocks_ahead(source, like=LIKE) as ready:
        assert begun(asked, 4) == edges[:4]
        assert threading.get_ident() not in {thread for _, thread in asked}
        found = list(ready.map_blocks(ready.block, like=LIKE))
        assert sorted(edge for edge, _ in asked) == edges  # each was read once
        np.testing.assert_array_equal(np.concatenate(found), scores)
        for start, stop in ((0, n), (5, 9), edges[0]):
            np.testing.assert_array_equal(ready.block(start, stop), scores[start:stop])


@pytest.mark.parametrize(
    ("rows", "n_held"),
    [
        ([2**20 + 1, 1], 0),
        ([2**20, 1], 1),
        ([2**19, 2**19, 1], 2),
        ([2**19, 2**19 - 1, 1], 3),
        ([1, 2, 3], 3),
    ],
)
def test_no_more_is_held_than_memory_is_for(rows, n_held):
    source, asked = watched(score_source(np.broadcast_to(0.5, (2**21, 4))))
    assert HELD_ENTRIES == 4 * 2**20
    stops = list(accumulate(rows))
    edges = list(zip([0, *stops], stops, strict=False))
    with workers(2), blocks_ahead(source, like=LIKE, edges=edges):
        assert begun(asked, n_held) == edges[:n_held]


def test_what_ranks_read_together_is_not_begun():
    source, asked = watched(score_source(np.eye(9)))
    with workers(2), blocks_ahead(source._replace(in_turn=True), like=LIKE) as ready:
        assert begun(asked, 0) == []
        assert ready.in_turn
        np.testing.assert_array_equal(ready.block(2, 4), np.eye(9)[2:4])


def test_an_error_waits_until_the_block_is_asked_for():
    def block(start, stop):
        raise ZeroDivisionError

    source = score_source(np.eye(9))._replace(block=block)
    with workers(2), blocks_ahead(source, like=LIKE) as ready, pytest.raises(ZeroDivisionError):
        ready.block(0, 9)
    with workers(2), blocks_ahead(source, like=LIKE):
        pass


def problem(n, k):
    x = cone_features(n, 0, d=8)
    centers = unit_rows(np.random.default_rng(1).normal(size=(k, 8)) + x.mean(axis=0))
    return product_source(feature_source(x), centers), SizeBounds.from_ratios(
        k, n_samples=n, lower=0.9
    )


@pytest.mark.unjudged(reason="it lists the blocks that are read")
@pytest.mark.parametrize("n_threads", [2, 3])
def test_a_search_reads_no_block_twice_and_finds_the_same(n_threads):
    """Rows of the first pass and of samples, of which workers have begun some before."""
    n, k = 60_000, 20
    plain, bounds = problem(n, k)

    def found_on(threads):
        source, asked = watched(plain)
        taken = []
        source = source._replace(take=lambda ids: taken.append(len(ids)) or plain.take(ids))
        with workers(threads):
            found = assign_source(source, bounds, tol=1e-3)
        return found, sorted(edge for edge, _ in asked), sum(taken)

    expected, edges, n_taken = found_on(1)
    found, own_edges, own_taken = found_on(n_threads)
    assert edges[: 1 + n // block_rows(k)] == list(row_blocks(n, block_rows(k)))
    assert own_edges == edges
    assert own_taken == n_taken
    np.testing.assert_array_equal(found.labels, expected.labels)
    np.testing.assert_array_equal(found.prices, expected.prices)
    assert found.objective == expected.objective


def test_parts_of_a_pass_that_are_begun_are_those_that_it_reads():
    n, k = 5_000, 20
    plain, bounds = problem(n, k)
    source, asked = watched(plain)
    parts = parts_of_pass(n, k, like=LIKE)
    expected = averaged_prices(plain, bounds, np.zeros(k))
    with workers(2), blocks_ahead(source, like=LIKE, edges=parts) as ready:
        assert begun(asked, len(parts)) == parts
        found = averaged_prices(ready, bounds, np.zeros(k))
        assert len(asked) == len(parts)
    np.testing.assert_array_equal(found.prices, expected.prices)
    np.testing.assert_array_equal(found.change, expected.change)
