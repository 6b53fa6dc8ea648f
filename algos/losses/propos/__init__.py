"""ProPos: prototypes of a batch, the loss that scatters them, the loss that aligns neighbors."""

from .memory_queue import (
    MemoryQueue,
    QueueContents,
    contents,
    current_labels,
    init_queue,
    push,
)
from .prototypes import (
    Prototypes,
    PrototypeSums,
    batch_prototypes,
    moving_average,
    normalize_sums,
    prototype_sums,
    update_prototypes,
    weighted_sums,
)
from .scattering import (
    perturbed,
    positive_sampling_alignment,
    prototypical_alignment,
    prototypical_uniformity,
    psl_cross_view,
    psl_mixed_view,
    psl_released,
    psl_same_view,
)

__all__ = [
    "MemoryQueue",
    "PrototypeSums",
    "Prototypes",
    "QueueContents",
    "batch_prototypes",
    "contents",
    "current_labels",
    "init_queue",
    "moving_average",
    "normalize_sums",
    "perturbed",
    "positive_sampling_alignment",
    "prototype_sums",
    "prototypical_alignment",
    "prototypical_uniformity",
    "psl_cross_view",
    "psl_mixed_view",
    "psl_released",
    "psl_same_view",
    "push",
    "update_prototypes",
    "weighted_sums",
]
