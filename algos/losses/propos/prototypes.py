r"""Prototypes: the mean direction of each cluster within one batch, as ProPos trains on them.

Problem (ProPos section 3.1): between two clusterings of the whole data set, a batch stands for it.
Its features of cluster k have the mean direction

``mu_k = sum_i p(k | x_i) f(x_i) / || sum_i p(k | x_i) f(x_i) ||``                  ProPos Eq. 6, 7

on the unit sphere, with f the online network (Eq. 6) or the target one (Eq. 7). The fraction is 0/0
for a cluster that is empty or whose features cancel (claim P5). Such a cluster has no direction, so
it is *masked*: its row is 0, `valid` is false, and whoever uses the prototypes leaves it out.

=========================  ==============  =======  ==============================================
paper                      here            shape    meaning
=========================  ==============  =======  ==============================================
:math:`f(x_i)`             ``features``    (b, d)   any length: normalized here
:math:`p(k \mid x_i)`      ``weights``     (b, k)   posterior, or a one-hot row of the label
:math:`\mu_k, \mu'_k`      ``vectors``     (k, d)   unit rows; 0 where masked
\                          ``valid``       (k,)     whether the cluster has a direction
:math:`m`                  ``momentum``    ()       of the moving average, Eq. 11
=========================  ==============  =======  ==============================================

Sums of different batches, or of ranks, are added before the division: a cluster that is empty on
one rank and not on another then exists for all. (Judging it by the local labels, as released, makes
the loss depend on the number of ranks.) Everything is computed in float64, which a bfloat16
autocast leaves alone, and no value is read back, so that a training step does not wait.

Claims: docs/claims.md#P5.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import array_api_compat as compat

from ...core.checks import check_count, check_interval, check_real, check_same_place, check_shape
from ...core.directions import Directions, directions_of
from ...core.errors import InvalidTypeError
from ...core.precision import at_least_float32
from ...core.types import Array

__all__ = [
    "PrototypeSums",
    "Prototypes",
    "batch_prototypes",
    "moving_average",
    "normalize_sums",
    "prototype_sums",
    "update_prototypes",
    "weighted_sums",
]

MIN_RESULTANT = 2.0**-20
"""Mean resultant length below which features cancel: the rest is the rounding of float32, and a
gradient through the division would grow a million times. n features without any common direction
have 1 / sqrt(n) on average, far above it."""


class PrototypeSums(NamedTuple):
    """Weighted sums (..., k, d) of unit features and sums (..., k) of weights, float64.

    Both add up.
    """

    sums: Array
    mass: Array


class Prototypes(NamedTuple):
    """Unit prototypes (..., k, d), 0 where masked; and which clusters have one, (..., k) bool."""

    vectors: Array
    valid: Array


def weighted_sums(features: Array | Directions, weights: Array) -> PrototypeSums:
    """Numerators of Eq. 6 and 7 for posteriors: ``sum_i p(k | x_i) f(x_i) / ||f(x_i)||``.

    Parameters
    ----------
    features : (..., b, d) real array, or its Directions
        Finite, of any length; a row of zeros takes no part. Leading axes are batches, such as views
        of one batch of images.
    weights : (b, k) real array
        In [0, 1]; the same for all batches.

    Returns
    -------
    PrototypeSums

    Notes
    -----
    Cost O(b k d). Sums of several batches or ranks add up, see `normalize_sums`.
    Claims: docs/claims.md#P6, #P21.
    """
    xp = check_real("weights", weights)
    x = directions_of("features", features)
    check_shape("weights", weights, (x.vectors.shape[-2], "k"))
    check_same_place(features=x.vectors, weights=weights)
    share = xp.astype(weights, xp.float64, copy=False) * xp.astype(x.valid, xp.float64)[..., None]
    sums = xp.matmul(xp.matrix_transpose(share), x.vectors)
    return PrototypeSums(sums, xp.sum(share, axis=-2))


def prototype_sums(
    features: Array | Directions, labels: Array, *, n_clusters: int
) -> PrototypeSums:
    """Numerators of Eq. 6 and 7 for hard labels.

    Parameters
    ----------
    features : (..., b, d) real array, or its Directions
        As in `weighted_sums`.
    labels : (b,) integer array
        In [0, n_clusters). Any other label, such as -1 of an empty place of a queue, takes no part:
        nothing is read back to check.
    n_clusters : int >= 1

    Returns
    -------
    PrototypeSums

    Notes
    -----
    Claims: docs/claims.md#P5, #P28.

    Examples
    --------
    >>> import numpy as np
    >>> x, y = np.asarray([[2.0, 0.0], [0.0, 1.0], [5.0, 5.0]]), np.asarray([0, 0, -1])
    >>> prototype_sums(x, y, n_clusters=2).mass
    array([2., 0.])
    """
    x = directions_of("features", features)
    xp = check_real("features", x.vectors)
    check_count("n_clusters", n_clusters, 1)
    check_same_place(features=x.vectors, labels=labels)
    check_shape("labels", labels, (x.vectors.shape[-2],))
    if not xp.isdtype(labels.dtype, "integral"):
        msg = f"labels must have an integer dtype, got {labels.dtype}. To fix this, use int64"
        raise InvalidTypeError(msg)
    clusters = xp.arange(n_clusters, dtype=xp.int64, device=compat.device(labels))
    one_hot = xp.astype(labels, xp.int64, copy=False)[:, None] == clusters
    return weighted_sums(x, xp.astype(one_hot, xp.float64))


def normalize_sums(sums: PrototypeSums, *, dtype: Any = None) -> Prototypes:
    """Divide the sums by their length (Eq. 6, 7), and mask the clusters that have none.

    Parameters
    ----------
    sums : PrototypeSums
        Of one batch, or added over several: ``PrototypeSums(a.sums + b.sums, a.mass + b.mass)``.
    dtype : dtype, optional
        Of the prototypes; float64 without it.

    Returns
    -------
    Prototypes
        A cluster is masked if its mass is 0 or its mean resultant length ``||sum|| / mass`` is
        below `MIN_RESULTANT`. Its row has gradient 0.

    Notes
    -----
    Repairs claim P5. Cost O(k d).
    Claims: docs/claims.md#P5.
    """
    xp = check_real("sums", sums.sums)
    lead = tuple(sums.sums.shape[:-2])
    *_, k, _ = check_shape("sums", sums.sums, (*lead, "k", "d"))
    check_shape("mass", sums.mass, (*lead, k))
    check_same_place(sums=sums.sums, mass=sums.mass)
    mass = sums.mass[..., None]
    # Below it the gradient of the division overflows; a posterior that small is a zero.
    least = float(xp.finfo(xp.float32).smallest_normal) ** 0.5
    mean = sums.sums / xp.clip(mass, min=least)
    squares = xp.sum(mean * mean, axis=-1, keepdims=True)
    valid = (mass > least) & (squares >= MIN_RESULTANT**2)
    mean = xp.where(valid, mean, xp.zeros_like(mass))
    vectors = mean / xp.sqrt(xp.clip(squares, min=MIN_RESULTANT**2))
    kind = xp.float64 if dtype is None else dtype
    return Prototypes(xp.astype(vectors, kind, copy=False), valid[..., 0])


def batch_prototypes(features: Array, labels: Array, *, n_clusters: int) -> Prototypes:
    """Mean direction of each cluster in a batch, ``mu_k`` of Eq. 6 or ``mu'_k`` of Eq. 7.

    Parameters
    ----------
    features : (b, d) real array
        Of the online network with gradients (Eq. 6), or of the target one, detached (Eq. 7).
        Finite, of any length. With a queue: both concatenated.
    labels : (b,) integer array
        In [0, n_clusters); any other label takes no part.
    n_clusters : int >= 1

    Returns
    -------
    Prototypes
        In the dtype of `features`, at least float32.

    Notes
    -----
    Cost O(b k d). No value is read back. Source: ProPos Eq. 6, 7 and section 6.2; claims P5, P6.
    Claims: docs/claims.md#S1, #P5, #P6, #P19.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.asarray([[2.0, 0.0], [0.0, 1.0], [1.0, 0.0], [-3.0, 0.0]])
    >>> mu = batch_prototypes(x, np.asarray([0, 0, 2, 2]), n_clusters=3)
    >>> mu.vectors.round(3)
    array([[0.707, 0.707],
           [0.   , 0.   ],
           [0.   , 0.   ]])
    >>> mu.valid  # cluster 1 is empty, cluster 2 cancels
    array([ True, False, False])
    """
    sums = prototype_sums(features, labels, n_clusters=n_clusters)
    return normalize_sums(sums, dtype=at_least_float32(features).dtype)


def moving_average(average: Array, value: Array, *, momentum: float) -> Array:
    """Exponential moving average ``m average + (1 - m) value``: of parameters, centers, features.

    Parameters
    ----------
    average, value : real arrays of one shape, finite
    momentum : float in [0, 1]
        0.996 as published; 1 freezes the average, 0 replaces it, both exactly.

    Returns
    -------
    array
        In the dtype of `average`, at least float32.

    Notes
    -----
    A contraction: the distance to a constant value shrinks by m. Source: ProPos Eq. 11; claim P10.
    Claims: docs/claims.md#P10.

    Examples
    --------
    >>> import numpy as np
    >>> moving_average(np.asarray([0.0]), np.asarray([1.0]), momentum=0.75)
    array([0.25])
    """
    xp = check_real("average", average)
    check_shape("value", value, tuple(average.shape))
    check_same_place(average=average, value=value)
    m = check_interval("momentum", momentum, 0.0, 1.0)
    average = at_least_float32(average)
    return m * average + (1.0 - m) * xp.astype(value, average.dtype)


def update_prototypes(average: Prototypes, batch: Prototypes, *, momentum: float) -> Prototypes:
    """Move prototypes on the sphere towards those of a batch; who is not in it stays.

    Parameters
    ----------
    average, batch : Prototypes of one shape
    momentum : float in [0, 1]

    Returns
    -------
    Prototypes
        ``m average + (1 - m) batch``, normalized. A cluster that is masked in the batch keeps its
        average, one that is masked in the average starts at the batch, whatever the momentum, and
        one whose two directions cancel keeps its average. A momentum of 1 keeps it to the last bit.

    Notes
    -----
    Cost O(k d). Source: ProPos Eq. 11, on the sphere; claim P10.
    Claims: docs/claims.md#P10.

    Examples
    --------
    >>> import numpy as np
    >>> old = Prototypes(np.asarray([[1.0, 0.0], [0.0, 1.0]]), np.asarray([True, True]))
    >>> new = Prototypes(np.asarray([[0.0, 1.0], [0.0, 0.0]]), np.asarray([True, False]))
    >>> update_prototypes(old, new, momentum=0.5).vectors.round(3)
    array([[0.707, 0.707],
           [0.   , 1.   ]])
    """
    xp = check_real("average", average.vectors)
    check_shape("average.valid", average.valid, tuple(average.vectors.shape[:-1]))
    check_shape("batch.vectors", batch.vectors, tuple(average.vectors.shape))
    check_shape("batch.valid", batch.valid, tuple(average.valid.shape))
    check_same_place(average=average.valid, batch=batch.valid)
    mixed = moving_average(xp.astype(average.vectors, xp.float64), batch.vectors, momentum=momentum)
    both = average.valid & batch.valid & (momentum < 1.0)
    moved = normalize_sums(PrototypeSums(mixed, xp.astype(both, xp.float64)))
    dtype = at_least_float32(average.vectors).dtype
    kept = xp.where(average.valid[:, None], average.vectors, batch.vectors)
    vectors = xp.where(
        moved.valid[:, None], xp.astype(moved.vectors, dtype), xp.astype(kept, dtype)
    )
    return Prototypes(vectors, average.valid | batch.valid)
