"""The losses against plain loops: values, dtypes, extreme scores and what is refused."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dualclust.algos.core.errors import InvalidTypeError, InvalidValueError
from dualclust.algos.losses.cross_entropy import log_softmax, soft_cross_entropy
from dualclust.algos.losses.secu import center_loss, mixed_targets
from tests.compare import assert_close, assert_equal, to_numpy
from tests.problems import unit_rows
from tests.unit.loss_loops import (
    PAD,
    TEMPERATURES,
    loop_center_loss,
    loop_cross_entropy,
    loop_log_softmax,
    loop_targets,
    problem,
)

SHAPES = [(1,), (4,), (0, 4), (5, 1), (5, 4), (2, 3, 5, 4)]
DTYPES = ["float32", "float64"]
TOLERANCE = {"float32": 3e-5, "float64": 1e-12}


def near(actual, desired, xp, dtype):
    """Compare with a float64 result of the loops, in the library and dtype of the scores."""
    tol = TOLERANCE[dtype]
    assert_close(actual, xp.asarray(desired, dtype), rtol=tol, atol=tol)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("temperature", TEMPERATURES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_log_softmax_is_the_loop(xp, shape, temperature, dtype):
    scores, *_ = problem(shape)
    found = log_softmax(xp.asarray(scores, dtype), temperature=temperature)
    near(found, loop_log_softmax(np.asarray(scores, dtype), temperature), xp, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("temperature", TEMPERATURES)
@pytest.mark.parametrize("shape", SHAPES[2:], ids=str)
def test_losses_are_the_loops(xp, shape, temperature, dtype):
    scores, labels, targets = problem(shape)
    scores, targets = scores.astype(dtype), targets.astype(dtype)
    s, y, t = xp.asarray(scores), xp.asarray(labels), xp.asarray(targets)
    near(
        soft_cross_entropy(s, t, temperature=temperature),
        loop_cross_entropy(scores, targets, temperature),
        xp,
        dtype,
    )
    near(
        center_loss(s, s, y, temperature=temperature),
        loop_center_loss(scores, labels, temperature),
        xp,
        dtype,
    )
    for tau in (0.0, 0.2, 1.0):
        near(
            mixed_targets(y, s, temperature=temperature, tau=tau),
            loop_targets(labels, scores, temperature, tau),
            xp,
            dtype,
        )


def test_the_own_column_is_live_and_the_others_are_frozen(xp):
    scores, labels, _ = problem((6, 3))
    frozen = scores + 0.5 * np.random.default_rng(1).normal(size=scores.shape)
    mixed = frozen.copy()
    mixed[np.arange(6), labels] = scores[np.arange(6), labels]
    found = center_loss(xp.asarray(scores), xp.asarray(frozen), xp.asarray(labels), temperature=0.3)
    near(found, loop_center_loss(mixed, labels, 0.3), xp, "float64")


def test_targets_are_distributions_and_tau_has_its_two_ends(xp):
    scores, labels, _ = problem((7, 4))
    s, y = xp.asarray(scores), xp.asarray(labels)
    hard = mixed_targets(y, s, temperature=0.1, tau=1.0)
    assert_equal(hard, xp.asarray(np.eye(4)[labels]))
    soft = mixed_targets(y, s, temperature=0.1, tau=0.0)
    assert_equal(soft, xp.namespace.exp(log_softmax(s, temperature=0.1)))
    between = to_numpy(mixed_targets(y, s, temperature=0.1, tau=0.2))
    np.testing.assert_allclose(between.sum(axis=-1), 1.0, rtol=1e-14)
    np.testing.assert_allclose(between, 0.2 * to_numpy(hard) + 0.8 * to_numpy(soft), rtol=1e-14)
    assert (between >= 0).all()


def test_a_hard_target_gives_the_center_loss(xp):
    scores, labels, _ = problem((2, 7, 4))
    s, y = xp.asarray(scores), xp.asarray(labels)
    hard = mixed_targets(y, s, temperature=0.1, tau=1.0)
    soft_loss = soft_cross_entropy(s, hard, temperature=0.1)
    assert_close(center_loss(s, s, y, temperature=0.1), soft_loss)


def test_cross_entropy_is_least_at_its_own_distribution(xp):
    scores, _, targets = problem((9, 5))
    s = xp.asarray(scores)
    own = xp.namespace.exp(log_softmax(s, temperature=0.2))
    entropy = -(to_numpy(own) * np.log(to_numpy(own))).sum(axis=-1)
    np.testing.assert_allclose(
        to_numpy(soft_cross_entropy(s, own, temperature=0.2)), entropy, rtol=1e-13
    )
    other = to_numpy(soft_cross_entropy(s, xp.asarray(targets), temperature=0.2))
    assert (other > -(targets * np.log(targets)).sum(axis=-1)).all()


@pytest.mark.parametrize("temperature", TEMPERATURES)
def test_a_shift_of_a_row_changes_nothing(xp, temperature):
    scores, labels, targets = problem((6, 4))
    scores = np.round(scores * 16) / 16  # so that the shift itself is exact
    shift = np.array([[3.0], [-2.0], [0.5], [100.0], [-64.0], [0.0]])
    y, t = xp.asarray(labels), xp.asarray(targets)
    a, b = xp.asarray(scores), xp.asarray(scores + shift)
    options = {"temperature": temperature}
    tol = {"rtol": 1e-9, "atol": 1e-9 + 1e-13 / temperature}
    assert_close(log_softmax(b, **options), log_softmax(a, **options), **tol)
    assert_close(center_loss(b, b, y, **options), center_loss(a, a, y, **options), **tol)
    assert_close(soft_cross_entropy(b, t, **options), soft_cross_entropy(a, t, **options), **tol)
    targets_a, targets_b = (mixed_targets(y, s, tau=0.3, **options) for s in (a, b))
    assert_close(targets_b, targets_a, **tol)


@given(st.permutations(range(5)), st.permutations(range(4)))
def test_renaming_clusters_and_reordering_samples(xp, rows, columns):
    scores, labels, targets = problem((5, 4))
    place = np.argsort(columns)  # where each cluster went
    moved = scores[rows][:, columns]
    s, y, t = xp.asarray(scores), xp.asarray(labels), xp.asarray(targets)
    s2, y2 = xp.asarray(moved), xp.asarray(place[labels[rows]])
    t2 = xp.asarray(targets[rows][:, columns])
    for before, after in (
        (center_loss(s, s, y, temperature=0.1), center_loss(s2, s2, y2, temperature=0.1)),
        (soft_cross_entropy(s, t, temperature=0.1), soft_cross_entropy(s2, t2, temperature=0.1)),
    ):
        np.testing.assert_allclose(to_numpy(after), to_numpy(before)[rows], rtol=1e-12)
    before = to_numpy(mixed_targets(y, s, temperature=0.1, tau=0.2))
    after = to_numpy(mixed_targets(y2, s2, temperature=0.1, tau=0.2))
    np.testing.assert_allclose(after, before[rows][:, columns], rtol=1e-12)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("temperature", [1e-3, 0.05, 1.0, 10.0])
def test_padded_columns_change_no_value(xp, temperature, dtype):
    scores, labels, _ = problem((3, 6, 4))
    scores = scores.astype(dtype)
    padded = np.concatenate([scores, np.full((3, 6, 2), PAD, dtype)], axis=-1)
    a, b, y = xp.asarray(scores), xp.asarray(padded), xp.asarray(labels)
    options = {"temperature": temperature}
    rtol = 4 * float(np.finfo(dtype).eps)
    assert_close(
        center_loss(b, b, y, **options), center_loss(a, a, y, **options), rtol=rtol, atol=rtol
    )
    targets = mixed_targets(y, b, tau=0.2, **options)
    assert (to_numpy(targets)[..., 4:] == 0).all()
    assert_close(
        soft_cross_entropy(b, targets, **options),
        soft_cross_entropy(a, mixed_targets(y, a, tau=0.2, **options), **options),
        rtol=8 * rtol,
        atol=rtol,
    )


def test_padding_is_far_enough_for_temperatures_up_to_90(xp):
    padded = xp.asarray([[1.0, -1.0, PAD]], "float32")
    p = to_numpy(log_softmax(padded, temperature=90.0))
    assert p[0, 2] < -103.9  # exp of it is 0 in float32


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_half_precision_is_computed_in_float32(name):
    scores, labels, targets = problem((6, 4))
    half = torch.from_numpy(scores).to(getattr(torch, name))
    full, y = half.float(), torch.from_numpy(labels)
    t = torch.from_numpy(targets).float()
    pairs = [
        (log_softmax(half, temperature=0.05), log_softmax(full, temperature=0.05)),
        (
            mixed_targets(y, half, temperature=0.05, tau=0.2),
            mixed_targets(y, full, temperature=0.05, tau=0.2),
        ),
        (
            center_loss(half, half, y, temperature=0.05),
            center_loss(full, full, y, temperature=0.05),
        ),
        (
            soft_cross_entropy(half, t, temperature=0.05),
            soft_cross_entropy(full, t, temperature=0.05),
        ),
    ]
    for found, expected in pairs:
        assert_equal(found, expected)
        assert found.dtype == torch.float32
    if name == "float16":
        s = scores.astype(np.float16)
        found = log_softmax(s, temperature=0.05)
        assert_equal(found, log_softmax(s.astype(np.float32), temperature=0.05))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64"])
def test_labels_of_any_integer_dtype(xp, dtype):
    scores, labels, _ = problem((6, 4))
    s, y, same = xp.asarray(scores), xp.asarray(labels, dtype), xp.asarray(labels)
    assert_equal(center_loss(s, s, y, temperature=0.1), center_loss(s, s, same, temperature=0.1))
    options = {"temperature": 0.1, "tau": 0.2}
    assert_equal(mixed_targets(y, s, **options), mixed_targets(same, s, **options))


def test_the_printed_second_sum_would_multiply_the_loss_by_the_number_of_clusters(xp):
    """Claim S6: the summand of section 2's objective does not depend on the inner index."""
    scores, labels, _ = problem((5, 4))
    s = xp.asarray(scores)
    ours = to_numpy(center_loss(s, s, xp.asarray(labels), temperature=0.1)).sum()
    rows = loop_center_loss(scores, labels, 0.1)
    printed = math.fsum(rows[i] for i in range(5) for _ in range(4))
    np.testing.assert_allclose(printed, 4 * ours, rtol=1e-12)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("temperature", [1e-3, 1.0, 1e3])
