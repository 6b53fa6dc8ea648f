"""The estimator's inputs: rows of NumPy or PyTorch, weights, sizes, fixed rows and threads."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import array_api_compat as compat
import numpy as np
from scipy.sparse import issparse
from sklearn.utils.validation import validate_data

from ..algos.bounds.sizes import ROUNDING, SizeBounds
from ..algos.clustering.start import METRICS
from ..algos.core.checks import (
    check_choice,
    check_count,
    check_finite,
    check_integral,
    check_interval,
    check_real,
    check_shape,
    shown,
)
from ..algos.core.errors import InfeasibleBoundsError, InvalidTypeError, InvalidValueError
from ..algos.core.precision import at_least_float32
from ..algos.core.projections import project_sphere
from ..algos.scores.sources import FeatureSource, check_weights, feature_source
from ..cluster.sparse_rows import SparseRows, sparse_source
from ..cluster.threads import products_on
from ._columns import dense_rows

__all__ = [
    "bounds_for_rows",
    "bounds_of",
    "check_enough_rows",
    "check_parameters",
    "check_rows",
    "check_rules",
    "check_sample_weight",
    "check_stream_sizes",
    "has_shares",
    "moved_to",
    "on_threads",
    "pairs_of",
    "row_source",
    "stream_bounds_of",
    "threads_of",
]

Array = Any

ALGORITHMS = ("lloyd", "elkan")
"""Names that scikit-learn's KMeans takes: of one result, and here of one algorithm."""

KEPT_ENTRIES = 2**23
"""Entries of unit rows that are kept, at most: 32 MiB of float32, or 64 of float64."""


def check_parameters(estimator: Any) -> None:
    """Refuse parameters that are wrong for any data."""
    if callable(estimator.metric) or estimator.metric in ("haversine", "precomputed"):
        msg = (
            f"metric must be one of {', '.join(map(repr, METRICS))} for means, got "
            f"{shown(estimator.metric)}. To fix this, use ConstrainedKMedoids, which takes it"
        )
        raise InvalidValueError(msg)
    check_choice("metric", estimator.metric, METRICS)
    check_count("n_clusters", estimator.n_clusters, 1)
    if estimator.n_init != "auto":
        check_count("n_init", estimator.n_init, 1)
    check_count("verbose", int(estimator.verbose), 0)
    check_choice("algorithm", estimator.algorithm, ALGORITHMS)
    check_count("max_iter", estimator.max_iter, 0)
    check_interval("tol", estimator.tol, 0.0, 1.0)
    check_interval("gap", estimator.gap, 0.0, 1.0)
    check_choice("rounding", estimator.rounding, ROUNDING)
    threads_of(estimator.n_jobs)


