"""Few clusters: the optimum along paths from learned prices, on one rank as on several."""

import itertools
import math

import numpy as np
import pytest

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.offline import SolverOptions, _all_scores, assign_exact, assignment
from dualclust.algos.offline._all_scores import _all_finite, solve_few
from dualclust.algos.offline._options import DEFAULT_OPTIONS
from dualclust.algos.offline._reduced import is_small
from dualclust.algos.scores.sources import alone, score_source
from dualclust.backends import engine
from tests.compare import to_numpy
from tests.problems import cone_scores, mixture_scores

PASSES = SolverOptions(few_clusters=0)
"""No problem has few clusters."""


def test_which_problems_have_few_clusters():
    """Without an engine for paths, those that are solved in full anyway."""
    like, strict = np.zeros(1), pytest.importorskip("array_api_strict").zeros(1)
    assert is_small(2**14, 16, DEFAULT_OPTIONS, like)
    assert not is_small(2**14 + 1, 16, DEFAULT_OPTIONS, like)
    assert not is_small(1000, 17, DEFAULT_OPTIONS, like)
    assert not is_small(1000, 2, SolverOptions(full_entries=0), like)
    for name, other in (("reference", like), ("auto", strict)):
        with engine(name):
            assert is_small(2**12, 16, DEFAULT_OPTIONS, other)
            assert not is_small(2**12 + 1, 16, DEFAULT_OPTIONS, other)
            assert not is_small(1, 2, PASSES, other)


@pytest.mark.parametrize(
    ("lower", "upper"),
    [
        ((120, 120), (180, 180)),
        ((150, 150), (150, 150)),
        ((0, 0), (180, 180)),
        ((120, 0), (300,) * 2),
    ],
    ids=str,
)
@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_prices_that_are_given_far_off_cost_no_optimum(lower, upper, library):
    """Neither where every score is solved at once nor where clusters are few."""
    xp = pytest.importorskip(library)
    scores = np.random.default_rng(0).normal(size=(300, 2))
    # All sizes are tried: those who gain most go to the first cluster.
    gains = np.sort(scores[:, 0] - scores[:, 1])[::-1]
    sizes = range(max(lower[0], 300 - upper[1]), min(upper[0], 300 - lower[1]) + 1)
    best = max(scores[:, 1].sum() + gains[:m].sum() for m in sizes)
    bounds = SizeBounds.from_counts(lower, upper, n_samples=300)
    bounds = SizeBounds(*(xp.asarray(part) for part in bounds[:4]), 300)
    far = [[1e15] * 2, [1e17] * 2, [1e17, 0.0], [0.0, -1e17], [-1e17] * 2]
    for prices, full_entries in itertools.product(far, (300, 65_536)):
        found = assign_exact(
            xp.asarray(scores),
            bounds,
            prices=xp.asarray(np.asarray(prices)),
            options=SolverOptions(full_entries=full_entries),
        )
        assert found.objective == pytest.approx(best, rel=1e-12), prices
        assert (found.gap, found.violation) == (0.0, 0), prices


@pytest.mark.parametrize("make", [cone_scores, mixture_scores])
@pytest.mark.parametrize(("lower", "upper"), [(0.9, 1.1), (1.0, 1.0), (0.0, 1.2)])
def test_the_optimum_is_that_of_the_passes(make, lower, upper):
    n, k = 7_000, 10
    scores = make(n, k).astype(np.float32)
    bounds = SizeBounds.from_ratios(k, n_samples=n, lower=lower, upper=upper)
    found = solve_few(score_source(scores), bounds, None, 0.0)
    expected = assign_exact(scores, bounds, options=PASSES)
    assert found.objective == pytest.approx(expected.objective, rel=1e-12)
    assert (found.gap, found.violation) == (0.0, 0)
    np.testing.assert_array_equal(found.counts, np.bincount(found.labels, minlength=k))
    assert assign_exact(scores, bounds).objective == found.objective


