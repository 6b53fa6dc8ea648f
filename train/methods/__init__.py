"""Deep clustering methods: each is a state, losses to take steps on, and a prediction.

The loop (`train.loop.training`) knows no method: it draws batches and views, and asks for losses,
labels, and a state to save (`base.Method`). A new method is one module here, one row in `METHODS`,
and one table of settings in `train.config.methods`.
"""

from __future__ import annotations

from .base import Method
from .coke import CoKe
from .gatcluster.method import GATCluster
from .mi_margin.method import MiMargin
from .propos.method import ProPos
from .secu import SeCu
from .self_label import SelfLabel

__all__ = ["METHODS", "CoKe", "GATCluster", "Method", "MiMargin", "ProPos", "SeCu", "SelfLabel"]

METHODS: dict[str, type[Method]] = {
    "coke": CoKe,
    "gatcluster": GATCluster,
    "mi_margin": MiMargin,
    "propos": ProPos,
    "secu": SeCu,
    "self_label": SelfLabel,
}
