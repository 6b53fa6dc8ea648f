"""The encoders of table S6: maps, numbers of parameters, and where their points look."""

import math

import pytest
import torch
from torch import nn

from dualclust.algos.core.errors import InvalidValueError, UsageError
from dualclust.algos.losses.gatcluster.attention import Gaussian, attention_map
from dualclust.train.config.methods.gatcluster import GatclusterOptions
from dualclust.train.config.run import NetworkConfig
from dualclust.train.networks.attention_branches import GAT_LAYERS, Branches, map_encoder
from dualclust.train.networks.network import build_network
from dualclust.train.report.attention import overlay, window_on_image, write_overlays

# Name, pixels, channels of the image, map; the last three columns as the paper and its code have.
MAPS = {
    "gat-stl": (96, 1, (256, 6, 6)),
    "gat-stl-color": (96, 3, (256, 6, 6)),
    "gat-imagenet10": (128, 1, (256, 6, 6)),
    "gat-imagenet10-10": (128, 1, (256, 10, 10)),
    "gat-imagenet10-8": (128, 1, (256, 8, 8)),
    "gat-imagenet10-4": (128, 1, (256, 4, 4)),
    "gat-imagenet10-2": (128, 1, (256, 2, 2)),
    "gat-dogs": (96, 3, (256, 4, 4)),
    "gat-dogs128": (128, 3, (256, 4, 4)),
    "gat-cifar": (32, 1, (128, 5, 5)),
    "gat-digits": (8, 1, (32, 4, 4)),
    "gat-mnist": (28, 1, (64, 3, 3)),
}


def test_every_encoder_is_in_the_table():
    assert MAPS.keys() == GAT_LAYERS.keys()


@pytest.mark.parametrize("name", MAPS)
def test_maps_have_the_published_size(name):
    side, channels, shape = MAPS[name]
    network = build_network(NetworkConfig(name=name, layers=0), (channels, side, side)).eval()
    assert network.encoder.map_shape == shape
    with torch.no_grad():
        rows = network(torch.zeros(1, channels, side, side))
    assert rows.shape == (1, math.prod(shape)) == (1, network.out_dim)


def test_parameters_of_the_stl_network():
    """1.924 M with the biases of convolutions, which are idle before batch normalization."""
    encoder, _ = map_encoder("gat-stl", 64, (1, 96, 96))
    branches = Branches(encoder.map_shape, 10, GatclusterOptions())
    to_map = [*encoder.parameters(), *branches.to_clusters.parameters()]
    channels = 3 * 64 + 3 * 128 + 3 * 256 + 10
    kernels = 9 * (64 + 2 * 64**2 + 64 * 128 + 2 * 128**2 + 128 * 256 + 2 * 256**2) + 256 * 10
    assert sum(p.numel() for p in to_map) == kernels + 2 * channels == 1_922_772
    assert 1_922_772 + channels == 1_924_126
    rest = {
        "label_conv": 10 * 10 + 20,
        "label_head": 2 * (10 * 10 + 10),
        "window_conv": 10 * 10 + 20,
        "window_layer": 360 * 3 + 3,
        "attention_head": 2 * (10 * 10 + 10),
    }
    for name, count in rest.items():
        assert sum(p.numel() for p in getattr(branches, name).parameters()) == count


def test_branches_as_tables_s7_and_s8_print_them():
    options = GatclusterOptions(label_channels=64, label_relu=True, head_layers=3)
    branches = Branches((256, 6, 6), 10, options)
    assert branches.label_conv[0].weight.shape == (64, 10, 1, 1)
    assert isinstance(branches.label_conv[-1], nn.ReLU)
    lengths = [m.weight.shape for m in branches.label_head if isinstance(m, nn.Linear)]
    assert lengths == [(10, 64), (10, 10), (10, 10)]
    assert branches(torch.randn(4, 256 * 36)).shape == (4, 2, 10)


