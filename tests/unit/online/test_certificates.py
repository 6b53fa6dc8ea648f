"""Certificates of sizes and values: by hand, at extremes, and what they refuse."""

import math

import array_api_strict
import numpy as np
import pytest

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.core.errors import DeviceMismatchError, InvalidTypeError, InvalidValueError
from dualclust.algos.online.assignment import assign, init_state, next_pass
from dualclust.algos.online.certificates import dual_value, objective, size_certificate, violation
from dualclust.algos.online.step_sizes import StepRule, published_steps, theorem_steps
from tests.compare import assert_close, to_numpy
from tests.refusals import is_refusal, message_of

SCORES = np.random.default_rng(0).integers(-16, 17, size=(16, 3)) / 16.0


def counted(xp, lower, upper=None, n=16):
    return xp.freeze(
        SizeBounds.from_counts(lower, upper, n_samples=n, xp=xp.namespace, device=xp.device)
    )


def test_the_certificate_by_hand(xp):
    bounds = counted(xp, [4, 4, 4], [8, 8, 8])
    scores = xp.asarray([[1.0, 0.0, 0.0]] * 4)
    state = assign(scores, bounds, steps=StepRule(2.0**-3)).state
    # All four in cluster 0: rho = (0, 1/8, 1/8), rho' = (1/4, 0, 0).
    assert to_numpy(state.counts).tolist() == [4, 0, 0]
    certificate = size_certificate(state, bounds)
    assert_close(certificate.at_least, xp.asarray([1.0, 0.0, 0.0]), rtol=0.0, atol=1e-12)
    assert_close(certificate.at_most, xp.asarray([4.0, 2.0, 2.0]), rtol=0.0, atol=1e-12)
    assert float(to_numpy(certificate.at_least)[0]) <= 1.0
    assert float(to_numpy(certificate.at_most)[0]) >= 4.0


def test_a_dual_of_free_sign_gives_the_counts(xp):
    bounds = counted(xp, [8, 4, 4])
    state = assign(xp.asarray(SCORES), bounds, steps=StepRule(2.0**-3, 4, free_sign=True)).state
    certificate = size_certificate(state, bounds)
    counts = xp.asarray(to_numpy(state.counts).astype(np.float64))
    assert_close(certificate.at_least, counts, rtol=0.0, atol=1e-10)
    assert_close(certificate.at_most, counts, rtol=0.0, atol=1e-10)


@pytest.mark.parametrize(
    "rule",
    [
        theorem_steps(16, tau=1.0),
        published_steps("coke-cifar"),
        StepRule(0.5, mean_over_chunk=True),
    ],
    ids=["projection", "published", "mean"],
)
def test_steps_without_a_certificate_are_refused(xp, rule):
    bounds = counted(xp, [4, 4, 4])
    state = assign(xp.asarray(SCORES), bounds, steps=rule).state
    text = message_of(InvalidValueError, size_certificate, state, bounds)
    assert text == (
        "state must come from one pass with one step size: there is no certificate after a "
        "projection, steps divided by the batch length, or mixed steps. "
        "To fix this, use measured_steps, the same for the whole pass"
    )


def test_mixed_steps_are_refused(xp):
    bounds = counted(xp, [4, 4, 4])
    state = assign(xp.asarray(SCORES[:8]), bounds, steps=StepRule(0.5)).state
    state = assign(xp.asarray(SCORES[8:]), bounds, state, steps=StepRule(0.25)).state
    with pytest.raises(InvalidValueError, match="mixed steps"):
        size_certificate(state, bounds)


def test_before_the_first_sample_there_is_no_certificate(xp):
    bounds = counted(xp, [4, 4, 4])
    state = assign(xp.asarray(SCORES), bounds).state
    for empty in (init_state(bounds), next_pass(state)):
        with pytest.raises(InvalidValueError, match="before its first sample"):
            size_certificate(empty, bounds)


def test_violation_is_the_largest_distance_outside(xp):
    bounds = counted(xp, [4, 4, 0], [8, 8, 5])
    for counts, expected in (
        ([8, 4, 4], 0),
        ([9, 4, 3], 1),
        ([8, 2, 6], 2),
        ([16, 0, 0], 8),
        ([0, 0, 16], 11),
    ):
        value = violation(xp.asarray(counts), bounds)
        assert value == expected
        assert type(value) is int


def test_violation_needs_one_count_per_cluster(xp):
    with pytest.raises(InvalidValueError, match=r"counts must have shape \(3,\), got \(2,\)"):
        violation(xp.asarray([8, 8]), counted(xp, [4, 4, 4]))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_objective_is_the_sum_of_the_chosen_scores(xp, dtype):
    value = objective(xp.asarray([[0.5, 0.25], [1.0, -2.0]], dtype), xp.asarray([0, 1]))
    assert value == -1.5
    assert type(value) is float
    assert objective(xp.asarray(np.zeros((0, 3)), dtype), xp.asarray(np.zeros(0, np.int64))) == 0.0


def test_the_objective_of_float32_scores_is_summed_in_float64(xp):
    scores = xp.asarray(np.full((4, 1), 2.0**24 + 1, np.float64))
    assert objective(scores, xp.asarray([0, 0, 0, 0])) == 2.0**26 + 4
    narrow = xp.asarray([[2.0**24], [1.0]], "float32")
    assert objective(narrow, xp.asarray([0, 0])) == 2.0**24 + 1


