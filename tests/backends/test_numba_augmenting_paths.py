"""The kernel of augmenting paths and its heaps as Python, on exact problems with many ties."""

import math

import numpy as np
import pytest

from dualclust.algos.offline._augmenting_paths import augmenting_paths
from tests.backends.interpreted import interpreted
from tests.backends.test_augmenting_paths import candidates_of


@pytest.fixture(scope="module")
def kernels():
    return interpreted("numba_augmenting_paths")


def assert_conforms(kernels, values, clusters, prices, lower, upper, window=math.inf):
    options = {"lower": lower, "upper": upper, "window": window}
    expected = augmenting_paths.reference(values, clusters, prices, **options)
    before = prices.copy()
    found = kernels.augmenting_paths(values, clusters, prices, **options)
    assert found[2:] == expected[2:]
    for a, b in zip(found[:2], expected[:2], strict=True):
        np.testing.assert_array_equal(a, b, strict=True)
    np.testing.assert_array_equal(prices, before)
    return found


def feasible(rng, n, k, slack):
    sizes = np.bincount(rng.integers(0, k, size=n), minlength=k)
    return np.maximum(sizes - rng.integers(0, slack + 1, k), 0), sizes + rng.integers(
        0, slack + 1, k
    )


def test_random_problems(kernels):
    """Few levels make ties; a scale of 2^-70 shows what is added to a distance that is exact."""
    for seed in range(40):
        rng = np.random.default_rng(seed)
        n, k = int(rng.integers(1, 20)), int(rng.integers(1, 6))
        unit = 2.0 ** -int(rng.choice([1, 4, 70]))
        scores = rng.integers(-6, 7, size=(n, k)) * unit
        scores[:, 0] += 4 * unit * (seed % 2)
        values, clusters = candidates_of(scores, int(rng.integers(1, k + 2)), rng)
        prices = rng.integers(-6, 7, size=k) * unit * (seed % 3 > 0)
        window = (math.inf, math.inf, 0.0, 2 * unit)[seed % 4]
        given = values.astype(np.float32) if seed % 5 == 0 else values
        assert_conforms(kernels, given, clusters, prices, *feasible(rng, n, k, seed % 3), window)


def test_long_paths_over_full_lists(kernels):
    """All clusters are candidates, sizes are fixed, and all samples begin in one cluster."""
    for seed in range(6):
        rng = np.random.default_rng(seed)
        n, k = 30, 5
        scores = rng.integers(-9, 10, size=(n, k)) / 16.0
        scores[:, seed % k] += 2.0
        clusters = np.stack([rng.permutation(k) for _ in range(n)]).astype(np.int32)
        values = np.take_along_axis(scores, clusters.astype(np.int64), axis=1)
        sizes = feasible(rng, n, k, 0)
        *_, stuck = assert_conforms(kernels, values, clusters, np.zeros(k), *sizes)
        assert not stuck


def test_samples_that_are_alike_move_together_whatever_the_order_of_their_candidates(kernels):
    scores = np.repeat([[1.0, 0.5, 0.0], [1.0, 0.0, 0.75]], 10, axis=0)
    sizes = np.asarray([6, 8, 6])
    for order in ([0, 1, 2], [1, 0, 2], [2, 1, 0]):
        clusters = np.tile(np.asarray(order, dtype=np.int32), (20, 1))
        slots, _, moves, paths, stuck = assert_conforms(
            kernels, scores[:, order], clusters, np.zeros(3), sizes, sizes
        )
        assert (moves, paths, stuck) == (14, 2, False)
        assert np.bincount(np.asarray(order)[slots]).tolist() == sizes.tolist()


def test_samples_that_lose_more_and_more_move_one_at_a_time(kernels):
    """The first sample alone loses least, and its candidate is the first node of all heaps."""
    scores = np.stack([0.5 - np.arange(8) / 16.0, np.ones(8)], axis=1)
    clusters = np.tile(np.arange(2, dtype=np.int32), (8, 1))
    for rows in (slice(None), slice(None, None, -1)):
        slots, _, moves, paths, _ = assert_conforms(
            kernels, scores[rows], clusters, np.zeros(2), np.asarray([5, 0]), np.asarray([8, 8])
        )
        assert (moves, paths) == (5, 5)
        assert slots[rows].tolist() == [0] * 5 + [1] * 3


def test_candidates_that_allow_no_labels_leave_it_stuck(kernels):
    values, clusters = np.ones((3, 1)), np.zeros((3, 1), dtype=np.int32)
    sizes = np.asarray([1, 2])
    assert assert_conforms(kernels, values, clusters, np.zeros(2), sizes, sizes)[-1]


def test_empty_heaps_have_no_roots_and_nobody_waits(kernels):
    heaps = kernels.h.empty_heaps(np.asarray([3, 5, 9, 11]), 2, 3)
    assert [a.shape for a in heaps] == [(8, 3), (8,), (3, 3), (4, 3)]
    assert [a.dtype for a in heaps] == [np.int32, np.float64, np.int32, np.int32]
    assert heaps.of_sample[:, kernels.h.ROW].tolist() == [3, 5, 9, 11]
    assert (heaps.of_cluster < 0).all()
