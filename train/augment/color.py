"""Change the colors and the sharpness of a batch of images, each sample by numbers of its own.

Images are in pixel units from 0 to 1 and stay there, as Pillow's stay between 0 and 255; nothing
is rounded to whole values between two steps. Gray is the luma of ITU-R BT.601, which Pillow and
torchvision use. Changes of color leave an image with one channel as it is. Which samples are
changed is drawn in `views`, by the probabilities of `config.augment`.
"""

from __future__ import annotations

import torch

from ...algos.core.errors import InvalidValueError

__all__ = ["blur", "brightness", "contrast", "grayscale", "hue", "jitter", "saturation", "solarize"]

_LUMA = (0.299, 0.587, 0.114)


def jitter(images: torch.Tensor, factors: torch.Tensor, turn: torch.Tensor) -> torch.Tensor:
    """Change brightness, contrast, saturation and hue, in this order for every sample.

    The published pipelines draw the order anew for each image; the four nearly commute for the
    strengths in use, and one order costs the same number of operations for any batch.

    Parameters
    ----------
    images : (b, c, h, w) float tensor in [0, 1]; c is 1 or 3.
    factors : (b, 3) tensor, 0 or more. Of brightness, contrast and saturation; 1 changes nothing.
    turn : (b,) tensor. Of the hue, in turns of the color circle.
    """
    images = brightness(images, factors[:, 0])
    images = contrast(images, factors[:, 1])
    return hue(saturation(images, factors[:, 2]), turn)


def brightness(images: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
    """Multiply each sample by its (b,) factor."""
    return (images * _wide(factor)).clamp(max=1)


def contrast(images: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
    """Stretch each sample about the mean of its gray version."""
    return _blend(images, _luma(images).mean((1, 2, 3), keepdim=True), factor)


def saturation(images: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
    """Stretch each sample's colors about its gray version."""
    return images if images.shape[1] == 1 else _blend(images, _luma(images), factor)


def hue(images: torch.Tensor, turn: torch.Tensor) -> torch.Tensor:
    """Turn each sample's colors about the circle of hue, saturation and value (HSV)."""
    if images.shape[1] == 1:
        return images
    red, green, blue = torch.split(images, 1, dim=1)
    value, least = images.amax(1, keepdim=True), images.amin(1, keepdim=True)
    chroma = value - least
    # A gray pixel has no hue: its chroma of 0 makes any hue right.
    scale = torch.where(chroma > 0, chroma, 1)
    sixths = torch.where(
        value == red,
        (green - blue) / scale,
        torch.where(value == green, 2 + (blue - red) / scale, 4 + (red - green) / scale),
    )
    # A channel falls from the value to the least within two sixths from its own third.
    offsets = torch.linspace(5, 1, 3, dtype=images.dtype, device=images.device)[:, None, None]
    k = torch.remainder(offsets + sixths + 6 * _wide(turn), 6)
    return value - chroma * torch.minimum(k, 4 - k).clamp(0, 1)


def grayscale(images: torch.Tensor) -> torch.Tensor:
    """Replace every channel by the luma."""
    return _luma(images).expand_as(images)


def solarize(images: torch.Tensor) -> torch.Tensor:
    """Invert the values of the brighter half, 128 and above of 255."""
    return torch.where(images >= 0.5, 1 - images, images)


def blur(images: torch.Tensor, sigma: torch.Tensor) -> torch.Tensor:
    """Blur each sample by a Gaussian of its own width.

    A separable blur is a matrix product from each side, (h + w) multiplications for each value;
    rows sum to 1, so that the border needs no padding.

    Parameters
    ----------
    images : (b, c, h, w) float tensor, in any units.
    sigma : (b,) tensor, pixels, above 0. Below 0.04 the sample stays as it is, exactly.
    """
    down, across = (_gaussian(side, sigma) for side in images.shape[2:])
    return down @ images @ across.mT


def _gaussian(side: int, sigma: torch.Tensor) -> torch.Tensor:
    at = torch.arange(side, dtype=sigma.dtype, device=sigma.device)
    steps = (at[:, None] - at) / sigma[:, None, None]
    return torch.softmax(-0.5 * steps**2, dim=-1)[:, None]


def _wide(x: torch.Tensor) -> torch.Tensor:
    return x[:, None, None, None]


def _blend(images: torch.Tensor, other: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
    return (other + _wide(factor) * (images - other)).clamp(0, 1)


def _luma(images: torch.Tensor) -> torch.Tensor:
    channels = images.shape[1]
    if channels not in (1, 3):
        msg = (
            f"jitter and gray need images with 1 or 3 channels, got {channels}. "
            f"To fix: set jitter, gray and solarize to 0"
        )
        raise InvalidValueError(msg)
    if channels == 1:
        return images
    red, green, blue = torch.split(images, 1, dim=1)
    luma: torch.Tensor = _LUMA[0] * red + _LUMA[1] * green + _LUMA[2] * blue
    return luma
