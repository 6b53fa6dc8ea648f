"""Engines of `augmenting_paths` against its text, on exact arithmetic: slots, prices and moves."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dualclust.algos.offline._augmenting_paths import augmenting_paths
from tests.backends.rows import row_id, rows_of
from tests.compare import to_numpy
from tests.examples import examples
from tests.problems import dyadic_streams

ROWS = rows_of("augmenting_paths")
each_row = pytest.mark.parametrize("row", ROWS, ids=row_id)


def candidates_of(scores, width, rng):
    """Some clusters of each row, in any order, and -1 where a row has fewer."""
    n, k = scores.shape
    clusters = np.stack([rng.permutation(k) for _ in range(n)])[:, :width].astype(np.int32)
    lengths = rng.integers(1, clusters.shape[1] + 1, size=n)
    clusters[np.arange(clusters.shape[1]) >= lengths[:, None]] = -1
    values = np.take_along_axis(scores, np.maximum(clusters, 0), axis=1)
    return np.where(clusters >= 0, values, -np.inf), clusters


def assert_conforms(row, values, clusters, prices, lower, upper, window=math.inf, parents=None):
    arrays = (values, clusters, prices)
    before = [array.copy() for array in arrays]
    tree = {} if parents is None else {"parents": parents}
    expected = augmenting_paths.reference(*arrays, lower=lower, upper=upper, window=window, **tree)
    asarray = (lambda a: a) if row.library == "numpy" else row.arrays().asarray
    bounds = {"lower": lower, "upper": upper, **tree}
    bounds = {name: asarray(array) for name, array in bounds.items()}
    found = row.engine()(*map(asarray, arrays), **bounds, window=window)
    assert found[2:] == expected[2:]
    for a, b in zip(found[:2], expected[:2], strict=True):
        np.testing.assert_array_equal(to_numpy(a), b, strict=True)
    for array, copy in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(array, copy)
    return expected


@each_row
@given(
    stream=dyadic_streams(),
    seed=st.integers(0, 2**32),
    width=st.integers(1, 5),
    window=st.sampled_from([math.inf, 0.0, 0.25]),
)
@examples(150)
def test_an_engine_gives_the_bits_of_the_reference(row, stream, seed, width, window):
    k = stream.scores.shape[1]
    rng = np.random.default_rng(seed)
    for prices in (np.zeros(k), rng.integers(-16, 17, size=k) / 16.0):
        for dtype in (np.float32, np.float64):
            values, clusters = candidates_of(stream.scores.astype(dtype), width, rng)
            assert_conforms(row, values, clusters, prices, stream.lower, stream.upper, window)


@each_row
@given(
    stream=dyadic_streams(),
    seed=st.integers(0, 2**32),
    width=st.integers(1, 5),
    n_sets=st.integers(0, 3),
)
@examples(100)
def test_bounds_on_sets_of_clusters_are_a_tree(row, stream, seed, width, n_sets):
    """Some clusters in sets, each of which may lie in a later one; rows may be at sets as well."""
    k = stream.scores.shape[1]
    rng, n_nodes = np.random.default_rng(seed), k + n_sets
    parents = np.asarray([rng.integers(max(v + 1, k), n_nodes + 1) for v in range(n_nodes)])
    prices = rng.integers(-16, 17, size=n_nodes) / 16.0
    n, own = len(stream.scores), rng.integers(0, n_nodes, size=len(stream.scores))
    counts = np.bincount(own, minlength=n_nodes + 1)
    for v in range(n_nodes):
        counts[parents[v]] += counts[v]
    lower = np.maximum(counts[:-1] - rng.integers(0, 3, n_nodes), 0)
    upper = counts[:-1] + rng.integers(0, 3, n_nodes)
    scores = np.concatenate([stream.scores, rng.integers(-16, 17, size=(n, n_sets)) / 16.0], axis=1)
    values, clusters = candidates_of(scores, width, rng)
    slots, found, *_, stuck = assert_conforms(
        row, values, clusters, prices, lower, upper, parents=parents
    )
    if stuck or not n:
        return
    at = np.take_along_axis(clusters, slots[:, None], axis=1)[:, 0]
    counts = np.bincount(at, minlength=n_nodes + 1)
    for v in range(n_nodes):
        counts[parents[v]] += counts[v]
    adds = found - np.append(found, 0.0)[parents]
    assert (lower <= counts[:-1]).all()
    assert (counts[:-1] <= upper).all()
    assert (counts[:-1][adds > 0] == lower[adds > 0]).all()
    assert (counts[:-1][adds < 0] == upper[adds < 0]).all()
    priced = np.where(clusters >= 0, values + found[np.maximum(clusters, 0)], -np.inf)
    assert (priced.max(axis=1) == np.take_along_axis(priced, slots[:, None], axis=1)[:, 0]).all()


@each_row
@pytest.mark.parametrize("k", [1, 3, 17, 65])
@pytest.mark.parametrize("slack", [0, 1])
def test_many_clusters_and_few_samples(row, k, slack):
    rng = np.random.default_rng(k)
    scores = rng.integers(-16, 17, size=(12, k)) / 16.0
    scores[:, 0] += 1.0
    sizes = np.bincount(rng.integers(0, k, size=12), minlength=k)
    clusters = np.tile(np.arange(k, dtype=np.int32), (12, 1))
    lower, upper = np.maximum(sizes - slack, 0), sizes + slack
    *_, stuck = assert_conforms(row, scores, clusters, np.zeros(k), lower, upper)
    assert not stuck


@each_row
@pytest.mark.parametrize("most", [1, 2, 99])
def test_paths_end_when_the_time_is_up(row, most):
    """It is looked at after as many paths everywhere; without an end, slices change no bit."""
    rng = np.random.default_rng(0)
    n, k = 200, 8
    scores = rng.integers(-2000, 2001, size=(n, k)) / 1024.0
    scores[:, 0] += 4.0
    clusters = np.tile(np.arange(k, dtype=np.int32), (n, 1))
    sizes = np.full(k, n // k)
    whole = assert_conforms(row, scores, clusters, np.zeros(k), sizes, sizes)
    asarray = (lambda a: a) if row.library == "numpy" else row.arrays().asarray
    found = []
    for run, wrap in ((augmenting_paths.reference, lambda a: a), (row.engine(), asarray)):
        looks = []

        def is_over(looks=looks):
            looks.append(1)
            return len(looks) == most

        bounds = {"lower": wrap(sizes), "upper": wrap(sizes)}
        arrays = map(wrap, (scores, clusters, np.zeros(k)))
        found.append([*run(*arrays, **bounds, window=math.inf, is_over=is_over), len(looks)])
    (slots, prices, *rest), (others, moved, *same) = found
    np.testing.assert_array_equal(to_numpy(others), slots)
    np.testing.assert_array_equal(to_numpy(moved), prices)
    assert rest == same
    if most == 99:
        assert rest[:3] == [*whole[2:]]
        assert rest[1] // 32 == rest[3] > 2
    else:
        assert rest[1:] == [32 * most, True, most]


@each_row
def test_samples_that_are_alike_move_together(row):
    scores = np.repeat(np.asarray([[1.0, 0.5, 0.0], [1.0, 0.0, 0.75]]), 50, axis=0)
    clusters = np.tile(np.arange(3, dtype=np.int32), (100, 1))
    sizes = np.asarray([30, 40, 30])
    slots, _, moves, _, stuck = assert_conforms(row, scores, clusters, np.zeros(3), sizes, sizes)
    assert (moves, stuck) == (70, False)
    assert np.bincount(slots).tolist() == sizes.tolist()


@each_row
def test_candidates_that_allow_no_labels_leave_it_stuck(row):
    values, clusters = np.ones((3, 1)), np.zeros((3, 1), dtype=np.int32)
    bounds = np.asarray([1, 2]), np.asarray([1, 2])
    assert assert_conforms(row, values, clusters, np.zeros(2), *bounds)[-1]


@each_row
def test_no_samples(row):
    values, clusters = np.ones((0, 2)), np.zeros((0, 2), dtype=np.int32)
    found = assert_conforms(
        row, values, clusters, np.zeros(2), np.zeros(2, np.int64), np.ones(2, np.int64)
    )
    assert found[2:] == (0, 0, False)