@pytest.mark.parametrize("name", ["gat-stl", "gat-cifar", "gat-digits", "gat-mnist"])
def test_the_points_of_a_map_look_where_they_say(name):
    """The mean place of what a point reacts to, for convolutions that all weigh alike."""
    side = MAPS[name][0] + 32  # no padding within reach of the middle
    encoder, _ = map_encoder(name, 1, (1, side, side))
    # Averages in place of maxima and rectifiers: linear, and centered on the same pixels.
    layers = []
    for layer in encoder.layers:
        if isinstance(layer, nn.Conv2d):
            layers.append(layer)
            nn.init.constant_(layer.weight, 1.0)
        elif isinstance(layer, nn.MaxPool2d):
            layers.append(nn.AvgPool2d(2))
    images = torch.ones(1, 1, side, side, requires_grad=True)
    out = nn.Sequential(*layers)(images)
    h, w = out.shape[2:]
    i, j = h // 2, w // 2
    (slope,) = torch.autograd.grad(out[0, 0, i, j], images)
    weight = slope[0, 0] / slope.sum()
    at = torch.arange(side, dtype=torch.float32)
    place = float(weight.sum(1) @ at), float(weight.sum(0) @ at)
    expected = [encoder.origin[a] + encoder.spacing * k for a, k in enumerate((i, j))]
    assert place == pytest.approx(expected, abs=0.01)


def test_colors_are_seen_in_gray_unless_the_name_says_otherwise():
    images = torch.randn(2, 3, 96, 96)
    gray = (images * torch.tensor([0.299, 0.587, 0.114])[:, None, None]).sum(1, keepdim=True)
    images, gray = images.double(), gray.double()
    seen, _ = map_encoder("gat-stl", 2, (3, 96, 96))
    one, _ = map_encoder("gat-stl", 2, (1, 96, 96))
    one.layers[0].load_state_dict(seen.layers[1].state_dict())
    found, expected = seen.double().layers[:2](images), one.double().layers[:1](gray)
    assert torch.allclose(found, expected, atol=1e-6)
    color, _ = map_encoder("gat-stl-color", 2, (3, 96, 96))
    assert color.layers[0].in_channels == 3


def test_an_image_without_a_map_is_named():
    with pytest.raises(UsageError, match="'gat-stl' leaves no map of images of 32 × 32 pixels"):
        build_network(NetworkConfig(name="gat-stl", layers=0), (1, 32, 32))


# Windows on images -----------------------------------------------------------------------------


def test_a_window_lands_on_the_pixel_it_looks_at():
    """A point of the map at pixel 3 + 2 * 2 = 7 of 10, drawn at four times the size."""
    window = Gaussian(torch.tensor([[0.5, 1.0]]), torch.full((1, 2), 0.01), torch.zeros(1))
    sizes = {"map_size": (5, 5), "image_size": (10, 10), "tile": (40, 40)}
    placed = window_on_image(window, **sizes, origin=(3.0, -1.0), spacing=2.0)
    drawn = attention_map(placed, (40, 40), alpha=0.1)[0]
    row, column = divmod(int(drawn.argmax()), 40)
    # Pixel 7 covers the drawn pixels 28 to 31, whose middle is 29.5.
    assert row in (29, 30)
    assert column in (29, 30)


def test_an_overlay_tints_the_window_and_leaves_the_rest():
    tiles = torch.full((1, 2, 2, 3), 100, dtype=torch.uint8).numpy()
    attention = torch.tensor([[[0.0, 1.0], [0.0, 0.0]]]).numpy()
    found = overlay(tiles, attention)
    assert (found[0, 0, 0] == 100).all()
    assert found[0, 0, 1].tolist() == [176, 91, 49]  # 0.3 * 100 + 0.7 * (209, 87, 27)


def test_a_map_of_one_line_has_no_picture(tmp_path):
    images = torch.zeros(2, 1, 4, 4, dtype=torch.uint8)
    arguments = images, torch.zeros(2, dtype=torch.int64), torch.ones(2), lambda ids: None
    with pytest.raises(InvalidValueError, match="map_size must be two or more"):
        write_overlays(tmp_path / "a.png", *arguments, map_size=(1, 5), alpha=0.1, n_clusters=1)
