r"""Balancing by the sign alone: the bias rule of auxiliary-loss-free expert balancing.

Problem: label a stream of batches with even counts, without a loss term and without a step that
scales with the error. Each cluster has a bias, which is added to its scores and moves by a fixed
amount after each batch (Wang et al. 2024, Algorithm 1),

``y_i = argmax_j s_ij + b_j``,   ``b_j <- b_j + u sign(target_j - c_j)``.

It is `duals.update_duals` with the gradient replaced by its sign: the price of a cluster that is a
little too small rises as fast as that of an empty one. Hence the rule needs ``max_j b*_j / u``
batches to reach good prices, and then oscillates around them by u.

======================  ===============  =======  ================================================
paper                   here             shape    meaning
======================  ===============  =======  ================================================
:math:`s_{i,j}`         ``scores``       (n, k)   gate values, or any score to maximize
:math:`b_j`             ``bias``         (k,)     price, of either sign, in units of score
:math:`u`               ``step_size``    ()       change per batch, in units of score
:math:`\bar c_j, c_j`   ``counts``       (k,)     labels of one batch
======================  ===============  =======  ================================================

One fact about the prices needs no certificate: after T batches, each price is u times the number of
batches in which the cluster was too small minus those in which it was too large. This says nothing
about the size of the errors.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import array_api_compat as compat

from ..core.checks import (
    check_count,
    check_finite,
    check_interval,
    check_real,
    check_same_place,
    check_shape,
)
from ..core.errors import InvalidValueError
from ..core.types import Array

__all__ = ["SignAssignment", "SignRule", "assign_sign_rule", "update_bias"]


@dataclass(frozen=True, slots=True)
class SignRule:
    """Step and batches of the rule.

    Parameters
    ----------
    step_size : float > 0
        u, in units of score; 0.001 as published, for gate values of a sigmoid.
    batch_size : int >= 1
        Samples labeled with the same bias.
    """

    step_size: float = 1e-3
    batch_size: int = 1024

    def __post_init__(self) -> None:
        check_interval("step_size", self.step_size, 0.0, math.inf, open_low=True)
        check_count("batch_size", self.batch_size, 1)


class SignAssignment(NamedTuple):
    """Labels of the last pass, (n,) int64; their counts, (k,) int64; the bias after it."""

    labels: Array
    counts: Array
    bias: Array


def update_bias(
    bias: Array,
    counts: Array,
    n_samples: int,
    *,
    lower_share: Array,
    upper_share: Array,
    step_size: float,
) -> Array:
    """Take one step after a batch, ``b_j + u sign(target_j - c_j)``.

    Parameters
    ----------
    bias : (..., k) float64 array
    counts : (..., k) integer array
        Labels of the batch.
    n_samples : int
        Number of labels in the batch, m.
    lower_share, upper_share : (..., k) float64 arrays
        Counts between these shares move no bias; the published rule has both equal to the target
        share.
    step_size : float
        u.

    Returns
    -------
    (..., k) float64 array

    Notes
    -----
    No value is read back from the device. Source: Wang et al. (2024), Algorithm 1; two bounds are
    ours.

    Examples
    --------
    >>> import numpy as np
    >>> half = np.asarray([0.5, 0.5])
    >>> counts = np.asarray([4, 0])
    >>> update_bias(0 * half, counts, 4, lower_share=half, upper_share=half, step_size=0.1)
    array([-0.1,  0.1])
    """
    xp = compat.array_namespace(bias)
    c = xp.astype(counts, xp.float64)
    rounding = 1e-12 * n_samples  # 49 * (1 / 49) is below 1 in floating point
    short = xp.astype(c < n_samples * lower_share - rounding, xp.float64)
    long = xp.astype(c > n_samples * upper_share + rounding, xp.float64)
    return bias + step_size * (short - long)


def assign_sign_rule(
    scores: Array,
    rule: SignRule | None = None,
    *,
    shares: Array | None = None,
    upper_shares: Array | None = None,
    n_passes: int = 1,
    bias: Array | None = None,
) -> SignAssignment:
    """Label all samples in order, in batches, and update the bias by the sign rule after each.

    Parameters
    ----------
    scores : (n, k) real array
        Finite; computed in float64.
    rule : SignRule, optional
    shares : (k,) real array, optional
        Target shares, or smallest shares if `upper_shares` is given; 1 / k by default.
    upper_shares : (k,) real array, optional
        Largest shares, not below `shares`.
    n_passes : int >= 1
        The bias is kept from one pass to the next.
    bias : (k,) float64 array, optional
        Where to start; zeros by default.

    Returns
    -------
    SignAssignment

    Raises
    ------
    InvalidValueError, InvalidTypeError, DeviceMismatchError
        For scores that are not finite or not (n, k), or arrays of different libraries.

    Notes
    -----
    Guarantee: none on counts. Cost: O(n k) per pass.

    Examples
    --------
    >>> import numpy as np
    >>> scores = np.asarray([[0.3, 0.2]] * 8)
    >>> assign_sign_rule(scores, SignRule(0.03, 2)).labels
    array([0, 0, 0, 0, 1, 1, 0, 0])
    """
    xp = check_real("scores", scores)
    n, k = check_shape("scores", scores, ("n", "k"))
    if k == 0:
        msg = "scores must have at least one column, got none. To fix this, pass at least one"
        raise InvalidValueError(msg)
    check_count("n_passes", n_passes, 1)
    check_same_place(scores=scores, shares=shares, upper_shares=upper_shares, bias=bias)
    check_finite("scores", scores)
    rule = SignRule() if rule is None else rule
    device = compat.device(scores)
    lower = xp.full((k,), 1.0 / k, dtype=xp.float64, device=device) if shares is None else shares
    upper = lower if upper_shares is None else upper_shares
    for name, values in (("shares", lower), ("upper_shares", upper), ("bias", bias)):
        if values is not None:
            check_shape(name, values, (k,))
            check_finite(name, values)
    b = xp.zeros((k,), dtype=xp.float64, device=device) if bias is None else bias
    lower, upper, b = (xp.astype(v, xp.float64) for v in (lower, upper, b))
    clusters = xp.arange(k, dtype=xp.int64, device=device)
    none = xp.zeros((0,), dtype=xp.int64, device=device)
    for _ in range(n_passes):
        parts, total = [none], xp.zeros((k,), dtype=xp.int64, device=device)
        for first in range(0, n, rule.batch_size):
            batch = xp.astype(scores[first : min(first + rule.batch_size, n), :], xp.float64)
            labels = xp.astype(xp.argmax(batch + b, axis=1), xp.int64)
            counts = xp.sum(xp.astype(labels[:, None] == clusters, xp.int64), axis=0)
            b = update_bias(
                b,
                counts,
                batch.shape[0],
                lower_share=lower,
                upper_share=upper,
                step_size=rule.step_size,
            )
            parts.append(labels)
            total = total + counts
    return SignAssignment(xp.concat(parts), total, b)
