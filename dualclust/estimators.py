"""k-means with bounded cluster sizes as a scikit-learn estimator."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
)
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from .algos.bounds import SizeBounds, from_counts, from_ratios
from .algos.checks import check_choice, check_count
from .algos.errors import InvalidTypeError, InvalidValueError
from .algos.kmeans import KMeansResult, constrained_kmeans, kmeans_plus_plus
from .algos.offline import OfflineAssignment, assign_offline
from .algos.projections import project_sphere
from .algos.transport import EXACT_ENTRIES, assign_exact

__all__ = ["ConstrainedKMeans"]

Floats = NDArray[np.floating[Any]]
Ints = NDArray[np.int64]

START_ROWS_PER_CLUSTER = 50


class ConstrainedKMeans(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator
):
    """k-means whose clusters have at least `size_min` and at most `size_max` samples.

    Minimizes the sum of squared distances (or of one minus cosine) to the centers over labels and
    centers, subject to the bounds, by alternation; the final labels are optimal for the final
    centers, or come with a proof of how near they are.

    Parameters
    ----------
    n_clusters : int
    size_min, size_max : int, float or None
        An int is a number of samples, a float is in units of the mean size n / k; None is no
        bound. A float bound that is no whole number is rounded outward.
    metric : {"euclidean", "cosine"}
        "cosine" looks at directions only; a zero row has none and is equally far from all centers.
    n_init : int
        Starts by k-means++; the best is kept.
    max_iter : int
        Most center updates of a start.
    tol : float in [0, 1]
        Stop once at most this share of the labels changes.
    exact : bool or "auto"
        Whether the final labels are optimal for the final centers, which holds n times k scores;
        "auto" is up to 2^24 of them.
    random_state : int, RandomState instance or None
        Of the starts.

    Attributes
    ----------
    cluster_centers_ : (n_clusters, n_features) array
    labels_ : (n_samples,) int64 array
        Inside the bounds.
    sizes_ : (n_clusters,) int64 array
    prices_ : (n_clusters,) float64 array
        Dual prices: positive where the lower bound binds, negative where the upper one does.
    gap_ : float
        Relative distance of the final objective to its proven bound, for the final centers; 0 up
        to rounding where the labels are exact.
    inertia_ : float
        Sum of squared distances of the samples to their centers.
    n_iter_ : int
    n_features_in_ : int

    Raises
    ------
    InfeasibleBoundsError
        In `fit`, if no labels satisfy the bounds.

    Notes
    -----
    Cost of `fit`: O(n k d) per update. Sample weights are not supported.

    Examples
    --------
    >>> import numpy as np
    >>> from dualclust import ConstrainedKMeans
    >>> x = np.asarray([[0.0], [0.1], [0.2], [5.0]])
    >>> model = ConstrainedKMeans(2, size_min=2, random_state=0).fit(x)
    >>> model.sizes_
    array([2, 2])
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        size_min: int | float | None = None,
        size_max: int | float | None = None,
        metric: str = "euclidean",
        n_init: int = 1,
        max_iter: int = 100,
        tol: float = 1e-3,
        exact: bool | str = "auto",
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.size_min = size_min
        self.size_max = size_max
        self.metric = metric
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.exact = exact
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Cluster the rows of `X`, (n_samples, n_features); `y` is ignored."""
        check_choice("metric", self.metric, ("euclidean", "cosine"))
        check_count("n_clusters", self.n_clusters, 1)
        check_count("n_init", self.n_init, 1)
        features: Floats = validate_data(self, X, dtype=[np.float64, np.float32], order="C")
        n, k = len(features), self.n_clusters
        if n < k:
            msg = f"n_samples={n} should be >= n_clusters={k}"
            raise InvalidValueError(msg)
        bounds = self._bounds(n)
        points, origin = self._points(features, fitting=True)
        random = check_random_state(self.random_state)
        best: KMeansResult | None = None
        for _ in range(self.n_init):
            sample = random.permutation(n)[: max(1000, START_ROWS_PER_CLUSTER * k)]
            result = constrained_kmeans(
                points,
                bounds,
                kmeans_plus_plus(points[sample], random.random_sample(k)),
                metric=self.metric,
                n_iter=self.max_iter,
                tolerance=self.tol,
                exact=self._exact(n),
            )
            if best is None or result.assignment.objective > best.assignment.objective:
                best = result
        assert best is not None  # n_init >= 1
        found = best.assignment
        self._origin = origin
        self.cluster_centers_ = best.centers + origin
        self.labels_ = found.labels
        self.sizes_ = found.state.counts
        self.prices_ = found.state.duals.lower - found.state.duals.upper
        spread = max(abs(found.upper_bound), float(np.finfo(np.float64).tiny))
        self.gap_ = max(0.0, found.upper_bound - found.objective) / spread
        self.inertia_ = float(self._squared(points, best.centers[found.labels]).sum())
        self.n_iter_ = best.n_iter
        return self

    def predict(self, X: ArrayLike, *, bounded: bool = False) -> Ints:
        """Cluster of each row of `X`.

        Parameters
        ----------
        X : (n_samples, n_features) array
        bounded : bool
            False gives each row its nearest center. True keeps the sizes of this set of rows
            inside the estimator's bounds.

        Returns
        -------
        (n_samples,) int64 array
        """
        points, centers = self._check_points(X)
        scores = self._scores(points, centers)
        if bounded:
            return np.asarray(self._assign(scores).labels)
        return np.asarray(scores.argmax(axis=1), dtype=np.int64)

    def transform(self, X: ArrayLike) -> Floats:
        """Distance of each row to each center, (n_samples, n_clusters): Euclidean, or 1 - cos."""
        points, centers = self._check_points(X)
        if self.metric == "cosine":
            return np.asarray(1.0 - points @ centers.T)
        squared = (points**2).sum(1)[:, None] - 2 * self._scores(points, centers)
        return np.asarray(np.sqrt(np.clip(squared, 0.0, None)))

    def score(self, X: ArrayLike, y: object = None) -> float:
        """Minus the sum of squared distances of the rows to their nearest centers."""
        points, centers = self._check_points(X)
        nearest = self._scores(points, centers).argmax(axis=1)
        return -float(self._squared(points, centers[nearest]).sum())

    @property
    def _n_features_out(self) -> int:
        return len(self.cluster_centers_)

    def _bounds(self, n: int) -> SizeBounds:
        k = self.n_clusters
        low = _count("size_min", self.size_min, n, k, default=0, up=False)
        high = _count("size_max", self.size_max, n, k, default=n, up=True)
        return from_counts([low] * k, [high] * k, n_samples=n)

    def _points(self, features: Floats, *, fitting: bool) -> tuple[Floats, Floats]:
        """Rows as the algorithm wants them: unit rows, or rows around the mean of the fit."""
        if self.metric == "cosine":
            unit: Floats = project_sphere(features)
            return unit, np.zeros_like(features[0])
        origin = features.mean(axis=0) if fitting else self._origin.astype(features.dtype)
        return features - origin, origin

    def _check_points(self, X: ArrayLike) -> tuple[Floats, Floats]:
        check_is_fitted(self)
        features: Floats = validate_data(
            self, X, reset=False, dtype=[np.float64, np.float32], order="C"
        )
        points, origin = self._points(features, fitting=False)
        return points, self.cluster_centers_.astype(points.dtype) - origin

    def _scores(self, points: Floats, centers: Floats) -> Floats:
        product: Floats = points @ centers.T
        return product if self.metric == "cosine" else product - 0.5 * (centers**2).sum(1)

    def _squared(self, points: Floats, centers: Floats) -> Floats:
        return np.asarray(((points - centers) ** 2).sum(axis=1), dtype=np.float64)

    def _assign(self, scores: Floats) -> OfflineAssignment:
        bounds = self._bounds(len(scores))
        solve = assign_exact if self._exact(len(scores)) else assign_offline
        return solve(scores, bounds)

    def _exact(self, n: int) -> bool:
        if self.exact == "auto":
            return n * self.n_clusters <= EXACT_ENTRIES
        if not isinstance(self.exact, bool | np.bool_):
            msg = f"exact must be a bool or 'auto', got {self.exact!r}"
            raise InvalidValueError(msg)
        return bool(self.exact)


def _count(name: str, size: Any, n: int, k: int, *, default: int, up: bool) -> int:
    """A bound in whole samples."""
    if size is None:
        return default
    if isinstance(size, bool) or not isinstance(size, Real):
        msg = f"{name} must be an int, a float or None, got {size!r}"
        raise InvalidTypeError(msg)
    if isinstance(size, Integral):
        return min(int(size), n) if up else int(size)
    if math.isnan(size) or size < 0:
        msg = f"{name} must be 0 or more, got {size!r}"
        raise InvalidValueError(msg)
    ratio = {"lower": 0.0, "upper": float(size)} if up else {"lower": float(size)}
    bounds = from_ratios(k, n_samples=n, rounding="outward", **ratio)
    return int((bounds.upper if up else bounds.lower)[0])
