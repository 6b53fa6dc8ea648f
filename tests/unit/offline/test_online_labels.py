"""Prices to start from, and labels where few candidates do not help, by online passes."""

import math

import numpy as np
import pytest

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.core.errors import InvalidValueError
from dualclust.algos.offline import SolverOptions
from dualclust.algos.offline._online_labels import assign_in_passes
from dualclust.algos.offline.assignment import assign_exact, assign_offline, assign_source
from dualclust.algos.scores import sources, turns
from dualclust.algos.scores.blocks import MOST_ROWS
from dualclust.algos.scores.sources import score_source
from tests.compare import assert_same_kind, to_numpy
from tests.libraries import LIBRARIES
from tests.offline_results import check as check_result
from tests.problems import cone_scores
from tests.thread_ranks import groups_on_threads


def ratios(xp, n, k):
    return SizeBounds.from_ratios(k, n_samples=n, lower=0.9, upper=1.1, **xp.place)


def check(found, scores, bounds):
    """Objective and bound are those stated, and on either side of the optimum."""
    proven = check_result(found, scores, bounds)
    limits = (to_numpy(v).tolist() for v in (bounds.lower, bounds.upper))
    best = assign_exact(scores, SizeBounds.from_counts(*limits, n_samples=len(scores))).objective
    assert found.objective <= best + 1e-6 * abs(best)
    assert found.upper_bound >= best - 1e-6 * abs(best)
    assert found.upper_bound == pytest.approx(proven, rel=1e-6)
    return best


@pytest.mark.parametrize("make", ["cone", "noise", "sorted"])
def test_online_passes_end_inside_with_a_proof(xp, rng, make):
    n, k = 900, 6
    scores = rng.normal(size=(n, k)) if make == "noise" else cone_scores(n, k)
    scores = scores[np.argsort(scores[:, 0])] if make == "sorted" else scores
    scores = scores.astype(np.float32)
    bounds, zero = ratios(xp, n, k), np.zeros(k)
    for prices in (zero, rng.normal(size=k)):
        found = assign_in_passes(score_source(xp.asarray(scores)), bounds, xp.asarray(prices))
        check(found, scores, bounds)
        assert_same_kind(found.labels, xp.asarray(np.zeros(n, dtype=np.int64)))
    good = assign_exact(scores, ratios(LIBRARIES[0], n, k)).prices
    found = assign_in_passes(score_source(xp.asarray(scores)), bounds, xp.asarray(good))
    best = check(found, scores, bounds)
    assert found.upper_bound <= best + 1e-6 * abs(best)  # optimal prices prove the optimum
    assert found.gap < 0.05


def test_a_forbidden_pair_that_labels_would_need_gives_none(xp):
    scores = np.asarray([[1.0, 0.0, 0.0]] * 3 + [[1.0, -math.inf, 0.0]] * 3)
    bounds = SizeBounds.from_counts([2, 2, 0], n_samples=6, **xp.place)
    prices = xp.asarray(np.asarray([0.0, -9.0, -9.0]))
    assert assign_in_passes(score_source(xp.asarray(scores)), bounds, prices) is None
    eager = assign_in_passes(
        score_source(xp.asarray(scores)), bounds, xp.asarray(np.asarray([0.0, 1.5, -9.0]))
    )
    np.testing.assert_array_equal(to_numpy(eager.labels), [1, 1, 1, 0, 0, 0])


def with_fixed_rows(scores, share, seed):
    """Scores of which a share of the rows may join one cluster alone; balanced labels exist."""
    n, k = scores.shape
    rng = np.random.default_rng(seed)
    labels = rng.permutation(n) % k
    fixed = rng.random(n) < share
    return np.where(fixed[:, None] & (labels[:, None] != np.arange(k)), -math.inf, scores), fixed


@pytest.mark.parametrize("lower", [0.9, 1.0])
@pytest.mark.parametrize("share", [0.1, 0.3, 1.0])
def test_rows_that_may_join_one_cluster_have_their_room(xp, share, lower):
    n, k = 300, 6
    bounds = SizeBounds.from_ratios(k, n_samples=n, lower=lower, upper=2.0 - lower, **xp.place)
    prices = xp.asarray(np.zeros(k))
    for seed in range(4):
        scores = np.random.default_rng(seed).normal(size=(n, k)).astype(np.float32)
        scores, fixed = with_fixed_rows(scores, share, seed)
        found = assign_in_passes(score_source(xp.asarray(scores)), bounds, prices)
        check(found, scores, bounds)
        own = scores[fixed].argmax(axis=1)
        np.testing.assert_array_equal(to_numpy(found.labels)[fixed], own)


