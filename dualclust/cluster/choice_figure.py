"""A choice of k as a picture: silhouette, stability and price of balance over k."""

from __future__ import annotations

import io
import math
from typing import TYPE_CHECKING, Any

from ..algos.selection import ChoiceOfK, shares_text
from ..common.plotting import BLUE, FAINT, INK, LINES, new_figure, plain
from .choice_table import choice_rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["choice_figure", "choice_png"]

WIDTH, HEIGHT = 2200, 900  # pixels
DPI = 200


def choice_figure(found: ChoiceOfK) -> Figure:
    """Draw the figures over k, a line for each bounds, and mark the k that is recommended.

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    """
    figure = new_figure(WIDTH, HEIGHT)
    names = ["silhouette", "stability"] + (["price_percent"] if found.shares.shape[0] > 1 else [])
    rows = choice_rows(found)
    panels = figure.subplots(1, len(names), squeeze=False)[0]
    for axes, name in zip(panels, names, strict=True):
        _draw(axes, name, rows)
        if found.recommended is not None:
            axes.axvline(found.recommended, color=INK, linewidth=0.8, linestyle=(0, (4, 4)))
        axes.set_xlabel("number of clusters, k", fontsize=8, color=FAINT)
        plain(axes)
    panels[0].set_title("silhouette", fontsize=9, color=INK, loc="left")
    panels[1].set_title("stability: two halves agree", fontsize=9, color=INK, loc="left")
    panels[1].set_ylim(top=1.02)
    if len(panels) > 2:
        panels[2].set_title("price of balance, % of the objective", fontsize=9, loc="left")
        panels[2].set_ylim(bottom=0.0)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower left", ncols=5, frameon=False, fontsize=8)
    figure.text(0.012, 0.955, _wrapped(found.reason), fontsize=9, color=INK, va="top")
    figure.subplots_adjust(left=0.045, right=0.985, top=0.78, bottom=0.2, wspace=0.16)
    return figure


def choice_png(found: ChoiceOfK) -> bytes:
    """Return the picture as the bytes of a PNG."""
    content = io.BytesIO()
    # Without the writer's version, equal pictures are equal files.
    choice_figure(found).savefig(content, format="png", dpi=DPI, metadata={"Software": None})
    return content.getvalue()


def _draw(axes: Axes, name: str, rows: list[dict[str, Any]]) -> None:
    """Draw one figure: a line for each bounds, and what it is compared with."""
    pairs = list(dict.fromkeys((row["lower"], row["upper"]) for row in rows))
    for i, pair in enumerate(pairs):
        own = [row for row in rows if (row["lower"], row["upper"]) == pair]
        if name == "price_percent" and i == 0:  # without bounds there is no price
            continue
        high = math.inf if pair[1] == "inf" else pair[1]
        style: dict[str, Any] = {"color": BLUE if i == 0 else LINES[1 + (i - 1) % 3], "marker": "o"}
        style |= {"markersize": 3, "linewidth": 1.4, "label": shares_text((pair[0], high))}
        if i == 0:  # loose bounds change nothing: their line lies on this one
            style |= {"linewidth": 4.0, "markersize": 6, "alpha": 0.45}
        style["linestyle"] = "-" if i < 4 else "--"
        ks = [row["k"] for row in own]
        if name == "stability":
            errors = [row["stability_error"] for row in own]
            axes.errorbar(ks, [row[name] for row in own], errors, elinewidth=0.8, **style)
        else:
            axes.plot(ks, [row[name] for row in own], **style)
    if name == "silhouette":
        own = rows[:: len(pairs)]
        axes.plot(
            [row["k"] for row in own],
            [row["reference_silhouette"] for row in own],
            color=FAINT,
            linewidth=1.2,
            linestyle=":",
            label="data without clusters",
        )


def _wrapped(text: str, width: int = 150) -> str:
    """Break a sentence into lines."""
    lines = [""]
    for word in text.split(" "):
        if len(lines[-1]) + len(word) > width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return "\n".join(lines)
