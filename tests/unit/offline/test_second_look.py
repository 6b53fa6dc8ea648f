"""A second look reads truncated rows alone and finds what a pass would; when it is taken."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dualclust as dc
from dualclust.algos.core.workers import workers
from dualclust.algos.offline import DEFAULT_OPTIONS, SolverOptions, assignment
from dualclust.algos.offline._candidates import (
    SLACK,
    TooManyCandidatesError,
    TrustRegion,
    collect_candidates,
)
from dualclust.algos.offline._second_look import (
    candidates_in,
    leaves_the_part,
    look_again,
    may_look_again,
)
from dualclust.algos.scores.blocks import MOST_ROWS
from dualclust.algos.scores.sources import score_source
from dualclust.algos.scores.statistics import ScoresOutOfRangeError
from tests.compare import to_numpy
from tests.examples import examples
from tests.thread_ranks import groups_on_threads


def lists_of(found):
    """The candidates of each free row and their scores, in an order of their own.

    Which of those that tie a truncated row has kept depends on its place in a block: of these rows
    it is what candidates can be worth.
    """
    clusters, values, high, is_truncated = (
        to_numpy(part) for part in (found.clusters, found.values, found.high, found.is_truncated)
    )
    worth = values + high.astype(values.dtype)[np.clip(clusters, 0, None)]
    named = np.where(is_truncated[:, None], -2, clusters)
    return [
        sorted((int(c), float(v)) for c, v in zip(*row, strict=True) if c != -1)
        for row in zip(named, np.where(is_truncated[:, None], worth, values), strict=True)
    ]


def assert_same(found, expected):
    """What two looks say about the same region, but for the order of a row's candidates."""
    is_free = to_numpy(expected.is_free)
    np.testing.assert_array_equal(to_numpy(found.is_free), is_free, strict=True)
    labels = to_numpy(found.labels)
    assert labels.dtype == np.int32
    np.testing.assert_array_equal(labels[~is_free], to_numpy(expected.labels)[~is_free])
    assert found.first_free == expected.first_free
    assert to_numpy(found.clusters).shape == to_numpy(expected.clusters).shape
    assert lists_of(found) == lists_of(expected)
    for name in ("truncation", "fixed_counts", "low", "high"):
        a, b = (to_numpy(getattr(each, name)) for each in (found, expected))
        np.testing.assert_array_equal(a, b, strict=True)
    for name in ("fixed_value", "fixed_size"):
        a, b = (getattr(each, name) for each in (found, expected))
        assert a == pytest.approx(b, rel=1e-12, abs=1e-12)
    for clusters, values in zip(to_numpy(found.clusters), to_numpy(found.values), strict=True):
        n = int((clusters >= 0).sum())  # these come first
        assert (clusters[:n] >= 0).all()
        assert (values[n:] == -math.inf).all()


def drawn(seed, dtype="float64"):
    """Scores with ties and forbidden pairs, a region, and one inside it."""
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(1, 40)), int(rng.integers(2, 9))
    scores = rng.integers(-4, 5, size=(n, k)) / 4.0 + rng.choice([0.0, 1e-3]) * rng.random((n, k))
    scores = np.where(rng.random((n, k)) < 0.1, -math.inf, scores)
    scores[:, int(rng.integers(k))] = 0.5  # no row without a cluster
    center, radius = rng.integers(-2, 3, k) / 4.0, rng.integers(0, 5, k) / 4.0
    share, toward = rng.random(k), rng.uniform(-1, 1, k)
    inner = radius * share
    middle = center + toward * (radius - inner)
    low, high = (
        np.maximum(middle - inner, center - radius),
        np.minimum(middle + inner, center + radius),
    )
    return scores.astype(dtype), (center - radius, center + radius), (low, high)


@given(st.integers(0, 2**32), st.integers(2, 5), st.sampled_from(["float32", "float64"]))
@examples(60)
def test_a_second_look_finds_what_a_pass_finds(xp, seed, width, dtype):
    scores, wide, narrow = drawn(seed, dtype)
    source = score_source(xp.asarray(scores))
    wide, narrow = ([xp.asarray(v) for v in region] for region in (wide, narrow))
    known = collect_candidates(source, *wide, width=width)
    for more in (width, width + 2):
        found = look_again(source, known, *narrow, width=more)
        assert_same(found, collect_candidates(source, *narrow, width=more))
    third = look_again(source, found, *narrow, width=more)  # nothing is left to narrow
    assert_same(third, found)


