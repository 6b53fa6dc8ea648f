"""The sums of the smoothed dual as Python: idle places, ties, weights of 0 and labels of 1."""

import math

import numpy as np
import pytest

from dualclust.algos.offline._smoothed_dual import curvature, soft_counts
from dualclust.backends import engine
from tests.backends.interpreted import ending
from tests.backends.test_augmenting_paths import candidates_of


@pytest.fixture
def kernels():
    with ending("numba_smoothed_dual") as module:
        yield module


def problems():
    """Ties, rows that are all in one cluster, and between them."""
    for seed in range(24):
        rng = np.random.default_rng(seed)
        n, k = int(rng.integers(1, 9)), int(rng.integers(1, 6))
        scores = rng.normal(size=(n, k)) if seed % 2 else rng.integers(-3, 4, size=(n, k)) / 2.0
        values, clusters = candidates_of(scores, int(rng.integers(1, k + 2)), rng)
        values = values.astype(np.float32) if seed % 5 == 0 else values
        yield values, clusters, rng.integers(-2, 3, size=k) / 2.0, 10.0 ** rng.uniform(-3, 1)


def on_borders(p, clusters):
    """The rows with several clusters: the clusters that have weight, in order, and their shares."""
    rows = [(a[s > 0.0], s[s > 0.0]) for s, a in zip(p, clusters, strict=True)]
    return [row for row in rows if len(row[0]) > 1]


def assert_alike(found, expected):
    """Equal sums; and of all rows those on borders, what has weight first, and nothing after it."""
    for a, b in zip(found[:3], expected[:3], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)
    (p, names), rows = found[3:], on_borders(*expected[3:])
    assert (p.dtype, names.dtype) == (expected[3].dtype, np.int32)
    assert p.shape == names.shape == (len(rows), expected[3].shape[1])
    for shares, clusters, (own_clusters, own_shares) in zip(p, names, rows, strict=True):
        width = len(own_clusters)
        assert clusters.tolist() == own_clusters.tolist() + [-1] * (len(clusters) - width)
        np.testing.assert_allclose(shares[:width], own_shares, rtol=1e-6)
        assert not shares[width:].any()


def test_soft_counts(kernels):
    for values, clusters, prices, temperature in problems():
        arrays = (values, clusters, prices)
        with engine("reference"):
            expected = soft_counts.reference(*arrays, temperature=temperature)
        assert_alike(kernels.soft_counts(*arrays, temperature=temperature), expected)


def test_what_is_far_behind_has_no_weight_at_all(kernels):
    """24 temperatures, as in the reference: a little nearer there is one."""
    values = np.asarray([[0.0, -23.5], [0.0, -24.0], [0.0, -24.5], [0.0, -40.0]])
    clusters = np.tile(np.asarray([1, 0], dtype=np.int32), (4, 1))
    for temperature in (1.0, 0.25):
        arrays = (values * temperature, clusters, np.zeros(2))
        found = kernels.soft_counts(*arrays, temperature=temperature)
        least = math.exp(-23.5) / (1.0 + math.exp(-23.5))
        assert found[1].tolist() == pytest.approx([least, 4.0 - least], abs=1e-14)
        assert found[2].tolist() == pytest.approx([least, least], abs=1e-14)
        with engine("reference"):
            assert_alike(found, soft_counts.reference(*arrays, temperature=temperature))


def test_rows_inside_a_cluster_are_counted_and_not_listed(kernels):
    """Weights of the other clusters add up to 2^-14: 14 ln 2 = 9.704 temperatures of one."""
    gaps = [0.0, 9.70, 9.71, 30.0]
    values = np.asarray([[0.0, -gap, -gap - 1.0] for gap in gaps])
    clusters = np.tile(np.asarray([1, 0, -1], dtype=np.int32), (4, 1))
    values[:, 2] = -np.inf
    clusters[1, 2], values[1, 1:] = 2, -9.70 - math.log(2.0)  # two that have as much together
    found = kernels.soft_counts(values, clusters, np.zeros(3), temperature=1.0)
    assert found[4].tolist() == [[1, 0, -1], [1, 0, 2]]
    assert found[1].sum() == pytest.approx(4.0, abs=1e-14)
    with engine("reference"):
        expected = soft_counts.reference(values, clusters, np.zeros(3), temperature=1.0)
        assert_alike(found, expected)
        assert expected[3].any(axis=1).tolist() == [True, True, False, False]


