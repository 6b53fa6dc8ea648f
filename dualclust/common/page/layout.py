"""Two maps of the centers: their main directions, and their neighborhoods.

The plane of main directions is linear: distances in it mean something, but a thousand centers hide
each other. The map of neighborhoods (t-SNE, exact) keeps only which centers are neighbors, and
spreads them out: distances across it mean nothing. It starts from the plane and draws no random
numbers, so equal centers give equal maps.

Source: van der Maaten and Hinton, "Visualizing data using t-SNE", JMLR 9 (2008), Sec. 3.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import KDTree

__all__ = ["Plane", "main_plane", "neighbor_map", "rows_around"]

Floats = NDArray[np.float64]

NEIGHBORS = 12.0
"""Perplexity: about so many neighbors count."""

ROUNDS, PULLED = 350, 100
"""Steps, and those of them in which neighbors are pulled together more strongly."""

PARTED = 60
"""Most steps that push places apart."""

DISTANCES = 2**22
"""Between centers, at a time."""

GOLDEN = 0.6180339887498949


class Plane(NamedTuple):
    """The plane of most spread of some points.

    Attributes
    ----------
    mean : (d,) float64 array
    directions : (2, d) float64 array
        Orthonormal, or zero where there are fewer; the largest entry of each is positive.
    share : float
        Of the spread that the plane shows, in [0, 1].
    """

    mean: Floats
    directions: Floats
    share: float

    def project(self, points: Floats) -> Floats:
        """Return (m, 2) places of (m, d) points."""
        places: Floats = (points - self.mean) @ self.directions.T
        return places


def main_plane(points: Floats, weights: Floats) -> Plane:
    """Return the plane of most spread of weighted points.

    Parameters
    ----------
    points : (m, d) float64 array
    weights : (m,) float64 array
        At least 0, not all 0.

    Notes
    -----
    Cost O(m d min(m, d)).

    Examples
    --------
    >>> plane = main_plane(np.asarray([[0.0, 0.0], [2.0, 0.0], [4.0, 0.0]]), np.ones(3))
    >>> plane.project(np.asarray([[4.0, 1.0]])), plane.share
    (array([[2., 0.]]), 1.0)
    """
    mean = weights @ points / weights.sum()
    _, values, directions = np.linalg.svd(
        np.sqrt(weights)[:, None] * (points - mean), full_matrices=False
    )
    real = values > 1e-12 * max(float(values[0]), np.finfo(float).tiny)
    plane = np.zeros((2, points.shape[1]))
    plane[: len(values)] = directions[:2] * real[:2, None]
    # The sign of a singular vector is arbitrary: make its largest entry positive.
    largest = np.take_along_axis(plane, np.abs(plane).argmax(axis=1)[:, None], axis=1)
    plane = np.where(largest < 0, -plane, plane)
    spread = float((values**2).sum())
    return Plane(mean, plane, float((values[:2] ** 2).sum()) / spread if spread > 0 else 1.0)


def neighbor_map(
    points: Floats, start: Floats, *, rounds: int = ROUNDS, pulled: int = PULLED
) -> Floats:
    """Return places that keep neighborhoods.

    Parameters
    ----------
    points : (m, d) float64 array
        m at least 4.
    start : (m, 2) float64 array
        For example their places in the main plane.
    rounds, pulled : int
        Steps, and those of them in which neighbors are pulled together more strongly.

    Returns
    -------
    (m, 2) float64 array
        Of mean 0.

    Notes
    -----
    Cost O(m^2) time for each of `rounds` steps, and a few (m, m) float32 arrays.
    """
    m = len(points)
    near = _affinities(points)
    places = 1e-2 * start / max(float(start[:, 0].std()), np.finfo(float).tiny)
    # Points at one place would stay together: part them on a spiral too small to see.
    turn = 2 * np.pi * GOLDEN * np.arange(m)
    places = places + 1e-5 * np.stack([np.cos(turn), np.sin(turn)], axis=1)
    step, gains, rate = np.zeros_like(places), np.ones_like(places), max(m / 12.0, 20.0)
    for i in range(rounds):
        slope = _slope(near, places, 12.0 if i < pulled else 1.0)
        same = (slope > 0) == (step > 0)
        gains = np.maximum(np.where(same, 0.8 * gains, gains + 0.2), 0.01)
        step = (0.5 if i < pulled else 0.8) * step - rate * gains * slope
        places = places + step
        places -= places.mean(axis=0)
    return _parted(places)


def _parted(places: Floats, most: int = PARTED) -> Floats:
    """Push places apart that would hide each other: at least a third of an even grid's step."""
    m = len(places)
    side = float((places.max(axis=0) - places.min(axis=0)).max())
    least = side / (3.0 * np.sqrt(m))
    for _ in range(most):
        pairs = KDTree(places).query_pairs(least, output_type="ndarray")
        if len(pairs) == 0:
            break
        pairs = pairs[np.lexsort(pairs.T[::-1])]  # the sums have one order
        one, other = pairs.T
        ahead = places[other] - places[one]
        apart = np.maximum(np.linalg.norm(ahead, axis=1), 1e-9 * side)
        push = (0.25 * (least - apart) / apart)[:, None] * ahead
        places = places.copy()
        np.add.at(places, other, push)
        np.add.at(places, one, -push)
    centered: Floats = places - places.mean(axis=0)
    return centered


