r"""How good labels are, with true classes and without.

With classes, the three figures of the papers (GATCluster Eq. A13 to A16). Chance agreement is 0 for
ARI and AMI, not for ACC and NMI.

=========  =====================================================================================
name       value
=========  =====================================================================================
ACC        ``max over one-to-one maps m of mean_i 1[m(y_i) = t_i]``, by the Hungarian algorithm
NMI        mutual information over a mean of the entropies: arithmetic (scikit-learn's default) or
           geometric (the papers' A14)
ARI        Rand index, adjusted for chance
AMI        mutual information, adjusted for chance
=========  =====================================================================================
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import array_api_compat as compat
import array_api_compat.numpy
from scipy.optimize import linear_sum_assignment

from ._typing import Array
from .checks import check_shape
from .errors import InvalidTypeError, InvalidValueError

host: Any = array_api_compat.numpy

__all__ = ["ClusteringScores", "churn", "clustering_scores", "effective_clusters"]


class ClusteringScores(NamedTuple):
    """Agreement of labels with classes; each 1 for equal partitions."""

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
        msg = "labels must not be empty"
        raise InvalidValueError(msg)
    table = metrics.cluster.contingency_matrix(true, found)
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
    """Perplexity ``exp(-sum_k q_k log q_k)`` of the sizes: k if balanced, 1 after collapse.

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
        msg = "counts must not all be 0"
        raise InvalidValueError(msg)
    q = q / total
    log_q = xp.log(xp.where(q > 0, q, xp.ones_like(q)))
    return math.exp(-float(xp.sum(q * log_q)))


def churn(labels: Array, previous: Array) -> float:
    """Share of the samples whose label changed, for two (n,) label arrays; 0 for no sample."""
    xp = compat.array_namespace(labels, previous)
    n, *_ = check_shape("previous", previous, tuple(labels.shape))
    return float(xp.sum(xp.astype(labels != previous, xp.int64))) / max(n, 1)


def _on_host(name: str, labels: Array) -> Any:
    if compat.is_torch_array(labels):
        labels = labels.detach().cpu()
    array = host.asarray(labels)
    check_shape(name, array, ("n",))
    if not host.isdtype(array.dtype, ("integral", "bool")):
        msg = f"{name} must have an integer dtype, got {array.dtype}"
        raise InvalidTypeError(msg)
    return array
