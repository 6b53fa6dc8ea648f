"""Pictures of a clustering: what is in each cluster, how large it is, how the training went.

Three PNG files, drawn without a display and without global state: two runs in one process do not
disturb each other. Images are copied pixel for pixel, magnified by a whole number, never smoothed.
Each file is complete or absent.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ...algos.core.errors import InvalidValueError
from ...common.plotting import (
    BLUE,
    FAINT,
    INK,
    LINES,
    ORANGE,
    Page,
    label_ends,
    magnify,
    new_figure,
    plain,
    save_png,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["write_curves", "write_gallery", "write_sizes"]

Array = np.ndarray[Any, Any]

# More clusters than this are sampled evenly: nobody reads a wall of a thousand rows.
_MOST_ROWS = 200
SIZES = "sizes by the labels of training (dashed: bounds of those written)"
_WORDS = {"size_max": "largest", "size_min": "smallest"}


def write_gallery(
    path: str | Path,
    images: Any,
    labels: Any,
    scores: Any,
    *,
    n_columns: int = 14,
    n_doubtful: int = 4,
    n_clusters: int | None = None,
    true_labels: Any = None,
    class_names: Sequence[str] = (),
    title: str = "What is in each cluster",
) -> Path:
    """Show each cluster as a row: its most typical images, then its most doubtful ones.

    With true labels, the caption of a row names its majority class and the share of it, and
    images of another class are framed.

    Parameters
    ----------
    path : where the PNG goes. Its folder must exist.
    images : (n, c, h, w) uint8 array or tensor, c = 1 (gray) or 3 (color).
    labels : (n,) int in 0 … n_clusters-1. The cluster of each image.
    scores : (n,) float. How typical each image is of its cluster, such as its margin.
    n_columns : int, 1 or more. Images in a row.
    n_doubtful : int in [0, n_columns). How many of them are the lowest scores of the cluster.
    n_clusters : int, optional. Number of clusters, the empty ones too; default max(labels)+1.
    true_labels : (n,) int, 0 or more, optional. Classes; for judgment only.
    class_names : names of the classes, in the order of `true_labels`; default their numbers.
    title : str. First line of the picture.

    Returns
    -------
    path : Path.

    Raises
    ------
    InvalidValueError
        If a shape or a range breaks its rule.
    MissingExtraError
        If matplotlib is not installed.
    OutputError
        If the file cannot be written.
    """
    cluster, score = _array(labels), _array(scores)
    classes = None if true_labels is None else _array(true_labels)
    k = int(cluster.max(initial=0)) + 1 if n_clusters is None else n_clusters
    _check_gallery(images, cluster, score, classes, k, n_columns, n_doubtful)

    counts = np.bincount(cluster, minlength=k)
    table = np.zeros((k, 1 if classes is None else int(classes.max()) + 1), dtype=np.int64)
    if classes is not None:
        np.add.at(table, (cluster, classes), 1)
    majority = table.argmax(1)
    shown = np.unique(np.linspace(0, k - 1, min(k, _MOST_ROWS)).round().astype(int))

    captions = []
    for j in shown:
        amount = f"{counts[j]:,} image" + ("s" if counts[j] > 1 else "")
        lines = [(amount, FAINT) if counts[j] else ("empty", ORANGE)]
        if classes is not None and counts[j]:
            c = int(majority[j])
            name = class_names[c] if c < len(class_names) else str(c)
            name = f"class {name}" if name.isdigit() else name
            lines.append((f"{name} · {100 * table[j, c] / counts[j]:.0f} %", INK))
        captions.append((str(j), lines))
    side = 72 if k <= 20 else 48
    shape = magnify(_array(images[:1]), side).shape[1:3]
    page = Page(captions, (shape[0], shape[1]), n_columns, n_doubtful)
    for row, j in enumerate(shown):
        members = np.flatnonzero(cluster == j)
        members = members[np.argsort(-score[members], kind="stable")]
        # The row falls from left to right; what lies between its two blocks is left out.
        n_typical = n_columns - n_doubtful
        last = max(n_typical, len(members) - n_doubtful)
        chosen = np.concatenate([members[:n_typical], members[last:]])
        odd = np.zeros(len(chosen), bool) if classes is None else classes[chosen] != majority[j]
        for column, tile in enumerate(magnify(_array(images[chosen.tolist()]), side)):
            page.put(tile, row, column, odd=bool(odd[column]))
    facts = [f"{k:,} clusters" + (f" ({len(shown)} shown)" if len(shown) < k else "")]
    facts.append(f"{len(cluster):,} images")
    if classes is not None:
        facts.append(f"purity {100 * table.max(1).sum() / len(cluster):.1f} %")
        facts.append("framed: not of the row's majority class")
    return save_png(page.draw(title, " · ".join(facts)), path)


def write_sizes(path: str | Path, counts: Any, lower: Any = None, upper: Any = None) -> Path:
    """Show the size of each cluster against its bounds.

    Parameters
    ----------
    path : where the PNG goes. Its folder must exist.
    counts : (k,) int. Images in each cluster.
    lower, upper : numbers of images: a scalar for all clusters, a (k,) array, or None for no
        bound. 0, inf and all samples are no bounds either.

    Raises
    ------
    InvalidValueError, MissingExtraError, OutputError
        As `write_gallery`.
    """
    sizes = _array(counts)
    k = len(sizes) if sizes.ndim == 1 else 0
    if k == 0:
        msg = f"counts must have shape (k,) with k of 1 or more, got {sizes.shape}"
        raise InvalidValueError(msg)
    low = _bound("lower", 0 if lower is None else lower, k)
    high = _bound("upper", math.inf if upper is None else upper, k)
    high = np.where(
        (high >= sizes.sum()) & (k > 1), math.inf, high
    )  # all samples: no size can be larger
    outside = (sizes < low) | (sizes > high)
    highest = max(1.0, float(np.concatenate([sizes, high[np.isfinite(high)]]).max()))

    figure = new_figure(1600, 640)
    axes = figure.add_axes((0.08, 0.17, 0.78, 0.66))
    _draw_bars(axes, sizes, outside)
    drawn = _draw_bounds(axes, low, high, highest)
    if k <= 20:
        _number_bars(axes, sizes, highest)
    plain(axes)
    axes.set_xlim(-0.6, k - 0.4)
    axes.set_ylim(0, 1.1 * highest)
    axes.set_xlabel("cluster", fontsize=8, color=FAINT)
    axes.set_ylabel("images", fontsize=8, color=FAINT)
    axes.locator_params(axis="x", integer=True, min_n_ticks=1)
    if k <= 20:
        axes.set_xticks(range(k))
    head = f"Cluster sizes {sizes.min():,} to {sizes.max():,}"
    bounds = " · ".join(drawn)
    verdict = f"{outside.sum():,} of {k:,} outside" if outside.any() else "all inside"
    figure.text(0.08, 0.9, head, fontsize=11, weight="bold", color=INK)
    figure.text(
        0.86,
        0.9,
        f"{bounds} · {verdict}" if drawn else "no bounds",
        fontsize=9,
        ha="right",
        color=ORANGE if outside.any() else FAINT,
    )
    return save_png(figure, path)


def _draw_bars(axes: Axes, sizes: Array, outside: Array) -> None:
    """A bar for each cluster; one outside of its bounds is orange."""
    k = len(sizes)
    if k <= 120:
        axes.bar(range(k), sizes, 0.8 if k <= 50 else 0.9, color=np.where(outside, ORANGE, BLUE))
        return
    # Bars of a few pixels: gaps between them would make stripes.
    edges = np.arange(k + 1) - 0.5
    axes.stairs(sizes, edges, fill=True, color=BLUE)
    axes.stairs(np.where(outside, sizes, 0), edges, fill=True, color=ORANGE)


def _draw_bounds(axes: Axes, low: Array, high: Array, highest: float) -> list[str]:
    """A dashed line for each bound that there is; returns what their labels say."""
    edges = np.arange(len(low) + 1) - 0.5
    # Labels of two close bounds move apart; far apart, each stands level with its line.
    close = high[-1] - low[-1] < 0.1 * highest
    drawn = []
    for name, bound, align in (("lower", low, "top"), ("upper", high, "bottom")):
        if not (np.isfinite(bound) & (bound > 0)).any():
            continue
        limits = np.unique(bound)
        value = f"{limits[0]:,.6g}" + (f" to {limits[-1]:,.6g}" if len(limits) > 1 else "")
        drawn.append(f"{name} {value}")
        axes.stairs(
            np.where(np.isfinite(bound), bound, np.nan),
            edges,
            baseline=None,
            color=INK,
            linewidth=1,
            linestyle=(0, (4, 2)),
        )
        if math.isfinite(bound[-1]):
            axes.annotate(
                drawn[-1],
                (1.01, float(bound[-1])),
                xycoords=("axes fraction", "data"),
                va=align if close else "center",
                fontsize=8,
                color=INK,
            )
    return drawn


def _number_bars(axes: Axes, sizes: Array, highest: float) -> None:
    """Write each size at the foot of its bar, where no bound crosses the number."""
    for x, size in enumerate(sizes):
        tall = size > 0.09 * highest
        axes.annotate(
            f"{size:,}",
            (x, 0 if tall else size),
            (0, 4),
            textcoords="offset points",
            ha="center",
            fontsize=8,
            color="white" if tall else INK,
            bbox=None if tall else {"facecolor": "white", "edgecolor": "none", "pad": 0},
        )


def write_curves(
    path: str | Path,
    records: Sequence[Mapping[str, Any]],
    *,
    bounds: tuple[float, float] | None = None,
) -> Path:
    """Show how a training run went, one panel for each kind of number that the records hold.

    ==========================  ================================================================
    panel                       keys
    ==========================  ================================================================
    loss                        every key with ``loss`` in it
    agreement with the classes  ``acc``, ``nmi``, ``ari``, ``ami``
    sizes, labels of training   ``size_min``, ``size_max``, and the bounds, which the labels that a
                                run writes keep, and those of training only come near
    churn                       ``churn``: share of images whose cluster changed
    ==========================  ================================================================

    Parameters
    ----------
    path : where the PNG goes. Its folder must exist.
    records : one mapping for each epoch, with ``epoch`` (default: its position). A key may be
        missing from some records; values that are not finite are left out.
    bounds : (float, float), optional. Smallest and largest size allowed; 0 and inf are none.

    Returns
    -------
    path : Path.

    Raises
    ------
    InvalidValueError
        If there is nothing to draw.
    MissingExtraError, OutputError
        As `write_gallery`.
    """
    curves: dict[str, list[tuple[float, float]]] = {}
    for at, record in enumerate(records):
        for key, value in record.items():
            if isinstance(value, (int, float)) and math.isfinite(value):
                curves.setdefault(key, []).append((record.get("epoch", at), float(value)))
    wanted = {
        "loss": [key for key in curves if "loss" in key],
        "agreement with the classes": ["acc", "nmi", "ari", "ami"],
        SIZES: ["size_max", "size_min"],
        "churn": ["churn"],
    }
    panels = {name: [key for key in keys if key in curves] for name, keys in wanted.items()}
    panels = {name: keys for name, keys in panels.items() if keys}
    if not panels:
        msg = f"records must hold a loss, a score, sizes or churn, got the keys {list(curves)}"
        raise InvalidValueError(msg)
    # At most two panels in a row: four in one would be too small on a screen.
    across = min(2, len(panels))
    down = -(-len(panels) // across)
    figure = new_figure(1000 * across, 620 * down)
    for i, (name, keys) in enumerate(panels.items()):
        row, column = divmod(i, across)
        place = (
            (column + 0.1) / across,
            (down - row - 1 + 0.17) / down,
            0.66 / across,
            0.67 / down,
        )
        axes = figure.add_axes(place)
        ends = []
        for key, color in zip(keys, LINES * len(keys), strict=False):
            marker = "o" if len(curves[key]) < 3 else ""
            epochs, values = zip(*curves[key], strict=True)
            # AMI is next to NMI: dots leave room for what is below.
            style = ":" if key == "ami" else "-"
            axes.plot(
                epochs, values, style, color=color, linewidth=1.4, marker=marker, markersize=3
            )
            ends.append((values[-1], _WORDS.get(key, key.replace("_", " ")), color))
        for bound in bounds or () if name == SIZES else ():
            if 0 < bound < math.inf:
                axes.axhline(bound, color=INK, linewidth=1, linestyle=(0, (4, 2)))
        plain(axes)
        if name != "loss":
            axes.set_ylim(0, 1 if name.startswith("agreement") else max(axes.get_ylim()[1], 1e-3))
        axes.locator_params(axis="x", integer=True, min_n_ticks=1)
        axes.set_xlabel("epoch", fontsize=8, color=FAINT)
        axes.set_title(name, loc="left", fontsize=10, weight="bold", color=INK)
        label_ends(axes, ends)
    return save_png(figure, path)


def _check_gallery(
    images: Any,
    cluster: Array,
    score: Array,
    classes: Array | None,
    k: int,
    n_columns: int,
    n_doubtful: int,
) -> None:
    shape, n = tuple(images.shape), len(images)
    if len(shape) != 4 or shape[1] not in (1, 3) or str(images.dtype)[-5:] != "uint8" or n == 0:
        msg = f"images must be (n, 1 or 3, h, w) uint8, got {shape} {images.dtype}"
        raise InvalidValueError(msg)
    for name, values in (("labels", cluster), ("scores", score), ("true_labels", classes)):
        if values is not None and values.shape != (n,):
            msg = f"{name} must have shape ({n},), one for each image, got {values.shape}"
            raise InvalidValueError(msg)
        if values is not None and name != "scores" and (values.dtype.kind not in "iu"):
            msg = f"{name} must be integers, got {values.dtype}"
            raise InvalidValueError(msg)
    if cluster.min() < 0 or cluster.max() >= k:
        msg = f"labels must lie in 0 … {k - 1}, got {cluster.min()} … {cluster.max()}"
        raise InvalidValueError(msg)
    if classes is not None and classes.min() < 0:
        msg = f"true_labels must be 0 or more, got {classes.min()}"
        raise InvalidValueError(msg)
    if not 0 <= n_doubtful < n_columns:
        msg = f"n_doubtful must be 0 or more and below n_columns={n_columns}, got {n_doubtful}"
        raise InvalidValueError(msg)


def _array(values: Any) -> Array:
    return values.numpy(force=True) if isinstance(values, torch.Tensor) else np.asarray(values)


def _bound(name: str, value: Any, k: int) -> Array:
    bound = np.asarray(_array(value), dtype=np.float64)
    if bound.shape not in ((), (k,)) or np.isnan(bound).any():
        msg = f"{name} must be a number or have shape ({k},), without nan, got shape {bound.shape}"
        raise InvalidValueError(msg)
    return np.broadcast_to(bound, (k,))
