"""Labels of rows with sizes: ends of the range, what is refused, and each of the parts."""

import numpy as np
import pytest

from dualclust.algos.bounds import LoadBounds
from dualclust.algos.core.errors import (
    DeviceMismatchError,
    InfeasibleBoundsError,
    InvalidTypeError,
    InvalidValueError,
)
from dualclust.algos.offline.weighted import assign_weighted
from dualclust.algos.offline.weighted._problem import problem_of
from dualclust.algos.scores.sources import alone, score_source
from tests.judge_weighted import judge_weighted


def problem(n=300, k=5, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, k)), rng.lognormal(0.0, 1.0, n)


def ratios(sizes, k, low, high):
    return LoadBounds.from_ratios(sizes, k, lower=low, upper=high)


def found_and_judged(scores, bounds, **options):
    found = assign_weighted(scores, bounds, **options)
    judge_weighted(scores, bounds, found)
    return found


def test_what_the_rounding_and_the_repair_leave():
    scores, sizes = problem()
    bounds = ratios(sizes, 5, 0.9, 1.1)
    rounded_only = found_and_judged(scores, bounds, repair=False)
    assert rounded_only.status == "inside up to one row"
    assert rounded_only.objective >= rounded_only.upper_bound - 1e-9
    found = found_and_judged(scores, bounds)
    assert (found.status, 0 < found.gap < 1e-2) == ("inside", True)
    assert found.upper_bound == rounded_only.upper_bound
    assert found.n_shared == rounded_only.n_shared > 0


def test_loads_that_nothing_can_meet_exactly():
    scores, sizes = problem()
    found = found_and_judged(scores, ratios(sizes, 5, 1.0, 1.0))
    assert found.status == "inside up to one row"
    assert found.objective >= found.upper_bound - 1e-9


@pytest.mark.parametrize("share", [0.5, 1.0])
def test_rows_without_size_take_their_best_cluster(share):
    scores, sizes = problem()
    sizes = np.where(np.arange(300) < 300 * share, 0.0, sizes)
    found = found_and_judged(scores, ratios(sizes, 5, 0.5, 1.5))
    free = sizes == 0.0
    np.testing.assert_array_equal(found.labels[free], scores.argmax(axis=1)[free])


def test_sizes_of_fifteen_decades():
    scores, _ = problem()
    sizes = 10.0 ** np.random.default_rng(1).uniform(-12.0, 3.0, 300)
    found = found_and_judged(scores, ratios(sizes, 5, 0.5, 2.0))
    assert found.status == "inside"


def test_scores_that_all_tie():
    _, sizes = problem()
    found = found_and_judged(np.zeros((300, 5)), ratios(sizes, 5, 0.95, 1.05))
    assert (found.status, found.objective, found.gap) == ("inside", 0.0, 0.0)


def test_few_rows_and_one_cluster():
    scores, sizes = problem()
    assert found_and_judged(scores[:, :1], LoadBounds.from_loads(sizes, 1)).n_shared == 0
    none = assign_weighted(scores[:0], LoadBounds.from_loads(sizes[:0], 5))
    assert (none.labels.shape, none.loads.tolist(), none.status) == ((0,), [0.0] * 5, "inside")


def test_a_row_that_one_cluster_does_not_hold_goes_elsewhere():
    scores, sizes = np.asarray([[9.0, 0.0], [1.0, 0.0], [1.0, 0.5]]), np.asarray([5.0, 1.0, 1.0])
    found = found_and_judged(scores, LoadBounds.from_loads(sizes, 2, upper=[3.0, 6.0]))
    assert found.labels.tolist() == [1, 0, 0]
    assert (found.status, found.gap) == ("inside", 0.0)


def test_the_best_whole_rows():
    scores = np.asarray([[3.0, 0.0], [3.0, 0.0], [3.0, 0.0], [2.0, 1.9]])
    bounds = LoadBounds.from_loads(np.asarray([3.0, 3.0, 3.0, 2.0]), 2, lower=[0.0, 5.0])
    found = assign_weighted(scores, bounds, exact=True)
    judge_weighted(scores, bounds, found, best=7.9)
    assert found.labels.tolist().count(1) == 2
    assert found.labels[3] == 1
    assert (found.status, found.objective) == ("inside", pytest.approx(7.9))
    timed = assign_weighted(scores, bounds, exact=True, time_limit=0.0)
    assert timed.upper_bound >= 7.9 - 1e-7


