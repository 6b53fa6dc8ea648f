r"""A graph of neighbors: spectral clustering of a frozen encoder's features, with bounded sizes.

No step is taken: the one epoch is `fit`. The features of all samples become coordinates by the
random walk on their graph of nearest neighbors (`algos.clustering.neighbor_graph`), and k-means
with bounds clusters the directions of these, from several starts. The graph is part of the
network, as its predictor, so that any sample is placed by the same function as those of the run.

============================  ====================  =========  ==================================
there                         here                  shape      meaning
============================  ====================  =========  ==================================
:math:`x_i`                   ``network(image)``    (d,)       features of the encoder
:math:`v`                     ``places.vectors``    (m, q)     eigenvectors of the walk
:math:`f(i)`                  ``features``          (q,)       coordinates at unit length
centers                       ``centers``           (k, q)     of k-means, at unit length
============================  ====================  =========  ==================================
"""

from __future__ import annotations

import torch
from torch import Tensor

from ...algos.clustering.neighbor_graph import nearest_rows, neighbor_graph
from ...algos.core.errors import UsageError
from ...algos.scores.sources import feature_source
from ...common.ranks import ALONE, Ranks
from ..config.methods.graph import GraphOptions
from ..config.run import RunConfig
from ..networks.neighbors import NeighborPlaces
from ..networks.network import Network
from ..networks.normalization import full_precision
from ._one_fit import OneFit
from .base import ApplyToAll, register_method

__all__ = ["Graph"]


@register_method("graph")
class Graph(OneFit):
    """State of a graph of neighbors. The parameters are those of `Method`.

    Attributes
    ----------
    places : NeighborPlaces. The network's predictor.
    centers : (k, q) tensor. Unit rows.
    parts : () int64 tensor. Parts of the graph without an edge between them.
    """

    readout = "neighbors"
    why = "a graph of neighbors takes no steps and has one head"
    figure = "parts"

    @classmethod
    def check(cls, config: RunConfig, n_samples: int | None = None) -> None:
        """Refuse settings of a network that learns, several heads, and too few samples."""
        most, k = config.options(GraphOptions).most, config.heads.target
        rows = most if n_samples is None else min(n_samples, most)
        if rows <= k:
            msg = (
                f"a graph of {rows} samples has no coordinates for {k} clusters. To fix this, ask "
                f"for fewer clusters than samples, {rows - 1} at most"
            )
            raise UsageError(msg)
        super().check(config, n_samples)

    def __init__(
        self, config: RunConfig, network: Network, n_samples: int, ranks: Ranks = ALONE
    ) -> None:
        super().__init__(config, network, n_samples, ranks)
        self.options = config.options(GraphOptions)
        k, rows = config.heads.target, min(n_samples, self.options.most)
        n_neighbors = min(self.options.neighbors, rows - 1)
        self.places = NeighborPlaces(rows, network.out_dim, k, n_neighbors)
        self.places.to(self.device, self.dtype)
        network.predictor = self.places
        self.centers = torch.zeros(k, k, dtype=self.dtype, device=self.device)
        self.parts = torch.ones((), dtype=torch.int64)

    @torch.no_grad()
    def fit(self, apply_to_all: ApplyToAll) -> float:
        """Find graph, coordinates and centers; returns one minus the mean cosine with the center.

        Parameters
        ----------
        apply_to_all : as of `Method`. Called twice: for the features, and for their coordinates.
        """
        features = feature_source(apply_to_all(self._rows))
        options, k = self.options, self.config.heads.target
        graph = neighbor_graph(features, k, n_neighbors=options.neighbors, most=options.most)
        self.places.take(graph)
        self.parts.fill_(graph.n_parts)
        source = feature_source(apply_to_all(self.features))
        found = self.best_of_starts(source, options.n_init)
        self.centers.copy_(found.centers)
        self.labels[self.target] = found.assignment.labels
        return 1.0 - float(found.assignment.objective) / self.n_samples

    def alike(self) -> tuple[Tensor, Tensor] | None:
        """Nearest other sample of each, where all samples are in the graph."""
        rows = self.places.rows
        if len(rows) < self.n_samples:
            return None
        near = nearest_rows(rows, 1)[:, 0]
        return near, (rows * rows[near]).sum(dim=1)

    def _rows(self, images: Tensor) -> Tensor:
        return full_precision(self.network(images))

    def features(self, images: Tensor) -> Tensor:
        """Coordinates of one batch, (b, q), at unit length."""
        placed: Tensor = self.places(self._rows(images))
        return placed
