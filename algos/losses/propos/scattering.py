r"""ProPos's two losses: prototypes scatter (PSL), and noisy features align (PSA).

*Prototype scattering* is a contrastive loss among the k prototypes of a batch, as seen by the
online network (mu) and by the target network (mu'). With ``s_kj = mu_k . mu_j / tau`` and
``t_kj = mu_k . mu'_j / tau``, the loss of cluster k is

``-t_kk + log( e^{a_k} + sum_{j != k} e^{b_kj} )``

and it exists in three forms that are not the same function (claim P3):

====================  ===============  ===============  ==========================================
function              :math:`a_k`      :math:`b_{kj}`   source
====================  ===============  ===============  ==========================================
`psl_same_view`       s_kk = 1 / tau   s_kj             Eq. 4 as printed
`psl_cross_view`      t_kk             t_kj             Eq. 28
`psl_mixed_view`      t_kk             s_kj             the released code, so the published numbers
`psl_released`        t_kk             s_kj             the same, with e^-10 for an empty cluster
====================  ===============  ===============  ==========================================

`prototypical_alignment` and `prototypical_uniformity` are the two terms of Eq. 5. Each is a mean
over the clusters that both networks have a prototype of; a masked cluster is left out of every sum.
("Zero out its logits", section 3.1, would add e^0 to each denominator, and the -10 of the released
code e^-10, no small number at tau <= 0.1, where legal logits begin at -10: `psl_released`.)

*Positive sampling alignment* (Eq. 9, 10): ``|| g(v) - f'(x+) ||^2`` with ``v = f(x) + sigma eps``
and both vectors of unit length. `perturbed` makes v, `positive_sampling_alignment` compares.

=========================  ==================  =======  ==========================================
paper                      here                shape    meaning
=========================  ==================  =======  ==========================================
:math:`\mu, \mu'`          online, target      (k, d)   `Prototypes`; detach the target
:math:`\tau`               ``temperature``     ()       0.5 as published
:math:`\sigma`             ``sigma``           ()       0.001 as published
:math:`\epsilon`           ``noise``           (b, d)   standard normal, `core.random`
:math:`g(v)`               ``predicted``       (b, d)   of any length
:math:`f'(x^+)`            ``target``          (b, d)   of any length; detach it
=========================  ==================  =======  ==========================================

Computed in float64, which a bfloat16 autocast leaves alone; returned in the dtype of the input, at
least float32. The symmetric loss of a step is the mean over both orders of the views.

Claims: docs/claims.md#P3.
"""

from __future__ import annotations

import math

import array_api_compat as compat

from ...core.checks import check_interval, check_real, check_same_place, check_shape
from ...core.directions import Directions, directions_of, unit_directions
from ...core.precision import at_least_float32
from ...core.types import Array, Namespace
from .prototypes import Prototypes

__all__ = [
    "perturbed",
    "positive_sampling_alignment",
    "prototypical_alignment",
    "prototypical_uniformity",
    "psl_cross_view",
    "psl_mixed_view",
    "psl_released",
    "psl_same_view",
]


RELEASED_EMPTY = -10.0
"""Logit of an empty cluster in ProPos's released code, after the division by tau."""


def psl_same_view(online: Prototypes, target: Prototypes, *, temperature: float) -> Array:
    """Prototype scattering loss as Eq. 4 is printed: the denominator sees the online view alone.

    Parameters
    ----------
    online, target : Prototypes (..., k, d)
        Unit rows and masks, such as those of `batch_prototypes`.
    temperature : float > 0

    Returns
    -------
    (...) array
        Mean over the clusters that are valid in both, in nats; 0 if there is none.

    Raises
    ------
    InvalidValueError
        For shapes that differ, or a temperature that is not positive.

    Notes
    -----
    With one valid cluster it is ``(1 - mu . mu') / tau``, where the other two forms are 0. Cost
    O(k^2 d). Source: ProPos Eq. 4; claims P3, P5.
    Claims: docs/claims.md#P3, #P5.

    Examples
    --------
    >>> import numpy as np
    >>> mu = Prototypes(np.eye(2), np.asarray([True, True]))
    >>> psl_same_view(mu, mu, temperature=0.5).round(4)  # log(1 + e^-2)
    np.float64(0.1269)
    """
    same, cross, eye, valid = _similarities(online, target)
    return _scattering(same, cross, eye, valid, online, temperature)


