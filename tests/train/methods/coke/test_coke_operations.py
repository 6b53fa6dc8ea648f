"""What a step of CoKe asks of the device: as many operations for ten heads as for two, no wait."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from tests.train.coke_methods import AVERAGED, MULTI, PREDICTOR, draw_images, make
from tests.train.methods.secu.test_secu_operations import Operations

TWO, TEN = (10, 20), tuple(range(10, 110, 10))
CASES = {
    "one view": ["coke.views=one"],
    "averages": AVERAGED,
    "two views, predictor": PREDICTOR,
    "multi-crop": MULTI,
    "published": ["assignment.steps=coke-cifar"],
    "centers once an epoch": ["coke.centers=epoch"],
}


def operations(method, epoch, b=12):
    """Operations of the forward and of the backward pass of a step."""
    method.begin_epoch(epoch)
    views = draw_images(method, b)
    with Operations() as forward:
        loss = method.step(torch.arange(b), views)
    with Operations() as backward:
        loss.backward()
    return forward, backward


@pytest.mark.parametrize("changes", CASES.values(), ids=CASES)
@pytest.mark.parametrize("epoch", [0, 1, 3])
def test_ten_heads_take_as_many_operations_as_two(epoch, changes):
    methods = [make(heads, 50_000, changes) for heads in (TWO, TEN)]
    assert all(method.capturable for method in methods)
    few, many = (operations(method, epoch) for method in methods)
    for a, b in zip(few, many, strict=True):
        assert a.counts == b.counts
        assert a.waiting == set()


@pytest.mark.parametrize("changes", CASES.values(), ids=CASES)
@pytest.mark.parametrize("epoch", [0, 1, 3])
def test_a_step_runs_on_tensors_without_values(epoch, changes):
    method = make(TEN, 1000, changes)
    method.begin_epoch(epoch)
    with FakeTensorMode(allow_non_fake_inputs=True):
        views = tuple(torch.randn(4, 1, 8, 8) for _ in method.views)
        loss = method.step(torch.arange(4), views)
    assert loss.shape == ()