@pytest.mark.parametrize("dtype", ["int32", "uint8"])
def test_the_objective_takes_labels_of_any_integer_dtype(xp, dtype):
    assert objective(xp.asarray([[0.5, 0.25]]), xp.asarray([1], dtype)) == 0.25


@pytest.mark.parametrize(
    ("labels", "text"),
    [
        ([0, 2], "labels must lie in [0, 2), got values from 0 to 2"),
        ([0], "labels must have shape (2,), got (1,)"),
    ],
)
def test_the_objective_of_invalid_labels_is_refused(xp, labels, text):
    told = message_of(
        InvalidValueError, objective, xp.asarray(np.zeros((2, 2))), xp.asarray(labels)
    )
    assert is_refusal(told, text)


def test_the_objective_of_real_labels_is_refused(xp):
    with pytest.raises(InvalidTypeError, match="labels must have an integer dtype"):
        objective(xp.asarray(np.zeros((2, 2))), xp.asarray([0.0, 1.0]))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_dual_value_by_hand(xp, dtype):
    scores = xp.asarray([[1.0, 0.0], [1.0, 0.5], [0.25, 0.0], [1.0, 0.75]], dtype)
    bounds = counted(xp, [0, 2], [2, 4], n=4)
    for prices, expected in (
        ([0.0, 0.0], 3.25),
        ([0.0, 0.5], 1.0 + 1.0 + 0.5 + 1.25 - 2 * 0.5),
        ([-0.5, 0.0], 0.5 + 0.5 + 0.0 + 0.75 + 2 * 0.5),
        ([-0.25, 0.25], 0.75 + 0.75 + 0.25 + 1.0 + 2 * 0.25 - 2 * 0.25),
    ):
        value = dual_value(scores, xp.asarray(prices), bounds)
        assert value == expected
        assert type(value) is float
    # The best assignment inside the bounds gives the third and one more of 0.5, 0.75 to cluster 1.
    assert dual_value(scores, xp.asarray([0.0, 0.25]), bounds) == 2.75


def test_the_dual_value_is_summed_in_blocks(xp, rng):
    scores = rng.integers(-16, 17, size=(2**13 + 3, 2**9)) / 16.0
    if not xp.name.startswith("numpy"):
        scores = scores[:9]
    n, k = scores.shape
    bounds = counted(xp, [0] * k, n=n)
    expected = float(scores.max(axis=1).sum())
    assert dual_value(xp.asarray(scores), xp.asarray(np.zeros(k)), bounds) == expected


def test_the_dual_value_needs_all_samples_of_a_known_pass(xp):
    prices = xp.asarray(np.zeros(3))
    with pytest.raises(InvalidValueError, match=r"scores must have shape \(16, 3\), got \(8, 3\)"):
        dual_value(xp.asarray(SCORES[:8]), prices, counted(xp, [4, 4, 4]))
    with pytest.raises(InvalidValueError, match=r"prices must have shape \(3,\), got \(2,\)"):
        dual_value(xp.asarray(SCORES), prices[:2], counted(xp, [4, 4, 4]))
    stream = SizeBounds.for_stream(3, xp=xp.namespace, device=xp.device)
    with pytest.raises(InvalidValueError, match="bounds must be of a known number of samples"):
        dual_value(xp.asarray(SCORES), prices, stream)


def test_arrays_of_several_places_are_refused():
    bounds = SizeBounds.from_ratios(3, n_samples=16, lower=0.5)
    far = array_api_strict.zeros((16, 3), device=array_api_strict.Device("device1"))
    near = SizeBounds.from_ratios(3, n_samples=16, lower=0.5, xp=array_api_strict)
    with pytest.raises(DeviceMismatchError):
        dual_value(SCORES, array_api_strict.zeros(3), bounds)
    with pytest.raises(DeviceMismatchError):
        dual_value(far, array_api_strict.zeros(3), near)
    with pytest.raises(DeviceMismatchError):
        objective(SCORES, array_api_strict.zeros(16, dtype=array_api_strict.int64))


def test_the_certificate_of_huge_prices_and_tiny_steps_is_wide_but_no_nan(xp):
    bounds = counted(xp, [4, 4, 4])
    first = assign(xp.asarray(SCORES), bounds, steps=StepRule(0.5)).state
    for step in (1e-300, 1e-12):
        state = assign(xp.asarray(SCORES), bounds, next_pass(first), steps=StepRule(step)).state
        certificate = size_certificate(state, bounds)
        counts = to_numpy(state.counts)
        assert (to_numpy(certificate.at_least) <= counts).all()
        assert (to_numpy(certificate.at_most) >= counts).all()


def test_the_rounding_allowed_for_is_small(xp):
    bounds = xp.freeze(SizeBounds.for_stream(3, xp=xp.namespace, device=xp.device))
    state = assign(xp.asarray(SCORES), bounds, steps=StepRule(0.5)).state
    at_least, at_most = (to_numpy(side) for side in size_certificate(state, bounds))
    exact = 16 * 0.3 - to_numpy(state.duals.lower) / 0.5
    np.testing.assert_allclose(at_least, np.maximum(exact, 0.0), atol=1e-9)
    np.testing.assert_allclose(at_most, 16 + to_numpy(state.duals.upper) / 0.5, atol=1e-9)
    assert not math.isnan(at_least.sum() + at_most.sum())
