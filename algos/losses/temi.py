r"""TEMI's self-distillation: heads on frozen features agree on a sample and its neighbor.

Each of h heads gives a sample x the probabilities ``q(c | x)`` of k clusters, by a student that
learns and by a teacher that follows it. Of a sample and one of its nearest neighbors, the pointwise
information of a head is

``pmi(x, x') = log sum_c (q_s(c|x) q_t(c|x'))^beta / q_t(c)``,            (TEMI, Eq. 4 and 5)

and its loss weighs both orders by how far the teachers of all heads agree about the pair:

``-w / 2 (pmi(x, x') + pmi(x', x))``,   ``w = mean_h sum_c q_t(c|x) q_t(c|x')``.   (Eq. 6 and 7)

``beta < 1`` and the marginal ``q_t(c)``, a moving average over batches, keep clusters from merging.

Source: Adaloglou, Michels, Kalisch and Kollmann, Exploring the limits of deep image clustering
using pretrained models, BMVC 2023, arXiv 2303.17896.

======================  ==============  ============  ============================================
paper                   here            shape         meaning
======================  ==============  ============  ============================================
:math:`\log q_s`        ``students``    (2, h, b, k)  of the samples, then of their neighbors
:math:`\log q_t`        ``teachers``    (2, h, b, k)  likewise, without gradient
:math:`\tilde q_t(c)`   ``marginals``   (h, k)        of each head, above 0
:math:`\beta`           ``beta``        ()            in (0, 1]
======================  ==============  ============  ============================================
"""

from __future__ import annotations

import array_api_compat as compat

from ..core.checks import check_interval, check_real, check_shape
from ..core.types import Array

__all__ = ["self_distillation_loss"]


def self_distillation_loss(
    students: Array, teachers: Array, marginals: Array, *, beta: float
) -> Array:
    """TEMI's loss of pairs of neighbors, for each head and pair, in nats.

    Parameters
    ----------
    students : (2, h, b, k) real array
        Log-probabilities of the samples, then of their neighbors, as `log_softmax` gives them.
    teachers : (2, h, b, k) real array
        Likewise; detach them: no gradient belongs into a teacher.
    marginals : (h, k) real array
        Shares of the clusters by the teacher, above 0.
    beta : float in (0, 1]
        0.6 as published; 1 is the pointwise information itself.

    Returns
    -------
    (h, b) array

    Raises
    ------
    InvalidValueError, InvalidTypeError
        For shapes, dtypes or numbers that do not fit.

    Notes
    -----
    Source: TEMI, Eq. 5 to 7. Cost O(k) for a pair and head. Finite for finite log-probabilities.

    Examples
    --------
    Two heads, one pair: the first head is sure of it, the second is not.

    >>> import numpy as np
    >>> sure, open_ = [0.98, 0.02], [0.5, 0.5]
    >>> log_q = np.log(np.asarray([[[sure], [open_]], [[sure], [open_]]]))
    >>> self_distillation_loss(log_q, log_q, np.full((2, 2), 0.5), beta=1.0).round(2)
    array([[-0.48],
           [-0.  ]])
    """
    xp = check_real("students", students)
    _, h, b, k = check_shape("students", students, (2, "h", "b", "k"))
    check_real("teachers", teachers)
    check_shape("teachers", teachers, (2, h, b, k))
    check_real("marginals", marginals)
    check_shape("marginals", marginals, (h, k))
    check_interval("beta", beta, 0.0, 1.0, open_low=True)
    agreement = xp.mean(xp.sum(xp.exp(teachers[0, ...] + teachers[1, ...]), axis=-1), axis=0)
    offset = xp.log(marginals)[:, None, :]
    there = beta * (students[0, ...] + teachers[1, ...]) - offset
    back = beta * (students[1, ...] + teachers[0, ...]) - offset
    return -0.5 * agreement * (_log_sum(there) + _log_sum(back))


def _log_sum(x: Array) -> Array:
    """``log sum exp`` over the last axis."""
    xp = compat.array_namespace(x)
    top = xp.max(x, axis=-1, keepdims=True)
    return xp.log(xp.sum(xp.exp(x - top), axis=-1)) + top[..., 0]
