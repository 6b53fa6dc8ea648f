"""Networks: their shapes, gradients and seeds, and the sizes that were published."""

from itertools import pairwise

import pytest
import torch
from torch import nn

from dualclust.algos.core.errors import InvalidValueError, UsageError
from dualclust.train.config.run import NetworkConfig
from dualclust.train.networks.network import NETWORKS, build_network, run_views
from tests.refusals import message_of

DIGIT, SMALL, MIDDLE = (1, 8, 8), (3, 32, 32), (3, 96, 96)
FLEXIBLE = [name for name in NETWORKS if "cnn" in name or "resnet" in name]


def config(**values):
    return NetworkConfig(**({"hidden": 24, "out_dim": 12} | values))


def encoder_of(name, shape, **values):
    return build_network(config(name=name, **values), shape).encoder


def count(module):
    return sum(p.numel() for p in module.parameters())


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        *[(name, shape) for name in FLEXIBLE for shape in (DIGIT, (3, 7, 9))],
        ("vgg4-28", (1, 28, 28)),
        ("vgg4-32", SMALL),
        ("vgg4-96", MIDDLE),
        ("none", (20,)),
        ("mlp", (20,)),
    ],
)
def test_shapes_and_gradients(name, shape):
    network = build_network(config(name=name, width=4), shape)
    features = network(torch.randn(5, *shape))
    assert features.shape == (5, 12)
    assert network.encoder(torch.randn(2, *shape)).shape == (2, network.encoder_dim)
    features.square().sum().backward()
    assert all(p.grad is not None for p in network.parameters())


def test_every_network_has_a_sample_it_takes():
    for name, known in NETWORKS.items():
        shape = (3, 128, 128) if known.axes == 3 else (20,)
        assert build_network(config(name=name, width=1), shape).encoder_dim > 0


def test_parameters_are_a_function_of_the_seed():
    before = torch.get_rng_state()
    a, b, c = (build_network(config(), DIGIT, seed=s).state_dict() for s in (0, 0, 1))
    assert all(torch.equal(a[k], b[k]) for k in a)
    assert not all(torch.equal(a[k], c[k]) for k in a)
    assert torch.equal(before, torch.get_rng_state())


def test_features_are_not_normalized():
    features = build_network(config(), DIGIT)(torch.randn(16, 1, 8, 8))
    assert float(features.detach().norm(dim=1).std()) > 1e-3


@pytest.mark.parametrize(
    ("depth", "published", "classifier"),
    [(18, 11_689_512, 513_000), (34, 21_797_672, 513_000), (50, 25_557_032, 2_049_000)],
)
def test_resnets_have_the_published_parameters(depth, published, classifier):
    encoder = encoder_of(f"resnet{depth}", SMALL)
    assert count(encoder) == published - classifier
    small = published - classifier - (49 - 9) * 3 * 64
    assert count(encoder_of(f"resnet{depth}-cifar", SMALL)) == small
    assert count(encoder_of(f"resnet{depth}-stl", SMALL)) == small


@pytest.mark.parametrize(
    ("depth", "blocks"), [(18, (2,) * 4), (34, (3, 4, 6, 3)), (50, (3, 4, 6, 3))]
)
@pytest.mark.parametrize("stem", ["", "-cifar", "-stl"])
def test_resnets_have_torchvision_names_and_shapes(depth, blocks, stem):
    width = 4
    encoder = encoder_of(f"resnet{depth}{stem}", SMALL, width=width)
    kernels, expansion = ((1, 3, 1), 4) if depth == 50 else ((3, 3), 1)
    side = 3 if stem else 7
    expected = {"conv1.weight": (width, 3, side, side)}
    norms = {"bn1": width}
    before = width
    for stage, n in enumerate(blocks):
        inner = width * 2**stage
        for block in range(n):
            here = f"layer{stage + 1}.{block}"
            for i, kernel in enumerate(kernels):
                after = inner * expansion if i == len(kernels) - 1 else inner
                a = before if i == 0 else inner
                expected[f"{here}.conv{i + 1}.weight"] = (after, a, kernel, kernel)
                norms[f"{here}.bn{i + 1}"] = after
            if block == 0 and (stage > 0 or expansion > 1):
                expected[f"{here}.downsample.0.weight"] = (inner * expansion, before, 1, 1)
                norms[f"{here}.downsample.1"] = inner * expansion
            before = inner * expansion
    for name, length in norms.items():
        for part in ("weight", "bias", "running_mean", "running_var"):
            expected[f"{name}.{part}"] = (length,)
    assert {name: tuple(t.shape) for name, t in encoder.state_dict().items()} == expected
    assert encoder(torch.randn(2, *SMALL)).shape == (2, before)


