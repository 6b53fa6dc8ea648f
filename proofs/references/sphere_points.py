"""Points on unit spheres that the checks of several claims share."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["at_angles", "random_units", "regular_simplex"]

Floats = NDArray[np.float64]


def random_units(seed: int, n: int, d: int) -> Floats:
    """Return the independent uniform directions, (n, d)."""
    x = np.random.default_rng(seed).normal(size=(n, d))
    units: Floats = x / np.linalg.norm(x, axis=1, keepdims=True)
    return units


def at_angles(*degrees: float) -> Floats:
    """Return the points of the unit circle, (n, 2)."""
    radians = np.radians(np.asarray(degrees, dtype=np.float64))
    return np.stack([np.cos(radians), np.sin(radians)], axis=1)


def regular_simplex(k: int) -> Floats:
    """Return the unit vectors, (k, k), with all cosines ``-1 / (k - 1)``."""
    x = np.eye(k) - 1.0 / k
    units: Floats = x / np.linalg.norm(x, axis=1, keepdims=True)
    return units
