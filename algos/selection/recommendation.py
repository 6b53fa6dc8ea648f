r"""Which k stands out, if one does, and which bounds cost little there; each with its reason.

Problem: every figure over k has a trend of its own. The objective rises with k, stability falls
with it (two halves agree on two clusters before they agree on twenty), and the silhouette of data
without clusters depends on k and the dimension. The figure that we compare is

``(silhouette - silhouette of the reference) x stability``

how much clearer the clusters are than those of one round cloud, as far as they come back on other
rows. A k *stands out* if both factors are large by themselves (`LEAST_EXCESS`, `LEAST_STABILITY`);
of those that do, the largest value names one, or the smallest k that is as good within the standard
errors of stability. Uniform noise in a square, which k-means cuts into the same four quarters each
time, has stability but no excess; a ring has some excess but no stability. How often this and other
rules are right is measured in `benchmarks/results/choice.md`. No rule sees a true class.

Bounds: the tightest ones whose price, the share of the free objective that they lose, is small.
"""

from __future__ import annotations

import math
from collections.abc import Sized
from typing import NamedTuple

from ..core.errors import InvalidValueError
from ._runs import Shares

__all__ = [
    "LEAST_EXCESS",
    "LEAST_STABILITY",
    "MOST_PRICE",
    "RecommendedBounds",
    "RecommendedK",
    "recommend_bounds",
    "recommend_k",
    "shares_text",
]

LEAST_EXCESS = 0.1
"""Silhouette above that of the reference: squares, rods and rings of noise reach 0.07."""

LEAST_STABILITY = 0.75
"""Adjusted Rand index of the labels of two halves."""

MOST_PRICE = 0.02
"""Share of the free objective that recommended bounds lose at most."""


class RecommendedK(NamedTuple):
    """The k that stands out, or None, and why, in one sentence; `best` is the best in any case."""

    n_clusters: int | None
    reason: str
    best: int


class RecommendedBounds(NamedTuple):
    """Bounds that cost little, or None, and why, in one sentence."""

    shares: Shares | None
    reason: str


def recommend_k(
    ks: list[int],
    silhouette: list[float],
    reference: list[float],
    stability: list[float],
    stability_error: list[float],
    *,
    agreeing: str = "labels from two halves of the sample",
) -> RecommendedK:
    """Name the k that stands out, or say why none does.

    Parameters
    ----------
    ks : list of int, rising
    silhouette, reference, stability, stability_error : lists of float
        For each k, without bounds: of the sample, of rows without clusters, of halves, and the
        standard error of the last.
    agreeing : str
        Whose agreement the stability is, for the reason.

    Returns
    -------
    RecommendedK
        Ties, also within the standard error, go to the smallest k.

    Raises
    ------
    InvalidValueError
        If there is no k, or a list has not one figure for each.

    Examples
    --------
    >>> recommend_k([2, 3], [0.5, 0.8], [0.4, 0.4], [0.9, 1.0], [0.0, 0.0]).n_clusters
    3
    >>> recommend_k([2, 3], [0.5, 0.52], [0.48, 0.46], [0.95, 0.9], [0.0, 0.0]).reason
    'no k stands out: at k = 3, the best here, the silhouette is 0.520, and not 0.1 above that of \
data without clusters, 0.460'
    """
    figures = {
        "silhouette": silhouette,
        "reference": reference,
        "stability": stability,
        "stability_error": stability_error,
    }
    _check_one_each("ks", ks, **figures)
    excess = [s - r for s, r in zip(silhouette, reference, strict=True)]
    both = list(zip(excess, stability, strict=True))
    merit = [max(e, 0.0) * max(a, 0.0) for e, a in both]
    fits = [e >= LEAST_EXCESS and a >= LEAST_STABILITY for e, a in both]
    top = max(range(len(ks)), key=lambda i: (fits[i], merit[i], stability[i], -ks[i]))
    error = [max(e, 0.0) * a for e, a in zip(excess, stability_error, strict=True)]
    near = (i for i in range(top) if merit[i] + error[i] >= merit[top] - error[top])
    best = next((i for i in near if fits[i]), top)
    k, agrees = ks[best], f"{stability[best]:.3f}"
    against = f"{silhouette[best]:.3f}, and that of data without clusters {reference[best]:.3f}"
    if not fits[best]:
        why = (
            f"the silhouette is {silhouette[best]:.3f}, and not {LEAST_EXCESS:g} above that of "
            f"data without clusters, {reference[best]:.3f}"
            if excess[best] < LEAST_EXCESS
            else f"{agreeing} agree by {agrees} (adjusted Rand index), and {LEAST_STABILITY:g} is "
            f"asked"
        )
        return RecommendedK(None, f"no k stands out: at k = {k}, the best here, {why}", k)
    reason = (
        f"k = {k} stands out: {agreeing} agree by {agrees} (adjusted Rand index), and the "
        f"silhouette is {against}"
    )
    if best != top:
        reason = f"{reason}; k = {ks[top]} is better only within the standard error"
    if len(ks) > 1 and best in (0, len(ks) - 1):
        side = "smaller" if best == 0 and k > 2 else "larger" if best else ""
        more = f"; as this is the end of the range, try {side} k too" if side else ""
        reason = f"{reason}{more}"
    return RecommendedK(k, reason, k)