@pytest.mark.parametrize(
    ("name", "side", "expected"),
    [
        ("resnet18-cifar", 32, [(4, 32), (4, 32), (8, 16), (32, 4)]),
        ("resnet18-stl", 96, [(4, 96), (4, 49), (8, 25), (32, 7)]),
        ("resnet18", 224, [(4, 112), (4, 56), (8, 28), (32, 7)]),
        ("resnet50", 64, [(4, 32), (16, 16), (32, 8), (128, 2)]),
    ],
)
def test_resnets_halve_the_resolution_where_published(name, side, expected):
    encoder = encoder_of(name, SMALL, width=4)
    sizes = []
    for layer in (encoder.conv1, encoder.layer1, encoder.layer2, encoder.layer4):
        layer.register_forward_hook(lambda _m, _i, out: sizes.append((out.shape[1], out.shape[3])))
    encoder(torch.randn(1, 3, side, side).repeat(2, 1, 1, 1))
    assert sizes == expected


def test_a_residual_block_against_loops():
    """conv, norm, ReLU, conv, norm, plus the shortcut, ReLU: on 1 × 1 images, plain matrices."""
    encoder = encoder_of("resnet18-cifar", (3, 1, 1), width=2).double().eval()
    block = encoder.layer2[0]
    x = torch.randn(4, 2, 1, 1, dtype=torch.float64)

    def layer(conv, norm, rows):
        weight = conv.weight[:, :, 1, 1] if conv.kernel_size == (3, 3) else conv.weight[:, :, 0, 0]
        return (rows @ weight.T) / (1 + norm.eps) ** 0.5

    rows = x[:, :, 0, 0]
    y = layer(block.conv2, block.bn2, layer(block.conv1, block.bn1, rows).clamp(min=0))
    expected = (y + layer(*block.downsample, rows)).clamp(min=0)
    torch.testing.assert_close(block(x)[:, :, 0, 0], expected)


@pytest.mark.parametrize(
    ("name", "shape", "channels", "total", "dim"),
    [
        ("vgg4-28", (1, 28, 28), (1, 64, 128, 256, 512), 4.31e6, 512 * 3 * 3),
        ("vgg4-32", SMALL, (3, 32, 64, 128, 256), 1.08e6, 256 * 4 * 4),
        ("vgg4-96", MIDDLE, (3, 128, 256, 512, 1024), 17.2e6, 1024),
    ],
)
def test_vgg4_has_the_published_sizes(name, shape, channels, total, dim):
    network = build_network(config(name=name), shape)
    pairs = pairwise(channels)
    assert count(network.encoder) == sum(25 * a * b + 3 * b for a, b in pairs)
    assert count(network.encoder) == pytest.approx(total, rel=2e-3)
    assert network.encoder_dim == dim


def test_mnist_cnn_is_small():
    encoder = encoder_of("mnist-cnn", (1, 28, 28))
    assert encoder(torch.randn(2, 1, 28, 28)).shape == (2, 64 * 4 * 4)
    assert count(encoder) == 9 * (16 + 16 * 32 + 32 * 64) + 2 * (16 + 32 + 64)


def test_networks_of_embeddings():
    rows = torch.randn(6, 20)
    assert torch.equal(encoder_of("none", (20,))(rows), rows)
    linear = build_network(config(name="none", layers=1), (20,))
    assert [type(m) for m in linear.projector] == [nn.Linear]
    hidden = build_network(config(name="mlp"), (20,))
    assert hidden.encoder_dim == 512
    assert hidden(rows).shape == (6, 12)


def test_width_0_is_the_standard_width():
    standard, wide = build_network(config(), DIGIT), build_network(config(width=32), DIGIT)
    pairs = zip(standard.parameters(), wide.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)
    first = next(
        m for m in encoder_of("digits-cnn", DIGIT, width=5).modules() if type(m) is nn.Conv2d
    )
    assert first.out_channels == 5