def test_scores_of_any_size_give_finite_log_probabilities(xp, temperature, dtype):
    """As printed, the exponential overflows; the difference of two scores does too."""
    top = float(np.finfo(dtype).max)
    scores = np.asarray([[top, -top, 0.0], [-top, -top, -top], [top, top, -top]], dtype)
    found = to_numpy(log_softmax(xp.asarray(scores), temperature=temperature))
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found[1], -math.log(3.0), rtol=1e-6)
    np.testing.assert_allclose(found[2, :2], -math.log(2.0), rtol=1e-6)
    target = xp.asarray(np.asarray([[0.0, 1.0, 0.0]] * 3, dtype))
    loss = soft_cross_entropy(xp.asarray(scores), target, temperature=temperature)
    assert np.isfinite(to_numpy(loss)).all()
    with np.errstate(all="ignore"):
        e = np.exp(scores / temperature)
        assert np.isnan(np.log(e / e.sum(axis=-1, keepdims=True))[0, 0])


@pytest.mark.parametrize("dtype", DTYPES)
def test_log_probabilities_stop_at_a_quarter_of_the_range(xp, dtype):
    """Where the temperature alone would go further; at 16 nothing has to stop."""
    top = float(np.finfo(dtype).max)
    s = xp.asarray(np.asarray([[top, -top]], dtype))
    for temperature, lowest in ((0.5, top / 4), (1.0, top / 4), (8.0, top / 4), (16.0, top / 8)):
        found = to_numpy(log_softmax(s, temperature=temperature))
        np.testing.assert_allclose(found, [[0.0, -lowest]], rtol=1e-6)


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_least_and_the_largest_temperature_of_a_dtype(xp, dtype):
    """A quarter of it has to be a normal number."""
    info = np.finfo(dtype)
    least, largest = 4.0 * float(info.smallest_normal), float(info.max)
    s = xp.asarray(np.asarray([[0.0, 0.0]], dtype))
    for temperature in (least, largest):
        near(log_softmax(s, temperature=temperature), [[-math.log(2.0)] * 2], xp, dtype)
    with pytest.raises(InvalidValueError, match="temperature must lie in"):
        log_softmax(s, temperature=math.nextafter(least, 0.0))


