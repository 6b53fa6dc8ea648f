"""The two maps of a page: the plane against its eigenvectors, t-SNE against its equations."""

import math

import numpy as np
import pytest
from scipy.optimize import brentq

from dualclust.common.page import layout
from dualclust.common.page.layout import (
    _affinities,
    _parted,
    _slope,
    main_plane,
    neighbor_map,
    rows_around,
)

# The plane ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("draw", range(4))
@pytest.mark.parametrize("d", [3, 5])
def test_the_plane_is_that_of_the_largest_eigenvalues(d, draw):
    rng = np.random.default_rng(draw)
    points = (rng.normal(size=(12, d)) * np.arange(1, d + 1) + 3) * 10.0 ** (-draw)
    weights = rng.integers(1, 5, size=12)
    found = main_plane(points, weights.astype(float))
    every = np.repeat(points, weights, axis=0)
    mean = every.mean(axis=0)
    values, vectors = np.linalg.eigh((every - mean).T @ (every - mean))
    np.testing.assert_allclose(found.mean, mean)
    np.testing.assert_allclose(found.share, values[-2:].sum() / values.sum())
    assert found.share < 0.99
    for direction, vector in zip(found.directions, vectors.T[::-1], strict=False):
        largest = np.abs(vector).argmax()
        np.testing.assert_allclose(direction, vector * np.sign(vector[largest]), atol=1e-9)
    np.testing.assert_allclose(found.project(points), (points - mean) @ found.directions.T)


def test_directions_that_are_not_there_are_zero():
    line = main_plane(np.asarray([[1.0, 2.0], [3.0, -2.0]]), np.ones(2))
    np.testing.assert_allclose(line.directions, [[-math.sqrt(0.2), math.sqrt(0.8)], [0, 0]])
    for points in (np.ones((4, 3)), np.full((1, 3), 7.0)):
        alike = main_plane(points, np.ones(len(points)))
        assert (alike.directions == 0).all()
        assert alike.share == 1.0
    narrow = main_plane(np.asarray([[0.0], [2.0], [7.0]]), np.ones(3))
    assert narrow.directions.tolist() == [[1.0], [0.0]]


@pytest.mark.parametrize(("second", "there"), [(1.5e-12, True), (0.75e-12, False)])
def test_a_direction_of_rounding_is_none(second, there):
    points = np.asarray([[1.0, 0.0], [-1.0, 0.0], [0.0, second], [0.0, -second]])
    found = main_plane(points, np.ones(4))
    np.testing.assert_allclose(np.abs(found.directions), [[1, 0], [0, float(there)]], atol=1e-9)


# Neighborhoods -----------------------------------------------------------------------------------


def shares_of(points):
    """p_ij of t-SNE: widths by root finding, each row's perplexity 12 or a third of the others."""
    m = len(points)
    table = np.zeros((m, m))
    for i in range(m):
        apart = np.delete(((points - points[i]) ** 2).sum(1), i)
        apart = (apart - apart.min()) / np.median(apart)

        def row(beta, apart=apart):
            weight = np.exp(-beta * apart)
            return weight / weight.sum()

        def excess(log_beta):
            p = row(math.exp(log_beta))
            wanted = math.log(min(12.0, (m - 1) / 3))
            return -(p * np.log(np.maximum(p, 1e-300))).sum() - wanted

        table[i, np.arange(m) != i] = row(math.exp(brentq(excess, -15, 15, xtol=1e-12)))
    return (table + table.T) / (2 * m)


