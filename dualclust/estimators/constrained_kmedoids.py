"""k-medoids with bounded cluster sizes as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import array_api_compat as compat
import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
)
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ..algos.bounds.sizes import ROUNDING
from ..algos.clustering.dissimilarities import (
    Dissimilarities,
    checked_dissimilarities,
    great_circle_distances,
    matrix_dissimilarities,
    pairwise_dissimilarities,
)
from ..algos.clustering.medoids import MedoidsResult, constrained_medoids, start_medoids
from ..algos.core.checks import check_choice, check_count, check_integral, check_interval
from ..algos.offline.assignment import assign_source
from ..algos.scores.deadline import deadline_of
from ..algos.scores.sources import score_source
from ..cluster.distances import blocks, half_squared_distances, nearest_centers
from ._inputs import (
    bounds_for_rows,
    bounds_of,
    check_enough_rows,
    check_rows,
    check_rules,
    check_sample_weight,
    moved_to,
)

__all__ = ["ConstrainedKMedoids"]

Array = Any


def _euclidean(rows: Array, centers: Array) -> Array:
    return compat.array_namespace(rows).sqrt(2.0 * half_squared_distances(rows, centers))


NAMED: dict[str, Callable[[Array, Array], Array]] = {
    "euclidean": _euclidean,
    "haversine": great_circle_distances,
}
METRICS = (*NAMED, "precomputed")
INITS = ("k-medoids++",)


class ConstrainedKMedoids(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator
):
    """k-medoids whose cluster sizes lie between bounds, for any distances.

    A cluster is a row, its medoid, and the rows that go to it. Minimizes the sum of the distances
    (not of their squares) of rows to their medoids over labels and medoids, subject to the bounds,
    by alternation. The labels come with a proof of how near they are to the best ones for the final
    medoids; the medoids are a local optimum.

    Parameters
    ----------
    n_clusters : int
    metric : {"euclidean", "haversine", "precomputed"}, or function
        "haversine": rows are latitude and longitude in *degrees*; distances are great circles on a
        globe of radius 6371.0088 km, in kilometers, exact to nanometers also at the poles and over
        the date line. "precomputed": `X` is the (n, n) matrix of dissimilarities, in [0, 1e100],
        symmetric, 0 on its diagonal. A function: ``metric(X, Y)`` of (a, d) and (b, d) rows returns
        their (a, b) dissimilarities; it is called with up to 2^20 pairs at a time.
    lower, upper : float, k floats, or None
        Smallest and largest size in units of the mean size n / k. None means no bound.
    min_count, max_count : int, k ints, or None
        The same in whole samples; a side has one of the two.
    rounding : {"outward", "inward", "nearest"}
        How a share becomes whole samples.
    init : {"k-medoids++"}, or k ints
        Rows far from each other, or the numbers of the first medoids in `X`.
    n_init : int
        Number of starts; the best result is kept. Given medoids are one start.
    max_iter : int
        Most updates of the medoids of a start.
    gap : float in [0, 1]
        Relative gap to prove for the labels; 0 for optimal labels.
    time_limit : float >= 0, or None
        Seconds after which `fit` ends with the best labels so far, their sizes inside the bounds.
    random_state : int, RandomState instance or None
        Seed of the starts.

    Attributes
    ----------
    medoid_indices_ : (n_clusters,) int64 array
        The row of `X` that stands for each cluster.
    cluster_centers_ : (n_clusters, n_features) array, or None
        These rows; None for "precomputed".
    labels_ : (n_samples,) int64 array
        Inside the bounds.
    counts_ : (n_clusters,) int64 array
    prices_ : (n_clusters,) float64 array
        Dual prices, in units of distance: positive where the lower bound binds, negative where the
        upper one does.
    gap_ : float
        Proven relative distance of the labels to the best ones for these medoids; 0 for optimal
        labels.
    inertia_ : float
        Weighted sum of the distances of the samples to their medoids; kilometers for "haversine".
    n_iter_ : int
    n_features_in_ : int

    Raises
    ------
    InfeasibleBoundsError
        In `fit`, if no labels satisfy the bounds, the fixed rows and the forbidden pairs.

    Notes
    -----
    Rows may be PyTorch tensors: results are then tensors on their device. The objective never rises
    from one update to the next. Cost of a start: n k (3 + ln k) distances to draw it; of an update:
    n k distances for the labels, and n_k^2 of each cluster of n_k rows for its medoid, so n^2 / k
    for equal sizes. A function that takes a microsecond a pair takes two seconds an update for
    10,000 rows in 100 clusters. Memory: n k distances beside the rows, or the matrix.

    Examples
    --------
    Two depots for six customers on both sides of the date line, three each:

    >>> import numpy as np
    >>> from dualclust import ConstrainedKMedoids
    >>> places = [[-17.5, 177.0], [-17.8, 178.0], [-18.1, 178.4],
    ...           [-16.8, 180.0], [-16.7, -180.0], [-13.8, -171.8]]
    >>> model = ConstrainedKMedoids(2, metric="haversine", max_count=3, random_state=0).fit(places)
    >>> sorted(model.medoid_indices_.tolist()), model.counts_, round(model.inertia_)
    ([1, 4], array([3, 3]), 1113)
    >>> model.predict([[-17.0, 179.5], [-18.0, 177.5]]) == model.labels_[[4, 0]]
    array([ True,  True])
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        metric: Any = "euclidean",
        lower: Any = None,
        upper: Any = None,
        min_count: Any = None,
        max_count: Any = None,
        rounding: str = "outward",
        init: Any = "k-medoids++",
        n_init: int = 1,
        max_iter: int = 100,
        gap: float = 0.0,
        time_limit: float | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.metric = metric
        self.lower = lower
        self.upper = upper
        self.min_count = min_count
        self.max_count = max_count
        self.rounding = rounding
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.gap = gap
        self.time_limit = time_limit
        self.random_state = random_state

    def fit(
        self,
        X: Any,
        y: object = None,
        sample_weight: Any = None,
        fixed: Any = None,
        forbidden: Any = None,
    ) -> Self:
        """Cluster the rows of `X`.

        Parameters
        ----------
        X : (n_samples, n_features) array-like or tensor
            For "precomputed" (n_samples, n_samples).
        y : ignored
        sample_weight : (n_samples,) array-like, optional
            At least 0 each; they multiply distances. Sizes count samples.
        fixed : (n_samples,) array-like of ints, optional
            The cluster of each row that is known, and -1 for a free row.
        forbidden : (m, 2) array-like of ints, optional
            Pairs of a row and a cluster that it must not join.

        Returns
        -------
        self
        """
        self._check_parameters()
        rows = check_rows(self, X, reset=True)
        weights = check_sample_weight(sample_weight, rows)
        fixed, forbidden = check_rules(rows, fixed, forbidden)
        check_enough_rows(rows, self.n_clusters)
        bounds = bounds_of(self, rows.shape[0], rows)
        pairs = self._pairs(rows)
        deadline, best = deadline_of(self.time_limit), None
        for medoids in self._starts(pairs, weights, fixed):
            found = constrained_medoids(
                pairs,
                bounds,
                medoids,
                weights=weights,
                fixed=fixed,
                forbidden=forbidden,
                max_iter=self.max_iter,
                gap=self.gap,
                time_limit=deadline,
            )
            if best is None or found.objective > best.objective:
                best = found
            if deadline is not None and deadline.is_late():
                break
        assert best is not None
        return self._keep(best, rows)

    def predict(self, X: Any, *, bounded: bool = False, sample_weight: Any = None) -> Array:
        """Return the cluster of each row of `X`, at the prices of the fit.

        Parameters
        ----------
        X : (n_new, n_features) array-like or tensor
            For "precomputed" (n_new, n_samples): dissimilarities to the rows of `fit`, of which
            those to the medoids are read.
        bounded : bool
            False gives each row its best cluster at the prices, which without bounds is that of
            the nearest medoid, whatever the other rows are. True keeps the cluster sizes of these
            rows inside the estimator's bounds.
        sample_weight : (n_new,) array-like, optional
            Those of `fit`, if it had any.

        Returns
        -------
        (n_new,) int64 array or tensor
        """
        found = self.transform(X)
        weights = check_sample_weight(sample_weight, found)
        prices = moved_to(found, self.prices_, "float64")
        if not bounded:
            return nearest_centers(score_source(-found), prices, weights)
        scores, bounds = score_source(-found, weights), bounds_for_rows(self, found)
        return assign_source(scores, bounds, prices=prices, tol=self.gap).labels

    def transform(self, X: Any) -> Array:
        """Return the distances of rows to medoids.

        Parameters
        ----------
        X : (n_new, n_features) array-like or tensor
            As in `predict`.

        Returns
        -------
        (n_new, n_clusters) array or tensor
        """
        check_is_fitted(self)
        rows = check_rows(self, X, reset=False)
        n, k = rows.shape[0], self.medoid_indices_.shape[0]
        if self.metric == "precomputed":
            found = rows[:, moved_to(rows, self.medoid_indices_, "int64")]
            return checked_dissimilarities("X", found, n, k, like=rows)
        xp, centers = compat.array_namespace(rows), moved_to(rows, self.cluster_centers_)
        metric, parts = self._distances(), []
        for a, b in blocks(n, k, like=rows):
            part = metric(rows[a:b, :], centers)
            parts.append(checked_dissimilarities("metric(X, medoids)", part, b - a, k, like=rows))
        return xp.concat(parts)

    @property
    def _n_features_out(self) -> int:
        return int(self.medoid_indices_.shape[0])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = tags.input_tags.positive_only = self.metric == "precomputed"
        return tags

    def _check_parameters(self) -> None:
        if not callable(self.metric):
            check_choice("metric", self.metric, METRICS)
        if isinstance(self.init, str):
            check_choice("init", self.init, INITS)
        check_count("n_clusters", self.n_clusters, 1)
        check_count("n_init", self.n_init, 1)
        check_count("max_iter", self.max_iter, 0)
        check_interval("gap", self.gap, 0.0, 1.0)
        check_choice("rounding", self.rounding, ROUNDING)

    def _pairs(self, rows: Array) -> Dissimilarities:
        if self.metric == "precomputed":
            return matrix_dissimilarities(rows, name="X")
        return pairwise_dissimilarities(rows, self._distances())

    def _distances(self) -> Callable[[Array, Array], Array]:
        return NAMED[self.metric] if isinstance(self.metric, str) else self.metric

    def _starts(self, pairs: Dissimilarities, weights: Any, fixed: Any) -> Any:
        if not isinstance(self.init, str):
            given = np.asarray(self.init)
            check_integral("init", given)
            yield moved_to(pairs.like, given, "int64")
            return
        random = check_random_state(self.random_state)
        for seed in random.randint(2**31 - 1, size=self.n_init).tolist():
            yield start_medoids(pairs, self.n_clusters, seed=seed, weights=weights, fixed=fixed)

    def _keep(self, best: MedoidsResult, rows: Array) -> Self:
        xp = compat.array_namespace(rows)
        self.medoid_indices_ = best.medoids
        is_matrix = self.metric == "precomputed"
        self.cluster_centers_ = None if is_matrix else xp.take(rows, best.medoids, axis=0)
        self.labels_, self.counts_ = best.labels, best.counts
        self.prices_, self.gap_ = best.assignment.prices, best.gap
        self.inertia_, self.n_iter_ = 0.0 - best.objective, best.n_iter
        return self
