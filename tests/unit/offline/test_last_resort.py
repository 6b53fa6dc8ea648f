"""What the offline solver does in the end: online passes, all scores, and the unit of a source."""

import inspect
import math

import numpy as np
import pytest

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.core.errors import DeviceMismatchError, InvalidValueError
from dualclust.algos.offline import SolverOptions, assignment
from dualclust.algos.offline._candidates import TrustRegion
from dualclust.algos.offline._proof import OfflineAssignment
from dualclust.algos.offline._reduced import ReducedSolution
from dualclust.algos.offline._search import Search
from dualclust.algos.offline.assignment import (
    Problem,
    _last_resort,
    _solve_in_full,
    _with_online_passes,
    assign_offline,
    assign_source,
)
from dualclust.algos.scores.sources import score_source
from dualclust.algos.scores.statistics import ScoresOutOfRangeError, strided_ids

N, K = 20, 5
ZERO, ONES = np.zeros(K), np.ones(K)
BOUNDS = SizeBounds.from_counts([0] * K, n_samples=N)


def labels_of(gap):
    return OfflineAssignment(ZERO, ZERO, ZERO, 1.0, 1.0, 0.0, 0, gap)


def problem(tol=0.125, **options):
    return Problem(score_source(np.zeros((N, K))), BOUNDS, tol, SolverOptions(**options))


def search_of(**changes):
    region = TrustRegion(ZERO, ONES)
    return Search(region, 2, False, ONES, None, math.inf, ZERO)._replace(**changes)


def test_online_passes_begin_once_at_the_same_prices(monkeypatch):
    seen, old, found = [], labels_of(0.5), labels_of(0.25)

    def passes(*args):
        seen.append(args)
        return found

    monkeypatch.setattr(assignment, "assign_in_passes", passes)
    own = problem()
    once = _with_online_passes(own, search_of(online=old))
    assert once == search_of(online=found, online_prices=ZERO)
    assert seen == [(own.source, BOUNDS, ZERO, own.options)]
    assert _with_online_passes(own, once) is once
    assert len(seen) == 1
    worse = search_of(online=labels_of(0.125), best_prices=ONES)
    assert _with_online_passes(own, worse).online is worse.online
    assert len(seen) == 2
    equal = search_of(online=labels_of(0.25), best_prices=ONES)
    assert _with_online_passes(own, equal).online is equal.online


def test_of_equal_labels_those_of_candidates_are_returned(monkeypatch):
    monkeypatch.setattr(assignment, "_with_online_passes", lambda own, search: search)
    search = search_of(best=labels_of(0.25), online=labels_of(0.25))
    found = _last_resort(problem(retry_entries=100, last_entries=0), search)
    assert found is search.best


@pytest.mark.parametrize(
    ("best", "online", "tol", "retry", "last", "names", "expected"),
    [
        # The optimum has to be proven.
        (0.5, 0.5, 0.0, 0, 0, ["full"], "full"),
        # Without labels, online passes; what they find is good enough only for very many scores.
        (None, 0.5, 0.125, 0, 99, ["online"], 0.5),
        (None, 0.5, 0.125, 0, 100, ["online", "full"], "full"),
        (None, 0.125, 0.125, 0, 100, ["online"], 0.125),
        (None, 0.126, 0.125, 0, 100, ["online", "full"], "full"),
        (None, None, 0.125, 0, 100, ["online", "full"], "full"),
        (None, None, 0.125, 0, 99, ["online", "error"], "error"),
        # Labels of candidates are enough for many scores.
        (0.5, 0.25, 0.125, 99, 1000, [], 0.5),
        (0.5, 0.25, 0.125, 100, 1000, ["online", "full"], "full"),
        (0.5, 0.125, 0.125, 100, 1000, ["online"], 0.125),
        (0.5, 0.75, 0.125, 100, 99, ["online"], 0.5),
    ],
)
def test_the_last_resort(best, online, tol, retry, last, names, expected, monkeypatch):
    events = []

    def pass_online(own, search):
        events.append("online")
        return search._replace(online=None if online is None else labels_of(online))

    def solve(own, prices):
        assert prices is ONES
        events.append("full")
        return "full"

    def refuse(n_scores, options):
        events.append("error")
        assert (n_scores, options.last_entries) == (N * K, last)
        msg = "none"
        raise InvalidValueError(msg)

    monkeypatch.setattr(assignment, "_with_online_passes", pass_online)
    monkeypatch.setattr(assignment, "_solve_in_full", solve)
    monkeypatch.setattr(assignment, "raise_no_labels", refuse)
    own = problem(tol, retry_entries=retry, last_entries=last)
    search = search_of(best=None if best is None else labels_of(best))
    if expected == "error":
        with pytest.raises(InvalidValueError):
            _last_resort(own, search)
    else:
        found = _last_resort(own, search)
        assert (found if expected == "full" else found.gap) == expected
    assert events == names


