"""What a search keeps: the labels of the smallest gap, and the prices that prove most."""

import math

import numpy as np
import pytest

from benchmarks.families import FAMILIES
from dualclust.algos.bounds.farkas import verify_infeasibility
from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.core.errors import InfeasibleBoundsError, InvalidValueError
from dualclust.algos.offline import DEFAULT_OPTIONS, SolverOptions
from dualclust.algos.offline._candidates import TrustRegion
from dualclust.algos.offline._proof import OfflineAssignment, best_of
from dualclust.algos.offline._reduced import ReducedSolution
from dualclust.algos.offline._search import (
    REPEATS,
    Phase,
    Problem,
    Search,
    _after_pass,
    _passes,
    _started,
    extrapolated,
)
from dualclust.algos.offline.assignment import assign_exact, assign_offline, assign_source
from dualclust.algos.online.certificates import dual_value
from dualclust.algos.scores.sources import Group, score_source
from dualclust.backends import engine
from tests.compare import to_numpy
from tests.passes import OVER_SCORES, counted_passes


def labels_of(gap):
    empty = np.zeros(0)
    return OfflineAssignment(empty, empty, empty, 1.0, 1.0, 0.0, 0, gap)


def test_the_smallest_gap_and_of_equals_the_first():
    worse, best, equal = labels_of(0.5), labels_of(0.25), labels_of(0.25)
    assert best_of() is None
    assert best_of(None, None) is None
    assert best_of(None, worse) is worse
    assert best_of(worse, None, best, equal) is best
    assert best_of(equal, best, worse) is equal


@pytest.mark.parametrize(("bound", "is_kept"), [(3.0, False), (2.0, False), (1.0, True)])
def test_a_pass_is_judged_by_its_labels_and_by_its_bound(bound, is_kept):
    old, new, moved = np.zeros(2), np.ones(2), np.full(2, 9.0)
    region = TrustRegion(np.zeros(2), np.ones(2))
    first = labels_of(0.25)
    search = Search(region, 4, Phase.WIDEN, old, 2.0, first)
    found = search.judged(ReducedSolution(labels_of(0.25), moved, bound, new, is_stuck=False))
    assert found.best is first
    assert found.least_bound == min(bound, 2.0)
    assert found.best_prices is (new if is_kept else old)
    better = labels_of(0.125)
    assert search.judged(ReducedSolution(better, moved, bound, new, is_stuck=False)).best is better
    assert search.judged(ReducedSolution(None, moved, bound, new, is_stuck=True)).best is first


