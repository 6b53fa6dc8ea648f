"""The estimator's inputs: rows of NumPy or PyTorch, weights, and sizes as numbers or shares."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

import array_api_compat as compat
import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from ..algos.bounds.sizes import SizeBounds
from ..algos.clustering.minibatch import MiniBatchState, init_minibatch
from ..algos.clustering.start import METRICS, start_centers
from ..algos.core.checks import (
    check_choice,
    check_count,
    check_finite,
    check_interval,
    check_real,
    check_shape,
)
from ..algos.core.errors import InvalidTypeError, InvalidValueError
from ..algos.core.precision import at_least_float32
from ..algos.core.projections import project_sphere
from ..algos.scores.sources import FeatureSource, check_weights, feature_source

__all__ = [
    "bounds_of",
    "check_parameters",
    "check_rows",
    "check_sample_weight",
    "check_stream_sizes",
    "moved_to",
    "row_source",
    "stream_bounds_of",
    "stream_state",
]

Array = Any


def check_parameters(estimator: Any) -> None:
    """Refuse parameters that are wrong for any data."""
    check_choice("metric", estimator.metric, METRICS)
    check_count("n_clusters", estimator.n_clusters, 1)
    check_count("n_init", estimator.n_init, 1)
    check_count("max_iter", estimator.max_iter, 0)
    check_interval("tol", estimator.tol, 0.0, 1.0)
    check_interval("gap", estimator.gap, 0.0, 1.0)


def check_rows(estimator: Any, X: Any, *, reset: bool) -> Array:
    """Return rows in float32 or float64: a tensor stays on its device, all else becomes NumPy.

    Parameters
    ----------
    estimator : the estimator
        A fit stores the number and names of the columns in it; other methods compare with them.
    X : (n, d) array-like or tensor
    reset : bool
        Whether this is a fit.
    """
    if not compat.is_torch_array(X):
        return validate_data(estimator, X, reset=reset, dtype=[np.float64, np.float32], order="C")
    check_real("X", X)
    _, d = check_shape("X", X, ("n_samples", "n_features"))
    check_finite("X", X)
    if X.numel() == 0:
        msg = f"X must have at least one row and one column, got shape {tuple(X.shape)}"
        raise InvalidValueError(msg)
    if reset:
        estimator.n_features_in_ = d
        estimator.__dict__.pop("feature_names_in_", None)
    elif d != estimator.n_features_in_:
        name, expected = type(estimator).__name__, estimator.n_features_in_
        msg = f"X has {d} features, but {name} is expecting {expected} features as input"
        raise InvalidValueError(msg)
    return at_least_float32(X.detach())


def row_source(rows: Array, metric: str) -> FeatureSource:
    """Return rows as a source; for "cosine", scaled to unit length a block at a time."""
    source = feature_source(rows)
    if metric == "euclidean":
        return source
    return source._replace(
        rows=lambda start, stop: _unit(source.rows(start, stop)),
        take=lambda ids: _unit(source.take(ids)),
    )


def _unit(block: Array) -> Array:
    return project_sphere(block) if block.shape[0] else block


def check_sample_weight(weights: Any, rows: Array) -> Array | None:
    """Return weights as float64 on the device of the rows, or None for equal weights."""
    if weights is None:
        return None
    if not compat.is_torch_array(weights):
        weights = np.asarray(weights, dtype=np.float64)
    weights = moved_to(rows, weights, "float64")
    if weights.ndim == 1 and not bool((weights != 0.0).any()):
        msg = "sample_weight must not be zero for all rows. To fix this, leave it out"
        raise InvalidValueError(msg)
    return check_weights("sample_weight", weights, rows.shape[0])


def moved_to(rows: Array, array: Array, dtype: str | None = None) -> Array:
    """Move an array of any library to the library and device of `rows`, in their or this dtype."""
    xp = compat.array_namespace(rows)
    if compat.is_torch_array(array) and not compat.is_torch_array(rows):
        array = array.detach().cpu().numpy()
    wanted = getattr(xp, dtype) if dtype else rows.dtype
    return xp.asarray(array, dtype=wanted, device=compat.device(rows))


def bounds_of(estimator: Any, n: int, like: Array) -> SizeBounds:
    """Return bounds for n rows, on the library and device of `like`."""
    k = estimator.n_clusters
    low = _count("lower", estimator.lower, n, k, default=0, up=False)
    high = _count("upper", estimator.upper, n, k, default=n, up=True)
    xp, device = compat.array_namespace(like), compat.device(like)
    return SizeBounds.from_counts([low] * k, [high] * k, n_samples=n, xp=xp, device=device)


def check_stream_sizes(estimator: Any) -> None:
    """Refuse sizes in samples, which mean nothing if the number of rows is unknown."""
    for name in ("lower", "upper"):
        size = getattr(estimator, name)
        if size is not None and (isinstance(size, Integral) or not isinstance(size, Real)):
            msg = (
                f"{name} must be a float or None for partial_fit, got {size!r}: a stream has no "
                f"known number of samples. To fix this, give it in units of the mean size"
            )
            raise InvalidTypeError(msg)


def stream_bounds_of(estimator: Any, like: Array) -> SizeBounds:
    """Return bounds for an unknown number of rows."""
    for name, up in (("lower", False), ("upper", True)):
        size = getattr(estimator, name)
        if size is not None:
            _check_share(name, size, up=up)
    return SizeBounds.for_stream(
        estimator.n_clusters,
        lower=0.0 if estimator.lower is None else estimator.lower,
        upper=math.inf if estimator.upper is None else estimator.upper,
        xp=compat.array_namespace(like),
        device=compat.device(like),
    )


def stream_state(
    estimator: Any, source: FeatureSource, bounds: SizeBounds, weights: Array | None
) -> MiniBatchState:
    """Return the state after the batches so far; before the first, that of `fit` or a new one."""
    if hasattr(estimator, "_stream"):
        state: MiniBatchState = estimator._stream
        return state
    if hasattr(estimator, "cluster_centers_"):
        state, counts = init_minibatch(estimator.cluster_centers_, bounds), estimator.counts_
        xp = compat.array_namespace(counts)
        counted = state.assignment._replace(
            duals=estimator.duals_,
            start=estimator.duals_,
            counts=counts,
            seen=int(xp.sum(counts)),
        )
        return state._replace(weight=xp.astype(counts, xp.float64), assignment=counted)
    n, k = source.group.n_total, estimator.n_clusters
    if n < k:
        msg = f"n_samples={n} should be >= n_clusters={k}"
        raise InvalidValueError(msg)
    seed = int(check_random_state(estimator.random_state).randint(2**31 - 1))
    centers = start_centers(source, k, seed=seed, metric=estimator.metric, weights=weights)
    return init_minibatch(centers, bounds)


def _count(name: str, size: Any, n: int, k: int, *, default: int, up: bool) -> int:
    """Return a bound in whole samples."""
    if size is None:
        return default
    if isinstance(size, bool) or not isinstance(size, Real):
        msg = f"{name} must be an int, a float or None, got {size!r}"
        raise InvalidTypeError(msg)
    if isinstance(size, Integral):
        return min(int(size), n) if up else int(size)
    _check_share(name, float(size), up=up)
    ratio = {"lower": 0.0, "upper": float(size)} if up else {"lower": float(size)}
    bounds = SizeBounds.from_ratios(k, n_samples=n, rounding="outward", **ratio)
    return int((bounds.upper if up else bounds.lower)[0])


def _check_share(name: str, size: float, *, up: bool) -> None:
    """Refuse a size in units of n / k that all clusters cannot have, whatever n is."""
    if math.isnan(size) or size < 0:
        msg = f"{name} must be 0 or more, got {size!r}"
        raise InvalidValueError(msg)
    if size < 1 if up else size > 1:
        rule = "at least" if up else "at most"
        msg = (
            f"{name} must be {rule} 1 as a float, in units of the mean size n / k, got {size!r}. "
            f"To fix this, give a number of samples as an int, or a float of {rule} 1"
        )
        raise InvalidValueError(msg)
