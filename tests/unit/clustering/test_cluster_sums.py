"""Sums of a pass by hand: weights, blocks, ranks, and only what changed since the pass before."""

import math

import array_api_compat as compat
import numpy as np
import pytest

from dualclust.algos.clustering._cluster_sums import (
    PassSums,
    best_centers,
    gathered_sums,
    over_ranks,
    weighted_columns,
    weighted_means,
    weighted_sums,
)
from dualclust.algos.clustering._frame import Frame
from dualclust.algos.clustering.centers import CenterSums
from dualclust.algos.core.errors import InvalidValueError
from dualclust.algos.core.exact_sums import UNIT_GRID, Grid, sums_to_floats
from dualclust.algos.scores.sources import FeatureSource, alone, feature_source
from tests.compare import assert_equal, to_numpy
from tests.problems import unit_rows
from tests.refusals import message_of
from tests.thread_ranks import groups_on_threads

N, D, K = 23, 3, 4
GRID = Grid(8.0, 40, 2)
RNG = np.random.default_rng(0)
# Eighths and quarters: each product and each sum is exact.
X = RNG.integers(-60, 60, size=(N, D)) / 8.0
W = RNG.integers(0, 5, size=N) / 4.0
Y = RNG.integers(0, K - 1, size=N)  # the last cluster has no row
BEFORE = np.where(np.arange(N) % 3 == 1, (Y + 1) % K, Y)


def framed(source, *, weights=None, spherical=False, grid=GRID):
    """The frame of points as they are."""
    like = source.rows(0, 0)
    origin = compat.array_namespace(like).zeros((D,), dtype=like.dtype, device=compat.device(like))
    return Frame(source, source, grid, origin, 1.0, spherical, weights, 1.0)


def frame_on(xp, weights=None, x=X):
    return framed(feature_source(xp.asarray(x)), weights=weights)


def by_hand(labels, weights=None, x=X):
    """Sums of ``w x`` and ``w``, or of x, and counts; one row at a time."""
    sums, total, counts = np.zeros((K, D)), np.zeros(K), np.zeros(K, np.int64)
    for i, y in enumerate(labels):
        w = 1.0 if weights is None else weights[i]
        sums[y] += w * x[i]
        total[y] += w
        counts[y] += 1
    return sums, total, counts


def values(sums, weighted):
    """Sums as floats, and the weights among them."""
    if not weighted:
        return to_numpy(sums_to_floats(sums, GRID)), None
    floats = to_numpy(sums_to_floats(sums, GRID._replace(unit=1.0)))
    return floats[:, :-1] * GRID.unit, floats[:, -1]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("changed", [False, True])
@pytest.mark.parametrize("times", [1, 800], ids=["one block", "three blocks"])
def test_sums_are_those_of_a_loop(xp, weighted, changed, times):
    x, w, y, was = (np.concatenate([part] * times) for part in (X, W, Y, BEFORE))
    own = w if weighted else None
    frame = frame_on(xp, weights=xp.asarray(w) if weighted else None, x=x)
    before = None
    if changed:
        before = gathered_sums(frame, xp.asarray(was), K), xp.asarray(was)
    found = gathered_sums(frame, xp.asarray(y), K, before)
    sums, total, counts = by_hand(y, own, x)
    assert_equal(found.counts, xp.asarray(counts))
    floats, weights = values(found.sums, weighted)
    np.testing.assert_array_equal(floats, sums)
    if weighted:
        np.testing.assert_array_equal(weights, total)


