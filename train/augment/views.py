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
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn import functional as F

from ...algos.core.errors import (
    DeviceMismatchError,
    InvalidTypeError,
    InvalidValueError,
    UsageError,
)
from ...common.devices import kind_of
from ..config.run import AugmentConfig
from . import color
from .crops import TRIES, crop_boxes
from .geometry import affine_matrix, warp

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
# The second table, drawn where one of its pieces is on: `TRIES` areas and ratios, two places, then
# one column each.
_PIXEL_COLUMNS = ("jitter", "bright", "stretch", "saturate", "turn", "gray", "solarize")
_PIXEL = frozenset({"crop", "jitter", "gray", "solarize"})
_AFFINE = frozenset({"rotate", "translate", "scale", "shear", "flip"})
_OF_VECTORS = frozenset({"noise", "mask"})
# Settings that say how a piece works, not whether it is on.
_MANNERS = frozenset({"ratio", "jitter_probability", "blur_sigma"})
# Control points of the elastic field along each side: bends of about a third of the image.
_FIELD = 4


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
    start, total = part or (0, len(images))
    _check(images, generator, start, total)
    pieces = _pieces(options)
    if not pieces:
        return images
    vectors = images.ndim == 2
    wrong = pieces - _OF_VECTORS if vectors else pieces & {"mask"}
    if wrong:
        kind = "embeddings" if vectors else "images"
        msg = (
            f"augment.{min(wrong)} is not for {kind}, and the samples have shape "
            f"{tuple(images.shape[1:])}. To fix: leave out {', '.join(sorted(wrong))}"
        )
        raise UsageError(msg)
    draw = _Draws(images, generator, start, total)
    with kind_of(images.device).autocast(images.device, None):
        if vectors:
            return _vectors(images, options, draw)
        return _augment(images, options, pieces, draw, background, scale)


class _Draws:
    """Uniform and normal numbers for the rows of one part of a batch."""

    def __init__(self, like: Tensor, generator: torch.Generator, start: int, total: int) -> None:
        self.generator, self.total = generator, total
        self.rows = slice(start, start + len(like))
        self.like = like

    def uniform(self, *shape: int) -> Tensor:
        """Numbers of each row in [0, 1)."""
        whole = torch.rand(
            (self.total, *shape),
            generator=self.generator,
            dtype=self.like.dtype,
            device=self.like.device,
        )
        return whole[self.rows]

    def normal(self, *shape: int) -> Tensor:
        """Numbers of each row, of mean 0 and variance 1."""
        whole = torch.randn(
            (self.total, *shape),
            generator=self.generator,
            dtype=self.like.dtype,
            device=self.like.device,
        )
        return whole[self.rows]


@lru_cache
def _pieces(options: AugmentConfig) -> frozenset[str]:
    """Names of the pieces that are on."""
    off = AugmentConfig()
    names = set(AugmentConfig.__dataclass_fields__) - _MANNERS
    on = {name for name in names if getattr(options, name) != getattr(off, name)}
    return frozenset(on if options.jitter_probability else on - {"jitter"})


def _vectors(rows: Tensor, options: AugmentConfig, draw: _Draws) -> Tensor:
    if options.noise:
        rows = rows + options.noise * draw.normal(rows.shape[1])
    if options.mask:
        rows = rows * (draw.uniform(rows.shape[1]) >= options.mask)
    return rows


def _augment(
    images: Tensor,
    options: AugmentConfig,
    pieces: frozenset[str],
    draw: _Draws,
    background: Tensor | None,
    scale: tuple[Tensor, Tensor] | None,
) -> Tensor:
    channels, *sides = images.shape[1:]
    h, w = (options.size or side for side in sides)
    u = dict(zip(_COLUMNS, draw.uniform(len(_COLUMNS)).unbind(1), strict=True))
    knots = draw.uniform(2, _FIELD, _FIELD) if options.elastic else None
    noise = draw.normal(channels, h, w) if options.noise else None
    v = draw.uniform(2 * TRIES + 2 + len(_PIXEL_COLUMNS)) if pieces & _PIXEL else None
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
    if pieces & _AFFINE:
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
    names = dict(zip(_PIXEL_COLUMNS, v[:, -len(_PIXEL_COLUMNS) :].unbind(1), strict=True))
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


def _check(images: Tensor, generator: torch.Generator, start: int, total: int) -> None:
    if images.dtype not in (torch.float32, torch.float64):
        msg = f"images must be float32 or float64, got {images.dtype}. To fix: data.normalize"
        raise InvalidTypeError(msg)
    if images.ndim not in (2, 4):
        msg = (
            f"images must have shape (b, c, h, w) or (b, d), got {tuple(images.shape)}"
            ". To fix this, add the axis that is missing: images[None] for one image, "
            "images[:, None] for gray ones"
        )
        raise InvalidValueError(msg)
    if not 0 <= start <= total - len(images):
        msg = (
            f"part must be (start, total) with start + {len(images)} images <= total, "
            f"got ({start}, {total})"
        )
        raise InvalidValueError(msg)
    if generator.device != images.device:
        msg = f"generator lives on {generator.device}, images on {images.device}; both must agree"
        raise DeviceMismatchError(msg)
