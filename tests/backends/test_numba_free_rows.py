"""The kernel `split_rows` as Python: no place is read beyond an end."""

import math

import numpy as np
import pytest

from dualclust.algos.offline._free_rows import split_rows
from tests.backends.interpreted import ending
from tests.backends.test_free_rows import assert_same, looked_at, random_lists


@pytest.fixture
def kernels():
    with ending("numba_free_rows") as module:
        yield module


def test_rows_split(kernels):
    for seed in range(60):
        n, k, width = 1 + seed % 7, 1 + seed % 6, 1 + seed % 5
        dtype = ("float32", "float64")[seed // 2 % 2]
        rng, values, clusters = random_lists(seed, n, k, width, dtype)
        look = looked_at(rng, values, clusters)
        for largest in (0.0, 2.0):
            options = {"n_clusters": k, "largest": largest, "limit": 100.0}
            assert_same(
                kernels.split_rows(*look, **options), split_rows.reference(*look, **options)
            )


@pytest.mark.parametrize(
    ("n_candidates", "limit", "wrong"),
    [([1, 2, 0], 9.0, 2), ([0, 0, 1], 9.0, 0), ([2, 1, 1], 8.0, -1), ([2, 1, 1], 7.0, 0)],
)
def test_what_is_wrong(kernels, n_candidates, limit, wrong):
    clusters = np.asarray([[0, 1]] * 3, dtype=np.int32)
    values = np.asarray([[1.0, 0.5], [-8.0, -9.0], [2.0, -math.inf]])
    look = clusters, values, np.asarray(n_candidates), np.full(3, -math.inf)
    options = {"n_clusters": 2, "largest": 1.0, "limit": limit}
    assert kernels.split_rows(*look, **options)[-1] == wrong
    assert split_rows.reference(*look, **options)[-1] == wrong


def test_no_rows(kernels):
    lists = np.zeros((0, 3)), np.zeros((0, 3), np.int32)
    look = lists[1], lists[0], np.zeros(0, np.int64), np.zeros(0)
    found = kernels.split_rows(*look, n_clusters=4, largest=1.0, limit=1.0)
    assert [a.shape for a in found[:-1]] == [(0,), (0,), (0, 3), (0, 3), (0,), (1, 4), (1, 2)]
    assert found[-1] == -1
