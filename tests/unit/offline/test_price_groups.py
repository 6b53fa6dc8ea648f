"""Groups of clusters whose prices move together, because all of them are full at once."""

import math
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

import dualclust as dc
from dualclust.algos.offline import DEFAULT_OPTIONS, _held_prices
from dualclust.algos.offline._candidates import TrustRegion, collect_candidates
from dualclust.algos.offline._held_prices import (
    Blocks,
    _least,
    around_blocks,
)
from dualclust.algos.offline._price_blocks import (
    blocks_at_edge,
    reprice,
)
from dualclust.algos.scores import blocks as blocks_of_rows
from dualclust.algos.scores.sources import score_source
from tests.compare import to_numpy
from tests.passes import counted_passes
from tests.thread_ranks import groups_on_threads

OPTIONS = DEFAULT_OPTIONS


def crowded(rng, n=4_000, k=12):
    """Clusters 0 to 4 share the rows of one direction, more than they may hold; others have one."""
    direction = rng.choice(k - 4, size=n, p=[0.6, *[0.4 / (k - 5)] * (k - 5)])
    own = np.concatenate([np.zeros(5, int), np.arange(1, k - 4)])
    scores = np.where(direction[:, None] == own, 1.0, 0.5) + rng.normal(scale=0.04, size=(n, k))
    return scores, dc.SizeBounds.from_ratios(k, n_samples=n, lower=0.5, upper=1.2)


def dual(scores, prices, bounds):
    lower, upper = (np.asarray(v, dtype=float) for v in (bounds.lower, bounds.upper))
    paid = np.clip(prices, 0, None) @ lower - np.clip(-prices, 0, None) @ upper
    return (scores + prices).max(axis=1).sum() - paid


def test_all_clusters_beside_one_at_the_edge_join_it(xp, rng):
    scores, _ = crowded(rng)
    radius = xp.asarray(np.full(12, 0.1))
    candidates = collect_candidates(score_source(xp.asarray(scores)), -radius, radius, width=6)
    edge = np.zeros(12)
    edge[[0, 3, 9]] = -0.1

    def blocks(**options):
        found = blocks_at_edge(candidates, xp.asarray(edge), OPTIONS, **options)
        return [sorted(block) for block in found]

    assert blocks(together=True) == [[0, 1, 2, 3, 4], [9]]
    apart = blocks()
    assert [3 <= len(block) <= 6 for block in apart] == [True, False]
    edge[:8] = -0.1  # more than a quarter: not one by one
    assert blocks() == []
    assert blocks(together=True)[0] == [0, 1, 2, 3, 4]


def test_a_group_falls_as_one_to_where_its_rows_leave(xp, rng):
    scores, bounds = crowded(rng)
    prices, group = rng.normal(scale=0.01, size=12), [0, 1, 2, 3, 4]
    place = {"xp": xp.namespace, "device": xp.device}
    counts = bounds.lower.tolist(), bounds.upper.tolist()
    on_device = dc.SizeBounds.from_counts(*counts, n_samples=len(scores), **place)
    source, start = score_source(xp.asarray(scores)), xp.asarray(prices)
    found = to_numpy(reprice(source, on_device, start, [group], OPTIONS, together=True))
    shift = found - prices
    np.testing.assert_array_equal(shift[5:], 0.0)
    np.testing.assert_allclose(shift[:5], shift[0], atol=1e-12)
    assert -0.6 < shift[0] < -0.3  # the distance between directions
    value, ahead = dual(scores, found, bounds), np.where(np.arange(12) < 5, 1e-4, 0.0)
    assert value < dual(scores, prices, bounds) - 1.0
    assert value <= min(dual(scores, found + s * ahead, bounds) for s in (-1, 1)) + 1e-9


def test_a_large_group_has_room_and_small_ones_cost_little(rng):
    """Of a group one value of a row is kept; its clusters are looked at once."""
    n, k = 3_000, 120
    direction = np.where(rng.random(n) < 0.7, 0, 1 + rng.integers(20, size=n))
    own = np.concatenate([np.zeros(100, int), np.arange(1, 21)])
    scores = np.where(direction[:, None] == own, 1.0, 0.5) + rng.normal(scale=0.04, size=(n, k))
    bounds = dc.SizeBounds.from_counts([5] * k, [15] * 100 + [100] * 20, n_samples=n)
    source, prices = score_source(scores), rng.normal(scale=0.01, size=k)
    groups = [list(range(100)), *([i] for i in range(100, 118))]
    few = replace(OPTIONS, max_entries=12 * n)
    found = reprice(source, bounds, prices, groups, few, together=True)
    np.testing.assert_array_equal(
        found, reprice(source, bounds, prices, groups, OPTIONS, together=True)
    )
    assert (found[:100] < prices[:100] - 0.2).all()
    less = replace(OPTIONS, max_entries=3 * n)
    assert reprice(source, bounds, prices, groups[:1], less, together=True) is prices