def test_a_digit_at_another_place_looks_different():
    # Flattening keeps the place, which averaging would forget.
    network = build_network(config(), DIGIT).eval()
    image = torch.zeros(1, 1, 8, 8)
    image[..., 2, 2] = 1
    moved = image.roll((2, 2), (2, 3))
    assert not torch.allclose(network.encoder(image), network.encoder(moved))


@pytest.mark.parametrize("layers", [0, 1, 2, 3])
@pytest.mark.parametrize("last_norm", [False, True])
def test_the_projector_has_the_layers_asked_for(layers, last_norm):
    network = build_network(config(layers=layers, last_norm=last_norm, predictor=7), DIGIT)
    linear = [m for m in network.projector.modules() if isinstance(m, nn.Linear)]
    assert len(linear) == layers
    assert network.out_dim == (12 if layers else network.encoder_dim)
    widths = [network.encoder_dim, *[24] * (layers - 1), 12] if layers else []
    assert [(m.in_features, m.out_features) for m in linear] == list(pairwise(widths))
    # A bias before a normalization is idle.
    assert [m.bias is not None for m in linear] == [False] * (layers - 1) + [not last_norm] * bool(
        layers
    )
    features = network(torch.randn(4, *DIGIT))
    assert network.predict(features).shape == (4, network.out_dim)


def test_views_in_one_pass_are_a_pass_each():
    views = [torch.randn(6, *DIGIT, dtype=torch.float64) for _ in range(3)]
    one, each = (build_network(config(), DIGIT).double() for _ in range(2))
    each.one_pass = False
    found, expected = (run_views(network, network, views) for network in (one, each))
    assert found.shape == (3, 6, 12)
    torch.testing.assert_close(found, expected)
    # Together they would be another batch.
    whole = one(torch.cat(views)).unflatten(0, (3, 6))
    assert not torch.allclose(whole, expected)
    # Views of two sizes take a pass each.
    crops = build_network(config(name="resnet18-cifar", width=2), DIGIT).double()
    sizes = [views[0], views[1][..., :6, :6]]
    torch.testing.assert_close(
        run_views(crops, crops, sizes), torch.stack([crops(view) for view in sizes])
    )


def test_an_encoder_of_ones_own():
    own = nn.Sequential(nn.Flatten(), nn.Linear(64, 5))
    network = build_network(config(name="anything"), DIGIT, encoder=own)
    assert network.encoder is own
    assert network(torch.randn(3, *DIGIT)).shape == (3, 12)
    with pytest.raises(UsageError, match=r"to rows of features \(2, d\), got \(2, 1, 8, 8\)"):
        build_network(config(), DIGIT, encoder=nn.Identity())


def test_misuse_is_named():
    text = message_of(UsageError, build_network, config(name="digit-cnn"), DIGIT)
    assert text == (
        "network.name 'digit-cnn' is unknown; did you mean 'digits-cnn'? "
        "To fix this, set network.name=digits-cnn"
    )
    with pytest.raises(UsageError) as error:
        build_network(config(name="zzz"), DIGIT)
    assert str(error.value) == (
        f"network.name 'zzz' is unknown; known: {', '.join(NETWORKS)}. "
        f"To fix this, set network.name to one of these"
    )
    with pytest.raises(UsageError, match=r"takes images, .* shape \(20,\). .* one of none, mlp"):
        build_network(config(), (20,))
    with pytest.raises(UsageError, match=r"takes embeddings, .* one of digits-cnn, "):
        build_network(config(name="mlp"), DIGIT)
    with pytest.raises(UsageError, match="'vgg4-96' leaves nothing of images of 8 × 8 pixels"):
        build_network(config(name="vgg4-96"), DIGIT)
    with pytest.raises(UsageError, match=r"no predictor\. To fix this, set network.predictor"):
        build_network(config(), DIGIT).predict(torch.randn(2, 12))
    for shape in ((0, 8, 8), (1, 0, 8), (1, 8), ()):
        with pytest.raises(InvalidValueError, match=r"shape must be \(c, h, w\) or \(d,\)"):
            build_network(config(), shape)
