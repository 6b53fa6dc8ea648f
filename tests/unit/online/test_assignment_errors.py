"""What the online assignment refuses, and what it takes."""

import math

import array_api_strict
import numpy as np
import pytest
import torch

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.core.errors import DeviceMismatchError, InvalidTypeError, InvalidValueError
from dualclust.algos.online.assignment import assign, init_state
from dualclust.algos.online.step_sizes import StepRule
from dualclust.backends import engine
from tests.compare import assert_equal, to_numpy
from tests.refusals import is_refusal, message_of


def bounds_of(xp, k=3, n=8, **options):
    options = {"lower": 0.5} | options
    return xp.freeze(
        SizeBounds.from_ratios(k, n_samples=n, xp=xp.namespace, device=xp.device, **options)
    )


@pytest.mark.parametrize("shape", [(8,), (8, 2), (8, 4), (2, 4, 3), (8, 0)])
def test_a_wrong_shape_is_named(xp, shape):
    text = message_of(InvalidValueError, assign, xp.asarray(np.zeros(shape)), bounds_of(xp))
    assert is_refusal(text, f"scores must have shape (n, 3), got {shape}")


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize(
    "steps",
    [None, StepRule(0.5, 3), StepRule(0.5, 3, mean_over_chunk=True), StepRule(0.5, l1_radius=1.0)],
    ids=["default", "chunks", "mean", "projected"],
)
@pytest.mark.parametrize(("row", "column"), [(0, 0), (4, 2), (7, 1)])
def test_an_entry_that_is_not_finite_is_named_and_leaves_the_state(
    xp, rng, bad, steps, row, column
):
    bounds = bounds_of(xp, n=16)
    state = xp.freeze(assign(xp.asarray(rng.normal(size=(8, 3))), bounds, steps=steps).state)
    before = [to_numpy(a) for a in (*state.duals, *state.start, state.counts)]
    scores = rng.normal(size=(8, 3))
    scores[row, column] = scores[7, 2] = bad
    text = message_of(InvalidValueError, assign, xp.asarray(scores), bounds, state, steps=steps)
    assert text == (
        f"scores must be finite, got {bad} in row {row}, column {column}. "
        "To fix this, check the features and centers behind that row"
    )
    after = [to_numpy(a) for a in (*state.duals, *state.start, state.counts)]
    for a, b in zip(before, after, strict=True):
        np.testing.assert_array_equal(a, b)


def test_more_samples_than_the_pass_has_are_refused(xp):
    bounds = bounds_of(xp)
    text = message_of(InvalidValueError, assign, xp.asarray(np.zeros((9, 3))), bounds)
    assert text == (
        "scores has 9 rows, but only 8 of n_samples=8 are left in this pass. "
        "To fix this, start a new pass with next_pass(state)"
    )
    state = assign(xp.asarray(np.zeros((5, 3))), bounds).state
    text = message_of(InvalidValueError, assign, xp.asarray(np.zeros((4, 3))), bounds, state)
    assert text == (
        "scores has 4 rows, but only 3 of n_samples=8 are left in this pass. "
        "To fix this, start a new pass with next_pass(state)"
    )


@pytest.mark.parametrize("dtype", ["int64", "bool", "complex128"])
def test_scores_that_are_not_real_are_refused(xp, dtype):
    scores = xp.asarray(np.zeros((8, 3)), dtype)
    text = message_of(InvalidTypeError, assign, scores, bounds_of(xp))
    assert is_refusal(text, f"scores must have a real floating dtype, got {scores.dtype}")


@pytest.mark.parametrize(
    ("scores", "bounds"),
    [
        (np.zeros((8, 3), np.float16), SizeBounds.from_ratios(3, n_samples=8, lower=0.5)),
        *(
            (
                torch.zeros((8, 3), dtype=dtype),
                SizeBounds.from_ratios(3, n_samples=8, lower=0.5, xp=torch),
            )
            for dtype in (torch.float16, torch.bfloat16)
        ),
    ],
)
def test_half_precision_is_refused(scores, bounds):
    assert message_of(InvalidValueError, assign, scores, bounds) == (
        f"scores must be float32 or wider, got {scores.dtype}: half precision changes labels. "
        "To fix this, compute the scores in float32"
    )


