"""Centers of empty clusters: which rows they move to, and from which distance on."""

import numpy as np
import pytest

from dualclust.algos.clustering._empty_clusters import relocate_empty
from dualclust.algos.clustering._frame import Frame
from dualclust.algos.core.exact_sums import Grid
from dualclust.algos.scores.sources import FeatureSource, alone, feature_source
from tests.compare import assert_equal, to_numpy
from tests.thread_ranks import groups_on_threads

FINE = Grid(1.0, 50, 2)


def framed(source, origin, unit=1.0, *, weights=None, spherical=False, grid=FINE):
    """A frame of these numbers, whatever the rows are: `frame_of` would choose others."""
    inside = source._replace(rows=None, take=None)  # only the rows as they are may be read
    return Frame(source, inside, grid, origin, unit, spherical, weights, 1.0)


def test_movable_centers_take_the_farthest_rows_in_order(xp):
    """Both coordinates count, weights do, and the lowest of equally far rows comes first."""
    x = np.asarray([[4.0, 0.0], [3.0, 3.0], [0.0, 1.0], [9.0, 5.0], [8.0, 2.0], [3.0, 3.0]])
    labels = np.asarray([0, 0, 0, 2, 2, 0])
    centers = np.asarray([[0.0, 0.0], [70.0, 70.0], [8.0, 5.0], [70.0, 70.0], [70.0, 70.0]])
    source = feature_source(xp.asarray(x))
    movable = np.asarray([False, True, False, True, True])

    def moved(weights=None):
        own = None if weights is None else xp.asarray(weights)
        frame = framed(source, xp.asarray([0.0, 0.0]), 4.0, weights=own)
        given = xp.asarray(labels), xp.asarray(centers), xp.asarray(movable)
        return to_numpy(relocate_empty(frame, *given))

    # Squared distances: 16, 18, 1, 1, 9, 18.
    expected = centers.copy()
    expected[[1, 3, 4]] = x[[1, 5, 0]]
    np.testing.assert_array_equal(moved(), expected)
    expected[[1, 3, 4]] = x[[4, 0, 3]]  # weighted: 16, 0, 1, 8, 18, 0
    np.testing.assert_array_equal(moved([1.0, 0.0, 1.0, 8.0, 2.0, 0.0]), expected)


def test_of_many_equally_far_rows_the_first_are_taken(xp):
    x = np.where(np.arange(300) % 3 == 2, 2.0, -2.0)[:, None] * (np.arange(300)[:, None] > 10)
    centers = xp.asarray([[0.0], [9.0], [9.0], [9.0]])
    frame = framed(feature_source(xp.asarray(x)), xp.asarray([0.0]))
    labels = xp.asarray(np.zeros(300, np.int64))
    moved = relocate_empty(frame, labels, centers, xp.asarray([False, True, True, True]))
    assert to_numpy(moved)[1:, 0].tolist() == x[11:14, 0].tolist() == [2.0, -2.0, -2.0]


def test_nothing_moves_if_nothing_may(xp):
    source = feature_source(xp.asarray([[1.0], [5.0]]))
    frame, centers = framed(source, xp.asarray([0.0])), xp.asarray([[1.0], [9.0]])
    none = xp.asarray([False, False])
    assert relocate_empty(frame, xp.asarray([0, 0]), centers, none) is centers


def test_more_movable_centers_than_rows_off_their_own(xp):
    source = feature_source(xp.asarray([[1.0], [5.0], [1.0]]))
    frame, centers = framed(source, xp.asarray([0.0])), xp.asarray([[1.0], [7.0], [8.0], [9.0]])
    movable = xp.asarray([False, True, True, True])
    moved = relocate_empty(frame, xp.asarray([0, 0, 0]), centers, movable)
    assert to_numpy(moved)[:, 0].tolist() == [1.0, 5.0, 8.0, 9.0]
    alone_ = framed(feature_source(xp.asarray([[5.0]])), xp.asarray([0.0]))
    moved = relocate_empty(alone_, xp.asarray([0]), centers, movable)
    assert to_numpy(moved)[:, 0].tolist() == [1.0, 5.0, 8.0, 9.0]


