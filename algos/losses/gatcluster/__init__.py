"""GATCluster: balanced targets, four losses, relations of pairs, Gaussian attention."""

from .attention import (
    Gaussian,
    attended_features,
    attention_map,
    full_gaussian,
    isotropic_gaussian,
    released_gaussian,
)
from .grouping import grouped_labels
from .relations import (
    RelationGradient,
    relation_error,
    relation_gradient,
    relation_loss,
    relation_matrix,
    usable_labels,
)
from .released import (
    EPS,
    released_gatcluster_loss,
    released_pair_cap,
)
from .tasks import (
    PUBLISHED_WEIGHTS,
    GATClusterLoss,
    LossWeights,
    attention_loss,
    balanced_targets,
    entropy_loss,
    gatcluster_loss,
    transformation_loss,
)

__all__ = [
    "EPS",
    "PUBLISHED_WEIGHTS",
    "GATClusterLoss",
    "Gaussian",
    "LossWeights",
    "RelationGradient",
    "attended_features",
    "attention_loss",
    "attention_map",
    "balanced_targets",
    "entropy_loss",
    "full_gaussian",
    "gatcluster_loss",
    "grouped_labels",
    "isotropic_gaussian",
    "relation_error",
    "relation_gradient",
    "relation_loss",
    "relation_matrix",
    "released_gatcluster_loss",
    "released_gaussian",
    "released_pair_cap",
    "transformation_loss",
    "usable_labels",
]