def test_a_training_step_under_autocast_loses_only_the_digits_of_its_scores():
    rng = np.random.default_rng(0)
    x, w = (torch.from_numpy(unit_rows(rng.normal(size=(n, 8)))).float() for n in (16, 5))
    y = torch.from_numpy(rng.integers(0, 5, 16))
    options = {"temperature": 0.05}
    w.requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        s = x @ w.T
        assert s.dtype == torch.bfloat16
        target = mixed_targets(y, s.detach(), tau=0.2, **options)
        inside = center_loss(s, s.detach(), y, **options), soft_cross_entropy(s, target, **options)
        sum(loss.sum() for loss in inside).backward()
    full = s.detach().float()
    assert_equal(inside[0], center_loss(full, full, y, **options))
    assert_equal(inside[1], soft_cross_entropy(full, target, **options))
    assert bool(w.grad.isfinite().all())


@pytest.mark.parametrize("temperature", [1e-40, 1e39])
def test_a_temperature_must_be_a_number_of_the_dtype(xp, temperature):
    s = xp.asarray([[0.0, 1.0]], "float32")
    with pytest.raises(InvalidValueError, match=r"temperature must lie in .*, the range of"):
        log_softmax(s, temperature=temperature)
    assert_close(
        log_softmax(xp.asarray([[0.0, temperature]]), temperature=temperature),
        log_softmax(xp.asarray([[0.0, 1.0]]), temperature=1.0),
    )


