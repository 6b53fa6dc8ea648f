"""One picture: its file is opened, decoded once, and cut into views, by Pillow.

A camera's note on orientation is obeyed and transparency is dropped. Whatever goes wrong names the
file.
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from PIL import Image, ImageOps

from ...algos.core.errors import DualclustError, InvalidValueError, UsageError
from ..augment.crops import Cut, reduction
from .splits import Array, File

__all__ = ["cut_picture", "is_gray", "opened", "picture_size", "upright"]

_GRAY = frozenset({"1", "L", "LA"})
_ORIENTATION = 0x0112  # of EXIF
FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF", "PPM")
"""What is decoded, whatever a file is called: Pillow runs another program for some formats."""

MOST_PIXELS = 89_478_485
"""Where Pillow begins to warn: a quarter of a gigabyte of colors."""

LONGEST_SIDE = 1000
"""Most that a side may exceed the other by: where the shorter one decides, a strip grows on."""

DAMAGED = (
    OSError, SyntaxError, ValueError, EOFError, TypeError, KeyError, IndexError, AttributeError,
    OverflowError, ZeroDivisionError, MemoryError, struct.error, zlib.error,
    Image.DecompressionBombError, Image.DecompressionBombWarning,
)  # fmt: skip
"""What Pillow's readers raise at damaged files."""

_FILTERS = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC}


def cut_picture(
    file: File, plan: Callable[[int, int], Sequence[Cut]], *, channels: int
) -> list[Array]:
    """Views of one picture, which is decoded once.

    A JPEG file is decoded at 1/2, 1/4 or 1/8 of its scale where `crops.reduction` allows it.

    Parameters
    ----------
    file : File
    plan : callable. Gets width and height of the upright picture, returns what to cut from it.
    channels : int, 1 or 3.

    Returns
    -------
    views : list of (size, size, channels) uint8 arrays.

    Raises
    ------
    InvalidValueError
        If the file is damaged or truncated.
    UsageError
        If it has more than 8 bits for a value.
    """
    with opened(file) as image:
        cuts = plan(*picture_size(image))
        width, height = image.size
        factor = reduction(cuts)
        # What other formats answer with None; and a JPEG file says by how much it has shrunk.
        drafted = image.draft(None, (width // factor, height // factor)) if factor > 1 else None
        scale = 1.0 if drafted is None else width / drafted[1][2]
        picture = upright(image, gray=channels == 1)
        return [_cut(picture, cut, scale).reshape(cut.size, cut.size, channels) for cut in cuts]


def _cut(picture: Image.Image, cut: Cut, scale: float) -> Array:
    """Resample a box, which is in pixels of the picture before it was reduced by `scale`."""
    left, top, width, height = (value / scale for value in cut.box)
    right, bottom = min(left + width, picture.width), min(top + height, picture.height)
    x, y = int(left), int(top)
    # Cut out first: a filter must not look past the box.
    part = picture.crop((x, y, int(np.ceil(right)), int(np.ceil(bottom))))
    inner = (left - x, top - y, right - x, bottom - y)
    part = part.resize(cut.resized, _FILTERS[cut.filter], box=inner)
    if cut.resized != (cut.size, cut.size):
        x, y = cut.corner
        part = part.crop((x, y, x + cut.size, y + cut.size))
    return np.asarray(part)


@contextmanager
def opened(file: File) -> Iterator[Image.Image]:
    """Open a picture of at most 8 bits; whatever goes wrong inside the block names the file."""
    content = file.content
    try:
        stream = content if isinstance(content, str) else io.BytesIO(content)
        with Image.open(stream, formats=FORMATS) as image:
            _check_size(file, image)
            if image.mode.startswith(("I", "F")):
                msg = (
                    f"{file.name} has values of more than 8 bits ({image.mode}). "
                    f"To fix: save it as 8-bit"
                )
                raise UsageError(msg)
            yield image
    except DualclustError:
        raise
    except DAMAGED as error:
        msg = f"cannot decode {file.name}: {error}. To fix this, write or copy the picture again"
        raise InvalidValueError(msg) from error


def _check_size(file: File, image: Image.Image) -> None:
    """Refuse by its head a picture that would take much memory once it is decoded, or none."""
    width, height = image.size
    if 1 <= width * height <= MOST_PIXELS and max(width, height) <= LONGEST_SIDE * min(image.size):
        return
    msg = (
        f"{file.name} says that it has {width} × {height} pixels. A picture has 1 to {MOST_PIXELS} "
        f"of them, and no side {LONGEST_SIDE} times as long as the other. To fix this, save it "
        f"smaller, or cut it up"
    )
    raise InvalidValueError(msg)


def picture_size(image: Image.Image) -> tuple[int, int]:
    """Width and height of an opened picture once it is upright; nothing is decoded."""
    width, height = image.size
    # Orientations 5 to 8 lie on their side.
    return (height, width) if image.getexif().get(_ORIENTATION, 1) > 4 else (width, height)


def is_gray(image: Image.Image) -> bool:
    """Whether an opened picture has no colors, by its mode."""
    return image.mode in _GRAY


def upright(image: Image.Image, *, gray: bool) -> Image.Image:
    """Decode an opened picture and turn it upright, in gray or in red, green and blue."""
    ImageOps.exif_transpose(image, in_place=True)
    mode = "L" if gray else "RGB"
    image.load()
    return image if image.mode == mode else image.convert(mode)
