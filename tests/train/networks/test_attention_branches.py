"""The encoders of table S6 layer by layer, the smallest images they take, and the branches."""

import pytest
import torch
from torch import nn

from dualclust.algos.core.errors import UsageError
from dualclust.train.config.methods.gatcluster import GatclusterOptions
from dualclust.train.networks.attention_branches import GAT_LAYERS, Branches, map_encoder
from dualclust.train.networks.normalization import BatchNorm

# Kernel, channels, and what differs from stride 1 without padding; P is a 2 × 2 maximum.
STL = "3:64 3:64 3:64 P 3:128 3:128 3:128 P 3:256 3:256 3:256 P"
LAYERS = {
    "gat-stl": STL,
    "gat-stl-color": STL,
    "gat-imagenet10": f"{STL} 3:256 3:256",
    "gat-imagenet10-10": STL,
    "gat-imagenet10-8": f"{STL} 3:256",
    "gat-imagenet10-4": f"{STL} 3:256 3:256 3:256",
    "gat-imagenet10-2": f"{STL} 3:256 3:256 3:256 3:256",
    "gat-dogs": f"5:64:p1{STL[4:]} 3:256",
    "gat-dogs128": f"7:64:p1{STL[4:]} 3:256 3:256 3:256",
    "gat-cifar": "3:64:p1 3:64:p1 3:64:p1 P 3:128 3:128 3:128 P",
    "gat-digits": "3:64:p1 3:64:p1 P 3:128:p1 3:128:p1",
    "gat-mnist": "5:64:s2 3:128:p1 P 3:256:p1 P 3:256:p1",
}


def described(encoder):
    """The layers of an encoder in the words of `LAYERS`."""
    words = []
    for layer in encoder.layers:
        if isinstance(layer, nn.MaxPool2d):
            assert (layer.kernel_size, layer.stride, layer.padding) == (2, 2, 0)
            words.append("P")
        elif isinstance(layer, nn.Conv2d):
            assert layer.bias is None
            (kernel, _), (stride, _), (padding, _) = layer.kernel_size, layer.stride, layer.padding
            word = f"{kernel}:{layer.out_channels}"
            word += f":p{padding}" if padding else ""
            words.append(word + (f":s{stride}" if stride != 1 else ""))
    return " ".join(words)


@pytest.mark.parametrize("name", GAT_LAYERS)
def test_layers_are_those_of_the_table(name):
    with torch.device("meta"):
        encoder, dim = map_encoder(name, 64, (1, 160, 144))
    assert described(encoder) == LAYERS[name]
    kinds = [type(layer) for layer in encoder.layers]
    for i, kind in enumerate(kinds):
        if kind is nn.Conv2d:
            assert kinds[i + 1 : i + 3] == [BatchNorm, nn.ReLU]
    assert encoder(torch.empty(1, 1, 160, 144, device="meta")).shape == (1, dim)
    channels, height, width = encoder.map_shape
    assert dim == channels * height * width
    assert height > width


def test_the_smallest_map_is_one_point_high():
    """A pixel is left of two by the pooling, and stays; of one pixel nothing is left."""
    encoder, dim = map_encoder("gat-digits", 4, (1, 2, 9))
    assert encoder.map_shape == (8, 1, 4)
    assert encoder(torch.randn(3, 1, 2, 9)).shape == (3, dim) == (3, 32)
    for shape in ((1, 1, 9), (1, 9, 1)):
        size = " × ".join(map(str, shape[1:]))
        with pytest.raises(UsageError, match=f"'gat-digits' leaves no map of images of {size} pix"):
            map_encoder("gat-digits", 4, shape)


@pytest.mark.parametrize(("relu", "last"), [(False, BatchNorm), (True, nn.ReLU)])
def test_the_label_map_ends_in_a_relu_where_asked(relu, last):
    branches = Branches((5, 2, 3), 4, GatclusterOptions(label_relu=relu))
    assert isinstance(branches.label_conv[-1], last)
    assert len(branches.label_conv) == 2 + relu
    for conv in (branches.to_clusters[0], branches.label_conv[0]):
        assert (conv.kernel_size, conv.stride, conv.padding) == ((1, 1), (1, 1), (0, 0))


@pytest.mark.parametrize(("window", "numbers"), [("isotropic", 3), ("released", 3), ("full", 5)])
def test_a_window_has_the_numbers_of_its_form(window, numbers):
    branches = Branches((5, 2, 3), 4, GatclusterOptions(window=window)).double().eval()
    assert branches.window_layer.weight.shape == (numbers, 4 * 2 * 3)
    rows = torch.randn(7, 30, dtype=torch.float64)
    logits = branches(rows)
    assert logits.shape == (7, 2, 4)
    torch.testing.assert_close(branches.label_logits(rows), logits[:, 0])


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_a_head_has_a_relu_between_its_layers_alone(layers):
    branches = Branches((5, 2, 2), 4, GatclusterOptions(head_layers=layers, label_channels=6))
    kinds = [type(layer) for layer in branches.label_head]
    assert kinds == ([nn.Linear, nn.ReLU] * layers)[:-1]
    assert [m.in_features for m in branches.label_head[::2]] == [6, 4, 4][:layers]