def probabilities():
    for seed in range(12):
        rng = np.random.default_rng(seed)
        k = int(rng.integers(2, 6))
        values, clusters = candidates_of(rng.normal(size=(6, k)), k, rng)
        p = np.where(clusters >= 0, np.exp(values), 0.0)
        p[seed % 3 :: 3] = p[seed % 3 :: 3] == p[seed % 3 :: 3].max(axis=1, keepdims=True)
        p /= p.sum(axis=1, keepdims=True)
        yield p, clusters, rng.normal(size=k)


def test_curvature(kernels):
    for p, clusters, v in probabilities():
        expected = curvature.reference(p, clusters, n_clusters=len(v))
        found = kernels.curvature(p, clusters, n_clusters=len(v))
        np.testing.assert_allclose(found, expected, atol=1e-14, strict=True)
        product = kernels.curvature_product(p, clusters, v)
        np.testing.assert_allclose(product, expected @ v, atol=1e-14, strict=True)


def test_halves_count_and_rows_of_one_cluster_do_not_change_a_bit(kernels):
    half = np.asarray([[0.5, 0.5], [0.3, 0.7], [0.9, 0.1]])
    clusters = np.asarray([[0, 1], [2, 0], [1, 2]], dtype=np.int32)
    hard = np.asarray([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    lists = np.asarray([[0, 1], [1, 2], [2, -1]], dtype=np.int32)
    both, all_lists = np.concatenate([half, hard]), np.concatenate([clusters, lists])
    v = np.asarray([0.3, -0.7, 0.1])
    matrix = kernels.curvature(half, clusters, n_clusters=3)
    np.testing.assert_allclose(matrix[0, 1], -0.25)
    np.testing.assert_array_equal(kernels.curvature(both, all_lists, n_clusters=3), matrix)
    product = kernels.curvature_product(half, clusters, v)
    np.testing.assert_allclose(product, matrix @ v, atol=1e-15)
    np.testing.assert_array_equal(kernels.curvature_product(both, all_lists, v), product)


@pytest.mark.parametrize("n", [63, 64, 65, 128, 150])
def test_rows_are_taken_64_at_a_time(kernels, n):
    """With all of them near, which fills what is held of a block, and with few."""
    rng, k = np.random.default_rng(n), 3
    clusters = np.stack([rng.permutation(k) for _ in range(n)]).astype(np.int32)
    values = np.take_along_axis(rng.normal(size=(n, k)), clusters.astype(np.int64), axis=1)
    values[5::7, 2], clusters[5::7, 2] = -np.inf, -1
    prices = np.asarray([0.3, 0.0, -0.2])
    for temperature in (5.0, 0.02):
        with engine("reference"):
            expected = soft_counts.reference(values, clusters, prices, temperature=temperature)
        found = kernels.soft_counts(values, clusters, prices, temperature=temperature)
        assert_alike(found, expected)
        assert 0 < len(found[4]) <= n if temperature == 5.0 else len(found[4]) < n / 2


def test_the_exponential_of_the_kernel(kernels):
    """To three units in the last place from 0 down to 24 temperatures; the rest stays."""
    x = np.concatenate([np.linspace(-24.0, 0.0, 400), -np.logspace(-18, 0, 40), [-0.0, 7.0]])
    n = len(x) - 1
    found, shifted = x.copy(), np.zeros(len(x))
    kernels._exponentials(found, shifted, n)
    np.testing.assert_allclose(found[:n], np.exp(x[:n]), rtol=3 * np.finfo(np.float64).eps)
    assert found[[399, n - 1]].tolist() == [1.0, 1.0]
    assert (found[n], shifted[n]) == (7.0, 0.0)
