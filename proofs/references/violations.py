"""What a check returns: how far a statement is from holding; 0 where it does, inf for a NaN."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

__all__ = ["below_by", "difference", "excess", "unless", "worst"]


def worst(*violations: float) -> float:
    """Return the largest violation, at least 0; inf if one is NaN."""
    return max(0.0, *(math.inf if math.isnan(v) else float(v) for v in violations))


def difference(a: ArrayLike, b: ArrayLike) -> float:
    """Return the largest ``|a - b|``: the violation of ``a = b``."""
    gaps = np.abs(np.asarray(a, dtype=np.float64) - np.asarray(b, dtype=np.float64))
    return worst(float(np.max(gaps, initial=0.0)))


def excess(a: ArrayLike, b: ArrayLike) -> float:
    """Return the largest ``a - b``, at least 0: the violation of ``a <= b``."""
    gaps = np.asarray(a, dtype=np.float64) - np.asarray(b, dtype=np.float64)
    return worst(float(np.max(gaps, initial=0.0)))


def below_by(a: ArrayLike, b: ArrayLike, margin: float) -> float:
    """Return the violation of ``a <= b - margin``, where a strict inequality has to be one."""
    return excess(np.asarray(a, dtype=np.float64) + margin, b)


def unless(condition: object) -> float:
    """Return the violation of a statement that is true or false: 0 or 1."""
    return 0.0 if bool(condition) else 1.0
