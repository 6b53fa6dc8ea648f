"""GATCluster's networks: an encoder that keeps a map, and two branches that label it.

The encoders are the columns of table S6 up to the last 256 channels, and two small ones for digits.
They return the map flattened, (b, c H W), so that they fit wherever an encoder does; they say the
shape of the map, and where on the image its points lie. `Branches` goes on from there, with the
convolution to k channels first, since k belongs to the method. Use them with ``network.layers=0``:
a projector would mix the points of the map.

======================  ==================  ======  ============================================
name                    made for            map     column of table S6
======================  ==================  ======  ============================================
``gat-stl``             96 × 96             6 × 6   STL10/ImageNet-10
``gat-imagenet10``      128 × 128           6 × 6   ImageNet-10-128-Att, two convolutions more
``gat-imagenet10-R``    128 × 128           R × R   the same with R of 10, 8, 4, 2 (table 4)
``gat-dogs``            96 × 96             4 × 4   ImageNet-Dog
``gat-dogs128``         128 × 128           4 × 4   ImageNet-Dog-128
``gat-cifar``           32 × 32             5 × 5   Cifar10/Cifar100-20
``gat-digits``          8 × 8               4 × 4   not in the paper
``gat-mnist``           28 × 28             3 × 3   not in the paper: each point sees all
======================  ==================  ======  ============================================

All but those for dogs, and ``gat-stl-color`` (table 2), see color images in gray: the paper found
that colors distract, and turns images gray after their colors have been jittered.

Sizes of maps that the paper leaves open follow from the printed kernels and paddings. Convolutions
have no bias, which the batch normalization behind each would make idle.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ...algos.core.errors import UsageError
from ...algos.losses.gatcluster.attention import (
    Gaussian,
    attended_features,
    attention_map,
    full_gaussian,
    isotropic_gaussian,
    released_gaussian,
)
from ..config.methods.gatcluster import GatclusterOptions
from .normalization import BatchNorm

__all__ = ["GAT_LAYERS", "GAT_SMALL", "Branches", "Conv", "MapEncoder", "map_encoder"]


class Conv(NamedTuple):
    """A convolution with batch normalization and ReLU; channels in multiples of the width."""

    kernel: int
    padding: int
    multiple: int
    stride: int = 1


_POOL = None  # 2 × 2 maximum, stride 2
_64, _128, _256 = Conv(3, 0, 1), Conv(3, 0, 2), Conv(3, 0, 4)
_BODY = (_POOL, _128, _128, _128, _POOL, _256, _256, _256, _POOL)
_STL = (_64, _64, _64, *_BODY)
_PADDED = Conv(3, 1, 1)

GAT_LAYERS: dict[str, tuple[Conv | None, ...]] = {
    "gat-stl": _STL,
    "gat-stl-color": _STL,
    "gat-imagenet10": (*_STL, _256, _256),
    "gat-imagenet10-10": _STL,
    "gat-imagenet10-8": (*_STL, _256),
    "gat-imagenet10-4": (*_STL, _256, _256, _256),
    "gat-imagenet10-2": (*_STL, _256, _256, _256, _256),
    "gat-dogs": (Conv(5, 1, 1), _64, _64, *_BODY, _256),
    "gat-dogs128": (Conv(7, 1, 1), _64, _64, *_BODY, _256, _256, _256),
    "gat-cifar": (_PADDED, _PADDED, _PADDED, _POOL, _128, _128, _128, _POOL),
    "gat-digits": (_PADDED, _PADDED, _POOL, Conv(3, 1, 2), Conv(3, 1, 2)),
    "gat-mnist": (Conv(5, 0, 1, 2), Conv(3, 1, 2), _POOL, Conv(3, 1, 4), _POOL, Conv(3, 1, 4)),
}
GAT_SMALL = ("gat-digits", "gat-mnist")
GAT_COLOR = ("gat-stl-color", "gat-dogs", "gat-dogs128")
WINDOWS = {
    "isotropic": isotropic_gaussian,
    "full": full_gaussian,
    "released": released_gaussian,
}
_LUMA = (0.299, 0.587, 0.114)


class MapEncoder(nn.Module):
    """A stack of convolutions whose output is a map, flattened to (b, c H W).

    Parameters
    ----------
    name : str. A key of `GAT_LAYERS`.
    width : int. Channels of the first convolution; 64 in table S6.
    shape : (c, h, w). Of an image.

    Attributes
    ----------
    map_shape : (int, int, int). c, H, W of the map.
    origin : (float, float), pixels from the center of the first pixel. Where the first point of the
        map looks at, down and across.
    spacing : int, pixels. Between neighboring points of the map.

    Raises
    ------
    UsageError
        If the image is too small to leave a map.
    """

    def __init__(self, name: str, width: int, shape: tuple[int, ...]) -> None:
        layers: list[nn.Module] = []
        channels, *sides = shape
        if channels == 3 and name not in GAT_COLOR:
            layers.append(_Gray())
            channels = 1
        center, spacing = 0.0, 1
        for layer in GAT_LAYERS[name]:
            kernel, padding, multiple, stride = layer or Conv(2, 0, 0, 2)
            sides = [(side + 2 * padding - kernel) // stride + 1 for side in sides]
            if min(sides) < 1:
                size = " × ".join(map(str, shape[1:]))
                msg = (
                    f"network.name {name!r} leaves no map of images of {size} pixels. To fix "
                    f"this, use larger images (data.size), or a network made for this size"
                )
                raise UsageError(msg)
            center += spacing * ((kernel - 1) / 2 - padding)
            spacing *= stride
            if layer is None:
                layers.append(nn.MaxPool2d(2))
                continue
            layers += _convolution(channels, multiple * width, kernel, stride, padding)
            channels = multiple * width
        super().__init__()
        self.layers = nn.Sequential(*layers, nn.Flatten())
        self.map_shape = (channels, sides[0], sides[1])
        self.origin = (center, center)
        self.spacing = spacing

    def forward(self, images: Tensor) -> Tensor:
        """Map (b, c, h, w) images to flattened maps."""
        rows: Tensor = self.layers(images)
        return rows


class _Gray(nn.Module):
    """The weighted mean of three normalized channels (ITU-R BT.601)."""

    def forward(self, images: Tensor) -> Tensor:
        red, green, blue = images.unbind(1)
        return (_LUMA[0] * red + _LUMA[1] * green + _LUMA[2] * blue).unsqueeze(1)


def map_encoder(name: str, width: int, shape: tuple[int, ...]) -> tuple[MapEncoder, int]:
    """Build an encoder of `GAT_LAYERS`; returns it and the length of its rows."""
    encoder = MapEncoder(name, width, shape)
    return encoder, math.prod(encoder.map_shape)


class Branches(nn.Module):
    """Label branch and attention branch (tables S7 and S8, figure 2) on the rows of an encoder.

    ==================  =======================  ==============================================
    here                shape                    what
    ==================  =======================  ==============================================
    ``to_clusters``     (b, k, H, W)             "Conv-k", the last row of table S6: the map F
    ``label_conv``      (b, c, H, W)             1 × 1, c = k or ``label_channels``
    ``label_head``      (b, k)                   of the map's mean over positions
    ``window_conv``     (b, k, H, W)             1 × 1, of F; with ``window_conv``
    ``window_layer``    (b, 3) or (b, 5)         the numbers of a window, before the sigmoid
    ``attention_head``  (b, k)                   of the map's sum over positions in the window
    ==================  =======================  ==============================================

    The window multiplies the map of ``label_conv``. Its numbers are read as the paper means them,
    unless ``window = "released"`` asks for the released code's slip
    (`algos.losses.gatcluster.attention`). Table S8 puts a ReLU behind the layer that finds it,
    which allows a window of width 0; a sigmoid stands there, as in the released code.

    Parameters
    ----------
    map_shape : (c, H, W). Of the encoder's map; (d, 1, 1) of features without positions, whose
        window covers the one position there is.
    n_clusters : int. k.
    options : GatclusterOptions
    """

    def __init__(
        self, map_shape: tuple[int, int, int], n_clusters: int, options: GatclusterOptions
    ) -> None:
        super().__init__()
        channels, height, breadth = map_shape
        k, inner = n_clusters, options.label_channels or n_clusters
        self.map_shape, self.options = map_shape, options
        self.to_clusters = nn.Sequential(*_convolution(channels, k, 1))
        self.label_conv = nn.Sequential(
            *_convolution(k, inner, 1)[: 3 if options.label_relu else 2]
        )
        self.label_head = _head(inner, k, options.head_layers)
        self.window_conv = nn.Sequential(*(_convolution(k, k, 1) if options.window_conv else []))
        numbers = 5 if options.window == "full" else 3
        self.window_layer = nn.Linear(k * height * breadth, numbers)
        self.attention_head = _head(inner, k, options.head_layers)

    def forward(self, rows: Tensor) -> Tensor:
        """Map flattened maps (b, c H W) to label and attention logits, (b, 2, k)."""
        clusters = self._clusters(rows)
        labels = self.label_conv(clusters)
        window = attention_map(self._gaussian(clusters), self.map_shape[1:], alpha=self.alpha)
        attended = attended_features(labels, window).to(labels.dtype)
        pooled = labels.mean((2, 3))
        return torch.stack([self.label_head(pooled), self.attention_head(attended)], dim=1)

    def label_logits(self, rows: Tensor) -> Tensor:
        """Map flattened maps (b, c H W) to the label branch's logits alone, (b, k)."""
        found: Tensor = self.label_head(self.label_conv(self._clusters(rows)).mean((2, 3)))
        return found

    def windows(self, rows: Tensor) -> Gaussian:
        """Return the windows of flattened maps, on a map of side 1."""
        return self._gaussian(self._clusters(rows))

    @property
    def alpha(self) -> float:
        """Width factor of Eq. 9."""
        return self.options.alpha

    def _clusters(self, rows: Tensor) -> Tensor:
        found: Tensor = self.to_clusters(rows.reshape(-1, *self.map_shape))
        return found

    def _gaussian(self, clusters: Tensor) -> Gaussian:
        raw = self.window_layer(self.window_conv(clusters).flatten(1))
        return WINDOWS[self.options.window](raw, min_variance=self.options.min_variance)


def _convolution(
    before: int, after: int, kernel: int, stride: int = 1, padding: int = 0
) -> list[nn.Module]:
    return [
        nn.Conv2d(before, after, kernel, stride, padding=padding, bias=False),
        BatchNorm(after),
        nn.ReLU(inplace=True),
    ]


def _head(before: int, k: int, layers: int) -> nn.Sequential:
    """Linear layers with ReLU between them; no batch normalization, as printed."""
    found: list[nn.Module] = []
    for a, b in pairwise([before, *[k] * layers]):
        found += [nn.Linear(a, b), nn.ReLU(inplace=True)]
    return nn.Sequential(*found[:-1])