def psl_cross_view(online: Prototypes, target: Prototypes, *, temperature: float) -> Array:
    """Prototype scattering loss of Eq. 28: all of the denominator compares the two views.

    Parameters, result and errors are those of `psl_same_view`.

    Notes
    -----
    InfoNCE with prototypes for samples. Negatives push the online prototypes away from the targets,
    not from each other. Source: ProPos Eq. 28; claims P3, P5.
    Claims: docs/claims.md#P1, #P3, #P5.

    Examples
    --------
    >>> import numpy as np
    >>> mu = Prototypes(np.eye(2), np.asarray([True, True]))
    >>> psl_cross_view(mu, mu, temperature=0.5).round(4)
    np.float64(0.1269)
    """
    _, cross, eye, valid = _similarities(online, target)
    return _scattering(cross, cross, eye, valid, online, temperature)


def psl_mixed_view(online: Prototypes, target: Prototypes, *, temperature: float) -> Array:
    """Prototype scattering loss as released: positives across the views, negatives within one.

    Parameters, result and errors are those of `psl_same_view`.

    Notes
    -----
    The form behind the published numbers. Source: the authors' repository; claims P3, P5.
    Claims: docs/claims.md#P3, #P5, #P7.

    Examples
    --------
    >>> import numpy as np
    >>> mu = Prototypes(np.eye(2), np.asarray([True, True]))
    >>> psl_mixed_view(mu, mu, temperature=0.5).round(4)
    np.float64(0.1269)
    """
    same, cross, eye, valid = _similarities(online, target)
    xp = compat.array_namespace(same)
    return _scattering(xp.where(eye, cross, same), cross, eye, valid, online, temperature)


def psl_released(online: Prototypes, target: Prototypes, *, temperature: float) -> Array:
    """`psl_mixed_view` to the digit of the released code, where a cluster is empty.

    Parameters, result and errors are those of `psl_same_view`.

    Notes
    -----
    An empty cluster keeps its place in every denominator, with the logit -10. With 775 of 1,000
    clusters empty and tau = 0.5 that changes the loss by 2e-4 of its value. Source: the authors'
    repository, for one process; of several, each there judges by its own part of the batch.

    Examples
    --------
    >>> import numpy as np
    >>> mu = Prototypes(np.eye(2), np.asarray([True, False]))
    >>> psl_released(mu, mu, temperature=0.5).round(9)  # log(1 + e^-12); `psl_mixed_view` has 0
    np.float64(6.144e-06)
    """
    same, cross, eye, valid = _similarities(online, target)
    xp = compat.array_namespace(same)
    logits = xp.where(eye, cross, same)
    return _scattering(logits, cross, eye, valid, online, temperature, empty=RELEASED_EMPTY)


def prototypical_alignment(online: Prototypes, target: Prototypes, *, temperature: float) -> Array:
    """First term of Eq. 5, ``mean_k -mu_k . mu'_k / tau``, over the valid clusters.

    Parameters and result are those of `psl_same_view`; at least ``-1 / tau``.

    Notes
    -----
    Equal to a sum over pairs of samples of one cluster, Eq. 16 (claim P20). Source: ProPos Eq. 5.
    Claims: docs/claims.md#P20.
    """
    tau = check_interval("temperature", temperature, 0.0, math.inf, open_low=True)
    _, cross, eye, valid = _similarities(online, target)
    xp = compat.array_namespace(cross)
    own = xp.sum(xp.where(eye, cross, xp.zeros_like(cross)), axis=-1)
    return _mean_over_valid(-own / tau, valid, online)


