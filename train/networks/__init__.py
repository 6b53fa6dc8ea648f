"""Networks: an encoder, then a projector, and where a method wants one a predictor.

`build_network` makes one by its settings. `resnets` and `small` hold the encoders,
`attention_branches` those of GATCluster with its two branches, and `normalization` the batch
normalization that tells views apart and spans ranks.
"""

from .attention_branches import Branches, MapEncoder
from .network import NETWORKS, Network, build_network, run_views
from .normalization import BatchNorm, groups, merge_groups, synchronize

__all__ = [
    "NETWORKS",
    "BatchNorm",
    "Branches",
    "MapEncoder",
    "Network",
    "build_network",
    "groups",
    "merge_groups",
    "run_views",
    "synchronize",
]
