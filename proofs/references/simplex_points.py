"""Label features on a grid of the simplex, and scores that have them."""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

__all__ = ["logits_of", "simplex_grid"]

Floats = NDArray[np.float64]


def simplex_grid(k: int, steps: int) -> Floats:
    """Return all points of the simplex in R^k with entries that are multiples of 1 / steps."""
    rows = [c for c in itertools.product(range(steps + 1), repeat=k) if sum(c) == steps]
    return np.asarray(rows, dtype=np.float64) / steps


def logits_of(features: Floats) -> Floats:
    """Return the scores whose softmax these label features are; a zero is exact."""
    positive = features > 0
    logits: Floats = np.where(positive, np.log(np.where(positive, features, 1.0)), -1e4)
    return logits
