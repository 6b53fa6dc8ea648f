"""IIC's information of a joint distribution, against loops and known distributions."""

import math

import numpy as np
import pytest
import torch

from dualclust.algos.core.errors import InvalidTypeError, InvalidValueError
from dualclust.algos.losses.information.joint import (
    information_of_joint,
    joint_distribution,
    joint_information_loss,
)
from tests.compare import assert_close, assert_equal, to_numpy

TEMPERATURES = [1e-3, 0.05, 1.0, 1e3]
TOLERANCE = {"float32": 5e-5, "float64": 1e-12}
SHAPES = [(1, 1), (1, 3), (6, 4), (2, 3, 5, 3)]


def loop_softmax(row, temperature):
    logits = [float(s) / temperature for s in row]
    top = max(logits)
    z = math.fsum(math.exp(v - top) for v in logits)
    return [math.exp(v - top) / z for v in logits]


def loop_joint(a, b, temperature):
    """Joint of one batch, symmetric."""
    n, k = a.shape
    p, q = ([loop_softmax(row, temperature) for row in s] for s in (a, b))
    raw = [[math.fsum(p[i][c] * q[i][d] for i in range(n)) / n for d in range(k)] for c in range(k)]
    return np.array([[0.5 * (raw[c][d] + raw[d][c]) for d in range(k)] for c in range(k)])


def loop_information(joint, weight=1.0):
    rows, columns = joint.sum(axis=1), joint.sum(axis=0)
    return math.fsum(
        p * (math.log(p) - weight * math.log(rows[c]) - weight * math.log(columns[d]))
        for (c, d), p in np.ndenumerate(joint)
        if p > 0
    )


