"""The loss on the few labels that weak supervision asks for, against its definition."""

import math

import pytest
import torch

from dualclust.train.methods.mi_margin._seeds import seed_loss

SCORES = [[0.0, 0.0], [math.log(3.0), 0.0], [0.0, math.log(7.0)]]


def test_it_is_the_mean_over_the_seeds_alone():
    scores = torch.tensor(SCORES, dtype=torch.float64)
    found = seed_loss(scores, torch.tensor([-1, 0, 0]))
    assert found.item() == pytest.approx((math.log(4.0 / 3.0) + math.log(8.0)) / 2)
    assert seed_loss(scores, torch.tensor([-1, 1, -1])).item() == pytest.approx(math.log(4.0))


def test_a_batch_without_a_seed_has_no_loss_and_moves_nothing():
    """With a share of 1 in 1,000 most batches have none: 0 over 0 would end the run."""
    scores = torch.tensor(SCORES, requires_grad=True)
    loss = seed_loss(scores, torch.tensor([-1, -1, -1]))
    assert loss.item() == 0.0
    loss.backward()
    assert torch.equal(scores.grad, torch.zeros(3, 2))
