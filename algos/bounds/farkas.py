r"""Proofs that no assignment exists, and a check of them in whole numbers.

Problem: samples i with integer weights ``w_i`` may join the clusters ``A_i``; cluster k takes a
total weight between ``l_k`` and ``u_k``. Do ``x_ik >= 0`` with ``sum_{k in A_i} x_ik = w_i`` and
``l_k <= sum_i x_ik <= u_k`` exist? By Farkas' lemma, either answer has a short proof. A proof that
no such x exists is a vector of multipliers ``p, q >= 0``, one for each bound, such that

``sum_i w_i max_{k in A_i} (p_k - q_k)  <  sum_k p_k l_k - sum_k q_k u_k``.

For any x inside the bounds, ``sum_ik (p_k - q_k) x_ik`` is at least the right side and at most the
left: a contradiction. (The left side minus the right is the dual value of `certificates` with
scores of 0 and prices p - q; it is below 0.) A sample without any cluster has a maximum of minus
infinity, and is a proof by itself.

=====================  ====================  ======  ============================================
paper                  here                  shape   meaning
=====================  ====================  ======  ============================================
p                      ``vector.lower``      (k,)    multipliers of the lower bounds, int >= 0
q                      ``vector.upper``      (k,)    multipliers of the upper bounds, int >= 0
right side             ``vector.required``   ()      what the bounds add up to
left side              ``vector.available``  ()      what the samples add up to at most
=====================  ====================  ======  ============================================

Three kinds of proof are enough: one cluster with ``l_k > u_k``; clusters whose lower bounds exceed
the samples that may join any of them (p = 1 on these clusters); samples that may join only clusters
whose upper bounds are too small for them (q = 1 on these clusters). The last two are Hall's
condition from either side; `feasibility` finds one of the three whenever no assignment exists.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from ..core.errors import InvalidValueError

__all__ = ["FarkasVector", "verify_infeasibility"]


class FarkasVector(NamedTuple):
    """Multipliers of the bounds that contradict each other.

    Attributes
    ----------
    lower, upper : tuple of k ints >= 0
    required : int
        ``sum_k p_k l_k - sum_k q_k u_k``.
    available : int or None
        ``sum_i w_i max_{k in A_i} (p_k - q_k)``; None where `sample` has no cluster.
    sample : int or None
        A sample that may join no cluster.
    """

    lower: tuple[int, ...]
    upper: tuple[int, ...]
    required: int
    available: int | None
    sample: int | None = None

    @property
    def clusters(self) -> tuple[int, ...]:
        """Return the clusters with a nonzero multiplier."""
        pairs = zip(self.lower, self.upper, strict=True)
        return tuple(k for k, (p, q) in enumerate(pairs) if p or q)

    @property
    def excess(self) -> int:
        """Return by how much the inequality fails, in samples (or weight): at least 1."""
        return 1 if self.available is None else self.required - self.available


def verify_infeasibility(
    lower: Sequence[int],
    upper: Sequence[int],
    samples: Any,
    vector: FarkasVector,
    *,
    weights: Sequence[int] | None = None,
) -> bool:
    """Tell whether a vector, from any source, proves that no assignment satisfies the bounds.

    Parameters
    ----------
    lower, upper : k ints each
        The bounds, as sequences or one-dimensional integer arrays.
    samples : int, or (n, k) nested sequence or array of booleans
        Number of samples that may each join every cluster; or the clusters each sample may join.
    vector : FarkasVector
    weights : n ints >= 0, optional
        1 each by default. The proof also holds where no sample may be split.

    Returns
    -------
    bool
        False for a vector with a negative or missing multiplier, with sums that differ from those
        of the bounds and samples, or without a contradiction. A wrong vector never raises.

    Raises
    ------
    InvalidValueError
        If the bounds, the samples and their weights are not about the same clusters and samples.

    Notes
    -----
    Computed in Python integers: no rounding, no overflow. Cost O(n k).

    Examples
    --------
    Clusters 0 and 2 need seven of five samples.

    >>> vector = FarkasVector(lower=(1, 0, 1), upper=(0, 0, 0), required=7, available=5)
    >>> verify_infeasibility([3, 0, 4], [9, 9, 9], 5, vector)
    True
    >>> verify_infeasibility([3, 0, 1], [9, 9, 9], 5, vector)
    False
    """
    low, high = list(_ints(lower)), list(_ints(upper))
    _check_as_many("upper", len(high), len(low), "cluster of lower")
    p, q = vector.lower, vector.upper
    if not len(p) == len(q) == len(low) == len(high) > 0:
        return False
    if not all(type(m) is int and m >= 0 for m in (*p, *q)):
        return False
    required = sum(m * b for m, b in zip(p, low, strict=True))
    required -= sum(m * b for m, b in zip(q, high, strict=True))
    if required != vector.required:
        return False
    prices = [a - b for a, b in zip(p, q, strict=True)]
    if isinstance(samples, int):
        total = samples if weights is None else sum(_ints(weights))
        return vector.available == total * max(prices) < required and vector.sample is None
    rows = list(_rows(samples))
    each = [1] * len(rows) if weights is None else list(_ints(weights))
    _check_as_many("weights", len(each), len(rows), "row of samples")
    available: int | None = 0
    for i, (row, weight) in enumerate(zip(rows, each, strict=True)):
        _check_as_many(f"samples[{i}]", len(row), len(low), "cluster of lower")
        best = max((v for v, ok in zip(prices, row, strict=True) if ok), default=None)
        if best is None and weight > 0:
            if vector.sample == i and vector.available is None:
                return True
            available = None  # minus infinity, but `vector` does not name this sample
        elif available is not None and best is not None:
            available += weight * best
    if vector.sample is not None or available is None or vector.available != available:
        return False
    return available < required


def _check_as_many(name: str, found: int, wanted: int, of: str) -> None:
    """Raise unless there is an entry for each of what a list is about."""
    if found != wanted:
        msg = (
            f"{name} must have an entry for each {of}, {wanted}, got {found}. "
            f"To fix this, give as many"
        )
        raise InvalidValueError(msg)


def _ints(values: Any) -> Iterator[int]:
    """Return entries as Python integers, exactly."""
    listed = values.tolist() if hasattr(values, "tolist") else values
    if hasattr(listed, "shape"):  # an array without tolist
        listed = [listed[i] for i in range(listed.shape[0])]
    return (int(v) for v in listed)


def _rows(allowed: Any) -> Iterable[list[bool]]:
    if hasattr(allowed, "shape"):
        n, k = allowed.shape
        for i in range(n):
            row = allowed[i, :]
            yield row.tolist() if hasattr(row, "tolist") else [bool(row[j]) for j in range(k)]
    else:
        yield from allowed