def test_the_best_cluster_changes_places_with_the_first(xp):
    scores = np.asarray([[1.0, 3.0, 2.0], [4.0, 1.0, 2.0], [0.0, 1.0, 5.0], [2.0, 0.0, 3.0]])
    group = alone(4)._replace(first_row=7, n_local=2)
    like = xp.asarray(np.zeros(3))
    found = _all_finite(xp.asarray(scores), group, like=like)
    assert to_numpy(found.clusters).tolist() == [[1, 0, 2], [0, 1, 2], [2, 1, 0], [2, 1, 0]]
    np.testing.assert_array_equal(
        to_numpy(found.values), np.take_along_axis(scores, to_numpy(found.clusters), axis=1)
    )
    assert to_numpy(found.clusters).dtype == to_numpy(found.labels).dtype == np.int32
    assert to_numpy(found.is_free).tolist() == [True, True]
    assert (found.first_free, found.fixed_value, found.fixed_size) == (7, 0.0, 0.0)
    assert to_numpy(found.truncation).tolist() == [-math.inf] * 4
    assert to_numpy(found.low).tolist() == [-math.inf] * 3
    assert to_numpy(found.high).tolist() == [math.inf] * 3
    assert to_numpy(found.fixed_counts).tolist() == [0] * 3
    assert to_numpy(found.fixed_counts).dtype == np.int64
    assert to_numpy(found.truncation).dtype == to_numpy(found.low).dtype == np.float64


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf, 1e300])
def test_scores_that_are_not_finite_or_out_of_range_are_left_to_others(odd):
    scores = np.random.default_rng(0).normal(size=(40, 3))
    scores[7, 1] = odd
    bounds = SizeBounds.from_counts([10] * 3, [20] * 3, n_samples=40)
    assert solve_few(score_source(scores), bounds, None, 0.0) is None


def test_labels_with_a_gap_are_left_to_others(monkeypatch):
    scores = np.random.default_rng(0).normal(size=(40, 3))
    bounds = SizeBounds.from_counts([10] * 3, [20] * 3, n_samples=40)
    found = solve_few(score_source(scores), bounds, None, 0.0)
    for given, wanted in ((None, None), (found._replace(gap=0.5), None), (found, found)):
        monkeypatch.setattr(
            _all_scores, "labels_by_paths", lambda *_, given=given, **__: (given, 0)
        )
        again = solve_few(score_source(scores), bounds, None, 0.25)
        assert (again is None) == (wanted is None)
        assert again is None or again.labels is wanted.labels


def test_rows_that_lead_by_far_move_in_the_second_window():
    """The first is an eighth of the range of scores; the clock is asked after it."""
    scores, looks = np.asarray([[1.0, 0.9]] + [[1.0, 0.4]] * 9), []
    bounds = SizeBounds.from_counts([5, 5], n_samples=10)
    solve_few(score_source(scores), bounds, np.zeros(2), 0.0, is_over=lambda: looks.append(1))
    assert len(looks) == 1


def test_ranks_find_what_one_finds_alone():
    """A rank has some rows, and takes from those of all."""
    n, k, m = 300, 3, 192
    scores = np.random.default_rng(0).normal(size=(n, k)) + np.asarray([1.0, 0.0, 0.0])
    bounds = SizeBounds.from_counts([90] * 3, n_samples=n)
    whole = solve_few(score_source(scores), bounds, None, 0.0)
    for first, last in ((0, m), (m, n), (n, n)):
        own = score_source(scores[first:last])
        group = own.group._replace(first_row=first, n_total=n)
        own = own._replace(group=group, take=lambda ids: scores[ids])
        found = solve_few(own, bounds, None, 0.0)
        np.testing.assert_array_equal(found.labels, whole.labels[first:last])
        np.testing.assert_array_equal(found.prices, whole.prices)
        assert found.objective == whole.objective


@pytest.mark.unjudged(reason="it lists the blocks that are read")
def test_where_clusters_is_small_the_source_is_read_once():
    scores, asked = np.random.default_rng(0).normal(size=(200, 4)), []
    plain = score_source(scores)
    source = plain._replace(block=lambda a, b: asked.append((a, b)) or plain.block(a, b), take=None)
    bounds = SizeBounds.from_counts([45] * 4, n_samples=200)
    found = assignment.assign_source(source, bounds, options=SolverOptions(full_entries=200))
    assert found.gap == 0.0
    assert asked == [(0, 200)]
