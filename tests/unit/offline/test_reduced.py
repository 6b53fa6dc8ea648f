"""Labels from candidates, step by step: the bound, where to give up, and windows that grow."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from dualclust.algos.bounds.sizes import SizeBounds, price_of_bounds
from dualclust.algos.offline import SolverOptions, _reduced
from dualclust.algos.offline._candidates import TrustRegion, all_candidates, collect_candidates
from dualclust.algos.offline._reduced import (
    LEAST_TEMPERATURE,
    _held_back,
    _undecided,
    _worth,
    labels_by_paths,
    solve_reduced,
)
from dualclust.algos.offline._smoothed_dual import RefinedPrices
from dualclust.algos.scores.sources import score_source

N, K, RADIUS = 40, 5, 0.5
OPTIONS = SolverOptions(chunk_rows=7)  # several parts, of which the last is not full


def problem(seed, width=2):
    """Candidates of a region, its middle, and prices inside it that are not the middle."""
    rng = np.random.default_rng(seed)
    scores, middle = rng.normal(size=(N, K)) - 1.0, rng.normal(size=K)
    low, high = middle - RADIUS, middle + RADIUS
    kept = collect_candidates(score_source(scores), low, high, width=width)
    return kept, middle, middle + rng.uniform(-RADIUS, RADIUS, K)


def parts(kept, prices):
    """Of free rows: scores of the first candidate, and what the best one is worth."""
    priced = kept.values + prices[np.maximum(kept.clusters, 0)]
    return kept.values[:, 0], priced.max(axis=1)


@pytest.mark.parametrize("seed", range(3))
def test_what_candidates_and_truncated_clusters_are_worth(seed):
    kept, _, prices = problem(seed)
    first, best = parts(kept, prices)
    assert 0 < kept.is_truncated.sum() < len(first) < N
    expected = (
        np.maximum(kept.truncation - best, 0.0).sum(),
        kept.fixed_value + best.sum(),
        kept.fixed_size + np.abs(first).sum(),
        kept.fixed_counts @ prices,
    )
    assert expected[0] > 0.0
    assert _worth(kept, prices, OPTIONS) == pytest.approx(expected, rel=1e-12)


def at_prices(monkeypatch, prices, temperature=0.01):
    """Let Newton's method find these prices; returns how it was asked."""
    seen = []

    def refine(own, center, *, start, border):
        seen.append((own, center, start, border))
        return RefinedPrices(prices, temperature)

    monkeypatch.setattr(_reduced, "refine_prices", refine)
    return seen


@pytest.mark.parametrize("seed", range(3))
def test_the_bound_is_that_of_the_prices_and_labels_need_what_was_truncated(seed, monkeypatch):
    kept, middle, prices = problem(seed)
    radius = np.asarray([0.5, 0.25, 0.75, 0.5, 0.5])
    seen = at_prices(monkeypatch, prices)
    monkeypatch.setattr(_reduced, "_held_back", lambda *args: False)
    monkeypatch.setattr(_reduced, "labels_by_paths", lambda *args: ("labels", args))
    bounds = SizeBounds.from_counts([6, 7, 8, 5, 4], [9, 9, 12, 9, 8], n_samples=N)
    truncated, worth, size, fixed = _worth(kept, prices, OPTIONS)
    share = truncated / size

    def solved(tol, **given):
        return solve_reduced(
            kept, bounds, TrustRegion(middle, radius), tol, options=OPTIONS, **given
        )

    for found, has_labels in (
        (solved(1.001 * share), True),
        (solved(0.999 * share), False),
        (solved(0.5 * share, max_truncation=1.001 * share), True),
        (solved(2.0 * share, max_truncation=0.999 * share), False),
    ):
        bound = worth + truncated + fixed + price_of_bounds(prices, bounds)
        assert found.bound == pytest.approx(bound, rel=1e-12)
        assert found.proving is prices
        assert (found.assignment == "labels") is has_labels
        if not has_labels:
            assert found.assignment is None
            assert found.prices is prices
            continue
        candidates, of_all, refined, tol, about, options = found.prices
        assert candidates is kept
        assert of_all is bounds
        assert refined == RefinedPrices(prices, 0.01)
        assert tol in (1.001 * share, 0.5 * share)
        assert (about, options) == (size, OPTIONS)
    own, center, start, border = seen[0]
    assert own.lower.tolist() == [6.0, 7.0, 8.0, 5.0, 4.0]
    assert own.upper.tolist() == [9.0, 9.0, 12.0, 9.0, 8.0]
    assert center is middle
    assert (start, border) == (
        pytest.approx(0.5 / 32.0),
        _undecided(K, OPTIONS),
    )


