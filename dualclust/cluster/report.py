"""``dualclust cluster --report``: a picture, and a page with the picture and the numbers.

The picture has four panels: sizes against their bounds, prices, the margins of the labels, and a
map of the rows by their two main directions. The page is one file that loads nothing else.
"""

from __future__ import annotations

import base64
import html
import io
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..algos.online.certificates import margins
from ..algos.scores.sources import FeatureSource
from ..common.plotting import BLUE, FAINT, INK, ORANGE, new_figure, plain
from .output import Clusters

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw_report"]

Floats = NDArray[np.float64]

SAMPLE, DOTS = 20_000, 5_000
"""Most rows behind the margins and behind the map; both take every m-th row."""

NAMED = 30
"""Most clusters for which the picture shows numbers."""

LISTED = 1000
"""Most lines of the table; of more clusters, those with the most extreme prices are listed."""

STYLE = """\
body { font: 15px/1.5 system-ui, sans-serif; color: #1f2328; max-width: 1100px;
       margin: 2em auto; padding: 0 1em }
h1 { font-size: 1.4em } img { width: 100% }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; margin: 1em 0 }
td, th { padding: .15em 1em .15em 0; text-align: right } th { color: #59636e; font-weight: 500 }
.facts td { text-align: left } .at { color: #b4470f }
"""


