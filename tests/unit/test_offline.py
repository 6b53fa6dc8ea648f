import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dualclust.algos import offline
from dualclust.algos.assignment import init_state
from dualclust.algos.bounds import from_counts, from_ratios, stream_bounds
from dualclust.algos.certificates import dual_value, size_certificate, violation
from dualclust.algos.errors import DeviceMismatchError, InvalidTypeError, InvalidValueError
from dualclust.algos.offline import assign_offline, finish, learn_prices
from tests.compare import assert_equal, assert_same_kind, to_numpy
from tests.libraries import LIBRARIES
from tests.problems import best_value, counted_bounds, float_streams

NUMPY = LIBRARIES[0]


def ratios(xp, n, k, **options):
    options = {"lower": 0.75, "upper": 1.25, "rounding": "outward"} | options
    return xp.freeze(from_ratios(k, n_samples=n, xp=xp.namespace, device=xp.device, **options))


def counts(xp, n, lower, upper):
    bounds = from_counts(lower, upper, n_samples=n, xp=xp.namespace, device=xp.device)
    return xp.freeze(bounds)


def check(found, scores, bounds):
    """Everything that a result states about itself, recomputed from the scores."""
    s, labels, sizes = (to_numpy(a) for a in (scores, found.labels, found.state.counts))
    s = s.astype(np.float64)
    n, k = s.shape
    assert labels.shape == (n,)
    assert labels.dtype == np.int64
    np.testing.assert_array_equal(np.bincount(labels, minlength=k), sizes)
    assert (to_numpy(bounds.lower) <= sizes).all()
    assert (sizes <= to_numpy(bounds.upper)).all()
    assert violation(found.state.counts, bounds) == 0
    scale = n * np.abs(s).max() + 1e-300
    assert found.objective == pytest.approx(s[np.arange(n), labels].sum(), abs=1e-12 * scale)
    prices = to_numpy(found.state.start.lower) - to_numpy(found.state.start.upper)
    priced = np.sort(s + prices, axis=1)
    second = priced[:, -2] if k > 1 else np.full(n, -math.inf)
    np.testing.assert_array_equal(to_numpy(found.margins), priced[:, -1] - second)
    best = dual_value(s, prices, from_counts(bounds.lower, bounds.upper, n_samples=n))
    assert found.upper_bound == pytest.approx(best, abs=1e-12 * (scale + n * np.abs(prices).sum()))
    assert found.objective <= found.upper_bound + 1e-12 * scale
    for start, end in zip(found.state.start, found.state.duals, strict=True):
        atol = n * 2.0**-38 * (float(np.ptp(s)) or 1.0)
        np.testing.assert_allclose(to_numpy(end), to_numpy(start), rtol=0, atol=atol)
    certificate = size_certificate(found.state, bounds)
    assert (to_numpy(certificate.at_least) <= sizes).all()
    assert (sizes <= to_numpy(certificate.at_most)).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_results_are_of_the_library_of_the_scores(xp, rng, dtype):
    scores, bounds = xp.asarray(rng.normal(size=(17, 3)), dtype), ratios(xp, 17, 3)
    found = assign_offline(scores, bounds)
    check(found, scores, bounds)
    assert_same_kind(found.margins, xp.asarray(np.zeros(17)))
    assert_same_kind(found.labels, xp.asarray(np.zeros(17, np.int64)))
    assert isinstance(found.objective, float)
    assert isinstance(found.upper_bound, float)
    assert found.state.seen == 17


def test_libraries_agree(xp, rng):
    for k, n in ((2, 5), (4, 40)):
        scores = rng.normal(size=(n, k))
        expected = assign_offline(scores, ratios(NUMPY, n, k), n_passes=3)
        found = assign_offline(xp.asarray(scores), ratios(xp, n, k), n_passes=3)
        np.testing.assert_array_equal(to_numpy(found.labels), expected.labels)
        np.testing.assert_allclose(to_numpy(found.margins), expected.margins, rtol=1e-9, atol=1e-12)
        assert found.objective == pytest.approx(expected.objective, rel=1e-12)
        assert found.upper_bound == pytest.approx(expected.upper_bound, rel=1e-12)


def test_libraries_agree_where_scores_tie(xp, rng):
    """Multiples of 1/4: labels may differ where a tie broke otherwise, the value may not."""
    scores = rng.integers(-4, 5, size=(32, 4)) / 4.0
    bounds = ratios(xp, 32, 4)
    found = assign_offline(xp.asarray(scores), bounds)
    check(found, scores, bounds)
    expected = assign_offline(scores, ratios(NUMPY, 32, 4))
    assert found.objective == pytest.approx(expected.objective, abs=0.5)


@given(float_streams())
def test_any_problem_ends_inside_its_bounds(stream):
    bounds = stream.bounds(NUMPY)
    check(assign_offline(stream.scores, bounds), stream.scores, bounds)


