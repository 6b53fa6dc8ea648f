"""Where the runs of the estimator start: drawn rows, given centers, or those of the last fit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import array_api_compat as compat
import numpy as np
from sklearn.utils import check_random_state

from ..algos.bounds.sizes import SizeBounds
from ..algos.clustering.minibatch import MiniBatchState, init_minibatch
from ..algos.clustering.seeded import fixed_means, seeded_centers
from ..algos.core.checks import check_choice, check_finite, check_real, check_shape
from ..algos.core.errors import InvalidTypeError
from ..algos.core.projections import project_sphere
from ..algos.scores.sources import FeatureSource
from ..cluster.sparse_rows import SparseRows, sparse_means, sparse_start
from ._inputs import check_enough_rows, moved_to

__all__ = ["Data", "check_init", "starting_centers", "stream_state"]

DRAWN = ("k-means++", "random")
Array = Any


class Data(NamedTuple):
    """What a fit is given, checked.

    Attributes
    ----------
    rows : (n, d) array
        As they are.
    source : FeatureSource
        The same rows; of unit length for "cosine".
    weights : (n,) float64 array or None
    fixed : (n,) int64 array or None
    forbidden, must_link, cannot_link : (m, 2) int64 arrays or None
    """

    rows: Array
    source: FeatureSource
    weights: Array | None
    fixed: Array | None = None
    forbidden: Array | None = None
    must_link: Array | None = None
    cannot_link: Array | None = None


def check_init(init: Any) -> None:
    """Refuse an `init` that is neither a name, nor centers, nor a function."""
    if isinstance(init, str):
        check_choice("init", init, DRAWN)
    elif not callable(init) and not hasattr(init, "__len__"):
        msg = (
            f"init must be 'k-means++', 'random', (k, d) centers or a function of X, n_clusters "
            f"and random_state, got {init!r}"
        )
        raise InvalidTypeError(msg)


def starting_centers(estimator: Any, data: Data) -> Iterator[Array]:
    """Yield the starting centers of each run: `n_init` draws, or centers that are given, once."""
    random = check_random_state(estimator.random_state)
    seeds = random.randint(2**31 - 1, size=_number_of_starts(estimator)).tolist()
    if estimator.warm_start and hasattr(estimator, "cluster_centers_"):
        yield _checked(estimator, data, "cluster_centers_", estimator.cluster_centers_)
    elif not isinstance(estimator.init, str) and not callable(estimator.init):
        yield _checked(estimator, data, "init", estimator.init)
    else:
        for seed in seeds:
            yield _drawn(estimator, data, seed)


def _number_of_starts(estimator: Any) -> int:
    """Return `n_init`; "auto" is 1 for k-means++ and given centers, else 10, as in scikit-learn."""
    if estimator.n_init != "auto":
        return int(estimator.n_init)
    return 10 if callable(estimator.init) or str(estimator.init) == "random" else 1


def _drawn(estimator: Any, data: Data, seed: int) -> Array:
    """Return one draw of centers; clusters with fixed rows start at the means of these."""
    k, metric, init = estimator.n_clusters, estimator.metric, estimator.init
    options = {"fixed": data.fixed, "metric": metric, "weights": data.weights}
    is_sparse = isinstance(data.rows, SparseRows)
    if isinstance(init, str) and init == "k-means++" and is_sparse:
        drawn = sparse_start(data.source, k, seed=seed, weights=data.weights, fixed=data.fixed)
        return _with_means(drawn, data, metric)
    if isinstance(init, str) and init == "k-means++":
        return seeded_centers(data.source, k, seed=seed, **options)
    random = np.random.RandomState(seed)
    if callable(init):
        rows = data.rows.matrix if is_sparse else data.rows
        return _checked(estimator, data, "init", init(rows, k, random_state=random))
    xp, device = compat.array_namespace(data.rows), compat.device(data.rows)
    chances = None
    if data.weights is not None:
        chances = np.asarray(compat.to_device(data.weights, "cpu"))
        chances = chances / chances.sum()
        chances = chances if np.count_nonzero(chances) >= k else None
    ids = random.choice(data.rows.shape[0], k, replace=False, p=chances)
    centers = data.source.take(xp.asarray(ids, dtype=xp.int64, device=device))
    if is_sparse:
        return _with_means(centers.toarray(), data, metric)
    if data.fixed is None:
        return centers
    means, known = fixed_means(data.source, k, **options)
    return xp.where(known[:, None], means, centers)


def _with_means(centers: Array, data: Data, metric: str) -> Array:
    """Return centers of sparse rows, those of clusters with fixed rows at the means of these."""
    if data.fixed is None:
        return centers
    return sparse_means(data.source, data.fixed, centers, metric, data.weights)


def _checked(estimator: Any, data: Data, name: str, centers: Any) -> Array:
    """Return centers of the caller in the library of the rows; as directions for "cosine"."""
    if not compat.is_array_api_obj(centers):
        centers = np.asarray(centers, dtype=np.float64)
    centers = moved_to(data.rows, centers)
    check_real(name, centers)
    check_shape(name, centers, (estimator.n_clusters, data.rows.shape[1]))
    check_finite(name, centers)
    return project_sphere(centers) if estimator.metric == "cosine" else centers


def stream_state(estimator: Any, data: Data, bounds: SizeBounds) -> MiniBatchState:
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
    check_enough_rows(data.rows, estimator.n_clusters)
    return init_minibatch(next(starting_centers(estimator, data)), bounds)
