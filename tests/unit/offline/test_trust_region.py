"""The trust region: learned on samples, moved and grown, and as large as its candidates allow."""

import math
from itertools import pairwise

import numpy as np
import pytest

from benchmarks.families import FAMILIES
from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.core.workers import workers
from dualclust.algos.offline import SolverOptions
from dualclust.algos.offline._candidates import TrustRegion, collect_candidates, next_region
from dualclust.algos.offline._online_prices import LOSS
from dualclust.algos.offline._region_from_rows import TRUNCATED, initial_radius, largest_radius
from dualclust.algos.offline._trust_region import _grown, initial_region
from dualclust.algos.offline.assignment import assign_exact
from dualclust.algos.scores.sources import score_source
from dualclust.algos.scores.statistics import score_range, strided_ids
from dualclust.backends import engine
from tests.compare import to_numpy
from tests.passes import counted_passes
from tests.problems import cone_scores, mixture_scores


@pytest.mark.parametrize("make", [cone_scores, mixture_scores])
def test_the_region_of_a_sample_holds_the_best_prices(make):
    n, k = 20_000, 10
    scores = make(n, k).astype(np.float32)
    bounds = SizeBounds.from_ratios(k, n_samples=n, lower=0.9, upper=1.1)
    # Prices of few clusters are optimal too, but where they may move together, others of these.
    best = assign_exact(scores, bounds, options=SolverOptions(few_clusters=0)).prices
    options = SolverOptions(min_sample_rows=1000)
    region = initial_region(score_source(scores), bounds, options=options)
    inside = np.abs(best - region.center) <= region.radius
    assert inside.mean() >= 0.9
    assert np.median(region.radius) <= 0.1 * score_range(scores)


def test_a_larger_sample_makes_the_region_smaller():
    """By Newton's method to about a third; by averages exactly as counts of m rows scatter."""
    n, k, sizes = 25_000, 8, [256, 2_048, 16_384]
    scores = cone_scores(n, k).astype(np.float32)
    bounds = SizeBounds.from_ratios(k, n_samples=n, lower=0.9, upper=1.1)
    for name in ("reference", "auto"):
        radii = []
        for m in sizes if name == "auto" else sizes[:2]:
            options = SolverOptions(
                min_sample_rows=sizes[0], sample_rows_per_cluster=1, sample_entries=32 * m
            )
            with engine(name):
                found = initial_region(score_source(scores), bounds, options=options)
            radii.append(found.radius)
        for (few, m), (before, after) in zip(pairwise(sizes), pairwise(radii), strict=False):
            fall = math.sqrt((1.0 / m - 1.0 / n) / (1.0 / few - 1.0 / n))
            if name == "auto":
                np.testing.assert_allclose(after, LOSS * fall * before, rtol=1e-12)
            else:
                assert 0.1 < np.median(after / before) < 0.6


@pytest.mark.parametrize(
    ("family", "k", "width", "least", "most"),
    [
        ("normal", 64, 4, 1, 1),  # truncated, but right at once
        ("crowded", 200, 8, 8, 10),  # it moves until few prices are clamped
        ("ratings", 64, 8, 12, 12),  # as often as it may: most rows tie
    ],
)
def test_how_many_regions_a_sample_takes(family, k, width, least, most):
    n = 6_000
    made = FAMILIES[family](n, k, 1)
    options = SolverOptions(
        sample_width=width, max_entries=6 * n, min_sample_rows=2_048, sample_rows_per_cluster=8
    )
    with counted_passes() as passes:
        initial_region(score_source(made.scores), made.bounds, options=options)
    assert least <= passes["_candidates.row_blocks"] <= most


@pytest.mark.parametrize("seed", range(3))
def test_the_average_of_a_pass_is_not_in_doubt_on_rows_without_structure(seed):
    """Else the second sample is solved too, which takes as long as all the rest."""
    made = FAMILIES["normal"](50_000, 200, seed)
    with counted_passes() as passes:
        initial_region(score_source(made.scores), made.bounds)
    assert passes["_candidates.row_blocks"] == 1


