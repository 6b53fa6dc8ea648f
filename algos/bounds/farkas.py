r"""Proofs that no assignment exists, and a check of them in whole numbers.

Problem: samples i with integer weights ``w_i`` may join the clusters ``A_i``; cluster k takes a
total weight between ``l_k`` and ``u_k``. Whether ``x_ik >= 0`` with ``sum_{k in A_i} x_ik = w_i``
and ``l_k <= sum_i x_ik <= u_k`` exist has, by Farkas' lemma, a short proof either way. A proof that
they do not is a pair of multipliers ``p, q >= 0``, one of each bound, such that

``sum_i w_i max_{k in A_i} (p_k - q_k)  <  sum_k p_k l_k - sum_k q_k u_k``.

Any x inside the bounds has ``sum_ik (p_k - q_k) x_ik`` at least the right side and at most the
left, hence there is none. (It is the dual value of `certificates`, with scores of 0 and prices
p - q, below 0.) A sample without any cluster has a maximum of minus infinity, and is a proof alone.

=====================  ====================  ======  ============================================
paper                  here                  shape   meaning
=====================  ====================  ======  ============================================
p                      ``vector.lower``      (k,)    multipliers of the lower bounds, int >= 0
q                      ``vector.upper``      (k,)    multipliers of the upper bounds, int >= 0
right side             ``vector.required``   ()      what the bounds add up to
left side              ``vector.available``  ()      what the samples add up to at most
=====================  ====================  ======  ============================================

Three kinds are enough: one cluster with ``l_k > u_k``; clusters whose lower bounds exceed the
samples that may join any of them (p = 1 on them); samples that may join nothing outside clusters
whose upper bounds are too small for them (q = 1 on those). The last two are Hall's condition from
either side, and `feasibility` finds one of them whenever there is no assignment.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

__all__ = ["FarkasVector", "explain", "verify_infeasibility"]


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
        """Clusters with a multiplier other than 0."""
        pairs = zip(self.lower, self.upper, strict=True)
        return tuple(k for k, (p, q) in enumerate(pairs) if p or q)

    @property
    def excess(self) -> int:
        """By how much the inequality fails, in samples (weight); that of one sample at least."""
        return 1 if self.available is None else self.required - self.available


def verify_infeasibility(
    lower: Sequence[int],
    upper: Sequence[int],
    samples: Any,
    vector: FarkasVector,
    *,
    weights: Sequence[int] | None = None,
) -> bool:
    """Whether a vector proves that no assignment satisfies the bounds, however it was found.

    Parameters
    ----------
    lower, upper : k ints each
        The bounds, as sequences or one-dimensional integer arrays.
    samples : int, or (n, k) nested sequence or array of booleans
        Number of samples, each of which may join every cluster; or, per sample, which it may join.
    vector : FarkasVector
    weights : n ints >= 0, optional
        1 each by default. The proof also holds where no sample may be split.

    Returns
    -------
    bool
        False for a vector with a negative or missing multiplier, with sums that are not those of
        the bounds and samples, or without a contradiction. Never an error for a wrong vector.

    Notes
    -----
    In Python integers: no rounding, no overflow. Cost O(n k).

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
    each = None if weights is None else list(_ints(weights))
    available: int | None = 0
    for i, row in enumerate(_rows(samples)):
        weight = 1 if each is None else each[i]
        best = max((v for v, ok in zip(prices, row, strict=True) if ok), default=None)
        if best is None and weight > 0:
            if vector.sample == i and vector.available is None:
                return True
            available = None  # minus infinity, as yet without the sample that shows it
        elif available is not None and best is not None:
            available += weight * best
    if vector.sample is not None or available is None or vector.available != available:
        return False
    return available < required


def explain(vector: FarkasVector) -> str:
    """One sentence on why there is no assignment, naming the clusters.

    Examples
    --------
    >>> explain(FarkasVector((1, 0, 1), (0, 0, 0), 7, 5))
    'clusters 0 and 2 need at least 7 samples together, but only 5 may join any of them'
    >>> explain(FarkasVector((0, 0), (0, 1), -2, -4))
    '4 samples may join only cluster 1, which takes at most 2'
    """
    if vector.sample is not None:
        return f"sample {vector.sample} may join no cluster"
    names, several = _names(vector.clusters), len(vector.clusters) > 1
    available = vector.available or 0
    multipliers = {*vector.lower, *vector.upper} - {0}
    if multipliers == {1} and not any(vector.upper):
        together, them = (" together", "any of them") if several else ("", "it")
        verb = "need" if several else "needs"
        return (
            f"{names} {verb} at least {vector.required} samples{together}, "
            f"but only {available} may join {them}"
        )
    if multipliers == {1} and not any(vector.lower):
        verb, together = ("take", " together") if several else ("takes", "")
        return (
            f"{-available} samples may join only {names}, "
            f"which {verb} at most {-vector.required}{together}"
        )
    if vector.lower == vector.upper and not several:
        return f"{names} needs at least {vector.excess} samples more than it takes at most"
    return f"the bounds of {names} contradict each other by {vector.excess} samples"


def _names(clusters: tuple[int, ...]) -> str:
    """English for a list of clusters, cut after ten."""
    words = [str(k) for k in clusters[:10]]
    if len(clusters) > 10:
        words.append(f"{len(clusters) - 10} more")
    if len(words) == 1:
        return f"cluster {words[0]}"
    return f"clusters {', '.join(words[:-1])} and {words[-1]}"


def _ints(values: Any) -> Iterator[int]:
    """Entries as Python integers, exactly."""
    listed = values.tolist() if hasattr(values, "tolist") else values
    if hasattr(listed, "shape"):  # an array that has no tolist
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
