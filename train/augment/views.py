"""Draw views of a batch of images or embeddings on their device, each by its own numbers.

A step calls this twice for every image, so it must neither wait for the device nor loop over
samples: the number of operations depends on the options alone, never on the batch, and no value is
read back. What an option switches off costs nothing.

Geometry, contrast, noise and cut-out act relative to the background: a view that looks past the
border, a cut-out square and a stretched contrast all leave the background as it was. With
normalized images the background is rarely 0 (the paper around a digit lies at about -0.8), so its
value is an argument. Colors are changed in pixel units (`color`), as the published recipes have
them.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from ...common.devices import kind_of
from ..config.run import AugmentConfig
from . import color
from .crops import TRIES, crop_boxes
from .draws import AFFINE, COLUMNS, PIXEL_COLUMNS, Numbers, draw_numbers, pieces_of
from .geometry import affine_matrix, warp

__all__ = ["affine_matrix", "augment", "augment_by", "warp"]


def augment(
    images: Tensor,
    options: AugmentConfig,
    generator: torch.Generator,
    background: Tensor | None = None,
    *,
    part: tuple[int, int] | None = None,
    scale: tuple[Tensor, Tensor] | None = None,
) -> Tensor:
    """Draw one random view of each image, or of each embedding.

    Images, in this order: crop, affine map and elastic field (one bilinear resampling), contrast,
    color jitter (brightness, contrast, saturation, hue), gray, blur, solarization, brightness,
    noise, cut-out. Embeddings: noise, then mask.

    Parameters
    ----------
    images : (b, c, h, w) or (b, d) float32 or float64 tensor, normalized.
    options : the strength of each piece, with its unit; see `config.AugmentConfig`.
    generator : source of randomness, on the device of `images`.
    background : (c,) tensor, in the units of `images`, as `data.ImageData` holds it; None means 0.
    part : (start, total), optional. `images` are rows `start` and following of a batch of `total`:
        each gets the numbers that it would get in the whole batch.
    scale : (mean, std), (c,) tensors, optional. What `images` were normalized with; the jitter, the
        gray and the solarization work in units of pixels. None: they are from 0 to 1 as they are.

    Returns
    -------
    views : (b, c, h', w') or (b, d) tensor, dtype and device of `images`. With every option off,
        `images`.

    Raises
    ------
    InvalidTypeError
        If `images` is not float32 or float64.
    InvalidValueError
        If `images` has neither two nor four axes, `part` does not hold them, or an option changes
        the colors of images that have neither 1 nor 3 channels.
    UsageError
        If an option is on that is not for this kind of sample.
    DeviceMismatchError
        If `generator` lives on another device.

    Notes
    -----
    Differentiable with respect to `images`. Autocast is switched off inside: positions in half
    precision are off by up to a pixel.

    A view has fewer pixels than the part it shows where `size` is small; it then averages several
    places for each pixel, as many along a side as the largest crop has pixels for one, rounded.

    Examples
    --------
    >>> images = torch.rand(2, 1, 8, 8)
    >>> from dualclust.train.state.seeding import generator
    >>> rng = generator(0, "augment")
    >>> augment(images, AugmentConfig(), rng) is images
    True
    >>> augment(images, AugmentConfig(rotate=10, translate=0.1), rng).shape
    torch.Size([2, 1, 8, 8])
    """
    numbers = draw_numbers(images, options, generator, part)
    return augment_by(images, options, numbers, background, scale)


def augment_by(
    images: Tensor,
    options: AugmentConfig,
    numbers: Numbers,
    background: Tensor | None = None,
    scale: tuple[Tensor, Tensor] | None = None,
) -> Tensor:
    """Make the views that the numbers say: `augment` without chance.

    Parameters are those of `augment`, and `numbers` of `draw_numbers` for the same images and
    options. Nothing is decided on the host but by the options, so that a device can record it once
    and do it again with other images and numbers (`loop.execution`).
    """
    pieces = pieces_of(options)
    if not pieces:
        return images
    with kind_of(images.device).autocast(images.device, None):
        if images.ndim == 2:
            return _vectors(images, options, numbers)
        return _augment(images, options, pieces, numbers, background, scale)


def _vectors(rows: Tensor, options: AugmentConfig, numbers: Numbers) -> Tensor:
    if numbers.normal is not None:
        rows = rows + options.noise * numbers.normal
    if numbers.mask is not None:
        rows = rows * (numbers.mask >= options.mask)
    return rows


def _augment(
    images: Tensor,
    options: AugmentConfig,
    pieces: frozenset[str],
    numbers: Numbers,
    background: Tensor | None,
    scale: tuple[Tensor, Tensor] | None,
) -> Tensor:
    h, w = (options.size or side for side in images.shape[2:])
    _, knots, noise, v, _ = numbers
    assert numbers.uniform is not None  # images have them
    u = dict(zip(COLUMNS, numbers.uniform.unbind(1), strict=True))
    shift = None if background is None else background.to(images.dtype)[:, None, None]
    # From here to the end, 0 is the background.
    views = images if shift is None else images - shift

    views = _move(views, options, pieces, u, v, knots, (h, w))
    if options.contrast:
        views = views * (1 + options.contrast * (2 * u["contrast"] - 1))[:, None, None, None]
    if v is not None and pieces & {"jitter", "gray"}:
        views = _in_pixels(views, shift, scale, lambda x: _colors(x, options, pieces, v))
    if options.blur:
        low, high = options.blur_sigma
        sigma = torch.where(u["blur"] < options.blur, low + (high - low) * u["sigma"], 0.02)
        views = color.blur(views, sigma)
    if v is not None and options.solarize:
        chosen = v[:, -1, None, None, None] < options.solarize
        views = _in_pixels(views, shift, scale, lambda x: torch.where(chosen, color.solarize(x), x))
    if options.brightness:
        views = views + (options.brightness * (2 * u["brightness"] - 1))[:, None, None, None]
    if noise is not None:
        views = views + options.noise * noise
    if options.cutout:
        rows = _outside(u["cut_y"], h, options.cutout)
        columns = _outside(u["cut_x"], w, options.cutout)
        views = views * (rows[:, None, :, None] | columns[:, None, None, :])
    return views if shift is None else views + shift


def _move(
    views: Tensor,
    options: AugmentConfig,
    pieces: frozenset[str],
    u: dict[str, Tensor],
    v: Tensor | None,
    knots: Tensor | None,
    size: tuple[int, int],
) -> Tensor:
    """Crop, affine map and elastic field."""
    h, w = views.shape[2:]
    theta = field = boxes = None
    finer = 1
    if pieces & AFFINE:
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
            height=size[0],
            width=size[1],
        )
    if knots is not None:
        knots = 2 * options.elastic * (2 * knots - 1)
        field = F.interpolate(knots, size, mode="bicubic", align_corners=True)
    if "crop" in pieces and v is not None:
        area, ratio, at = v[:, :TRIES], v[:, TRIES : 2 * TRIES], v[:, 2 * TRIES : 2 * TRIES + 2]
        boxes = crop_boxes(
            area, ratio, at, crop=options.crop, ratios=options.ratio, height=h, width=w
        )
    elif options.size:
        whole = [torch.full_like(u["angle"], side) for side in (0, 0, w, h)]
        boxes = torch.stack(whole, dim=1)
    if options.size:
        finer = max(1, round(math.sqrt(options.crop[1] * h * w) / options.size))
    if theta is None and field is None and boxes is None:
        return views
    return warp(views, theta, field, boxes, size=size, finer=finer)


def _colors(pixels: Tensor, options: AugmentConfig, pieces: frozenset[str], v: Tensor) -> Tensor:
    """Jitter, then gray, of images in [0, 1]."""
    names = dict(zip(PIXEL_COLUMNS, v[:, -len(PIXEL_COLUMNS) :].unbind(1), strict=True))
    if "jitter" in pieces:
        *strengths, turn = options.jitter
        factors = [
            _between(names[name], max(0.0, 1 - strength), 1 + strength)
            for name, strength in zip(("bright", "stretch", "saturate"), strengths, strict=True)
        ]
        jittered = color.jitter(
            pixels, torch.stack(factors, dim=1), _between(names["turn"], -turn, turn)
        )
        chosen = names["jitter"] < options.jitter_probability
        pixels = torch.where(chosen[:, None, None, None], jittered, pixels)
    if options.gray:
        chosen = names["gray"] < options.gray
        pixels = torch.where(chosen[:, None, None, None], color.grayscale(pixels), pixels)
    return pixels


def _between(u: Tensor, low: float, high: float) -> Tensor:
    return low + (high - low) * u


def _in_pixels(
    views: Tensor,
    shift: Tensor | None,
    scale: tuple[Tensor, Tensor] | None,
    function: Callable[[Tensor], Tensor],
) -> Tensor:
    """Apply a function of images in [0, 1] to views whose 0 is the background."""
    pixels = views if shift is None else views + shift
    if scale is not None:
        mean, std = (x.to(views.dtype)[:, None, None] for x in scale)
        pixels = pixels * std + mean
    pixels = function(pixels.clamp(0, 1))
    if scale is not None:
        pixels = (pixels - mean) / std
    return pixels if shift is None else pixels - shift


def _outside(u: Tensor, side: int, share: float) -> Tensor:
    """Whether each pixel of a side lies outside a segment of `share` of it, centered at `u`."""
    centers = (torch.arange(side, dtype=u.dtype, device=u.device) + 0.5) / side
    return (centers - u[:, None]).abs() > share / 2
