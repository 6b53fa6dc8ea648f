"""What pictures are drawn with: their colors, pages of exact pixels, plain axes, PNG files.

matplotlib is imported on first use, and only its object interface: no display, no global state.
"""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..algos.core.errors import MissingExtraError
from .extras import needs_train
from .files import write_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Page", "label_ends", "magnify", "new_figure", "plain", "save_png"]

Array = np.ndarray[Any, Any]

# Ink, faint ink, and colors that most color-blind readers tell apart.
INK, FAINT, BLUE, ORANGE = "#1f2328", "#7d8590", "#3b6ea8", "#d1571b"
LINES = (BLUE, ORANGE, "#4f9d69", "#8a63a8")
_DPI = 200
# Pixels of a page: between images, between rows, before the doubtful ones, and around.
_GAP, _LEADING, _BREAK, _MARGIN, _HEADER = 8, 12, 32, 44, 150
_FRAME = 3
# Width over height that a page aims for.
_ASPECT = 1.5


class Page:
    """Rows of images with captions, in as many panels side by side as make a good page.

    Parameters
    ----------
    captions : for each row its name and lines of (text, color).
    tile : (int, int), pixels. Height and width of an image.
    n_columns : int. Images in a row.
    n_doubtful : int. How many of them stand apart, on the right.
    """

    def __init__(
        self,
        captions: Sequence[tuple[str, Sequence[tuple[str, str]]]],
        tile: tuple[int, int],
        n_columns: int,
        n_doubtful: int,
    ) -> None:
        rows = len(captions)
        self.tile, self.n_typical = tile, n_columns - n_doubtful
        size, step = (22, 30) if rows <= 20 else (17, 22)
        digits = max(len(name) for name, _ in captions)
        longest = min(24, max(len(text) for _, lines in captions for text, _ in lines))
        # In this font a digit is 0.7 and a letter about 0.6 as wide as the letters are high.
        indent = int(1.35 * size * 0.7 * digits) + size
        self._caption = indent + int(0.6 * size * longest) + size
        self._pitch = tile[0] + _LEADING
        self._block = n_columns * (tile[1] + _GAP) - _GAP + (_BREAK if n_doubtful else 0)
        self._panel = self._caption + self._block

        def badness(panels: int) -> float:
            width, height = self._extent(panels, rows)
            return abs(math.log(width / height / _ASPECT))

        panels = min(range(1, rows + 1), key=badness)
        self._per_panel = -(-rows // panels)
        self._panels = -(-rows // self._per_panel)
        self.width, self.height = self._extent(self._panels, rows)
        self._canvas = np.full((self.height, self.width, 3), 255, dtype=np.uint8)
        self._texts: list[tuple[float, float, str, dict[str, Any]]] = []
        for row, (name, lines) in enumerate(captions):
            top, left = self._corner(row)
            left, middle = left + indent, top + tile[0] / 2
            self._text(left - size, middle, name, 1.35 * size, ha="right", weight="bold")
            for i, (text, color) in enumerate(lines):
                text = text if len(text) <= longest else text[: longest - 1] + "…"
                y = middle + (i - (len(lines) - 1) / 2) * step
                self._text(left, y, text, size, color=color)

    def _extent(self, panels: int, rows: int) -> tuple[int, int]:
        width = 2 * _MARGIN + panels * (self._panel + 2 * _MARGIN) - 2 * _MARGIN
        return width, _HEADER + -(-rows // panels) * self._pitch + _MARGIN

    def _corner(self, row: int) -> tuple[int, int]:
        panel, line = divmod(row, self._per_panel)
        return _HEADER + line * self._pitch, _MARGIN + panel * (self._panel + 2 * _MARGIN)

    def put(self, image: Array, row: int, column: int, *, odd: bool = False) -> None:
        """Place an (h, w, 3) uint8 image; an odd one is framed."""
        top, left = self._corner(row)
        left += self._caption + column * (self.tile[1] + _GAP)
        left += _BREAK if column >= self.n_typical else 0
        h, w = self.tile
        if odd:
            frame = (slice(top - _FRAME, top + h + _FRAME), slice(left - _FRAME, left + w + _FRAME))
            self._canvas[frame] = [int(ORANGE[i : i + 2], 16) for i in (1, 3, 5)]
        self._canvas[top : top + h, left : left + w] = image

    def draw(self, title: str, facts: str) -> Figure:
        """Return the finished page under its title and a line of facts."""
        figure = new_figure(self.width, self.height)
        figure.figimage(self._canvas, origin="upper")
        self._text(_MARGIN, 46, title, 34, weight="bold")
        self._text(_MARGIN, 88, facts, 22, color=FAINT)
        for panel in range(self._panels):
            left = self._corner(panel * self._per_panel)[1] + self._caption
            self._text(left, _HEADER - 18, "most typical", 18, color=FAINT)
            if self._block > self.n_typical * (self.tile[1] + _GAP):
                edge = left + self._block
                self._text(edge, _HEADER - 18, "most doubtful", 18, color=FAINT, ha="right")
        for x, y, text, style in self._texts:
            figure.text(x / self.width, 1 - y / self.height, text, **style)
        return figure

    def _text(self, x: float, y: float, text: str, size: float, **style: Any) -> None:
        base = {"color": INK, "va": "center_baseline", "parse_math": False}
        self._texts.append((x, y, text, base | {"fontsize": size * 72 / _DPI} | style))


def magnify(images: Array, side: int) -> Array:
    """Bring (n, c, h, w) uint8 images to about `side` pixels, as (n, h', w', 3).

    Small images grow by a whole factor, each pixel a square; large ones shrink by averaging.
    """
    images = images.transpose(0, 2, 3, 1)
    n, h, w, c = images.shape
    shrink = max(1, round(max(h, w) / (2 * side)))
    if shrink > 1:
        h, w = h // shrink, w // shrink
        blocks = images[:, : h * shrink, : w * shrink].reshape(n, h, shrink, w, shrink, c)
        images = blocks.mean((2, 4)).round().astype(np.uint8)
    factor = max(1, math.ceil(side / max(h, w)))
    images = images.repeat(factor, axis=1).repeat(factor, axis=2)
    return images if c == 3 else images.repeat(3, axis=3)


def new_figure(width: int, height: int) -> Figure:
    """Make an empty figure of so many pixels.

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        msg = needs_train("pictures", "matplotlib")
        raise MissingExtraError(msg) from error
    figure = Figure(figsize=(width / _DPI, height / _DPI), dpi=_DPI, facecolor="white")
    FigureCanvasAgg(figure)
    return figure


def save_png(figure: Figure, path: str | Path) -> Path:
    """Write a figure as a PNG, complete or not at all.

    Raises
    ------
    OutputError
        If the file cannot be written.
    """
    path, content = Path(path), io.BytesIO()
    # Without the writer's version, equal pictures are equal files.
    figure.savefig(content, format="png", dpi=_DPI, metadata={"Software": None})
    write_file(path, content.getvalue())
    return path


def plain(axes: Axes) -> None:
    """Strip axes to two thin lines, faint ticks and a faint grid."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color("#c9ced4")
    axes.tick_params(labelsize=8, labelcolor=FAINT, color="#c9ced4", length=3)
    axes.grid(axis="y", color="#eceff2", linewidth=0.8)
    axes.set_axisbelow(True)
    if axes.get_ylim()[1] >= 1000:
        axes.yaxis.set_major_formatter("{x:,.0f}")


def label_ends(axes: Axes, ends: Sequence[tuple[float, str, str]]) -> None:
    """Write each (value, name, color) at the right end of its line, pushed apart if need be."""
    low, high = axes.get_ylim()
    room = 0.08 * (high - low)
    ends = sorted(ends)
    heights = [value for value, _, _ in ends]
    for i in range(1, len(heights)):
        heights[i] = max(heights[i], heights[i - 1] + room)
    for i in reversed(range(len(heights))):
        heights[i] = min(
            heights[i], (heights[i + 1] if i + 1 < len(heights) else high + room) - room
        )
    for height, (value, name, color) in zip(heights, ends, strict=True):
        axes.annotate(
            f"{name} {value:,.0f}" if value == int(value) else f"{name} {value:,.3f}",
            (1.02, height),
            xycoords=("axes fraction", "data"),
            va="center",
            fontsize=8,
            color=color,
            annotation_clip=False,
        )
