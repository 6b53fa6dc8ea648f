"""Engines of the smoothed dual's sums against their texts: equal up to the order of additions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dualclust.algos.offline._smoothed_dual import curvature, curvature_product, soft_counts
from tests.backends.rows import row_id, rows_of
from tests.backends.test_augmenting_paths import candidates_of
from tests.compare import to_numpy
from tests.examples import examples

KERNELS = {f.__name__: f for f in (soft_counts, curvature, curvature_product)}
ROWS_OF = {name: rows_of(name) for name in KERNELS}
problems = given(
    seed=st.integers(0, 2**32),
    n=st.integers(1, 12),
    k=st.integers(1, 7),
    width=st.integers(1, 7),
    log_temperature=st.floats(-6, 2),
)


def each_row(name):
    return pytest.mark.parametrize("row", ROWS_OF[name], ids=row_id)


def random_candidates(seed, n, k, width):
    rng = np.random.default_rng(seed)
    values, clusters = candidates_of(rng.normal(size=(n, k)), width, rng)
    return rng, values, clusters


def assert_conforms(row, name, *given_arrays, **options):
    """Of an engine, and of the text on the arrays of its library."""
    text = KERNELS[name].reference
    asarray = (lambda a: a) if row.library == "numpy" else row.arrays().asarray
    expected = text(*given_arrays, **options)
    for compute in (row.engine(), text):
        found = compute(*map(asarray, given_arrays), **options)
        assert isinstance(found, tuple) == isinstance(expected, tuple)
        a, b = (v if isinstance(v, tuple) else (v,) for v in (found, expected))
        for one, other in zip(a[:3], b[:3], strict=True):
            np.testing.assert_allclose(to_numpy(one), other, rtol=1e-9, atol=1e-9)
        if name == "soft_counts":  # rows and entries may be left out that have no curvature
            k, lists = given_arrays[2].shape[0], tuple(map(to_numpy, a[3:]))
            assert lists[0].shape == lists[1].shape
            matrices = [curvature.reference(*two, n_clusters=k) for two in (lists, b[3:])]
            np.testing.assert_allclose(*matrices, rtol=1e-9, atol=1e-9)
    return expected if isinstance(expected, tuple) else (expected,)


def shares_of(values, clusters, prices, temperature):
    """Shares of all candidates, and those that are on borders alone."""
    for f in (soft_counts.reference, soft_counts):
        yield f(values, clusters, prices, temperature=temperature)[3:]


@each_row("soft_counts")
@problems
@examples(60)
def test_soft_counts(row, seed, n, k, width, log_temperature):
    rng, values, clusters = random_candidates(seed, n, k, width)
    options = {"temperature": 10.0**log_temperature}
    found = assert_conforms(row, "soft_counts", values, clusters, rng.normal(size=k), **options)
    assert found[1].sum() == pytest.approx(n, abs=1e-9)


@each_row("soft_counts")
def test_shares_of_more_than_a_million_entries_near_the_best(row):
    """As many as a block of rows has where each may join 17,000 clusters for nearly the same."""
    n, k = 64, 17_000
    rng = np.random.default_rng(0)
    values = rng.uniform(size=(n, k))
    clusters = np.tile(np.arange(k, dtype=np.int32), (n, 1))
    asarray = (lambda a: a) if row.library == "numpy" else row.arrays().asarray
    found = row.engine()(*map(asarray, (values, clusters, np.zeros(k))), temperature=1.0)
    _, counts, _, p, names = map(to_numpy, found)
    weights = np.exp(values)
    expected = weights / weights.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(counts, expected.sum(axis=0), rtol=1e-9)
    np.testing.assert_allclose(np.take_along_axis(expected, names, axis=1), p, rtol=1e-9)


@each_row("curvature")
@problems
@examples(60)
def test_curvature(row, seed, n, k, width, log_temperature):
    rng, values, clusters = random_candidates(seed, n, k, width)
    for p, names in shares_of(values, clusters, rng.normal(size=k), 10.0**log_temperature):
        (matrix,) = assert_conforms(row, "curvature", p, names, n_clusters=k)
        np.testing.assert_allclose(matrix.sum(axis=0), 0.0, atol=1e-9)


@each_row("curvature_product")
@problems
@examples(60)
def test_curvature_product(row, seed, n, k, width, log_temperature):
    rng, values, clusters = random_candidates(seed, n, k, width)
    v = rng.normal(size=k)
    for p, names in shares_of(values, clusters, rng.normal(size=k), 10.0**log_temperature):
        (product,) = assert_conforms(row, "curvature_product", p, names, v)
        matrix = curvature.reference(p, names, n_clusters=k)
        np.testing.assert_allclose(product, matrix @ v, atol=1e-9)


@pytest.mark.parametrize("name", KERNELS)
def test_no_samples(name):
    for row in ROWS_OF[name]:
        values, clusters = np.zeros((0, 3)), np.zeros((0, 3), dtype=np.int32)
        if name == "soft_counts":
            assert_conforms(row, name, values, clusters, np.ones(4), temperature=0.5)
        elif name == "curvature":
            assert_conforms(row, name, values, clusters, n_clusters=4)
        else:
            assert_conforms(row, name, values, clusters, np.ones(4))
