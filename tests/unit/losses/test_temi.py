"""TEMI's loss against a transcription of the released rules, and at extreme probabilities."""

import numpy as np
import pytest
import torch

from dualclust.algos.losses.temi import self_distillation_loss
from tests.compare import assert_close, to_numpy

H, B, K = 3, 4, 5


def released(students, teachers, marginals, beta):
    """The released loss: a weight from the teachers of all heads, then each head and order.

    Of loaders with one neighbor there are two views, and a student is never compared with the
    teacher of its own view.
    """
    weight = np.zeros(B)
    for head in range(H):
        weight += (teachers[0, head] * teachers[1, head]).sum(axis=1)
    weight /= H
    losses = np.zeros((H, B))
    for head in range(H):
        for w in range(2):
            for v in range(2):
                if v != w:
                    both = (students[v, head] * teachers[w, head]) ** beta
                    losses[head] -= weight * np.log((both / marginals[head]).sum(axis=1)) / 2
    return losses


@pytest.mark.parametrize("beta", [0.6, 1.0])
def test_the_loss_is_the_released_one(xp, beta):
    rng = np.random.default_rng(0)
    students, teachers = rng.dirichlet(np.ones(K), size=(2, 2, H, B))
    marginals = rng.dirichlet(np.ones(K), size=H)
    found = self_distillation_loss(
        xp.asarray(np.log(students)), xp.asarray(np.log(teachers)), xp.asarray(marginals), beta=beta
    )
    assert_close(found, xp.asarray(released(students, teachers, marginals, beta)), rtol=1e-12)


def test_the_gradient_is_that_of_the_released_loss():
    rng = np.random.default_rng(1)
    scores = torch.from_numpy(rng.normal(size=(2, H, B, K))).requires_grad_()
    teachers = torch.from_numpy(rng.dirichlet(np.ones(K), size=(2, H, B)))
    marginals = torch.full((H, K), 1 / K, dtype=torch.float64)
    log_q = scores.log_softmax(-1)
    ours = self_distillation_loss(log_q, teachers.log(), marginals, beta=0.6).sum()
    weight = (teachers[0] * teachers[1]).sum(-1).mean(0)
    q = scores.softmax(-1)
    theirs = sum(
        -0.5 * (weight * ((q[v] * teachers[1 - v]) ** 0.6 * K).sum(-1).log()).sum() for v in (0, 1)
    )
    found, wanted = (torch.autograd.grad(x, scores, retain_graph=True)[0] for x in (ours, theirs))
    torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-12)
    assert ours.item() == pytest.approx(theirs.item())


def test_probabilities_that_underflow_leave_it_finite(xp):
    log_q = np.full((2, H, B, K), -1e4, np.float32)
    log_q[0, ..., 0] = log_q[1, ..., 1] = 0.0  # the two views agree in nothing
    log_q = xp.asarray(log_q)
    found = self_distillation_loss(log_q, log_q, xp.asarray(np.full((H, K), 0.2)), beta=0.6)
    assert np.isfinite(to_numpy(found)).all()