def test_a_search_without_time_ends_without_the_best_labels():
    rng = np.random.default_rng(0)
    scores, sizes = rng.integers(-8, 9, (12, 3)).astype(float), rng.integers(1, 9, 12).astype(float)
    low, high = (np.full(3, sizes.sum() // 3 + more) for more in (0, 1))
    bounds = LoadBounds.from_loads(sizes, 3, lower=low.tolist(), upper=high.tolist())
    best = assign_weighted(scores, bounds, exact=True)
    timed = assign_weighted(scores, bounds, exact=True, time_limit=0.0)
    assert (best.status, best.gap < 1e-9) == ("inside", True)
    assert timed.gap > 0.0
    assert timed.upper_bound > best.upper_bound + 0.5


def test_no_whole_rows_fit():
    bounds = LoadBounds.from_loads(np.asarray([2.0, 2.0, 2.0, 1.0]), 2, lower=3.5, upper=3.5)
    scores = np.ones((4, 2))
    assert found_and_judged(scores, bounds).status == "inside up to one row"
    with pytest.raises(InfeasibleBoundsError, match="branch and bound has looked at all"):
        assign_weighted(scores, bounds, exact=True)


def test_what_is_refused():
    scores, sizes = problem()
    bounds = LoadBounds.from_loads(sizes, 5)
    wide = np.zeros((300, 60))
    other = score_source(scores)
    shared = other._replace(group=alone(300)._replace(gather=lambda array: array))
    huge = LoadBounds.from_loads(np.asarray([1.0, 2.0, 9.0]), 2, upper=[6.0, 7.0])
    for call, error, words in (
        (lambda: assign_weighted(scores, sizes), InvalidTypeError, "bounds"),
        (lambda: assign_weighted(scores[:9], bounds), InvalidValueError, "bounds.sizes"),
        (lambda: assign_weighted(scores[:, :4], bounds), InvalidValueError, "bounds.lower"),
        (lambda: assign_weighted(scores.astype(int), bounds), InvalidTypeError, "scores"),
        (lambda: assign_weighted(scores * np.nan, bounds), InvalidValueError, "row 0"),
        (lambda: assign_weighted(scores, bounds, prices=np.ones(3)), InvalidValueError, "prices"),
        (lambda: assign_weighted(scores, bounds, repair="yes"), InvalidTypeError, "repair"),
        (lambda: assign_weighted(scores, bounds, exact=1), InvalidTypeError, "exact"),
        (lambda: assign_weighted(other, bounds, weights=sizes), InvalidValueError, "weights must"),
        (lambda: assign_weighted(shared, bounds), InvalidValueError, "one rank"),
        (lambda: assign_weighted(scores, bounds, time_limit=-1), InvalidValueError, "time_limit"),
        (
            lambda: assign_weighted(wide, LoadBounds.from_loads(sizes, 60), exact=True),
            InvalidValueError,
            "at most 16384 scores, got n k = 18000",
        ),
        (lambda: assign_weighted(scores[:3, :2], huge), InfeasibleBoundsError, "sample 2 is 1.286"),
        (
            lambda: assign_weighted(
                scores * 2.0**900, LoadBounds.from_ratios(sizes * 2.0**-900, 5, lower=1.0)
            ),
            InvalidValueError,
            "prices of a unit",
        ),
    ):
        with pytest.raises(error, match=words):
            call()
    assert issubclass(DeviceMismatchError, InvalidValueError)


def test_pairs_that_no_labels_inside_have_are_forbidden_in_passes_and_by_ids():
    sizes = np.random.default_rng(2).integers(1, 9, 3000).astype(float)
    bounds = LoadBounds.from_loads(sizes, 2, upper=[1e9, 5.0])
    source = problem_of(score_source(np.zeros((3000, 2))), bounds)[0].source
    expected = np.where(sizes > 5.0, -np.inf, 0.0)
    np.testing.assert_array_equal(source.block(2000, 2999)[:, 1], expected[2000:2999])
    ids = np.asarray([2900, 7, 1500])
    np.testing.assert_array_equal(source.take(ids)[:, 1], expected[ids])
    assert not source.block(0, 3000)[:, 0].any()
