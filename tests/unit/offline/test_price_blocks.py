"""Prices of a few clusters, found by themselves while the others stay."""

import math
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import linprog

import dualclust as dc
from dualclust.algos.offline import DEFAULT_OPTIONS, _price_blocks
from dualclust.algos.offline._candidates import TrustRegion, collect_candidates
from dualclust.algos.offline._held_prices import Blocks, around_blocks
from dualclust.algos.offline._price_blocks import (
    MOST_IN_BLOCK,
    _joined,
    blocks_at_edge,
    reprice,
)
from dualclust.algos.scores import blocks as blocks_of_rows
from dualclust.algos.scores.sources import score_source
from dualclust.algos.scores.statistics import median
from tests.compare import to_numpy
from tests.thread_ranks import groups_on_threads

OPTIONS = DEFAULT_OPTIONS


def test_pairs_are_joined_into_blocks():
    assert _joined([2, 5, 7], []) == [[2], [5], [7]]
    assert _joined([2, 5, 7], [(2, 9), (2, -1), (7, 9)]) == [[5], [7, 2, 9]]
    assert _joined([2, 5], [(2, 5), (5, 2)]) == [[2, 5]]
    full = list(range(MOST_IN_BLOCK))
    pairs = [(0, other) for other in [*full[1:], MOST_IN_BLOCK]]
    assert _joined([0, 40], [*pairs, (40, 3)]) == [full, [40]]


def best_dual(scores, prices, block, lower, upper):
    """The least dual value over the prices of a block, as a linear program."""
    n, b = len(scores), len(block)
    others = np.setdiff1d(np.arange(scores.shape[1]), block)
    outside = (scores + prices)[:, others].max(axis=1)
    # max sum_i x_i0 u_i + sum_ik x_ik s_ik, sizes of the block inside its bounds
    values = np.column_stack([outside, scores[:, block]])
    rows = np.kron(np.eye(n), np.ones((1, b + 1)))
    sizes = np.kron(np.ones((1, n)), np.column_stack([np.zeros((b, 1)), np.eye(b)]))
    found = linprog(
        -values.ravel(),
        A_ub=np.vstack([sizes, -sizes]),
        b_ub=np.concatenate([upper[block], -lower[block]]),
        A_eq=rows,
        b_eq=np.ones(n),
    )
    return -found.fun


def dual(scores, prices, block, lower, upper):
    paid = np.clip(prices[block], 0, None) @ lower[block]
    paid -= np.clip(-prices[block], 0, None) @ upper[block]
    return (scores + prices).max(axis=1).sum() - paid


def instance(rng, n=300, k=12):
    """Two clusters with too few rows nearby, and one with too many."""
    sizes = np.asarray([1.0, 1.0, *[10.0] * (k - 3), 30.0])
    member = rng.choice(k, size=n, p=sizes / sizes.sum())
    scores = rng.normal(scale=0.1, size=(n, k))
    scores[np.arange(n), member] += 1.0
    return scores, dc.SizeBounds.from_ratios(k, n_samples=n, lower=0.8, upper=1.3)


def test_the_prices_of_a_block_are_the_best_while_the_others_stay(xp, rng):
    scores, bounds = instance(rng)
    lower, upper = (np.asarray(v, dtype=float) for v in (bounds.lower, bounds.upper))
    prices = rng.normal(scale=0.05, size=12)
    blocks = [[1, 0], [11], [4, 5, 6]]
    place = {"xp": xp.namespace, "device": xp.device}
    on_device = dc.SizeBounds.from_counts(
        bounds.lower.tolist(), bounds.upper.tolist(), n_samples=300, **place
    )
    own = replace(OPTIONS, path_undecided=1e-3)
    for block in blocks:  # alone: blocks move together
        source = score_source(xp.asarray(scores))
        found = to_numpy(reprice(source, on_device, xp.asarray(prices), [block], own))
        others = np.setdiff1d(np.arange(12), block)
        np.testing.assert_array_equal(found[others], prices[others])
        least = best_dual(scores, prices, block, lower, upper)
        before, after = (dual(scores, p, block, lower, upper) for p in (prices, found))
        assert least - 1e-9 <= after <= least + 1e-3 * abs(least - before) + 1e-6
        assert before - least > 1e-2