def test_it_reads_the_truncated_rows_alone(rng):
    """Of several blocks of free rows."""
    scores, middle = rng.normal(size=(20_000, 7)), np.zeros(7)
    source, taken = score_source(scores), []
    known = collect_candidates(source, middle - 0.4, middle + 0.4, width=3)
    watched = source._replace(
        block=None, take=lambda ids: taken.extend(ids.tolist()) or source.take(ids)
    )
    found = look_again(watched, known, middle - 0.1, middle + 0.1, width=4)
    truncated = np.flatnonzero(known.is_free)[known.is_truncated]
    assert 5 < len(truncated) < len(known.truncation)
    assert taken == truncated.tolist()
    assert_same(found, collect_candidates(source, middle - 0.1, middle + 0.1, width=4))


def test_rows_that_are_no_longer_what_they_were_are_not_taken(rng):
    """A pass, which comes next, tells what is wrong with them."""
    scores, middle = rng.normal(size=(50, 7)), np.zeros(7)
    source = score_source(scores)
    known = collect_candidates(source, middle - 0.4, middle + 0.4, width=3)
    changed = source._replace(take=lambda ids: source.take(ids) * math.nan)
    with pytest.raises(ScoresOutOfRangeError):
        look_again(changed, known, middle - 0.1, middle + 0.1, width=4)


@pytest.mark.parametrize("n_threads", [1, 3])
def test_threads_and_rows_without_a_candidate_to_choose(rng, n_threads):
    scores, zero = rng.normal(size=(20_000, 5)).astype(np.float32), np.zeros(5)
    source = score_source(scores)
    known = collect_candidates(source, zero - 0.5, zero + 0.5, width=3)
    with workers(n_threads):
        found = look_again(source, known, zero - 0.2, zero + 0.2, width=4)
        assert_same(found, collect_candidates(source, zero - 0.2, zero + 0.2, width=4))
        none = look_again(source, found, zero, zero, width=4)
        assert_same(none, collect_candidates(source, zero, zero, width=4))
        assert none.clusters.shape == (0, 4)
        assert_same(look_again(source, none, zero, zero, width=4), none)


def test_a_price_leaves_the_part_where_the_region_goes_on(rng):
    source, zero = score_source(rng.normal(size=(9, 3))), np.zeros(3)
    found = collect_candidates(source, zero - 1.0, np.asarray([1.0, 2.0, 2.0]), width=3)
    region = TrustRegion(zero, np.asarray([1.0, 2.0, 3.0]))
    for prices, leaves in (
        ([1.0, 0.0, 0.0], False),  # the end of the region
        ([0.0, 2.0, 0.0], True),  # below, the region goes on: no matter at which edge it stands
        ([0.0, 0.0, 2.0], True),
        ([0.0, 1.9, 0.0], False),
    ):
        assert leaves_the_part(found, np.asarray(prices), region) is leaves
    upper = collect_candidates(source, -region.radius, np.asarray([1.0, 2.0, 2.0]), width=3)
    assert leaves_the_part(upper, np.asarray([0.0, 0.0, 2.0]), region)  # cut off above alone


def test_scores_and_prices_of_zero_leave_every_candidate():
    """The margin is 0 there, and all of them tie."""
    source, zero = score_source(np.zeros((5, 3))), np.zeros(3)
    known = collect_candidates(source, zero - 1.0, zero + 1.0, width=3)
    assert_same(look_again(source, known, zero, zero, width=3), known._replace(low=zero, high=zero))


def test_ranks_find_what_one_finds(rng):
    scores, middle = rng.normal(size=(5 * MOST_ROWS, 6)), np.zeros(6)
    edges = tuple(MOST_ROWS * i for i in (0, 2, 2, 3, 5))
    one = score_source(scores)
    known = collect_candidates(one, middle - 0.5, middle + 0.5, width=3)
    expected = look_again(one, known, middle - 0.2, middle + 0.2, width=4)
    assert expected.is_free.any()

    def look(group):
        first = group.first_row
        own = one._replace(
            block=lambda a, b: scores[first + a : first + b],
            group=group,
            in_turn=True,
        )
        known = collect_candidates(own, middle - 0.5, middle + 0.5, width=3)
        return look_again(own, known, middle - 0.2, middle + 0.2, width=4)

    found, n_before = groups_on_threads(edges, look), 0
    for each in found:
        for name in ("clusters", "values", "truncation", "fixed_counts"):
            np.testing.assert_array_equal(getattr(each, name), getattr(expected, name))
        assert (each.fixed_value, each.fixed_size) == (expected.fixed_value, expected.fixed_size)
        assert each.first_free == n_before
        n_before += int(each.is_free.sum())
    for name in ("labels", "is_free"):
        together = np.concatenate([getattr(each, name) for each in found])
        np.testing.assert_array_equal(together, getattr(expected, name))