def check_rows(estimator: Any, X: Any, *, reset: bool, sparse: bool = False) -> Array:
    """Return rows in float32 or float64: a tensor stays on its device, all else becomes NumPy.

    Parameters
    ----------
    estimator : the estimator
        A fit stores the number and names of the columns in it; other methods compare with them.
    X : (n, d) array-like or tensor, or a column of lists
    reset : bool
        Whether this is a fit.
    sparse : bool
        Whether a sparse matrix becomes `SparseRows`; else it is refused.
    """
    if sparse and issparse(X):
        floats = [np.float64, np.float32]
        return SparseRows(
            validate_data(estimator, X, reset=reset, dtype=floats, accept_sparse="csr")
        )
    if not compat.is_torch_array(X):
        X = dense_rows(X)
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
    """Return rows as a source; for "cosine", scaled to unit length.

    Few rows are scaled once, and kept: it costs a third of a pass. Many are in each, a block at a
    time, so that no second copy of them is in memory.
    """
    if isinstance(rows, SparseRows):
        return sparse_source(rows, metric)
    source = feature_source(rows)
    if metric == "euclidean":
        return source
    if math.prod(rows.shape) <= KEPT_ENTRIES:
        return feature_source(_unit(rows))._replace(largest=2.0)
    return source._replace(
        rows=lambda start, stop: _unit(source.rows(start, stop)),
        take=lambda ids: _unit(source.take(ids)),
        largest=2.0,  # 1, and what rounding adds
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
    return SizeBounds.of(
        estimator.n_clusters,
        n_samples=n,
        lower=estimator.lower,
        upper=estimator.upper,
        min_count=estimator.min_count,
        max_count=estimator.max_count,
        rounding=estimator.rounding,
        xp=compat.array_namespace(like),
        device=compat.device(like),
    )


def bounds_for_rows(estimator: Any, rows: Array) -> SizeBounds:
    """Return bounds for rows that need not be as many as those of `fit`.

    Raises
    ------
    InfeasibleBoundsError
        If no labels of so many rows satisfy them. It says that shares fit any number of rows.
    """
    n = rows.shape[0]
    try:
        return bounds_of(estimator, n, rows)
    except InfeasibleBoundsError as error:
        sides = (("min_count", "lower"), ("max_count", "upper"))
        counts = {size: share for size, share in sides if getattr(estimator, size) is not None}
        if not counts:
            raise
        msg = (
            f"{error}, or give {' and '.join(counts.values())} in place of {' and '.join(counts)}: "
            f"shares of the mean size fit any number of rows, sizes in samples only those of fit"
        )
        raise InfeasibleBoundsError(msg) from error


def check_stream_sizes(estimator: Any) -> None:
    """Refuse sizes in samples, which mean nothing if the number of rows is unknown."""
    for name, share in (("min_count", "lower"), ("max_count", "upper")):
        size = getattr(estimator, name)
        if size is not None:
            msg = (
                f"{name} must be None for partial_fit, got {size!r}: a stream has no known number "
                f"of samples. To fix this, give {share} in units of the mean size"
            )
            raise InvalidTypeError(msg)
    if estimator.max_out:
        msg = (
            f"max_out must be 0 for partial_fit, got {estimator.max_out!r}: it counts rows of all "
            f"batches. To fix this, use fit, or leave out the rows of each batch yourself"
        )
        raise InvalidTypeError(msg)


def has_shares(estimator: Any) -> bool:
    """Tell whether the sizes suit a stream; the error is the cause of the AttributeError."""
    check_stream_sizes(estimator)
    return True


def stream_bounds_of(estimator: Any, like: Array) -> SizeBounds:
    """Return bounds for an unknown number of rows."""
    check_stream_sizes(estimator)
    return SizeBounds.for_stream(
        estimator.n_clusters,
        lower=0.0 if estimator.lower is None else estimator.lower,
        upper=math.inf if estimator.upper is None else estimator.upper,
        xp=compat.array_namespace(like),
        device=compat.device(like),
    )


def check_rules(rows: Array, fixed: Any, forbidden: Any) -> tuple[Array | None, Array | None]:
    """Return fixed rows and forbidden pairs as int64 on the device of the rows."""
    if fixed is not None:
        fixed = fixed if compat.is_array_api_obj(fixed) else np.asarray(fixed)
        check_integral("fixed", fixed)
        fixed = moved_to(rows, fixed, "int64")
    return fixed, pairs_of(rows, "forbidden", forbidden)


def pairs_of(rows: Array, name: str, pairs: Any) -> Array | None:
    """Return pairs as int64 on the device of the rows."""
    if pairs is None:
        return None
    if not compat.is_array_api_obj(pairs):
        pairs = np.asarray(pairs)
        pairs = np.zeros((0, 2), np.int64) if pairs.size == 0 else pairs
    check_integral(name, pairs)
    return moved_to(rows, pairs, "int64")


def threads_of(n_jobs: int | None) -> int:
    """Return a number of threads: None is 1, -1 all cores, -2 all but one, as in scikit-learn.

    Examples
    --------
    >>> threads_of(None), threads_of(3), threads_of(-1) >= 1
    (1, 3, True)
    """
    if n_jobs is None:
        return 1
    n = check_count("n_jobs", n_jobs, -sys.maxsize)
    if n == 0:
        msg = "n_jobs must not be 0. To fix this, use -1 for all cores, or a number of threads"
        raise InvalidValueError(msg)
    if n > 0:
        return n
    mine = getattr(os, "sched_getaffinity", None)
    cores = len(mine(0)) if mine is not None else os.cpu_count() or 1
    return max(1, cores + 1 + n)


@contextmanager
def on_threads(source: FeatureSource, n_jobs: int | None) -> Iterator[FeatureSource]:
    """Multiply NumPy rows on threads inside the context; PyTorch has threads of its own."""
    threads = threads_of(n_jobs)
    if not compat.is_numpy_array(source.rows(0, 0)):
        yield source
        return
    with products_on(threads) as multiply:
        yield source._replace(multiply=multiply)


def check_enough_rows(rows: Array, n_clusters: int) -> None:
    """Refuse fewer rows than clusters."""
    if rows.shape[0] < n_clusters:
        msg = f"n_samples={rows.shape[0]} should be >= n_clusters={n_clusters}"
        raise InvalidValueError(msg)