def test_a_region_without_width_has_a_temperature_that_divides(monkeypatch):
    kept, middle, _ = problem(0)
    seen = at_prices(monkeypatch, middle)
    bounds = SizeBounds.from_counts([0] * K, n_samples=N)
    solve_reduced(kept, bounds, TrustRegion(middle, np.zeros(K)), 1.0)
    assert seen[0][2] == LEAST_TEMPERATURE == 1e-290


def test_nothing_is_sought_where_the_region_holds_prices_back(monkeypatch):
    kept, middle, prices = problem(0, width=K)  # nothing is truncated
    at_prices(monkeypatch, prices)
    monkeypatch.setattr(_reduced, "labels_by_paths", lambda *args: ("labels", None))
    bounds = SizeBounds.from_counts([0] * K, n_samples=N)
    region = TrustRegion(middle, np.full(K, RADIUS))
    for is_held, labels in ((True, None), (False, "labels")):
        monkeypatch.setattr(_reduced, "_held_back", lambda *args, is_held=is_held: is_held)
        found = solve_reduced(kept, bounds, region, 0.0, options=OPTIONS)
        assert found.assignment == labels
        assert found.prices is (prices if is_held else None)


@pytest.mark.parametrize(
    ("prices", "options", "expected", "asked"),
    [
        ([0.25, 0.5, -0.5, 0.25], {}, False, False),  # none at the edge
        # One of four: of more than a share of the prices, labels are not looked for.
        ([1.0, 0.5, 0.0, 0.0], {"edge_share": 0.249, "max_stranded": 100.0}, True, False),
        # Else what counts: cluster 0 has 2 of at least 5 rows, cluster 1 has 8 of at most 6.
        ([1.0, 0.5, 0.0, 0.0], {"edge_share": 0.25, "max_stranded": 0.75}, False, True),
        ([1.0, 0.5, 0.0, 0.0], {"edge_share": 0.25, "max_stranded": 0.74}, True, True),
        ([0.5, -2.0, 0.0, 0.0], {"edge_share": 0.25, "max_stranded": 0.5}, False, True),
        ([0.5, -2.0, 0.0, 0.0], {"edge_share": 0.25, "max_stranded": 0.49}, True, True),
        ([1.0, -2.0, 0.5, 0.5], {"edge_share": 0.5, "max_stranded": 1.25}, False, True),
        ([1.0, -2.0, 0.5, 0.5], {"edge_share": 0.5, "max_stranded": 1.24}, True, True),
        # A price of 0 leaves its cluster up to its upper bound, 9.
        ([0.0, 0.5, 0.5, 0.5], {"edge_share": 0.25, "max_stranded": 1.75}, False, True),
        ([0.0, 0.5, 0.5, 0.5], {"edge_share": 0.25, "max_stranded": 1.74}, True, True),
    ],
)
def test_the_edge_of_the_region_holds_back_what_is_stranded(
    prices, options, expected, asked, monkeypatch
):
    kept = all_candidates(score_source(np.zeros((6, 4))), like=np.zeros(4))
    low, high = np.asarray([0.0, -2.0, -1.0, -1.0]), np.ones(4)
    kept = kept._replace(low=low, high=high, fixed_counts=np.asarray([1, 5, 100, 100]))
    own = kept.problem(np.asarray([5, 4, 0, 0]), np.asarray([9, 6, 0, 0]))
    seen = []

    def counts(values, clusters, at, *, temperature):
        assert values is own.values
        assert clusters is own.clusters
        seen.append((at.tolist(), temperature))
        return 0.0, np.asarray([1.0, 3.0, 0.0, 0.0]), None, None

    monkeypatch.setattr(_reduced, "soft_counts", counts)
    refined = RefinedPrices(np.asarray(prices), 0.25)
    found = _held_back(kept, own, refined, SolverOptions(**options))
    assert found is expected
    assert seen == [(prices, 0.25)] * asked


class Paths:
    """Augmenting paths and proofs that were agreed before; what they were asked is kept."""

    def __init__(self, monkeypatch, stuck, misplaced=(), moved=None):
        self.stuck, self.misplaced, self.moved = iter(stuck), iter(misplaced), moved
        self.windows, self.starts, self.bounds, self.proofs = [], [], [], []
        monkeypatch.setattr(_reduced, "augmenting_paths", self.augment)
        monkeypatch.setattr(_reduced, "proven", self.proven)

    def augment(self, values, clusters, prices, *, lower, upper, window):
        self.windows.append(window)
        self.starts.append(prices.tolist())
        self.bounds.append((lower.tolist(), upper.tolist()))
        moved = prices + 1.0 if self.moved is None else self.moved
        return np.zeros(4, np.int64), moved, 0, 0, next(self.stuck)

    def proven(self, candidates, slots, prices, bounds, scale, options):
        self.proofs.append((prices.tolist(), scale))
        found = SimpleNamespace(upper_bound=-80.0, number=len(self.proofs))
        return found, next(self.misplaced)