def test_blocks_move_at_once_and_ranks_agree(rng):
    scores, bounds = instance(rng, n=30_000)
    prices = rng.normal(scale=0.05, size=12)
    blocks = [[1, 0], [11]]
    alone = reprice(score_source(scores), bounds, prices, blocks, OPTIONS)
    for block in blocks:
        one = reprice(score_source(scores), bounds, prices, [block], OPTIONS)
        np.testing.assert_allclose(one[block], alone[block], atol=1e-12)
    assert (alone[[0, 1]] > prices[[0, 1]]).all()
    assert alone[11] < prices[11]

    def on_rank(group):
        own = scores[group.first_row : group.first_row + group.n_local]
        source = score_source(own)._replace(
            group=group,
            take=lambda ids: scores[ids],
        )
        return reprice(source, bounds, prices, blocks, OPTIONS)

    edges = [0, blocks_of_rows.MOST_ROWS, 3 * blocks_of_rows.MOST_ROWS, 30_000]
    for found in groups_on_threads(edges, on_rank):
        np.testing.assert_array_equal(found, alone)


def test_a_block_without_room_keeps_its_prices(rng):
    scores, bounds = instance(rng)
    region = TrustRegion(np.zeros(12), np.ones(12))
    source, few = score_source(scores), replace(OPTIONS, max_entries=10)
    for blocks in ([[0, 1]], []):
        assert reprice(source, bounds, region.center, blocks, few) is region.center
        assert around_blocks(source, bounds, Blocks(blocks), region, np.ones(12), few) is region
    # Fewer rows than it must hold may come near it: forbidden to all but ten.
    scores[10:, 0] = -math.inf
    assert reprice(score_source(scores), bounds, region.center, [[0]], OPTIONS)[0] == 0.0


