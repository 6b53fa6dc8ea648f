"""The kernel of augmenting paths and its heaps as Python, on exact problems with many ties."""

import math

import numpy as np
import pytest

from dualclust.algos.offline._augmenting_paths import augmenting_paths
from tests.backends.interpreted import ending
from tests.backends.test_augmenting_paths import candidates_of


@pytest.fixture
def kernels():
    with ending("numba_augmenting_paths") as module:
        yield module


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


def test_the_first_labels(kernels):
    """Nobody may move: what is left is where each row goes, and rows that tie go where there is
    most room, below the lower bound of a cluster with a positive price, else below the upper one.
    """
    for seed in range(30):
        rng = np.random.default_rng(seed)
        n, k = 12, int(rng.integers(2, 5))
        prices = rng.integers(-2, 3, size=k) / 4.0
        scores = rng.integers(0, 2, size=(n, k)) / 2.0 - prices * (rng.random((n, k)) < 0.8)
        values, clusters = candidates_of(scores, k, rng)
        lower = rng.integers(0, 4, size=k)
        upper = lower + rng.integers(0, 9, size=k)
        assert_conforms(kernels, values, clusters, prices, lower, upper, window=-1.0)


def test_scores_are_counted_from_the_first_of_their_row(kernels):
    """A constant added to a row changes nothing, however large it is."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        values, clusters = candidates_of(rng.integers(-9, 10, size=(12, 4)) / 8.0, 4, rng)
        starts = 2.0**49 * rng.choice([-1.0, 0.0, 1.0], size=(12, 1))
        prices, free = rng.integers(-9, 10, size=4) / 8.0, (np.zeros(4, int), np.full(4, 12))
        for given, sizes in ((prices, feasible(rng, 12, 4, 1)), (0.0 * prices, free)):
            plain = assert_conforms(kernels, values, clusters, given, *sizes)
            moved = assert_conforms(kernels, values + starts, clusters, given, *sizes)
            np.testing.assert_array_equal(plain[0], moved[0])
            np.testing.assert_array_equal(plain[1], moved[1])
            assert plain[2:] == moved[2:]
    # The second is so far behind that beside it the third would be as good as the others.
    values = np.asarray([[1.0, -(2.0**60), 1.0 - 2.0**-10, 1.0]])
    clusters, sizes = np.arange(4, dtype=np.int32)[None, :], np.zeros(4, dtype=np.int64)
    upper = np.asarray([1, 9, 9, 5])
    assert assert_conforms(kernels, values, clusters, np.zeros(4), sizes, upper)[0].tolist() == [3]


def test_a_sample_moves_whose_cluster_leads_by_the_window(kernels):
    values, clusters = np.asarray([[1.0, 0.5]]), np.asarray([[0, 1]], dtype=np.int32)
    sizes = np.asarray([0, 1])
    for window, moves in ((0.5, 1), (np.nextafter(0.5, 0.0), 0)):
        found = assert_conforms(kernels, values, clusters, np.zeros(2), sizes, sizes, window)
        assert (found[0].tolist(), found[2], found[4]) == ([moves], moves, moves == 0)


def test_prices_have_the_sign_of_their_bound_whatever_is_rounded(kernels):
    """Positive only where a count is the lower bound, negative only where it is the upper one."""
    signs = set()
    for seed in range(30):
        rng = np.random.default_rng(seed)
        n, k = 12, 4
        values, clusters = rng.normal(size=(n, k)), np.tile(np.arange(k, dtype=np.int32), (n, 1))
        values[:, 0] += 2.0
        lower, upper = feasible(rng, n, k, 2)
        prices = 0.1 * rng.normal(size=k)
        slots, prices, *_, stuck = assert_conforms(kernels, values, clusters, prices, lower, upper)
        counts = np.bincount(slots, minlength=k)
        assert not stuck
        assert (counts[prices > 0] == lower[prices > 0]).all()
        assert (counts[prices < 0] == upper[prices < 0]).all()
        signs |= set(np.sign(prices).tolist())
    assert signs == {-1.0, 0.0, 1.0}
