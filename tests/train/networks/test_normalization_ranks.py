"""Batch normalization of a batch that ranks share: one process's, with all its gradients."""

import copy

import pytest
import torch
from torch import nn

from dualclust.train.networks.normalization import BatchNorm, groups, synchronize
from tests.thread_ranks import on_threads

N, C = 7, 3


def layer_of(affine, dtype):
    layer = BatchNorm(C, eps=1e-2, momentum=0.3, affine=affine).to(dtype)
    if affine:
        with torch.no_grad():
            layer.weight.copy_(torch.tensor([0.5, -1.0, 2.0]))
            layer.bias.copy_(torch.tensor([1.0, 0.0, -3.0]))
    return layer


def passed(layer, x, weight):
    """Output, gradients of the rows and of the parameters, running statistics of one pass."""
    x = x.clone().requires_grad_()
    out = layer(x)
    (out * weight).sum().backward()
    grads = [p.grad for p in layer.parameters()]
    return out.detach(), x.grad, grads, layer.group_mean[0], layer.group_var[0]


@pytest.mark.parametrize("world", [2, 3])
@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("shape", [(N, C), (N, C, 2, 4)], ids=str)
def test_ranks_are_one_process(shape, affine, world):
    draws = torch.Generator().manual_seed(3)
    x = 5 + torch.arange(C).double().view(-1, *[1] * (len(shape) - 2))
    x = x + 2 * torch.randn(shape, generator=draws, dtype=torch.float64)
    weight = torch.randn(shape, generator=draws, dtype=torch.float64)
    whole = layer_of(affine, torch.float64)
    out, dx, grads, mean, var = passed(copy.deepcopy(whole), x, weight)
    plain = torch.nn.functional.batch_norm(
        x, None, None, whole.weight, whole.bias, training=True, eps=1e-2
    )
    torch.testing.assert_close(out, plain.detach())

    def work(ranks):
        layer = copy.deepcopy(whole)
        synchronize(layer, ranks)
        part = slice(*ranks.shard(N))
        found = passed(layer, x[part], weight[part])
        torch.testing.assert_close(found[0], out[part])
        torch.testing.assert_close(found[1], dx[part])
        torch.testing.assert_close(found[3], mean)
        torch.testing.assert_close(found[4], var)
        return found[2]

    for expected, *parts in zip(grads, *on_threads(world, work), strict=True):
        torch.testing.assert_close(sum(parts), expected)


def test_views_of_ranks_have_statistics_of_their_own():
    """Rows of two groups are interleaved in each rank's part of the batch."""
    x = torch.randn(6, 2, C, dtype=torch.float64) + torch.tensor([[0.0], [9.0]])
    whole = layer_of(True, torch.float64)
    expected = torch.stack([whole(x[:, v]) for v in range(2)], 1).detach()

    def work(ranks):
        layer = layer_of(True, torch.float64)
        synchronize(layer, ranks)
        part = x[slice(*ranks.shard(6))]
        with groups(layer, 2):
            out = layer(part.flatten(0, 1))
        return out.detach().unflatten(0, (-1, 2)), layer.group_mean

    (a, mean), (b, other) = on_threads(2, work)
    torch.testing.assert_close(torch.cat([a, b]), expected)
    torch.testing.assert_close(mean, (1 - 0.7**2) * x.mean(0))
    assert torch.equal(mean, other)


def test_a_large_mean_costs_no_digits():
    """Squares are taken about each rank's mean: those of 1e5 would leave float32 nothing of 1."""
    x = 1e5 + torch.tensor([[-1.0], [1.0], [-1.0], [1.0]])

    def work(ranks):
        layer = BatchNorm(1, eps=0.0, momentum=1.0)
        synchronize(layer, ranks)
        return layer(x[slice(*ranks.shard(4))]).detach(), layer.group_var.item()

    (a, var), (b, _) = on_threads(2, work)
    assert torch.cat([a, b]).flatten().tolist() == [-1.0, 1.0, -1.0, 1.0]
    assert var == pytest.approx(4 / 3)


def test_all_layers_of_a_module_share_their_ranks():
    module = nn.Sequential(BatchNorm(2), nn.Sequential(nn.ReLU(), BatchNorm(3)))

    def work(ranks):
        mine = copy.deepcopy(module)
        synchronize(mine, ranks)
        return [layer.ranks is ranks for layer in (mine[0], mine[1][1])]

    assert on_threads(2, work) == [[True, True]] * 2
