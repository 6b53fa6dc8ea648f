r"""Restarts of starved clusters: each takes half of the largest cluster.

Problem: a classifier that learns its clusters by gradients can lose one. If the prediction
:math:`\sigma_{ik}` is near 0 for all samples, its gradient is too, being proportional to
:math:`\sigma_{ik}`: whatever the loss asks for, the cluster stays empty. k-means has the same
problem and a known cure: move the empty center to the largest cluster. Here

1. a cluster is starved if its mass is below ``least`` times the mean mass;
2. one after the other, the smallest first, each takes half of the mass of the largest.

=================  ===========  ==========  =====================================================
symbol             here         shape       meaning
=================  ===========  ==========  =====================================================
:math:`m_k`        ``mass``     (k,)        ``sum_i sigma_ik``, or a count
=================  ===========  ==========  =====================================================
"""

from __future__ import annotations

from typing import NamedTuple

from ..core.checks import check_finite, check_interval, check_real, check_shape
from ..core.errors import InvalidValueError
from ..core.types import Array

__all__ = ["Split", "split_largest"]


class Split(NamedTuple):
    """One cluster restarted from another.

    Attributes
    ----------
    cluster : int
        The starved one.
    source : int
        The largest cluster at that moment.
    """

    cluster: int
    source: int


def split_largest(mass: Array, *, least: float) -> tuple[Split, ...]:
    """List the clusters to restart, in order, each with the cluster that it splits.

    Parameters
    ----------
    mass : (k,) real array
        Mass of each cluster, at least 0, in any unit.
    least : float in [0, 0.5]
        Share of the mean mass below which a cluster is starved; at 0 none is. Up to 0.5, no split
        leaves a starved cluster behind.

    Returns
    -------
    tuple of Split
        To be applied in this order: a cluster may be the source of several splits.

    Raises
    ------
    InvalidValueError, InvalidTypeError
        For a negative mass, NaN, an infinity, or shapes that do not fit.

    Notes
    -----
    Reads the k values back: for the start of an epoch, not for a step. Cost O(k) per split. Ties go
    to the lowest index. Guarantee: the masses after all splits are at least ``least`` times their
    mean, which a split does not change.

    Examples
    --------
    >>> import numpy as np
    >>> split_largest(np.asarray([60.0, 0.0, 40.0]), least=0.1)
    (Split(cluster=1, source=0),)
    """
    check_real("mass", mass)
    (k,) = check_shape("mass", mass, ("k",))
    check_finite("mass", mass)
    check_interval("least", least, 0.0, 0.5)
    held = [float(mass[i]) for i in range(k)]
    if not held:
        return ()
    if min(held) < 0.0:
        msg = f"mass must be at least 0, got {min(held):g}. To fix this, pass sums of predictions"
        raise InvalidValueError(msg)
    fewest, splits = least * sum(held) / k, []
    while min(held) < fewest:
        cluster, source = held.index(min(held)), held.index(max(held))
        half = 0.5 * (held[cluster] + held[source])
        held[cluster] = held[source] = half
        splits.append(Split(cluster, source))
    return tuple(splits)