def test_two_groups_move_at_once_and_ranks_agree(rng):
    scores, bounds = crowded(rng, n=30_000)
    prices = rng.normal(scale=0.01, size=12)
    groups = [[0, 1, 2, 3, 4], [7, 9]]
    alone = reprice(score_source(scores), bounds, prices, groups, OPTIONS, together=True)
    for group in groups:
        one = reprice(score_source(scores), bounds, prices, [group], OPTIONS, together=True)
        np.testing.assert_allclose(one[group], alone[group], atol=1e-12)

    def on_rank(group):
        own = scores[group.first_row : group.first_row + group.n_local]
        source = score_source(own)._replace(group=group, take=lambda ids: scores[ids])
        return reprice(source, bounds, prices, groups, OPTIONS, together=True)

    edges = [0, blocks_of_rows.MOST_ROWS, 3 * blocks_of_rows.MOST_ROWS, 30_000]
    for found in groups_on_threads(edges, on_rank):
        np.testing.assert_array_equal(found, alone)


def test_a_group_that_rows_cannot_leave_stays(rng):
    scores, bounds = crowded(rng)
    scores[:, 5:] = -math.inf
    source, prices, group = score_source(scores), np.zeros(12), [[0, 1, 2, 3, 4]]
    assert not reprice(source, bounds, prices, group, OPTIONS, together=True).any()
    region = TrustRegion(prices, np.ones(12))
    few = replace(OPTIONS, max_entries=10)
    together = Blocks(group, together=True)
    assert around_blocks(source, bounds, together, region, np.ones(12), few) is region


def test_the_next_region_is_around_the_prices_of_the_least_dual_value(xp, rng):
    """Neither groups that went too far nor a shift that is worth less than rounding."""
    scores, bounds = crowded(rng, n=9_000)
    place = {"xp": xp.namespace, "device": xp.device}
    counts = bounds.lower.tolist(), bounds.upper.tolist()
    on_device = dc.SizeBounds.from_counts(*counts, n_samples=len(scores), **place)
    source, start = score_source(xp.asarray(scores)), rng.normal(scale=0.01, size=12)
    best = to_numpy(
        reprice(source, on_device, xp.asarray(start), [list(range(5))], OPTIONS, together=True)
    )
    for after, expected in (
        (best, best),
        (2.0 * best - start, best),  # the middle
        (start + 1.0 * (np.arange(12) == 7), start),
        (start + 1e-13 * (np.arange(12) < 5) * np.sign(best - start), start),
    ):
        found = to_numpy(_least(source, on_device, *map(xp.asarray, (start, after))))
        np.testing.assert_allclose(found, expected, atol=1e-12)
        values = [dual(scores, p, bounds) for p in (start, after, 0.5 * (start + after), found)]
        assert values[3] <= min(values[:3]) + 1e-8 * abs(values[0])


def test_a_region_stays_where_blocks_are_no_better(rng, monkeypatch):
    scores, bounds = crowded(rng)
    region, far = TrustRegion(np.zeros(12), np.ones(12)), 1.0 * (np.arange(12) == 7)
    monkeypatch.setattr(_held_prices, "reprice", lambda *given, together: far)
    given = score_source(scores), bounds, Blocks([[7]]), region, np.ones(12), OPTIONS
    assert around_blocks(*given, judge=True) is region
    assert around_blocks(*given).center is far


def skewed(n, k, seed, d=64):
    """Cosines of rows around k / 4 directions, of sizes as 1, 1/2, 1/3 ..., with k of the rows."""
    rng = np.random.default_rng(seed)

    def unit(x):
        return x / np.linalg.norm(x, axis=1, keepdims=True)

    truth, sizes = unit(rng.normal(size=(k // 4, d))), 1.0 / np.arange(1, k // 4 + 1)
    member = rng.choice(k // 4, size=n, p=sizes / sizes.sum())
    x = unit(truth[member] + 0.5 * unit(rng.normal(size=(n, d))))
    return np.asarray(x @ x[rng.choice(n, k, replace=False)].T, np.float32)


@pytest.mark.parametrize(
    ("n", "k", "ratio", "seed"), [(8_000, 160, 0.5, 0), (8_000, 160, 0.9, 1), (9_000, 120, 1.0, 2)]
)
def test_crowded_directions_do_not_end_in_a_problem_of_all_scores(n, k, ratio, seed):
    """Prices of whole directions are 0.4 off, where a region of few candidates reaches 0.02."""
    scores = skewed(n, k, seed)
    bounds = dc.SizeBounds.from_ratios(k, n_samples=n, lower=ratio, upper=2.0 - ratio)
    source = score_source(scores)
    every = replace(OPTIONS, full_entries=n * k)
    best = dc.assign_source(source, bounds, tol=0.0, options=every)
    with counted_passes() as count:
        found = dc.assign_source(source, bounds, tol=1e-4)
    assert found.gap <= 1e-4
    assert found.violation == 0
    assert best.objective <= found.upper_bound * (1.0 + 1e-9)
    assert found.objective >= best.objective * (1.0 - 1e-4)
    assert count["_candidates.row_blocks"] <= 40  # samples, and about six passes


def test_groups_of_unequal_sizes_are_not_padded_to_the_largest(rng):
    """One of 1,000 clusters beside 900 of one each: a table of all would take 14 MB."""
    n, k = 64, 4_000
    scores, prices = rng.normal(size=(n, k)), np.zeros(k)
    bounds = dc.SizeBounds.from_counts([0] * k, [1] * k, n_samples=n)
    groups = [list(range(1_000)), *([i] for i in range(1_000, 1_900))]
    source = score_source(scores)
    reprice(source, bounds, prices, groups[:2], OPTIONS, together=True)  # imports and compiles
    tracemalloc.start()
    reprice(source, bounds, prices, groups, OPTIONS, together=True)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * 2**20
