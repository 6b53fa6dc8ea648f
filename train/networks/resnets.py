"""ResNet-18, -34 and -50 with stems for small, middle and large images.

Parameters are named as in torchvision, so that weights of either load into the other; the
classifier ``fc`` is left out. The last batch normalization of a block starts at one, as published
[1], not at zero.

References
----------
.. [1] K. He, X. Zhang, S. Ren, J. Sun. Deep residual learning for image recognition. CVPR 2016.
       ResNet-50 with the stride in the 3 × 3 convolution, as torchvision has it.
.. [2] T. Chen, S. Kornblith, M. Norouzi, G. Hinton. A simple framework for contrastive learning of
       visual representations. ICML 2020, appendix B.9.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

from torch import Tensor, nn

from .normalization import BatchNorm

__all__ = ["DEPTHS", "STEMS", "resnet"]


class _Block(nn.Module):
    """Convolutions and a shortcut; the last convolution is followed by no ReLU of its own.

    Parameters
    ----------
    kernels : sizes of the convolutions: (3, 3), or (1, 3, 1) of a bottleneck.
    stride : of the first 3 × 3 convolution.
    """

    def __init__(
        self, before: int, channels: int, after: int, kernels: tuple[int, ...], stride: int
    ) -> None:
        super().__init__()
        self.depth = len(kernels)
        strided = kernels.index(3)
        for i, kernel in enumerate(kernels):
            out = after if i == self.depth - 1 else channels
            step = stride if i == strided else 1
            inner = before if i == 0 else channels
            conv = nn.Conv2d(inner, out, kernel, step, kernel // 2, bias=False)
            self.add_module(f"conv{i + 1}", conv)
            self.add_module(f"bn{i + 1}", BatchNorm(out))
        self.relu = nn.ReLU(inplace=True)
        self.downsample: nn.Sequential | None = None
        if stride != 1 or before != after:
            self.downsample = nn.Sequential(
                nn.Conv2d(before, after, 1, stride, bias=False), BatchNorm(after)
            )

    def forward(self, x: Tensor) -> Tensor:
        y = x
        for i in range(1, self.depth + 1):
            y = getattr(self, f"bn{i}")(getattr(self, f"conv{i}")(y))
            if i < self.depth:
                y = self.relu(y)
        out: Tensor = self.relu(y + (x if self.downsample is None else self.downsample(x)))
        return out


class _Depth(NamedTuple):
    """Blocks of each stage, kernels of a block, and a stage's output over its inner channels."""

    blocks: tuple[int, int, int, int]
    kernels: tuple[int, ...]
    expansion: int


DEPTHS = {
    18: _Depth((2, 2, 2, 2), (3, 3), 1),
    34: _Depth((3, 4, 6, 3), (3, 3), 1),
    50: _Depth((3, 4, 6, 3), (1, 3, 1), 4),
}


class _Stem(NamedTuple):
    """The first convolution, and the kernel and padding of a max-pooling of stride 2, or None."""

    kernel: int
    stride: int
    pool: tuple[int, int] | None


STEMS = {
    "cifar": _Stem(3, 1, None),  # [2]
    "stl": _Stem(3, 1, (2, 1)),  # SeCu's
    "imagenet": _Stem(7, 2, (3, 1)),  # [1]
}


def resnet(depth: int, stem: str, width: int, shape: tuple[int, ...]) -> tuple[nn.Sequential, int]:
    """Build a ResNet that ends in global average pooling, which takes any image size.

    Parameters
    ----------
    depth : int, one of `DEPTHS`.
    stem : str, one of `STEMS`.
    width : int. Inner channels of the first stage; 64 is the published one.
    shape : (c, h, w) of an image.

    Returns
    -------
    encoder, dim : nn.Sequential and the length of its rows: 8 × width, of ResNet-50 32 × width.
    """
    blocks, kernels, expansion = DEPTHS[depth]
    first = STEMS[stem]
    parts: OrderedDict[str, nn.Module] = OrderedDict(
        conv1=nn.Conv2d(shape[0], width, first.kernel, first.stride, first.kernel // 2, bias=False),
        bn1=BatchNorm(width),
        relu=nn.ReLU(inplace=True),
    )
    if first.pool is not None:
        kernel, padding = first.pool
        parts["maxpool"] = nn.MaxPool2d(kernel, 2, padding)
    before = width
    for stage, count in enumerate(blocks):
        channels = width * 2**stage
        rows = []
        for i in range(count):
            stride = 2 if stage and not i else 1
            rows.append(_Block(before, channels, channels * expansion, kernels, stride))
            before = channels * expansion
        parts[f"layer{stage + 1}"] = nn.Sequential(*rows)
    parts["avgpool"] = nn.AdaptiveAvgPool2d(1)
    parts["flatten"] = nn.Flatten()
    encoder = nn.Sequential(parts)
    for module in encoder.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    return encoder, before
