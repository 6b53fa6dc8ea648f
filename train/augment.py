"""Views of a batch of images: each sample drawn by itself, all on the images' device.

A step calls this twice for every image, so it must neither wait for the device nor loop over
samples: the number of operations depends on the options alone, never on the batch, and no value is
read back. What an option switches off costs nothing.

Everything happens relative to the background: a view that looks past the border, a cut-out square
and a stretched contrast all leave the background as it was. With normalized images the background
is rarely 0 (the paper around a digit lies at about -0.8), so its value is an argument.
"""

from __future__ import annotations

import math

import torch
from torch.nn import functional as F

from ..algos.errors import DeviceMismatchError, InvalidTypeError, InvalidValueError
from .config import AugmentConfig

__all__ = ["affine_matrix", "augment", "warp"]

# Columns of the uniform numbers of a sample. Each piece owns its columns, drawn or not used, so
# that switching one piece off leaves the draws of the others as they were.
_COLUMNS = (
    "angle",
    "shift_x",
    "shift_y",
    "zoom",
    "shear",
    "flip",
    "contrast",
    "brightness",
    "blur",
    "sigma",
    "cut_x",
    "cut_y",
)
# Control points of the elastic field along each side: bends of about a third of the image.
_FIELD = 4


def augment(
    images: torch.Tensor,
    options: AugmentConfig,
    generator: torch.Generator,
    background: torch.Tensor | None = None,
) -> torch.Tensor:
    """Draw one random view of each image.

    In this order: affine map and elastic field (one bilinear resampling), contrast, blur,
    brightness, noise, cut-out.

    Parameters
    ----------
    images : (b, c, h, w) float32 or float64 tensor, normalized.
    options : the strength of each piece, with its unit; see `config.AugmentConfig`.
    generator : source of randomness, on the device of `images`.
    background : (c,) tensor, in the units of `images`, as `data.ImageData` holds it; None means 0.

    Returns
    -------
    views : (b, c, h, w) tensor, dtype and device of `images`. With every option off, `images`.

    Raises
    ------
    InvalidTypeError
        If `images` is not float32 or float64.
    InvalidValueError
        If `images` has not four axes.
    DeviceMismatchError
        If `generator` lives on another device.

    Notes
    -----
    Differentiable with respect to `images`. Autocast is switched off inside: positions in half
    precision are off by up to a pixel.

    Examples
    --------
    >>> images = torch.rand(2, 1, 8, 8)
    >>> rng = torch.Generator().manual_seed(0)
    >>> augment(images, AugmentConfig(), rng) is images
    True
    >>> augment(images, AugmentConfig(rotate=10, translate=0.1), rng).shape
    torch.Size([2, 1, 8, 8])
    """
    _check(images, generator)
    if options == AugmentConfig():
        return images
    with torch.autocast(images.device.type, enabled=False):
        return _augment(images, options, generator, background)


def _augment(
    images: torch.Tensor,
    options: AugmentConfig,
    generator: torch.Generator,
    background: torch.Tensor | None,
) -> torch.Tensor:
    b, _, h, w = images.shape
    dtype, device = images.dtype, images.device
    uniform = torch.rand(b, len(_COLUMNS), generator=generator, dtype=dtype, device=device)
    u = dict(zip(_COLUMNS, uniform.unbind(1), strict=True))
    shift = None if background is None else background.to(images.dtype)[:, None, None]
    # From here to the end, 0 is the background.
    views = images if shift is None else images - shift

    moves = (options.rotate, options.translate, options.shear, options.flip)
    theta = field = None
    if any(moves) or options.scale != (1.0, 1.0):
        low, high = map(math.log, options.scale)
        theta = affine_matrix(
            angle=math.radians(options.rotate) * (2 * u["angle"] - 1),
            shift_x=options.translate * (2 * u["shift_x"] - 1),
            shift_y=options.translate * (2 * u["shift_y"] - 1),
            zoom=torch.exp(low + (high - low) * u["zoom"]),
            shear=math.radians(options.shear) * (2 * u["shear"] - 1),
            flip=(u["flip"] < 0.5)
            if options.flip
            else torch.zeros_like(u["flip"], dtype=torch.bool),
            height=h,
            width=w,
        )
    if options.elastic:
        knots = torch.rand(b, 2, _FIELD, _FIELD, generator=generator, dtype=dtype, device=device)
        knots = 2 * options.elastic * (2 * knots - 1)
        field = F.interpolate(knots, (h, w), mode="bicubic", align_corners=True)
    if theta is not None or field is not None:
        views = warp(views, theta, field)
    if options.contrast:
        views = views * (1 + options.contrast * (2 * u["contrast"] - 1))[:, None, None, None]
    if options.blur:
        views = _blur(views, u["blur"] < options.blur, u["sigma"])
    if options.brightness:
        views = views + (options.brightness * (2 * u["brightness"] - 1))[:, None, None, None]
    if options.noise:
        views = views + options.noise * torch.randn(
            images.shape, generator=generator, dtype=dtype, device=device
        )
    if options.cutout:
        rows = _outside(u["cut_y"], h, options.cutout)
        columns = _outside(u["cut_x"], w, options.cutout)
        views = views * (rows[:, None, :, None] | columns[:, None, None, :])
    return views if shift is None else views + shift