def by_paths(size=40.0, reach=10.0, tol=0.1, prices=(0.5, -0.25), **options):
    kept = all_candidates(score_source(np.zeros((4, 2))), like=np.zeros(2))
    kept = kept._replace(
        fixed_counts=np.asarray([1, 2]),
        low=np.asarray([0.0, -reach]),
        high=np.asarray([0.5, 0.0]),
    )
    bounds = SizeBounds.from_counts([3, 2], [4, 5], n_samples=7)
    refined = RefinedPrices(np.asarray(prices), 0.25)
    return labels_by_paths(kept, bounds, refined, tol, size, SolverOptions(**options))


def test_windows_grow_until_little_is_misplaced(monkeypatch):
    """Within an eighth of the gap: of 0.1 of 80, which is 1."""
    for second, number, windows in ((1.0, 2, [1.0, 8.0]), (1.01, 3, [1.0, 8.0, 64.0])):
        paths = Paths(monkeypatch, [False] * 3, [9.0, second, 0.0])
        found, prices = by_paths()
        assert found.number == number
        assert paths.windows == windows
        assert paths.bounds == [([2, 0], [3, 3])] * number
        # Each begins with the prices of the one before.
        assert paths.starts == [[0.5 + i, -0.25 + i] for i in range(number)]
        assert prices.tolist() == [0.5 + number, -0.25 + number]
        assert [scale for _, scale in paths.proofs] == [1.5 + i for i in range(number)]
    paths = Paths(monkeypatch, [False] * 2, [2.5, 0.0])
    assert by_paths(size=200.0)[0].number == 1  # of 200, where that is more


def test_the_last_window_is_everything(monkeypatch):
    paths = Paths(monkeypatch, [True, False, True, False], [9.0, 9.0])
    found, _ = by_paths(max_windows=3, window=2.0, window_growth=4.0)
    assert paths.windows == [0.5, 2.0, 8.0, math.inf]
    assert found.number == 2
    # Of a search that is stuck the prices are no start.
    assert paths.starts == [[0.5, -0.25], [0.5, -0.25], [1.5, 0.75], [1.5, 0.75]]
    Paths(monkeypatch, [False, True], [9.0])
    assert by_paths(max_windows=1)[0] is None  # labels of the last attempt, or none


def test_a_window_beyond_every_candidate_is_the_last(monkeypatch):
    """No candidate is farther behind than twice the width of the region."""
    for reach, windows in ((4.0, [1.0, 8.0, 64.0]), (3.99, [1.0, 8.0])):
        paths = Paths(monkeypatch, [True] * 5)
        found, prices = by_paths(reach=reach)
        assert found is None
        assert paths.windows == windows
        assert prices.tolist() == [0.5, -0.25]


def test_prices_that_rounding_alone_explains_are_0(monkeypatch):
    """Of prices that were as large as 2^46 on the way, 1 may be left."""
    for before, moved, kept in (
        ((2.0**46, 0.0), [1.0, -3.0], [0.0, -3.0]),
        ((0.0, -(2.0**46)), [1.01, -1.0], [1.01, 0.0]),
        ((0.0, 0.0), [-(2.0**46), 0.5], [-(2.0**46), 0.0]),
    ):
        paths = Paths(monkeypatch, [False], [0.0], moved=np.asarray(moved))
        _, prices = by_paths(prices=before)
        assert prices.tolist() == kept
        assert paths.proofs == [(kept, 2.0**46)]


@pytest.mark.parametrize(
    ("k", "border"),
    [(3, 32.0), (10, 30.0), (300, 1.0), (1_000, 0.3), (3_000, 0.1), (10_000, 0.1)],
)
def test_paths_begin_at_so_many_undecided_rows(k, border):
    """300 of all clusters, between a tenth of one and 32 for each."""
    assert _undecided(k, OPTIONS) == border
    assert _undecided(k, replace(OPTIONS, path_undecided=0.5, least_undecided=0.25)) <= 0.5
    assert _undecided(k, replace(OPTIONS, path_rows=0.0)) == OPTIONS.least_undecided