def test_more_candidates_than_may_be_are_an_error(rng):
    source, middle = score_source(rng.normal(size=(50, 5))), np.zeros(5)
    known = collect_candidates(source, middle - 0.5, middle + 0.5, width=3)
    n_free = look_again(source, known, middle - 0.2, middle + 0.2, width=4).clusters.shape[0]
    low, high = middle - 0.2, middle + 0.2
    look_again(source, known, low, high, width=4, max_entries=4 * n_free)
    with pytest.raises(TooManyCandidatesError):
        look_again(source, known, low, high, width=4, max_entries=4 * n_free - 1)
    # No row has more candidates than there are clusters.
    assert look_again(source, known, low, high, width=9).clusters.shape[1] == 5


def test_the_margin_of_lists_is_that_of_a_pass():
    """A cluster behind by less than the rounding that the margin covers stays on the list."""
    eps, low, high = 2.0**-52, np.zeros(3), np.asarray([0.0, 0.0, 2.0])
    for units, n_left in ((0.9 * SLACK, 2), (1.1 * SLACK, 1)):
        # The margin is of the best and of the largest price: 1 + 2.
        scores = np.asarray([[1.0, 1.0 - 3.0 * units * eps, -9.0]])
        known = collect_candidates(score_source(scores), low - 1.0, high + 1.0, width=3)
        assert known.is_free[0]
        found = look_again(score_source(scores), known, low, high, width=3)
        assert int(found.is_free[0]) == n_left - 1


def test_a_region_that_leaves_the_last_one_is_cut_off(rng):
    source, zero = score_source(rng.normal(size=(30, 4))), np.zeros(4)
    wide = TrustRegion(zero, zero + 0.5)
    known, whole = candidates_in(source, wide, None, width=4, max_entries=None)
    assert whole is wide
    found, region = candidates_in(
        source, TrustRegion(zero + 0.25, zero + 0.5), known, width=4, max_entries=None
    )
    np.testing.assert_array_equal(found.low, zero - 0.25)
    np.testing.assert_array_equal(found.high, zero + 0.5)
    np.testing.assert_array_equal(region.center, zero + 0.125)
    np.testing.assert_array_equal(region.radius, zero + 0.375)
    assert_same(found, collect_candidates(source, zero - 0.25, zero + 0.5, width=4))
    for before in (None, known):
        with pytest.raises(TooManyCandidatesError):
            candidates_in(source, wide, before, width=4, max_entries=3)


@pytest.mark.parametrize(
    ("n_cut", "n_at_edge", "expected"), [(5, 0, True), (6, 0, False), (5, 1, False), (0, 0, True)]
)
def test_when_a_second_look_may_be_enough(n_cut, n_at_edge, expected):
    candidates = SimpleNamespace(
        is_truncated=np.arange(9) < n_cut, at_edge=lambda prices: np.arange(3) < n_at_edge
    )
    assert DEFAULT_OPTIONS.few_truncated == 0.25
    found = may_look_again(candidates, np.zeros(3), 20, DEFAULT_OPTIONS)
    assert found is expected


def problem(n, k, seed, noise=1.0):
    rng = np.random.default_rng(seed)
    x, c = rng.normal(size=(n, 8)), rng.normal(size=(k, 8))
    return x @ c.T * 0.1 * noise


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.unjudged(reason="it counts the rows that are read")
def test_the_optimum_is_proven_after_one_pass_and_a_look(seed):
    """With three candidates a row the first pass cannot prove it; a second one would read all."""
    scores = problem(3_000, 40, seed)
    bounds = dc.SizeBounds.from_ratios(40, n_samples=3_000, lower=0.9, upper=1.1)
    options, source = SolverOptions(pass_width=4, few_truncated=1.0), score_source(scores)
    counted, n_read = (
        source._replace(block=lambda a, b: n_read.append(b - a) or source.block(a, b)),
        [],
    )
    found = assignment.assign_source(counted, bounds, tol=0.0, options=options)
    assert sum(n_read) == 3_000
    without = SolverOptions(full_entries=scores.size)  # every cluster is a candidate
    best = assignment.assign_source(source, bounds, tol=0.0, options=without)
    assert found.gap == 0.0
    assert found.objective == pytest.approx(best.objective, rel=1e-12)