def test_a_sample_that_no_prices_solve_ends_and_costs_no_label(rng):
    """Its prices would rise for ever: none of its rows may join a cluster that needs a tenth."""
    n, k, m = 20_000, 8, 4_096
    scores = rng.normal(size=(n, k)).astype(np.float32)
    order = strided_ids(n, n, np.zeros(1))  # a sample has the first rows of it
    scores[order[:m], 0] = scores[order[m + n // 10 :], 0] = -math.inf
    bounds = SizeBounds.from_counts([n // 10] + [0] * (k - 1), n_samples=n)
    region = initial_region(score_source(scores), bounds)
    assert 0 < region.center[0] - region.center[1] < 100 * score_range(scores)
    found = assign_exact(scores, bounds, options=SolverOptions(few_clusters=0))
    assert (found.gap, found.counts[0], found.phase) == (0.0, n // 10, "candidates")


def test_a_region_grows_where_prices_left_it_and_shrinks_elsewhere(xp):
    region = TrustRegion(xp.asarray([0.0, 0.0, 0.0]), xp.asarray([1.0, 1.0, 1.0]))
    new = next_region(region, xp.asarray([0.5, -1.0, 3.0]))
    assert to_numpy(new.center).tolist() == [0.5, -1.0, 3.0]
    assert to_numpy(new.radius).tolist() == [0.25, 2.0, 6.0]
    # Prices that went far, but were not clamped, may go as far again, and more.
    moved = next_region(region, xp.asarray([0.75, -1.0, 0.25]), is_moving=True)
    assert to_numpy(moved.radius).tolist() == [1.5, 2.0, 1.0]
    slow = TrustRegion(region.center, xp.asarray([1.0, 2.0, 6.0]))  # as far as the middle one
    arrived = next_region(slow, xp.asarray([0.0, 0.0, 6.0]), is_moving=True)
    assert to_numpy(arrived.radius).tolist() == [1.0, 2.0, 12.0]
    rest = next_region(region, xp.asarray([0.5, -0.5, 0.0]), is_moving=True)
    assert to_numpy(rest.radius).tolist() == [0.25, 0.25, 0.25]


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
    alone[:, 4] = 1.0
    found = largest_radius(xp.asarray(alone), zeros, n_rows=5, max_entries=10)
    assert found.radius == math.inf


def test_the_first_radius_parts_a_typical_row_from_eight_others():
    """Half the difference of the best and the ninth, by the upper median of the rows."""
    scores = np.linspace(0.0, 1.0, 11)[None, ::-1] * np.asarray([[1.0], [2.0], [5.0], [9.0]])
    prices = np.zeros(11)
    found = initial_radius(scores, prices)
    np.testing.assert_allclose(found, np.full(11, 0.5 * 0.8 * 5.0), rtol=1e-15)
    few = initial_radius(scores[:, :3], prices[:3])
    np.testing.assert_allclose(few, np.full(3, 0.5 * 0.2 * 5.0), rtol=1e-14)
    priced = initial_radius(0.0 * scores[:, :3], np.asarray([0.0, 3.0, -1.0]))
    assert priced.tolist() == [2.0] * 3
    # Where typical rows tie, a millionth of the range of the others.
    ties = np.zeros((5, 3))
    ties[4] = [0.0, 4.0, 0.0]
    least = initial_radius(ties, np.zeros(3))
    np.testing.assert_allclose(least, np.full(3, 4e-6), rtol=1e-15)
    forbidden = np.asarray([[5.0, -math.inf, 1.0]] * 3)  # counted as the smallest score, or as 0
    assert initial_radius(forbidden, np.zeros(3)).tolist() == [2.5] * 3
    negative = np.asarray([[5.0, -math.inf, -3.0]] * 3)
    assert initial_radius(negative, np.zeros(3)).tolist() == [4.0] * 3


def test_the_radius_of_clamped_prices_grows_as_far_as_scores_differ():
    region = TrustRegion(np.zeros(3), np.asarray([1.0, 2.0, 3.0]))
    clamped = np.asarray([True, True, False])
    for most, expected in (
        (100.0, [2.0, 4.0, 3.0]),
        (3.5, [2.0, 3.5, 3.0]),
        (1.5, [2.0, 3.0, 3.0]),
    ):
        assert _grown(region, clamped, most).tolist() == expected


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
    whole = largest_radius(scores, prices, **given), initial_radius(scores, prices)
    with workers(threads):
        assert largest_radius(scores, prices, **given) == whole[0]
        found = initial_radius(scores, prices)
    np.testing.assert_array_equal(found, whole[1])
