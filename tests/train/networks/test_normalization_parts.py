"""Batch normalization: which kernel runs, where its groups lie, and the smallest whole batch."""

import pytest
import torch
from torch import nn

from dualclust.common.ranks import ALONE
from dualclust.train.networks import normalization
from dualclust.train.networks.normalization import BatchNorm, full_precision, groups, synchronize
from tests.thread_ranks import on_threads


def test_one_process_takes_the_plain_kernel(monkeypatch):
    def never(*_):
        pytest.fail("one process needs no exchange")

    monkeypatch.setattr(normalization, "_synchronized", never)
    layer = BatchNorm(3)
    synchronize(layer, ALONE)
    with groups(layer, 2):
        assert layer(torch.randn(8, 3)).shape == (8, 3)


def test_groups_lie_where_they_lay_before():
    """A recorded step goes on writing there."""
    layer = BatchNorm(3)
    places = []
    for _ in range(2):
        with groups(layer, 2):
            layer(torch.randn(8, 3))
        places.append((layer.group_mean.data_ptr(), layer.group_var.data_ptr()))
        assert layer.group_mean.shape == layer.group_var.shape == (2, 3)
        layer.merge_groups()
        assert len(layer.group_mean) == len(layer.group_var) == 0
    assert places[0] == places[1]


def test_groups_take_the_precision_that_a_layer_gets_later():
    layer = BatchNorm(3)
    with groups(layer, 2):
        layer(torch.randn(8, 3))
    layer.merge_groups()
    layer.double()
    x = 3 + torch.randn(8, 3, dtype=torch.float64)
    before = layer.running_mean.clone()
    with groups(layer, 2):
        layer(x)
    assert layer.group_mean.dtype == layer.group_var.dtype == torch.float64
    layer.merge_groups()
    torch.testing.assert_close(layer.running_mean, 0.81 * before + 0.19 * x.mean(0))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_two_ranks_of_one_row_each(dtype):
    """Rows 1 and 3: mean 2, variance 1, of which the unbiased one, 2, is averaged."""

    def work(ranks):
        layer = BatchNorm(1, affine=False)
        synchronize(layer, ranks)
        x = torch.full((1, 1), 1.0 + 2.0 * ranks.rank, dtype=dtype)
        return layer(x), layer.group_mean.item(), layer.group_var.item()

    for rank, (out, mean, var) in enumerate(on_threads(2, work)):
        assert out.dtype == dtype
        assert out.item() == pytest.approx(2.0 * rank - 1.0, abs=1e-2)
        assert mean == pytest.approx(0.2)
        assert var == pytest.approx(1.1)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_widened_and_nothing_else(dtype):
    x = torch.randn(5).to(dtype)
    assert full_precision(x).dtype == torch.float32
    assert torch.equal(full_precision(x).to(dtype), x)
    for wide in (torch.float32, torch.float64):
        y = torch.randn(5, dtype=wide)
        assert full_precision(y) is y


def test_a_layer_says_what_it_is():
    assert repr(BatchNorm(3, eps=1e-3)) == "BatchNorm(3, eps=0.001, momentum=0.1)"


def test_other_layers_are_left_alone():
    layers = nn.Sequential(BatchNorm(2), nn.BatchNorm2d(2))
    with groups(layers, 3):
        assert layers[0].groups == 3
        assert not hasattr(layers[1], "groups")
