"""Labels of one iteration: what is asked of the solver, in which unit, and what needs none."""

import numpy as np
import pytest

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.clustering import _labels
from dualclust.algos.clustering._frame import frame_of
from dualclust.algos.clustering._labels import Labeler, at_no_prices, next_drifts
from dualclust.algos.clustering.lloyd import KMeansState
from dualclust.algos.offline import DEFAULT_OPTIONS
from dualclust.algos.offline.assignment import assign_exact
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


@pytest.mark.parametrize("end", ["lower", "upper"])
def test_sizes_at_their_bounds_need_no_solver(end):
    """Labels of the nearest centers are the answer then; one row less, and the solver moves one."""
    sizes = np.full(K, N // K) + np.arange(K) - 3
    rows, corners = in_eight_places(sizes)
    far = [len(rows)] * K
    for change in (0, 1):
        own = sizes.copy()
        own[[0, -1]] += change * np.asarray([1, -1] if end == "lower" else [-1, 1])
        tight = labeler_of(rows, *((own, far) if end == "lower" else ([0] * K, own)))
        found = tight.labels(corners, None, 0.0)
        moved = found.labels != np.repeat(np.arange(K), sizes)
        assert (moved.sum() > 0) == (change > 0)
        assert (found.gap, found.violation) == (0.0, 0)
        np.testing.assert_array_equal(found.counts, np.bincount(found.labels, minlength=K))
        assert found.counts.dtype == np.int64


@pytest.mark.parametrize("scale", [1.0, 100.0])
def test_labels_and_prices_are_in_the_unit_of_the_rows(scale):
    """As of the scores, typed out: a half of the squared distances, less those of the rows."""
    rows = np.random.default_rng(0).normal(size=(40, 2)) * scale
    labeler = labeler_of(rows, [20, 20], [20, 20])
    squares = ((rows[:, None, :] - rows[:2]) ** 2).sum(axis=2)
    scores = (((rows - rows.mean(axis=0)) ** 2).sum(axis=1)[:, None] - squares) / 2.0
    best = assign_exact(scores, labeler.bounds)
    for prices, drifts in ((None, None), (best.prices, np.full(2, 0.1 * scale**2))):
        found = labeler.labels(rows[:2], prices, 0.0, drifts)
        np.testing.assert_array_equal(found.labels, best.labels)
        assert found.objective == pytest.approx(best.objective, rel=1e-9)
        assert found.upper_bound == pytest.approx(best.objective, rel=1e-9)
        free = (scores + found.prices).max(axis=1).sum() - 20.0 * found.prices.sum()
        assert free == pytest.approx(best.objective, rel=1e-9)  # they prove it


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
    assert found[3:] == (2.0, 3.0, 0.125, 0, 0.25, "")


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
