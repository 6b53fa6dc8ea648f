"""What the page shows of a row: text, a link, or a small image.

Each value decides what it is: one that begins with http:// or https:// is a link, which is loaded
only when the reader follows it; one that ends like the name of an image is the path of one, from
the folder of the input; all else is text. Images are put into the page as thumbnails while
there is room for them, and linked where there is not, or where Pillow is missing or cannot read
them.
"""

from __future__ import annotations

import base64
import io
import os
import re
import warnings
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

__all__ = ["Room", "Shown", "entry_of", "short"]

IMAGES = (".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".tif", ".tiff")

LONGEST, SHORTEST, TEXTS = 240, 24, 600_000
"""Most bytes of a value on the page, fewest where there are many, and bytes of all of them."""

LINKS = 300_000
"""Bytes of all addresses."""

SIDE, ROOM = 96, 800_000
"""Pixels of a thumbnail's longer side, and bytes of all of them."""


class Shown(NamedTuple):
    """What the user wants to see of rows.

    Attributes
    ----------
    name : str
        Of the column or file.
    values : dict from row to str
        Of the rows worth a look.
    folder : Path
        Where relative paths of images start.
    out : Path
        The folder of the page, from which images are linked.
    sample : dict from row to str, or None
        Of rows in even distances, whose words are counted.
    labels : (n,) int64 array, or None
        Of all rows of the input; None where these are the rows that were clustered.
    """

    name: str
    values: dict[int, str]
    folder: Path
    out: Path
    sample: dict[int, str] | None = None
    labels: NDArray[np.int64] | None = None


class Room:
    """The space that is left on the page for texts, addresses and small JPEG images.

    Parameters
    ----------
    n_values : int
        They share the room for texts.
    images : int
        Bytes for thumbnails.

    Attributes
    ----------
    longest : int
        Bytes of a text.
    left_out, unlinked : int
        Images and addresses for which no room was left.
    unread : int
        Images that are not there or cannot be read.
    pictures : list of str
        The images in the page, each once, as ``data:`` addresses.
    """

    def __init__(self, n_values: int = 1, images: int = ROOM) -> None:
        self.longest = min(LONGEST, max(SHORTEST, TEXTS // max(1, n_values)))
        self.images, self.links = images, LINKS
        self.left_out = self.unlinked = self.unread = self.n_images = 0
        self.pictures: list[str] = []
        self._made: dict[Path, int] = {}
        try:
            from PIL import Image
        except ImportError:
            self._pillow: Any = None
        else:
            self._pillow = Image

    def link(self, address: str) -> dict[str, str]:
        """Return an address for the page, or nothing."""
        size = sum(_sizes(address))
        if size > self.links:
            self.unlinked += 1
            return {}
        self.links -= size
        return {"link": address}

    def image(self, path: Path) -> int | None:
        """Return the place of an image in `pictures`, or None."""
        self.n_images += 1
        if self._pillow is None:
            return None
        if path in self._made:
            return self._made[path]
        if self.images <= 0:
            self.left_out += 1
            return None
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of damaged metadata; bombs are refused below
                content = self._small(path)
        except Exception:  # whatever a damaged file makes Pillow raise, the result is not lost
            self.unread += 1
            return None
        self.images -= len(content) * 4 // 3
        self._made[path] = len(self.pictures)
        self.pictures.append("data:image/jpeg;base64," + base64.b64encode(content).decode())
        return self._made[path]

    def _small(self, path: Path) -> bytes:
        content = io.BytesIO()
        with self._pillow.open(path) as image:
            image.draft("RGB", (2 * SIDE, 2 * SIDE))  # JPEG files are read at a smaller scale
            small = image.convert("RGBA")
        small.thumbnail((SIDE, SIDE))
        sheet = self._pillow.new("RGB", small.size, "white")
        sheet.paste(small, mask=small.getchannel("A"))
        sheet.save(content, format="JPEG", quality=78)
        return content.getvalue()

    def notes(self) -> list[str]:
        """Return sentences about what the page does not show."""
        notes = []
        if self.n_images and self._pillow is None:
            notes.append("Images are linked, not shown: that needs Pillow (pip install pillow).")
        if self.left_out:
            notes.append(f"{self.left_out:,} images are not shown, to keep the page small.")
        if self.unread:
            notes.append(f"{self.unread:,} images are missing or cannot be read.")
        if self.unlinked:
            notes.append(f"{self.unlinked:,} addresses are text only, to keep the page small.")
        return notes


def entry_of(value: str, shown: Shown, room: Room) -> dict[str, str | int]:
    """Return what the page needs of a value.

    Returns
    -------
    dict
        ``text`` always; ``link`` for an address or an image; ``image``, its place in
        `Room.pictures`, for an image that is in the page.

    Examples
    --------
    >>> here = Shown("name", {}, Path("data"), Path("data/X-clusters"))
    >>> entry_of("a cat", here, Room())
    {'text': 'a cat'}
    >>> entry_of("javascript:alert(1)", here, Room())
    {'text': 'javascript:alert(1)'}
    >>> entry_of("img/a #1.png", here, Room(images=0))
    {'text': 'img/a #1.png', 'link': '../img/a%20%231.png'}
    """
    entry: dict[str, str | int] = {"text": short(value, room.longest)}
    if re.fullmatch(r"https?://\S+", value, re.IGNORECASE):
        return entry | room.link(value)
    if not _is_image(value):
        return entry
    path = shown.folder / value
    image = room.image(path)
    entry |= room.link(_address(path, shown.out))
    return entry if image is None else entry | {"image": image}


def short(text: str, longest: int) -> str:
    """Cut a text so that it takes at most so many bytes on the page.

    Examples
    --------
    >>> short("a house by the sea", 9)
    'a hous…'
    """
    text = "".join(" " if letter < " " else letter for letter in text[: longest + 1])
    sizes = _sizes(text)
    if sum(sizes) <= longest:
        return text
    ends = list(accumulate(sizes))
    return text[: sum(end <= longest - 3 for end in ends)] + "…"


def _sizes(text: str) -> list[int]:
    """Return the bytes that each letter takes on the page."""
    return [_SIZES.get(letter) or len(letter.encode("utf-8", "replace")) for letter in text]


_SIZES = {"<": 6, ">": 6, "&": 6, '"': 2, "\\": 2, "\x7f": 1, "\u2028": 6, "\u2029": 6}
"""Bytes of letters that are escaped on the page."""


def _is_image(value: str) -> bool:
    return len(value) < 1024 and "\n" not in value and value.lower().endswith(IMAGES)


def _address(path: Path, out: Path) -> str:
    """Return the relative address of a file, as seen from the page."""
    try:
        relative = os.path.relpath(path, out)
    except ValueError:  # another drive
        return path.absolute().as_uri()
    return quote(Path(relative).as_posix(), safe="/")