@given(st.data(), st.integers(1, 20), st.integers(1, 5))
def test_any_ties_end_inside_the_bounds(data, n, k):
    scores = data.draw(arrays(np.float32, (n, k), elements=st.sampled_from([-1.0, 0.0, 1.0])))
    lower, upper = data.draw(counted_bounds(n, k))
    bounds = counts(NUMPY, n, lower.tolist(), upper.tolist())
    check(assign_offline(scores, bounds), scores, bounds)


@given(st.data(), st.integers(1, 6), st.integers(1, 3))
def test_the_optimum_lies_between_objective_and_bound(data, n, k):
    elements = st.floats(-1.0, 1.0, width=32) | st.sampled_from([0.0, 1.0])
    scores = data.draw(arrays(np.float64, (n, k), elements=elements))
    lower, upper = data.draw(counted_bounds(n, k))
    found = assign_offline(scores, counts(NUMPY, n, lower.tolist(), upper.tolist()))
    best = best_value(scores, lower, upper)
    assert found.objective <= best + 1e-12
    assert best <= found.upper_bound + 1e-12


@given(st.integers(0, 2**32), st.integers(-300, 300))
def test_scores_of_any_magnitude(seed, exponent):
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(30, 3)) * 10.0**exponent
    bounds = ratios(NUMPY, 30, 3, lower=1.0, upper=1.0)
    check(assign_offline(scores, bounds), scores, bounds)


@given(st.integers(0, 2**32))
def test_a_cluster_keeps_the_samples_that_are_surest_of_it(seed):
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(5, 60)), int(rng.integers(2, 6))
    scores = rng.normal(size=(n, k)) + 2 * rng.normal(size=k)
    found = assign_offline(scores, ratios(NUMPY, n, k), n_passes=2)
    prices = found.state.start.lower - found.state.start.upper
    favorite = (scores + prices).argmax(axis=1)
    kept = found.labels == favorite
    for cluster in range(k):
        wanted = favorite == cluster
        if (wanted & kept).any() and (wanted & ~kept).any():
            assert found.margins[wanted & kept].min() >= found.margins[wanted & ~kept].max()


def test_loose_bounds_give_the_best_labels_and_no_gap(xp, rng):
    scores = rng.normal(size=(25, 4))
    for bounds in (ratios(xp, 25, 4, lower=0.0, upper=math.inf), counts(xp, 25, [0] * 4, None)):
        found = assign_offline(xp.asarray(scores), bounds)
        np.testing.assert_array_equal(to_numpy(found.labels), scores.argmax(axis=1))
        assert found.objective == pytest.approx(found.upper_bound, rel=1e-14)
        top = np.sort(scores, axis=1)
        np.testing.assert_array_equal(to_numpy(found.margins), top[:, -1] - top[:, -2])


def test_one_cluster(xp, rng):
    scores = xp.asarray(rng.normal(size=(9, 1)))
    found = assign_offline(scores, counts(xp, 9, [9], [9]))
    check(found, scores, counts(xp, 9, [9], [9]))
    assert (to_numpy(found.margins) == math.inf).all()
    assert found.objective == pytest.approx(found.upper_bound)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8])
def test_as_many_clusters_as_samples(xp, n):
    scores = np.random.default_rng(n).normal(size=(n, n))
    bounds = counts(xp, n, [1] * n, [1] * n)
    found = assign_offline(xp.asarray(scores), bounds)
    check(found, scores, bounds)
    assert sorted(to_numpy(found.labels).tolist()) == list(range(n))


def test_one_sample(xp):
    scores = xp.asarray([[0.0, 3.0, 1.0]])
    assert to_numpy(assign_offline(scores, ratios(xp, 1, 3, lower=0.0)).labels).tolist() == [1]
    forced = assign_offline(scores, counts(xp, 1, [0, 0, 1], [1, 0, 1]))
    assert to_numpy(forced.labels).tolist() == [2]


@pytest.mark.parametrize("value", [0.0, -1.0, 1e30])
def test_equal_scores_have_no_gap(xp, value):
    scores = xp.asarray(np.full((12, 3), value))
    found = assign_offline(scores, counts(xp, 12, [4] * 3, [4] * 3))
    assert to_numpy(found.state.counts).tolist() == [4, 4, 4]
    assert found.objective == pytest.approx(12 * value)


def test_a_cluster_that_may_hold_nothing_stays_empty(xp, rng):
    scores = xp.asarray(rng.normal(size=(12, 3)) + np.array([0.0, 5.0, 0.0]))
    found = assign_offline(scores, counts(xp, 12, [0, 0, 0], [12, 0, 12]))
    assert to_numpy(found.state.counts)[1] == 0


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6, 7, 10, 21, 89, 100, 144, 1000])
def test_the_learning_order_visits_each_sample_once_and_strides(n):
    bounds = ratios(NUMPY, n, 1)
    order = offline._strided(n, bounds)
    assert sorted(order.tolist()) == list(range(n))
    if n >= 89:
        # Any run of consecutive visits covers all the rows, not one part of them.
        for first in range(0, n - 20, 7):
            assert np.histogram(order[first : first + 20], bins=4, range=(0, n))[0].min() >= 2


