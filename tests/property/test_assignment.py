"""What holds of the online assignment for any scores, bounds, order, chunk and step."""

import dataclasses
import itertools

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.online.assignment import assign, init_state, next_pass
from dualclust.algos.online.certificates import violation
from dualclust.algos.online.duals import Duals
from dualclust.algos.online.step_sizes import StepRule, measured_steps
from tests.compare import assert_equal, assert_same_labels, to_numpy
from tests.examples import examples
from tests.libraries import LIBRARIES
from tests.problems import (
    cone_scores,
    dyadic_streams,
    float_streams,
    in_order,
    mixture_scores,
    replay,
)

NUMPY = LIBRARIES[0]


def run(xp, stream, scores=None, rule=None):
    scores = stream.scores if scores is None else scores
    return assign(xp.asarray(scores), stream.bounds(xp), steps=rule or stream.rule)


@given(stream=dyadic_streams())
@examples(60)
def test_labels_are_the_first_best_admissible_clusters(xp, stream):
    labels, state = run(xp, stream)
    told = replay(stream.scores, to_numpy(labels), stream.bounds(NUMPY), stream.rule)
    assert not told.gaps.any()
    assert not told.ties.any()
    np.testing.assert_array_equal(to_numpy(state.duals.lower), told.rho)
    np.testing.assert_array_equal(to_numpy(state.duals.upper), told.rho_up)
    np.testing.assert_array_equal(to_numpy(state.counts), told.counts)


def test_the_replay_sees_a_wrong_label():
    scores = np.asarray([[1.0, 0.0], [1.0, 0.0]])
    bounds, rule = SizeBounds.from_counts([0, 0], [1, 2], n_samples=2), StepRule(0.5)
    assert replay(scores, np.asarray([1, 0]), bounds, rule).gaps.tolist() == [1.0, 0.0]
    assert replay(scores, np.asarray([0, 0]), bounds, rule).gaps.tolist() == [0.0, np.inf]
    tied = replay(np.zeros((2, 2)), np.asarray([1, 0]), bounds, rule)
    assert tied.ties.tolist() == [1, 0]


@given(stream=float_streams())
@examples(300)
def test_labels_of_any_floats_are_best_up_to_rounding(stream):
    labels, state = run(NUMPY, stream)
    told = replay(stream.scores, labels, stream.bounds(NUMPY), stream.rule)
    scale = np.abs(stream.scores).max() + np.abs(told.rho).max() + np.abs(told.rho_up).max()
    tol = 1e-12 * (scale + stream.rule.step_size * len(labels))
    assert told.gaps.max() <= tol
    np.testing.assert_allclose(state.duals.lower, told.rho, rtol=0, atol=tol)
    np.testing.assert_allclose(state.duals.upper, told.rho_up, rtol=0, atol=tol)


@given(stream=st.one_of(dyadic_streams(), float_streams()), mean=st.booleans())
@examples(500)
def test_counts_end_inside_the_bounds(stream, mean):
    rule = dataclasses.replace(stream.rule, mean_over_chunk=mean)
    for xp in (NUMPY, LIBRARIES[-1]):
        bounds = stream.bounds(xp)
        state = run(xp, stream, rule=rule).state
        assert violation(state.counts, bounds) == 0
        assert int(to_numpy(state.counts).sum()) == len(stream.scores)


@given(stream=dyadic_streams())
@examples(60)
def test_counts_end_inside_the_bounds_on_every_library(xp, stream):
    bounds = stream.bounds(xp)
    assert violation(run(xp, stream).state.counts, bounds) == 0


@pytest.fixture(scope="module", params=[cone_scores, mixture_scores], ids=["cone", "mixture"])
def many_scores(request):
    return request.param(100_000, 100).astype(np.float32)


@pytest.mark.parametrize("order", ["sorted", "random", "adversarial"])
def test_a_hundred_thousand_samples_end_inside_the_bounds(many_scores, order):
    bounds = SizeBounds.from_ratios(100, n_samples=100_000, lower=0.9, upper=1.1)
    scores = in_order(many_scores, order)
    greedy = np.bincount(scores.argmax(axis=1), minlength=100)
    assert violation(greedy, bounds) > 500  # the data are a problem to begin with
    counts = assign(scores, bounds).state.counts
    assert counts.min() >= 900
    assert counts.max() <= 1100


