import pytest
import torch
from torch import nn

from dualclust.algos.errors import InvalidValueError, UsageError
from dualclust.train.config import NetworkConfig
from dualclust.train.networks import NETWORKS, build_network


def config(**values):
    return NetworkConfig(**({"hidden": 24, "out_dim": 12} | values))


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize(("c", "size"), [(1, 8), (3, 32), (1, (7, 9))])
def test_shapes_and_gradients(name, c, size):
    network = build_network(config(name=name, width=4), c, size)
    h, w = (size, size) if isinstance(size, int) else size
    features = network(torch.randn(5, c, h, w))
    assert features.shape == (5, 12)
    assert network.encoder(torch.randn(2, c, h, w)).shape == (2, network.encoder_dim)
    features.square().sum().backward()
    assert all(p.grad is not None for p in network.parameters())


def test_parameters_are_a_function_of_the_seed():
    before = torch.get_rng_state()
    a, b, c = (build_network(config(), 1, 8, seed=s).state_dict() for s in (0, 0, 1))
    assert all(torch.equal(a[k], b[k]) for k in a)
    assert not all(torch.equal(a[k], c[k]) for k in a)
    assert torch.equal(before, torch.get_rng_state())


def test_features_are_not_normalized():
    features = build_network(config(), 1, 8)(torch.randn(16, 1, 8, 8))
    assert float(features.detach().norm(dim=1).std()) > 1e-3


def test_resnet18_has_the_published_parameters_under_torchvision_names():
    encoder = build_network(config(name="resnet18-cifar"), 3, 32).encoder
    shapes = {name: tuple(p.shape) for name, p in encoder.named_parameters()}
    # ResNet-18 without its classifier has 11,176,512 parameters; the small stem saves 7,680.
    assert sum(p.numel() for p in encoder.parameters()) == 11_176_512 - (49 - 9) * 3 * 64
    assert shapes["conv1.weight"] == (64, 3, 3, 3)
    assert shapes["bn1.bias"] == (64,)
    assert shapes["layer1.0.conv1.weight"] == (64, 64, 3, 3)
    assert shapes["layer2.0.downsample.0.weight"] == (128, 64, 1, 1)
    assert shapes["layer2.0.downsample.1.weight"] == (128,)
    assert shapes["layer4.1.conv2.weight"] == (512, 512, 3, 3)
    expected = {"conv1.weight", "bn1.weight", "bn1.bias"}
    for stage in range(1, 5):
        for block in range(2):
            names = ["conv1.weight", "bn1.weight", "bn1.bias"]
            names += ["conv2.weight", "bn2.weight", "bn2.bias"]
            if block == 0 and stage > 1:
                names += ["downsample.0.weight", "downsample.1.weight", "downsample.1.bias"]
            expected |= {f"layer{stage}.{block}.{name}" for name in names}
    assert set(shapes) == expected


def test_resnet18_keeps_the_resolution_in_its_stem():
    encoder = build_network(config(name="resnet18-cifar", width=4), 3, 32).encoder
    sizes = []
    for layer in (encoder.conv1, encoder.layer1, encoder.layer2, encoder.layer4):
        layer.register_forward_hook(lambda _m, _i, out: sizes.append(tuple(out.shape[1:])))
    encoder(torch.randn(2, 3, 32, 32))
    assert sizes == [(4, 32, 32), (4, 32, 32), (8, 16, 16), (32, 4, 4)]


def test_width_0_is_the_standard_width():
    standard, wide = build_network(config(), 1, 8), build_network(config(width=32), 1, 8)
    pairs = zip(standard.parameters(), wide.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)
    first = next(m for m in build_network(config(width=5), 1, 8).modules() if type(m) is nn.Conv2d)
    assert first.out_channels == 5


def test_a_digit_at_another_place_looks_different():
    # Flattening keeps the place, which averaging would forget.
    network = build_network(config(), 1, 8).eval()
    image = torch.zeros(1, 1, 8, 8)
    image[..., 2, 2] = 1
    moved = image.roll((2, 2), (2, 3))
    assert not torch.allclose(network.encoder(image), network.encoder(moved))


def test_misuse_is_named():
    with pytest.raises(UsageError, match="unknown network 'digit-cnn'; did you mean 'digits-cnn'"):
        build_network(config(name="digit-cnn"), 1, 8)
    with pytest.raises(UsageError, match="unknown network 'zzz'; known: digits-cnn, resnet18-"):
        build_network(config(name="zzz"), 1, 8)
    for channels, size in ((0, 8), (1, 0), (1, (8, 8, 8))):
        with pytest.raises(InvalidValueError, match="in_channels and image_size must be positive"):
            build_network(config(), channels, size)