@pytest.mark.parametrize(("dtype", "eps"), [("float32", 2.0**-23), ("float64", 2.0**-52)])
def test_what_the_dtype_of_the_centers_cannot_resolve_is_no_distance(xp, dtype, eps):
    """A row must be farther than 4 sqrt(d) times the rounding of a center, here of 6 eps units."""
    origin, labels = xp.asarray([12.0, -20.0], dtype), xp.asarray([0])
    centers = xp.asarray([[0.0, 0.0], [1.0, 1.0]], dtype)

    def moves(steps):
        row = xp.asarray([steps], dtype) * (4.0 * eps)  # squares up to 16 2 6^2 = 1152
        frame = framed(feature_source(row), origin, 4.0)
        moved = relocate_empty(frame, labels, centers, xp.asarray([False, True]))
        return bool(to_numpy(moved)[1, 0] < 1.0)

    assert not moves([33.75, 0.0])
    assert moves([0.0, 34.0])
    assert not moves([24.0, 24.0])  # 1152 itself
    assert moves([24.0, -24.25])


def test_what_the_grid_of_the_sums_cannot_resolve_is_no_distance(xp):
    centers, movable = xp.asarray([[0.0], [9.0]]), xp.asarray([False, True])

    def moves(distance):
        frame = framed(
            feature_source(xp.asarray([[distance]])), xp.asarray([0.0]), grid=Grid(8.0, 5, 3)
        )
        return bool(to_numpy(relocate_empty(frame, xp.asarray([0]), centers, movable))[1, 0] < 9.0)

    assert not moves(4.0 * 2.0**-15)
    assert moves(4.25 * 2.0**-15)


def test_on_the_sphere_a_center_is_the_direction_of_the_row(xp):
    source = feature_source(xp.asarray([[0.0, 1.0], [0.75, 1.0]]))
    frame = framed(source, xp.asarray([0.0, 0.0]), spherical=True)
    centers = xp.asarray([[0.0, 1.0], [-1.0, 0.0]])
    moved = relocate_empty(frame, xp.asarray([0, 0]), centers, xp.asarray([False, True]))
    np.testing.assert_allclose(to_numpy(moved), [[0.0, 1.0], [0.6, 0.8]], rtol=1e-15)


def test_the_centers_keep_their_dtype(xp):
    source = feature_source(xp.asarray([[0.0], [3.0]]))
    frame = framed(source, xp.asarray([0.0]))
    centers = xp.asarray([[0.0], [9.0]], "float32")
    moved = relocate_empty(frame, xp.asarray([0, 0]), centers, xp.asarray([False, True]))
    assert_equal(moved, xp.asarray([[0.0], [3.0]], "float32"))


def test_blocks_and_ranks_find_the_rows_of_one():
    n = 29_000
    x = np.random.default_rng(0).normal(size=(n, 2))
    labels = np.random.default_rng(1).integers(0, 3, size=n) * 2
    weights = np.random.default_rng(2).integers(1, 9, size=n) / 8.0
    centers = np.random.default_rng(3).normal(size=(6, 2))
    movable = np.asarray([False, True, False, True, False, True])
    far = weights * ((x - centers[labels]) ** 2).sum(axis=1)
    expected = centers.copy()
    expected[[1, 3, 5]] = x[np.argsort(-far)[:3]]

    def work(group):
        own = x[group.first_row : group.first_row + group.n_local]
        source = FeatureSource(2, lambda a, b: own[a:b], lambda ids: x[ids], group)
        frame = framed(source, np.zeros(2), weights=weights)
        mine = labels[group.first_row : group.first_row + group.n_local]
        return relocate_empty(frame, mine, centers, movable)

    edges = [0, 8_192, 8_192, 20_480, n]
    for found in (work(alone(n)), *groups_on_threads(edges, work)):
        np.testing.assert_array_equal(found, expected)