def _slope(near: NDArray[np.float32], places: Floats, pull: float) -> Floats:
    """Return the gradient of the divergence between neighborhoods of points and of places."""
    at = places.astype(np.float32)
    between = at[:, None, 0] - at[:, 0]
    between *= between
    other = at[:, None, 1] - at[:, 1]
    between += other * other
    kernel = 1.0 / (1.0 + between)
    np.fill_diagonal(kernel, 0.0)
    force = (pull * near - kernel / kernel.sum()) * kernel
    slope: Floats = 4.0 * (force.sum(axis=1)[:, None] * at - force @ at).astype(np.float64)
    return slope


def _affinities(points: Floats) -> NDArray[np.float32]:
    """Return symmetric shares of neighborhood, (m, m), of sum 1."""
    m = len(points)
    points = points - points.mean(axis=0)
    squares = (points**2).sum(axis=1)
    apart = np.maximum(squares[:, None] - 2.0 * points @ points.T + squares, 0.0)
    np.fill_diagonal(apart, np.inf)
    apart -= apart.min(axis=1)[:, None]
    scale = np.median(np.where(np.isfinite(apart), apart, 0.0), axis=1)
    apart /= np.where(scale > 0, scale, 1.0)[:, None]
    wanted = np.log(min(NEIGHBORS, (m - 1) / 3))
    low, high = np.full(m, -20.0), np.full(m, 20.0)  # logarithms of inverse widths
    finite = np.where(np.isfinite(apart), apart, 0.0)
    for _ in range(40):
        middle = 0.5 * (low + high)
        weight = np.exp(-np.exp(middle)[:, None] * apart)
        total = weight.sum(axis=1)
        entropy = np.log(total) + np.exp(middle) * (weight * finite).sum(axis=1) / total
        wide = entropy > wanted
        low, high = np.where(wide, middle, low), np.where(wide, high, middle)
    shares = weight / total[:, None]
    near: NDArray[np.float32] = ((shares + shares.T) / (2 * m)).astype(np.float32)
    return near


def rows_around(
    places: Floats,
    labels: NDArray[np.int64],
    toward: NDArray[np.int64],
    doubt: Floats,
    *,
    entries: int = DISTANCES,
) -> Floats:
    """Return places of rows around their centers: the more doubtful, the nearer to the edge.

    Parameters
    ----------
    places : (k, 2) float64 array
        Of the centers.
    labels, toward : (m,) int64 arrays
        Cluster and second choice of each row; -1 where it has none.
    doubt : (m,) float64 array
        In [0, 1]; 1 is put at the edge of the cluster's disk, on the side of the second choice.
    entries : int
        Distances between centers at a time.

    Examples
    --------
    The disk of a cluster reaches almost half way to its nearest neighbor.

    >>> two = np.asarray([[0.0, 0.0], [10.0, 0.0]])
    >>> rows_around(two, np.asarray([0]), np.asarray([1]), np.asarray([1.0])).round(3)
    array([[4.8, 0. ]])
    """
    k = len(places)
    reach = np.full(k, 1.0)
    step = max(1, entries // k)
    for i in range(0, k, step) if k > 1 else ():
        apart = np.linalg.norm(places[i : i + step, None] - places, axis=2)
        apart[np.arange(len(apart)), np.arange(i, i + len(apart))] = np.inf
        reach[i : i + step] = 0.48 * apart.min(axis=1)
    ahead = places[toward] - places[labels]
    angle = np.where(toward >= 0, np.arctan2(ahead[:, 1], ahead[:, 0]), 0.0)
    # Consecutive rows fan out, the certain ones all around, the doubtful toward their choice.
    fan = (np.arange(len(labels)) * GOLDEN + 0.5) % 1.0 - 0.5
    angle = angle + 2.0 * np.pi * fan * (1.0 - 0.75 * doubt)
    radius = reach[labels] * np.sqrt(0.04 + 0.96 * doubt)
    round_it = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    around: Floats = places[labels] + radius[:, None] * round_it
    return around
