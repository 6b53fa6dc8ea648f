"""One picture: its file is opened, decoded once, and cut into views, by Pillow.

A camera's note on orientation is obeyed and transparency is dropped. Of 16 bits for a value the
upper eight are kept, as Pillow does with colors. Whatever goes wrong names the file.
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from importlib import import_module

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from ...algos.core.errors import DualclustError, InvalidValueError
from ..augment.crops import Cut, reduction
from .splits import Array, Copy, File

__all__ = [
    "check_file",
    "copy_size",
    "cut_picture",
    "is_gray",
    "opened",
    "picture_size",
    "shrunk",
    "upright",
]

_DEEP = frozenset({"I", "I;16", "I;16B", "I;16L", "I;16N"})
_GRAY = frozenset({"1", "L", "LA"}) | _DEEP
_HEIF = (".heic", ".heif")
_ORIENTATION, _WIDTH = 0x0112, 0x0100  # tags of EXIF and TIFF
FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF", "PPM", "JPEG2000", "AVIF", "HEIF")
"""What is decoded, whatever a file is called: Pillow runs another program for some formats."""

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
        If the file is damaged or truncated, or has values that are not of 8 or 16 bits.
    """
    if isinstance(file.content, Copy):
        picture, (width, height) = Image.fromarray(file.content.pixels), file.content.size
        scales = width / picture.width, height / picture.height
        cuts = plan(width, height)
        return [_cut(picture, cut, scales).reshape(cut.size, cut.size, channels) for cut in cuts]
    with opened(file) as image:
        cuts = plan(*picture_size(image))
        scale = _reduce(image, reduction(cuts))
        picture = upright(image, gray=channels == 1)
        scales = scale, scale
        return [_cut(picture, cut, scales).reshape(cut.size, cut.size, channels) for cut in cuts]


def _reduce(image: Image.Image, factor: int) -> float:
    """Let a JPEG file be decoded at a reduced scale; returns by how much it has shrunk."""
    width, height = image.size
    # What other formats answer with None.
    drafted = image.draft(None, (width // factor, height // factor)) if factor > 1 else None
    return 1.0 if drafted is None else width / drafted[1][2]


def copy_size(width: int, height: int, side: int) -> tuple[int, int]:
    """Width and height of a copy whose shorter side is at most `side`.

    Examples
    --------
    >>> copy_size(4000, 3000, 96), copy_size(80, 60, 96)
    ((128, 96), (80, 60))
    """
    short = min(width, height)
    if short <= side:
        return width, height
    return max(side, round(width * side / short)), max(side, round(height * side / short))


def shrunk(file: File, side: int, *, channels: int) -> Copy:
    """Decode a whole picture, and make it smaller where its shorter side is longer than `side`.

    Raises
    ------
    InvalidValueError
        If the file cannot be decoded.
    """
    with opened(file) as image:
        full = picture_size(image)
        size = copy_size(*full, side)
        _reduce(image, reduction([Cut((0, 0, *full), size, (0, 0), side)]))
        picture = upright(image, gray=channels == 1)
        if picture.size != size:
            picture = picture.resize(size, Image.Resampling.BICUBIC)
        return Copy(np.asarray(picture), full)


def check_file(file: File) -> None:
    """Decode a file and keep nothing of it, a JPEG file at 1/8 of its scale.

    Raises
    ------
    InvalidValueError
        If it cannot be decoded.
    """
    with opened(file) as image:
        image.draft(None, (image.width // 8, image.height // 8))
        upright(image, gray=is_gray(image))


def _cut(picture: Image.Image, cut: Cut, scales: tuple[float, float]) -> Array:
    """Resample a box, which is in pixels of the picture before it was reduced by `scales`."""
    sides = zip(cut.box, scales * 2, strict=True)
    left, top, width, height = (value / scale for value, scale in sides)
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
    """Open a picture; whatever goes wrong inside the block names the file."""
    content, heif = file.content, file.name.lower().endswith(_HEIF)
    missing = heif and "HEIF" not in _formats()
    try:
        stream = content if isinstance(content, str) else io.BytesIO(file.read())
        with Image.open(stream, formats=_formats()) as image:
            _check_size(file, image)
            yield image
    except DualclustError:
        raise
    except DAMAGED as error:
        known = not isinstance(error, UnidentifiedImageError)
        # As text: the error would hold its own frames, and with them all that was decoded.
        what = str(error) if known else "not a kind of picture that is read here"
        fix = "pip install pillow-heif" if missing else "write or copy the picture again"
        msg = f"cannot decode {file.name}: {what}. To fix this: {fix}"
        raise InvalidValueError(msg) from error


def _check_size(file: File, image: Image.Image) -> None:
    """Refuse by its head a picture that would take much memory once it is decoded, or none."""
    width, height = image.size
    if 1 <= width * height <= file.max_pixels and max(width, height) <= LONGEST_SIDE * min(
        image.size
    ):
        return
    msg = (
        f"{file.name}: {width} × {height} pixels. A picture has 1 to data.max_pixels="
        f"{file.max_pixels} of them, and no side {LONGEST_SIDE} times as long as the other. "
        f"To fix this, save it smaller, or cut it up"
    )
    raise InvalidValueError(msg)


@lru_cache
def _formats() -> tuple[str, ...]:
    """Which of `FORMATS` this Pillow reads: pictures of phones if pillow-heif is installed."""
    with suppress(ImportError):
        import_module("pillow_heif").register_heif_opener()
    Image.init()
    return tuple(name for name in FORMATS if name in Image.OPEN)


def picture_size(image: Image.Image, *, exact: bool = True) -> tuple[int, int]:
    """Width and height of an opened picture once it is upright.

    Parameters
    ----------
    image : opened picture.
    exact : bool. False: nothing is decoded, and a note on orientation that a PNG file has behind
        its pixels, where writers may put it and hardly do, is not found.
    """
    width, height = image.size
    # The method of PNG files decodes them, in case there is a note behind.
    exif = image.getexif() if exact else Image.Image.getexif(image)
    # Orientations 5 to 8 lie on their side; of TIFF, Pillow may give the size of the upright one.
    lies = exif.get(_ORIENTATION, 1) > 4
    stored = getattr(image, "tag_v2", {}).get(_WIDTH, width)
    return (height, width) if lies and stored == width else (width, height)


def is_gray(image: Image.Image) -> bool:
    """Whether an opened picture has no colors, by its mode."""
    return image.mode in _GRAY


def upright(image: Image.Image, *, gray: bool) -> Image.Image:
    """Decode an opened picture and turn it upright, in gray or in red, green and blue.

    Raises
    ------
    ValueError
        If its values are not of 8 or 16 bits: nothing says which of them is white.
    """
    ImageOps.exif_transpose(image, in_place=True)
    mode = "L" if gray else "RGB"
    image.load()
    if image.mode == "F" or image.mode in _DEEP:
        image = _eight_bits(image)
    return image if image.mode == mode else image.convert(mode)


def _eight_bits(image: Image.Image) -> Image.Image:
    """Keep the upper eight of 16 bits."""
    values = np.asarray(image)
    if image.mode == "F" or values.min() < 0 or values.max() > 0xFFFF:
        msg = f"values of more than 16 bits ({image.mode}). To fix this, save it with 8 bits"
        raise ValueError(msg)
    return Image.fromarray((values >> 8).astype(np.uint8))
