"""Draw the random numbers of views, apart from what is made of them.

Each sample owns a row of numbers, and each piece of an augmentation its columns, so that neither
the other samples of a part nor the other pieces change what it gets.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from ...algos.core.errors import (
    DeviceMismatchError,
    InvalidTypeError,
    InvalidValueError,
    UsageError,
)
from ..config.run import AugmentConfig
from .crops import TRIES

__all__ = ["AFFINE", "COLUMNS", "PIXEL_COLUMNS", "Numbers", "draw_numbers", "pieces_of"]

# Columns of the uniform numbers of a sample. Each piece owns its columns, drawn or not used, so
# that switching one piece off leaves the draws of the others as they were.
COLUMNS = (
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
PIXEL_COLUMNS = ("jitter", "bright", "stretch", "saturate", "turn", "gray", "solarize")
_PIXEL = frozenset({"crop", "jitter", "gray", "solarize"})
AFFINE = frozenset({"rotate", "translate", "scale", "shear", "flip"})
_OF_VECTORS = frozenset({"noise", "mask"})
# Settings that say how a piece works, not whether it is on, or which sample it is made of.
_MANNERS = frozenset({"ratio", "jitter_probability", "blur_sigma", "neighbors"})
# Control points of the elastic field along each side: bends of about a third of the image.
_FIELD = 4


class Numbers(NamedTuple):
    """Random numbers of each row, as far as the options have a use for them.

    Attributes
    ----------
    uniform : (b, columns) tensor in [0, 1), of images.
    knots : (b, 2, control points, control points) tensor in [0, 1), of the elastic field.
    normal : tensor of the shape of the views, of the noise.
    pixels : (b, columns) tensor in [0, 1), of crops and colors.
    mask : (b, d) tensor in [0, 1), of embeddings.
    """

    uniform: Tensor | None = None
    knots: Tensor | None = None
    normal: Tensor | None = None
    pixels: Tensor | None = None
    mask: Tensor | None = None


def draw_numbers(
    images: Tensor,
    options: AugmentConfig,
    generator: torch.Generator,
    part: tuple[int, int] | None = None,
) -> Numbers:
    """Draw what `augment_by` makes a view of each image from: all that chance decides.

    Parameters, and the errors raised, are those of `augment`.
    """
    start, total = part or (0, len(images))
    _check(images, generator, start, total)
    pieces = pieces_of(options)
    if not pieces:
        return Numbers()
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
    if vectors:
        return Numbers(
            normal=draw.normal(images.shape[1]) if options.noise else None,
            mask=draw.uniform(images.shape[1]) if options.mask else None,
        )
    channels, *sides = images.shape[1:]
    h, w = (options.size or side for side in sides)
    columns = 2 * TRIES + 2 + len(PIXEL_COLUMNS)
    return Numbers(
        uniform=draw.uniform(len(COLUMNS)),
        knots=draw.uniform(2, _FIELD, _FIELD) if options.elastic else None,
        normal=draw.normal(channels, h, w) if options.noise else None,
        pixels=draw.uniform(columns) if pieces & _PIXEL else None,
    )


@lru_cache
def pieces_of(options: AugmentConfig) -> frozenset[str]:
    """Names of the pieces that are on."""
    off = AugmentConfig()
    names = set(AugmentConfig.__dataclass_fields__) - _MANNERS
    on = {name for name in names if getattr(options, name) != getattr(off, name)}
    return frozenset(on if options.jitter_probability else on - {"jitter"})


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
