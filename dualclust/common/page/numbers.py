"""Numbers as the charts and the map of a page take them: few digits, bars, places in a square."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .layout import main_plane, neighbor_map, rows_around

__all__ = ["held", "histogram", "maps_of", "packed", "rounded"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

BARS = 60
"""Bars of the margins."""


def rounded(values: Floats, digits: int) -> list[float]:
    """Return values of so many digits; what is rounding next to the largest is 0.

    Examples
    --------
    >>> rounded(np.asarray([1.23456, 1e-12]), 3)
    [1.23, 0.0]
    """
    finite = values[np.isfinite(values)]
    values = np.where(np.abs(values) > 1e-9 * np.abs(finite).max(initial=0.0), values, 0.0)
    return [float(f"{value:.{digits}g}") for value in values.tolist()]


def histogram(margin: Floats) -> dict[str, Any] | None:
    """Count margins in bars of equal width; None for a single cluster, which has no second."""
    finite = margin[np.isfinite(margin)]
    if len(finite) == 0:
        return None
    finite = np.maximum(finite, 0.0)
    end = float(np.quantile(finite, 0.995)) or 1.0
    counts, _ = np.histogram(np.minimum(finite, end), bins=BARS, range=(0.0, end))
    return {
        "end": end,
        "counts": counts.tolist(),
        "median": float(np.median(finite)),
        "n": len(finite),
        "near": float((finite < 0.01 * end).mean()),
    }


def maps_of(
    centers: Floats,
    counts: Ints,
    rows: Sequence[Floats],
    *,
    labels: Ints,
    runner_up: Ints,
    margin: Floats,
    neighborhoods: bool,
) -> dict[str, Any]:
    """Return places of the centers and of some rows, each in [0, 1], on one or two maps.

    Parameters
    ----------
    centers : (k, d) float64 array
    counts : (k,) int64 array
        Rows of each cluster, which weight the centers.
    rows : blocks of (., d) float64 arrays
        Together m rows.
    labels, runner_up : (m,) int64 arrays
        Cluster and second choice of the rows; -1 where there is none.
    margin : (m,) float64 array
    neighborhoods : bool
        Whether to add the map of neighborhoods, whose time and memory grow with k^2; it needs
        four clusters.
    """
    k = len(counts)
    if k > 2:
        plane = main_plane(centers, np.maximum(counts, 1).astype(np.float64))
    else:  # two centers span a line only
        points = np.concatenate(rows)
        plane = main_plane(points, np.ones(len(points)))
    flat = plane.project(centers)
    of_what = "the centers" if k > 2 else "the rows"
    maps = [
        {
            "name": "Main directions",
            "note": f"The plane of most spread of {of_what}: it shows {plane.share:.0%} of it.",
            **_box(flat, np.concatenate([plane.project(block) for block in rows])),
        }
    ]
    if neighborhoods and k >= 4:
        places = neighbor_map(centers, flat)
        order = np.argsort(np.argsort(-margin, kind="stable"))
        doubt = (order + 0.5) / len(order)
        around = rows_around(places, labels, runner_up, doubt)
        note = (
            "Only who is next to whom is kept; distances across the map mean nothing. A row is the "
            "nearer to its cluster's edge, toward its second choice, the smaller its margin is."
        )
        maps = [{"name": "Neighborhoods", "note": note, **_box(places, around)}, *maps]
    return {"all": maps, "cluster": packed(labels.astype("<u4"))}


def held(prices: Floats, lower: NDArray[Any], upper: NDArray[Any], n_samples: int) -> Ints:
    """Return which bound acts on each cluster, (k,): 1 the lower one, -1 the upper one, 0 none.

    A price above 0 holds a cluster up at its lower bound, one below 0 holds it down. Without that
    bound a price is a mere shift of all scores.

    Examples
    --------
    >>> held(np.asarray([0.3, -0.2]), np.asarray([4, 4]), np.asarray([9, 10]), 10)
    array([1, 0])
    """
    zero = 1e-9 * np.abs(prices).max(initial=0.0)
    up = (prices > zero) & (lower > 0)
    down = (prices < -zero) & (upper < n_samples)
    sides: Ints = up.astype(np.int64) - down
    return sides


def packed(array: NDArray[Any]) -> str:
    """Return the bytes of an array as text."""
    return base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()


def _box(centers: Floats, dots: Floats) -> dict[str, Any]:
    """Scale places into the unit square, both axes alike; rows far outside lie on its edge."""
    low, high = centers.min(axis=0), centers.max(axis=0)
    if len(dots):
        low = np.minimum(low, np.quantile(dots, 0.002, axis=0))
        high = np.maximum(high, np.quantile(dots, 0.998, axis=0))
    side = float((high - low).max()) or 1.0
    middle = (low + high) / 2
    inside = (centers - middle) / side + 0.5
    dots = ((dots - middle) / side + 0.5).clip(0.0, 1.0)
    return {
        "x": [round(x, 4) for x in inside[:, 0].tolist()],
        "y": [round(1.0 - y, 4) for y in inside[:, 1].tolist()],
        "dots": packed((np.stack([dots[:, 0], 1.0 - dots[:, 1]], axis=1) * 65535).astype("<u2")),
    }
