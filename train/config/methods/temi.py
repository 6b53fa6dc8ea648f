"""Settings of TEMI."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from ..constraints import Count, Positive, Share
from ..schema import Checked, Rule
from ._registry import register_options

__all__ = ["TemiOptions"]


@register_options("temi")
@dataclass(frozen=True, slots=True)
class TemiOptions(Checked):
    """Settings of TEMI besides those that all methods share.

    ``batch_size`` is the number of pairs in a step, ``loss.temperature`` that of all probabilities.

    Attributes
    ----------
    graph_neighbors : int, 1 or more. Nearest samples that a sample is joined to, in the graph that
        the head begins at.
    neighbors : int, 1 or more. Nearest samples, one of which makes a pair with a sample.
    steps : int, 1 or more.
    lr : float > 0. Largest rate of the head, reached after `WARMUP` steps.
    beta : float in (0, 1]. Exponent of the probabilities; see `algos.losses.temi`.
    momentum : float in [0, 1). How much of a teacher stays in a step.
    n_init : int, 1 or more. Starts of k-means in the graph, of which the best is kept. They cost
        little, and which optimum the head reaches depends on them.
    """

    graph_neighbors: Count = 15
    neighbors: Count = 50
    steps: Count = 300
    lr: Positive = 0.01
    beta: Annotated[float, Rule("above 0, and at most 1", lambda x: 0 < x <= 1)] = 0.6
    momentum: Share = 0.996
    n_init: Count = 40
