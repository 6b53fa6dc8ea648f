"""What some rows say about a region: how large it may be, and where its center has to be."""

import math

import numpy as np
import pytest

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.core.workers import workers
from dualclust.algos.offline import SolverOptions
from dualclust.algos.offline._candidates import TrustRegion, collect_candidates
from dualclust.algos.offline._region_from_rows import (
    TRUNCATED,
    candidate_counts,
    initial_radius,
    largest_radius,
    optimal_shift,
    raise_empty_clusters,
    wide_enough,
    within_memory,
)
from dualclust.algos.scores.sources import score_source
from tests.compare import to_numpy


@pytest.mark.parametrize("entries", [2_000, 8_000, 40_000])
def test_candidates_of_the_region_fit_and_are_seldom_truncated(xp, rng, entries):
    n, k = 1000, 60
    most = TRUNCATED * n
    scores, prices = rng.normal(size=(n, k)), xp.asarray(rng.normal(size=k))
    limit = largest_radius(xp.asarray(scores), prices, n_rows=n, max_entries=entries)
    source = score_source(xp.asarray(scores))
    inside = 0.999 * limit.radius
    kept = collect_candidates(source, prices - inside, prices + inside, width=limit.width)
    assert kept.clusters.shape[0] * limit.width <= entries
    assert to_numpy(kept.is_truncated).sum() <= most
    wider = 1.5 * limit.radius
    kept = collect_candidates(source, prices - wider, prices + wider, width=limit.width)
    n_truncated = to_numpy(kept.is_truncated).sum()
    assert kept.clusters.shape[0] * limit.width > entries or n_truncated > most


def test_no_more_candidates_than_a_radius_asks_for(xp, rng):
    scores, prices = xp.asarray(rng.normal(size=(500, 60))), xp.asarray(np.zeros(60))
    most = largest_radius(scores, prices, n_rows=500, max_entries=10**6)
    wanted = most.radius / 8.0
    less = largest_radius(scores, prices, n_rows=500, max_entries=10**6, wanted=wanted)
    assert less.width < most.width
    assert less.radius >= wanted


def test_few_clusters_ties_and_forbidden_pairs(xp):
    zeros, scores = xp.asarray(np.zeros(3)), np.asarray([[1.0, 0.0, -math.inf]] * 5)
    few = largest_radius(xp.asarray(scores), zeros, n_rows=5, max_entries=100)
    assert few == (0.0, 3)
    zeros = xp.asarray(np.zeros(9))
    ties = largest_radius(xp.asarray(np.ones((5, 9))), zeros, n_rows=5, max_entries=10)
    assert ties.radius == 0.0
    alone = np.where(np.arange(9) == 4, 1.0, -math.inf) * np.ones((5, 1))
    for rows in (alone, np.full((5, 9), -math.inf)):  # which may join one cluster, or none
        found = largest_radius(xp.asarray(rows), zeros, n_rows=5, max_entries=10)
        assert found.radius == math.inf


def test_the_first_radius_parts_a_typical_row_from_eight_others():
    """Half the difference of the best and the ninth, by the upper median of the rows."""
    scores = np.linspace(0.0, 1.0, 11)[None, ::-1] * np.asarray([[1.0], [2.0], [5.0], [9.0]])
    prices = np.zeros(11)
    found = initial_radius(scores, prices, scale=4.0)
    np.testing.assert_allclose(found, np.full(11, 0.5 * 0.8 * 5.0), rtol=1e-15)
    few = initial_radius(scores[:, :3], prices[:3], scale=4.0)
    np.testing.assert_allclose(few, np.full(3, 0.5 * 0.2 * 5.0), rtol=1e-14)
    priced = initial_radius(0.0 * scores[:, :3], np.asarray([0.0, 3.0, -1.0]), scale=4.0)
    assert priced.tolist() == [2.0] * 3
    # Where typical rows tie, a millionth of the range of scores.
    ties = np.zeros((5, 3))
    ties[4] = [0.0, 4.0, 0.0]
    least = initial_radius(ties, np.zeros(3), scale=4.0)
    np.testing.assert_allclose(least, np.full(3, 4e-6), rtol=1e-15)
    forbidden = np.asarray([[5.0, -math.inf, 1.0]] * 3)  # counted as the smallest score, or as 0
    assert initial_radius(forbidden, np.zeros(3), scale=4.0).tolist() == [2.5] * 3
    negative = np.asarray([[5.0, -math.inf, -3.0]] * 3)
    assert initial_radius(negative, np.zeros(3), scale=4.0).tolist() == [4.0] * 3