def test_all_scores_are_candidates_in_a_region_of_twice_their_range(monkeypatch):
    seen, best = [], labels_of(0.0)

    def solve(candidates, bounds, region, tol, *, options):
        seen.append((candidates, bounds, region, tol, options))
        return ReducedSolution(best, ZERO, 0.0, ZERO)

    monkeypatch.setattr(assignment, "solve_reduced", solve)
    scores = np.zeros((N, K))
    scores[:, 3] = 4.0
    own = problem()._replace(source=score_source(scores))
    near = np.asarray([4.0, 4.0, 4.0, 0.0, 4.0])  # all clusters tie, and no bound is paid for
    for prices, center in ((None, ZERO), (near, near), (near + 1e9, near), (ONES, ZERO)):
        assert _solve_in_full(own, prices) is best
        candidates, bounds, region, tol, options = seen.pop()
        assert candidates.clusters.shape == (N, K)
        assert bounds is BOUNDS
        np.testing.assert_array_equal(region.center, center)
        assert region.radius.tolist() == [8.0] * K
        assert (tol, options) == (0.0, own.options)


def test_scores_that_allow_labels_but_lead_to_none_are_an_error(monkeypatch):
    none = ReducedSolution(None, ZERO, 0.0, ZERO)
    monkeypatch.setattr(assignment, "solve_reduced", lambda *args, **options: none)
    with pytest.raises(InvalidValueError, match=r"^scores differ too much for float64: .*clip"):
        _solve_in_full(problem(), None)


def test_the_tolerance_of_assignments():
    for function in (assign_offline, assign_source):
        assert inspect.signature(function).parameters["tol"].default == 1e-4


def test_tolerances_prices_and_bounds_that_are_refused():
    scores = np.zeros((N, K))
    assert assign_offline(scores, BOUNDS, tol=1.0).gap == 0.0
    with pytest.raises(InvalidValueError, match=r"tol must lie in \[0, 1\], got 1\.001"):
        assign_offline(scores, BOUNDS, tol=1.001)
    few = SizeBounds.from_counts([0] * 4, n_samples=N)
    with pytest.raises(InvalidValueError, match=r"bounds\.lower must have shape \(5,\)"):
        assign_source(score_source(scores), few)
    strict = pytest.importorskip("array_api_strict")
    for name in ("prices", "weights"):
        other = {name: strict.ones(K if name == "prices" else N, dtype=strict.float64)}
        with pytest.raises(DeviceMismatchError, match=name):
            assign_offline(scores, BOUNDS, **other)
    for name in ("prices", "reach"):
        given = {"prices": np.zeros(K), "reach": np.ones(K)}
        given[name] = strict.ones(K, dtype=strict.float64)
        with pytest.raises(DeviceMismatchError, match=name):
            assign_source(score_source(scores), BOUNDS, **given)


@pytest.mark.parametrize(("most", "n_rows"), [(7, 7), (99, N)])
def test_a_few_rows_decide_on_the_unit(most, n_rows, monkeypatch):
    asked, source = [], score_source(np.zeros((N, K)))

    def in_range(own, ids):
        asked.append(ids.tolist())
        return own._replace(exponent=3)

    def solved(own, prices):
        assert own.source.exponent == 3
        return labels_of(0.25)._replace(objective=2.0)

    monkeypatch.setattr(assignment, "in_range", in_range)
    monkeypatch.setattr(assignment, "_solved", solved)
    found = assign_source(source, BOUNDS, options=SolverOptions(unit_rows=most))
    assert asked == [strided_ids(N, n_rows, ZERO).tolist()]
    assert found.objective == 16.0  # in units of score


def test_a_row_out_of_range_is_another_unit_and_another_search(monkeypatch):
    tried, prices = [], np.asarray([1.0, 2.0, 3.0, 4.0, 5.0], np.float32)

    def solved(own, given):
        tried.append((own.source.exponent, own.bounds, own.tol, own.options, given))
        if len(tried) == 1:
            raise ScoresOutOfRangeError
        return labels_of(0.25)._replace(objective=2.0)

    def rescaled(source):
        return source._replace(exponent=5)

    monkeypatch.setattr(assignment, "_solved", solved)
    monkeypatch.setattr(assignment, "rescaled", rescaled)
    options = SolverOptions(unit_rows=3)
    source = score_source(np.ones((N, K)))
    found = assign_source(source, BOUNDS, prices=prices, tol=0.5, options=options)
    assert [t[:4] for t in tried] == [(e, BOUNDS, 0.5, options) for e in (0, 5)]
    for *_, given in tried:
        assert given.dtype == np.float64
        assert given.tolist() == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert found.objective == 64.0
