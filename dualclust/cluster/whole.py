"""``dualclust cluster`` of inputs that are in memory as a whole: distances, and wide sparse rows.

``--metric precomputed`` and ``haversine`` have medoids, whose pairs may be any two rows. A sparse
.npz that is too large with its zeros is clustered without them. Neither is read by blocks or ranks.
"""

from __future__ import annotations

import argparse
from types import SimpleNamespace
from typing import Any

import numpy as np

from ..algos.clustering.constrained import ConstrainedKMeansResult
from ..algos.clustering.dissimilarities import (
    great_circle_distances,
    matrix_dissimilarities,
    pairwise_dissimilarities,
)
from ..algos.clustering.medoids import constrained_medoids, start_medoids
from ..algos.core.errors import UsageError
from ..algos.scores.deadline import Deadline
from ..algos.scores.sources import feature_source
from ..common.formats.checks import refuse
from ..common.formats.npz import wide_sparse_matrix
from ..common.formats.rows import Part
from ..common.ranks import Ranks
from .embeddings import check_embeddings
from .problem import Problem, open_valid, read_inputs
from .progress import Meter
from .sparse_rows import (
    SparseRows,
    sparse_inertia,
    sparse_kmeans,
    sparse_means,
    sparse_source,
    sparse_start,
)
from .start import INITS

__all__ = ["MEDOIDS", "cluster_whole"]

MEDOIDS = ("haversine", "precomputed")
"""Metrics of `--metric` whose clusters have medoids."""

OF_MEANS = ("graph", "groups", "sizes", "links", "max_out", "start")
NOT_WITH = (*OF_MEANS, "checkpoint", "resume", "report", "show", "table", "dry_run")

Result = tuple[Problem, ConstrainedKMeansResult, float | None, Any]
"""The problem; centers, or the rows of the medoids, and labels; the sum of the squared distances
where the metric is "euclidean"; and the numbers of the medoids, or None."""


def cluster_whole(
    options: argparse.Namespace, ranks: Ranks, meter: Meter, deadline: Deadline | None
) -> Result | None:
    """Cluster by medoids, or wide sparse rows; None for all other inputs.

    Raises
    ------
    UsageError
        For options that such inputs do not go with.
    """
    if options.metric in MEDOIDS:
        _check_options(options, ranks, f"--metric {options.metric}")
        return _by_medoids(options, ranks, meter, deadline)
    matrix = None
    if options.input.suffix == ".npz" and options.array is None and options.graph is None:
        matrix = wide_sparse_matrix(options.input)
    if matrix is None:
        return None
    _check_options(options, ranks, "a sparse matrix that is too large with its zeros")
    return _of_sparse(options, SparseRows(matrix), deadline)


def _check_options(options: argparse.Namespace, ranks: Ranks, what: str) -> None:
    given = [
        f"--{n.replace('_', '-')}" for n in NOT_WITH if getattr(options, n) not in (None, False)
    ]
    given += [f"--init {options.init}"] if options.init != INITS[0] else []
    given += ["--invalid drop"] if options.invalid == "drop" else []
    given += [f"--device {options.device}"] if options.device != "cpu" else []
    given += ["several ranks"] if ranks.world_size > 1 else []
    if given:
        msg = f"{given[0]} does not go with {what}. To fix this, leave it out"
        raise UsageError(msg)


def _by_medoids(
    options: argparse.Namespace, ranks: Ranks, meter: Meter, deadline: Deadline | None
) -> Result:
    rows, _ = open_valid(options, ranks, meter, options.metric)
    inputs = read_inputs(options, rows)
    check_embeddings(rows, options.metric)
    x = rows.rows(0, rows.n_samples)
    if options.metric == "precomputed":
        pairs = matrix_dissimilarities(x, name=rows.name)
    else:
        pairs = pairwise_dissimilarities(x, great_circle_distances)
    first = start_medoids(
        pairs, options.k, seed=options.seed, weights=inputs.weights, fixed=inputs.fixed
    )
    found = constrained_medoids(
        pairs,
        inputs.bounds,
        first,
        weights=inputs.weights,
        fixed=inputs.fixed,
        forbidden=inputs.forbidden,
        max_iter=options.max_iter,
        gap=options.gap,
        time_limit=deadline,
    )
    problem = Problem(*inputs, feature_source(x), "")
    result = ConstrainedKMeansResult(
        x[found.medoids], found.assignment, found.n_iter, found.converged
    )
    return problem, result, None, found.medoids


def _of_sparse(options: argparse.Namespace, rows: SparseRows, deadline: Deadline | None) -> Result:
    n, d = rows.shape
    file: Any = SimpleNamespace(name=str(options.input), n_samples=n, n_features=d)
    file.part, file.ids = Part("sparse matrix"), None
    inputs, source = read_inputs(options, file), sparse_source(rows, options.metric)
    empty = np.flatnonzero(rows.squares == 0.0)
    if len(empty) and options.metric == "cosine":
        what = f"holds only zeros in {len(empty)} rows, the first of them row {empty[0]}"
        rule = "A row of zeros has no direction, which --metric cosine compares"
        refuse(options.input, what, rule, "drop these rows, or choose --metric euclidean")
    rules = {"weights": inputs.weights, "fixed": inputs.fixed}
    centers = sparse_start(source, options.k, seed=options.seed, **rules)
    if inputs.fixed is not None:
        centers = sparse_means(source, inputs.fixed, centers, options.metric, inputs.weights)
    found = sparse_kmeans(
        source,
        inputs.bounds,
        centers,
        metric=options.metric,
        **rules,
        forbidden=inputs.forbidden,
        max_iter=options.max_iter,
        tol=options.tol,
        gap=options.gap,
        time_limit=deadline,
    )
    squared = None
    if options.metric == "euclidean":
        squared = sparse_inertia(source, found.labels, found.centers, inputs.weights)
    return Problem(*inputs, source, ""), found, squared, None