# What is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize("temperature", [0.0, -0.1, math.nan, -math.inf])
def test_a_temperature_must_be_positive(xp, temperature):
    scores, labels, targets = problem((5, 4))
    s, y, t = xp.asarray(scores), xp.asarray(labels), xp.asarray(targets)
    for call in (
        lambda: log_softmax(s, temperature=temperature),
        lambda: mixed_targets(y, s, temperature=temperature, tau=0.2),
        lambda: soft_cross_entropy(s, t, temperature=temperature),
        lambda: center_loss(s, s, y, temperature=temperature),
    ):
        with pytest.raises(InvalidValueError, match=r"temperature must lie in \(0, inf\)"):
            call()


@pytest.mark.parametrize("tau", [-0.1, 1.1, math.nan])
def test_tau_must_be_a_share(xp, tau):
    scores, labels, _ = problem((5, 4))
    with pytest.raises(InvalidValueError, match=r"tau must lie in \[0, 1\]"):
        mixed_targets(xp.asarray(labels), xp.asarray(scores), temperature=1.0, tau=tau)


def test_shapes_must_agree(xp):
    scores, labels, targets = problem((5, 4))
    s, y = xp.asarray(scores), xp.asarray(labels)
    with pytest.raises(InvalidValueError, match=r"targets must have shape \(5, 4\), got \(5, 3\)"):
        soft_cross_entropy(s, xp.asarray(targets[:, :3]), temperature=1.0)
    with pytest.raises(InvalidValueError, match=r"frozen_scores must have shape \(5, 4\)"):
        center_loss(s, xp.asarray(scores[:1]), y, temperature=1.0)


def test_scores_must_be_real_arrays(xp):
    y = xp.asarray([0, 1])
    whole = xp.asarray([[1, 2], [3, 4]])
    for call in (
        lambda s: log_softmax(s),
        lambda s: mixed_targets(y, s, temperature=1.0, tau=0.5),
        lambda s: soft_cross_entropy(s, s, temperature=1.0),
        lambda s: center_loss(s, s, y, temperature=1.0),
    ):
        with pytest.raises(InvalidTypeError, match="must have a real floating dtype"):
            call(whole)
        with pytest.raises(InvalidTypeError, match="got list"):
            call([[1.0, 2.0]])
