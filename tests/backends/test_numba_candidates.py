"""The kernel `select_candidates` as Python: widths, ties, rounding and rows that are not finite."""

import math

import numpy as np
import pytest

from dualclust.algos.offline._candidates import select_candidates
from dualclust.algos.offline._proof import regrets
from tests.backends.interpreted import ending


@pytest.fixture
def kernels():
    with ending("numba_candidates") as module:
        yield module


def assert_conforms(kernels, scores, low, high, width):
    with np.errstate(all="ignore"):
        expected = select_candidates.reference(scores, low, high, width=width)
        found = kernels.select_candidates(scores, low, high, width=width)
    usable = expected[2] > 0
    np.testing.assert_array_equal(found[2], expected[2], strict=True)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a[usable], b[usable], strict=True)
    assert (found[0][~usable] == -1).all()
    return found


def test_random_problems(kernels):
    for seed in range(60):
        rng = np.random.default_rng(seed)
        n, k = int(rng.integers(1, 5)), int(rng.integers(1, 10))
        dtype = (np.float32, np.float64)[seed % 2]
        scores = (rng.integers(-4, 5, size=(n, k)) / 4.0).astype(dtype)
        odd = rng.random((n, k)) < 0.1 * (seed % 3)
        scores[odd] = rng.choice([math.nan, math.inf, -math.inf, -math.inf], size=(n, k))[odd]
        middle, radius = rng.integers(-4, 5, k) / 4.0, rng.integers(0, 4, k) / 4.0
        assert_conforms(kernels, scores, middle - radius, middle + radius, int(rng.integers(1, 9)))


def test_any_number_of_clusters(kernels):
    for k in (63, 64, 65, 127, 128, 191, 200):
        rng = np.random.default_rng(k)
        scores = rng.normal(size=(3, k)).astype((np.float32, np.float64)[k % 2])
        scores[0] = np.round(scores[0])
        prices, radius = rng.normal(size=k), rng.exponential(size=k)
        for width in (2, k):
            assert_conforms(kernels, scores, prices - radius, prices + radius, width)
    for best in range(0, 130, 3):  # each cluster in turn is the best, and others tie with it
        scores = np.full((1, 130), -1.0)
        scores[0, [best, (best + 65) % 130]] = 0.0
        assert_conforms(kernels, scores, np.zeros(130), np.zeros(130), 3)


def test_clusters_within_rounding_of_the_threshold_are_candidates(kernels):
    both = 0
    for seed in range(90):
        rng, dtype = np.random.default_rng(seed), (np.float32, np.float64)[seed % 2]
        eps, offset = np.finfo(dtype).eps, (0.0, 1000.0, -1000.0)[seed % 3]
        low = rng.normal(size=2)
        high = low + rng.exponential(size=2)
        first = offset + rng.normal()
        size = abs(first + low[0]) + np.abs([low, high]).max()
        edge = first + low[0] - high[1] - (seed % 4 > 0) * 8.0 * eps * size
        scores = np.full((17, 2), first, dtype)
        scores[:, 1] = edge + eps * max(abs(edge), size) / 4.0 * np.arange(-8, 9)
        both += int((assert_conforms(kernels, scores, low, high, 2)[2] == 2).sum())
    assert 0.2 < both / (90 * 17) < 0.9


def test_wide_boxes_around_a_best_score_of_0(kernels):
    """The threshold is nearly 0: all that covers the rounding of a box is its own margin."""
    rng, eps = np.random.default_rng(0), float(np.finfo(np.float32).eps)
    for _ in range(60):
        high = np.asarray([0.0, rng.uniform(1, 8)], dtype=np.float32)
        low = np.asarray([0.0, -rng.uniform(1, 8)], dtype=np.float32)
        largest = max(abs(high[1]), abs(low[1]))
        scores = np.zeros((24, 2), np.float32)
        scores[:, 1] = -high[1] - eps * largest * np.linspace(5.0, 9.0, 24)
        assert_conforms(kernels, scores, low.astype(float), high.astype(float), 2)


def test_a_key_at_the_threshold_is_a_candidate(kernels):
    """Scores and prices of 0 leave no margin; a zero with a minus sign is as large."""
    for k in (3, 70):
        scores = np.zeros((2, k), np.float32)
        scores[1, ::2] = -0.0
        found = assert_conforms(kernels, scores, np.zeros(k), np.zeros(k), 4)
        assert found[2].tolist() == [k, k]


