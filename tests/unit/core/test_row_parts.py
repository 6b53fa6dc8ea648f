"""Parts of rows and of a matrix, which threads share out, cover all of it in its order."""

from __future__ import annotations

from importlib import import_module

import array_api_strict
import numpy as np
import pytest

from dualclust.algos.core.workers import MOST_PARTS, map_parts, row_parts, workers

LIKE = np.zeros(1)
module = import_module("dualclust.algos.core.workers")  # the package shows the function


@pytest.mark.parametrize(
    ("n_rows", "least", "lengths"),
    [
        (0, 3, [0]),
        (1, 3, [1]),
        (6, 3, [3, 3]),
        (7, 3, [3, 3, 1]),
        (16, 1, [1] * 16),
        (33, 2, [3] * 11),
        (160, 1, [10] * 16),
        (161, 1, [11] * 14 + [7]),
    ],
)
def test_parts_cover_the_rows_in_their_order(n_rows, least, lengths):
    assert MOST_PARTS == 16
    parts = row_parts(n_rows, least, like=LIKE)
    assert [part.stop - part.start for part in parts] == lengths
    assert [i for part in parts for i in range(n_rows)[part]] == list(range(n_rows))
    with workers(3):
        assert row_parts(n_rows, least, like=LIKE) == parts


def test_rows_that_no_thread_of_ours_computes_are_one_part():
    like = array_api_strict.zeros(1)
    assert row_parts(100, 1, like=like) == [slice(0, 100)]
    assert row_parts(0, 1, like=like) == [slice(0, 0)]


@pytest.mark.parametrize("shape", [(0, 3), (1, 0), (5, 2), (40_000, 20), (3, 70_000)])
@pytest.mark.parametrize("n_threads", [1, 3])
def test_parts_of_a_matrix_are_its_rows(shape, n_threads):
    matrix = np.arange(shape[0] * shape[1]).reshape(shape)
    with workers(n_threads):
        parts = list(map_parts(lambda rows: rows, matrix))
    np.testing.assert_array_equal(np.concatenate(parts), matrix)
    assert len(parts) == {(40_000, 20): 13, (3, 70_000): 3}.get(shape, 1)  # at least a row each
    strict = array_api_strict.asarray(matrix)
    (whole,) = map_parts(lambda rows: rows, strict)
    assert whole.shape == shape