class Counted(PassSums):
    """Which numbers of rows are added at a time."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.added = []

    def _add(self, rows, weights, labels, signs, check):
        self.added.append(rows.shape[0])
        super()._add(rows, weights, labels, signs, check)


@pytest.mark.parametrize("weights", [None, W])
def test_on_a_host_only_rows_whose_label_changed_are_looked_at(weights):
    frame = framed(feature_source(X), weights=weights)
    before = gathered_sums(frame, BEFORE, K), BEFORE
    changed = BEFORE != Y
    left = np.where(changed[:, None], X, np.nan)  # a row that is not looked at may be anything
    sums = Counted(frame, K, before)
    for start in (0, 8, 16):
        sums.add_block(left[start : start + 8], start, Y[start : start + 8])
    found, expected = sums.total(), gathered_sums(frame, Y, K)
    np.testing.assert_array_equal(found.sums, expected.sums)
    np.testing.assert_array_equal(found.counts, expected.counts)
    assert sums.added == [2 * int(changed[i : i + 8].sum()) for i in (0, 8, 16)]
    still = Counted(frame, K, (expected, Y))
    still.add_block(X, 0, Y)
    assert still.added == []
    assert still.total().counts.tolist() == expected.counts.tolist()


@pytest.mark.parametrize("changed", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_ranks_add_up_to_all_rows(weighted, changed):
    expected = gathered_sums(framed(feature_source(X), weights=W if weighted else None), Y, K)

    def work(group):
        first, last = group.first_row, group.first_row + group.n_local
        own = X[first:last]
        source = FeatureSource(D, lambda a, b: own[a:b], lambda ids: X[ids], group)
        frame, before = framed(source, weights=W if weighted else None), None
        if changed:
            before = gathered_sums(frame, BEFORE[first:last], K), BEFORE[first:last]
        return gathered_sums(frame, Y[first:last], K, before)

    for found in groups_on_threads([0, 8, 8, N], work):
        np.testing.assert_array_equal(found.sums, expected.sums)
        np.testing.assert_array_equal(found.counts, expected.counts)


def test_what_other_threads_hold_is_in_the_total():
    frame = framed(feature_source(X))
    sums = PassSums(frame, K)
    sums.add_block(X[:8], 0, Y[:8])
    held = sums.partial.pop()  # by another thread
    sums.add_block(X[8:], 8, Y[8:])
    sums.partial.append(held)
    assert len(sums.partial) == 2
    expected = gathered_sums(frame, Y, K)
    found = sums.total()
    np.testing.assert_array_equal(found.sums, expected.sums)
    np.testing.assert_array_equal(found.counts, expected.counts)


@pytest.mark.parametrize("value", [16.125, -16.125, math.inf, math.nan])
def test_an_entry_beyond_the_grid_is_refused(xp, value):
    """On a host with its block; elsewhere with all blocks, without a read for each."""
    frame = frame_on(xp)
    x = X.copy()
    x[3, 1] = value
    sums = PassSums(frame, K)

    def add_and_sum():
        sums.add_block(xp.asarray(x[8:]), 8, xp.asarray(Y[8:]))
        sums.add_block(xp.asarray(x[:8]), 0, xp.asarray(Y[:8]))
        sums.add_block(xp.asarray(x[:0]), 0, xp.asarray(Y[:0]))
        if not sums.largest:
            pytest.fail("a host checks each block")
        sums.total()

    told = message_of(InvalidValueError, add_and_sum)
    assert told.startswith("features must have the entries of the pass before, of at most 8, got")
    largest = PassSums(frame, K)
    largest.add_block(xp.asarray(np.full((1, D), 16.0)), 0, xp.asarray([1]))
    assert to_numpy(largest.total().counts).tolist() == [0, 1, 0, 0]


def test_columns_are_products_and_weights_with_their_sign(xp):
    rows, weights = xp.asarray([[4.0, -2.0], [1.0, 6.0]]), xp.asarray([0.5, 0.25])
    columns = weighted_columns(rows, weights, xp.asarray([1, -1]), Grid(8.0, 40, 2))
    assert to_numpy(columns).tolist() == [[0.25, -0.125, 0.5], [0.03125, 0.1875, -0.25]]


def test_weighted_means(xp):
    y = xp.asarray(np.where(Y == 0, 2, Y))  # nothing in the first and in the last
    w = np.where(Y == 1, 0.0, W + 0.25) * 0.5
    sums = weighted_sums(xp.asarray(X), xp.asarray(w), y, GRID, n_clusters=K)
    means, weight = weighted_means(sums, GRID)
    expected, total, _ = by_hand(np.where(Y == 0, 2, Y), w)
    assert total[[0, 1, 3]].tolist() == [0.0, 0.0, 0.0]
    np.testing.assert_array_equal(to_numpy(weight), total)
    expected[2] /= total[2]
    np.testing.assert_allclose(to_numpy(means), expected, rtol=1e-15)


def test_weights_far_below_the_unit_are_no_zeros(xp):
    """One row of a small weight is its own mean; entries beyond the unit are not looked for."""
    row, weight = xp.asarray([[20.0, -0.5]]), xp.asarray([2.0**-9])
    sums = weighted_sums(row, weight, xp.asarray([1]), GRID, n_clusters=2)
    means, total = weighted_means(sums, GRID)
    assert to_numpy(means).tolist() == [[0.0, 0.0], [20.0, -0.5]]
    assert to_numpy(total).tolist() == [0.0, 2.0**-9]
    source = feature_source(xp.asarray([[2.0, 6.0]]))
    previous = xp.asarray([[5.0, 5.0], [7.0, 7.0]])
    for weights in (None, weight):
        like = xp.asarray([0.0, 0.0])
        frame = Frame(source, source, GRID, like, 1.0, False, weights, 1.0)
        found = best_centers(frame, gathered_sums(frame, xp.asarray([0]), 2), previous)
        assert to_numpy(found).tolist() == [[2.0, 6.0], [7.0, 7.0]]


def test_sums_over_ranks_keep_their_shape(xp):
    sums = CenterSums(xp.asarray([[3, 4], [5, 6], [7, 8]]), xp.asarray([1, 0, 2]))
    found = over_ranks(alone(3), sums)
    assert_equal(found.sums, sums.sums)
    assert_equal(found.counts, sums.counts)


@pytest.mark.parametrize("spherical", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_best_centers_are_means_or_directions(xp, weighted, spherical):
    """A cluster without rows keeps its center, and so does one whose rows weigh nothing."""
    w = np.where(Y == 1, 0.0, W + 0.25)
    previous = unit_rows(np.random.default_rng(1).normal(size=(K, D))).astype(np.float32)
    frame = frame_on(xp, weights=xp.asarray(w) if weighted else None)
    frame = frame._replace(spherical=spherical)
    sums = gathered_sums(frame, xp.asarray(Y), K)
    found = best_centers(frame, sums, xp.asarray(previous))
    expected, own = previous.astype(float), w if weighted else np.ones(N)
    for j in (0, 2) if weighted else (0, 1, 2):
        expected[j] = np.average(X[Y == j], axis=0, weights=own[Y == j])
        expected[j] /= np.linalg.norm(expected[j]) if spherical else 1.0
    assert found.dtype == xp.asarray(previous).dtype
    np.testing.assert_allclose(to_numpy(found), expected, rtol=3e-7)
    kept = [1, 3] if weighted else [3]
    np.testing.assert_allclose(to_numpy(found)[kept], previous[kept], rtol=3e-7)


def test_a_direction_needs_no_division():
    """On the grid of unit rows the sum is the direction, whatever the count says."""
    frame = framed(feature_source(unit_rows(X)), spherical=True, grid=UNIT_GRID)
    sums = gathered_sums(frame, Y, K)
    halved = CenterSums(sums.sums, sums.counts * 0)
    previous = np.eye(K, D)
    np.testing.assert_array_equal(
        best_centers(frame, halved, previous), best_centers(frame, sums, previous)
    )
