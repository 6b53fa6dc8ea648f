"""Iterations of constrained k-means start where the last one ended, and read the scores once."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

import dualclust as dc
import dualclust.algos.offline._second_look as second_look
import dualclust.algos.offline.assignment as solver
from dualclust.algos.clustering import _labels, constrained
from dualclust.algos.clustering._sampled_start import SampledProblem
from dualclust.algos.clustering.constrained import constrained_kmeans
from dualclust.algos.clustering.lloyd import KMeansResult, KMeansState
from dualclust.algos.core.errors import InvalidValueError
from dualclust.algos.offline.assignment import OfflineAssignment
from tests.programs import program


@pytest.mark.parametrize("scale", [1e-300, 1.0, 1e300])
def test_the_root_mean_square_neither_overflows_nor_vanishes(xp, scale):
    values = xp.asarray(scale * np.asarray([3.0, -4.0, 0.0, 0.0]))
    assert float(_labels._root_mean_square(values)) / scale == pytest.approx(2.5, rel=1e-12)


def test_the_root_mean_square_of_prices_that_stay_is_0(xp):
    assert _labels._root_mean_square(xp.asarray(np.zeros(3))) == 0.0


def passes_an_iteration(monkeypatch, reach):
    """Times that candidates are looked for among all scores, or rows are labeled online."""
    counts = Counter()

    def counted(module, name):
        plain = getattr(module, name)

        def call(*args, **options):
            counts[name] += 1
            return plain(*args, **options)

        monkeypatch.setattr(module, name, call)

    x = program("kmeans").data(6_000, 60, 8, "float64")
    bounds = dc.SizeBounds.from_ratios(60, n_samples=6_000, lower=0.9, upper=1.1)
    with monkeypatch.context() as monkeypatch:
        counted(second_look, "collect_candidates")
        counted(solver, "assign_in_passes")
        counted(_labels, "assign_source")
        monkeypatch.setattr(_labels, "REACH", reach)
        found = constrained_kmeans(x, bounds, x[:60], metric="euclidean", max_iter=12, tol=0.0)
    assert found.n_iter == 12
    return (counts["collect_candidates"] + counts["assign_in_passes"]) / counts["assign_source"]


def test_most_iterations_read_the_scores_once(monkeypatch):
    """The region around the last prices is neither too small nor so large that rows overflow it."""
    assert passes_an_iteration(monkeypatch, _labels.REACH) < 1.4


def test_a_smaller_reach_reads_them_more_often(monkeypatch):
    assert passes_an_iteration(monkeypatch, 0.2) > 1.5


def test_a_larger_reach_does_where_lists_are_too_short_for_it(monkeypatch):
    narrow = replace(_labels.BETWEEN, widest_pass=8)
    monkeypatch.setattr(_labels, "BETWEEN", narrow)
    monkeypatch.setattr(_labels, "AT_FIRST", replace(_labels.AT_FIRST, widest_pass=8))
    assert passes_an_iteration(monkeypatch, 500.0) > 1.5


# What one part asks of another -------------------------------------------------------------------


def problem(n=60, k=2, seed=0):
    x = np.random.default_rng(seed).normal(size=(n, 3))
    return x, dc.SizeBounds.from_ratios(k, n_samples=n, lower=0.9, upper=1.1)


def test_without_bounds_everything_goes_to_k_means(monkeypatch):
    x, _ = problem()
    given = {
        "metric": "euclidean",
        "weights": np.linspace(0.5, 1.5, 60),
        "max_iter": 7,
        "tol": 0.25,
        "empty": "keep",
        "state": object(),
        "progress": print,
    }
    asked = []
    answer = KMeansResult(np.zeros(60), x[:2], np.asarray([29, 31]), -2.5, 3, True)
    monkeypatch.setattr(constrained, "kmeans", lambda *a, **b: asked.append((a, b)) or answer)
    bounds = dc.SizeBounds.from_counts([0, 0], [60, 60], n_samples=60)
    found = constrained_kmeans(x, bounds, x[:2], **given)
    assert asked[0][1] == given
    assert asked[0][0][0] is x
    assert (found.n_iter, found.converged, found.objective, found.gap) == (3, True, -2.5, 0.0)
    assert found.labels is answer.labels
    assert found.counts is answer.counts


def test_the_gap_is_a_share(monkeypatch):
    x, bounds = problem()
    for gap in (0.0, 1.0):
        assert constrained_kmeans(x, bounds, x[:2], metric="euclidean", gap=gap).gap <= gap
    for gap in (-0.01, 1.01):
        with pytest.raises(InvalidValueError, match=r"^gap must lie in \[0, 1\]"):
            constrained_kmeans(x, bounds, x[:2], metric="euclidean", gap=gap)


def test_as_many_labels_as_the_tolerance_may_change_in_the_end():
    x, bounds = problem()
    states = []
    options = {"metric": "euclidean", "progress": lambda state, _: states.append(state)}
    constrained_kmeans(x, bounds, x[:2], tol=0.0, **options)
    shares = [state.changed for state in states]
    assert shares[0] > 0.0 == shares[-1]
    states.clear()
    last = constrained_kmeans(x, bounds, x[:2], tol=shares[0], **options)
    assert (last.converged, last.n_iter, len(states)) == (True, 1, 1)
    assert states[0].changed == shares[0]
    assert states[0].n_iter == 1
    assert states[0].objective == pytest.approx(last.objective, rel=1e-2)
    np.testing.assert_array_equal(states[0].centers, last.centers)


class SeenError(Exception):
    """A test has seen what it looks for."""


def test_steps_go_beyond_the_means_while_a_part_of_many_labels_changes(monkeypatch):
    tol = 0.01
    n, k = 8193, 8  # one row more than is solved at once

    def next_centers(*args, beyond):
        steps.append(beyond)
        raise SeenError

    steps = []
    monkeypatch.setattr(constrained, "_next_centers", next_centers)
    edges = (constrained.SETTLING * tol, 0.0251, _labels.MANY, 0.1001)
    for rows, expected in ((n, [False, True, True, False]), (n - 1, [False] * 4)):
        x, bounds = problem(rows, k)
        start = KMeansState(x[:k], np.zeros(k), 3, np.arange(rows) % k, 0.0)
        steps.clear()
        for changed in edges:
            state = start._replace(changed=changed)
            with pytest.raises(SeenError):
                constrained_kmeans(x, bounds, x[:k], metric="euclidean", tol=tol, state=state)
        assert steps == expected, rows


@pytest.mark.parametrize("weighted", [False, True])
def test_a_sample_is_solved_as_the_whole_is(weighted, monkeypatch):
    x = program("kmeans").data(8_200, 8, 3, "float64")
    bounds = dc.SizeBounds.from_ratios(8, n_samples=8_200, lower=0.5, upper=1.5)
    sample = SampledProblem(*(object() for _ in range(3)))
    weights = np.linspace(1.0, 2.0, 8_200) if weighted else None
    asked, fits, drifts = [], [], np.linspace(1.0, 3.0, 8)

    def solve(*args, progress, **options):
        asked.append((args, options))
        blank = KMeansState(None, None, 1, None, 0.0)
        progress(blank._replace(drifts=7.0 * drifts, changed=0.75), 0.75)
        progress(blank._replace(drifts=drifts, changed=0.0), 0.0)
        centers, prices = x[-8:], np.linspace(-1.0, 1.0, 8)
        return constrained.ConstrainedKMeansResult(
            centers, OfflineAssignment(None, None, prices, 0.0, 0.0, 0.0, 0, 0.0), 1, True
        )

    real = constrained_kmeans
    monkeypatch.setattr(constrained, "sampled_problem", lambda *_: sample)
    monkeypatch.setattr(constrained, "fits_alone", lambda *args: fits.append(args) or True)
    monkeypatch.setattr(constrained, "constrained_kmeans", solve)
    plain = _labels.Labeler.near_labels
    near = []

    def near_labels(self, centers, prices, drifts, changed):
        near.append((centers, prices, drifts, changed))
        return plain(self, centers, prices, drifts, changed)

    monkeypatch.setattr(_labels.Labeler, "near_labels", near_labels)
    states = []
    real(
        x,
        bounds,
        x[:8],
        metric="euclidean",
        weights=weights,
        max_iter=1,
        empty="keep",
        progress=lambda state, _: states.append(state),
    )
    [((features, own, start), options)] = asked
    assert (features, own) == (sample.features, sample.bounds)
    np.testing.assert_array_equal(start, x[:8])
    assert options == {
        "metric": "euclidean",
        "weights": sample.weights,
        "max_iter": constrained.MOST_SAMPLED,
        "tol": constrained.SETTLED,
        "gap": _labels.NEAR,
        "empty": "keep",
    }
    assert fits[0][:3] == (sample.features, "euclidean", sample.weights)
    np.testing.assert_array_equal(near[0][0], x[-8:])
    np.testing.assert_array_equal(near[0][1], np.linspace(-1.0, 1.0, 8))
    assert near[0][2] is drifts
    # The first labels of all rows begin where the sample has ended, and so do the next.
    assert near[1][2] is drifts
    assert near[1][1] is not None
    assert near[0][3] == near[1][3] == 0.0


def test_few_scores_need_no_sample(monkeypatch):
    x, bounds = problem(4_000, 5)
    asked = []
    monkeypatch.setattr(constrained, "sampled_problem", lambda *_: asked.append(0))
    constrained_kmeans(x, bounds, x[:5], metric="euclidean", max_iter=1)
    assert not asked


def test_the_last_labels_begin_with_the_last_prices_and_their_drifts(monkeypatch):
    x, bounds = problem()
    asked, real = [], _labels.Labeler.labels

    def labels(self, centers, prices, gap, drifts=None, *options):
        asked.append((centers, prices, gap, drifts))
        return real(self, centers, prices, gap, drifts, *options)

    monkeypatch.setattr(_labels.Labeler, "labels", labels)
    first = np.arange(60) % 2
    state = KMeansState(x[:2], np.asarray([0.5, 0.0]), 9, first, 0.0, drifts=np.ones(2))
    constrained_kmeans(x, bounds, x[:2], metric="euclidean", gap=0.5, max_iter=9, state=state)
    [(centers, prices, gap, drifts)] = asked
    np.testing.assert_array_equal(centers, x[:2])
    np.testing.assert_array_equal(prices, [0.5, 0.0])
    assert gap == 0.5
    assert drifts is state.drifts
    # A state that proves the gap needs no further look.
    state = state._replace(upper_bound=0.0)
    found = constrained_kmeans(
        x, bounds, x[:2], metric="euclidean", gap=0.5, max_iter=9, state=state
    )
    assert found.labels is first
    assert len(asked) == 1


@pytest.mark.parametrize("given", [False, True])
def test_prices_of_mere_rows_are_none_of_those_of_means(given, monkeypatch):
    x, bounds = problem()
    asked, real = [], _labels.Labeler.near_labels

    def near_labels(self, centers, prices, drifts, changed):
        asked.append(prices)
        return real(self, centers, prices, drifts, changed)

    monkeypatch.setattr(_labels.Labeler, "near_labels", near_labels)
    prices = np.asarray([0.5, 0.0]) if given else None
    constrained_kmeans(x, bounds, x[:2], metric="euclidean", prices=prices, max_iter=3, tol=0.0)
    first, second, *others = asked
    assert (first is not None) is given
    assert (second is None) is not given
    assert others
    assert all(one is not None for one in others)


@pytest.mark.parametrize(
    ("prices", "words"),
    [
        ([0.0], r"prices must have shape \(2,\)"),
        ([0.0, np.nan], "prices must be finite"),
        ([0.0, 1.0, 2.0], r"prices must have shape \(2,\)"),
    ],
)
def test_prices_that_do_not_fit_are_named(prices, words):
    x, bounds = problem()
    with pytest.raises(InvalidValueError, match=words):
        constrained_kmeans(x, bounds, x[:2], metric="euclidean", prices=np.asarray(prices))


def test_bounds_and_prices_of_another_library_are_named():
    x, bounds = problem()
    other = pytest.importorskip("array_api_strict").zeros(2)
    with pytest.raises(InvalidValueError, match="prices must be of the same array library as"):
        constrained_kmeans(x, bounds, x[:2], metric="euclidean", prices=other)
