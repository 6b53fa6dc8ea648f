r"""Assignment with a reward for evenly filled clusters: SeCu's entropy variant.

Problem (SeCu, variant "entropy"; with the counts ``n_j`` of the labels of *all* samples):

maximize ``J(y) = sum_i s_{i, y_i} + alpha H(n / N)``,   ``H(q) = -sum_j q_j log q_j``.

Let ``g(m) = (m + 1) log(m + 1) - m log m``, the increase of ``m log m`` by one more label. Moving
sample i from cluster o to j changes J by exactly

``s_ij - s_io - (alpha / N) (g(n_j) - g(n_o - 1))``

so the best label of one sample, with all others fixed, is the choice under prices that rise as a
cluster empties,

``y_i = argmax_j s_ij - (alpha / N) g(n_j without i)``.

=====================  ====================  =======  ==========================================
paper                  here                  shape    meaning
=====================  ====================  =======  ==========================================
:math:`s_{i,j}`        ``scores``            (b, k)   similarity, to maximize
:math:`y_i^{t-1}`      ``previous``          (b,)     label of the sample so far, -1 for none
:math:`\alpha`         ``weight``            ()       in units of score
N                      ``n_samples``         ()       samples of one pass
n_j                    ``counts``            (k,)     labels of all samples, int64
\-                     ``prices``            (k,)     ``-(alpha / N) g(n_j)``, in units of score
=====================  ====================  =======  ==========================================

Two things differ from the publication unless you ask for its rule (`published_rule`):

* *First pass.* The released code charges ``alpha (f((n_j + 1) / (B + 1)) - f(n_j / (B + 1)))``
  with ``f(q) = q log q`` and B the samples seen so far. This equals
  ``alpha / (B + 1) (g(n_j) - log(B + 1))``, whose second term is the same for all clusters: the
  rule of later passes with B + 1 in place of N, but with the same alpha. The charge is N / (B + 1)
  times that of later passes, so the first samples are spread evenly whatever their scores. The
  very first batch sees empty counts and is greedy. Here all passes use alpha / N. (Over 50,000
  cone or mixture scores, in batches of 128, J is 1.1 and 2.8 percent lower after the first pass,
  and at most 1e-4 of its value after three.)
* *Batches.* All samples of a batch see the counts before it. Each move alone would raise J, but
  all together they need not: many samples move into the same small cluster. `batch_size` is 1 here.

The printed weights do not follow one rule: alpha / N is 0.12 on CIFAR-10 (6,000 for 50,000) and in
the second stage on STL-10 (600 for 5,000), but 0.252 in its first stage (26,460 for 105,000), which
is 2.1 times the rule (claim S9). No weight guarantees any size: a small weight changes nothing.

Claims: docs/claims.md#S9.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import array_api_compat as compat

from ..core.checks import (
    check_choice,
    check_count,
    check_finite,
    check_interval,
    check_labels,
    check_real,
    check_same_place,
    check_shape,
)
from ..core.errors import InvalidValueError
from ..core.types import Array
from ..online.certificates import objective

__all__ = [
    "PUBLISHED_STRENGTH",
    "EntropyAssignment",
    "EntropyRule",
    "assign_entropy",
    "entropy_objective",
    "entropy_prices",
    "entropy_step",
    "entropy_upper_bound",
    "published_rule",
]

ROWS = 2**16  # of scores held in float64 at a time

FIRST_PASS = ("exact", "published")

PUBLISHED_STRENGTH = 0.12
"""alpha / N of SeCu on CIFAR-10: 6,000 for 50,000 samples."""


@dataclass(frozen=True, slots=True)
class EntropyRule:
    """Weight of the entropy, batch size, and charge of the first pass.

    Parameters
    ----------
    weight : float >= 0
        alpha, in units of score; about 0.08 to 0.25 times `n_samples` for cosines.
    n_samples : int >= 1
        N, the samples of one pass.
    batch_size : int >= 1
        Number of samples labeled with the same counts.
    first_pass : {"exact", "published"}
        Charge of a sample without a label.
    """

    weight: float
    n_samples: int
    batch_size: int = 1
    first_pass: str = "exact"

    def __post_init__(self) -> None:
        check_interval("weight", self.weight, 0.0, 1e300)
        check_count("n_samples", self.n_samples, 1)
        check_count("batch_size", self.batch_size, 1)
        check_choice("first_pass", self.first_pass, FIRST_PASS)


class EntropyAssignment(NamedTuple):
    """Labels with their prices, counts and values.

    Attributes
    ----------
    labels : (n,) int64 array
    prices : (k,) float64 array
        `entropy_prices` of the counts.
    counts : (k,) int64 array
    objective : float
        J of the labels, including the entropy.
    upper_bound : float
        No labels have a larger J.
    moved : int
        Number of samples that changed label in the last pass. With batches of 1, 0 means that no
        single move can raise J.
    """

    labels: Array
    prices: Array
    counts: Array
    objective: float
    upper_bound: float
    moved: int


def published_rule(n_samples: int) -> EntropyRule:
    """Return SeCu's rule for CIFAR-10, scaled to n samples: alpha = 0.12 n, batches of 128.

    Notes
    -----
    Claims: docs/claims.md#S9.

    Examples
    --------
    >>> published_rule(50_000).weight
    6000.0
    """
    weight = PUBLISHED_STRENGTH * check_count("n_samples", n_samples, 1)
    return EntropyRule(weight, n_samples, batch_size=128, first_pass="published")


def entropy_step(
    scores: Array, previous: Array, counts: Array, rule: EntropyRule
) -> tuple[Array, Array]:
    """Label one mini-batch with the same counts for all samples, and update the counts.

    For use inside a training step, for any number of heads at once: no value is read back from the
    device.

    Parameters
    ----------
    scores : (..., b, k) real array
        Finite, or minus infinity on a padded cluster; computed in float64.
    previous : (..., b) integer array
        Labels of these samples so far, -1 for a sample without one. No sample occurs twice.
    counts : (..., k) int64 array
        Counts of all labels so far, those of the batch included.
    rule : EntropyRule
        Its `batch_size` is ignored.

    Returns
    -------
    labels : (..., b) int64 array
        Ties go to the lowest index.
    counts : (..., k) int64 array

    Notes
    -----
    Cost O(b k). For b = 1 the label is the best one with all others fixed. Source: SeCu's released
    code (the supplement only names the variant).

    Examples
    --------
    >>> import numpy as np
    >>> scores, counts = np.asarray([[0.5, 0.4]]), np.asarray([3, 0])
    >>> entropy_step(scores, np.asarray([0]), counts, EntropyRule(0.4, 3))
    (array([1]), array([2, 1]))
    """
    xp = check_real("scores", scores)
    if scores.ndim < 2:
        check_shape("scores", scores, ("b", "k"))
    *lead, b, k = scores.shape
    check_same_place(scores=scores, previous=previous, counts=counts)
    check_shape("previous", previous, (*lead, b))
    check_shape("counts", counts, (*lead, k))
    s = xp.astype(scores, xp.float64)
    clusters = xp.arange(k, dtype=xp.int64, device=compat.device(scores))
    old = xp.astype(previous, xp.int64)[..., None] == clusters
    strength = rule.weight / rule.n_samples
    # Leave the sample itself out.
    others = xp.astype(counts[..., None, :] - xp.astype(old, xp.int64), xp.float64)
    charge = strength * _gain(others)
    if rule.first_pass == "published":
        fresh = (previous < 0)[..., None]
        charge = xp.where(fresh, rule.weight * _published_gain(counts)[..., None, :], charge)
    labels = xp.astype(xp.argmax(s - charge, axis=-1), xp.int64)
    moves = xp.astype(labels[..., None] == clusters, xp.int64) - xp.astype(old, xp.int64)
    return labels, counts + xp.sum(moves, axis=-2)


def assign_entropy(
    scores: Array, rule: EntropyRule, *, n_passes: int = 5, previous: Array | None = None
) -> EntropyAssignment:
    """Find labels that trade score for even sizes, in passes over all samples in order.

    Parameters
    ----------
    scores : (n, k) real array
        Finite; n = ``rule.n_samples``.
    rule : EntropyRule
    n_passes : int >= 1
        A pass that changes nothing is the last.
    previous : (n,) integer array, optional
        Labels to start from, -1 for none.

    Returns
    -------
    EntropyAssignment

    Raises
    ------
    InvalidValueError, InvalidTypeError, DeviceMismatchError
        For scores that are not finite or not (n, k), labels outside [-1, k), or arrays of
        different libraries.

    Notes
    -----
    Guarantee: with batches of 1, J never falls from one sample to the next after the first pass;
    with larger batches it can. Sizes have no guarantee. The gap ``upper_bound - objective`` is
    proven.
    Cost: O(n k) per pass, one round of about ten operations per batch: use batches of about 100
    if n is large.

    Examples
    --------
    >>> import numpy as np
    >>> scores = np.asarray([[0.9, 0.1], [0.8, 0.3], [0.7, 0.5], [0.6, 0.5]])
    >>> assign_entropy(scores, EntropyRule(0.0, 4)).counts
    array([4, 0])
    >>> assign_entropy(scores, EntropyRule(2.0, 4)).counts
    array([2, 2])
    """
    xp = check_real("scores", scores)
    n, k = check_shape("scores", scores, (rule.n_samples, "k"))
    if k == 0:
        msg = "scores must have at least one column, got none. To fix this, pass at least one"
        raise InvalidValueError(msg)
    check_count("n_passes", n_passes, 1)
    check_same_place(scores=scores, previous=previous)
    check_finite("scores", scores)
    device = compat.device(scores)
    clusters = xp.arange(k, dtype=xp.int64, device=device)
    labels = xp.full((n,), -1, dtype=xp.int64, device=device)
    if previous is not None:
        check_shape("previous", previous, (n,))
        labels = xp.astype(previous, xp.int64)
        check_labels("previous + 1", labels + 1, n, k + 1)
    counts = xp.zeros((k,), dtype=xp.int64, device=device)
    for first in range(0, n, ROWS):
        part = labels[first : min(first + ROWS, n)]
        counts = counts + xp.sum(xp.astype(part[:, None] == clusters, xp.int64), axis=0)
    for _ in range(n_passes):
        parts, before = [], labels
        for first in range(0, n, rule.batch_size):
            batch = slice(first, min(first + rule.batch_size, n))
            new, counts = entropy_step(scores[batch, :], labels[batch], counts, rule)
            parts.append(new)
        labels = xp.concat(parts)
        moved = int(xp.sum(xp.astype(labels != before, xp.int64)))
        if moved == 0:
            break
    prices = entropy_prices(counts, rule)
    value = entropy_objective(scores, labels, counts, rule)
    bound = entropy_upper_bound(scores, prices, rule)
    return EntropyAssignment(labels, prices, counts, value, bound, moved)


def entropy_prices(counts: Array, rule: EntropyRule) -> Array:
    """Return the prices of a further sample, ``-(alpha / N) g(n_j)``; (k,), in units of score.

    Notes
    -----
    Claims: docs/claims.md#S9.

    Examples
    --------
    >>> import numpy as np
    >>> entropy_prices(np.asarray([1, 3]), EntropyRule(1.0, 1)).round(3)
    array([-1.386, -2.249])
    """
    xp = compat.array_namespace(counts)
    return -(rule.weight / rule.n_samples) * _gain(xp.astype(counts, xp.float64))


def entropy_objective(scores: Array, labels: Array, counts: Array, rule: EntropyRule) -> float:
    """Return J of labels, ``sum_i s_{i, y_i} + alpha H(n / N)``."""
    xp = compat.array_namespace(counts)
    q = xp.astype(counts, xp.float64) / rule.n_samples
    entropy = -float(xp.sum(q * xp.log(xp.where(q > 0, q, xp.ones_like(q)))))
    return objective(scores, labels) + rule.weight * entropy


def entropy_upper_bound(scores: Array, prices: Array, rule: EntropyRule) -> float:
    """Return an upper bound on J over all labels, from any prices.

    ``sum_i max_j (s_ij + pi_j) + alpha log sum_j exp(-N pi_j / alpha) >= max_y J(y)``.

    Parameters
    ----------
    scores : (n, k) real array, finite
    prices : (k,) float64 array
    rule : EntropyRule

    Notes
    -----
    Follows from ``sum_i s_{i,y_i} <= sum_i max_j (s_ij + pi_j) - N sum_j q_j pi_j`` and the largest
    value of ``alpha H(q) - N sum_j q_j pi_j`` over the simplex (weak duality, ours). Cost O(n k).
    """
    xp = check_real("scores", scores)
    n, k = check_shape("scores", scores, (rule.n_samples, "k"))
    check_same_place(scores=scores, prices=prices)
    check_shape("prices", prices, (k,))
    total = 0.0
    for first in range(0, n, ROWS):
        block = xp.astype(scores[first : min(first + ROWS, n), :], xp.float64) + prices
        total += float(xp.sum(xp.max(block, axis=1)))
    low = xp.min(prices)
    strength = rule.weight / n
    if strength == 0:  # the limit of the second term
        return total - n * float(low)
    scaled = xp.clip(low - prices, min=-800.0 * strength) / strength  # exp(-800) is 0
    return total - n * float(low) + rule.weight * math.log(float(xp.sum(xp.exp(scaled))))


def _gain(m: Array) -> Array:
    """Return ``(m + 1) log(m + 1) - m log m`` for m >= 0 without cancellation; 0 at m = 0."""
    xp = compat.array_namespace(m)
    positive = xp.where(m > 0, m, xp.ones_like(m))
    return xp.where(m > 0, xp.log1p(m) + m * xp.log1p(1.0 / positive), xp.zeros_like(m))


def _published_gain(counts: Array) -> Array:
    """Return ``g(n_j) / (B + 1)``: the released charge without the term common to all clusters."""
    xp = compat.array_namespace(counts)
    c = xp.astype(counts, xp.float64)
    return _gain(c) / (xp.sum(c, axis=-1, keepdims=True) + 1.0)
