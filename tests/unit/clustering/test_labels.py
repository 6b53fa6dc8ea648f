"""Labels of one iteration: what is asked of the solver, in which unit, and what needs none."""

import numpy as np
import pytest

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.clustering import _labels
from dualclust.algos.clustering._frame import frame_of
from dualclust.algos.clustering._labels import Labeler, at_no_prices, next_drifts
from dualclust.algos.clustering.lloyd import KMeansState
from dualclust.algos.offline import DEFAULT_OPTIONS
from dualclust.algos.offline.assignment import OfflineAssignment
from tests.compare import to_numpy

K = 8
N = DEFAULT_OPTIONS.full_entries // K
"""So many rows and one more are many."""


def labeler_of(rows, lower, upper):
    bounds = SizeBounds.from_counts(lower, upper, n_samples=len(rows))
    return Labeler(frame_of(rows, "euclidean", None), bounds, None)


def in_eight_places(sizes):
    """Rows at the corners of a cube, so many at each, and the corners."""
    corners = np.asarray([[(j >> b) & 1 for b in range(3)] for j in range(K)], dtype=float)
    return corners[np.repeat(np.arange(K), sizes)], corners


def test_many_scores_are_more_than_are_all_kept():
    for n, expected in ((N, False), (N + 1, True)):
        rows, _ = in_eight_places([n // K] * (K - 1) + [n - n // K * (K - 1)])
        assert labeler_of(rows, [0] * K, [n] * K).is_large is expected


def test_labels_are_rough_above_the_share_and_near_from_it_on(monkeypatch):
    monkeypatch.setattr(Labeler, "labels", lambda _, *asked: asked)
    labeler = Labeler(None, None, None)
    near = ("centers", "prices", _labels.NEAR, "drifts", _labels.BETWEEN)
    assert labeler.near_labels("centers", "prices", "drifts", _labels.MANY) == near
    rough = ("centers", "prices", _labels.ROUGH, "drifts", _labels.AT_FIRST)
    assert labeler.near_labels("centers", "prices", "drifts", _labels.MANY + 1e-9) == rough


def test_the_solver_works_in_the_unit_of_the_frame(monkeypatch):
    rows = np.random.default_rng(0).normal(size=(40, 2)) * 100.0
    labeler = labeler_of(rows, [20, 20], [20, 20])
    unit = labeler.frame.score_unit
    assert unit >= 2.0**12
    asked, answer = [], OfflineAssignment("labels", "counts", np.ones(2), 2.0, 3.0, 5.0, 0, 0.25)
    monkeypatch.setattr(_labels, "assign_source", lambda *a, **b: asked.append((a, b)) or answer)
    options = _labels.BETWEEN
    drifts = np.asarray([0.5, 0.25]) * unit
    found = labeler.labels(rows[:2], np.asarray([0.0, -unit]), 0.125, drifts, options)
    np.testing.assert_array_equal(found.prices, [unit, unit])
    numbers = (found.objective, found.upper_bound, found.rounding, found.gap)
    assert numbers == (2.0 * unit, 3.0 * unit, 5.0 * unit, 0.25)
    labeler.labels(rows[:2], None, 0.125, drifts)
    labeler.labels(rows[:2], np.ones(2), 0.125, np.asarray([1.0, 0.0]))
    [((source, bounds), given), (_, plain), (_, still)] = asked
    assert bounds is labeler.bounds
    np.testing.assert_array_equal(given["prices"], [0.0, -1.0])
    assert given["tol"] == 0.125
    np.testing.assert_array_equal(given["reach"], [_labels.REACH * 0.5, _labels.REACH * 0.25])
    assert given["options"] is _labels.BETWEEN
    assert (plain["prices"], plain["reach"]) == (None, None)
    assert still["reach"] is None  # a price that cannot move says that nothing is known
    assert plain["options"] == DEFAULT_OPTIONS
    squares = ((rows[:, None, :] - rows[:2]) ** 2).sum(axis=2)
    scores = (((rows - rows.mean(axis=0)) ** 2).sum(axis=1)[:, None] - squares) / 2.0
    np.testing.assert_allclose(source.block(0, 40) * unit, scores, atol=1e-8)


@pytest.mark.parametrize("end", ["lower", "upper"])
def test_sizes_at_their_bounds_need_no_solver(end, monkeypatch):
    """Of two ranks, which have the same rows."""
    sizes = np.full(K, N // K) + np.arange(K) - 3
    rows, corners = in_eight_places(sizes)
    asked = []
    monkeypatch.setattr(_labels, "may_be_free", lambda *_: True)  # decided on some rows only
    monkeypatch.setattr(_labels, "assign_source", lambda *a, **b: asked.append(a))

    def labeler(lower, upper):
        own = frame_of(rows, "euclidean", None)
        two = own.source.group._replace(
            n_total=2 * len(rows), gather=lambda part: np.concatenate([part, part])
        )
        own = own._replace(source=own.source._replace(group=two), raw=own.raw._replace(group=two))
        return Labeler(own, SizeBounds.from_counts(lower, upper, n_samples=two.n_total), None)

    far = [2 * len(rows)] * K
    tight = labeler(2 * sizes, far) if end == "lower" else labeler([0] * K, 2 * sizes)
    found = tight.labels(corners, np.zeros(K), 0.0)
    np.testing.assert_array_equal(found.labels, np.repeat(np.arange(K), sizes))
    np.testing.assert_array_equal(found.counts, 2 * sizes)
    assert found.counts.dtype == np.int64
    assert not asked
    sizes[[0, -1]] += np.asarray([1, -1]) if end == "lower" else np.asarray([-1, 1])
    tight = labeler(2 * sizes, far) if end == "lower" else labeler([0] * K, 2 * sizes)
    with pytest.raises(AttributeError):  # the solver is asked, and has no answer here
        tight.labels(corners, None, 0.0)
    assert len(asked) == 1


def test_what_is_looked_at_before_a_pass_for_free_labels(monkeypatch):
    """Neither few scores, nor prices, nor some rows that do not fit make a pass worth it."""
    sizes = [N // K] * (K - 1) + [N // K + 1]
    rows, corners = in_eight_places(sizes)
    passes = []
    real = _labels.nearest_labels
    monkeypatch.setattr(_labels, "nearest_labels", lambda *a: passes.append(0) or real(*a))
    wide = labeler_of(rows, [0] * K, [N] * K)
    wide.labels(corners, None, 0.0)
    assert len(passes) == 1
    one = np.eye(K)[0] * 1e-6
    wide.labels(corners, one, 0.0)
    few = labeler_of(rows[1:], [0] * K, [N] * K)
    few.labels(corners, None, 0.0)
    tight = labeler_of(rows, [0] * K, [N // K - 100] + [N] * (K - 1))
    tight.labels(corners, None, 0.0)
    assert len(passes) == 1


def test_prices_are_zero_where_all_are(xp):
    assert _labels._is_zero(None) is True
    assert _labels._is_zero(xp.asarray(np.zeros(3))) is True
    assert _labels._is_zero(xp.asarray(np.asarray([0.0, -1.0, 0.0]))) is False
    assert _labels._is_zero(xp.asarray(np.ones(3))) is False


def state_of(prices, n_iter, changed, drifts):
    drifts = None if drifts is None else np.asarray(drifts)
    return KMeansState(None, np.asarray(prices), n_iter, None, 0.0, drifts=drifts, changed=changed)


def test_the_next_prices_are_about_as_far_as_the_last_or_a_share_of_what_was():
    prices = np.asarray([4.0, 1.0])
    before = np.asarray([1.0, -3.0])  # 3 and 4 away
    far = np.sqrt(12.5)

    def drifts(n_iter, changed, last):
        return next_drifts(state_of(before, n_iter, changed, last), prices).tolist()

    both = pytest.approx([far, far])
    assert drifts(1, 0.5, None) == both
    assert drifts(1, 0.5, [4.0 * far + 4.0, 99.0]) == pytest.approx([far + 1.0] * 2)
    assert drifts(1, 0.5, [99.0, far]) == both
    # Mere rows say nothing; centers of a sample do, and so do those after an iteration.
    assert next_drifts(state_of(before, 0, 1.0, [8.0, 8.0]), prices) is None
    assert drifts(0, 0.5, None) == both
    assert drifts(1, 1.0, None) == both


def test_a_price_that_went_far_is_expected_to_go_on():
    before, prices = np.zeros(100), np.zeros(100)
    prices[[3, 7]] = [10.0, -1.0]
    mean = np.sqrt(1.01)
    expected = np.full(100, mean)
    expected[3] = 10.0 * _labels.OWN / _labels.REACH
    found = next_drifts(state_of(before, 1, 0.5, None), prices)
    np.testing.assert_allclose(found, expected)
    # What is common to all of them is what the next iteration keeps a share of.
    after = next_drifts(state_of(prices, 2, 0.5, found), prices)
    np.testing.assert_allclose(after, np.full(100, _labels.LEAST * mean))


def test_labels_that_prove_the_gap_are_final(monkeypatch):
    rows = np.random.default_rng(0).normal(size=(40, 2))
    labels = np.arange(40) % 2
    state = KMeansState(rows[:2], np.ones(2), 3, labels, 2.0, gap=0.25)
    labeler = labeler_of(rows, [20, 20], [20, 20])
    assert labeler.proven(state, 1.0) is None  # nothing is known of it
    assert labeler.proven(state._replace(upper_bound=np.nan), 1.0) is None
    state = state._replace(upper_bound=3.0, rounding=0.125)
    assert labeler.proven(state, 0.2499) is None
    found = labeler.proven(state, 0.25)
    assert found.labels is labels
    assert found.counts.tolist() == [20, 20]
    assert found.prices is state.prices
    assert found[3:] == (2.0, 3.0, 0.125, 0, 0.25)


def test_best_clusters_inside_the_bounds_are_the_optimum(xp):
    labels, counts = xp.asarray(np.asarray([1, 0, 1])), xp.asarray(np.asarray([1, 2]))
    found = at_no_prices(labels, counts, -3.0)
    assert found.labels is labels
    assert found.counts is counts
    assert to_numpy(found.prices).tolist() == [0.0, 0.0]
    assert to_numpy(found.prices).dtype == np.float64
    assert (found.objective, found.upper_bound, found.violation, found.gap) == (-3.0, -3.0, 0, 0.0)
    assert found.rounding == 3.0 * _labels.ROUNDING
    assert at_no_prices(labels, counts, -3.0, 7.0).rounding == 7.0 * _labels.ROUNDING


def test_labels_for_given_prices_are_those_of_the_solver():
    rows = np.random.default_rng(1).normal(size=(60, 2))
    labeler = labeler_of(rows, [30, 30], [30, 30])
    centers = rows[:2]
    squares = ((rows[:, None, :] - centers) ** 2).sum(axis=2)
    gains = np.sort(squares[:, 1] - squares[:, 0])[::-1]
    best = (((rows - rows.mean(axis=0)) ** 2).sum() - squares[:, 1].sum() + gains[:30].sum()) / 2.0
    found = labeler.labels(centers, None, 0.0)
    assert found.objective == pytest.approx(best, rel=1e-9)
    again = labeler.labels(centers, found.prices, 0.0)
    assert again.objective == pytest.approx(best, rel=1e-9)
