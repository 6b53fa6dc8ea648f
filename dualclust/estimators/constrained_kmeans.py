"""k-means with bounded cluster sizes as a scikit-learn estimator."""

from __future__ import annotations

import math
from typing import Any, Self

import array_api_compat as compat
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
)
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from ..algos.clustering.constrained import ConstrainedKMeansResult, best_of, constrained_kmeans
from ..algos.clustering.minibatch import minibatch_step
from ..algos.clustering.start import start_centers
from ..algos.core.errors import InvalidValueError
from ..algos.offline.assignment import assign_source
from ..algos.online.duals import Duals
from ..algos.scores.sources import FeatureSource, ScoreSource, product_source
from ..cluster.distances import blocks, half_squared_distances, nearest_centers, squared_distances
from ._inputs import (
    bounds_of,
    check_parameters,
    check_rows,
    check_sample_weight,
    check_stream_sizes,
    moved_to,
    row_source,
    stream_bounds_of,
    stream_state,
)

__all__ = ["ConstrainedKMeans"]

Array = Any


def _has_shares(estimator: ConstrainedKMeans) -> bool:
    """Tell whether the sizes suit a stream; the error is the cause of the AttributeError."""
    check_stream_sizes(estimator)
    return True


class ConstrainedKMeans(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator
):
    """k-means whose clusters have at least `lower` and at most `upper` samples.

    Minimizes the sum of squared distances (or of one minus cosine) to the centers over labels and
    centers, subject to the bounds, by alternation. The final labels come with a proof of how near
    they are to the best ones for the final centers.

    Parameters
    ----------
    n_clusters : int
    lower, upper : int, float or None
        An int is a number of samples. A float is in units of the mean size n / k: at most 1 for
        `lower` and at least 1 for `upper`, since other bounds exclude all sizes. None means no
        bound. A float bound is rounded outward to whole samples.
    metric : {"euclidean", "cosine"}
        "cosine" compares directions; a zero row has none and is equally far from all centers.
    n_init : int
        Number of starts by k-means++; the best result is kept.
    max_iter : int
        Most center updates of a start.
    tol : float in [0, 1]
        Stop once at most this share of the labels changes.
    gap : float in [0, 1]
        Relative gap to prove for the final labels; 0 for optimal labels.
    random_state : int, RandomState instance or None
        Seed of the starts.

    Attributes
    ----------
    cluster_centers_ : (n_clusters, n_features) array
    labels_ : (n_samples,) int64 array
        Inside the bounds.
    counts_ : (n_clusters,) int64 array
    prices_ : (n_clusters,) float64 array
        Dual prices: positive where the lower bound binds, negative where the upper one does.
    duals_ : Duals
        The same prices split into those of the lower and of the upper bounds, both at least 0.
    gap_ : float
        Proven relative distance of the final labels to the best ones for the final centers; 0 for
        optimal labels.
    inertia_ : float
        Weighted sum of squared distances of the samples to their centers.
    n_iter_ : int
    n_features_in_ : int

    Raises
    ------
    InfeasibleBoundsError
        In `fit`, if no labels satisfy the bounds.

    Notes
    -----
    Rows may be PyTorch tensors, on any device: results are then tensors there. Weights multiply
    squared distances. Sizes count samples whatever their weight, so a weight of 2 is not the same
    as two equal rows. Cost of `fit`: O(n k d) per update, memory of one block of scores.

    Examples
    --------
    >>> import numpy as np
    >>> from dualclust import ConstrainedKMeans
    >>> x = np.asarray([[0.0], [0.1], [0.2], [5.0]])
    >>> model = ConstrainedKMeans(2, lower=2, random_state=0).fit(x)
    >>> model.counts_
    array([2, 2])
    >>> bool((model.predict(x, bounded=True) == model.labels_).all())
    True
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        lower: int | float | None = None,
        upper: int | float | None = None,
        metric: str = "euclidean",
        n_init: int = 1,
        max_iter: int = 100,
        tol: float = 1e-3,
        gap: float = 1e-4,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.lower = lower
        self.upper = upper
        self.metric = metric
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.gap = gap
        self.random_state = random_state

    def fit(self, X: Any, y: object = None, sample_weight: Any = None) -> Self:
        """Cluster the rows of `X`.

        Parameters
        ----------
        X : (n_samples, n_features) array-like or tensor
        y : ignored
        sample_weight : (n_samples,) array-like, optional
            At least 0 each.

        Returns
        -------
        self
        """
        check_parameters(self)
        rows = check_rows(self, X, reset=True)
        weights = check_sample_weight(sample_weight, rows)
        if rows.shape[0] < self.n_clusters:
            msg = f"n_samples={rows.shape[0]} should be >= n_clusters={self.n_clusters}"
            raise InvalidValueError(msg)
        bounds, source = bounds_of(self, rows.shape[0], rows), row_source(rows, self.metric)
        seeds = check_random_state(self.random_state).randint(2**31 - 1, size=self.n_init).tolist()

        def run(seed: int) -> ConstrainedKMeansResult:
            return constrained_kmeans(
                source,
                bounds,
                start_centers(
                    source, self.n_clusters, seed=seed, metric=self.metric, weights=weights
                ),
                metric=self.metric,
                weights=weights,
                max_iter=self.max_iter,
                tol=self.tol,
                gap=self.gap,
            )

        best = best_of(run, seeds)
        self.cluster_centers_ = best.centers
        self.labels_ = best.assignment.labels
        self.counts_ = best.assignment.counts
        self._set_prices(best.assignment.prices)
        self.gap_ = best.assignment.gap
        self.inertia_ = squared_distances(source, self.labels_, best.centers, weights)
        self.n_iter_ = best.n_iter
        self.__dict__.pop("_stream", None)
        return self

    @available_if(_has_shares)  # type: ignore[untyped-decorator]
    def partial_fit(self, X: Any, y: object = None, sample_weight: Any = None) -> Self:
        """Label the rows of one mini-batch of a stream, and update the centers with them.

        The first call draws the centers from its batch, unless `fit` has found some. Bounds steer
        the prices; sizes meet them in the long run, not in each batch. Hence `partial_fit` exists
        only if `lower` and `upper` are floats or None. `labels_` and `inertia_` describe the batch,
        `counts_` all batches, and `gap_` is infinite, since nothing is proven.

        Parameters
        ----------
        X : (n_samples, n_features) array-like or tensor
        y : ignored
        sample_weight : (n_samples,) array-like, optional

        Returns
        -------
        self
        """
        check_parameters(self)
        rows = check_rows(self, X, reset=not hasattr(self, "cluster_centers_"))
        weights = check_sample_weight(sample_weight, rows)
        bounds, source = stream_bounds_of(self, rows), row_source(rows, self.metric)
        points = source.rows(0, rows.shape[0])
        state = stream_state(self, source, bounds, weights)
        labels, state = minibatch_step(points, state, bounds, metric=self.metric, weights=weights)
        self._stream = state
        self.cluster_centers_, self.labels_ = state.centers, labels
        self.counts_ = state.assignment.counts
        self._set_prices(state.assignment.duals.lower - state.assignment.duals.upper)
        self.gap_ = math.inf
        self.inertia_ = squared_distances(source, labels, state.centers, weights)
        self.n_iter_ = getattr(self, "n_iter_", 0) + 1
        return self

    def predict(self, X: Any, *, bounded: bool = False) -> Array:
        """Return the cluster of each row of `X`.

        Parameters
        ----------
        X : (n_samples, n_features) array-like or tensor
        bounded : bool
            False gives each row its nearest center. True keeps the cluster sizes of these rows
            inside the estimator's bounds.

        Returns
        -------
        (n_samples,) int64 array or tensor
        """
        rows, scores, _ = self._scores(X)
        if bounded:
            bounds = bounds_of(self, rows.shape[0], rows)
            prices = moved_to(rows, self.prices_, "float64")
            return assign_source(scores, bounds, prices=prices, tol=self.gap).labels
        return nearest_centers(scores)

    def transform(self, X: Any) -> Array:
        """Return the distances of rows to centers, Euclidean or 1 - cos, accurate near centers.

        Parameters
        ----------
        X : (n_samples, n_features) array-like or tensor

        Returns
        -------
        (n_samples, n_clusters) array or tensor
        """
        rows, scores, source = self._scores(X)
        xp, parts = compat.array_namespace(rows), []
        centers = self._centers(rows) - self._origin(rows)
        for start, stop in blocks(rows.shape[0], scores.n_clusters):
            points, spherical = source.rows(start, stop), self.metric == "cosine"
            half = half_squared_distances(points, centers, spherical=spherical)
            parts.append(half if spherical else xp.sqrt(2.0 * half))
        return xp.concat(parts)

    def score(self, X: Any, y: object = None, sample_weight: Any = None) -> float:
        """Return minus the weighted sum of squared distances to the nearest centers."""
        rows, scores, source = self._scores(X)
        weights = check_sample_weight(sample_weight, rows)
        centers = self._centers(rows) - self._origin(rows)
        return -squared_distances(source, nearest_centers(scores), centers, weights)

    @property
    def _n_features_out(self) -> int:
        return int(self.cluster_centers_.shape[0])

    def _set_prices(self, prices: Array) -> None:
        xp = compat.array_namespace(prices)
        self.prices_ = prices
        self.duals_ = Duals(xp.clip(prices, min=0.0), xp.clip(-prices, min=0.0))

    def _centers(self, rows: Array) -> Array:
        return moved_to(rows, self.cluster_centers_)

    def _origin(self, rows: Array) -> Array:
        """Return an origin near the centers: far from it, distances would lose their digits."""
        xp, centers = compat.array_namespace(rows), self._centers(rows)
        return (
            xp.mean(centers, axis=0) if self.metric == "euclidean" else xp.zeros_like(centers[0, :])
        )

    def _scores(self, X: Any) -> tuple[Array, ScoreSource, FeatureSource]:
        """Return rows, their scores, and a source of the rows relative to the scores' origin."""
        check_is_fitted(self)
        rows = check_rows(self, X, reset=False)
        xp, origin = compat.array_namespace(rows), self._origin(rows)
        centers, source = self._centers(rows) - origin, row_source(rows, self.metric)
        if self.metric == "cosine":
            return rows, product_source(source, centers), source
        around = source._replace(
            rows=lambda start, stop: source.rows(start, stop) - origin,
            take=lambda ids: source.take(ids) - origin,
        )
        offsets = -0.5 * xp.sum(centers * centers, axis=1)
        return rows, product_source(around, centers, offsets=offsets), around