@pytest.mark.parametrize("m", [8, 60])
def test_shares_have_the_perplexity_asked_for(m, rng):
    points = rng.normal(size=(m, 3)) + 5
    found = _affinities(points)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, shares_of(points), rtol=1e-4, atol=1e-7)
    for unit in (1e-9, 1e9):
        np.testing.assert_allclose(_affinities(unit * points), found, rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(_affinities(points + 1e7), found, rtol=1e-3, atol=1e-6)


def test_shares_of_points_in_groups_far_apart(rng):
    """Distances in a group are found to a thousand millionth of those between groups, not below."""
    group, ahead = np.repeat(np.arange(2), 6), rng.normal(size=(12, 3))
    points = np.eye(3)[group] + 1e-3 * ahead
    np.testing.assert_allclose(_affinities(points), shares_of(points), rtol=1e-3, atol=1e-7)
    alike = (group[:, None] == group) & ~np.eye(12, dtype=bool)
    found = _affinities(np.eye(3)[group] + 1e-7 * ahead)
    np.testing.assert_allclose(found, alike / 60, rtol=1e-2, atol=1e-9)


def test_points_at_one_place_are_all_neighbors():
    np.testing.assert_allclose(_affinities(np.ones((5, 2))), (1 - np.eye(5)) / 20, rtol=1e-6)


def slope_of(near, places, pull):
    """4 sum_j (pull p_ij - q_ij) (y_i - y_j) / (1 + |y_i - y_j|^2)."""
    ahead = places[:, None] - places
    kernel = 1 / (1 + (ahead**2).sum(2))
    np.fill_diagonal(kernel, 0)
    force = (pull * near - kernel / kernel.sum()) * kernel
    return 4 * (force[:, :, None] * ahead).sum(1)


def test_the_slope_is_the_printed_gradient(rng):
    near, places = rng.random((9, 9)) / 81, rng.normal(size=(9, 2))  # row by row: not symmetric
    for pull in (1.0, 12.0):
        found = _slope(near.astype(np.float32), places, pull)
        assert found.dtype == np.float64
        np.testing.assert_allclose(found, slope_of(near, places, pull), rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize(("m", "rounds", "pulled"), [(9, 5, 2), (300, 3, 1), (6, 22, 0)])
def test_steps_are_those_of_the_paper_with_gains(m, rounds, pulled, rng):
    """From the start in small, parted by a spiral; momentum 0.5 while pulled, then 0.8."""
    points, start = rng.normal(size=(m, 4)), rng.normal(size=(m, 2)) * 3
    near = _affinities(points).astype(np.float64)
    places = 0.01 * start / start[:, 0].std()
    angle = 2 * np.pi * (math.sqrt(5) - 1) / 2 * np.arange(m)
    places = places + 1e-5 * np.stack([np.cos(angle), np.sin(angle)], 1)
    step, gains = np.zeros((m, 2)), np.ones((m, 2))
    for i in range(rounds):
        slope = slope_of(near, places, 12.0 if i < pulled else 1.0)
        for j in np.ndindex(m, 2):
            same = (slope[j] > 0) == (step[j] > 0)
            gains[j] = max(0.8 * gains[j] if same else gains[j] + 0.2, 0.01)
        step = (0.5 if i < pulled else 0.8) * step - max(m / 12, 20) * gains * slope
        places = places + step
        places = places - places.mean(0)
    places = _parted(places)
    found = neighbor_map(points, start, rounds=rounds, pulled=pulled)
    np.testing.assert_allclose(found, places, rtol=1e-3, atol=1e-3 * np.abs(places).max())


def test_the_spiral_parts_what_starts_at_one_place():
    """Its points are apart already."""
    found = neighbor_map(np.eye(5), np.zeros((5, 2)), rounds=0)
    turns = (math.sqrt(5) - 1) / 2 * np.arange(5)
    expected = 1e-5 * np.exp(2j * np.pi * turns)
    expected -= expected.mean()
    np.testing.assert_allclose(found[:, 0] + 1j * found[:, 1], expected, rtol=1e-9)


def test_as_many_steps_as_are_promised():
    """350, of which the first 100 pull more strongly; 60 pushes at most; so many distances."""
    assert (layout.ROUNDS, layout.PULLED, layout.PARTED, layout.DISTANCES) == (350, 100, 60, 2**22)


def test_neighbors_stay_neighbors(rng):
    """Three groups far apart in ten dimensions: each place's nearest is of its own group."""
    group = np.repeat(np.arange(3), 5)
    points = 20 * np.eye(10)[group] + rng.normal(size=(15, 10))
    places = neighbor_map(points, rng.normal(size=(15, 2)))
    apart = ((places[:, None] - places) ** 2).sum(2)
    np.fill_diagonal(apart, np.inf)
    assert (group[apart.argmin(1)] == group).all()
    np.testing.assert_allclose(places.mean(0), 0, atol=1e-9)


def test_places_that_hide_each_other_are_pushed_by_a_quarter_each():
    """A third of the step of an even grid: 12 / (3 * 2) = 2 between four points."""
    places = np.asarray([[0.0, 0.0], [1.0, 0.0], [12.0, 4.0], [12.0, 2.5]])
    expected = np.asarray([[-0.25, 0.0], [1.25, 0.0], [12.0, 4.125], [12.0, 2.375]])
    np.testing.assert_allclose(_parted(places, 1), expected - expected.mean(0))
    found = _parted(places)
    apart = np.linalg.norm(found[[0, 2]] - found[[1, 3]], axis=1)
    np.testing.assert_allclose(apart, 2.0, rtol=1e-6)
    assert places[1].tolist() == [1.0, 0.0]  # not in place


def test_places_apart_are_only_centered():
    """Wherever they lie."""
    places = np.asarray([[0.0, 0.0], [4.0, 0.0], [0.0, 12.0]]) + 100
    np.testing.assert_allclose(_parted(places), places - places.mean(0))


def test_one_pair_is_pushed_and_not_far_where_it_is_nearly_at_one_place():
    """By at most a quarter of what is missing, times the part of 1e-9 of the side that it is."""
    places = np.asarray([[0.0, 0.0], [2.4e-9, 0.0], [12.0, 4.0], [12.0, 8.0]])
    expected = places + np.asarray([[-0.1, 0.0], [0.1, 0.0], [0.0, 0.0], [0.0, 0.0]])
    np.testing.assert_allclose(_parted(places, 1), expected - expected.mean(0), rtol=1e-6)


# Rows around their centers -----------------------------------------------------------------------


def test_rows_lie_in_the_disk_of_their_cluster(rng):
    places = np.asarray([[0.0, 0.0], [10.0, 0.0], [0.0, 4.0]])
    reach = [0.48 * 4, 0.48 * 10, 0.48 * 4]
    labels, toward = rng.integers(0, 3, size=20), rng.integers(-1, 3, size=20)
    doubt = rng.random(20)
    found = rows_around(places, labels, toward, doubt)
    for i, (x, y) in enumerate(found):
        angle = 0.0
        if toward[i] >= 0:
            ahead = places[toward[i]] - places[labels[i]]
            angle = math.atan2(ahead[1], ahead[0])
        fan = (i * (math.sqrt(5) - 1) / 2 + 0.5) % 1 - 0.5
        angle += 2 * math.pi * fan * (1 - 0.75 * doubt[i])
        radius = reach[labels[i]] * math.sqrt(0.04 + 0.96 * doubt[i])
        cx, cy = places[labels[i]]
        assert x == pytest.approx(cx + radius * math.cos(angle), abs=1e-9)
        assert y == pytest.approx(cy + radius * math.sin(angle), abs=1e-9)


def test_a_single_cluster_has_a_disk_of_its_own():
    none = np.asarray([-1])
    found = rows_around(np.asarray([[3.0, 5.0]]), np.zeros(1, np.int64), none, np.ones(1))
    np.testing.assert_allclose(found, [[4.0, 5.0]])


@pytest.mark.parametrize("room", [1, 13, 2**22])
def test_disks_of_many_clusters_are_found_by_parts(room):
    """Of six centers on a line of growing steps, two at a time have 12 distances."""
    places = np.stack([np.cumsum(np.arange(6) + 1.0), np.zeros(6)], 1)
    found = rows_around(places, np.arange(6), np.full(6, -1), np.ones(6), entries=room)
    expected = 0.48 * np.maximum(np.arange(6) + 1, 2.0)
    np.testing.assert_allclose(np.hypot(*(found - places).T), expected)


def test_two_clusters_share_the_way_between_them():
    two, first = np.asarray([[0.0, 0.0], [10.0, 0.0]]), np.asarray([0])
    np.testing.assert_allclose(rows_around(two, first, 1 - first, np.ones(1)), [[4.8, 0.0]])
