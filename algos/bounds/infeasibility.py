"""What is said where no labels satisfy the bounds: each message, and the proof that it carries.

A message names the clusters, by how much the bounds miss, and what to do. Where every pair is
allowed, sums decide (`check_sums`); where some are forbidden, a vector of multipliers is the proof
(`farkas`), and `explain` puts it into one sentence.
"""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

from ..core.errors import InfeasibleBoundsError, InvalidValueError
from .farkas import FarkasVector

__all__ = ["check_ratios", "check_sums", "explain", "infeasible"]

ROUNDED = Fraction(1, 2**40)
"""Relative error that k floats which are meant to add up to a number may have."""


def check_ratios(
    ratios: tuple[list[Fraction], list[Fraction]], counts: tuple[list[int], list[int]], n: int
) -> None:
    """Raise unless sizes of any real numbers fit between ratios, in units of the mean size n / k.

    Rounded outward, ratios that no sizes have could allow some: 1.2 of a mean size of 4 is 4.

    Parameters
    ----------
    ratios : pair of lists of Fraction
        Lower and upper bound for each of k clusters.
    counts : pair of lists of int
        The same in whole samples: where these exclude each other as well, the error has a proof.
    n : int
        Number of samples.

    Raises
    ------
    InfeasibleBoundsError
        With the clusters, and by how many samples they miss.

    Examples
    --------
    >>> check_ratios(([Fraction(950)], [Fraction(1)]), ([9500], [10]), 10)
    Traceback (most recent call last):
        ...
    dualclust.algos.core.errors.InfeasibleBoundsError: lower bound 950 exceeds upper bound 1 for \
cluster 0, in units of the mean size n / k = 10 samples. To fix this, widen the bounds, or give \
numbers of samples as min_count and max_count
    """
    lower, upper = ratios
    k = len(lower)
    mean = f"in units of the mean size n / k = {n / k:g} samples"
    crossed = [i for i in range(k) if lower[i] > upper[i]]
    if crossed:
        i = crossed[0]
        msg = (
            f"lower bound {float(lower[i]):g} exceeds upper bound {float(upper[i]):g} for cluster "
            f"{i}, {mean}. To fix this, widen the bounds, or give numbers of samples as min_count "
            f"and max_count"
        )
        raise _with_proof(msg, tuple(crossed), (lower[i] - upper[i]) * n / k, counts, n)
    for name, side, sign, rule, other in (
        ("lower", lower, 1, "at most", "min_count"),
        ("upper", upper, -1, "at least", "max_count"),
    ):
        total = sum(value * times for value, times in Counter(side).items())
        beyond = sign * (total - k)
        if beyond > k * ROUNDED:
            msg = (
                f"{name} must be {rule} 1 on average over the clusters, {mean}, got "
                f"{float(total / k):g}. To fix this, use a share of {rule} 1, or give a "
                f"number of samples as {other}"
            )
            raise _with_proof(msg, tuple(range(k)), beyond * n / k, counts, n)


def _with_proof(
    msg: str,
    clusters: tuple[int, ...],
    beyond: Fraction | float,
    counts: tuple[list[int], list[int]],
    n: int,
) -> InfeasibleBoundsError:
    """Return an error with the proof of the counts, if they contradict each other as well."""
    try:
        check_sums(*counts, n, "")
    except InfeasibleBoundsError as error:
        return InfeasibleBoundsError(
            msg, clusters=error.clusters, excess=error.excess, vector=error.vector
        )
    return InfeasibleBoundsError(msg, clusters=clusters, excess=math.ceil(beyond))


def check_sums(lower: list[int], upper: list[int], n: int, hint: str) -> None:
    """Raise unless counts of n samples fit between the bounds where every pair is allowed.

    Parameters
    ----------
    lower, upper : list of int
        A bound for each cluster.
    n : int
        Number of samples.
    hint : str
        What else would fix it, as the end of the message.

    Raises
    ------
    InvalidValueError
        If a lower bound is negative.
    InfeasibleBoundsError
        If a lower bound exceeds its upper one, or the sum of a side does not fit.

    Examples
    --------
    >>> check_sums([3, 3], [4, 4], 5, "")
    Traceback (most recent call last):
        ...
    dualclust.algos.core.errors.InfeasibleBoundsError: lower bounds add up to 6 samples, \
1 more than n_samples=5. To fix this, lower them
    """
    negative = [i for i, v in enumerate(lower) if v < 0]
    if negative:
        i = negative[0]
        msg = (
            f"lower must be at least 0, got {lower[i]} for cluster {i}. To fix this, pass 0 or more"
        )
        raise InvalidValueError(msg)
    crossed = [i for i, (lo, hi) in enumerate(zip(lower, upper, strict=True)) if lo > hi]
    if crossed:
        i = crossed[0]
        msg = (
            f"lower bound {lower[i]} exceeds upper bound {upper[i]} for cluster {i}, in samples. "
            f"To fix this, widen the bounds{hint}"
        )
        one, gap = tuple(int(j == i) for j in range(len(lower))), lower[i] - upper[i]
        vector = FarkasVector(one, one, required=gap, available=0)
        raise InfeasibleBoundsError(msg, clusters=tuple(crossed), excess=gap, vector=vector)
    total, none = sum(lower), (0,) * len(lower)
    if total > n:
        msg = (
            f"lower bounds add up to {total} samples, {total - n} more than n_samples={n}. "
            f"To fix this, lower them{hint}"
        )
        clusters = tuple(i for i, v in enumerate(lower) if v > 0)
        vector = FarkasVector(tuple(int(v > 0) for v in lower), none, required=total, available=n)
        raise InfeasibleBoundsError(msg, clusters=clusters, excess=total - n, vector=vector)
    total = sum(upper)
    if total < n:
        msg = (
            f"upper bounds add up to {total} samples, {n - total} fewer than n_samples={n}. "
            f"To fix this, raise them{hint}"
        )
        clusters = tuple(range(len(upper)))
        vector = FarkasVector(none, (1,) * len(upper), required=-total, available=-n)
        raise InfeasibleBoundsError(msg, clusters=clusters, excess=n - total, vector=vector)


def infeasible(vector: FarkasVector) -> InfeasibleBoundsError:
    """Return the error that carries a proof and states it in one sentence."""
    fix = "widen the bounds or allow more pairs" if vector.sample is None else "allow it a pair"
    msg = f"no labels are inside the bounds: {explain(vector)}. To fix this, {fix}"
    return InfeasibleBoundsError(msg, clusters=vector.clusters, excess=vector.excess, vector=vector)


def explain(vector: FarkasVector) -> str:
    """Explain in one sentence why no assignment exists, and name the clusters.

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
    """Write a list of clusters in English, cut after ten."""
    words = [str(k) for k in clusters[:10]]
    if len(clusters) > 10:
        words.append(f"{len(clusters) - 10} more")
    if len(words) == 1:
        return f"cluster {words[0]}"
    return f"clusters {', '.join(words[:-1])} and {words[-1]}"
