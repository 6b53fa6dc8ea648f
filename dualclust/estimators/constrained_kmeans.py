"""k-means with bounded cluster sizes as a scikit-learn estimator."""

from __future__ import annotations

import math
from typing import Any, Self

from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
)
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from ..algos.clustering.minibatch import minibatch_step
from ..algos.offline.assignment import assign_source
from ..algos.online.duals import Duals
from ..algos.scores.deadline import Deadline
from ..cluster.distances import nearest_centers
from ._degenerate import warn_of_equal_centers
from ._inputs import (
    bounds_for_rows,
    check_enough_rows,
    check_parameters,
    check_rows,
    check_rules,
    check_sample_weight,
    has_shares,
    moved_to,
    on_threads,
    pairs_of,
    row_source,
    stream_bounds_of,
)
from ._loads import labels_by_size
from ._other_names import with_names_of_others
from ._runs import OF_ONE_KIND, best_of_starts, grouped_labels, labels_or_out
from ._scores import center_distances, center_scores, inertia_of
from ._starts import Data, check_init, stream_state

__all__ = ["ConstrainedKMeans"]

Array = Any


class ConstrainedKMeans(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator
):
    """k-means whose cluster sizes lie between bounds; without bounds, plain k-means.

    It stands in for scikit-learn's `KMeans`: the metric is "euclidean" and sizes are free by
    default, where functions and command, for embeddings, say "cosine", the command 0.9 to 1.1.

    Minimizes the sum of squared distances (or of one minus cosine) to the centers over labels and
    centers, subject to the bounds, by alternation. The final labels come with a proof of how near
    they are to the best ones for the final centers.

    Parameters
    ----------
    n_clusters : int
    lower, upper : float, k floats, or None
        Smallest and largest size in units of the mean size n / k, for all clusters or for each.
        1 and 1.0 are the same. None means no bound.
    min_count, max_count : int, k ints, or None
        The same in whole samples; a side has one of the two.
    rounding : {"outward", "inward", "nearest"}
        How a share becomes whole samples. "outward" is feasible whenever the shares are.
    group_bounds : pair of floats, "at-most-one" or "at-least-one"
        What `groups` of `fit` keep in each cluster: between two shares of their mean n_g / k, or so
        many rows of each.
    max_out : int
        Most rows that stay out of all clusters: those that cost most get the label -1.
    metric : {"euclidean", "cosine"}
        "cosine" compares directions; a zero row has none and is equally far from all centers.
    init : {"k-means++", "random"}, (k, d) array-like, or function
        Where to start: rows far from each other, random rows, these centers, or what
        ``init(X, n_clusters, random_state=...)`` returns.
    n_init : int or "auto"
        Number of starts; the best result is kept. Given centers are one start. "auto" is 10 for
        random rows and a function, else 1.
    max_iter : int
        Most center updates of a start.
    tol : float in [0, 1]
        Stop once at most this share of the labels changes.
    gap : float in [0, 1]
        Relative gap to prove for the final labels; 0 for optimal labels.
    time_limit : float >= 0, Deadline (`dualclust.interruptible`), or None
        Seconds after which `fit` ends with the best labels so far, their sizes inside the bounds.
    n_jobs : int or None
        Threads that multiply rows by centers: None is 1, -1 all cores. Results are the same to the
        last bit for any number.
    random_state : int, RandomState instance or None
        Seed of the starts.
    warm_start : bool
        Whether a further `fit` starts from the centers and prices of the last one.
    verbose : int or bool
        Whether `fit` prints a line after each start.
    copy_x, algorithm : bool, and {"lloyd", "elkan"}
        Taken as `KMeans` takes them: rows are never changed, and both are one algorithm here.

    Attributes
    ----------
    cluster_centers_ : (n_clusters, n_features) array
    labels_ : (n_samples,) int64 array
        Inside the bounds.
    counts_ : (n_clusters,) int64 array
    prices_ : (n_clusters,) float64 array
        Dual prices, in units of half a squared distance: positive where the lower bound binds,
        negative where the upper one does.
    groups_ : (n_groups,) array
        With groups: their values in ascending order.
    group_counts_, group_prices_ : (n_groups, n_clusters) arrays
        With groups: how many rows of each are in each cluster, int64, and what rows of the group
        add to `prices_`, float64.
    out_price_ : float
        With `max_out`: a row is out where half its squared distance exceeds the price of its
        cluster minus this.
    loads_, status_ : (n_clusters,) float64 array and str
        With sizes: loads, "inside" or "inside up to one row"; prices are of a unit of load.
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
        In `fit`, if no labels satisfy the bounds, the fixed rows and the forbidden pairs.

    Notes
    -----
    Rows may be PyTorch tensors, on any device: results are then tensors there. Or sparse matrices
    of SciPy, which are not laid out with their zeros: O(nnz k) per update, memory O(nnz + k d) and
    one block of scores, distances to 1e-15 of the squared lengths; `n_jobs` changes nothing there.
    Weights multiply squared distances. Sizes count samples whatever their weight, so under bounds a
    weight of 2 is not the same as two equal rows. Cost of `fit`: O(n k d) per update, memory of one
    block of scores.

    Examples
    --------
    >>> import numpy as np
    >>> from dualclust import ConstrainedKMeans
    >>> x = np.asarray([[0.0], [0.1], [0.2], [5.0]])
    >>> model = ConstrainedKMeans(2, min_count=2, random_state=0).fit(x)
    >>> model.counts_
    array([2, 2])
    >>> bool((model.predict(x, bounded=True) == model.labels_).all())
    True
    """

    @with_names_of_others
    def __init__(
        self,
        n_clusters: int = 8,
        *,
        lower: Any = None,
        upper: Any = None,
        min_count: Any = None,
        max_count: Any = None,
        rounding: str = "outward",
        group_bounds: Any = (0.9, 1.1),
        max_out: int = 0,
        metric: str = "euclidean",
        init: Any = "k-means++",
        n_init: int | str = 1,
        max_iter: int = 100,
        tol: float = 1e-3,
        gap: float = 1e-4,
        time_limit: float | Deadline | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        warm_start: bool = False,
        verbose: int | bool = 0,
        copy_x: bool = True,
        algorithm: str = "lloyd",
    ) -> None:
        self.n_clusters = n_clusters
        self.lower = lower
        self.upper = upper
        self.min_count = min_count
        self.max_count = max_count
        self.rounding = rounding
        self.group_bounds = group_bounds
        self.max_out = max_out
        self.metric = metric
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.gap = gap
        self.time_limit = time_limit
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose
        self.copy_x = copy_x
        self.algorithm = algorithm

    def fit(
        self,
        X: Any,
        y: object = None,
        sample_weight: Any = None,
        fixed: Any = None,
        forbidden: Any = None,
        groups: Any = None,
        must_link: Any = None,
        cannot_link: Any = None,
        sizes: Any = None,
    ) -> Self:
        """Cluster the rows of `X`.

        Parameters
        ----------
        X : (n_samples, n_features) array-like, sparse matrix, or tensor
            Or a column of lists, of pandas or polars.
        y : ignored
        sample_weight : (n_samples,) array-like, optional
            At least 0 each.
        fixed : (n_samples,) array-like of ints, optional
            The cluster of each row that is known, and -1 for a free row. Clusters with such rows
            start at their means.
        forbidden : (m, 2) array-like of ints, optional
            Pairs of a row and a cluster that it must not join.
        groups : (n_samples,) array-like, or GroupBounds, optional
            The group of each row, as a number, text or truth value; -1, NaN, None and "" are none.
            Every cluster keeps `group_bounds` of each. Labels are then optimal, whatever `gap`.
        must_link, cannot_link : (m, 2) array-like of ints, optional
            Pairs of rows that are in one cluster, and pairs that are not.
        sizes : (n_samples,) array-like, optional
            What a row counts in the bounds, at least 0; a weight counts in the distances. `lower`
            and `upper` are in units of the mean load, `min_count` and `max_count` loads.

        Returns
        -------
        self
        """
        check_parameters(self)
        check_init(self.init)
        rows = check_rows(self, X, reset=True, sparse=True)
        weights = check_sample_weight(sample_weight, rows)
        fixed, forbidden = check_rules(rows, fixed, forbidden)
        check_enough_rows(rows, self.n_clusters)
        must = pairs_of(rows, "must_link", must_link)
        cannot = pairs_of(rows, "cannot_link", cannot_link)
        with on_threads(row_source(rows, self.metric), self.n_jobs) as source:
            data = Data(rows, source, weights, fixed, forbidden, must, cannot)
            best, own = best_of_starts(self, data, groups, sizes)
            found = best.assignment
            inertia = inertia_of(rows, source, found.labels, best.centers, weights)
        warn_of_equal_centers(best.centers, found.counts)
        self.cluster_centers_ = best.centers
        self.labels_ = found.labels
        self.counts_ = found.counts
        self._set_prices(found.prices)
        for name in ("_stream", *OF_ONE_KIND):
            self.__dict__.pop(name, None)
        self.__dict__.update(own)
        self.gap_ = found.gap
        self.inertia_ = inertia
        self.n_iter_ = best.n_iter
        return self

    @available_if(has_shares)  # type: ignore[untyped-decorator]
    def partial_fit(self, X: Any, y: object = None, sample_weight: Any = None) -> Self:
        """Label the rows of one mini-batch of a stream, and update the centers with them.

        The first call draws the centers from its batch, unless `fit` has found some. Bounds steer
        prices; sizes meet them in the long run. Hence it exists only without `min_count` and
        `max_count`. `labels_` and `inertia_` describe the batch, `counts_` all batches, and `gap_`
        is infinite, since nothing is proven.

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
        check_init(self.init)
        rows = check_rows(self, X, reset=not hasattr(self, "cluster_centers_"))
        weights = check_sample_weight(sample_weight, rows)
        bounds, source = stream_bounds_of(self, rows), row_source(rows, self.metric)
        points = source.rows(0, rows.shape[0])
        state = stream_state(self, Data(rows, source, weights), bounds)
        labels, state = minibatch_step(points, state, bounds, metric=self.metric, weights=weights)
        self._stream = state
        self.cluster_centers_, self.labels_ = state.centers, labels
        self.counts_ = state.assignment.counts
        self._set_prices(state.assignment.duals.lower - state.assignment.duals.upper)
        self.gap_ = math.inf
        self.inertia_ = inertia_of(rows, source, labels, state.centers, weights)
        self.n_iter_ = getattr(self, "n_iter_", 0) + 1
        return self

    def predict(
        self,
        X: Any,
        *,
        bounded: bool = False,
        sample_weight: Any = None,
        groups: Any = None,
        sizes: Any = None,
    ) -> Array:
        """Return the cluster of each row of `X`, at the prices of the fit.

        The rows of `fit` get `labels_` back, up to rows for which two clusters are equally good at
        these prices: fewer than there are clusters where `gap_` is 0 and rows differ, more within
        a `gap_` above 0, and any number of equal rows.

        Parameters
        ----------
        X : (n_samples, n_features) array-like or tensor
        bounded : bool
            False gives each row its best cluster at the prices: without bounds that of the nearest
            center. True keeps the cluster sizes of these rows inside the estimator's bounds.
        sample_weight : (n_samples,) array-like, optional
            Those of `fit`, if it had any: a heavier row minds its distance more than the price.
        groups : (n_samples,) array-like, or GroupBounds, optional
            Values as those of `fit`; a row of another group, or of none, has only `prices_`.
        sizes : (n_samples,) array-like, optional
            Those of the rows, after a `fit` with sizes: a larger row pays more of the price.

        Returns
        -------
        (n_samples,) int64 array or tensor
            -1 for rows that stay out, with `max_out`.
        """
        rows = self._checked(X)
        if self.max_out:
            return labels_or_out(self, self.transform(X), bounded=bounded)
        weights = check_sample_weight(sample_weight, rows)
        prices = moved_to(rows, self.prices_, "float64")
        centers = moved_to(rows, self.cluster_centers_)
        with on_threads(row_source(rows, self.metric), self.n_jobs) as source:
            own = weights if bounded else None
            scores = center_scores(rows, source, centers, self.metric, own)
            if groups is not None:
                inside = bounds_for_rows(self, rows) if bounded else None
                return grouped_labels(self, groups, rows, scores, inside, weights)
            if sizes is not None or hasattr(self, "loads_"):
                return labels_by_size(self, rows, scores, sizes, bounded=bounded)
            if not bounded:
                return nearest_centers(scores, prices, weights)
            bounds = bounds_for_rows(self, rows)
            return assign_source(scores, bounds, prices=prices, tol=self.gap).labels

    def transform(self, X: Any) -> Array:
        """Return the distances of rows to centers, Euclidean or 1 - cos, accurate near centers.

        Parameters
        ----------
        X : (n_samples, n_features) array-like or tensor

        Returns
        -------
        (n_samples, n_clusters) array or tensor
        """
        rows = self._checked(X)
        source, centers = row_source(rows, self.metric), moved_to(rows, self.cluster_centers_)
        return center_distances(rows, source, centers, self.metric)

    def score(self, X: Any, y: object = None, sample_weight: Any = None) -> float:
        """Return minus the weighted sum of squared distances to the nearest centers."""
        rows = self._checked(X)
        weights = check_sample_weight(sample_weight, rows)
        source, centers = row_source(rows, self.metric), moved_to(rows, self.cluster_centers_)
        labels = nearest_centers(center_scores(rows, source, centers, self.metric))
        return -inertia_of(rows, source, labels, centers, weights)

    @property
    def _n_features_out(self) -> int:
        return int(self.cluster_centers_.shape[0])

    def _set_prices(self, prices: Array) -> None:
        self.prices_, self.duals_ = prices, Duals.of(prices)

    def _checked(self, X: Any) -> Array:
        check_is_fitted(self)
        return check_rows(self, X, reset=False, sparse=True)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
