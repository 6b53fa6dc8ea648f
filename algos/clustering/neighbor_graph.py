r"""Spectral embedding of a graph of nearest neighbors, for the rows of the graph and for any other.

Problem: clusters in features of a trained encoder are seldom round, but a row's nearest neighbors
mostly share its class. Directions ``x_i`` (centered rows at unit length) make a graph: with the m
nearest neighbors ``N(i)`` of i by the cosine,

``a_ij = max(x_i . x_j, floor)`` for j in N(i),   ``W = (A + A^T) / 2``,   ``D = diag(W 1)``.

The embedding is the q eigenvectors of the largest eigenvalues of the random walk,

``D^-1 W v = lambda v``,                                                (Shi and Malik, Eq. 7)

by those of the symmetric ``D^-1/2 W D^-1/2``, from a start that is a function of n alone. A walker
from i is on average at

``f(i) = sum_{j in M(i)} a_ij v_j``                                     (Bengio et al., Eq. 7)

up to the eigenvalues, where ``M(i)`` are the m + 1 nearest rows of the graph, i itself among them
if it is one. The coordinates of a row are ``f(i)`` at unit length (Ng, Jordan and Weiss, step 4).
They are one function of a row, whether it is in the graph or not: labels of rows that come later
are made as those of the first.

Of more than `most` rows, so many, spread evenly, make the graph, and the others are placed by
their neighbors among them: time and memory grow with n, not with its square.

Sources: Shi and Malik, Normalized cuts and image segmentation, PAMI 2000; Ng, Jordan and Weiss, On
spectral clustering, NIPS 2001; Bengio et al., Out-of-sample extensions, NIPS 2003.

===============  ==================  =======  ===================================================
paper            here                shape    meaning
===============  ==================  =======  ===================================================
:math:`x_i`      ``rows``            (m, d)   directions of the rows of the graph
:math:`v`        ``vectors``         (m, q)   eigenvectors of the random walk
:math:`\lambda`  ``eigenvalues``     (q,)     falling, at most 1
===============  ==================  =======  ===================================================
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import array_api_compat as compat
from scipy import linalg, sparse
from scipy.sparse import csgraph
from scipy.sparse.linalg import eigsh

from ..core.checks import check_count, check_shape
from ..core.errors import InvalidValueError
from ..core.projections import project_sphere
from ..core.random import uniforms
from ..core.types import Array, Namespace
from ..scores.blocks import block_rows, row_blocks
from ..scores.largest import largest_scores
from ..scores.sources import FeatureSource
from ..scores.statistics import strided_ids

__all__ = [
    "MOST_IN_GRAPH",
    "NeighborGraph",
    "nearest_rows",
    "neighbor_coordinates",
    "neighbor_graph",
    "placed_rows",
]

MOST_IN_GRAPH = 50_000
"""Rows of a graph at most: 25 times the products of 10,000, which take a second or two."""

FLOOR = 1e-3
"""Least weight of a neighbor: a row that points away from all others still has a place."""

DENSE = 512
"""Rows up to which all eigenvectors are found, which also tells apart those of one eigenvalue."""

TOL = 1e-9
"""Relative accuracy of an eigenvalue."""


class NeighborGraph(NamedTuple):
    """Rows of a graph of neighbors with their eigenvectors: what places any other row.

    Attributes
    ----------
    origin : (d,) array
        Mean of the rows of the graph, which is subtracted from every row.
    rows : (m, d) array
        Their directions.
    vectors : (m, q) array
    eigenvalues : (q,) float64 array
        Falling. As many are 1 as the graph has parts without an edge between them, up to q.
    n_neighbors : int
    n_parts : int
        Parts of the graph without an edge between them. With more than q of them, whole parts have
        no coordinates of their own.
    """

    origin: Array
    rows: Array
    vectors: Array
    eigenvalues: Array
    n_neighbors: int
    n_parts: int


def neighbor_graph(
    features: FeatureSource, n_vectors: int, *, n_neighbors: int = 15, most: int = MOST_IN_GRAPH
) -> NeighborGraph:
    """Find the eigenvectors of the graph of nearest neighbors of some rows.

    Parameters
    ----------
    features : FeatureSource
        Of a single rank, finite.
    n_vectors : int
        q, in most cases the number of clusters; less than the number of rows.
    n_neighbors : int
        m; where there are fewer other rows, all of them.
    most : int
        Rows of the graph at most.

    Returns
    -------
    NeighborGraph
        On the library, device and dtype of the rows.

    Raises
    ------
    InvalidValueError
        If an argument is out of its range.

    Notes
    -----
    With r rows in the graph, the cost is O(r^2 d) for its neighbors, exact, and a few hundred
    products of a sparse matrix of 2 r m entries for the eigenvectors; the memory is that of the
    rows, of the matrix and of a block of cosines. The eigensolver is SciPy's (ARPACK).

    More than m equal rows are a part of the graph of their own, which takes an eigenvector from
    the others: leave copies out first.

    Examples
    --------
    >>> import numpy as np
    >>> from dualclust.algos.scores.sources import feature_source
    >>> angles = np.asarray([0.0, 0.1, 0.2, 2.0, 2.1, 2.2, 4.0, 4.1, 4.2])
    >>> source = feature_source(np.stack([np.cos(angles), np.sin(angles)], axis=1))
    >>> graph = neighbor_graph(source, 3, n_neighbors=2)
    >>> graph.n_parts, graph.eigenvalues.round(6).tolist()
    (3, [1.0, 1.0, 1.0])
    >>> coordinates = neighbor_coordinates(graph, source)
    >>> (coordinates @ coordinates.T).round(6)[0].tolist()
    [1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    """
    n = features.group.n_total
    check_count("n_neighbors", n_neighbors, 1)
    check_count("n_vectors", n_vectors, 1)
    r = min(n, check_count("most", most, 2))
    if n_vectors >= r:
        msg = (
            f"n_vectors must be below the number of rows in the graph, {r}, got {n_vectors}. To "
            f"fix this, ask for fewer clusters, or give more rows"
        )
        raise InvalidValueError(msg)
    like = features.rows(0, 0)
    xp = compat.array_namespace(like)
    chosen = features.rows(0, n) if r == n else features.take(xp.sort(strided_ids(n, r, like)))
    origin = xp.mean(chosen, axis=0)
    rows = project_sphere(chosen - origin)
    cosines, ids = _nearest(rows, rows, min(n_neighbors, r - 1) + 1)
    graph = _symmetric(xp.clip(cosines, min=FLOOR), ids, r)
    values, vectors = _largest_eigenvectors(graph, n_vectors, xp)
    n_parts, _ = csgraph.connected_components(graph, directed=False)
    place = compat.device(like)
    return NeighborGraph(
        origin,
        rows,
        xp.asarray(vectors, dtype=like.dtype, device=place),
        xp.asarray(values, dtype=xp.float64, device=place),
        min(n_neighbors, r - 1),
        int(n_parts),
    )


def nearest_rows(rows: Array, n_neighbors: int) -> Array:
    """Return the nearest other rows of each row by the cosine, from the nearest on.

    Parameters
    ----------
    rows : (n, d) array
        Unit rows, n at least 2.
    n_neighbors : int
        1 to n - 1.

    Returns
    -------
    ids : (n, n_neighbors) int64 array

    Raises
    ------
    InvalidValueError
        If there are not more rows than neighbors.

    Notes
    -----
    Cost: O(n^2 d), exact; memory that of a block of cosines.

    Examples
    --------
    >>> import numpy as np
    >>> angles = np.asarray([0.0, 0.1, 0.3, 3.0])
    >>> nearest_rows(np.stack([np.cos(angles), np.sin(angles)], axis=1), 2).tolist()
    [[1, 2], [0, 2], [1, 0], [2, 1]]
    """
    n, _ = check_shape("rows", rows, ("n", "d"))
    if check_count("n_neighbors", n_neighbors, 1) >= n:
        msg = (
            f"n_neighbors must be below the number of rows, {n}, got {n_neighbors}. To fix this, "
            f"ask for fewer neighbors, or give more rows"
        )
        raise InvalidValueError(msg)
    xp = compat.array_namespace(rows)
    _, ids = _nearest(rows, rows, n_neighbors + 1)
    # Without the row itself, which of equal rows need not be the first, or among them.
    own = ids == xp.arange(n, dtype=ids.dtype, device=compat.device(ids))[:, None]
    last = xp.argsort(xp.astype(own, xp.int64), axis=1, stable=True)
    return xp.take_along_axis(ids, last, axis=1)[:, :n_neighbors]


def neighbor_coordinates(graph: NeighborGraph, features: FeatureSource) -> Array:
    """Place rows by their neighbors in a graph.

    Parameters
    ----------
    graph : NeighborGraph
    features : FeatureSource
        Rows of the same embedding: those of the graph, or any others.

    Returns
    -------
    coordinates : (n, q) array
        At unit length, and zero for a row whose neighbors cancel out.

    Notes
    -----
    Cost: O(n r d) for r rows in the graph, a block of rows at a time.
    """
    xp = compat.array_namespace(graph.rows)
    n, r = features.group.n_local, graph.rows.shape[0]
    return xp.concat(
        [
            placed_rows(graph, features.rows(start, stop), multiply=features.multiply)
            for start, stop in row_blocks(n, block_rows(r, like=graph.rows), at_least_one=True)
        ]
    )


def placed_rows(
    graph: NeighborGraph, rows: Array, *, multiply: Callable[[Array, Array], Array] | None = None
) -> Array:
    """Place one block of rows; `neighbor_coordinates` takes any number.

    Parameters
    ----------
    graph : NeighborGraph
    rows : (b, d) array
    multiply : callable, optional
        The product of rows and columns, where the library's own is not wanted.
    """
    xp = compat.array_namespace(rows)
    near = project_sphere(xp.astype(rows, graph.rows.dtype) - graph.origin)
    columns = xp.matrix_transpose(graph.rows)
    cosines = xp.matmul(near, columns) if multiply is None else multiply(near, columns)
    weights, ids = largest_scores(cosines, graph.n_neighbors + 1)
    vectors = xp.take(graph.vectors, xp.reshape(ids, (-1,)), axis=0)
    vectors = xp.reshape(vectors, (*ids.shape, graph.vectors.shape[1]))
    return project_sphere(xp.sum(xp.clip(weights, min=FLOOR)[:, :, None] * vectors, axis=1))


def _nearest(rows: Array, others: Array, n_kept: int) -> tuple[Array, Array]:
    """Cosines of unit rows with the nearest others, falling, and their ids."""
    xp, parts = compat.array_namespace(rows), []
    columns = xp.matrix_transpose(others)
    for start, stop in row_blocks(rows.shape[0], block_rows(others.shape[0], like=rows)):
        parts.append(largest_scores(xp.matmul(rows[start:stop, :], columns), n_kept))
    return xp.concat([part[0] for part in parts]), xp.concat([part[1] for part in parts])


def _symmetric(weights: Array, ids: Array, n: int) -> sparse.csr_array:
    """Weights of the neighbors of each row, without itself, as a symmetric sparse matrix.

    A row is mostly the first of its own neighbors; among equal rows any of them may be.
    """
    xp = compat.array_namespace(ids)
    own = xp.arange(n, dtype=ids.dtype, device=compat.device(ids))[:, None]
    weights = xp.where(ids == own, xp.zeros_like(weights), weights)
    sources = xp.broadcast_to(own, ids.shape)
    host = [_on_host(xp.reshape(x, (-1,))) for x in (xp.astype(weights, xp.float64), sources, ids)]
    directed = sparse.coo_array((host[0], (host[1], host[2])), shape=(n, n)).tocsr()
    directed.eliminate_zeros()
    return ((directed + directed.T) / 2).tocsr()


def _on_host(array: Array) -> Array:
    """Return an array as SciPy takes it."""
    return compat.to_device(array, "cpu").__array__()


def _largest_eigenvectors(graph: sparse.csr_array, q: int, xp: Namespace) -> tuple[Array, Array]:
    """Eigenvalues of the random walk, falling, and its eigenvectors, of one sign each."""
    n = graph.shape[0]
    scale = sparse.diags_array(graph.sum(axis=1) ** -0.5)
    walk = (scale @ graph @ scale).tocsr()
    if n <= DENSE or 2 * q >= n:
        values, vectors = linalg.eigh(walk.toarray(), subset_by_index=[n - q, n - 1])
    else:
        start = uniforms(0, n, xp=xp) - 0.5
        values, vectors = eigsh(walk, k=q, which="LA", v0=_on_host(start), tol=TOL)
    order = (-values).argsort(kind="stable")
    vectors = scale @ vectors[:, order]
    largest = abs(vectors).argmax(axis=0)
    signs = [-1.0 if vectors[i, j] < 0 else 1.0 for j, i in enumerate(largest.tolist())]
    return values[order], vectors * signs
