r"""Measures of how good labels are, with true classes and without.

With classes, the three figures of the papers (GATCluster Eq. A13 to A16), and AMI. Chance agreement
is 0 for ARI and AMI, not for ACC and NMI.

=========  =====================================================================================
name       value
=========  =====================================================================================
ACC        ``max over one-to-one maps m of mean_i 1[m(y_i) = t_i]``, by the Hungarian algorithm
NMI        mutual information over a mean of the entropies: arithmetic (scikit-learn's default) or
           geometric (the papers' A14)
ARI        Rand index, adjusted for chance
AMI        mutual information, adjusted for chance
=========  =====================================================================================

Without classes: how balanced the sizes are, how far labels are from the best ones inside the
bounds, how many changed, and whether the features have collapsed. `certificates.violation` says by
how much sizes are outside their bounds.

====================  ==========================================================================
name                  value
====================  ==========================================================================
`effective_clusters`  perplexity of the sizes
`imbalance_ratio`     ``min_k n_k / max_k n_k`` (ProPos Fig. 3b): 1 if balanced
`regret`              ``(best - sum_i s_{i, y_i}) / n``: R of CoKe section 3.2.1, per sample
`churn`               ``mean_i 1[y_i != y'_i]``
`uniformity`          standard deviation of unit features (ProPos Fig. 3a)
====================  ==========================================================================
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import array_api_compat as compat
import array_api_compat.numpy
from scipy.optimize import linear_sum_assignment

from ..core.checks import check_finite, check_interval, check_real, check_shape
from ..core.errors import InvalidTypeError, InvalidValueError
from ..core.precision import at_least_float32
from ..core.projections import project_sphere
from ..core.types import Array
from ..online.certificates import objective

host: Any = array_api_compat.numpy

__all__ = [
    "ClusteringScores",
    "churn",
    "clustering_scores",
    "effective_clusters",
    "imbalance_ratio",
    "regret",
    "uniformity",
]


class ClusteringScores(NamedTuple):
    """Agreement of labels with classes; each figure is 1 for equal partitions."""

    acc: float
    nmi: float
    nmi_geometric: float
    ari: float
    ami: float


def clustering_scores(labels: Array, classes: Array) -> ClusteringScores:
    """Compare cluster labels with true classes.

    Parameters
    ----------
    labels, classes : (n,) integer arrays
        Of any array library and device (copied to the host); numbering is free.

    Returns
    -------
    ClusteringScores
        With more clusters than classes, ACC counts the matched clusters only.

    Raises
    ------
    InvalidValueError
        For different lengths, or no sample.
    InvalidTypeError
        For a dtype that is not integer.

    Notes
    -----
    Cost O(n + k^3). Source: GATCluster Eq. A13 to A16, by scikit-learn and SciPy.
    Claims: docs/claims.md#G13.

    Examples
    --------
    >>> import numpy as np
    >>> scores = clustering_scores(np.asarray([1, 1, 0, 0]), np.asarray([0, 0, 1, 0]))
    >>> round(scores.acc, 3), round(scores.nmi, 3)
    (0.75, 0.344)
    """
    from sklearn import metrics

    found, true = _on_host("labels", labels), _on_host("classes", classes)
    check_shape("classes", true, (found.shape[0],))
    if found.shape[0] == 0:
        msg = "labels must not be empty. To fix this, pass at least one"
        raise InvalidValueError(msg)
    table = metrics.cluster.contingency_matrix(true, found)
    # Equal but for names. Old versions of scikit-learn say AMI = 0 where all are alone.
    if table.shape[0] == table.shape[1] == (table > 0).sum():
        return ClusteringScores(1.0, 1.0, 1.0, 1.0, 1.0)
    rows, columns = linear_sum_assignment(table, maximize=True)
    nmi = metrics.normalized_mutual_info_score
    return ClusteringScores(
        acc=float(table[rows, columns].sum() / found.shape[0]),
        nmi=float(nmi(true, found)),
        nmi_geometric=float(nmi(true, found, average_method="geometric")),
        ari=float(metrics.adjusted_rand_score(true, found)),
        ami=float(metrics.adjusted_mutual_info_score(true, found)),
    )


def effective_clusters(counts: Array) -> float:
    """Return the perplexity ``exp(-sum_k q_k log q_k)`` of sizes: k if balanced, 1 if collapsed.

    Parameters
    ----------
    counts : (k,) integer array, not all 0

    Examples
    --------
    >>> import numpy as np
    >>> effective_clusters(np.asarray([5, 5, 0]))
    2.0
    """
    xp = compat.array_namespace(counts)
    q = xp.astype(counts, xp.float64)
    total = float(xp.sum(q))
    if not total > 0:
        msg = "counts must not all be 0. To fix this, pass at least one"
        raise InvalidValueError(msg)
    q = q / total
    log_q = xp.log(xp.where(q > 0, q, xp.ones_like(q)))
    return math.exp(-float(xp.sum(q * log_q)))


def imbalance_ratio(counts: Array) -> float:
    """Return smallest over largest cluster size: 1 if balanced, 0 if a cluster is empty.

    Parameters
    ----------
    counts : (k,) integer array, not all 0

    Notes
    -----
    Source: ProPos section 5.2.1, Fig. 3b, where a *higher* "imbalance ratio" is more balanced.

    Examples
    --------
    >>> import numpy as np
    >>> imbalance_ratio(np.asarray([5, 10, 8]))
    0.5
    """
    xp = compat.array_namespace(counts)
    check_shape("counts", counts, ("k",))
    largest = int(xp.max(counts)) if counts.shape[0] else 0
    if not largest > 0:
        msg = "counts must not all be 0. To fix this, pass at least one"
        raise InvalidValueError(msg)
    return int(xp.min(counts)) / largest


def regret(scores: Array, labels: Array, best: float) -> float:
    """Return the loss of labels per sample, compared with the best ones.

    Parameters
    ----------
    scores : (n, k) real array
        Finite.
    labels : (n,) int64 array
    best : float
        Value of the best labels inside the bounds, as `assign_exact` finds it. An upper bound on
        it, as `dual_value` proves one, gives an upper bound on the regret.

    Returns
    -------
    float, in units of score
        Negative for labels outside the bounds that are worth more than the best inside.

    Notes
    -----
    Source: the regret of CoKe section 3.2.1, divided by N.

    Examples
    --------
    >>> import numpy as np
    >>> regret(np.asarray([[1.0, 0.0], [1.0, 0.5]]), np.asarray([1, 0]), best=1.5)
    0.25
    """
    check_interval("best", best, -math.inf, math.inf)
    n, _ = check_shape("scores", scores, ("n", "k"))
    if n == 0:
        msg = "scores must have at least one row. To fix this, pass at least one"
        raise InvalidValueError(msg)
    return (best - objective(scores, labels)) / n


def uniformity(features: Array) -> float:
    """Measure the spread of features on the sphere: 0 after collapse, ``1 / sqrt(d)`` if uniform.

    It is the standard deviation of each coordinate of ``x / ||x||``, averaged over coordinates.

    Parameters
    ----------
    features : (n, d) real array
        Finite, n >= 1; rows of any length, a zero row stays zero.

    Notes
    -----
    By Jensen's inequality it is at most ``1 / sqrt(d)`` for unit rows. Source: ProPos section
    5.2.1, Fig. 3a.

    Examples
    --------
    >>> import numpy as np
    >>> uniformity(np.asarray([[1.0, 0.0], [-2.0, 0.0], [0.0, 3.0], [0.0, -1.0]]))  # 1 / sqrt(2)
    0.7071067811865476
    >>> uniformity(np.asarray([[1.0, 2.0], [2.0, 4.0]]))
    0.0
    """
    check_real("features", features)
    n, d = check_shape("features", features, ("n", "d"))
    if n == 0 or d == 0:
        msg = (
            f"features must have at least one row and column, got shape {(n, d)}"
            ". To fix this, pass at least one"
        )
        raise InvalidValueError(msg)
    check_finite("features", features)
    xp = compat.array_namespace(features)
    unit = project_sphere(xp.astype(at_least_float32(features), xp.float64))
    return float(xp.mean(xp.std(unit, axis=0)))


def churn(labels: Array, previous: Array) -> float:
    """Return the share of samples whose label changed, for (n,) label arrays; 0 for no sample."""
    xp = compat.array_namespace(labels, previous)
    n, *_ = check_shape("previous", previous, tuple(labels.shape))
    return float(xp.sum(xp.astype(labels != previous, xp.int64))) / max(n, 1)


def _on_host(name: str, labels: Array) -> Any:
    if compat.is_torch_array(labels):
        labels = labels.detach().cpu()
    array = host.asarray(labels)
    check_shape(name, array, ("n",))
    if not host.isdtype(array.dtype, ("integral", "bool")):
        msg = f"{name} must have an integer dtype, got {array.dtype}. To fix this, use int64"
        raise InvalidTypeError(msg)
    return array
