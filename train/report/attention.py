"""Attention as a picture: the surest images of each cluster, and each again under its window.

A window is a Gaussian on the map of the encoder. The points of the map look at places of the image
that lie `origin` and multiples of `spacing` from its corner; with unpadded convolutions, far inside
its border. The window is drawn at these places, from its numbers: a map of a few points stretched
over the image would show it elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...algos.core.errors import InvalidValueError
from ...algos.losses.gatcluster.attention import Gaussian, attention_map
from ...common.plotting import FAINT, ORANGE, Page, magnify, save_png
from ..data.pictures import PlainImages

__all__ = ["attended", "overlay", "window_on_image", "write_overlays"]

Array = np.ndarray[Any, Any]

_MOST_ROWS = 40
_INK = 0.7  # share of the color at the center of a window
_TINT = np.asarray([int(ORANGE[i : i + 2], 16) for i in (1, 3, 5)], dtype=np.float64)


def write_overlays(
    path: str | Path,
    images: Tensor | PlainImages,
    labels: Tensor,
    certainty: Tensor,
    windows: Callable[[Tensor], Gaussian],
    *,
    map_size: tuple[int, int],
    alpha: float,
    n_clusters: int,
    origin: tuple[float, float] | None = None,
    spacing: float | None = None,
    n_images: int = 6,
) -> Path:
    """Show each cluster as a row of pairs: an image, and the same under its attention.

    Parameters
    ----------
    path : where the PNG goes. Its folder must exist.
    images : (n, c, h, w) uint8 tensor, c = 1 or 3, or what decodes one.
    labels : (n,) int64 tensor. The cluster of each image.
    certainty : (n,) tensor. The surest images of a cluster are shown.
    windows : callable. Maps ids (m,) to the `Gaussian` of these images, on a map of side 1.
    map_size : (int, int). H and W of the map, each 2 or more.
    alpha : float. Width factor of Eq. 9.
    n_clusters : int. Of more than 40, 40 are shown.
    origin, spacing : where the map's points look, see `networks.MapEncoder`; by default they
        are spread evenly over the image.
    n_images : int, 1 or more. Of a cluster.

    Raises
    ------
    InvalidValueError
        If the map has fewer than two points along a side.
    MissingExtraError
        If matplotlib is not installed.
    OutputError
        If the file cannot be written.
    """
    if min(map_size) < 2:
        msg = f"map_size must be two or more along each side, got {tuple(map_size)}"
        raise InvalidValueError(msg)
    cluster, score = labels.cpu().numpy(), certainty.double().cpu().numpy()
    counts = np.bincount(cluster, minlength=n_clusters)
    shown = np.linspace(0, n_clusters - 1, min(n_clusters, _MOST_ROWS)).round().astype(int)
    sizes = (f"{counts[j]:,} image" + ("s" if counts[j] != 1 else "") for j in shown)
    captions = [(str(j), [(size, FAINT)]) for j, size in zip(shown, sizes, strict=True)]
    tile = magnify(images[:1].cpu().numpy(), 72).shape[1:3]
    page = Page(captions, (tile[0], tile[1]), 2 * n_images, 0)
    for row, j in enumerate(shown):
        members = np.flatnonzero(cluster == j)
        members = members[np.argsort(-score[members], kind="stable")][:n_images]
        if not len(members):
            continue
        ids = torch.from_numpy(members)
        plain, covered = attended(
            images[ids.to(images.device)].cpu().numpy(),
            windows(ids),
            map_size=map_size,
            alpha=alpha,
            origin=origin,
            spacing=spacing,
        )
        for i, (image, under) in enumerate(zip(plain, covered, strict=True)):
            page.put(image, row, 2 * i)
            page.put(under, row, 2 * i + 1)
    facts = f"{n_clusters:,} clusters · beside each image its attention window, in orange"
    return save_png(page.draw("Where each cluster looks", facts), path)


def attended(
    images: Array,
    windows: Gaussian,
    *,
    map_size: tuple[int, int],
    alpha: float,
    origin: tuple[float, float] | None = None,
    spacing: float | None = None,
) -> tuple[Array, Array]:
    """Return images at the size of a page, and the same under their windows.

    Parameters
    ----------
    images : (m, c, h, w) uint8 array, c = 1 or 3.
    windows : Gaussian. Of these images, on a map of side 1.
    map_size, alpha, origin, spacing : as in `write_overlays`.

    Returns
    -------
    plain, under : (m, h', w', 3) uint8 arrays.
    """
    plain = magnify(images, 72)
    tile = plain.shape[1], plain.shape[2]
    placed = window_on_image(
        Gaussian(*(part.double().cpu() for part in windows)),
        map_size=map_size,
        image_size=(images.shape[2], images.shape[3]),
        tile=tile,
        origin=origin,
        spacing=spacing,
    )
    return plain, overlay(plain, attention_map(placed, tile, alpha=alpha).numpy())


def window_on_image(
    window: Gaussian,
    *,
    map_size: tuple[int, int],
    image_size: tuple[int, int],
    tile: tuple[int, int],
    origin: tuple[float, float] | None = None,
    spacing: float | None = None,
) -> Gaussian:
    """Move windows from the map to the image, in units in which the tile has side 1.

    Parameters
    ----------
    window : Gaussian. On a map of side 1, first point at 0 and last at 1.
    map_size, image_size : (int, int). Points of the map, pixels of the image.
    tile : (int, int), pixels. The image as it is drawn: first pixel at 0, last at 1.
    origin, spacing : as in `write_overlays`.

    Examples
    --------
    A window on the first of three points, which lie at pixels 1, 3 and 5 of seven:

    >>> one = Gaussian(torch.zeros(1, 2), torch.full((1, 2), 0.25), torch.zeros(1))
    >>> sizes = {"map_size": (3, 3), "image_size": (7, 7), "tile": (7, 7)}
    >>> moved = window_on_image(one, **sizes, origin=(1, 1), spacing=2)
    >>> moved.mean * 6  # pixels
    tensor([[1., 1.]])
    """
    mean, variances, correlation = window
    centers, widths = [], []
    for axis, (points, pixels, drawn) in enumerate(zip(map_size, image_size, tile, strict=True)):
        step = pixels / points if spacing is None else spacing
        first = (step - 1) / 2 if origin is None else origin[axis]
        length = step * (points - 1)  # of the map, in pixels of the image
        pixel = pixels / drawn  # of the tile, in those of the image
        side = (drawn - 1) * pixel
        at = first + length * mean[..., axis]
        centers.append((at + 0.5 - 0.5 * pixel) / side)
        widths.append(variances[..., axis] * (length / side) ** 2)
    return Gaussian(torch.stack(centers, -1), torch.stack(widths, -1), correlation)


def overlay(tiles: Array, attention: Array) -> Array:
    """Lay attention (n, h, w) in [0, 1] over tiles (n, h, w, 3) uint8, as a tint."""
    share = _INK * attention[..., None]
    mixed: Array = (tiles * (1 - share) + _TINT * share).round().astype(np.uint8)
    return mixed