@given(stream=dyadic_streams(), data=st.data())
@examples(40)
def test_batch_by_batch_is_one_call_where_chunks_align(xp, stream, data):
    n, chunk = len(stream.scores), stream.rule.chunk_size
    cuts = sorted(data.draw(st.lists(st.sampled_from(range(0, n + 1, chunk)), max_size=4)))
    whole, bounds, state, labels = run(xp, stream), stream.bounds(xp), None, []
    for first, last in itertools.pairwise([0, *cuts, n]):
        part, state = assign(
            xp.asarray(stream.scores[first:last]), bounds, state, steps=stream.rule
        )
        labels.append(to_numpy(part))
    np.testing.assert_array_equal(np.concatenate(labels), to_numpy(whole.labels))
    assert_equal(state.counts, whole.state.counts)
    for a, b in zip(state.duals, whole.state.duals, strict=True):
        assert_equal(a, b)


@given(stream=dyadic_streams(), data=st.data())
@examples(40)
def test_adding_a_number_to_a_row_changes_nothing(xp, stream, data):
    n = len(stream.scores)
    shift = np.asarray(data.draw(st.lists(st.integers(-99, 99), min_size=n, max_size=n)))
    moved, plain = run(xp, stream, stream.scores + shift[:, None] / 16.0), run(xp, stream)
    assert_equal(moved.labels, plain.labels)
    assert_equal(moved.state.duals.lower, plain.state.duals.lower)


@given(stream=float_streams(), seed=st.integers(0, 99))
@examples(100)
def test_adding_a_number_to_a_row_of_floats_keeps_labels_up_to_ties(stream, seed):
    shift = np.random.default_rng(seed).normal(size=(len(stream.scores), 1))
    shift *= np.abs(stream.scores).max()
    bounds = SizeBounds.from_counts([0] * stream.scores.shape[1], n_samples=len(stream.scores))
    prices = np.random.default_rng(seed).normal(size=stream.scores.shape[1])
    plain = assign(stream.scores + prices, bounds).labels
    moved = assign(stream.scores + prices + shift, bounds).labels
    tol = 1e-14 * float(np.abs(shift).max() + np.abs(prices).max())
    assert_same_labels(stream.scores, prices, plain, moved, tol)


@given(stream=dyadic_streams(), factor=st.sampled_from([0.25, 2.0, 3.0, 1024.0]))
@examples(40)
def test_scores_and_steps_may_be_measured_in_other_units(xp, stream, factor):
    rule = dataclasses.replace(stream.rule, step_size=stream.rule.step_size * factor)
    scaled, plain = run(xp, stream, stream.scores * factor, rule), run(xp, stream)
    assert_equal(scaled.labels, plain.labels)
    for a, b in zip(scaled.state.duals, plain.state.duals, strict=True):
        assert_equal(a, b * factor)


@given(stream=float_streams(), power=st.integers(-30, 30))
@examples(100)
def test_the_measured_steps_know_the_unit_of_the_scores(stream, power):
    bounds, unit = stream.bounds(NUMPY), 2.0**power
    plain = assign(stream.scores, bounds, steps=measured_steps(bounds))
    scaled = assign(stream.scores * unit, bounds, steps=measured_steps(bounds, scale=unit))
    np.testing.assert_array_equal(scaled.labels, plain.labels)
    np.testing.assert_array_equal(scaled.state.duals.lower, plain.state.duals.lower * unit)


@given(stream=float_streams(), data=st.data())
@examples(150)
def test_the_numbering_of_the_clusters_is_free_away_from_ties(stream, data):
    order = np.asarray(data.draw(st.permutations(range(stream.scores.shape[1]))))
    swapped = stream._replace(
        scores=stream.scores[:, order], lower=stream.lower[order], upper=stream.upper[order]
    )
    for xp in (NUMPY, LIBRARIES[-1]):
        plain, other = run(xp, stream), run(xp, swapped)
        told = replay(stream.scores, to_numpy(plain.labels), stream.bounds(NUMPY), stream.rule)
        assume(not told.ties.any())
        np.testing.assert_array_equal(order[to_numpy(other.labels)], to_numpy(plain.labels))
        for a, b in zip(other.state.duals, plain.state.duals, strict=True):
            np.testing.assert_array_equal(to_numpy(a), to_numpy(b)[order])