def affine_matrix(
    *,
    angle: torch.Tensor,
    shift_x: torch.Tensor,
    shift_y: torch.Tensor,
    zoom: torch.Tensor,
    shear: torch.Tensor,
    flip: torch.Tensor,
    height: int,
    width: int,
) -> torch.Tensor:
    """Matrix that maps a pixel of the view to the place in the image where it is read.

    The view is the image flipped, then sheared, zoomed, rotated about its center, and shifted.

    Parameters
    ----------
    angle : (b,) tensor, radians, counterclockwise as seen.
    shift_x, shift_y : (b,) tensors, share of width and height; right and down are positive.
    zoom : (b,) tensor, above 0. Magnification: 2 shows the object twice as large.
    shear : (b,) tensor, radians. Angle by which upright lines lean to the right.
    flip : (b,) bool tensor. Whether left and right are exchanged.
    height, width : int, pixels. Angles are angles of pixels, also in an image that is not square.

    Returns
    -------
    theta : (b, 2, 3) tensor, in the coordinates of `torch.nn.functional.affine_grid`.
    """
    cos, sin, lean = torch.cos(angle) / zoom, torch.sin(angle) / zoom, torch.tan(shear)
    sign = 1 - 2 * flip.to(angle.dtype)
    # Undo the steps in reverse: rotation and zoom, then shear, then flip. y points down.
    x_x, x_y = sign * (cos + lean * sin), sign * (lean * cos - sin)
    y_x, y_y = sin, cos
    # The grid runs from -1 to 1 along each side, whatever its length in pixels.
    x_y, y_x = x_y * (height / width), y_x * (width / height)
    dx, dy = 2 * shift_x, 2 * shift_y
    rows = [
        torch.stack([x_x, x_y, -(x_x * dx + x_y * dy)], dim=1),
        torch.stack([y_x, y_y, -(y_x * dx + y_y * dy)], dim=1),
    ]
    return torch.stack(rows, dim=1)


def warp(
    images: torch.Tensor, theta: torch.Tensor | None, field: torch.Tensor | None = None
) -> torch.Tensor:
    """Resample images bilinearly along an affine map and a displacement field; 0 lies outside.

    Parameters
    ----------
    images : (b, c, h, w) float tensor.
    theta : (b, 2, 3) tensor from `affine_matrix`, or None for the identity.
    field : (b, 2, h, w) tensor or None. Displacement (x, y) added, where a side is 2 long.
    """
    if theta is None:
        theta = torch.eye(2, 3, dtype=images.dtype, device=images.device)
        theta = theta.expand(len(images), 2, 3)
    grid = F.affine_grid(theta, list(images.shape), align_corners=False)
    if field is not None:
        grid = grid + field.permute(0, 2, 3, 1)
    return F.grid_sample(images, grid, mode="bilinear", padding_mode="zeros", align_corners=False)


def _blur(views: torch.Tensor, chosen: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
    """Blur the chosen samples by a Gaussian of their own width.

    A separable blur is a matrix product from each side. Rows sum to 1, so that the border needs
    no padding; a sample that is not chosen gets the identity, exactly.
    """
    h, w = views.shape[2:]
    largest = min(2.0, min(h, w) / 16)
    sigma = torch.where(chosen, largest * (0.1 + 0.9 * u), 0.02)
    down, across = (_gaussian(side, sigma) for side in (h, w))
    return down @ views @ across.mT


def _gaussian(side: int, sigma: torch.Tensor) -> torch.Tensor:
    at = torch.arange(side, dtype=sigma.dtype, device=sigma.device)
    steps = (at[:, None] - at) / sigma[:, None, None]
    return torch.softmax(-0.5 * steps**2, dim=-1)[:, None]


def _outside(u: torch.Tensor, side: int, share: float) -> torch.Tensor:
    """Whether each pixel of a side lies outside a segment of `share` of it, centered at `u`."""
    centers = (torch.arange(side, dtype=u.dtype, device=u.device) + 0.5) / side
    return (centers - u[:, None]).abs() > share / 2


def _check(images: torch.Tensor, generator: torch.Generator) -> None:
    if images.dtype not in (torch.float32, torch.float64):
        msg = f"images must be float32 or float64, got {images.dtype}. To fix: data.normalize"
        raise InvalidTypeError(msg)
    if images.ndim != 4:
        msg = f"images must have shape (b, c, h, w), got {tuple(images.shape)}"
        raise InvalidValueError(msg)
    if generator.device != images.device:
        msg = f"generator lives on {generator.device}, images on {images.device}; both must agree"
        raise DeviceMismatchError(msg)