@pytest.mark.skipif(np.finfo(np.longdouble).bits <= 64, reason="longdouble is float64 here")
def test_scores_wider_than_float64_are_refused(rng):
    scores = rng.normal(size=(8, 3)).astype(np.longdouble)
    text = message_of(
        InvalidValueError, assign, scores, SizeBounds.from_ratios(3, n_samples=8, lower=0.5)
    )
    assert text == (
        f"scores must be float32 or float64, got {scores.dtype}. To fix this, use float64"
    )


@pytest.mark.parametrize("scores", [[[0.0] * 3] * 8, None, "scores"], ids=["list", "None", "text"])
def test_scores_that_are_no_array_are_refused(scores):
    text = message_of(
        InvalidTypeError, assign, scores, SizeBounds.from_ratios(3, n_samples=8, lower=0.5)
    )
    assert text == (
        "scores must be an array of an array-API library (numpy, torch, ...), got "
        f"{type(scores).__name__}. To fix this, convert it, e.g. numpy.asarray(scores)"
    )


def test_two_libraries_are_refused():
    scores = torch.zeros((8, 3))
    bounds = SizeBounds.from_ratios(3, n_samples=8, lower=0.5)
    text = message_of(DeviceMismatchError, assign, scores, bounds)
    wrong = "bounds must be of the same array library as scores, got numpy and torch"
    assert is_refusal(text, wrong)
    there = SizeBounds.from_ratios(3, n_samples=8, lower=0.5, xp=torch)
    text = message_of(DeviceMismatchError, assign, scores, there, init_state(bounds))
    wrong = "state must be of the same array library as scores, got numpy and torch"
    assert is_refusal(text, wrong)


def test_two_devices_are_refused():
    scores = array_api_strict.zeros((8, 3))
    far = array_api_strict.Device("device1")
    bounds = SizeBounds.from_ratios(3, n_samples=8, lower=0.5, xp=array_api_strict, device=far)
    text = message_of(DeviceMismatchError, assign, scores, bounds)
    places = f"{far} and {scores.device}"
    assert is_refusal(text, f"bounds must be on the device of scores, got {places}")


@pytest.mark.parametrize("k", [1, 2, 4])
def test_a_state_of_another_number_of_clusters_is_refused(xp, k):
    other = init_state(bounds_of(xp, k, lower=0.0))
    message_of(InvalidValueError, assign, xp.asarray(np.zeros((8, 3))), bounds_of(xp), other)


def test_masked_arrays_are_refused():
    masked = np.ma.masked_array(np.zeros((8, 3)), mask=np.eye(8, 3, dtype=bool))
    with pytest.raises((InvalidTypeError, InvalidValueError)):
        assign(masked, SizeBounds.from_ratios(3, n_samples=8, lower=0.5))


def test_scores_on_disk_give_the_labels_of_scores_in_memory(rng, tmp_path):
    scores = rng.normal(size=(8, 3))
    np.save(tmp_path / "scores.npy", scores)
    bounds = SizeBounds.from_ratios(3, n_samples=8, lower=0.5)
    on_disk = np.load(tmp_path / "scores.npy", mmap_mode="r")
    assert_equal(assign(on_disk, bounds).labels, assign(scores, bounds).labels)


def test_scores_that_carry_a_gradient_give_labels_without_one(rng):
    scores = torch.from_numpy(rng.normal(size=(8, 3))).requires_grad_()
    bounds = SizeBounds.from_ratios(3, n_samples=8, lower=0.5, xp=torch)
    for mode in ("auto", "reference"):
        with engine(mode):
            labels, state = assign(scores, bounds)
        plain = assign(scores.detach(), bounds)
        assert_equal(labels, plain.labels)
        for dual, expected in zip(state.duals, plain.state.duals, strict=True):
            assert not dual.requires_grad
            assert_equal(dual, expected)


def test_a_stream_takes_any_number_of_samples(xp, rng):
    bounds = xp.freeze(SizeBounds.for_stream(3, xp=xp.namespace, device=xp.device))
    state = None
    for _ in range(5):
        state = assign(xp.asarray(rng.normal(size=(8, 3))), bounds, state).state
    assert state.seen == 40


def test_bounds_that_leave_no_choice_are_kept_at_any_scores(xp):
    bounds = xp.freeze(
        SizeBounds.from_counts([2, 0, 6], [2, 0, 6], n_samples=8, xp=xp.namespace, device=xp.device)
    )
    for scores in (np.zeros((8, 3)), np.eye(8, 3) * 1e300, -np.eye(8, 3) * 1e300):
        state = assign(xp.asarray(scores), bounds, steps=StepRule(1.0, 3)).state
        assert to_numpy(state.counts).tolist() == [2, 0, 6]
