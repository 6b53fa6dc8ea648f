"""The small encoders layer by layer, and the smallest images that VGG4 takes."""

import pytest
import torch
from torch import nn

from dualclust.algos.core.errors import UsageError
from dualclust.train.networks.normalization import BatchNorm
from dualclust.train.networks.small import embedding_mlp, small_cnn, vgg4


@pytest.mark.parametrize(
    ("name", "convolutions"),
    [("digits-cnn", [(4, 1), (8, 2), (8, 1)]), ("mnist-cnn", [(4, 2), (8, 2), (16, 2)])],
)
def test_convolutions_of_a_small_encoder(name, convolutions):
    """Channels and strides; each is padded by 1, without a bias, and ends in a ReLU."""
    encoder, dim = small_cnn(name, 4, (2, 7, 10))
    found = [layer for layer in encoder if isinstance(layer, nn.Conv2d)]
    assert [(layer.out_channels, layer.stride[0]) for layer in found] == convolutions
    assert all(layer.kernel_size == (3, 3) and layer.padding == (1, 1) for layer in found)
    assert all(layer.bias is None for layer in found)
    kinds = [type(layer) for layer in encoder]
    assert kinds == [nn.Conv2d, BatchNorm, nn.ReLU] * 3 + [nn.Flatten]
    assert encoder(torch.randn(3, 2, 7, 10)).shape == (3, dim)


@pytest.mark.parametrize(("name", "smallest"), [("vgg4-28", 8), ("vgg4-32", 8)])
def test_the_smallest_images_of_vgg4(name, smallest):
    """Halved three times, to one pixel; the side that is too short may be either."""
    encoder, dim = vgg4(name, 2, (1, smallest, 19))
    assert encoder(torch.randn(3, 1, smallest, 19)).shape == (3, dim) == (3, 16 * 1 * 2)
    for shape in ((1, smallest - 1, 19), (1, 19, smallest - 1)):
        size = " × ".join(map(str, shape[1:]))
        with pytest.raises(UsageError, match=f"leaves nothing of images of {size} pixels"):
            vgg4(name, 2, shape)


def test_the_mlp_of_embeddings():
    encoder, dim = embedding_mlp(7, (5,))
    assert [type(layer) for layer in encoder] == [nn.Linear, BatchNorm, nn.ReLU]
    assert encoder[0].bias is None
    assert encoder[2].inplace
    assert dim == 7
