"""How often views pass a network, what a network is made of, and encoders of one's own."""

from functools import partial

import pytest
import torch
from torch import nn

from dualclust.algos.core.errors import UsageError
from dualclust.train.config.run import NetworkConfig
from dualclust.train.networks.network import build_network, mlp, run_views
from dualclust.train.networks.normalization import BatchNorm, merge_groups

SHAPE = (1, 8, 8)


def build(**values):
    return build_network(NetworkConfig(**({"hidden": 12, "out_dim": 6} | values)), SHAPE)


def passes(network, sizes, **attributes):
    """Rows of each pass of views of these sides."""
    for name, value in attributes.items():
        setattr(network, name, value)
    seen = []
    hook = network.register_forward_pre_hook(lambda _, args: seen.append(len(args[0])))
    views = [torch.randn(4, 1, side, side) for side in sizes]
    found = run_views(network, network, views)
    hook.remove()
    assert len(found) == len(sizes)
    return seen


@pytest.mark.parametrize(
    ("sizes", "rows"), [([8], [4]), ([8, 8], [8]), ([8, 8, 8], [12]), ([8, 6], [4, 4])]
)
def test_views_of_one_size_are_one_pass(sizes, rows):
    network = build(name="resnet18-cifar", width=2)
    assert network.one_pass
    assert passes(network, sizes) == rows
    assert passes(network, sizes, blocks=True) == rows
    assert passes(network, sizes, one_pass=False) == [4] * len(sizes)


def test_channels_last_has_one_pass_with_the_statistics_of_each_view():
    """Rows, gradients and running statistics are those of interleaved views."""
    found = []
    for last in (False, True):
        network = build(name="resnet18-cifar", width=4, hidden=5, last_norm=True).double()
        network.blocks = last
        views = [draw(4, 1, 8, 8) + v for v, draw in enumerate(draws(3))]
        if last:
            network = network.to(memory_format=torch.channels_last)
            views = [view.contiguous(memory_format=torch.channels_last) for view in views]
        for _ in range(2):
            rows = run_views(network, network, views)
        (rows * torch.arange(6)).square().sum().backward()
        assert len(rows) == 3
        merge_groups(network)
        state = dict(network.state_dict())
        grads = {name: p.grad for name, p in network.named_parameters()}
        found.append((rows, state, grads))
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(b, a, rtol=1e-8, atol=1e-10)


def draws(count):
    for seed in range(count):
        generator = torch.Generator().manual_seed(seed)
        yield partial(torch.randn, generator=generator, dtype=torch.float64)


def test_a_module_that_says_nothing_gets_a_pass_for_each_view():
    """It may have a normalization that cannot tell views apart."""
    network = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten())
    assert passes(network, [8, 8]) == [4, 4]


def test_an_encoder_with_torchs_normalization_gets_a_pass_for_each_view():
    own = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten())
    network = build_network(NetworkConfig(hidden=12, out_dim=6), SHAPE, encoder=own)
    assert not network.one_pass
    assert passes(network, [8, 8]) == [4, 4]


@pytest.mark.parametrize("last_norm", [False, True])
def test_an_mlp_is_normalized_between_its_layers(last_norm):
    found = mlp([5, 7, 7, 3], last_norm=last_norm)
    hidden = [nn.Linear, BatchNorm, nn.ReLU]
    end = [nn.Linear, BatchNorm] if last_norm else [nn.Linear]
    assert [type(layer) for layer in found] == [*hidden, *hidden, *end]
    assert [layer.channels for layer in found if type(layer) is BatchNorm] == [7, 7, 3][
        : 2 + last_norm
    ]


def test_projector_and_predictor_end_in_plain_layers_by_default():
    network = build(predictor=9)
    kinds = [nn.Linear, BatchNorm, nn.ReLU, nn.Linear]
    assert [type(layer) for layer in network.predictor] == kinds
    assert [(m.in_features, m.out_features) for m in network.predictor[::3]] == [(6, 9), (9, 6)]
    assert [m.bias is None for m in network.predictor[::3]] == [True, False]
    assert [type(layer) for layer in mlp([4, 5, 6])] == kinds


@pytest.mark.parametrize(
    "name", ["digits-cnn", "mnist-cnn", "vgg4-28", "resnet18", "resnet50-cifar", "gat-digits"]
)
def test_rectifiers_work_in_place(name):
    """Each would else hold a copy of its map until the backward pass."""
    with torch.device("meta"):
        network = build(name=name, width=1, layers=0 if name == "gat-digits" else 2, predictor=4)
    rectifiers = [m for m in network.modules() if isinstance(m, nn.ReLU)]
    assert rectifiers
    assert all(m.inplace for m in rectifiers)


def test_the_seed_is_0_by_default():
    a, b = build(), build_network(NetworkConfig(hidden=12, out_dim=6), SHAPE, seed=0)
    for x, y in zip(a.parameters(), b.parameters(), strict=True):
        assert torch.equal(x, y)


@pytest.mark.parametrize("training", [False, True])
def test_asking_an_encoder_leaves_it_as_it_was(training):
    """Its mode, its statistics and its precision; what it is asked with has its own dtype."""
    own = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Dropout(), nn.Flatten())
    own = own.double().train(training)
    before = {name: value.clone() for name, value in own.state_dict().items()}
    network = build_network(NetworkConfig(hidden=12, out_dim=6), SHAPE, encoder=own)
    assert network.encoder_dim == 2 * 6 * 6
    assert network.own_encoder == "torch.nn.modules.container.Sequential"
    assert own.training == training
    assert all(torch.equal(own.state_dict()[name], value) for name, value in before.items())


class Fixed(nn.Module):
    """An encoder that returns what it is told, and has no parameter."""

    def __init__(self, rows):
        super().__init__()
        self.rows = rows

    def forward(self, images):
        return self.rows


@pytest.mark.parametrize(
    ("rows", "got"),
    [
        ([torch.zeros(2, 3)], "list"),
        (torch.zeros(2), r"\(2,\)"),
        (torch.zeros(2, 3, 1), r"\(2, 3, 1\)"),
        (torch.zeros(1, 3), r"\(1, 3\)"),
    ],
    ids=str,
)
def test_what_is_no_row_of_features_for_each_image_is_named(rows, got):
    with pytest.raises(UsageError, match=rf"rows of features \(2, d\), got {got}\. To fix"):
        build_network(NetworkConfig(), SHAPE, encoder=Fixed(rows))
    found = build_network(NetworkConfig(), SHAPE, encoder=Fixed(torch.zeros(2, 3)))
    assert found.encoder_dim == 3
