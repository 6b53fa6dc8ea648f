"""Encoders that end in a flattened map: for small images, the VGG4 of MI + margin; for embeddings.

A flattened map keeps where a stroke lies, which tells a 6 from a 9 and which averaging forgets. It
fits one image size alone, the one that the network was built for.
"""

from __future__ import annotations

from typing import NamedTuple

from torch import nn

from ...algos.core.errors import UsageError
from .normalization import BatchNorm

__all__ = ["SMALL", "VGG4", "embedding_mlp", "identity", "pixels", "small_cnn", "vgg4"]

# Channels, in multiples of the width, and stride of each 3 × 3 convolution.
SMALL = {
    "digits-cnn": ((1, 1), (2, 2), (2, 1)),
    "mnist-cnn": ((1, 2), (2, 2), (4, 2)),
}


def small_cnn(name: str, width: int, shape: tuple[int, ...]) -> tuple[nn.Module, int]:
    """Build one of `SMALL`; returns it and the length of its rows."""
    layers: list[nn.Module] = []
    before, height, breadth = shape
    for multiple, stride in SMALL[name]:
        layers += [
            nn.Conv2d(before, multiple * width, 3, stride, padding=1, bias=False),
            BatchNorm(multiple * width),
            nn.ReLU(inplace=True),
        ]
        before = multiple * width
        height, breadth = -(-height // stride), -(-breadth // stride)
    layers.append(nn.Flatten())
    return nn.Sequential(*layers), before * height * breadth


class _VGG4(NamedTuple):
    """Stride of its convolutions, and channels of the first."""

    stride: int
    width: int


# arXiv 2301.11405, supplement: gray images of 28 pixels, colored ones of 32 and of 96.
VGG4 = {"vgg4-28": _VGG4(1, 64), "vgg4-32": _VGG4(1, 32), "vgg4-96": _VGG4(2, 128)}


def vgg4(name: str, width: int, shape: tuple[int, ...]) -> tuple[nn.Module, int]:
    """Build one of `VGG4`: four 5 × 5 convolutions, each with twice the channels of the last.

    Batch normalization and ReLU follow each, 2 × 2 max-pooling the first three. The convolutions
    have a bias, idle before the normalization, because the published counts of parameters have it.

    Raises
    ------
    UsageError
        If the images are too small to be halved so often.
    """
    layers: list[nn.Module] = []
    before, *sides = shape
    for i in range(4):
        channels = width * 2**i
        layers += [
            nn.Conv2d(before, channels, 5, VGG4[name].stride, padding=2),
            BatchNorm(channels),
            nn.ReLU(inplace=True),
        ]
        before = channels
        sides = [-(-side // VGG4[name].stride) for side in sides]
        if i < 3:
            layers.append(nn.MaxPool2d(2))
            sides = [side // 2 for side in sides]
        if min(sides) < 1:
            size = " × ".join(map(str, shape[1:]))
            msg = (
                f"network.name {name!r} leaves nothing of images of {size} pixels. "
                f"To fix this, choose a network for smaller images, such as 'digits-cnn'"
            )
            raise UsageError(msg)
    layers.append(nn.Flatten())
    return nn.Sequential(*layers), before * sides[0] * sides[1]


def identity(width: int, shape: tuple[int, ...]) -> tuple[nn.Module, int]:
    """Leave embeddings as they are; the projector is all there is. `width` has no meaning."""
    return nn.Identity(), shape[0]


def pixels(width: int, shape: tuple[int, ...]) -> tuple[nn.Module, int]:
    """Take the pixels of images as rows; nothing learns. `width` has no meaning."""
    return nn.Flatten(), shape[0] * shape[1] * shape[2]


def embedding_mlp(width: int, shape: tuple[int, ...]) -> tuple[nn.Module, int]:
    """Build one hidden layer of `width` units with batch normalization and ReLU."""
    layers = (nn.Linear(shape[0], width, bias=False), BatchNorm(width), nn.ReLU(inplace=True))
    return nn.Sequential(*layers), width
