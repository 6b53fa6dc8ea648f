"""``dualclust cluster --graph``: rows as coordinates in their graph of nearest neighbors."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from ..algos.clustering.neighbor_graph import NeighborGraph, neighbor_coordinates, neighbor_graph
from ..algos.core.checks import check_count
from ..algos.core.errors import InvalidValueError, UsageError
from ..algos.scores.sources import FeatureSource, feature_source
from .places import on_host, placed

__all__ = [
    "check_graph",
    "graph_facts",
    "graph_line",
    "in_graph",
    "on_device",
    "placed_by",
]

_NOT_WITH = ("checkpoint", "dry_run", "init", "resume", "start")


def check_graph(options: argparse.Namespace, world_size: int) -> None:
    """Refuse options that mean nothing in a graph.

    Raises
    ------
    UsageError, InvalidValueError
    """
    check_count("--graph", options.graph, 1)
    if options.metric == "euclidean":
        msg = (
            "--graph compares directions of centered rows, got --metric euclidean. To fix this, "
            "leave one of them out"
        )
        raise UsageError(msg)
    given = [name for name in _NOT_WITH if getattr(options, name) not in (None, False)]
    if given or world_size > 1:
        what = f"--{given[0].replace('_', '-')}" if given else "several ranks"
        msg = f"--graph does not go with {what}. To fix this, leave one of them out"
        raise UsageError(msg)


def in_graph(options: argparse.Namespace, rows: FeatureSource) -> tuple[NeighborGraph, Any]:
    """Return the graph of rows, as they are stored, and the source of their coordinates."""
    n = rows.group.n_total
    if n <= options.k:
        msg = (
            f"a graph of {n} rows has no coordinates for {options.k} clusters. To fix this, ask "
            f"for fewer"
        )
        raise InvalidValueError(msg)
    graph = neighbor_graph(rows, options.k, n_neighbors=options.graph)
    return graph, placed_by(graph, rows)


def placed_by(graph: NeighborGraph, rows: FeatureSource) -> FeatureSource:
    """Return the coordinates of rows, as they are stored, as a source."""
    coordinates = neighbor_coordinates(graph, rows)
    return feature_source(coordinates)._replace(multiply=rows.multiply)


def on_device(graph: NeighborGraph, device: str) -> NeighborGraph:
    """Return a graph of NumPy arrays where rows are computed."""
    moved = {n: placed(getattr(graph, n), device) for n in ("origin", "rows", "vectors")}
    return graph._replace(**moved)


def graph_facts(graph: NeighborGraph) -> dict[str, Any]:
    """Return what result.json says of a graph."""
    return {
        "rows": int(graph.rows.shape[0]),
        "neighbors": graph.n_neighbors,
        "parts": graph.n_parts,
        "eigenvalues": [float(x) for x in np.asarray(on_host(graph.eigenvalues))],
    }


def graph_line(facts: dict[str, Any], k: int) -> str:
    """Return the line of standard output."""
    parts = f"{facts['parts']} part{'s' * (facts['parts'] > 1)}"
    if facts["parts"] > k:
        parts += f" for {k} clusters: raise --graph, or look for groups of equal rows"
    return (
        f"graph               {facts['neighbors']} neighbors of {facts['rows']} rows, {parts}, "
        f"eigenvalues down to {facts['eigenvalues'][-1]:.3f}"
    )
