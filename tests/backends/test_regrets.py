"""Engines of `regrets` against its text, to the bit, and the text against exact fractions."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dualclust.algos.offline._proof import regrets
from tests.backends.rows import row_id, rows_of
from tests.compare import to_numpy
from tests.examples import examples

ROWS = rows_of("regrets")
each_row = pytest.mark.parametrize("row", ROWS, ids=row_id)


def lists(rng, n, w, k, dtype):
    """Candidates of rows: some have fewer than others, and each has one."""
    values = rng.normal(size=(n, w)).astype(dtype)
    clusters = rng.integers(0, k, size=(n, w)).astype(np.int32)
    after = np.arange(w) >= rng.integers(1, w + 1, size=n)[:, None]
    values[after], clusters[after] = -math.inf, -1
    slots = rng.integers(0, w, size=n) % np.maximum((~after).sum(axis=1), 1)
    return values, clusters, slots


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
    values, clusters, slots = lists(rng, n, w, 5, dtype)
    prices = rng.normal(size=5) * 10.0 ** rng.integers(-9, 9)
    expected = regrets.reference(values, clusters, prices, slots)
    asarray = (lambda a: a) if row.library == "numpy" else row.arrays().asarray
    found = row.engine()(*(asarray(a) for a in (values, clusters, prices, slots)))
    np.testing.assert_array_equal(to_numpy(found), expected, strict=True)


def test_the_text_on_each_library(xp):
    rng = np.random.default_rng(0)
    values, clusters, slots = lists(rng, 40, 4, 6, "float32")
    prices = rng.normal(size=6)
    found = regrets.reference(*(xp.asarray(a) for a in (values, clusters, prices, slots)))
    for i, regret in enumerate(to_numpy(found)):
        assert regret == exact(values[i], clusters[i], prices, slots[i])


def exact(values, clusters, prices, slot):
    """What a row loses by its label, in fractions, rounded once."""
    worth = [
        Fraction(float(value)) + Fraction(float(prices[cluster]))
        for value, cluster in zip(values, clusters, strict=True)
        if cluster >= 0
    ]
    return float(max(worth) - worth[slot])


@pytest.mark.parametrize("offset", [1.0, 1e9, 1e17, 1e150])
def test_prices_far_above_the_scores_hide_nothing(offset):
    rng = np.random.default_rng(3)
    values, clusters, slots = lists(rng, 60, 5, 7, "float64")
    prices = offset * rng.integers(1, 3, 7).astype(np.float64)
    prices[0] += rng.normal()
    found = regrets(values, clusters, prices, slots)
    for i in range(60):
        assert found[i] == exact(values[i], clusters[i], prices, slots[i])


@each_row
def test_any_layout(row):
    rng = np.random.default_rng(0)
    values, clusters, slots = lists(rng, 30, 4, 6, "float64")
    prices = rng.normal(size=6)
    expected = regrets.reference(values, clusters, prices, slots)
    for layout in (np.asfortranarray, lambda a: np.repeat(a, 2, axis=0)[::2]):
        given = layout(values), layout(clusters), prices[::-1].copy()[::-1], slots
        asarray = (lambda a: a) if row.library == "numpy" else row.arrays().asarray
        found = row.engine()(*(asarray(a) for a in given))
        np.testing.assert_array_equal(to_numpy(found), expected)
