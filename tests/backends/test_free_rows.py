"""The engines that split rows into fixed and free ones, against the text: equal to the bit."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dualclust.algos.offline._free_rows import free_rows, split_rows
from tests.backends.rows import row_id, rows_of
from tests.backends.test_augmenting_paths import candidates_of
from tests.compare import to_numpy
from tests.examples import examples

KERNELS = {f.__name__: f for f in (split_rows,)}
ROWS_OF = {name: rows_of(name) for name in KERNELS}
WRONG = -1
"""Place of the row that is wrong among what `split_rows` returns."""


def each_row(name):
    return pytest.mark.parametrize("row", ROWS_OF[name], ids=row_id)


def random_lists(seed, n, k, width, dtype):
    """Lists whose scores often tie or differ by what prices do."""
    rng = np.random.default_rng(seed)
    scores = rng.integers(-8, 9, size=(n, k)) / 8.0 if seed % 2 else rng.normal(size=(n, k))
    values, clusters = candidates_of(scores.astype(dtype), width, rng)
    return rng, values.astype(dtype), clusters


def looked_at(rng, values, clusters):
    """Numbers of candidates and truncations, as a look would have them; half the rows are fixed."""
    n_candidates = np.minimum((clusters >= 0).sum(axis=1), rng.integers(1, 3, size=len(values)))
    truncation = np.where(rng.random(len(values)) < 0.5, rng.normal(size=len(values)), -math.inf)
    return clusters, values, n_candidates.astype(np.int64), truncation


def assert_conforms(row, name, *given_arrays, **options):
    before = [array.copy() for array in given_arrays]
    expected = KERNELS[name].reference(*given_arrays, **options)
    asarray = (lambda a: a) if row.library == "numpy" else row.arrays().asarray
    found = row.engine()(*map(asarray, given_arrays), **options)
    assert_same(found, expected, sums_rounded=row.device == "cuda")
    for array, copy in zip(given_arrays, before, strict=True):
        np.testing.assert_array_equal(array, copy)
    return expected


def assert_same(found, expected, *, sums_rounded=False):
    """To the bit; on a device, whose order of additions is free, but for sums of scores."""
    assert len(found) == len(expected)
    if len(expected) == 8:
        assert found[WRONG] == expected[WRONG]
        assert isinstance(found[WRONG], int)
        if found[WRONG] >= 0:  # the rest has no use
            return
        found, expected = found[:WRONG], expected[:WRONG]
    if sums_rounded:
        *found, sums = found
        *expected, exact = expected
        np.testing.assert_allclose(to_numpy(sums), exact, rtol=1e-14, strict=True)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(to_numpy(a), b, strict=True)


sizes = given(
    seed=st.integers(0, 2**32),
    n=st.integers(0, 9),
    k=st.integers(1, 7),
    width=st.integers(1, 7),
    dtype=st.sampled_from(["float32", "float64"]),
)


@each_row("split_rows")
@sizes
@examples(100)
def test_rows_split(row, seed, n, k, width, dtype):
    rng, values, clusters = random_lists(seed, max(n, 1), k, width, dtype)
    look = [array[:n] for array in looked_at(rng, values, clusters)]
    for largest in (0.0, 3.0):
        found = assert_conforms(
            row, "split_rows", *look, n_clusters=k, largest=largest, limit=100.0
        )
        assert found[WRONG] == -1
        assert found[5].sum() + len(found[2]) == n


@each_row("split_rows")
def test_the_first_row_without_candidates(row):
    rng, values, clusters = random_lists(5, 8, 4, 3, "float64")
    look = looked_at(rng, values, clusters)
    options = {"n_clusters": 4, "largest": 1.0, "limit": 100.0}
    for wrong in ([5, 6], [0], [7]):
        look[2][wrong] = 0
        assert assert_conforms(row, "split_rows", *look, **options)[WRONG] == wrong[0]
        look[2][wrong] = 1


@each_row("split_rows")
@pytest.mark.parametrize("place", [(1, 0), (2, 0), (2, 2), (1, 2)])
def test_scores_beyond_the_limit(row, place):
    """Of row 1, which is fixed, the first alone counts, of row 2 all that are kept."""
    clusters = np.asarray([[0, 1, 2]] * 3, dtype=np.int32)
    values = np.zeros((3, 3))
    n_candidates, truncation = np.asarray([2, 1, 3]), np.full(3, -math.inf)
    for size in (-8.0, 8.0):
        values[place] = size
        look = clusters, values, n_candidates, truncation
        for limit, bad in ((8.0, -1), (7.9, -1 if place == (1, 2) else 0)):
            found = assert_conforms(
                row, "split_rows", *look, n_clusters=3, largest=0.0, limit=limit
            )
            assert found[WRONG] == bad
        assert found[2].dtype == np.int32


def test_the_texts_give_the_same_in_any_library(xp):
    rng, values, clusters = random_lists(4, 9, 5, 4, "float64")
    assert (clusters < 0).any()
    look = looked_at(rng, values, clusters)
    options = {"n_clusters": 5, "largest": 1.0, "limit": 9.0}
    found = split_rows.reference(*map(xp.asarray, look), **options)
    expected = split_rows.reference(*look, **options)
    for a, b in zip(found[:WRONG], expected[:WRONG], strict=True):
        np.testing.assert_allclose(to_numpy(a), b, rtol=1e-12, atol=1e-14)


def test_sums_do_not_depend_on_which_looks_come_together(xp):
    """As many as looks, each that of its own rows: ranks look at other rows together."""
    looks = []
    for seed in (2, 3, 5):
        rng, values, clusters = random_lists(seed, 7, 5, 4, "float64")
        looks.append(looked_at(rng, values * 1e3, clusters))
    lists = tuple(xp.asarray(np.concatenate(c)) for c in zip(*looks, strict=True))
    together, bad = free_rows(lists, [7] * len(looks), 5, 1.0)
    apart = [free_rows(tuple(map(xp.asarray, look)), [7], 5, 1.0)[0] for look in looks]
    assert bad == -1
    expected = np.concatenate([to_numpy(part.sums) for part in apart])
    np.testing.assert_array_equal(to_numpy(together.sums), expected, strict=True)
    counts = sum(to_numpy(part.counts) for part in apart)
    np.testing.assert_array_equal(to_numpy(together.counts), counts)


def test_a_difference_is_found():
    rng, values, clusters = random_lists(3, 6, 4, 3, "float32")
    look = looked_at(rng, values, clusters)
    found = split_rows.reference(*look, n_clusters=4, largest=0.0, limit=9.0)
    for i, array in enumerate(found[:WRONG]):
        other = np.flip(array, axis=0) + 1 if array.dtype != bool else ~array
        with pytest.raises(AssertionError):
            assert_same((*found[:i], other, *found[i + 1 :]), found)
    with pytest.raises(AssertionError):
        assert_same((*found[:WRONG], 0), found)


@pytest.mark.parametrize("kind", ["<f4", ">f4", "<f8", ">f8"])
def test_arrays_of_any_layout(kind):
    (row,) = (row for row in ROWS_OF["split_rows"] if row.library == "numpy")
    rng, values, clusters = random_lists(1, 9, 5, 4, kind[1:])
    values = np.asfortranarray(values.astype(kind))
    clusters = np.asfortranarray(clusters)
    values.flags.writeable = clusters.flags.writeable = False
    look = looked_at(rng, values, clusters)
    found = row.engine()(*look, n_clusters=5, largest=1.0, limit=9.0)
    expected = split_rows.reference(*look, n_clusters=5, largest=1.0, limit=9.0)
    assert found[3].dtype == np.dtype(kind).newbyteorder("=")
    assert_same(found, (*(np.asarray(a, a.dtype.newbyteorder("=")) for a in expected[:-1]), -1))
