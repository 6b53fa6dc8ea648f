"""Named constants that images are normalized with, in place of the data's own mean and deviation.

The released scripts divide by constants that are passed on from script to script. For CIFAR-10 they
are (.202, .199, .201), where the deviation of its training pixels is (.245, .243, .261): inputs are
1.2 to 1.3 times as large as with their own, and so is the gradient of the first convolution.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ...algos.core.errors import UsageError
from .pictures import PictureData
from .samples import ImageData, Samples

__all__ = ["INPUT_SCALES", "InputScale", "as_pixels", "rescaled"]


class InputScale(NamedTuple):
    """Mean and deviation of red, green and blue, on the scale where 255 is 1."""

    mean: tuple[float, float, float]
    std: tuple[float, float, float]


INPUT_SCALES = {
    "cifar10": InputScale((0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)),
    "cifar100": InputScale((0.5071, 0.4867, 0.4408), (0.2675, 0.2565, 0.2761)),
    "imagenet": InputScale((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    # Equal in all channels: a gray picture made of normalized channels is the normalized gray one.
    "imagenet-gray": InputScale((0.449, 0.449, 0.449), (0.226, 0.226, 0.226)),
    "none": InputScale((0.0, 0.0, 0.0), (1.0, 1.0, 1.0)),
}
"""What SeCu, CoKe and ProPos divide by in their scripts; what GATCluster does on ImageNet-10, after
pictures have turned gray, and on STL-10."""


def rescaled(data: Samples, name: str) -> Samples:
    """Normalize images with named constants; the background stays the same pixel.

    Parameters
    ----------
    data : ImageData or PictureData, or EmbeddingData with ``name="own"``.
    name : str. ``"own"``, which changes nothing, or a key of `INPUT_SCALES`.

    Returns
    -------
    data : Samples. The images themselves are shared.

    Raises
    ------
    UsageError
        If the samples are embeddings, or images without three channels.
    """
    if name == "own":
        return data
    channels = data.shape[0] if isinstance(data, ImageData | PictureData) else 0
    if not isinstance(data, ImageData | PictureData) or channels != 3:
        kind = f"images of {channels} channel" if channels else "embeddings"
        msg = (
            f"data.normalization={name!r} is for images of three channels, and the samples are "
            f"{kind}. To fix this, set data.normalization='own'"
        )
        raise UsageError(msg)
    mean, std = (torch.tensor(x, device=data.mean.device) for x in INPUT_SCALES[name])
    return _scaled(data, mean, std)


def as_pixels(data: Samples, encoder: str) -> Samples:
    """Leave pixels as they are, from 0 to 1, for an encoder that normalizes them itself.

    Raises
    ------
    UsageError
        If the samples are embeddings.
    """
    if not isinstance(data, ImageData | PictureData):
        msg = (
            f"network.name={encoder!r} takes images, and the samples are embeddings of shape "
            f"{data.shape}. To fix this, set network.name to 'none' or 'mlp'"
        )
        raise UsageError(msg)
    return _scaled(data, torch.zeros_like(data.mean), torch.ones_like(data.std))


def _scaled(data: ImageData | PictureData, mean: Tensor, std: Tensor) -> Samples:
    pixel = data.background * data.std + data.mean
    return data._replace(mean=mean, std=std, background=(pixel - mean) / std)
