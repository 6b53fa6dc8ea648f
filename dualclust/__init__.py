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
Pages that docstrings and messages name are installed: ``dualclust docs claims#S4`` prints what
docs/claims.md says of claim S4, and ``dualclust docs`` lists all pages.

Examples
--------
>>> import numpy as np
>>> import dualclust as dc
>>> scores = np.random.default_rng(0).normal(size=(1000, 10))
>>> bounds = dc.SizeBounds.from_ratios(10, n_samples=1000, lower=0.9, upper=1.1)
>>> labels, state = dc.assign(scores, bounds)
>>> bool(state.counts.min() >= 90), bool(state.counts.max() <= 110)
(True, True)
"""

from typing import TYPE_CHECKING, Any

from .algos.baselines import compare_assignments
from .algos.bounds import SizeBounds
from .algos.clustering import constrained_kmeans, hardness_centers, kmeans, kmeans_plus_plus
from .algos.core import DualclustError, InfeasibleBoundsError, MissingExtraError
from .algos.offline import OfflineAssignment, assign_exact, assign_offline, assign_source
from .algos.online import (
    Assignment,
    DualRule,
    assign,
    assign_batch,
    init_duals,
    init_state,
    measured_steps,
    next_pass,
    size_certificate,
    update_duals,
)
from .algos.pseudo_labels import pseudo_labels
from .algos.scores import feature_source, product_source, score_source
from .algos.selection import choose_k
from .backends import engine
from .cluster.interrupt import interruptible

__version__ = "0.1.0"

if TYPE_CHECKING:
    from .estimators import ConstrainedKMeans, ConstrainedKMedoids, SpectralConstrainedKMeans
    from .train.models import load_model as load

__all__ = [
    "Assignment",
    "ConstrainedKMeans",
    "ConstrainedKMedoids",
    "DualRule",
    "DualclustError",
    "InfeasibleBoundsError",
    "OfflineAssignment",
    "SizeBounds",
    "SpectralConstrainedKMeans",
    "__version__",
    "assign",
    "assign_batch",
    "assign_exact",
    "assign_offline",
    "assign_source",
    "choose_k",
    "compare_assignments",
    "constrained_kmeans",
    "engine",
    "feature_source",
    "hardness_centers",
    "init_duals",
    "init_state",
    "interruptible",
    "kmeans",
    "kmeans_plus_plus",
    "load",
    "measured_steps",
    "next_pass",
    "product_source",
    "pseudo_labels",
    "score_source",
    "size_certificate",
    "update_duals",
]


def __getattr__(name: str) -> Any:
    """Import an estimator and scikit-learn, or what loads a trained model and torch, on use."""
    if name in ("ConstrainedKMeans", "ConstrainedKMedoids", "SpectralConstrainedKMeans"):
        from . import estimators

        return getattr(estimators, name)
    if name == "load":
        try:
            from .train.models import load_model
        except ModuleNotFoundError as error:
            from .common.extras import needs_train

            msg = needs_train("a trained model", error.name)
            raise MissingExtraError(msg) from error
        return load_model
    msg = f"module 'dualclust' has no attribute {name!r}"
    raise AttributeError(msg)