def problem(shape=(6, 4), seed=0):
    rng = np.random.default_rng(seed)
    scores = rng.uniform(-1.0, 1.0, shape)
    return scores, scores + 0.3 * rng.normal(size=shape)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("temperature", TEMPERATURES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_losses_are_the_loops(xp, shape, temperature, dtype):
    a, b = (v.astype(dtype) for v in problem(shape))
    s, t, tol = xp.asarray(a), xp.asarray(b), TOLERANCE[dtype]
    joint = np.empty((*shape[:-2], shape[-1], shape[-1]))
    for at in np.ndindex(shape[:-2]):
        joint[at] = loop_joint(a[at], b[at], temperature)
    found = joint_distribution(s, t, temperature=temperature)
    assert_close(found, xp.asarray(joint), rtol=tol, atol=tol)
    for weight in (1.0, 1.5):
        expected = np.empty(shape[:-2])
        for at in np.ndindex(shape[:-2]):
            expected[at] = loop_information(joint[at], weight)
        loss = joint_information_loss(s, t, temperature=temperature, entropy_weight=weight)
        assert_close(loss, xp.asarray(-expected, dtype), rtol=tol, atol=tol)
        value = information_of_joint(xp.asarray(joint, dtype), entropy_weight=weight)
        assert_close(value, xp.asarray(expected, dtype), rtol=tol, atol=tol)


def test_joints_by_hand(xp):
    independent = np.outer([0.25, 0.75], [0.5, 0.3, 0.2])
    permuted = np.eye(4)[[2, 0, 3, 1]] / 4
    coin = np.array([[0.4, 0.1], [0.1, 0.4]])  # a channel with error 0.2
    noise = -0.2 * math.log(0.2) - 0.8 * math.log(0.8)
    for joint, expected in (
        (independent, 0.0),
        (permuted, math.log(4.0)),
        (coin, math.log(2.0) - noise),
        (np.diag([1.0, 0.0]), 0.0),
    ):
        found = information_of_joint(xp.asarray(joint))
        assert_close(found, xp.asarray(np.array(expected)), rtol=1e-13, atol=1e-15)


def test_the_printed_logarithm_fails_at_an_empty_cell():
    joint = torch.diag(torch.tensor([0.5, 0.5], dtype=torch.float64)).requires_grad_()
    rows, columns = joint.sum(dim=1, keepdim=True), joint.sum(dim=0, keepdim=True)
    printed = (joint * (joint / (rows * columns)).log()).sum()
    assert bool(printed.isnan())
    ours = information_of_joint(joint)
    ours.backward()
    np.testing.assert_allclose(ours.item(), math.log(2.0))
    assert bool(joint.grad.isfinite().all())


def test_agreement_certainty_and_evenness_are_each_needed(xp):
    even, collapsed = 1e3 * np.eye(3)[[0, 1, 2]], 1e3 * np.eye(3)[[1, 1, 1]]
    soft, other = np.zeros((3, 3)), 1e3 * np.eye(3)[[0, 1, 1]]

    def loss(a, b):
        return float(joint_information_loss(xp.asarray(a), xp.asarray(b)))

    np.testing.assert_allclose(loss(even, even), -math.log(3.0), rtol=1e-12)
    assert loss(even, even) < loss(even, other) - 0.1
    np.testing.assert_allclose([loss(collapsed, collapsed), loss(soft, soft)], 0.0, atol=1e-12)


def test_one_sample_carries_no_information(xp):
    a, _ = problem((1, 4))
    s = xp.asarray(a)
    assert abs(float(joint_information_loss(s, s))) < 1e-14


def test_the_order_of_views_does_not_matter(xp):
    a, b = (xp.asarray(v) for v in problem())
    assert_close(joint_distribution(a, b), joint_distribution(b, a))
    assert_close(joint_information_loss(a, b), joint_information_loss(b, a), rtol=1e-12)


@pytest.mark.parametrize("temperature", [0.05, 1.0, 1e3])
def test_gradients_match_finite_differences(temperature):
    s, t = (torch.tensor(v, requires_grad=True) for v in problem((4, 3)))
    tol = {"eps": 1e-6 * min(temperature, 1.0), "atol": 1e-4 / min(temperature, 1.0)}
    for weight in (1.0, 1.5):
        assert torch.autograd.gradcheck(
            lambda s, t, w=weight: joint_information_loss(
                s, t, temperature=temperature, entropy_weight=w
            ),
            (s, t),
            **tol,
        )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("temperature", [1e-3, 1e-2, 1.0, 1e3])
def test_values_and_gradients_are_finite(temperature, dtype):
    s, t = (torch.tensor(v, dtype=dtype, requires_grad=True) for v in problem())
    loss = joint_information_loss(s, t, temperature=temperature)
    loss.backward()
    assert loss.dtype == dtype
    assert bool(loss.isfinite())
    assert bool(s.grad.isfinite().all() and t.grad.isfinite().all())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_more(dtype):
    s, t = (torch.from_numpy(v).to(dtype) for v in problem())
    found = joint_information_loss(s, t, temperature=0.05)
    assert found.dtype == torch.float32
    assert_equal(found, joint_information_loss(s.float(), t.float(), temperature=0.05))


def test_autocast_changes_no_bit_though_it_lowers_products():
    p = torch.softmax(torch.from_numpy(problem((64, 4))[0]).float(), dim=-1)
    s, t = (torch.from_numpy(v).float().requires_grad_() for v in problem((64, 4)))
    outside = joint_information_loss(s, t, temperature=0.1)
    (gradient,) = torch.autograd.grad(outside, s)
    with torch.autocast("cpu", torch.bfloat16):
        assert (p.T @ p).dtype == torch.bfloat16  # what the joint must not be
        inside = joint_information_loss(s, t, temperature=0.1)
        (found,) = torch.autograd.grad(inside, s)
    assert_equal(inside, outside)
    assert_equal(found, gradient)


def test_what_does_not_fit_is_refused(xp):
    s, t = (xp.asarray(v) for v in problem())
    with pytest.raises(InvalidValueError, match=r"other_scores must have shape \(6, 4\)"):
        joint_distribution(s, t[:5, :])
    for wrong in (s[0, :], s[:0, :]):
        with pytest.raises(InvalidValueError, match=r"scores must have shape \(..., b, k\)"):
            joint_information_loss(wrong, wrong)
    with pytest.raises(InvalidValueError, match=r"joint must have shape \(..., k, m\)"):
        information_of_joint(s[0, :])
    with pytest.raises(InvalidValueError, match=r"entropy_weight must lie in \[0, 1e\+30\]"):
        information_of_joint(s, entropy_weight=-1.0)
    with pytest.raises(InvalidTypeError, match="must have a real floating dtype"):
        joint_distribution(s, xp.asarray([[1, 2]]))


def test_the_joint_is_a_distribution(xp):
    joint = to_numpy(joint_distribution(*(xp.asarray(v, "float32") for v in problem())))
    assert joint.dtype == np.float64
    np.testing.assert_array_equal(joint, joint.T)
    np.testing.assert_allclose(joint.sum(), 1.0, rtol=1e-6)
