"""k-means++ against its definition in a loop, and the starts of a seed."""

import itertools
import math

import numpy as np
import pytest

from dualclust.algos.clustering.constrained import kmeans
from dualclust.algos.clustering.start import (
    greedy_candidates,
    kmeans_plus_plus,
    power_of_two,
    start_centers,
)
from dualclust.algos.core.errors import InvalidTypeError, InvalidValueError
from dualclust.algos.core.workers import workers
from dualclust.algos.scores.sources import FeatureSource, alone, feature_source
from tests.compare import assert_equal, assert_same_kind, to_numpy
from tests.libraries import LIBRARIES
from tests.problems import unit_rows


def points(n=60, k=4, d=16, spread=0.3, seed=0):
    """Unit rows around k directions, in turn."""
    rng = np.random.default_rng(seed)
    directions = unit_rows(rng.normal(size=(k, d)))
    return unit_rows(directions[np.arange(n) % k] + spread * rng.normal(size=(n, d)) / np.sqrt(d))


# k-means++ -------------------------------------------------------------------------------------


def loop_plus_plus(x, uniforms):
    """The docstring, one row at a time: indices of the rows drawn."""
    chosen = []
    for u in uniforms:
        if chosen:
            distance = [max(0.0, 1.0 - max(float(row @ x[c]) for c in chosen)) for row in x]
        else:
            distance = [1.0] * len(x)
        if not any(distance):
            distance = [1.0] * len(x)
        target = u * math.fsum(distance)
        running = itertools.accumulate(distance)
        chosen.append(next(i for i, total in enumerate(running) if total > target))
    return chosen


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_starting_centers_are_those_of_the_loop_on_every_library(xp, dtype):
    x = points()
    x = x.astype(dtype)
    for seed in range(5):
        uniforms = np.random.default_rng(seed).random(6)
        found = kmeans_plus_plus(xp.asarray(x), xp.asarray(uniforms))
        assert_equal(found, xp.asarray(x[loop_plus_plus(x, uniforms)]))


def test_a_center_is_drawn_in_proportion_to_its_distance():
    # Distances 1 - cos to the first row: 0, 0.2, 1, 2.
    x = np.array([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0], [-1.0, 0.0]])
    drawn = [kmeans_plus_plus(x, np.array([0.1, u]))[1] for u in (np.arange(3200) + 0.5) / 3200]
    shares = [np.mean([(row == r).all() for row in drawn]) for r in x]
    np.testing.assert_allclose(shares, np.array([0.0, 0.2, 1.0, 2.0]) / 3.2, atol=1e-3)


