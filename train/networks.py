"""Networks that map an image to a feature vector: an encoder, then a projector.

The encoder is what transfers; the projector is what the clustering loss sees. Features leave
without normalization, for the method to normalize as its paper asks. Batch statistics per view are
the method's business too: two passes, or one pass per half.

==================  ===============================================================================
name                encoder
==================  ===============================================================================
``digits-cnn``      three 3 × 3 convolutions for small grey images, flattened: a forward and
                    backward pass of 256 digits takes about 12 ms on one CPU core
``resnet18-cifar``  ResNet-18 [1] for images of about 32 pixels: a 3 × 3 stem of stride 1 and no
                    max-pooling [2]; parameters are named as in torchvision
==================  ===============================================================================

References
----------
.. [1] K. He, X. Zhang, S. Ren, J. Sun. Deep residual learning for image recognition. CVPR 2016.
.. [2] T. Chen, S. Kornblith, M. Norouzi, G. Hinton. A simple framework for contrastive learning of
       visual representations. ICML 2020, appendix B.9.
"""

from __future__ import annotations

import difflib
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import nn

from ..algos.errors import InvalidValueError, UsageError
from .config import NetworkConfig
from .seeding import generator

__all__ = ["NETWORKS", "Network", "build_network"]


class Network(nn.Module):
    """An encoder and a projector, one after the other.

    Attributes
    ----------
    encoder : nn.Module. (b, c, h, w) float to (b, `encoder_dim`).
    projector : nn.Module. (b, `encoder_dim`) to (b, `out_dim`), not normalized.
    """

    def __init__(self, encoder: nn.Module, encoder_dim: int, hidden: int, out_dim: int) -> None:
        super().__init__()
        self.encoder_dim = encoder_dim
        self.out_dim = out_dim
        self.encoder = encoder
        self.projector = nn.Sequential(
            # The batch normalization that follows makes a bias idle.
            nn.Linear(encoder_dim, hidden, bias=False),
            nn.BatchNorm1d(hidden),
            nn.ReLU(inplace=True),
            nn.Linear(hidden, out_dim),
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Map (b, c, h, w) images to (b, out_dim) features."""
        features: torch.Tensor = self.projector(self.encoder(images))
        return features


class _Encoder(NamedTuple):
    """How to make an encoder: (width, in_channels, (height, width)) to (module, encoder_dim)."""

    build: Callable[[int, int, tuple[int, int]], tuple[nn.Module, int]]
    standard_width: int


def build_network(
    config: NetworkConfig, in_channels: int, image_size: int | tuple[int, int], *, seed: int = 0
) -> Network:
    """Build a network with fresh parameters, a function of `seed` alone.

    Parameters
    ----------
    config : name, width and lengths; see `config.NetworkConfig`.
    in_channels : int, 1 or more. 1 for grey images, 3 for color.
    image_size : int or (int, int), pixels. Side, or height and width.
    seed : int. Seed of the parameters; the global random state is left alone.

    Returns
    -------
    network : `Network` on the CPU, in training mode, float32.

    Raises
    ------
    UsageError
        If ``config.name`` is not in `NETWORKS`.
    InvalidValueError
        If a size is below 1.

    Examples
    --------
    >>> network = build_network(NetworkConfig(), in_channels=1, image_size=8)
    >>> network(torch.zeros(4, 1, 8, 8)).shape
    torch.Size([4, 64])
    """
    size = (image_size, image_size) if isinstance(image_size, int) else tuple(image_size)
    if in_channels < 1 or len(size) != 2 or min(size) < 1:
        msg = f"in_channels and image_size must be positive, got {in_channels} and {image_size}"
        raise InvalidValueError(msg)
    if config.name not in NETWORKS:
        close = difflib.get_close_matches(config.name, NETWORKS, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(NETWORKS)}"
        msg = f"network.name: unknown network {config.name!r}; {hint}"
        raise UsageError(msg)
    encoder = NETWORKS[config.name]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(generator(seed, "network").initial_seed())
        module, dim = encoder.build(config.width or encoder.standard_width, in_channels, size)
        return Network(module, dim, config.hidden, config.out_dim)


# Channels, in multiples of the width, and stride of each convolution.
_DIGITS_LAYERS = ((1, 1), (2, 2), (2, 1))


def _digits_cnn(width: int, in_channels: int, size: tuple[int, int]) -> tuple[nn.Module, int]:
    layers: list[nn.Module] = []
    height, breadth = size
    for multiple, stride in _DIGITS_LAYERS:
        layers += [
            nn.Conv2d(in_channels, multiple * width, 3, stride, padding=1, bias=False),
            nn.BatchNorm2d(multiple * width),
            nn.ReLU(inplace=True),
        ]
        in_channels = multiple * width
        height, breadth = -(-height // stride), -(-breadth // stride)
    # Flattened, not averaged: where a stroke lies tells a 6 from a 9.
    layers.append(nn.Flatten())
    return nn.Sequential(*layers), in_channels * height * breadth


class _BasicBlock(nn.Module):
    """Two 3 × 3 convolutions and a shortcut."""

    def __init__(self, in_channels: int, channels: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, channels, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.relu = nn.ReLU(inplace=True)
        self.downsample: nn.Sequential | None = None
        if stride != 1 or in_channels != channels:
            self.downsample = nn.Sequential(
                nn.Conv2d(in_channels, channels, 1, stride, bias=False), nn.BatchNorm2d(channels)
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shortcut = x if self.downsample is None else self.downsample(x)
        y = self.relu(self.bn1(self.conv1(x)))
        out: torch.Tensor = self.relu(self.bn2(self.conv2(y)) + shortcut)
        return out


def _resnet18_cifar(width: int, in_channels: int, size: tuple[int, int]) -> tuple[nn.Module, int]:
    del size  # global average pooling takes any size
    parts: OrderedDict[str, nn.Module] = OrderedDict(
        conv1=nn.Conv2d(in_channels, width, 3, padding=1, bias=False),
        bn1=nn.BatchNorm2d(width),
        relu=nn.ReLU(inplace=True),
    )
    channels = width
    for stage in range(4):
        out = width * 2**stage
        parts[f"layer{stage + 1}"] = nn.Sequential(
            _BasicBlock(channels, out, stride=1 if stage == 0 else 2), _BasicBlock(out, out, 1)
        )
        channels = out
    parts["avgpool"] = nn.AdaptiveAvgPool2d(1)
    parts["flatten"] = nn.Flatten()
    encoder = nn.Sequential(parts)
    for module in encoder.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    return encoder, channels


NETWORKS: dict[str, _Encoder] = {
    "digits-cnn": _Encoder(_digits_cnn, standard_width=32),
    "resnet18-cifar": _Encoder(_resnet18_cifar, standard_width=64),
}