def test_candidates_of_a_radius_by_hand(xp):
    """Four rows, whose second cluster is 2, 4, 6 and 8 behind and whose fifth 20 times that."""
    behind = np.asarray([2.0, 4.0, 6.0, 8.0])
    scores = np.stack([0 * behind, -behind, -2 * behind, -3 * behind, -20 * behind], axis=1)
    rows, zeros = xp.asarray(scores), xp.asarray(np.zeros(5))

    def limit(entries, deviations=0.0):
        return largest_radius(rows, zeros, n_rows=8, max_entries=entries, deviations=deviations)

    # Half of eight rows with four candidates: two of these four, so the third stays fixed.
    assert limit(16) == (3.0, 4)
    assert limit(8) == (2.0, 4)
    assert limit(0) == (1.0, 4)
    # The second of four scatters by one: as many fewer for each deviation, and none in the end.
    assert limit(16, deviations=1.0) == (2.0, 4)
    assert limit(16, deviations=9.0) == (1.0, 4)
    assert limit(32, deviations=9.0) == (20.0, 4)  # where all rows fit, nothing scatters
    # All may be free; of no more than 2 % of the rows a fifth candidate may be lost.
    assert limit(32) == (20.0, 4)


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_no_thread_and_no_part_changes_a_radius(rng, threads):
    scores, prices, shape = rng.normal(size=(4_000, 60)), rng.normal(size=60), rng.uniform(size=60)
    given = {"n_rows": 4_000, "max_entries": 80_000, "shape": shape}
    whole = largest_radius(scores, prices, **given), initial_radius(scores, prices, scale=1.0)
    with workers(threads):
        assert largest_radius(scores, prices, **given) == whole[0]
        found = initial_radius(scores, prices, scale=1.0)
    np.testing.assert_array_equal(found, whole[1])


@pytest.mark.parametrize("wide", [1.0, 20.0])
def test_what_some_rows_tell_leaves_room_for_the_rest(rng, wide):
    """Of many choices of rows, hardly any leads to a region whose candidates do not fit.

    That is so, too, where the prices of a few clusters are known to less.
    """
    n, k, most = 20_000, 30, 20_000
    scores = rng.normal(size=(n, k))
    radius = np.where(np.arange(k) < 5, wide, 1.0)
    options = SolverOptions(max_entries=most, typical_rows=400)
    n_over, shares = 0, []
    for _ in range(50):
        source = score_source(scores[rng.permutation(n)])
        region, width = within_memory(source, TrustRegion(np.zeros(k), radius), 4, options)
        found = collect_candidates(source, -region.radius, region.radius, width=width)
        shares.append(found.clusters.shape[0] * width / most)
        n_over += shares[-1] > 1.0
    assert n_over <= 1  # of one in seven hundred each; without room, half of them
    assert np.mean(shares) > 0.5


def test_where_all_rows_tie_lists_grow_within_the_memory():
    region, ties = TrustRegion(np.zeros(9), np.ones(9)), score_source(np.zeros((50, 9)))
    for most, width in ((200, 4), (199, 2)):
        found = within_memory(ties, region, 2, SolverOptions(max_entries=most))
        assert (found[0] is region, found[1]) == (True, width)


def test_all_rows_need_no_room_for_others():
    """Of four rows the second cluster is 2, 4, 6 and 8 behind: two of them fit."""
    scores = np.asarray([2.0, 4.0, 6.0, 8.0])[:, None] * [0.0, -1.0, -2.0, -3.0, -20.0]
    region, options = TrustRegion(np.zeros(5), np.full(5, 9.0)), SolverOptions(max_entries=8)
    found, width = within_memory(score_source(scores), region, 4, options)
    assert (found.radius.tolist(), width) == ([3.0] * 5, 4)


def test_a_radius_of_nothing_has_room(rng):
    scores = rng.normal(size=(50, 6))
    scores[:20, :2] = 0.0  # rows that tie
    source, options = score_source(scores), SolverOptions(max_entries=40)
    for radius in (np.zeros(6), np.asarray([0.0, 0.0, 0.0, 0.0, 0.5, 0.5])):
        region, _ = within_memory(source, TrustRegion(np.zeros(6), radius), 4, options)
        assert np.isfinite(region.radius).all()
        assert (region.radius <= radius).all()