@pytest.mark.parametrize("u", [0.0, 1.0 - 2.0**-53])
def test_the_ends_of_the_unit_interval(xp, u):
    x = xp.asarray([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    found = to_numpy(kmeans_plus_plus(x, xp.asarray([u, u])))
    assert sorted(found.tolist()) == [[0.0, 1.0], [1.0, 0.0]]


def test_duplicates_are_drawn_only_when_nothing_else_is_left(xp):
    x = np.repeat(np.eye(3), [20, 20, 1], axis=0)
    for seed in range(10):
        uniforms = np.random.default_rng(seed).random(5)
        found = to_numpy(kmeans_plus_plus(xp.asarray(x), xp.asarray(uniforms)))
        assert len(np.unique(found[:3], axis=0)) == 3


def test_once_every_row_is_a_center_draws_are_uniform(xp):
    x = np.repeat([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]], 2, axis=0)
    drawn = kmeans_plus_plus(xp.asarray(x), xp.asarray([0.1, 0.1, 0.1, 0.2, 0.5, 0.9]))
    np.testing.assert_array_equal(to_numpy(drawn)[3:], x[::2])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_equal_rows_give_equal_centers(xp, rng, dtype):
    row = unit_rows(rng.normal(size=(1, 7))).astype(dtype)
    x = xp.asarray(np.repeat(row, 9, axis=0))
    found = kmeans_plus_plus(x, xp.asarray(rng.random(4)))
    assert_equal(found, xp.asarray(np.repeat(row, 4, axis=0)))


def test_as_many_centers_as_rows_are_all_of_them(xp, rng):
    x = unit_rows(rng.normal(size=(8, 5)))
    found = to_numpy(kmeans_plus_plus(xp.asarray(x), xp.asarray(rng.random(8))))
    np.testing.assert_array_equal(np.unique(found, axis=0), np.unique(x, axis=0))


def test_starting_centers_refused(xp, rng):
    x, uniforms = xp.asarray(rng.normal(size=(3, 2))), xp.asarray(rng.random(4))
    with pytest.raises(InvalidValueError, match="at least one row per center, got 3 rows for k=4"):
        kmeans_plus_plus(x, uniforms)
    with pytest.raises(InvalidValueError, match=r"features must have shape \(n, d\)"):
        kmeans_plus_plus(uniforms, uniforms)
    with pytest.raises(InvalidValueError, match=r"uniforms must have shape \(k, l\)"):
        kmeans_plus_plus(x, xp.asarray(rng.random((2, 3, 2))))
    with pytest.raises(InvalidValueError, match="at least one for each center, got none"):
        kmeans_plus_plus(x, xp.asarray(rng.random((2, 0))))
    with pytest.raises(InvalidTypeError, match="real floating dtype"):
        kmeans_plus_plus(xp.asarray(np.ones((3, 2), np.int64)), uniforms)


def test_weights_decide_what_is_drawn():
    """First by weight, then by weight times squared distance."""
    x, w = np.array([[0.0], [1.0], [3.0]]), np.array([1.0, 2.0, 1.0])
    grid = (np.arange(800) + 0.5) / 800
    first = [kmeans_plus_plus(x, np.array([u]), w)[0, 0] for u in grid]
    np.testing.assert_allclose(
        [np.mean(np.equal(first, v)) for v in (0.0, 1.0, 3.0)], [0.25, 0.5, 0.25], atol=2e-3
    )
    second = [kmeans_plus_plus(x, np.array([0.1, u]), w)[1, 0] for u in grid]
    np.testing.assert_allclose(
        [np.mean(np.equal(second, v)) for v in (0.0, 1.0, 3.0)], [0.0, 2 / 11, 9 / 11], atol=2e-3
    )


@pytest.mark.parametrize("u", [0.0, 0.5, 1.0 - 2.0**-53])
def test_a_row_of_weight_zero_is_never_drawn(xp, u):
    x = xp.asarray([[5.0], [0.0], [1.0], [9.0]])
    found = kmeans_plus_plus(x, xp.asarray([u, u]), xp.asarray([0.0, 1.0, 1.0, 0.0]))
    assert sorted(to_numpy(found)[:, 0].tolist()) == [0.0, 1.0]


@pytest.mark.parametrize("scale", [1e-300, 1e-30, 1e30, 1e300])
def test_any_unit_of_length(scale):
    x, draws = points(), np.random.default_rng(3).random(6)
    np.testing.assert_array_equal(
        kmeans_plus_plus(scale * x, draws), scale * kmeans_plus_plus(x, draws)
    )


@pytest.mark.parametrize("scale", [2.0**-149, 2.0**100])
def test_the_ends_of_single_precision(scale):
    x = np.float32(scale) * np.array([[0.0], [1.0], [2.0]], np.float32)
    found = kmeans_plus_plus(x, np.array([0.1, 0.99]))
    np.testing.assert_array_equal(found, x[[0, 2]])


@pytest.mark.parametrize("library", [LIBRARIES[0], *LIBRARIES[4:5]], ids=lambda x: x.name)
def test_half_precision(library):
    x = library.asarray(points(), "float16")
    assert_same_kind(kmeans_plus_plus(x, library.asarray([0.2, 0.8])), x[:2, :])


def test_many_rows_are_measured_in_chunks():
    x = np.random.default_rng(0).normal(size=(3000, 50))
    draws = np.random.default_rng(1).random(5)
    distance, chosen = np.ones(3000), []
    for u in draws:
        running = np.cumsum(distance)
        chosen.append(int(np.searchsorted(running, u * running[-1], side="right")))
        distance = ((x[:, None, :] - x[chosen]) ** 2).sum(axis=2).min(axis=1)
    np.testing.assert_array_equal(kmeans_plus_plus(x, draws), x[chosen])


# Greedy ----------------------------------------------------------------------------------------


def loop_greedy(x, w, uniforms):
    """Of the candidates for each center the one that leaves least, in exact differences."""
    nearest, chosen = [math.inf] * len(x), []
    for turn, draws in enumerate(uniforms):
        drawn = w if turn == 0 else nearest
        running = list(itertools.accumulate(drawn))
        found = []
        for u in draws if turn else draws[:1]:
            c = next(i for i, total in enumerate(running) if total > u * running[-1])
            left = [
                min(old, weight * ((row - x[c]) ** 2).sum())
                for old, weight, row in zip(nearest, w, x, strict=True)
            ]
            found.append((math.fsum(left), len(found), c, left))
        _, _, best, nearest = min(found)
        chosen.append(best)
    return chosen


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_best_of_the_candidates_is_taken_on_every_library(xp, dtype):
    for seed in range(4):
        rng = np.random.default_rng(seed)
        x, w = rng.normal(size=(50, 3)).astype(dtype) + 5, rng.uniform(0.1, 2.0, size=50)
        draws = rng.random((6, 4))
        found = kmeans_plus_plus(xp.asarray(x), xp.asarray(draws), xp.asarray(w))
        wide = x.astype(np.float64)
        assert_equal(found, xp.asarray(x[loop_greedy(wide, w, draws)]))
        assert loop_greedy(wide, w, draws) != loop_greedy(wide, w, draws[:, :1])


def test_of_equal_candidates_the_first_is_taken(xp):
    """Corners of a square about its center: whichever is taken leaves the same sum."""
    x = np.asarray([[0.0, 0.0], [1.0, 1.0], [1.0, -1.0], [-1.0, -1.0], [-1.0, 1.0]]) / 3.0 + 0.1
    for order in itertools.permutations([0.2, 0.45, 0.7, 0.95]):
        found = kmeans_plus_plus(xp.asarray(x), xp.asarray([[0.0] * 4, order]))
        first = int(order[0] * 4) + 1
        np.testing.assert_array_equal(to_numpy(found)[1], x[first])


@pytest.mark.parametrize("far", [1e12, 1e100, 1e300])
def test_where_no_digits_are_left_the_first_candidate_is_taken(far):
    """Beside a row far out, sums of squares tie: nothing rests on the last bit of a product."""
    x = np.random.default_rng(0).normal(size=(40, 2))
    x[7] = far
    draws = np.random.default_rng(1).random((5, 3))
    np.testing.assert_array_equal(
        kmeans_plus_plus(x, draws)[2:], kmeans_plus_plus(x, draws[:, 0])[2:]
    )


def test_distances_within_groups_keep_their_digits(xp):
    """Groups 1e-9 wide: sums tie, so the first candidates are taken, drawn by those distances."""
    corners = np.asarray([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    rng = np.random.default_rng(0)
    x = corners[np.arange(60) % 3] + 1e-9 * rng.normal(size=(60, 2))
    draws = rng.random((8, 3))
    x, given, draws = (xp.asarray(a) for a in (x, corners, draws))
    plain = kmeans_plus_plus(x, draws[:, 0], given=given)
    assert_equal(kmeans_plus_plus(x, draws, given=given), plain)


def test_one_candidate_each_is_the_plain_algorithm():
    x, draws = points(), np.random.default_rng(2).random((6, 1))
    np.testing.assert_array_equal(kmeans_plus_plus(x, draws), kmeans_plus_plus(x, draws[:, 0]))


@pytest.mark.parametrize(("k", "expected"), [(1, 2), (2, 2), (3, 3), (7, 3), (8, 4), (1000, 8)])
def test_as_many_candidates_as_in_scikit_learn(k, expected):
    assert greedy_candidates(k) == expected == 2 + int(np.log(k))


def test_candidates_make_better_starts():
    """The sum of squared distances of 20 blob sets, over 5 seeds, without an iteration."""

    def left(x, candidates):
        source, value = feature_source(x), 0.0
        for seed in range(5):
            start = start_centers(source, 8, seed=seed, metric="euclidean", candidates=candidates)
            value -= kmeans(x, start, metric="euclidean", max_iter=0).objective
        return value + 5 * ((x - x.mean(axis=0)) ** 2).sum() / 2

    ratios = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        x = 10.0 * rng.random((8, 3))[rng.integers(0, 8, size=300)] + rng.normal(size=(300, 3))
        default = left(x, None)
        assert default == left(x, greedy_candidates(8))
        ratios.append(default / left(x, 1))
    assert np.exp(np.mean(np.log(ratios))) < 0.95


# From a source ---------------------------------------------------------------------------------


def test_start_centers_are_the_same_on_every_library(xp):
    x = points(n=500)
    expected = start_centers(feature_source(x), 4, seed=11, metric="euclidean")
    found = start_centers(feature_source(xp.asarray(x)), 4, seed=11, metric="euclidean")
    assert_equal(found, xp.asarray(expected))
    assert all((x == row).all(axis=1).any() for row in expected)


def test_seeds_give_different_starts():
    source = feature_source(points(n=500))
    found = [start_centers(source, 4, seed=s, metric="cosine").tobytes() for s in range(8)]
    assert len(set(found)) == 8


def test_only_a_sample_is_read(monkeypatch):
    x, asked = np.random.default_rng(0).normal(size=(20_000, 2)), []

    def rows(start, stop):
        assert start == stop == 0
        return x[:0]

    def take(ids):
        asked.append(np.asarray(ids))
        return x[ids]

    source = FeatureSource(2, rows, take, alone(20_000))
    start_centers(source, 3, seed=5, metric="euclidean")
    (ids,) = asked
    assert ids.shape == (4096,) == np.unique(ids).shape
    # Spread out: every tenth of the data holds a tenth of the sample.
    np.testing.assert_allclose(np.histogram(ids, 10, (0, 20_000))[0], 409.6, atol=3)


def test_weights_of_a_source():
    x = np.arange(50.0)[:, None]
    weights = np.zeros(50)
    weights[[7, 31]] = 1.0
    found = start_centers(feature_source(x), 2, seed=0, metric="euclidean", weights=weights)
    assert sorted(found[:, 0].tolist()) == [7.0, 31.0]


def test_rows_of_a_sample_without_weight_are_drawn_alike():
    """All the weight is on rows that were not looked at: as if there were no weights."""
    x, asked = np.arange(5000.0)[:, None], []
    source = feature_source(x)._replace(take=lambda ids: asked.append(ids) or x[ids])
    plain = start_centers(source, 2, seed=3, metric="euclidean")
    (ids,) = asked
    weights = np.ones(5000)
    weights[ids] = 0.0
    found = start_centers(source, 2, seed=3, metric="euclidean", weights=weights)
    np.testing.assert_array_equal(found, plain)
    weights[ids[0]] = 0.5  # the only one of the sample
    found = start_centers(source, 2, seed=3, metric="euclidean", weights=weights)
    assert x[ids[0], 0] in found[:, 0]
    assert ids.shape == (4096,)


def test_cosine_starts_on_the_sphere():
    found = start_centers(feature_source(3.0 * points()), 4, seed=0, metric="cosine")
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1.0, atol=1e-15)


def test_start_centers_refused():
    source = feature_source(points(n=3))
    with pytest.raises(InvalidValueError, match="at least one row per center, got 3 rows for k=4"):
        start_centers(source, 4, seed=0, metric="cosine")
    with pytest.raises(InvalidValueError, match="metric must be one of"):
        start_centers(source, 2, seed=0, metric="l1")
    with pytest.raises(InvalidValueError, match=r"weights must have shape \(3,\)"):
        start_centers(source, 2, seed=0, metric="cosine", weights=np.ones(2))
    with pytest.raises(InvalidValueError, match="candidates must be at least 1, got 0"):
        start_centers(source, 2, seed=0, metric="cosine", candidates=0)


@pytest.mark.parametrize("tries", [1, 3])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_threads_share_out_the_potentials_and_change_no_bit(dtype, tries):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(20_000, 24)).astype(dtype)
    draws = rng.random((12, tries))
    expected = kmeans_plus_plus(x, draws)
    for n_threads in (1, 2, 4, 16):
        with workers(n_threads):
            np.testing.assert_array_equal(kmeans_plus_plus(x, draws), expected)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([[0.5]], r"given must have shape \(m, 2\), got \(1, 1\)"),
        ([0.5, 0.5], r"given must have shape \(m, 2\), got \(2,\)"),
        ([[0.5, np.nan]], r"given must be finite, got nan at index \(0, 1\)"),
    ],
)
def test_centers_that_are_there_already_fit_the_rows(xp, given, words):
    """Others would be stretched over all columns, or make every distance NaN."""
    x = xp.asarray(np.asarray([[0.0, 0.0], [3.0, 4.0], [6.0, 8.0]]))
    with pytest.raises(InvalidValueError, match=words):
        kmeans_plus_plus(x, xp.asarray([0.5]), given=xp.asarray(given))
    with pytest.raises(InvalidTypeError, match="given must have a real floating dtype"):
        kmeans_plus_plus(x, xp.asarray([0.5]), given=xp.asarray([[1, 1]]))


def test_units_are_powers_of_two_whose_inverses_are_finite():
    """They end at 128 times the smallest normal number of the dtype, and at the largest of all."""
    cases = [(0.0, 1.0), (1.0, 2.0), (0.75, 1.0), (3.0, 4.0), (1e308, 2.0**1023)]
    for largest, unit in cases:
        assert power_of_two(largest, np.float64, np) == unit
    for dtype, least in ((np.float64, -1015), (np.float32, -119)):
        assert power_of_two(5e-324, dtype, np) == 2.0**least
        assert power_of_two(2.0**least / 2.0, dtype, np) == 2.0**least
        assert power_of_two(2.0**least, dtype, np) == 2.0 ** (least + 1)
