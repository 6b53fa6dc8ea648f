"""Pairwise relations and their loss against plain loops; blocks against the whole."""

import math
import tracemalloc

import numpy as np
import pytest
import torch

from dualclust.algos.core.errors import DeviceMismatchError, InvalidTypeError, InvalidValueError
from dualclust.algos.losses.gatcluster.relations import (
    relation_error,
    relation_gradient,
    relation_loss,
    relation_matrix,
    usable_labels,
)
from tests.compare import assert_close, assert_equal, to_numpy
from tests.refusals import is_refusal, message_of

FLOORS = [1e-12, 1e-5, 0.2]
SHAPES = [(1, 1), (1, 3), (5, 1), (2, 2), (7, 4), (16, 10)]


def softmax(x):
    e = np.exp(np.asarray(x, np.float64) - np.max(x, axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def cosine(a, b):
    """As printed below Eq. 7."""
    dot = math.fsum(p * q for p, q in zip(a, b, strict=True))
    return dot / math.sqrt(math.fsum(p * p for p in a) * math.fsum(q * q for q in b))


def loop_loss(logits, labels, floor):
    """Mean over the lower triangle and the diagonal, pair by pair."""
    features = softmax(logits)
    costs = []
    for i in range(len(labels)):
        for j in range(i + 1):
            d = min(cosine(features[i], features[j]), 1.0)
            q = d if labels[i] == labels[j] else 1.0 - d
            costs.append(-math.log(floor + (1.0 - 2.0 * floor) * q))
    return math.fsum(costs) / len(costs)


def loop_error(logits, labels):
    features, total = softmax(logits), 0.0
    for i in range(len(labels)):
        for j in range(len(labels)):
            total += (float(labels[i] == labels[j]) - cosine(features[i], features[j])) ** 2
    return total / len(labels) ** 2


def printed_loss(features, relations):
    """Eq. 7 without any guard."""
    with np.errstate(all="ignore"):
        norms = np.linalg.norm(features, axis=1)
        d = features @ features.T / np.outer(norms, norms)
        return -relations * np.log(d) - (1 - relations) * np.log(1 - d)


def problem(shape=(7, 4), seed=0, scale=1.0):
    rng = np.random.default_rng(seed)
    return scale * rng.normal(size=shape), rng.integers(0, shape[1], size=shape[0])


# Relations -------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64"])
def test_relations_are_those_of_the_labels(xp, dtype):
    labels = np.array([3, 0, 3, 7, 0], dtype)
    r = relation_matrix(xp.asarray(labels))
    expected = [[labels[i] == labels[j] for j in range(5)] for i in range(5)]
    assert_equal(r, xp.asarray(expected))
    batch = relation_matrix(xp.asarray(np.stack([labels, labels[::-1]])))
    assert batch.shape == (2, 5, 5)
    assert_equal(batch[0, ...], r)
    assert relation_matrix(xp.asarray(np.zeros(0, np.int64))).shape == (0, 0)


@pytest.mark.parametrize(
    ("labels", "k", "share", "kept"),
    [
        ([0, 1, 1, 0], 2, 0.1, True),
        ([1, 1, 1, 1], 2, 0.1, False),  # a cluster is missing
        ([1, 1, 1, 1], 2, 0.0, True),
        ([0] + [1] * 19, 2, 0.1, True),  # 1 of 20, and 0.1 * 20 / 2 = 1
        ([0] + [1] * 29, 2, 0.1, False),  # 1 of 30, below 1.5
        ([0, 0, 1], 1, 0.1, True),
    ],
)
def test_degenerate_clusterings_relate_nobody(xp, labels, k, share, kept):
    y = xp.asarray(labels)
    found = usable_labels(y, k, min_share=share)
    assert_equal(found, y if kept else xp.asarray(np.arange(len(labels))))


def test_labels_of_a_narrow_type_are_enough_for_many_samples(xp):
    labels = xp.asarray(np.zeros(1000, np.uint8))
    assert_equal(usable_labels(labels, 300), xp.asarray(np.arange(1000)))
    x = xp.asarray(np.zeros((1000, 2)))
    assert float(relation_error(x, labels, 300)) == pytest.approx(0.0, abs=1e-12)


def test_the_guard_of_no_labels(xp):
    assert usable_labels(xp.asarray(np.zeros(0, np.int64)), 3).shape == (0,)


# Values ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("floor", FLOORS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_loss_is_the_loop(xp, shape, floor, dtype):
    logits, labels = problem(shape)
    logits = logits.astype(dtype)
    x, y = xp.asarray(logits), xp.asarray(labels)
    tol = {"rtol": 1e-6 if dtype == "float32" else 1e-9, "atol": 1e-12}
    expected = xp.asarray(np.asarray(loop_loss(logits, labels, floor), dtype))
    assert_close(relation_loss(x, y, floor=floor), expected, **tol)
    for rows in (None, 1, 3, shape[0]):
        value, gradient = relation_gradient(x, y, floor=floor, rows=rows)
        assert_close(value, expected, **tol)
        assert gradient.shape == shape
        assert gradient.dtype == x.dtype


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_closed_form_is_the_sum_over_pairs(xp, shape, dtype):
    logits, labels = problem(shape)
    logits = logits.astype(dtype)
    found = relation_error(xp.asarray(logits), xp.asarray(labels), shape[1])
    expected = xp.asarray(np.asarray(loop_error(logits, labels), dtype))
    assert_close(found, expected, rtol=1e-6 if dtype == "float32" else 1e-12, atol=1e-14)


def test_the_closed_form_is_zero_at_the_optimum_and_only_there(xp):
    labels = np.array([0, 2, 1, 1, 0])
    logits = np.where(np.eye(3)[labels] > 0, 0.0, -1e4)
    assert float(relation_error(xp.asarray(logits), xp.asarray(labels), 3)) == 0.0
    other = np.array([0, 2, 1, 1, 1])
    assert float(relation_error(xp.asarray(logits), xp.asarray(other), 3)) > 0.1


def test_row_and_column_of_the_loss_by_hand(xp):
    # cos((1,1), (1,1)) = 1: a related pair costs -log(1 - f), an unrelated one -log f.
    x = xp.asarray(np.zeros((2, 2)))
    f = 1e-5
    together, apart = (relation_loss(x, xp.asarray(y), floor=f) for y in ([0, 0], [0, 1]))
    assert_close(together, xp.asarray(-math.log1p(-f)), rtol=1e-9)
    assert_close(apart, xp.asarray((-2 * math.log1p(-f) - math.log(f)) / 3), rtol=1e-9)


# What the printed form does --------------------------------------------------------------------


def test_erratum_the_printed_loss_is_nan_at_the_optimum_of_the_theorem(xp):
    labels = np.array([0, 1, 1])
    assert np.isnan(printed_loss(np.eye(2)[labels], np.equal.outer(labels, labels) + 0.0)).any()
    x = xp.asarray(np.where(np.eye(2)[labels] > 0, 0.0, -1e4))
    value = float(relation_loss(x, xp.asarray(labels)))
    assert value == pytest.approx(-math.log1p(-1e-5), rel=1e-9)


def test_erratum_the_printed_loss_has_no_bound_and_the_released_one_has(xp):
    same = np.eye(2)[[0, 0]]
    assert np.isinf(printed_loss(same, np.eye(2))).any()
    released = -math.log(1.0 - 1.0 / (1.0 + 1e-5) ** 2)  # EPS added to each norm
    assert released == pytest.approx(10.82, abs=0.01)
    x, alone = xp.asarray(np.where(same > 0, 0.0, -1e4)), xp.asarray([0, 1])
    f = 1e-5
    worst = float(relation_loss(x, alone, floor=f))
    assert worst == pytest.approx((-2 * math.log1p(-f) - math.log(f)) / 3, rel=1e-9)
    capped = float(relation_loss(x, alone, floor=2e-5)) * 3
    assert capped == pytest.approx(released, abs=1e-3)


def test_erratum_a_clamp_would_leave_the_worst_pairs_without_a_gradient():
    logits, labels = [[9.0, 0.0], [8.9, 0.0]], torch.tensor([0, 1])
    x = torch.tensor(logits, dtype=torch.float64, requires_grad=True)
    y = torch.nn.functional.normalize(torch.softmax(x, 1), dim=1)
    torch.log(torch.clip(1.0 - y[0] @ y[1], min=1e-5)).neg().backward()
    assert x.grad.abs().max() == 0.0
    x.grad = None
    relation_loss(x, labels, floor=1e-5).backward()
    assert x.grad.abs().max() > 1e-6


# Gradients -------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(1, 3), (2, 2), (7, 4)], ids=str)
def test_gradients_match_finite_differences(shape):
    logits, labels = problem(shape)
    x = torch.tensor(logits, requires_grad=True)
    y = torch.from_numpy(labels)
    assert torch.autograd.gradcheck(lambda x: relation_loss(x, y, floor=0.01), (x,))
    assert torch.autograd.gradcheck(lambda x: relation_error(x, y, shape[1]), (x,))


@pytest.mark.parametrize("floor", FLOORS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("scale", [0.1, 1.0, 10.0])
def test_the_gradient_in_blocks_is_that_of_autograd(shape, floor, scale):
    logits, labels = problem(shape, seed=1, scale=scale)
    x, y = torch.tensor(logits, requires_grad=True), torch.from_numpy(labels)
    relation_loss(x, y, floor=floor).backward()
    found = relation_gradient(x.detach(), y, floor=floor, rows=3).gradient
    # At the smallest floor two rows that agree to 1e-8 have slopes of 1e12 on a cosine of 1.
    atol = 1e-12 + 1e-15 / floor
    np.testing.assert_allclose(found.numpy(), x.grad.numpy(), rtol=1e-7, atol=atol)


def test_the_gradient_is_the_same_on_every_library(xp):
    logits, labels = problem((9, 3))
    expected = relation_gradient(torch.from_numpy(logits), torch.from_numpy(labels)).gradient
    found = relation_gradient(xp.asarray(logits), xp.asarray(labels), rows=4).gradient
    np.testing.assert_allclose(to_numpy(found), expected.numpy(), rtol=1e-10, atol=1e-14)


def test_the_surrogate_of_the_docstring_trains_like_the_loss():
    logits, labels = problem((12, 4), seed=2)
    y = torch.from_numpy(labels)
    x = torch.tensor(logits, requires_grad=True)
    relation_loss(x, y).backward()
    direct, x.grad = x.grad, None
    value, gradient = relation_gradient(x.detach(), y, rows=5)
    loss = value + ((x - x.detach()) * gradient).sum()
    loss.backward()
    assert loss.item() == pytest.approx(relation_loss(x, y).item(), rel=1e-12)
    np.testing.assert_allclose(x.grad.numpy(), direct.numpy(), rtol=1e-8, atol=1e-13)


def test_related_pairs_are_pulled_together_and_others_pushed_apart():
    x = torch.tensor([[0.3, 0.0], [0.0, 0.3]], dtype=torch.float64)
    for labels, sign in (([0, 0], -1.0), ([0, 1], 1.0)):
        step = -relation_gradient(x, torch.tensor(labels)).gradient
        assert float(torch.sign(step[0, 0] - step[0, 1])) == sign


# Memory, precision, read-backs -----------------------------------------------------------------


def test_blocks_need_no_array_of_all_pairs():
    n, rows = 2000, 50
    logits, labels = problem((n, 4))
    pairs = 8 * n * n  # bytes
    peaks = []
    for call in (
        lambda: relation_gradient(logits, labels, rows=rows),
        lambda: relation_error(logits, labels, 4),
        lambda: relation_loss(logits, labels),  # so that the check can fail
    ):
        tracemalloc.start()
        call()
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[0] < pairs / 3
    assert peaks[1] < pairs / 50
    assert peaks[2] > pairs


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_half_precision_is_computed_above_it(name):
    logits, labels = problem((8, 4))
    half = torch.from_numpy(logits).to(getattr(torch, name))
    y = torch.from_numpy(labels)
    for call in (
        lambda x: relation_loss(x, y),
        lambda x: relation_error(x, y, 4),
        lambda x: relation_gradient(x, y).value,
        lambda x: relation_gradient(x, y).gradient,
    ):
        assert call(half).dtype == torch.float32
        assert_equal(call(half), call(half.float()))


def test_autocast_changes_nothing():
    logits, labels = problem((40, 10), scale=5.0)
    x, y = torch.from_numpy(logits).float(), torch.from_numpy(labels)
    calls = (
        lambda: relation_loss(x, y),
        lambda: relation_error(x, y, 10),
        lambda: relation_gradient(x, y).gradient,
    )
    plain = [call() for call in calls]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (x @ x.T).dtype == torch.bfloat16  # the trap
        for call, expected in zip(calls, plain, strict=True):
            assert_equal(call(), expected)


def test_nothing_is_read_back():
    # Tensors without values: any float(), bool() or data-dependent shape raises.
    x = torch.zeros(6, 3, device="meta", requires_grad=True)
    y = torch.zeros(6, dtype=torch.int64, device="meta")
    relation_loss(x, usable_labels(y, 3)).backward()
    relation_error(x, y, 3).backward()
    relation_gradient(x.detach(), y, rows=4)
    assert relation_matrix(y).device.type == "meta"


# What is refused -------------------------------------------------------------------------------


def test_arguments_are_checked(xp):
    logits, labels = problem((5, 3))
    x, y = xp.asarray(logits), xp.asarray(labels)
    for call in (
        relation_loss,
        relation_gradient,
        lambda x, y: relation_error(x, y, 3),
    ):
        with pytest.raises(InvalidValueError, match=r"logits must have shape \(n, k\)"):
            call(x[0, :], y)
        with pytest.raises(InvalidValueError, match=r"labels must have shape \(5,\), got \(4,\)"):
            call(x, y[:4])
        with pytest.raises(InvalidTypeError, match="labels must have an integer dtype"):
            call(x, xp.asarray(labels.astype(float)))
        with pytest.raises(InvalidTypeError, match="logits must have a real floating dtype"):
            call(xp.asarray(labels[:, None]), y)
        with pytest.raises(InvalidValueError, match="at least one sample and one cluster"):
            call(x[:0, :], y[:0])
    with pytest.raises(InvalidTypeError, match=r"labels must be an array of .*, got list"):
        relation_matrix([0, 1])
    with pytest.raises(InvalidValueError, match="rows must be at least 1"):
        relation_gradient(x, y, rows=0)
    with pytest.raises(InvalidValueError, match="n_clusters must be at least 1"):
        usable_labels(y, 0)


@pytest.mark.parametrize(
    ("floor", "text"),
    [
        (0.0, "floor must lie in [1e-12, 0.5], got 0.0"),
        (0.5, "floor must be below 1/2, got 0.5: every pair would cost the same"),
        (math.nan, "floor must lie in [1e-12, 0.5], got nan"),
    ],
)
def test_the_floor_must_leave_a_loss(xp, floor, text):
    logits, labels = problem((5, 3))
    told = message_of(
        InvalidValueError, relation_loss, xp.asarray(logits), xp.asarray(labels), floor=floor
    )
    assert is_refusal(told, text)


def test_labels_of_another_library_are_refused():
    with pytest.raises(DeviceMismatchError):
        relation_loss(torch.zeros(3, 2), np.zeros(3, np.int64))
