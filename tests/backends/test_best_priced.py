"""Engines of `best_priced` against its text: the same operations on float64, so equal bits."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dualclust.algos.offline._proof import best_priced
from tests.backends.rows import row_id, rows_of
from tests.compare import to_numpy
from tests.examples import examples

ROWS = rows_of("best_priced")
each_row = pytest.mark.parametrize("row", ROWS, ids=row_id)


def lists(rng, n, w, k, dtype):
    """Candidates of rows: some have fewer than others, and each has one."""
    values = rng.normal(size=(n, w)).astype(dtype)
    clusters = rng.integers(0, k, size=(n, w)).astype(np.int32)
    after = np.arange(w) >= rng.integers(1, w + 1, size=n)[:, None]
    values[after], clusters[after] = -math.inf, -1
    return values, clusters


@each_row
@given(
    seed=st.integers(0, 2**32),
    n=st.integers(0, 9),
    w=st.integers(1, 6),
    dtype=st.sampled_from(["float32", "float64"]),
)
@examples(60)
def test_an_engine_gives_the_bits_of_the_text(row, seed, n, w, dtype):
    rng = np.random.default_rng(seed)
    values, clusters = lists(rng, n, w, 5, dtype)
    prices = rng.normal(size=5) * 10.0 ** rng.integers(-9, 9)
    expected = best_priced.reference(values, clusters, prices)
    asarray = (lambda a: a) if row.library == "numpy" else row.arrays().asarray
    found = row.engine()(*(asarray(a) for a in (values, clusters, prices)))
    np.testing.assert_array_equal(to_numpy(found), expected, strict=True)


def test_the_text_on_each_library(xp):
    rng = np.random.default_rng(0)
    values, clusters = lists(rng, 40, 4, 6, "float32")
    prices = rng.normal(size=6)
    found = best_priced.reference(*(xp.asarray(a) for a in (values, clusters, prices)))
    for i, best in enumerate(to_numpy(found)):
        there = clusters[i] >= 0
        scores = values[i, there].astype(np.float64)
        assert best == (scores - scores[0] + prices[clusters[i, there]]).max()


@each_row
def test_any_layout(row):
    rng = np.random.default_rng(0)
    values, clusters = lists(rng, 30, 4, 6, "float64")
    prices = rng.normal(size=6)
    expected = best_priced.reference(values, clusters, prices)
    for layout in (np.asfortranarray, lambda a: np.repeat(a, 2, axis=0)[::2]):
        given = layout(values), layout(clusters), prices[::-1].copy()[::-1]
        asarray = (lambda a: a) if row.library == "numpy" else row.arrays().asarray
        found = row.engine()(*(asarray(a) for a in given))
        np.testing.assert_array_equal(to_numpy(found), expected)
