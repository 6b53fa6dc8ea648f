"""Settings of the graph of neighbors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from ....algos.clustering.neighbor_graph import MOST_IN_GRAPH
from ..constraints import Count
from ..schema import Checked, Rule
from ._registry import register_options

__all__ = ["GraphOptions"]


@register_options("graph")
@dataclass(frozen=True, slots=True)
class GraphOptions(Checked):
    """Settings of the graph of neighbors besides those that all methods share.

    Attributes
    ----------
    neighbors : int, 1 or more. Nearest samples that a sample is joined to.
    most : int, 2 or more. Samples of the graph; of more, so many spread evenly, and the others are
        placed by their neighbors among them.
    n_init : int, 1 or more. Starts of k-means, of which the best is kept.
    """

    neighbors: Count = 15
    most: Annotated[int, Rule("an integer, 2 or more", lambda x: x >= 2)] = MOST_IN_GRAPH
    n_init: Count = 10
