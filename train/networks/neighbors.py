"""A graph of neighbors as a module: features of a frozen encoder in, spectral coordinates out."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ...algos.clustering.neighbor_graph import NeighborGraph, placed_rows

__all__ = ["NeighborPlaces"]


class NeighborPlaces(nn.Module):
    """Places rows by their neighbors among those of a graph; nothing in it learns.

    Parameters
    ----------
    n_rows, dim, n_vectors : int. Rows of the graph, their length, and its coordinates.
    n_neighbors : int

    Notes
    -----
    Memory of a pass: the cosines of its rows with those of the graph.
    """

    origin: Tensor
    rows: Tensor
    vectors: Tensor

    def __init__(self, n_rows: int, dim: int, n_vectors: int, n_neighbors: int) -> None:
        super().__init__()
        self.n_neighbors = n_neighbors
        self.register_buffer("origin", torch.zeros(dim))
        self.register_buffer("rows", torch.zeros(n_rows, dim))
        self.register_buffer("vectors", torch.zeros(n_rows, n_vectors))

    def take(self, graph: NeighborGraph) -> None:
        """Take over what a graph has found."""
        self.origin.copy_(graph.origin)
        self.rows.copy_(graph.rows)
        self.vectors.copy_(graph.vectors)

    def forward(self, features: Tensor) -> Tensor:
        """Coordinates (b, n_vectors) at unit length, of features (b, dim)."""
        graph = NeighborGraph(
            self.origin, self.rows, self.vectors, self.vectors[0], self.n_neighbors, 1
        )
        placed: Tensor = placed_rows(graph, features)
        return placed
