"""Which part of a picture becomes a view, and how large it is made: numbers alone, no pixels.

`crop_boxes` draws the boxes for a batch of images of one size, on their device; `random_cut` draws
one by the same rule for a picture that stays in its file, on the whole picture, in pixels of the
file, whatever its size and shape. A plain cut is what evaluation sees. Both cuts are carried out by
`picture_files`, where pictures are decoded, and a picture may be decoded at a reduced scale if all
that is cut from it shrinks anyway.
The areas and aspect ratios to draw from are settings (`config.augment`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch

from ...algos.core.checks import choice_fix
from ...algos.core.errors import UsageError
from ..config.run import FITS

__all__ = [
    "NUMBERS",
    "TRIES",
    "Cut",
    "crop_boxes",
    "plain_cut",
    "random_cut",
    "reduction",
    "row_like",
]

# Random crops are drawn anew where they do not fit, this many times, then given up.
TRIES = 10
# Uniform numbers that one random cut takes: areas, ratios, and a place along x and y.
NUMBERS = 2 * TRIES + 2
# Pixels of a reduced picture for one of the view, along a side, at least. With 2 the view differs
# from that of the full picture by 1 to 3 of 255 (rms), where two customary filters, bilinear and
# bicubic, differ by 3; with 1 by 4 to 6.
SPARE = 2


class Cut(NamedTuple):
    """A box of a picture, the size it is resampled to, and the square kept of that.

    Attributes
    ----------
    box : (left, top, width, height), whole pixels of the upright picture.
    resized : (width, height). What the box is resampled to, by a filter that averages.
    corner : (left, top). Where in that the view begins.
    size : int. Side of the view.
    filter : ``"bilinear"`` or ``"bicubic"``.
    """

    box: tuple[int, int, int, int]
    resized: tuple[int, int]
    corner: tuple[int, int]
    size: int
    filter: str = "bilinear"


def plain_cut(width: int, height: int, *, size: int, fit: str = "crop") -> Cut:
    """Cut that shows a picture as it is, without a random number.

    Parameters
    ----------
    width, height : int, pixels of the picture.
    size : int. Side of the view.
    fit : str. ``"crop"``: the shorter side becomes `size` and the middle is kept, with
        ``"crop-bilinear"`` by another filter. ``"imagenet"``: the shorter side becomes 256/224 of
        `size` and the middle is kept, the customary protocol of evaluation on ImageNet, rounded as
        torchvision does. ``"squash"``: each side becomes `size`, whatever the picture's shape.

    Examples
    --------
    >>> plain_cut(500, 375, size=224, fit="imagenet").resized
    (341, 256)
    """
    whole = (0, 0, width, height)
    short = min(width, height)
    if fit == "squash":
        return Cut(whole, (size, size), (0, 0), size)
    if fit in ("crop", "crop-bilinear"):
        across, down = (max(size, round(side * (size / short))) for side in (width, height))
        return Cut(
            whole,
            (across, down),
            ((across - size) // 2, (down - size) // 2),
            size,
            "bicubic" if fit == "crop" else "bilinear",
        )
    if fit == "imagenet":
        target = round(size * 256 / 224)
        across, down = (target if s == short else target * s // short for s in (width, height))
        return Cut(
            whole, (across, down), (round((across - size) / 2), round((down - size) / 2)), size
        )
    msg = (
        f"data.fit must be one of {', '.join(map(repr, FITS))}, got {fit!r}"
        f". To fix this, {choice_fix(fit, FITS)}"
    )
    raise UsageError(msg)


def random_cut(
    width: int,
    height: int,
    numbers: Sequence[float],
    *,
    size: int,
    crop: tuple[float, float],
    ratio: tuple[float, float],
) -> Cut:
    """Random resized crop of a whole picture; the rule is that of `crop_boxes`.

    Parameters
    ----------
    width, height : int, pixels of the picture.
    numbers : `NUMBERS` uniform numbers in [0, 1): an area for each try, a ratio for each, and the
        place along x and y.
    size : int. Side of the view.
    crop, ratio : (low, high). Shares of the area, uniform; width over height, log-uniform.

    Notes
    -----
    `crop_boxes` computes the same boxes for a batch of images of one size, on any device.
    Here each picture has its own size, known once its file is open, so that it is one at a time.

    Examples
    --------
    >>> random_cut(500, 375, [0.5] * NUMBERS, size=224, crop=(0.08, 1.0), ratio=(3 / 4, 4 / 3)).box
    (91, 29, 318, 318)
    """
    low, high = map(math.log, ratio)
    for area, shape in zip(numbers[:TRIES], numbers[TRIES : 2 * TRIES], strict=True):
        side = math.sqrt((crop[0] + (crop[1] - crop[0]) * area) * (height * width))
        root = math.exp((low + (high - low) * shape) / 2)
        across, down = round(side * root), round(side / root)
        if 1 <= across <= width and 1 <= down <= height:
            room = width - across, height - down
            left, top = (min(int(u * (r + 1)), r) for u, r in zip(numbers[-2:], room, strict=True))
            return Cut((left, top, across, down), (size, size), (0, 0), size)
    # The largest box in the middle whose ratio is allowed.
    wide = min(max(width / height, ratio[0]), ratio[1])
    across, down = round(min(width, height * wide)), round(min(height, width / wide))
    box = ((width - across) // 2, (height - down) // 2, across, down)
    return Cut(box, (size, size), (0, 0), size)


def reduction(cuts: Iterable[Cut]) -> int:
    """Largest factor, 1, 2, 4 or 8, by which a picture may be reduced before it is cut.

    Each box keeps at least `SPARE` pixels for one of what it is resampled to, along both sides.
    """
    room = min(
        side / (SPARE * target)
        for cut in cuts
        for side, target in zip(cut.box[2:], cut.resized, strict=True)
    )
    return next((factor for factor in (8, 4, 2) if room >= factor), 1)


def crop_boxes(
    area: torch.Tensor,
    ratio: torch.Tensor,
    at: torch.Tensor,
    *,
    crop: tuple[float, float],
    ratios: tuple[float, float],
    height: int,
    width: int,
) -> torch.Tensor:
    """Boxes of random crops, with the distribution of torchvision's ``RandomResizedCrop``.

    Share of the area uniform, logarithm of the ratio uniform, sides rounded to whole pixels; the
    first of `TRIES` draws that fits into the image is taken, at a uniform place. Where none fits,
    the box is the largest in the middle whose ratio lies within `ratios`. All tries are drawn
    for every sample, so that no value is read back.

    Parameters
    ----------
    area, ratio : (b, TRIES) tensors of uniform numbers in [0, 1).
    at : (b, 2) tensor of uniform numbers in [0, 1). Place along x and y.
    crop, ratios : (low, high). Shares of the area, and width over height.
    height, width : int. Of the image, in pixels.

    Returns
    -------
    boxes : (b, 4) tensor. Left, top, width and height in whole pixels.
    """
    shares = crop[0] + (crop[1] - crop[0]) * area
    low, high = map(math.log, ratios)
    root = torch.exp((low + (high - low) * ratio) / 2)
    side = torch.sqrt(shares * (height * width))
    sizes = torch.stack([side * root, side / root], dim=2).round()
    limits = row_like(sizes, width, height)
    fits = ((sizes >= 1) & (sizes <= limits)).all(2)
    drawn = fits.any(1)[:, None]
    # The largest value first found: the first draw that fits.
    first = fits.to(torch.uint8).argmax(1)[:, None, None]
    chosen = torch.take_along_dim(sizes, first, dim=1).squeeze(1)
    wide = min(max(width / height, ratios[0]), ratios[1])
    middle = (round(min(width, height * wide)), round(min(height, width / wide)))
    chosen = torch.where(drawn, chosen, row_like(sizes, *middle))
    room = limits - chosen
    placed = torch.floor(at * (room + 1)).clamp(max=room)
    corner = torch.where(drawn, placed, torch.floor(room / 2))
    return torch.cat([corner, chosen], dim=1)


def row_like(like: torch.Tensor, *values: float) -> torch.Tensor:
    """Put numbers into a tensor without a copy from the host, which the device would wait for."""
    return torch.cat([like.new_full((1,), value) for value in values])