def prototypical_uniformity(online: Prototypes, *, temperature: float) -> Array:
    """Second term of Eq. 5, ``mean_k log sum_{j != k} exp(mu_k . mu_j / tau)``.

    Parameters
    ----------
    online : Prototypes (..., k, d)
    temperature : float > 0

    Returns
    -------
    (...) array
        In nats; 0 with fewer than two valid clusters.

    Notes
    -----
    At least ``log(K - 1) - 1 / ((K - 1) tau)`` with K valid clusters, reached by the regular
    simplex, which exists for K <= d + 1 (claim P4). Source: ProPos Eq. 5.
    Claims: docs/claims.md#P4.

    Examples
    --------
    >>> import numpy as np
    >>> mu = Prototypes(np.asarray([[1.0, 0.0], [-1.0, 0.0]]), np.asarray([True, True]))
    >>> prototypical_uniformity(mu, temperature=0.5)
    np.float64(-2.0)
    """
    tau = check_interval("temperature", temperature, 0.0, math.inf, open_low=True)
    same, _, eye, valid = _similarities(online, online)
    xp = compat.array_namespace(same)
    pairs = valid[..., :, None] & valid[..., None, :] & ~eye
    largest, log_sum = _log_sum_exp(same, pairs, tau, xp)
    return _mean_over_valid(largest / tau + log_sum, xp.any(pairs, axis=-1), online)


def perturbed(features: Array, noise: Array, *, sigma: float, on_sphere: bool = True) -> Array:
    """Positive samples around each feature, ``v = f(x) + sigma eps`` (Eq. 9).

    Parameters
    ----------
    features : (b, d) real array
        Output of the projector, of any length.
    noise : (b, d) real array
        Standard normal, such as `normal_noise` of a key.
    sigma : float >= 0
    on_sphere : bool
        True: the features are normalized first, so that f maps to the sphere as the paper says and
        `sigma` is an angle of ``sigma sqrt(d)``. False: noise is added to them as they are, as
        released; the angle then is ``sigma sqrt(d) / ||f||`` and shrinks as the features grow.

    Returns
    -------
    (b, d) array
        In the dtype of `features`, at least float32; not normalized again.

    Notes
    -----
    "Guaranteed" to stay in its cluster (section 3.2) is no Gaussian sample: one at a distance m
    from a face crosses it with probability Phi(-m / sigma). Source: ProPos Eq. 8, 9; claims P8, P9.
    Claims: docs/claims.md#P8, #P9, #P25.

    Examples
    --------
    >>> import numpy as np
    >>> x, noise = np.asarray([[3.0, 4.0]]), np.asarray([[1.0, 0.0]])
    >>> perturbed(x, noise, sigma=0.1)
    array([[0.7, 0.8]])
    >>> perturbed(x, noise, sigma=0.1, on_sphere=False)
    array([[3.1, 4. ]])
    """
    xp = check_real("features", features)
    check_real("noise", noise)
    check_shape("noise", noise, tuple(features.shape))
    check_same_place(features=features, noise=noise)
    sigma = check_interval("sigma", sigma, 0.0, math.inf)
    dtype = at_least_float32(features).dtype
    base = unit_directions(features).vectors if on_sphere else features
    base, noise = (xp.astype(x, xp.float64, copy=False) for x in (base, noise))
    return xp.astype(base + sigma * noise, dtype, copy=False)


def positive_sampling_alignment(predicted: Array | Directions, target: Array | Directions) -> Array:
    """PSA, the mean of ``|| g(v) - f'(x+) ||^2`` over the batch, both normalized (Eq. 10).

    Parameters
    ----------
    predicted : (..., b, d) real array, or its Directions
        Of the predictor, at perturbed features.
    target : (..., b, d) real array, or its Directions
        Of the target network, other view, detached.

    Returns
    -------
    () array
        In [0, 4]. The released loss, ``mean -2 cos``, is this minus 2 (claim P8). A pair with a
        row of zeros has no angle: it counts as a right one, without gradient. 0 for no pairs.

    Notes
    -----
    By differences, since ``2 - 2 cos`` has no digits left where the vectors agree. Cost O(b d).
    Source: ProPos Eq. 3, 10; claims P2, P8.
    Claims: docs/claims.md#P2, #P8.

    Examples
    --------
    >>> import numpy as np
    >>> positive_sampling_alignment(np.asarray([[2.0, 0.0]]), np.asarray([[0.0, 1.0]]))
    np.float64(2.0)
    """
    p, t = directions_of("predicted", predicted), directions_of("target", target)
    xp = check_real("predicted", p.vectors)
    check_shape("target", t.vectors, tuple(p.vectors.shape))
    check_same_place(predicted=p.vectors, target=t.vectors)
    difference = p.vectors - t.vectors
    squares = xp.sum(difference * difference, axis=-1)
    squares = xp.where(p.valid & t.valid, squares, xp.full_like(squares, 2.0))
    rows = p.vectors if isinstance(predicted, Directions) else predicted
    mean = xp.sum(squares) / max(math.prod(squares.shape), 1)
    return xp.astype(mean, at_least_float32(rows).dtype, copy=False)