def draw_report(
    source: FeatureSource,
    found: Clusters,
    result: dict[str, Any],
    *,
    title: str,
    weights: NDArray[np.float64] | None = None,
) -> dict[str, bytes]:
    """Draw the picture and the page of a result.

    Parameters
    ----------
    source : FeatureSource
        Gives a sample of rows by ids; all ranks ask for it together.
    found : Clusters
    result : dict
        The contents of result.json.
    title : str
    weights : (n,) float64 array, optional

    Returns
    -------
    dict from the names ``report.png`` and ``report.html`` to their bytes

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    """
    n = len(found.labels)
    ids = np.arange(0, n, max(1, -(-n // SAMPLE)), dtype=np.int64)
    rows = source.take(ids)
    points = np.asarray(rows if isinstance(rows, np.ndarray) else rows.cpu(), dtype=np.float64)
    clear = _margins(points, ids, found, result["metric"], weights)
    every = max(1, -(-len(ids) // DOTS))
    picture = _picture(found, clear, points[::every], found.labels[ids][::every])
    page = _page(found, result, clear, picture, title)
    return {"report.png": picture, "report.html": page.encode()}


def _margins(
    points: Floats, ids: NDArray[np.int64], found: Clusters, metric: str, weights: Floats | None
) -> Floats:
    """Return the margins of a sample; empty for a single cluster, which has none."""
    if len(found.counts) == 1:
        return np.empty(0)
    centers = found.centers.astype(np.float64)
    scores = points @ centers.T
    if metric == "euclidean":
        scores -= 0.5 * (centers**2).sum(axis=1)
    if weights is not None:
        scores *= weights[ids][:, None]
    clear: Floats = margins(scores, found.prices)
    return clear


# The picture -------------------------------------------------------------------------------------


def _picture(found: Clusters, clear: Floats, points: Floats, labels: NDArray[np.int64]) -> bytes:
    figure = new_figure(2200, 1500)
    sizes, prices, histogram, scatter = (
        figure.add_axes((x, y, 0.41, 0.37)) for y in (0.57, 0.075) for x in (0.07, 0.56)
    )
    order = np.lexsort((found.prices, -found.counts))
    _draw_sizes(sizes, found, order)
    _draw_prices(prices, found, order)
    _draw_margins(histogram, clear)
    _draw_map(scatter, found, points, labels)
    content = io.BytesIO()
    # Without the writer's version, equal pictures are equal files.
    figure.savefig(content, format="png", metadata={"Software": None})
    return content.getvalue()


def _head(axes: Axes, title: str, facts: str) -> None:
    axes.text(0, 1.09, title, transform=axes.transAxes, fontsize=10, color=INK, weight="bold")
    axes.text(0, 1.025, facts, transform=axes.transAxes, fontsize=7.5, color=FAINT)


def _name_clusters(axes: Axes, order: NDArray[np.int64]) -> None:
    axes.set_xlim(-0.7, len(order) - 0.3)
    if len(order) <= NAMED:
        axes.set_xticks(range(len(order)), [str(i) for i in order])
        axes.set_xlabel("cluster, from large to small", fontsize=8, color=FAINT)
    else:
        axes.set_xticks([])
        axes.set_xlabel(f"{len(order)} clusters, from large to small", fontsize=8, color=FAINT)


def _draw_sizes(axes: Axes, found: Clusters, order: NDArray[np.int64]) -> None:
    k, place = len(order), np.arange(len(order))
    counts, low, high = (v[order] for v in (found.counts, found.lower, found.upper))
    inside = (low < counts) & (counts < high)
    axes.bar(place, counts, width=0.8, color=np.where(inside, BLUE, ORANGE))
    shown = high < max(2 * counts.max(), 1)  # a bound far away would squeeze the bars
    edges = np.append(place - 0.5, k - 0.5)
    axes.stairs(low, edges, color=INK, linewidth=0.9, baseline=None)
    if shown.all():
        axes.stairs(high, edges, color=INK, linewidth=0.9, baseline=None)
    axes.set_ylim(0, 1.12 * max(int(counts.max()), int(high.max()) if shown.all() else 0, 1))
    plain(axes)
    _name_clusters(axes, order)
    both = "bounds" if shown.all() else "lower bound"
    _head(
        axes,
        "Sizes",
        f"{counts.min():,} to {counts.max():,} rows; lines: {both}; "
        f"orange: at a bound ({k - int(inside.sum())} of {k})",
    )


def _draw_prices(axes: Axes, found: Clusters, order: NDArray[np.int64]) -> None:
    prices = found.prices[order]
    prices = np.where(np.abs(prices) > 1e-9 * np.abs(prices).max(), prices, 0.0)  # drop rounding
    colors = np.where(prices > 0, ORANGE, BLUE)
    axes.bar(np.arange(len(order)), prices, width=0.8, color=colors)
    axes.axhline(0.0, color=INK, linewidth=0.8)
    plain(axes)
    _name_clusters(axes, order)
    _head(
        axes,
        "Prices",
        f"added to the scores; above 0 holds a cluster up ({int((prices > 0).sum())}), "
        f"below 0 holds it down ({int((prices < 0).sum())})",
    )


def _draw_margins(axes: Axes, clear: Floats) -> None:
    finite = clear[np.isfinite(clear)]
    if len(finite) == 0:
        axes.set_axis_off()
        _head(axes, "Margins", "one cluster has no second")
        return
    end = float(np.quantile(finite, 0.995)) or 1.0
    axes.hist(np.clip(finite, 0.0, end), bins=60, range=(0.0, end), color=BLUE)
    axes.axvline(float(np.median(finite)), color=INK, linewidth=0.9)
    plain(axes)
    axes.set_xlim(0.0, end)
    axes.set_xlabel(
        "best priced score minus the second (last bar: and above)", fontsize=8, color=FAINT
    )
    axes.set_ylabel("rows", fontsize=8, color=FAINT)
    doubtful = float((finite < 0.01 * end).mean())
    _head(
        axes,
        "Margins",
        f"{len(clear):,} rows, median {np.median(finite):.3g} (line); "
        f"{doubtful:.1%} within {0.01 * end:.2g} of another cluster",
    )


def _draw_map(axes: Axes, found: Clusters, points: Floats, labels: NDArray[np.int64]) -> None:
    k = len(found.counts)
    at, centers, explained = _project(points, found.centers.astype(np.float64))
    colors = _colors(k)
    size = 4 if len(at) > 1000 else 9
    axes.scatter(at[:, 0], at[:, 1], c=colors[labels], s=size, alpha=0.6, linewidths=0)
    rim: dict[str, Any] = {"edgecolors": "white", "linewidths": 0.7}
    if k <= NAMED:  # one by one, so that no number shows through the next dot
        middle: dict[str, Any] = {"ha": "center", "va": "center_baseline", "color": "white"}
        for i, (x, y) in enumerate(centers):
            axes.scatter([x], [y], c=colors[i : i + 1], s=70, zorder=3 + i, **rim)
            axes.text(x, y, str(i), fontsize=5.5, weight="bold", zorder=3.5 + i, **middle)
    else:
        axes.scatter(centers[:, 0], centers[:, 1], c=colors, s=9, zorder=3, **rim)
    axes.set_aspect("equal", adjustable="datalim")
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_color("#c9ced4")
    dots = "numbered dots" if k <= NAMED else "dots with a rim"
    _head(
        axes,
        "Map",
        f"{len(at):,} rows by their two main directions, {explained:.0%} of the spread; "
        f"{dots}: centers",
    )


def _project(points: Floats, centers: Floats) -> tuple[Floats, Floats, float]:
    """Project rows and centers on the first two right singular vectors; return their share too."""
    mean = points.mean(axis=0)
    _, values, directions = np.linalg.svd(points - mean, full_matrices=False)
    plane = np.zeros((2, points.shape[1]))
    plane[: len(directions[:2])] = directions[:2]
    # The sign of a singular vector is arbitrary: make its largest entry positive.
    largest = np.abs(plane).argmax(axis=1)
    plane *= np.where(plane[[0, 1], largest] < 0, -1.0, 1.0)[:, None]
    spread = float((values**2).sum())
    share = float((values[:2] ** 2).sum()) / spread if spread > 0 else 1.0
    return (points - mean) @ plane.T, (centers - mean) @ plane.T, share


def _colors(k: int) -> Floats:
    """Return colors in steps of the golden angle, so that a few consecutive ones always differ."""
    from matplotlib.colors import hsv_to_rgb

    steps = np.arange(k)
    hue, value = (steps * 0.618034) % 1.0, 0.45 + 0.35 * (steps % 2)
    colors: Floats = hsv_to_rgb(np.stack([hue, np.full(k, 0.75), value], axis=1))
    return colors


# The page ----------------------------------------------------------------------------------------


def _page(
    found: Clusters, result: dict[str, Any], clear: Floats, picture: bytes, title: str
) -> str:
    k = len(found.counts)
    facts = "".join(
        f"<tr><th>{html.escape(name.replace('_', ' '))}</th><td>{_number(value)}</td></tr>"
        for name, value in result.items()
    )
    listed = np.sort(np.argsort(-np.abs(found.prices), kind="stable")[:LISTED])
    lines = []
    for i in listed:
        size, low, high = int(found.counts[i]), int(found.lower[i]), int(found.upper[i])
        mark = ' class="at"' if size in (low, high) else ""
        cells = (i, f"{size:,}", f"{low:,}", f"{high:,}", f"{found.prices[i]:.6f}")
        lines.append(f"<tr{mark}>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    less = f" (the {LISTED} of largest price)" if k > LISTED else ""
    image = base64.b64encode(picture).decode()
    return f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>{html.escape(title)}: {k} clusters</title>
<style>
{STYLE}</style>
<h1>{html.escape(title)}: {k} clusters of {len(found.labels):,} rows</h1>
<img alt="Sizes against bounds, prices, margins, a map" src="data:image/png;base64,{image}">
<p>The margin of a row is how much its priced score would fall in its second-best cluster; the
median of {len(clear):,} rows is {np.median(clear) if len(clear) else 0:.4g}. A price above 0 holds
a cluster up at its lower bound, one below 0 holds it down at its upper bound.</p>
<table class="facts">{facts}</table>
<h2>Clusters{less}</h2>
<table><tr><th>cluster</th><th>size</th><th>lower</th><th>upper</th><th>price</th></tr>
{chr(10).join(lines)}
</table>
</html>
"""


def _number(value: Any) -> str:
    return html.escape(f"{value:.6g}" if isinstance(value, float) else str(value))