def recommend_bounds(shares: list[Shares], price: list[float]) -> RecommendedBounds:
    """Name the tightest bounds that cost little at one k.

    Parameters
    ----------
    shares : list of pairs
        Smallest and largest size in units of n / k.
    price : list of float
        Share of the free objective that each loses.

    Raises
    ------
    InvalidValueError
        If there is not one price for each pair.

    Examples
    --------
    >>> recommend_bounds([(0.0, math.inf), (0.5, 2.0), (0.9, 1.1)], [0.0, 0.001, 0.08])
    RecommendedBounds(shares=(0.5, 2.0), reason='sizes of 0.5 to 2 times n/k lose 0.1 % of the \
objective, and all tighter ones of those tried more than 2 %')
    """
    if not shares and not price:
        return RecommendedBounds(None, "")
    _check_one_each("shares", shares, price=price)
    order = sorted(range(len(shares)), key=lambda i: (shares[i][1] - shares[i][0], -shares[i][0]))
    most = f"{100.0 * MOST_PRICE:g} %"
    fits = [i for i in order if price[i] <= MOST_PRICE]
    best = fits[0] if fits else min(order, key=lambda i: price[i])
    sizes, costs = shares_text(shares[best]), f"{100.0 * price[best]:.1f} % of the objective"
    if not fits:
        reason = f"no bounds are recommended: the cheapest, {sizes}, lose {costs}, more than {most}"
        return RecommendedBounds(None, reason)
    reason = f"sizes of {sizes} lose {costs}"
    if best != order[0]:
        reason = f"{reason}, and all tighter ones of those tried more than {most}"
    return RecommendedBounds(shares[best], reason)


def _check_one_each(name: str, listed: Sized, **figures: Sized) -> None:
    """Raise unless something is listed, and each list of figures has one for each of it."""
    if not len(listed):
        msg = f"{name} must not be empty. To fix this, give at least one"
        raise InvalidValueError(msg)
    for figure, values in figures.items():
        if len(values) != len(listed):
            msg = (
                f"{figure} must have one figure for each of the {len(listed)} {name}, got "
                f"{len(values)}. To fix this, give as many"
            )
            raise InvalidValueError(msg)


def shares_text(pair: Shares) -> str:
    """Return bounds as text, such as "0.5 to 2 times n/k"."""
    low, high = pair
    if math.isinf(high):
        return f"at least {low:g} times n/k" if low else "any size"
    return f"{low:g} to {high:g} times n/k"