@given(stream=float_streams())
@examples(60)
def test_all_libraries_give_the_same_bits(stream):
    results = [run(xp, stream) for xp in LIBRARIES if not xp.flags]
    labels, state = results[0]
    for other in results[1:]:
        np.testing.assert_array_equal(to_numpy(other.labels), labels)
        np.testing.assert_array_equal(to_numpy(other.state.counts), state.counts)
        for a, b in zip(other.state.duals, state.duals, strict=True):
            np.testing.assert_array_equal(to_numpy(a), b)


@given(stream=float_streams())
@examples(100)
def test_without_bounds_labels_are_greedy(stream):
    n, k = stream.scores.shape
    rule = dataclasses.replace(stream.rule, free_sign=False)
    for bounds in (
        SizeBounds.from_counts([0] * k, n_samples=n),
        SizeBounds.for_stream(k, lower=0.0),
        SizeBounds.from_ratios(k, n_samples=n, lower=0.0),
    ):
        labels = assign(stream.scores, bounds, steps=rule).labels
        np.testing.assert_array_equal(labels, stream.scores.argmax(axis=1))


@given(stream=dyadic_streams())
@examples(100)
def test_loose_bounds_never_bind(stream):
    greedy = np.bincount(stream.scores.argmax(axis=1), minlength=stream.scores.shape[1])
    loose = stream._replace(lower=np.zeros_like(greedy), upper=np.full_like(greedy, greedy.sum()))
    assume(not stream.rule.free_sign)
    np.testing.assert_array_equal(run(NUMPY, loose).state.counts, greedy)


@given(stream=dyadic_streams(), data=st.data())
@examples(100)
def test_swapping_equal_rows_changes_nothing(stream, data):
    n = len(stream.scores)
    i, j = (data.draw(st.integers(0, n - 1)) for _ in range(2))
    scores = stream.scores.copy()
    scores[j] = scores[i]
    swapped = scores.copy()
    swapped[[i, j]] = swapped[[j, i]]
    one, two = run(NUMPY, stream, scores), run(NUMPY, stream, swapped)
    np.testing.assert_array_equal(one.labels, two.labels)


@given(stream=float_streams(), starts=st.integers(0, 2**32))
@examples(200)
def test_any_prices_to_start_with_keep_the_promise(stream, starts):
    rng, k = np.random.default_rng(starts), stream.scores.shape[1]
    size = 10.0 ** rng.integers(-9, 9)
    duals = Duals(*(size * rng.random(k) for _ in range(2)))
    bounds = stream.bounds(NUMPY)
    state = init_state(bounds)._replace(duals=duals, start=duals)
    counts = assign(stream.scores, bounds, state, steps=stream.rule).state.counts
    assert violation(counts, bounds) == 0


@given(stream=dyadic_streams(), passes=st.integers(2, 4))
@examples(100)
def test_every_pass_ends_inside_the_bounds_with_the_measured_steps(stream, passes):
    bounds, state = stream.bounds(NUMPY), None
    for epoch in range(passes):
        start = state if state is None else next_pass(state)
        rule = measured_steps(bounds, epoch=epoch)
        state = assign(stream.scores, bounds, start, steps=rule).state
        assert violation(state.counts, bounds) == 0


@given(k=st.integers(1, 6), n=st.integers(1, 40), seed=st.integers(0, 2**32))
@examples(300)
def test_ratios_of_one_give_sizes_that_differ_by_one_at_most(k, n, seed):
    scores = np.random.default_rng(seed).normal(size=(n, k))
    bounds = SizeBounds.from_ratios(k, n_samples=n, lower=1.0, upper=1.0, rounding="outward")
    assert measured_steps(bounds).free_sign
    counts = assign(scores, bounds).state.counts
    assert counts.max() - counts.min() <= 1
