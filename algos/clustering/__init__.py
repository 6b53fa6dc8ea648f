"""Centers and k-means: free, with sizes between bounds, from batches, and SeCu's weighted centers.

`kmeans` and `constrained_kmeans` run on the sphere and in Euclidean space; their bits do not depend
on blocks and ranks. `constrained_medoids` takes any
dissimilarities. `hardness_centers` solves for centers with a proof; `metrics` compares labels.
"""

from ._alternating import BoundedKMeansResult
from .centers import (
    CenterSums,
    add_to_sums,
    init_sums,
    mean_centers,
    merge_sums,
    renormalized_centers,
    running_average,
    sum_batch,
)
from .choices import (
    RowChoices,
    first_of_each,
    restricted_scores,
    row_choices,
)
from .constrained import (
    ConstrainedKMeansResult,
    constrained_kmeans,
)
from .dissimilarities import (
    EARTH_RADIUS,
    Dissimilarities,
    great_circle_distances,
    matrix_dissimilarities,
    pairwise_dissimilarities,
)
from .grouped import (
    grouped_kmeans,
    linked_kmeans,
    trimmed_kmeans,
)
from .hardness_weighted import (
    CenterStatus,
    HardnessCenters,
    hardness,
    hardness_centers,
)
from .lloyd import (
    KMeansResult,
    KMeansState,
    best_of,
    kmeans,
    updated_centers,
)
from .medoids import (
    MedoidsResult,
    constrained_medoids,
    start_medoids,
)
from .metrics import (
    ClusteringScores,
    churn,
    clustering_scores,
    effective_clusters,
    imbalance_ratio,
    regret,
    uniformity,
)
from .minibatch import (
    MiniBatchState,
    MiniBatchStep,
    init_minibatch,
    minibatch_step,
)
from .minibatch_pass import minibatch_pass
from .neighbor_graph import (
    MOST_IN_GRAPH,
    NeighborGraph,
    nearest_rows,
    neighbor_coordinates,
    neighbor_graph,
    placed_rows,
)
from .restarts import (
    Split,
    split_largest,
)
from .seeded import (
    fixed_means,
    seeded_centers,
)
from .start import (
    METRICS,
    greedy_candidates,
    kmeans_plus_plus,
    start_centers,
)
from .weighted import (
    weighted_kmeans,
)

__all__ = [
    "EARTH_RADIUS",
    "METRICS",
    "MOST_IN_GRAPH",
    "BoundedKMeansResult",
    "CenterStatus",
    "CenterSums",
    "ClusteringScores",
    "ConstrainedKMeansResult",
    "Dissimilarities",
    "HardnessCenters",
    "KMeansResult",
    "KMeansState",
    "MedoidsResult",
    "MiniBatchState",
    "MiniBatchStep",
    "NeighborGraph",
    "RowChoices",
    "Split",
    "add_to_sums",
    "best_of",
    "churn",
    "clustering_scores",
    "constrained_kmeans",
    "constrained_medoids",
    "effective_clusters",
    "first_of_each",
    "fixed_means",
    "great_circle_distances",
    "greedy_candidates",
    "grouped_kmeans",
    "hardness",
    "hardness_centers",
    "imbalance_ratio",
    "init_minibatch",
    "init_sums",
    "kmeans",
    "kmeans_plus_plus",
    "linked_kmeans",
    "matrix_dissimilarities",
    "mean_centers",
    "merge_sums",
    "minibatch_pass",
    "minibatch_step",
    "nearest_rows",
    "neighbor_coordinates",
    "neighbor_graph",
    "pairwise_dissimilarities",
    "placed_rows",
    "regret",
    "renormalized_centers",
    "restricted_scores",
    "row_choices",
    "running_average",
    "seeded_centers",
    "split_largest",
    "start_centers",
    "start_medoids",
    "sum_batch",
    "trimmed_kmeans",
    "uniformity",
    "updated_centers",
    "weighted_kmeans",
]
