"""dualclust: size-constrained clustering and deep clustering, every answer with a certificate.

====================  =====================================================================
sub-package           what it holds
====================  =====================================================================
`dualclust.algos`     the mathematics, on any array library that follows the array API
`dualclust.backends`  which compiled engine runs which kernel
`dualclust.train`     deep clustering loops (PyTorch; ``pip install 'dualclust[train]'``)
`dualclust.proofs`    the papers' claims as programs that can fail
====================  =====================================================================

The names below are the front door; importing them loads neither torch nor numba nor scikit-learn.

Examples
--------
>>> import numpy as np
>>> import dualclust as dc
>>> scores = np.random.default_rng(0).normal(size=(1000, 10))
>>> bounds = dc.from_ratios(10, n_samples=1000, lower=0.9, upper=1.1)
>>> labels, state = dc.assign(scores, bounds)
>>> bool(state.counts.min() >= 90), bool(state.counts.max() <= 110)
(True, True)
"""

from typing import TYPE_CHECKING, Any

from .algos.baselines.comparison import compare
from .algos.bounds.sizes import SizeBounds, from_counts, from_ratios, stream_bounds
from .algos.clustering.centers import CenterSums, add_to_sums, init_sums, mean_centers, merge_sums
from .algos.clustering.constrained import KMeansState, constrained_kmeans, kmeans, kmeans_plus_plus
from .algos.clustering.hardness_weighted import hardness_centers
from .algos.core.errors import DualclustError, InfeasibleBoundsError
from .algos.offline.assignment import OfflineAssignment, assign_exact, assign_offline, solve
from .algos.online.assignment import Assignment, AssignmentState, assign, init_state, next_pass
from .algos.online.certificates import dual_value, margins, objective, size_certificate, violation
from .algos.online.duals import Duals, assign_batch, init_duals, update_duals
from .algos.online.steps import StepRule, measured_steps, published_steps, theorem_steps
from .algos.pseudo_labels.solver import pseudo_labels
from .algos.scores.sources import (
    FeatureSource,
    ScoreSource,
    feature_source,
    product_source,
    score_source,
)
from .backends import engine

__version__ = "0.1.0"

if TYPE_CHECKING:
    from .estimators.constrained_kmeans import ConstrainedKMeans

__all__ = [
    "Assignment",
    "AssignmentState",
    "CenterSums",
    "ConstrainedKMeans",
    "DualclustError",
    "Duals",
    "FeatureSource",
    "InfeasibleBoundsError",
    "KMeansState",
    "OfflineAssignment",
    "ScoreSource",
    "SizeBounds",
    "StepRule",
    "__version__",
    "add_to_sums",
    "assign",
    "assign_batch",
    "assign_exact",
    "assign_offline",
    "compare",
    "constrained_kmeans",
    "dual_value",
    "engine",
    "feature_source",
    "from_counts",
    "from_ratios",
    "hardness_centers",
    "init_duals",
    "init_state",
    "init_sums",
    "kmeans",
    "kmeans_plus_plus",
    "margins",
    "mean_centers",
    "measured_steps",
    "merge_sums",
    "next_pass",
    "objective",
    "product_source",
    "pseudo_labels",
    "published_steps",
    "score_source",
    "size_certificate",
    "solve",
    "stream_bounds",
    "theorem_steps",
    "update_duals",
    "violation",
]


def __getattr__(name: str) -> Any:
    """Import the estimator, and scikit-learn with it, on first use."""
    if name == "ConstrainedKMeans":
        from .estimators.constrained_kmeans import ConstrainedKMeans

        return ConstrainedKMeans
    msg = f"module 'dualclust' has no attribute {name!r}"
    raise AttributeError(msg)