def _similarities(online: Prototypes, target: Prototypes) -> tuple[Array, Array, Array, Array]:
    """Cosines within the online view and across the views, the diagonal, and who is valid."""
    xp = check_real("online", online.vectors)
    check_real("target", target.vectors)
    lead = tuple(online.vectors.shape[:-2])
    *_, k, d = check_shape("online", online.vectors, (*lead, "k", "d"))
    check_shape("target", target.vectors, (*lead, k, d))
    for name, mask in (("online.valid", online.valid), ("target.valid", target.valid)):
        check_shape(name, mask, (*lead, k))
    check_same_place(online=online.vectors, target=target.vectors)
    check_same_place(online=online.vectors, online_valid=online.valid, target_valid=target.valid)
    mu, mu_target = (xp.astype(p.vectors, xp.float64, copy=False) for p in (online, target))
    clusters = xp.arange(k, dtype=xp.int64, device=compat.device(mu))
    eye = clusters[:, None] == clusters[None, :]
    same, cross = (xp.matmul(mu, xp.matrix_transpose(other)) for other in (mu, mu_target))
    return same, cross, eye, online.valid & target.valid


def _scattering(
    logits: Array,
    cross: Array,
    eye: Array,
    valid: Array,
    like: Prototypes,
    temperature: float,
    *,
    empty: float | None = None,
) -> Array:
    """``mean_k -t_kk + log sum_j exp(logits_kj)``, cosines divided by tau here.

    A cluster that is not valid has no term, or with `empty` that logit.
    """
    tau = check_interval("temperature", temperature, 0.0, math.inf, open_low=True)
    xp = compat.array_namespace(logits)
    largest, log_sum = _log_sum_exp(logits, valid[..., :, None] & valid[..., None, :], tau, xp)
    if empty is not None:
        number = xp.sum(xp.astype(~valid, xp.float64), axis=-1, keepdims=True)
        # log(e^l + n e^(empty - m)): l is at least 0 in a valid row, and the added term small.
        log_sum = log_sum + xp.log1p(number * xp.exp(empty - largest / tau - log_sum))
    own = xp.sum(xp.where(eye, cross, xp.zeros_like(cross)), axis=-1)
    return _mean_over_valid((largest - own) / tau + log_sum, valid, like)


def _log_sum_exp(cosines: Array, mask: Array, tau: float, xp: Namespace) -> tuple[Array, Array]:
    """Largest cosine m of a row and ``log sum exp((c - m) / tau)``, over the mask; 0, 0 if none.

    The masked entries are taken out before exp and after it, so that neither values nor gradients
    see them: no infinity is ever formed.
    """
    zero, any_in_row = xp.zeros_like(cosines), xp.any(mask, axis=-1)
    lowest = xp.full_like(cosines, xp.finfo(cosines.dtype).min)
    largest = xp.max(xp.where(mask, cosines, lowest), axis=-1)
    largest = xp.where(any_in_row, largest, xp.zeros_like(largest))
    shifted = xp.where(mask, (cosines - largest[..., None]) / tau, zero)
    total = xp.sum(xp.where(mask, xp.exp(shifted), zero), axis=-1)
    return largest, xp.log(xp.where(any_in_row, total, xp.ones_like(total)))


def _mean_over_valid(losses: Array, valid: Array, like: Prototypes) -> Array:
    xp = compat.array_namespace(losses)
    number = xp.sum(xp.astype(valid, xp.float64), axis=-1)
    total = xp.sum(xp.where(valid, losses, xp.zeros_like(losses)), axis=-1)
    mean = total / xp.clip(number, min=1.0)
    return xp.astype(mean, at_least_float32(like.vectors).dtype, copy=False)
