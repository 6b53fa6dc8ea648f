"""The kernels `narrow_candidates` and `split_rows` as Python: no place is read beyond an end."""

import math

import numpy as np
import pytest

from dualclust.algos.offline._free_rows import narrow_candidates, split_rows
from tests.backends.interpreted import ending
from tests.backends.test_free_rows import assert_same, looked_at, random_lists


@pytest.fixture
def kernels():
    with ending("numba_free_rows") as module:
        yield module


def test_narrowed_lists(kernels):
    for seed in range(60):
        n, k, width = 1 + seed % 7, 1 + seed % 6, 1 + seed % 5
        dtype = ("float32", "float64")[seed // 2 % 2]
        rng, values, clusters = random_lists(seed, n, k, width, dtype)
        middle, radius = rng.integers(-8, 9, size=k) / 8.0, rng.integers(0, 9, size=k) / 16.0
        arrays = values, clusters, middle - radius, middle + radius
        width = clusters.shape[1] + seed % 3
        found = kernels.narrow_candidates(*arrays, width=width)
        assert_same(found, narrow_candidates.reference(*arrays, width=width))


def test_a_candidate_behind_by_less_than_the_margin_stays(kernels):
    """Eight units in the last place of the best priced score and of the largest price."""
    clusters = np.asarray([[0, 1]], dtype=np.int32)
    for dtype in ("float32", "float64"):
        eps, box = float(np.finfo(dtype).eps), np.asarray([3.0, 0.0])
        for units, n_left in ((7.0, 2), (9.0, 1)):
            # The best is 4 = 1 + 3, and the largest price 3.
            values = np.asarray([[1.0, 4.0 - 7.0 * units * eps]], dtype=dtype)
            found = kernels.narrow_candidates(values, clusters, box, box, width=2)
            assert_same(found, narrow_candidates.reference(values, clusters, box, box, width=2))
            assert found[2].tolist() == [n_left]


def test_the_largest_price_is_that_of_either_end(kernels):
    """Behind by 35 units, which the margin of a price of 4 covers, and that of 1 does not."""
    clusters, eps = np.asarray([[0, 1]], dtype=np.int32), 2.0**-52
    values = np.asarray([[0.5, 0.5 - 30.0 * eps]])
    for low, high, n_left in ((-4.0, 0.0, 2), (0.0, 4.0, 2), (-1.0, 1.0, 1), (0.0, 0.0, 1)):
        ends = np.asarray([0.0, 0.0, low]), np.asarray([0.0, 0.0, high])
        found = kernels.narrow_candidates(values, clusters, *ends, width=2)
        assert found[2].tolist() == [n_left]


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
    found = kernels.narrow_candidates(*lists, np.zeros(4), np.ones(4), width=5)
    assert [a.shape for a in found] == [(0, 5), (0, 5), (0,), (0,)]
    look = lists[1], lists[0], np.zeros(0, np.int64), np.zeros(0)
    found = kernels.split_rows(*look, n_clusters=4, largest=1.0, limit=1.0)
    assert [a.shape for a in found[:-1]] == [(0,), (0,), (0, 3), (0, 3), (0,), (1, 4), (1, 2)]
    assert found[-1] == -1