def test_more_forced_rows_than_a_cluster_takes_give_none(xp):
    scores = np.asarray([[0.0, -math.inf]] * 3 + [[0.0, 1.0]] * 3)
    bounds = SizeBounds.from_counts([1, 1], [2, 4], n_samples=6)
    assert assign_in_passes(score_source(scores), bounds, np.zeros(2)) is None
    needy = SizeBounds.from_counts([1, 4], n_samples=6)  # and too few are left for the other
    assert assign_in_passes(score_source(scores), needy, np.zeros(2)) is None


SMALL = SolverOptions(full_entries=0, max_entries=8, last_entries=0, min_sample_rows=500)
"""A memory of next to nothing."""


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_online_passes_end_a_solve_that_can_hold_few_candidates(xp, rng, share):
    """Some rows may join one cluster alone, or all rows any of them."""
    n, k = 3000, 8
    near = (0.05 * rng.normal(size=(n, k)) + np.linspace(0.0, 1.0, k)).astype(np.float32)
    scores, _ = with_fixed_rows(near, share, 0)
    found = assign_offline(xp.asarray(scores), ratios(xp, n, k), options=SMALL)
    check(found, scores, ratios(xp, n, k))
    assert 0.0 < found.gap < 0.05  # all scores would give the optimum


def test_labels_beyond_memory_are_an_error_that_says_so(xp, rng):
    """The last rows fill two clusters alone, so no other row may be there: passes slip."""
    n, k = 2000, 8
    scores = (0.05 * rng.normal(size=(n, k))).astype(np.float32)
    scores[1500:, 2:] = -math.inf
    bounds = SizeBounds.from_counts([250] * k, [250] * k, n_samples=n, **xp.place)
    with pytest.raises(InvalidValueError, match=r"16000 scores are more than .*tol=0") as error:
        assign_offline(xp.asarray(scores), bounds, options=SMALL)
    assert "last_entries=0" in str(error.value)
    best = assign_offline(xp.asarray(scores), bounds, tol=0.0, options=SMALL)  # as the text says
    assert best.violation == 0
    assert best.status == "optimal"


EDGES = {
    "two": [0, 128, 300],
    "many": [0, 64, 128, 192, 256, 300],
    "some without rows": [0, 0, 64, 64, 300, 300],
    "one has all": [0, 300, 300],
}


def of_ranks(source, group):
    """The part of a source that one rank has."""
    first, last = group.first_row, group.first_row + group.n_local
    return source._replace(block=lambda a, b: source.block(first, last)[a:b, ...], group=group)


@pytest.mark.parametrize("ranks", EDGES)
def test_ranks_that_take_turns_change_no_bit(xp, rng, ranks, monkeypatch):
    n, k = 300, 5
    scores, _ = with_fixed_rows(rng.normal(size=(n, k)).astype(np.float32), 0.4, 0)
    scores = xp.asarray(scores)
    bounds, prices = ratios(xp, n, k), xp.asarray(0.1 * rng.normal(size=k))
    monkeypatch.setattr(sources, "block_rows", lambda n_clusters, like, is_alone: 64)
    monkeypatch.setattr(turns, "TURN_ROWS", 128)
    source = score_source(scores)
    expected = assign_in_passes(source, bounds, prices)
    found = groups_on_threads(
        EDGES[ranks], lambda group: assign_in_passes(of_ranks(source, group), bounds, prices)
    )
    labels = np.concatenate([to_numpy(one.labels) for one in found])
    np.testing.assert_array_equal(labels, to_numpy(expected.labels))
    for one in found:
        assert_same_kind(one.labels[:0], expected.labels[:0])
        for ours, theirs in zip(one[1:], expected[1:], strict=True):
            np.testing.assert_array_equal(to_numpy(ours), to_numpy(theirs))
    check(expected, to_numpy(scores), bounds)


def test_a_solve_over_ranks_ends_in_turns(rng):
    n, k = 2 * MOST_ROWS + 500, 8
    scores = (0.05 * rng.normal(size=(n, k)) + np.linspace(0.0, 1.0, k)).astype(np.float32)
    source, bounds = score_source(scores), ratios(LIBRARIES[0], n, k)
    expected = assign_source(source, bounds, options=SMALL)
    found = groups_on_threads(
        [0, MOST_ROWS, n],
        lambda group: assign_source(of_ranks(source, group), bounds, options=SMALL),
    )
    assert 0.0 < expected.gap < 0.05  # of online passes
    np.testing.assert_array_equal(np.concatenate([one.labels for one in found]), expected.labels)
    assert found[0].objective == found[1].objective == expected.objective
    assert found[0].gap == found[1].gap == expected.gap
    assert expected.violation == 0
