"""Spectral clustering with bounded cluster sizes as a scikit-learn estimator."""

from __future__ import annotations

import warnings
from typing import Any, Self

import array_api_compat as compat
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
)
from sklearn.utils.validation import check_is_fitted

from ..algos.clustering.neighbor_graph import (
    MOST_IN_GRAPH,
    NeighborGraph,
    neighbor_coordinates,
    neighbor_graph,
)
from ..algos.core.checks import check_count
from ..algos.scores.deadline import Deadline, deadline_of
from ..algos.scores.sources import feature_source
from ._inputs import check_enough_rows, check_rows, moved_to, on_threads
from .constrained_kmeans import ConstrainedKMeans

__all__ = ["SpectralConstrainedKMeans"]

Array = Any


class SpectralConstrainedKMeans(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator
):
    """k-means with bounded sizes in the spectral coordinates of a graph of nearest neighbors.

    For embeddings of a trained encoder, in which a row's neighbors mostly share its class though
    clusters are not round. Rows are centered and compared by their directions; each is joined to
    its nearest neighbors; the eigenvectors of the graph's random walk are the coordinates
    (`algos.clustering.neighbor_graph`), in which `ConstrainedKMeans` clusters directions, with its
    certificate. A page says when it helps: docs/guides/graph.md.

    Parameters
    ----------
    n_clusters : int
    n_neighbors : int
        Neighbors of a row in the graph.
    lower, upper : float, k floats, or None
        Smallest and largest size in units of the mean size n / k. Wide by default, since real data
        is seldom balanced. None means no bound.
    min_count, max_count : int, k ints, or None
        The same in whole samples; then leave `lower` or `upper` at None.
    max_graph : int
        Rows of the graph at most; of more, so many spread evenly, and the others are placed by
        their neighbors among them.
    n_init : int
        Starts of k-means; the best result is kept.
    max_iter : int
        Most center updates of a start.
    tol, gap : float in [0, 1]
        As of `ConstrainedKMeans`.
    time_limit : float >= 0, Deadline (`dualclust.interruptible`), or None
        Seconds from the beginning of `fit`, as of `ConstrainedKMeans`. Graph and eigenvectors come
        to their end: what is left of the time is for k-means.
    n_jobs : int or None
        Threads that multiply rows: None is 1, -1 all cores.
    random_state : int, RandomState instance or None
        Seed of the starts of k-means; nothing else is drawn.

    Attributes
    ----------
    labels_ : (n_samples,) int64 array
        Inside the bounds.
    counts_ : (n_clusters,) int64 array
    embedding_ : (n_samples, n_clusters) array
        Coordinates at unit length.
    eigenvalues_ : (n_components,) float64 array
        Of the random walk, falling: near 1 where a group is hardly ever left.
    cluster_centers_ : (n_clusters, n_clusters) array
        Directions, in coordinates.
    prices_ : (n_clusters,) float64 array
    gap_ : float
        Proven relative distance of the labels to the best ones for these centers and coordinates.
    graph_ : NeighborGraph
        What places other rows.
    kmeans_ : ConstrainedKMeans
        The fit in coordinates.
    n_iter_ : int
    n_features_in_ : int

    Raises
    ------
    InfeasibleBoundsError
        In `fit`, if no labels satisfy the bounds, the fixed rows and the forbidden pairs.

    Notes
    -----
    `predict` of the rows of `fit` gives `labels_`, up to rows for which two clusters are equally
    good: a row's coordinates do not depend on whether it is in the graph. Cost of `fit` with r rows
    in the graph: O(r^2 d + n r d), exact neighbors; memory of the rows and of a block of cosines.

    Examples
    --------
    >>> import numpy as np
    >>> from dualclust import SpectralConstrainedKMeans
    >>> turns = np.linspace(0.0, 2.0, 60)
    >>> arms = [np.stack([np.cos(t + turns), np.sin(t + turns), 0 * turns + h], axis=1)
    ...         for t, h in ((0.0, 0.4), (2.5, -0.4))]
    >>> model = SpectralConstrainedKMeans(2, n_neighbors=5, random_state=0)
    >>> labels = model.fit_predict(np.concatenate(arms))
    >>> bool(len(set(labels[:60])) == len(set(labels[60:])) == 1), model.counts_
    (True, array([60, 60]))
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        n_neighbors: int = 15,
        lower: Any = 0.3,
        upper: Any = 2.5,
        min_count: Any = None,
        max_count: Any = None,
        max_graph: int = MOST_IN_GRAPH,
        n_init: int = 10,
        max_iter: int = 100,
        tol: float = 1e-3,
        gap: float = 1e-4,
        time_limit: float | Deadline | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.n_neighbors = n_neighbors
        self.lower = lower
        self.upper = upper
        self.min_count = min_count
        self.max_count = max_count
        self.max_graph = max_graph
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.gap = gap
        self.time_limit = time_limit
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: Any, y: object = None, *, fixed: Any = None, forbidden: Any = None) -> Self:
        """Find the graph of the rows of `X`, their coordinates and their clusters.

        Parameters
        ----------
        X : (n_samples, n_features) array-like or tensor
        y : ignored
        fixed, forbidden : array-like of ints, optional
            Rows whose cluster is known, and pairs that must not be; as of `ConstrainedKMeans.fit`.

        Returns
        -------
        self
        """
        limit = deadline_of(self.time_limit)
        rows = check_rows(self, X, reset=True)
        check_count("n_clusters", self.n_clusters, 1)
        check_enough_rows(rows, self.n_clusters)
        # A graph has fewer eigenvectors of use than rows: n clusters of n rows get n - 1.
        n_vectors = min(self.n_clusters, max(1, min(rows.shape[0], self.max_graph) - 1))
        with on_threads(feature_source(rows), self.n_jobs) as source:
            if rows.shape[0] > 1:
                self.graph_ = neighbor_graph(
                    source, n_vectors, n_neighbors=self.n_neighbors, most=self.max_graph
                )
            else:
                self.graph_ = _of_one_row(rows)
            self.embedding_ = neighbor_coordinates(self.graph_, source)
        self._warn_of_parts(n_vectors)
        self.eigenvalues_ = self.graph_.eigenvalues
        self.kmeans_ = ConstrainedKMeans(
            self.n_clusters,
            lower=self.lower,
            upper=self.upper,
            min_count=self.min_count,
            max_count=self.max_count,
            metric="cosine",
            n_init=self.n_init,
            max_iter=self.max_iter,
            tol=self.tol,
            gap=self.gap,
            time_limit=limit,
            n_jobs=self.n_jobs,
            random_state=self.random_state,
        ).fit(self.embedding_, fixed=fixed, forbidden=forbidden)
        self.kmeans_.time_limit = self.time_limit  # a further fit of it has all of the time again
        for name in ("labels_", "counts_", "cluster_centers_", "prices_", "gap_", "n_iter_"):
            setattr(self, name, getattr(self.kmeans_, name))
        return self

    def predict(self, X: Any, *, bounded: bool = False) -> Array:
        """Return the cluster of each row of `X`, by its neighbors in the graph and the prices.

        Parameters
        ----------
        X : (n_samples, n_features) array-like or tensor
        bounded : bool
            As of `ConstrainedKMeans.predict`: True keeps the sizes of these rows inside the bounds.

        Returns
        -------
        (n_samples,) int64 array or tensor
        """
        coordinates = self.transform(X)
        return self.kmeans_.predict(coordinates, bounded=bounded)

    def transform(self, X: Any) -> Array:
        """Return the coordinates of rows, by their neighbors in the graph of the fit.

        Parameters
        ----------
        X : (n_samples, n_features) array-like or tensor

        Returns
        -------
        (n_samples, n_clusters) array or tensor
        """
        check_is_fitted(self)
        rows = check_rows(self, X, reset=False)
        graph = self.graph_._replace(
            **{n: moved_to(rows, getattr(self.graph_, n)) for n in ("origin", "rows", "vectors")}
        )
        with on_threads(feature_source(rows), self.n_jobs) as source:
            return neighbor_coordinates(graph, source)

    @property
    def _n_features_out(self) -> int:
        return int(self.graph_.vectors.shape[1])

    def _warn_of_parts(self, n_vectors: int) -> None:
        """Warn where parts of the graph have no coordinates of their own."""
        parts = self.graph_.n_parts
        if parts > n_vectors:
            msg = (
                f"The graph has {parts} parts without an edge between them, and {n_vectors} "
                f"coordinates: some parts cannot be told apart. To fix this, raise n_neighbors "
                f"above {self.n_neighbors}, or look for groups of equal rows"
            )
            warnings.warn(msg, UserWarning, stacklevel=3)


def _of_one_row(rows: Array) -> NeighborGraph:
    """Return what places any row at one point."""
    xp = compat.array_namespace(rows)
    one = xp.ones_like(rows[:, :1])
    return NeighborGraph(rows[0, :], xp.zeros_like(rows), one, xp.ones_like(one[0, :]), 0, 1)