def test_layouts_and_byte_orders(kernels):
    scores = np.random.default_rng(0).normal(size=(5, 9))
    low, high = np.full(9, -0.25), np.full(9, 0.25)
    read_only = scores.copy()
    read_only.flags.writeable = False
    for layout in (np.asfortranarray(scores), scores[::-1, ::-1], scores.astype(">f8"), read_only):
        assert_conforms(kernels, layout, low, high, 4)


@pytest.mark.parametrize("width", [1, 4, 16])
def test_ties_begin_in_every_eight(kernels, width):
    """Row i keeps clusters i, i + 1 ...: those that tie with the last kept count too."""
    zeros = np.zeros(64)
    found = assert_conforms(kernels, np.zeros((40, 64)), zeros, zeros, width)
    expected = (np.arange(40)[:, None] + np.arange(width)) % 64
    np.testing.assert_array_equal(found[0], expected)


def test_long_lists_keep_the_largest_and_say_what_they_lose(kernels):
    """Hundreds of candidates: eights in which none reaches the last kept are passed over."""
    for seed in range(24):
        rng = np.random.default_rng(seed)
        k, width = int(rng.integers(60, 300)), int(rng.integers(1, 20))
        scores = rng.normal(size=(4, k)).astype((np.float32, np.float64)[seed % 2])
        scores[0], scores[1] = np.sort(scores[0]), np.sort(scores[1])[::-1]
        scores[2] = np.round(scores[2])  # ties
        low, high = np.full(k, -3.0), rng.choice([2.0, 3.0], size=k)
        clusters, values, n, truncation = assert_conforms(kernels, scores, low, high, width)
        assert (n > 2 * width).all()
        at_most = np.sort(scores + high.astype(scores.dtype), axis=1)[:, ::-1]
        np.testing.assert_array_equal(truncation, at_most[:, width])
        kept = np.take_along_axis(scores, clusters.astype(np.int64), axis=1)
        np.testing.assert_array_equal(values, kept)


@pytest.mark.parametrize("kind", ["f4", "f8"])
def test_the_largest_sum_by_its_bits(kernels, kind):
    """Of either sign, of zeros of both, of subnormals and of the largest numbers."""
    tiny, large = np.finfo(kind).smallest_subnormal, np.finfo(kind).max
    sets = ([1.0, 2.0], [-1.0, -2.0], [-1.0, 0.5], [-0.0, 0.0], [-0.0, -1.0], [-tiny, -2 * tiny])
    sets += ([tiny, -large], [large, tiny], [-large, -large / 2], [-math.inf, -large])
    for values in sets:
        for row in (values, values[::-1]):
            row, low = np.asarray(row, dtype=kind), np.zeros(2, dtype=kind)
            sums = np.empty(2, dtype=kind)
            assert kernels._row_max(row, low, sums, sums.view(f"i{kind[1]}")) == row.max()
    rng = np.random.default_rng(0)
    for _ in range(50):
        row, low = rng.normal(size=(2, 9)).astype(kind)
        sums = np.empty(9, dtype=kind)
        assert kernels._row_max(row, low, sums, sums.view(f"i{kind[1]}")) == (row + low).max()


def test_what_each_row_loses_by_its_label(kernels):
    for seed in range(60):
        rng = np.random.default_rng(seed)
        n, w, k = (int(rng.integers(1, m)) for m in (6, 7, 9))
        kind = (np.float32, np.float64, ">f4", ">f8")[seed % 4]
        values = (rng.integers(-9, 9, size=(n, w)) / 4.0).astype(kind)
        clusters = rng.integers(0, k, size=(n, w)).astype(np.int32)
        after = np.arange(w) >= rng.integers(1, w + 1, size=n)[:, None]
        values[after], clusters[after] = -math.inf, -1
        prices = rng.normal(size=k)
        prices.flags.writeable = seed % 3 > 0
        slots = rng.integers(0, w, size=n) % (~after).sum(axis=1)
        found = kernels.regrets(values, clusters, prices, slots)
        expected = regrets.reference(values, clusters, prices, slots)
        np.testing.assert_array_equal(found, expected, strict=True)


def test_a_rank_without_rows_has_no_candidates(kernels):
    for dtype in (np.float32, np.float64):
        found = assert_conforms(kernels, np.zeros((0, 5), dtype), np.zeros(5), np.ones(5), 3)
        assert [a.shape for a in found] == [(0, 3), (0, 3), (0,), (0,)]