def test_some_rows_tell_how_many_candidates_all_have(xp):
    """One row in sixteen, from all over the data, or 64, or as many as are allowed."""
    n, k = 1600, 6
    scores = np.full((n, k), -1.0)
    scores[:, 0] = 0.0
    scores[n // 4 :, 1] = -0.1  # three of four rows have three that fit
    scores[n // 4 :, 2] = -0.3
    prices = xp.asarray(np.zeros(k))
    source = score_source(xp.asarray(scores))
    for radius, expected in ((0.2, {1: 0.25, 3: 0.75}), (0.14, {1: 0.25, 2: 0.75}), (0.04, {1: 1})):
        region = TrustRegion(prices, prices + radius)
        for rows, n_rows in ((1024, 100), (24, 24)):
            options = SolverOptions(typical_rows=rows)
            found = to_numpy(candidate_counts(source, region, options))
            assert found.tolist() == sorted(found.tolist())
            assert len(found) == n_rows
            shares = {int(c): float(np.mean(found == c)) for c in np.unique(found)}
            assert shares == pytest.approx(expected, abs=0.2)  # of rows here and there
    region = TrustRegion(prices, prices + 2.0)
    for some, n_rows in ((scores[:200], 64), (scores[:3], 3)):  # of 12 too few would say too much
        found = candidate_counts(score_source(xp.asarray(some)), region, SolverOptions())
        assert to_numpy(found).tolist() == [k] * n_rows


@pytest.mark.parametrize(
    ("n_long", "width", "entries", "expected"),
    [
        (3, 2, 2**25, 2),  # of 64 rows, so few may lose candidates
        (4, 2, 2**25, 16),
        (64, 2, 2**25, 16),  # of nine candidates
        (64, 4, 2**25, 16),
        (64, 9, 2**25, 9),
        (64, 2, 64 * 4, 4),
        (64, 2, 64 * 8 - 1, 4),
        (64, 16, 64, 16),
    ],
)
def test_a_pass_keeps_the_candidates_of_most_rows(xp, n_long, width, entries, expected):
    scores = np.tile(np.linspace(0.0, -1.0, 11), (64, 1))  # each a tenth from the next
    scores[n_long:, 1:] -= 9.0
    region = TrustRegion(xp.asarray(np.zeros(11)), xp.asarray(np.full(11, 0.41)))
    options = SolverOptions(max_entries=entries)
    counts = candidate_counts(score_source(xp.asarray(scores)), region, options)
    assert wide_enough(counts, width, entries // 64) == expected


def test_empty_clusters_rise_to_the_best_of_a_row_or_to_0(xp):
    """Cluster 0 is the best of every row; the others lack 2, 3, 5 and 4 there."""

    def raised(*arrays):
        return to_numpy(raise_empty_clusters(*(xp.asarray(np.asarray(a)) for a in arrays))).tolist()

    scores = [[9.0, 1.0, 1.0, 1.0, -math.inf], [9.0, 0.0, -math.inf, 0.0, 0.0]]
    prices, ones = [0.0, 6.0, 5.0, 3.0, 5.0], np.ones(5)
    for lower in (ones, 0.5 * ones):
        assert raised(scores, prices, lower) == [0.0, 8.0, 8.0, 8.0, 9.0]
    assert raised(scores, prices, 0.0 * ones) == prices  # above 0 already
    low = [-20.0, -14.0, -14.5, -11.0, 0.0]  # with -20, cluster 0 is worth -11
    # Row 0: best of -11, -13, -13.5, -10; row 1: 0 of the last.
    assert raised(scores, low, 0.0 * ones) == [-19.0, -11.0, -11.0, -11.0, 0.0]
    far = [0.0, -0.25, -9.0, -1.0, 1.0]
    assert raised(scores, far, 0.0 * ones) == [0.0, 0.0, 0.0, 0.0, 1.0]
    assert raised(np.full((2, 2), -math.inf), far[:2], ones[:2]) == [0.0, -0.25]


@pytest.mark.parametrize("seed", range(40))
def test_prices_shift_to_the_nearest_of_the_least_bounds(seed):
    """The bound is piecewise linear, with corners where a price becomes 0: all of them tried."""
    rng = np.random.default_rng(seed)
    k, n = int(rng.integers(1, 6)), 12
    sizes = np.bincount(rng.integers(0, k, n), minlength=k)
    lower = np.maximum(sizes - rng.integers(0, 3, k), 0)
    upper = np.minimum(sizes + rng.integers(0, 3, k), n)
    bounds = SizeBounds.from_counts(lower.tolist(), upper.tolist(), n_samples=n)
    prices = rng.integers(-4, 5, k).astype(float) + rng.choice([-6.0, 0.0, 6.0])

    def bound(shift):
        moved = prices - shift
        paid = np.where(moved > 0.0, -moved * lower, -moved * upper)
        return -n * shift + paid.sum()

    values = [bound(p) for p in prices]
    best = [p for p, value in zip(prices, values, strict=True) if value == min(values)]
    expected = prices - min(max(0.0, min(best)), max(best))
    assert optimal_shift(prices, bounds).tolist() == expected.tolist()
