"""The estimator for rows that have sizes: bounds on the loads of clusters, and labels."""

from __future__ import annotations

from typing import Any

import array_api_compat as compat
import numpy as np

from ..algos.bounds.loads import LoadBounds
from ..algos.core.errors import InvalidValueError
from ..algos.offline.weighted import assign_weighted
from ..algos.scores.sources import ScoreSource
from ._inputs import moved_to

__all__ = ["labels_by_size", "load_bounds"]

Array = Any


def labels_by_size(
    estimator: Any, rows: Array, scores: ScoreSource, sizes: Any, *, bounded: bool
) -> Array:
    """Return the clusters of rows at the prices of the fit, or inside the bounds on loads."""
    if (sizes is None) == hasattr(estimator, "loads_"):
        what = "must be given" if sizes is None else "must be left out"
        msg = f"sizes {what} as in fit. To fix this, give them to both or to neither"
        raise InvalidValueError(msg)
    bounds = load_bounds(estimator, rows, sizes, is_free=not bounded)
    if bounded:
        return assign_weighted(scores, bounds).labels
    prices = moved_to(rows, estimator.prices_, "float64")
    xp = compat.array_namespace(prices)

    def best(start: int, stop: int) -> Array:
        block = xp.astype(scores.block(start, stop), xp.float64)
        return xp.argmax(block + bounds.sizes[start:stop, None] * prices, axis=1)

    return xp.concat(list(scores.map_blocks(best, like=prices, at_least_one=True)))


def load_bounds(estimator: Any, rows: Array, sizes: Any, *, is_free: bool = False) -> LoadBounds:
    """Return bounds on loads: shares of the mean load, or loads in the place of counts."""
    if not compat.is_torch_array(sizes):
        sizes = np.asarray(sizes, dtype=np.float64)
    sizes = moved_to(rows, sizes, "float64")
    if tuple(sizes.shape) != (rows.shape[0],):
        msg = (
            f"sizes must be one number for each of the {rows.shape[0]} rows of X, got shape "
            f"{tuple(sizes.shape)}. To fix this, give what each row counts in the bounds"
        )
        raise InvalidValueError(msg)
    k = estimator.n_clusters
    if is_free:
        return LoadBounds.from_loads(sizes, k)
    sides: dict[str, Any] = {}
    for name, load, none in (("lower", "min_count", 0.0), ("upper", "max_count", np.inf)):
        share, value = getattr(estimator, name), getattr(estimator, load)
        if share is not None and value is not None:
            msg = f"{name} and {load} both bound one side, got {share} and {value}"
            msg = f"{msg}. To fix this, give one of them"
            raise InvalidValueError(msg)
        sides[name] = (none if share is None else share, value)
    shares = LoadBounds.from_ratios(sizes, k, lower=sides["lower"][0], upper=sides["upper"][0])
    low, high = (
        own if value is None else value
        for own, (_, value) in zip(shares[1:], sides.values(), strict=True)
    )
    return LoadBounds.from_loads(sizes, k, lower=low, upper=high)