def test_a_step_is_repeated_as_often_as_that_lowers_the_dual_value(xp, rng):
    """Of random steps: the least of the values that are tried, or None where none is better."""
    n_better = 0
    for _ in range(40):
        n, k = int(rng.integers(5, 60)), int(rng.integers(2, 6))
        scores = np.round(rng.normal(size=(n, k)) * 16) / 16
        scores[rng.random((n, k)) < 0.1] = -np.inf
        scores[:, 0] = np.where(np.isfinite(scores).any(axis=1), scores[:, 0], 0.0)
        lower, upper = [n // (2 * k)] * k, [n] * k
        before = np.round(rng.normal(size=k) * 16) / 16
        prices = before + np.round(rng.normal(size=k) * 2) / 16
        tried = [prices + t * (prices - before) for t in REPEATS]
        numpy_bounds = SizeBounds.from_counts(lower, upper, n_samples=n)
        values = [dual_value(scores, some, numpy_bounds) for some in tried]
        bounds = SizeBounds.from_counts(lower, upper, n_samples=n, **xp.place)
        given = (xp.asarray(v) for v in (before, prices))
        found = extrapolated(score_source(xp.asarray(scores)), bounds, *given)
        least = int(np.argmin(values))
        if values[least] < values[0]:
            n_better += 1
            assert found is not None
            value = dual_value(scores, to_numpy(found), numpy_bounds)
            assert value == pytest.approx(values[least], rel=1e-12)
        else:
            assert found is None
    assert 5 < n_better < 35


@pytest.mark.parametrize("seed", [0, 4])
def test_clusters_of_one_direction_move_together(seed):
    """Eight clusters share each direction, and lists are too short for all of them.

    One direction has forty rows more than its clusters may hold, so that their eight prices fall by
    the distance to the next one: sixty times what tells rows of one direction apart.
    """
    rng, n, k = np.random.default_rng(seed), 4_096, 64
    directions = np.eye(8)[np.arange(k) % 8]
    rows = np.repeat(np.eye(8), n // 8, axis=0)
    rows[:40] = np.eye(8)[1]
    scores = rows @ directions.T + rng.normal(size=(n, k)) / 64
    bounds = SizeBounds.from_counts([n // k - 2] * k, [n // k + 2] * k, n_samples=n)
    options = SolverOptions(full_entries=0, max_entries=6 * n, entries_per_row=0.0, last_entries=0)
    found = assign_offline(scores, bounds, tol=1e-4, options=options)
    assert found.gap <= 1e-4
    assert np.abs(np.bincount(found.labels, minlength=k) - n // k).max() <= 2


@pytest.mark.unjudged(reason="it counts passes")
def test_repeated_steps_end_what_would_take_all_scores():
    """Lists of six, far from the best prices: 109 passes without them, and then all scores."""
    n, k = 8_000, 100
    made = FAMILIES["crowded"](n, k, 2)
    options = SolverOptions(max_entries=6 * n, entries_per_row=0.0, last_entries=0)
    with counted_passes() as passes:
        found = assign_exact(made.scores, made.bounds, options=options)
    assert (found.gap, found.phase) == (0.0, "candidates")
    assert sum(passes[where] for where in OVER_SCORES) < 95


def test_passes_end_once_all_scores_take_no_longer():
    made = FAMILIES["rank one"](8_000, 100, 2)  # along a line too many clusters tie
    for short, phase in ((0, "all scores"), (1, "candidates")):
        options = SolverOptions(max_entries=made.scores.size - short)
        found = assign_exact(made.scores, made.bounds, options=options)
        assert (found.gap, found.phase) == (0.0, phase)


def test_where_paths_find_no_labels_rows_keep_more_candidates():
    """Of directions that lie apart each lacks a few rows: a smaller region has no way for them."""
    made = FAMILIES["crowded"](60_000, 100, 0)
    found = assign_exact(made.scores, made.bounds)
    assert (found.gap, found.phase) == (0.0, "candidates")  # after 48 passes all scores before


@pytest.mark.unjudged(reason="it counts passes")
def test_passes_end_where_most_rows_tie():
    """Nothing but their labels and those of online passes may follow: else 101 passes."""
    n, k = 1_000, 30
    made = FAMILIES["ratings"](n, k, 1)
    given = dict.fromkeys(("full_entries", "few_clusters", "last_entries"), 0)
    options = SolverOptions(**given, max_entries=4 * n, entries_per_row=0.0, pass_width=8)
    with counted_passes() as passes:
        found = assign_offline(made.scores, made.bounds, options=options)
    assert found.phase == "online passes"
    assert sum(passes[where] for where in OVER_SCORES) < 60


@pytest.mark.unjudged(reason="it lists the rows that are read")
def test_a_small_problem_without_labels_is_read_twice(rng):
    """Once for the labels, once for the proof that there are none; few rows tell the unit."""
    n, k, read, some = 2_000, 20, [], []
    scores = rng.normal(size=(n, k))
    scores[:1_950, 0] = -math.inf
    plain = score_source(scores)
    source = plain._replace(
        block=lambda a, b: read.append(b - a) or plain.block(a, b),
        take=lambda ids: some.append(len(ids)) or plain.take(ids),
    )
    bounds = SizeBounds.from_counts([60] + [0] * (k - 1), n_samples=n)
    with pytest.raises(InfeasibleBoundsError, match="cluster 0 needs at least 60"):
        assign_source(source, bounds)
    assert sum(read) == 2 * n
    assert sum(some) == DEFAULT_OPTIONS.typical_rows


def test_a_loose_gap_is_that_of_an_online_pass_where_passes_are_fast():
    """Without an engine they take as long as further candidates, which prove more."""
    made, options = FAMILIES["crowded"](1_000, 32, 2), SolverOptions(full_entries=0)
    for name, phase in (("auto", "online passes"), ("reference", "candidates")):
        with engine(name):
            found = assign_offline(made.scores, made.bounds, tol=1e-2, options=options)
        assert (found.phase, found.gap <= 1e-2) == (phase, True)


@pytest.mark.parametrize(
    ("options", "radius", "begins", "is_proven"),
    [
        ({}, None, Phase.WIDEN, True),
        ({"entries_per_row": 0, "max_entries": 9_999, "pass_width": 12}, None, Phase.FOLLOW, True),
        ({"pass_width": 2, "min_sample_rows": 256}, None, Phase.FOLLOW, True),
        # Of a region that truncates most rows nothing is learned.
        (
            {"pass_width": 4, "max_entries": 8 * 2_048, "entries_per_row": 0.0},
            9.0,
            Phase.WIDEN,
            False,
        ),
        ({"max_passes": 1}, 1e-9, Phase.WIDEN, False),
    ],
    ids=["wide", "little memory", "most truncated", "radius too large", "radius too small"],
)
def test_how_a_search_begins_and_ends(options, radius, begins, is_proven):
    n, k = 2_048, 48
    scores = np.random.default_rng(1).normal(size=(n, k))
    bounds = SizeBounds.from_ratios(k, n_samples=n, lower=0.9, upper=1.1)
    prices = None if radius is None else np.zeros(k)
    own = None if radius is None else np.full(k, radius)
    made = SolverOptions(full_entries=0, sample_rows_per_cluster=1, **options)
    problem = Problem(score_source(scores), bounds, 1e-4, made, own)
    search = _started(problem, prices)
    assert search.phase is begins
    found = _passes(problem, search)
    assert found.is_proven(1e-4) is is_proven
    assert (found.phase is Phase.END) is (is_proven or radius == 9.0)
    # It starts again without the radius.
    whole = assign_source(problem.source, bounds, prices=prices, price_radius=own, options=made)
    assert whole.gap <= 1e-4
    assert whole.phase == "candidates"


def test_a_region_that_memory_does_not_hold_is_halved_and_follows(rng):
    n, k = 512, 16
    bounds = SizeBounds.from_ratios(k, n_samples=n, lower=0.9, upper=1.1)
    options = SolverOptions(max_entries=4 * n, entries_per_row=0.0)
    problem = Problem(score_source(rng.normal(size=(n, k))), bounds, 1e-4, options)
    region = TrustRegion(np.zeros(k), np.full(k, 8.0))
    after = _after_pass(problem, Search(region, 16, Phase.WIDEN, region.center), 0)
    assert after.phase is Phase.FOLLOW
    assert (after.region.radius == 4.0).all()
    assert after.best is None


@pytest.mark.parametrize(
    ("phase", "most", "width", "after"),
    [
        (Phase.WIDEN, 2**25, 8, Phase.WIDEN),
        (Phase.WIDEN, 7 * 512, 8, Phase.FOLLOW),
        (Phase.FOLLOW, 2**25, 4, Phase.FOLLOW),
    ],
)
def test_rows_keep_more_candidates_unless_the_region_follows(rng, phase, most, width, after):
    n, k = 512, 16
    bounds = SizeBounds.from_ratios(k, n_samples=n, lower=0.9, upper=1.1)
    options = SolverOptions(max_entries=most, entries_per_row=0.0)
    problem = Problem(score_source(rng.normal(size=(n, k))), bounds, 1e-4, options)
    region = TrustRegion(np.zeros(k), np.full(k, 0.5))
    found = _after_pass(problem, Search(region, 4, phase, region.center), 0)
    assert (found.width, found.phase) == (width, after)


def test_a_problem_counts_the_scores_of_all_ranks():
    source = score_source(np.zeros((4, 3)))._replace(group=Group(2, 4, 10, lambda a: a))
    bounds = SizeBounds.from_counts([0] * 3, n_samples=10)
    made = [Problem(source, bounds, tol, DEFAULT_OPTIONS) for tol in (0.0, 1e-300)]
    assert [problem.is_exact for problem in made] == [True, False]
    assert [problem.max_entries for problem in made] == [None, DEFAULT_OPTIONS.max_entries]
    assert made[0].n_scores == 30


@pytest.mark.parametrize("row", [0, 10_000, 49_999])
def test_what_is_wrong_with_a_row_names_it_though_a_sample_met_it_first(row):
    """Samples have 4,096 and 32,768 of these rows, in an order of their own."""
    n, k = 50_000, 20
    scores = np.random.default_rng(0).normal(size=(n, k)).astype(np.float32)
    bounds = SizeBounds.from_ratios(k, n_samples=n, lower=0.9, upper=1.1)
    for wrong in (math.nan, math.inf):
        scores[row, 3] = wrong
        with pytest.raises(InvalidValueError, match=rf"row {row}\b"):
            assign_source(score_source(scores), bounds)
    scores[row] = -math.inf
    with pytest.raises(InfeasibleBoundsError, match=rf"sample {row}\b") as found:
        assign_source(score_source(scores), bounds)
    assert found.value.vector.sample == row
    low, high = bounds.lower.tolist(), bounds.upper.tolist()
    assert verify_infeasibility(low, high, np.isfinite(scores), found.value.vector)


def test_a_first_pass_keeps_64_candidates_of_a_given_radius_and_all_that_tie_of_distinct_rows():
    n, k = 90, 999
    source, bounds = score_source(np.zeros((n, k))), SizeBounds.from_counts([0] * k, n_samples=n)
    radius = np.ones(k)
    problem = Problem(source, bounds, 0.0, SolverOptions(), radius)
    assert _started(problem, np.zeros(k)).width == 64
    found = _started(problem._replace(price_radius=None), None)
    assert (found.width, found.phase) == (1024, Phase.WIDEN)
