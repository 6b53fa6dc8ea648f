r"""Information between the clusters of two views, from their joint distribution (IIC).

Two views of the same images have the posteriors p_i and q_i. If a network names what both views
share, then the name of one tells that of the other:

``P_cd = (1 / b) sum_i p_ic q_id``,   made symmetric: ``(P + P^T) / 2``
``I(P) = sum_cd P_cd ( log P_cd - log P_c - log P_d )``,   ``P_c = sum_d P_cd``

and the loss is ``-I`` (Ji, Henriques and Vedaldi 2019, section 3.1: a baseline of the MI + margin
paper, Table 2). It is least where both views agree, are sure, and use the clusters evenly; with the
entropies weighted by w, ``sum_cd P_cd ( log P_cd - w log P_c - w log P_d )``, evenness counts more.

=================  ==================  ============  ============================================
paper              here                shape         meaning
=================  ==================  ============  ============================================
:math:`P`          ``joint``           (..., k, k)   symmetric, sums to 1
:math:`\lambda`    ``entropy_weight``  ()            w; 1 is the mutual information
=================  ==================  ============  ============================================

The joint is added up, and its logarithms are taken, in float64: a share of 1e-8 counts, and a
product of float32 matrices is what PyTorch's autocast would do in half precision.
"""

from __future__ import annotations

import array_api_compat as compat

from ...core.checks import check_interval, check_real, check_shape
from ...core.errors import InvalidValueError
from ...core.precision import LARGEST_WEIGHT, at_least_float32, finite_log
from ...core.types import Array
from ..cross_entropy import log_softmax

__all__ = ["information_of_joint", "joint_distribution", "joint_information_loss"]


def joint_distribution(scores: Array, other_scores: Array, *, temperature: float = 1.0) -> Array:
    """Joint distribution of the clusters of two views, symmetric.

    Parameters
    ----------
    scores, other_scores : (..., b, k) real arrays
        Of two views of the same samples, b >= 1.
    temperature : float > 0

    Returns
    -------
    (..., k, k) float64 array
        Sums to 1.

    Notes
    -----
    Source: Ji et al. 2019, section 3.1; a baseline of claim M9. Cost O(b k^2).
    Claims: docs/claims.md#M9.

    Examples
    --------
    >>> import numpy as np
    >>> s = np.asarray([[99.0, 0.0], [99.0, 0.0], [0.0, 99.0], [0.0, 99.0]])
    >>> joint_distribution(s, s).round(4)
    array([[0.5, 0. ],
           [0. , 0.5]])
    """
    xp = check_real("scores", scores)
    check_real("other_scores", other_scores)
    shape = check_shape("other_scores", other_scores, tuple(scores.shape))
    if len(shape) < 2 or 0 in shape[-2:]:
        msg = (
            f"scores must have shape (..., b, k) with b >= 1 and k >= 1, got {shape}"
            ". To fix this, pass a batch of one sample or more, a row for each"
        )
        raise InvalidValueError(msg)
    p, q = (
        xp.exp(xp.astype(log_softmax(s, temperature=temperature), xp.float64))
        for s in (scores, other_scores)
    )
    joint = xp.matmul(xp.matrix_transpose(p), q) / shape[-2]
    return 0.5 * (joint + xp.matrix_transpose(joint))


def information_of_joint(joint: Array, *, entropy_weight: float = 1.0) -> Array:
    """Mutual information of a joint distribution of two discrete variables, in nats.

    Parameters
    ----------
    joint : (..., k, m) real array
        Nonnegative, sums to 1. Half precision is computed and returned in float32.
    entropy_weight : float in [0, 1e30]
        Weight w of the logarithms of both marginals.

    Returns
    -------
    (...) array
        In [0, log min(k, m)] up to rounding, for a weight of 1.

    Notes
    -----
    Source: Ji et al. 2019, section 3.1; a baseline of claim M9. ``0 log 0`` is 0; computed as
    printed it is NaN. Cost O(k m).
    Claims: docs/claims.md#M9.

    Examples
    --------
    >>> import numpy as np
    >>> information_of_joint(np.asarray([[0.5, 0.0], [0.0, 0.5]])).round(4)
    np.float64(0.6931)
    """
    check_real("joint", joint)
    check_interval("entropy_weight", entropy_weight, 0.0, LARGEST_WEIGHT)
    if joint.ndim < 2:
        msg = (
            f"joint must have shape (..., k, m), got {tuple(joint.shape)}"
            ". To fix this, pass what dualclust.algos.losses.information.joint_distribution returns"
        )
        raise InvalidValueError(msg)
    p = at_least_float32(joint)
    xp = compat.array_namespace(p)
    rows, columns = (finite_log(xp.sum(p, axis=axis, keepdims=True)) for axis in (-1, -2))
    return xp.sum(p * (finite_log(p) - entropy_weight * (rows + columns)), axis=(-2, -1))


def joint_information_loss(
    scores: Array, other_scores: Array, *, temperature: float = 1.0, entropy_weight: float = 1.0
) -> Array:
    """IIC's loss of two views, ``-I``: least where they agree, are sure and use all clusters.

    Parameters
    ----------
    scores, other_scores : (..., b, k) real arrays
        Of two views of the same samples, b >= 1.
    temperature : float > 0
    entropy_weight : float in [0, 1e30]

    Returns
    -------
    (...) array
        In the dtype of the scores, or float32 for half precision; in [-log k, 0] up to rounding,
        for a weight of 1.

    Notes
    -----
    Source: Ji et al. 2019, section 3.1; claim M9 compares its results with those of MI + margin.
    The batch must be large enough for k^2 shares to be estimated: for b = 1 the loss is 0
    whatever the scores, if both views agree. Cost O(b k^2).
    Claims: docs/claims.md#M9.

    Examples
    --------
    >>> import numpy as np
    >>> s = np.asarray([[99.0, 0.0], [0.0, 99.0]])
    >>> joint_information_loss(s, s).round(4)
    np.float64(-0.6931)
    """
    joint = joint_distribution(scores, other_scores, temperature=temperature)
    loss = -information_of_joint(joint, entropy_weight=entropy_weight)
    return compat.array_namespace(loss).astype(loss, at_least_float32(scores).dtype)
