"""A warning where the rows do not hold as many clusters as were asked for."""

from __future__ import annotations

import warnings
from typing import Any

import array_api_compat as compat
import numpy as np
from sklearn.exceptions import ConvergenceWarning

__all__ = ["warn_of_equal_centers"]

Array = Any


def warn_of_equal_centers(centers: Array, counts: Array) -> None:
    """Warn if clusters are empty or share their center, as they do where too few rows differ."""
    filled = np.asarray(compat.to_device(counts, "cpu")) > 0
    rows = np.asarray(compat.to_device(centers, "cpu"))[filled]
    distinct = len(np.unique(rows, axis=0))
    if distinct < len(filled):
        msg = (
            f"Number of distinct clusters ({distinct}) found smaller than n_clusters "
            f"({len(filled)}). Possibly too few rows of X differ, or upper bounds leave clusters "
            f"empty. To fix this, ask for {distinct} clusters, or look for equal rows"
        )
        warnings.warn(msg, ConvergenceWarning, stacklevel=3)
