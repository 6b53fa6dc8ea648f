"""A time limit ends a search with labels inside the bounds and the gap that is proven for them."""

import copy

import numpy as np
import pytest

from benchmarks.families import FAMILIES
from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.clustering.constrained import constrained_kmeans
from dualclust.algos.clustering.lloyd import kmeans
from dualclust.algos.core.errors import InvalidTypeError, InvalidValueError
from dualclust.algos.offline import SolverOptions, assign_exact, assign_offline
from dualclust.algos.offline.assignment import assign_source
from dualclust.algos.scores.deadline import Deadline
from dualclust.algos.scores.sources import score_source
from tests.offline_results import check as check_result
from tests.thread_ranks import groups_on_threads

N, K = 8_000, 32


class Asked:
    """A clock that moves by a second each time somebody looks at it."""

    def __init__(self):
        self.now = -1.0

    def __call__(self):
        self.now += 1.0
        return self.now


def problem_of(n):
    made = FAMILIES["crowded"](n, K, 2)
    best = assign_exact(made.scores, made.bounds)
    assert best.gap == 0.0
    return made.scores, made.bounds, best


@pytest.fixture(scope="module")
def crowded():
    return problem_of(N)


@pytest.fixture(scope="module")
def smaller():
    return problem_of(2_500)


def check(found, scores, bounds, best):
    check_result(found, scores, bounds)
    assert found.objective <= best.objective * (1.0 + 1e-12)
    assert found.upper_bound >= best.objective * (1.0 - 1e-12)


def test_no_time_at_all_leaves_labels_of_online_passes(xp, smaller):
    scores, bounds, best = smaller
    limits = (np.asarray(v).tolist() for v in (bounds.lower, bounds.upper))
    own = SizeBounds.from_counts(*limits, n_samples=len(scores), **xp.place)
    found = assign_offline(xp.asarray(scores), own, tol=0.0, time_limit=0.0)
    assert (found.phase, found.status) == ("online passes", "within gap")
    assert 0.0 < found.gap < 0.5
    check(found, scores, own, best)


def test_whenever_it_ends_the_labels_are_inside_and_the_gap_is_proven(crowded):
    """The clock is asked a number of times; any of them may be the last."""
    scores, bounds, best = crowded
    clock = Asked()
    whole = assign_offline(scores, bounds, tol=0.0, time_limit=Deadline(1e9, clock=clock))
    assert (whole.gap, whole.phase) == (0.0, "candidates")
    n_asked = int(clock.now)
    assert n_asked > 8
    phases, gaps = set(), []
    for asked in range(1, n_asked + 2):
        found = assign_offline(scores, bounds, tol=0.0, time_limit=Deadline(asked, clock=Asked()))
        check(found, scores, bounds, best)
        phases.add(found.phase)
        gaps.append(found.gap)
    assert phases == {"online passes", "candidates"}
    assert gaps[-1] == 0.0 < max(gaps)
    assert min(gaps[: n_asked // 2]) > gaps[-1]


@pytest.mark.parametrize(
    ("n", "k", "phase"), [(300, 20, "all scores"), (20_000, 4, "few clusters")]
)
def test_small_problems_and_few_clusters_look_at_the_clock(n, k, phase, rng):
    scores = rng.normal(size=(n, k)) + np.linspace(0.0, 1.0, k)
    bounds = SizeBounds.from_ratios(k, n_samples=n, lower=0.9, upper=1.1)
    clock = Asked()
    whole = assign_exact(scores, bounds, time_limit=Deadline(1e9, clock=clock))
    assert (whole.gap, whole.phase) == (0.0, phase)
    phases = []
    for asked in range(int(clock.now) + 2):
        found = assign_exact(scores, bounds, time_limit=Deadline(asked, clock=Asked()))
        assert (found.counts >= bounds.lower).all()
        assert (found.counts <= bounds.upper).all()
        assert found.objective <= whole.objective <= found.upper_bound + found.rounding
        phases.append(found.phase)
    assert (phases[0], phases[-1]) == ("online passes", phase)


def test_forbidden_pairs_that_passes_do_not_solve_are_solved_from_all_scores(rng):
    """Labels inside the bounds come before the clock: only all scores lead to some."""
    n, k = 600, 6
    scores = np.full((n, k), -np.inf)  # a chain: each hundred wants the next cluster, none may
    own = np.repeat(np.arange(k), 100)
    scores[np.arange(n), own] = rng.normal(size=n)
    scores[np.arange(500), own[:500] + 1] = 9.0
    bounds = SizeBounds.from_counts([100] * k, [100] * k, n_samples=n)
    options = SolverOptions(full_entries=0, few_clusters=0)
    found = assign_offline(scores, bounds, tol=1e-4, time_limit=0.0, options=options)
    assert found.labels.tolist() == own.tolist()
    assert (found.gap, found.phase) == (0.0, "all scores")


@pytest.mark.parametrize("late", [0, 1])
def test_ranks_end_together_when_one_of_them_is_late(late, crowded):
    scores, bounds, _ = crowded
    edges = [0, 4_096, N]

    def run(group):
        first, last = group.first_row, group.first_row + group.n_local
        source = score_source(scores)  # whose rows are taken from wherever they are
        source = source._replace(block=lambda a, b: scores[first:last][a:b], group=group)
        seconds = 2.0 if first == edges[late] else 1e9
        limit = Deadline(seconds, clock=Asked())
        return assign_source(source, bounds, tol=0.0, time_limit=limit)

    parts = groups_on_threads(edges, run)
    assert len({part.gap for part in parts}) == 1
    assert {part.phase for part in parts} == {"online passes"}
    check(parts[0]._replace(labels=np.concatenate([p.labels for p in parts])), *crowded)


@pytest.mark.parametrize("bad", [-1.0, float("nan"), float("inf")])
def test_seconds_that_mean_nothing_are_refused(bad):
    scores, bounds = np.ones((4, 2)), SizeBounds.from_ratios(2, n_samples=4)
    with pytest.raises(InvalidValueError, match="time_limit must lie in"):
        assign_offline(scores, bounds, time_limit=bad)
    with pytest.raises(InvalidValueError, match="time_limit"):
        constrained_kmeans(scores, bounds, scores[:2], time_limit=bad)
    with pytest.raises(InvalidTypeError, match="time_limit must be a number"):
        kmeans(scores, scores[:2], time_limit="soon")


def test_one_without_seconds_comes_when_it_is_asked_for(crowded):
    """Nothing is different before: not even what follows where passes prove nothing."""
    (scores, bounds, _), asked = crowded, []
    deadline = Deadline(asked=lambda: bool(asked))
    options = SolverOptions(max_passes=1)
    plain = assign_exact(scores, bounds, options=options)
    found = assign_exact(scores, bounds, options=options, time_limit=deadline)
    assert found.phase == plain.phase == "all scores"
    assert found.labels.tolist() == plain.labels.tolist()
    n_asked = {}
    for most in (scores.size - 1, scores.size):  # more may take long
        clock, options = Asked(), SolverOptions(max_passes=1, max_entries=most)
        timed = assign_exact(scores, bounds, options=options, time_limit=Deadline(1e9, clock=clock))
        n_asked[timed.phase] = clock.now
    assert n_asked["all scores"] > n_asked["online passes"] + 1.0  # which read the clock too
    asked.append(1)
    assert deadline.is_late()
    assert assign_exact(scores, bounds, time_limit=deadline).phase == "online passes"
    assert copy.deepcopy(deadline) is deadline
