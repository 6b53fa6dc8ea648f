"""Gradients of the losses against the printed formulas, by hand and by finite differences."""

import numpy as np
import pytest
import torch

from dualclust.algos.losses.cross_entropy import log_softmax, soft_cross_entropy
from dualclust.algos.losses.secu import center_loss, mixed_targets
from tests.problems import unit_rows
from tests.unit.loss_loops import PAD, TEMPERATURES, loop_log_softmax, loop_targets, problem


def leaf(array):
    return torch.tensor(array, dtype=torch.float64, requires_grad=True)


@pytest.mark.parametrize("temperature", [0.05, 1.0, 1e3])
def test_gradients_match_finite_differences(temperature):
    scores, labels, targets = problem((2, 4, 3))
    y = torch.from_numpy(labels)
    s, t = leaf(scores), leaf(targets)
    frozen = s.detach() + 0.1
    tol = {"eps": 1e-6 * min(temperature, 1.0), "atol": 1e-4 / min(temperature, 1.0)}
    assert torch.autograd.gradcheck(lambda s: log_softmax(s, temperature=temperature), (s,), **tol)
    assert torch.autograd.gradcheck(
        lambda s, t: soft_cross_entropy(s, t, temperature=temperature), (s, t), **tol
    )
    assert torch.autograd.gradcheck(
        lambda s: center_loss(s, frozen, y, temperature=temperature), (s,), **tol
    )


def test_finite_differences_can_tell_a_wrong_gradient():
    s = leaf(problem((3, 3))[0])

    def wrong(s):
        return log_softmax(s + 0.01 * s.detach(), temperature=1.0)

    assert not torch.autograd.gradcheck(wrong, (s,), raise_exception=False)


@pytest.mark.parametrize("temperature", TEMPERATURES)
def test_the_gradient_of_the_center_loss_is_the_printed_one(temperature):
    scores, labels, _ = problem((2, 5, 4))
    s, y = leaf(scores), torch.from_numpy(labels)
    center_loss(s, s.detach(), y, temperature=temperature).sum().backward()
    p = np.exp(loop_log_softmax(scores, temperature))
    own = np.eye(4, dtype=bool)[labels]
    expected = np.where(own, -(1.0 - p) / temperature, 0.0)
    # 1 - p is known to an absolute eps only.
    np.testing.assert_allclose(
        s.grad.numpy(), expected, rtol=1e-9, atol=1e-14 / temperature, strict=True
    )
    assert (s.grad.numpy()[~own] == 0).all()


def test_the_gradient_of_the_representation_loss_is_p_minus_target():
    scores, labels, _ = problem((2, 5, 4))
    s = leaf(scores)
    t = mixed_targets(torch.from_numpy(labels), s.detach().flip(0), temperature=0.1, tau=0.2)
    soft_cross_entropy(s, t, temperature=0.1).sum().backward()
    p = np.exp(loop_log_softmax(scores, 0.1))
    expected = (p - loop_targets(labels, scores[::-1], 0.1, 0.2)) / 0.1
    np.testing.assert_allclose(s.grad.numpy(), expected, rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("temperature", TEMPERATURES)
def test_padded_columns_have_no_gradient_and_no_nan(temperature, dtype):
    scores, labels, _ = problem((3, 6, 4))
    padded = np.concatenate([scores, np.full((3, 6, 2), PAD)], axis=-1)
    s = torch.tensor(padded, dtype=dtype, requires_grad=True)
    y = torch.from_numpy(labels)
    targets = mixed_targets(y, s.detach().flip(0), temperature=temperature, tau=0.2)
    loss = soft_cross_entropy(s, targets, temperature=temperature)
    loss = loss + center_loss(s, s.detach(), y, temperature=temperature)
    loss.sum().backward()
    assert bool(loss.isfinite().all())
    assert bool(s.grad.isfinite().all())
    if temperature <= 1:
        assert (s.grad[..., 4:] == 0).all()
        assert (s.grad[..., :4] != 0).any()


def test_tied_scores_have_the_right_gradient():
    s = leaf(np.zeros((2, 3)))
    log_softmax(s, temperature=0.5)[:, 0].sum().backward()
    np.testing.assert_allclose(s.grad.numpy(), [[4 / 3, -2 / 3, -2 / 3]] * 2, rtol=1e-14)


def test_one_cluster_has_neither_loss_nor_gradient():
    s = leaf([[0.3], [-0.7]])
    y = torch.zeros(2, dtype=torch.int64)
    loss = center_loss(s, s.detach(), y, temperature=0.05)
    loss = loss + soft_cross_entropy(s, torch.ones(2, 1).double(), temperature=0.05)
    loss.sum().backward()
    assert loss.tolist() == [0.0, 0.0]
    assert s.grad.abs().max() == 0


def test_a_frozen_input_gets_no_gradient_in_the_own_column():
    scores, labels, _ = problem((5, 4))
    s, frozen = torch.tensor(scores), leaf(scores)
    center_loss(s, frozen, torch.from_numpy(labels), temperature=0.1).sum().backward()
    assert (frozen.grad[torch.arange(5), torch.from_numpy(labels)] == 0).all()


def test_the_printed_gradient_of_a_center_omits_a_factor():
    """Claim S3d: on the sphere the gradient is sum(1 - p) / lambda times the printed one."""
    rng = np.random.default_rng(1)
    x, w = unit_rows(rng.normal(size=(8, 3))), unit_rows(rng.normal(size=(4, 3)))
    y, temperature = torch.zeros(8, dtype=torch.int64), 0.3
    centers = leaf(w)
    scores = torch.from_numpy(x) @ centers.T
    center_loss(scores, scores.detach(), y, temperature=temperature).sum().backward()
    hard = 1.0 - np.exp(loop_log_softmax(x @ w.T, temperature))[:, 0]
    printed = w[0] - (hard[:, None] * x).sum(axis=0) / hard.sum()
    tangent = np.eye(3) - np.outer(w[0], w[0])
    true = tangent @ centers.grad.numpy()[0]
    np.testing.assert_allclose(true, hard.sum() / temperature * (tangent @ printed), rtol=1e-9)
    assert not np.allclose(true, tangent @ printed, rtol=0.5)
    assert (centers.grad.numpy()[1:] == 0).all()