def test_blocks_of_rows_change_nothing(xp, rng, monkeypatch):
    scores = xp.asarray(rng.normal(size=(37, 3)))
    bounds = ratios(xp, 37, 3)
    expected = assign_offline(scores, bounds, n_passes=2)
    for entries in (1, 12, 30):
        monkeypatch.setattr(offline, "BLOCK_ENTRIES", entries)
        found = assign_offline(scores, bounds, n_passes=2)
        check(found, scores, bounds)
        # The prices of a pass move by chunks, and a block ends a chunk.
        assert found.objective == pytest.approx(expected.objective, abs=0.1)


def test_passes_compose_from_the_public_parts(xp, rng):
    scores, bounds = xp.asarray(rng.normal(size=(20, 3))), ratios(xp, 20, 3)

    def score_rows(ids):
        return xp.namespace.take(scores, ids, axis=0)

    state = init_state(bounds)
    for epoch in range(3):
        labels, state = learn_prices(score_rows, bounds, state, epoch=epoch)
        xp.freeze(state)
        assert labels.shape == (20,)
        assert state.seen == 20
    found, expected = finish(score_rows, bounds, state), assign_offline(scores, bounds, n_passes=3)
    assert_equal(found.labels, expected.labels)
    assert_equal(found.margins, expected.margins)
    assert found[3:] == expected[3:]


def test_labels_of_a_learning_pass_are_in_the_order_of_the_ids(xp):
    scores = xp.asarray(np.eye(4)[np.arange(24) % 4] * 10)
    bounds = ratios(xp, 24, 4)
    labels, _ = learn_prices(
        lambda ids: xp.namespace.take(scores, ids, axis=0), bounds, init_state(bounds), epoch=0
    )
    np.testing.assert_array_equal(to_numpy(labels), np.arange(24) % 4)


def test_a_learning_pass_enforces_nothing(xp):
    """All samples prefer cluster 0, by more than a first pass can move its price."""
    scores = xp.asarray(np.tile([100.0, 0.0], (24, 1)))
    bounds = counts(xp, 24, [12, 12], [12, 12])
    _, state = learn_prices(
        lambda ids: xp.namespace.take(scores, ids, axis=0),
        bounds,
        init_state(bounds),
        epoch=0,
        scale=1.0,
    )
    assert to_numpy(state.counts).tolist() == [24, 0]
    prices = to_numpy(state.duals.lower) - to_numpy(state.duals.upper)
    assert prices[1] > prices[0]


def test_more_passes_tighten_the_bound(rng):
    scores = rng.normal(size=(400, 8)) + rng.normal(size=8)
    bounds = ratios(NUMPY, 400, 8, lower=0.9, upper=1.1)
    found = [assign_offline(scores, bounds, n_passes=p) for p in (1, 4, 12)]
    assert found[2].upper_bound < found[1].upper_bound < found[0].upper_bound
    for one in found:
        check(one, scores, bounds)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_score_that_is_not_finite_is_named_by_its_place(xp, rng, bad):
    scores = rng.normal(size=(20, 3))
    scores[7, 2] = bad
    with pytest.raises(InvalidValueError, match=r"scores must be finite, got .* index \(7, 2\)"):
        assign_offline(xp.asarray(scores), ratios(xp, 20, 3))


def test_what_is_refused(xp, rng):
    scores, bounds = xp.asarray(rng.normal(size=(20, 3))), ratios(xp, 20, 3)
    stream = stream_bounds(3, xp=xp.namespace, device=xp.device)
    with pytest.raises(InvalidValueError, match="known number of samples"):
        assign_offline(scores, stream)
    for n, k in ((19, 3), (20, 4)):
        with pytest.raises(InvalidValueError, match=rf"scores must have shape \({n}, {k}\)"):
            assign_offline(scores, ratios(xp, n, k))
    with pytest.raises(InvalidValueError, match="n_passes must be at least 1, got 0"):
        assign_offline(scores, bounds, n_passes=0)
    with pytest.raises(InvalidTypeError, match="n_passes must be an int"):
        assign_offline(scores, bounds, n_passes=2.0)
    with pytest.raises(InvalidTypeError, match="real floating dtype"):
        assign_offline(xp.asarray(np.ones((20, 3), np.int64)), bounds)
    with pytest.raises(InvalidTypeError, match="got list"):
        assign_offline(to_numpy(scores).tolist(), bounds)
    other = next(library for library in LIBRARIES if library.namespace is not xp.namespace)
    with pytest.raises(DeviceMismatchError, match="same array library"):
        assign_offline(scores, ratios(other, 20, 3))