@pytest.mark.parametrize("k", [24, 120])
def test_a_block_takes_twice_that_at_most_while_it_is_solved(k, rng, monkeypatch):
    """The largest blocks of few clusters hold a third of the rows, in float64 and in lists."""
    n, peaks, solve = 20_000, [], _price_blocks._solved

    def measured(*given):
        tracemalloc.start()
        found = solve(*given)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        return found

    scores = rng.normal(size=(n, k)).astype(np.float32)
    bounds = dc.SizeBounds.from_ratios(k, n_samples=n, lower=0.9, upper=1.1)
    prices, source = np.zeros(k), score_source(scores)
    assert reprice(source, bounds, prices, [[0]], OPTIONS) is not prices  # imports and compiles
    monkeypatch.setattr(_price_blocks, "_solved", measured)
    for width in (1, 3, 8):
        for most in (n // 4, n, 2 * n, 8 * n, 40 * n):
            options = replace(OPTIONS, max_entries=most)
            found = reprice(source, bounds, prices, [list(range(width))], options)
            assert all(peak <= 16 * most + 2**17 for peak in peaks), (width, most, peaks)
            peaks.clear()
        assert found is not prices


def test_clusters_at_the_edge_bring_those_beside_them(xp, rng):
    n, k = 4000, 20
    scores = np.full((n, k), -1.0)
    scores[np.arange(n), np.arange(n) % k] = 1.0
    pair = np.arange(n) % k < 2  # clusters 0 and 1 share their rows
    scores[pair, 0], scores[pair, 1] = 1.0, 0.99
    radius = xp.asarray(np.full(k, 0.1))
    candidates = collect_candidates(score_source(xp.asarray(scores)), -radius, radius, width=4)

    def blocks(options=OPTIONS):
        return blocks_at_edge(candidates, xp.asarray(edge), options)

    edge = np.zeros(k)
    assert blocks() == []
    edge[0] = 0.1
    assert blocks() == [[0, 1]]
    edge[7] = -0.1  # its rows have no other candidate
    assert blocks() == [[0, 1], [7]]
    for entries, expected in ((320, [[0, 1], [7]]), (319, [])):  # eight times 2 x 20 pairs
        assert blocks(replace(OPTIONS, max_entries=entries)) == expected
    edge[:6] = 0.1
    assert blocks() == []


def planned(radius, n_at_edge):
    """The next region around prices of 0 of which so many stood at the edge of the last one."""
    return TrustRegion(np.zeros(12), np.where(np.arange(12) < n_at_edge, 2.0, 0.25) * radius)


@pytest.mark.parametrize(("n_at_edge", "growth"), [(0, 1.0), (3, 1.0), (4, 2.0), (12, 2.0)])
def test_no_radius_is_above_the_median_then_unless_many_prices_travel(rng, n_at_edge, growth):
    scores, bounds = instance(rng)
    radius = np.linspace(0.1, 0.3, 12)
    region = planned(radius, n_at_edge)
    source, blocks = score_source(scores), [[0, 1]]
    found = around_blocks(source, bounds, Blocks(blocks), region, radius, OPTIONS)
    np.testing.assert_array_equal(found.radius, growth * np.minimum(radius, median(radius)))
    expected = reprice(source, bounds, region.center, blocks, OPTIONS)
    np.testing.assert_array_equal(found.center, expected)


def test_a_cluster_whose_block_has_no_room_keeps_the_radius_that_was_planned(rng):
    """The rows that may join cluster 5 are fewer than it must hold."""
    scores, bounds = instance(rng)
    scores[10:, 5] = -math.inf
    radius = np.linspace(0.1, 0.3, 12)
    region = planned(radius, 1)
    found = around_blocks(
        score_source(scores), bounds, Blocks([[0, 1], [5]]), region, radius, OPTIONS
    )
    assert (found.center[[0, 1]] != 0.0).all()
    assert found.center[5] == 0.0
    small = np.minimum(radius, median(radius))
    small[5] = region.radius[5]
    np.testing.assert_array_equal(found.radius, small)


def test_rows_that_may_not_join_a_block_do_not_hide_those_that_may(rng):
    """Of 300 rows 30 may join a cluster that must hold 20: twice as many are not there."""
    scores, bounds = instance(rng)
    scores[30:, 0] = -math.inf
    found = reprice(score_source(scores), bounds, np.zeros(12), [[0]], OPTIONS)
    lower, upper = (np.asarray(v, dtype=float) for v in (bounds.lower, bounds.upper))
    finite = np.where(np.isfinite(scores), scores, -1e3)
    least = best_dual(finite, np.zeros(12), [0], lower, upper)
    assert dual(scores, found, [0], lower, upper) <= least + 0.1
    assert dual(scores, np.zeros(12), [0], lower, upper) > least + 1.0


def test_a_block_of_all_clusters_keeps_its_prices(rng):
    """No row can leave it, so that its prices may all move together: there is no least value."""
    scores, bounds = instance(rng)
    prices = rng.normal(size=12)
    found = reprice(score_source(scores), bounds, prices, [list(range(12))], OPTIONS)
    np.testing.assert_array_equal(found, prices)


def test_prices_arrive_on_every_library(xp):
    """The end to end path: a pass that memory cuts, its edge, its blocks, and the next pass."""
    x, centers = groups_of_rows(np.random.default_rng(1), n=3_000, k=40)
    place = {"xp": xp.namespace, "device": xp.device}
    bounds = dc.SizeBounds.from_ratios(40, n_samples=len(x), lower=0.9, upper=1.1, **place)
    small = {"full_entries": 0, "retry_entries": 0, "last_entries": 0, "large_pass_rows": 0}
    options = replace(OPTIONS, max_entries=3 * len(x), **small)
    source = dc.product_source(dc.feature_source(xp.asarray(x)), xp.asarray(centers))
    found = dc.assign_source(source, bounds, options=options)
    assert found.violation == 0
    best = dc.assign_source(
        dc.product_source(dc.feature_source(x), centers),
        dc.SizeBounds.from_ratios(40, n_samples=len(x), lower=0.9, upper=1.1),
        tol=0.0,
    )
    assert found.objective <= best.objective * (1.0 + 1e-6) <= found.upper_bound * (1.0 + 2e-6)


@pytest.mark.parametrize("width", [2, 4, 16])
def test_a_neighbor_is_one_of_most_rows_however_long_their_lists(width):
    n, k = 1000, 40
    scores = np.linspace(0.0, -1e-3, k) * np.ones((n, 1))  # all clusters tie, but for an order
    scores[:, 0], scores[:, 1] = 1.0, 1.0
    radius = np.full(k, 1.0)
    candidates = collect_candidates(score_source(scores), -radius, radius, width=width)
    edge = np.zeros(k)
    edge[0] = 1.0
    assert 1 in blocks_at_edge(candidates, edge, OPTIONS)[0]


def groups_of_rows(rng, n=100_000, k=200, d=64):
    """Unequal groups on the sphere, and centers among their rows: some groups are too small."""
    groups = k // 2
    truth = rng.normal(size=(groups, d))
    truth /= np.linalg.norm(truth, axis=1, keepdims=True)
    sizes = np.linspace(1, 20, groups)
    member = rng.choice(groups, size=n, p=sizes / sizes.sum())
    x = truth[member] + 0.5 / d**0.5 * rng.normal(size=(n, d))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    centers = x[np.concatenate([np.flatnonzero(member == g)[:2] for g in range(groups)])]
    return x.astype(np.float32), centers.astype(np.float32)


def test_prices_that_memory_holds_back_arrive():
    """A region cut to few candidates reaches the gap: without blocks it proves 1e-3, or less."""
    x, centers = groups_of_rows(np.random.default_rng(1))
    bounds = dc.SizeBounds.from_ratios(200, n_samples=len(x), lower=0.9, upper=1.1)
    cut = {"max_entries": int(3.36 * len(x)), "large_pass_rows": 0}
    last = {"last_entries": 2**20, "retry_entries": 2**16}
    source = dc.product_source(dc.feature_source(x), centers)
    found = dc.assign_source(source, bounds, options=replace(OPTIONS, **cut, **last))
    assert found.violation == 0
    assert found.gap <= 1e-4
