"""What `choose_k` returns: figures of all clusterings as arrays, prices, and a recommendation."""

from __future__ import annotations

import math
from typing import NamedTuple

import array_api_compat as compat

from ..core.types import Array
from ._runs import Run, Shares
from .recommendation import recommend_bounds, recommend_k
from .survey import Survey

__all__ = ["ChoiceOfK", "Parts", "prices_lost", "result_of", "standard_error"]


class ChoiceOfK(NamedTuple):
    """Figures over several k and bounds; arrays on the library and device of the features.

    Of the sample, unless the name says ``all_``. The column 0 of each (a, b) array is without
    bounds.

    Attributes
    ----------
    ks : (a,) int64 array
    shares : (b, 2) float64 array
        Smallest and largest size in units of n / k; 0 and infinity in row 0.
    objective : (a, b) float64 array
        Mean score of a row: ``x . c``, or half the squared distance to the sample's mean minus that
        to the center.
    gap : (a, b) float64 array
        Proven relative gap of the labels for their centers; 0 without bounds.
    silhouette : (a, b) float64 array
        Mean simplified silhouette (`survey`).
    reference : (a,) float64 array
        The same for rows without clusters (`reference_rows`).
    stability : (a, b) float64 array
        Mean adjusted Rand index of labels from two halves.
    stability_error : (a, b) float64 array
        Its standard error over the splits.
    price : (a, b) float64 array
        Share of the free objective that the bounds lose, at least 0.
    price_proven : (a, b) float64 array
        Share that any labels inside the bounds lose for these centers; at most `price`.
    smallest, largest : (a, b) int64 arrays
        Sizes.
    all_objective, all_silhouette : (a, b) float64 arrays
        As above, of all rows, labeled by the sample's centers and prices.
    all_price_proven : (a, b) float64 array
        As above, of all rows, for bounds on all rows.
    n_samples, n_drawn : int
        All rows, and those of the sample.
    recommended : int or None
        The k that stands out, if one does.
    reason : str
        One sentence.
    recommended_shares : pair of floats, or None
        Bounds for it, or for the best k if none stands out.
    shares_reason : str
        One sentence; empty if no bounds were asked about.
    """

    ks: Array
    shares: Array
    objective: Array
    gap: Array
    silhouette: Array
    reference: Array
    stability: Array
    stability_error: Array
    price: Array
    price_proven: Array
    smallest: Array
    largest: Array
    all_objective: Array
    all_silhouette: Array
    all_price_proven: Array
    n_samples: int
    n_drawn: int
    recommended: int | None
    reason: str
    recommended_shares: Shares | None
    shares_reason: str


class Parts(NamedTuple):
    """What was computed for each k and bounds."""

    ks: list[int]
    pairs: tuple[Shares, ...]
    runs: list[list[Run]]
    agreements: list[list[list[float]]]
    own: list[list[Survey]]
    of_all: list[list[Survey]]
    reference: list[Survey]


def result_of(parts: Parts, like: Array, unit: float, n: int) -> ChoiceOfK:
    """Put the figures into arrays and recommend."""
    xp, device = compat.array_namespace(like), compat.device(like)
    whole = n == like.shape[0]

    def floats(values: list[list[float]] | list[float]) -> Array:
        return xp.asarray(values, dtype=xp.float64, device=device)

    def ints(values: list[list[int]] | list[int]) -> Array:
        return xp.asarray(values, dtype=xp.int64, device=device)

    upper = [
        [s.objective + run.lost for s, run in zip(of_k, runs, strict=True)]
        for of_k, runs in zip(parts.own, parts.runs, strict=True)
    ]
    price, proven = prices_lost(parts.own, upper)
    above = upper if whole else [[s.upper_bound for s in of_k] for of_k in parts.of_all]
    all_proven = prices_lost(parts.of_all, above)[1]
    stable = [[math.fsum(v) / len(v) for v in of_k] for of_k in parts.agreements]
    silhouette = [[s.silhouette for s in of_k] for of_k in parts.own]
    reference = [s.silhouette for s in parts.reference]
    errors = [[standard_error(v) for v in of_k] for of_k in parts.agreements]
    free = ([row[0] for row in rows] for rows in (silhouette, stable, errors))
    chosen = recommend_k(parts.ks, next(free), reference, *free)
    at = parts.ks.index(chosen.best)
    bounds = recommend_bounds(list(parts.pairs[1:]), price[at][1:])
    m = int(like.shape[0])
    return ChoiceOfK(
        ks=ints(parts.ks),
        shares=floats([list(pair) for pair in parts.pairs]),
        objective=floats([[s.objective * unit / m for s in of_k] for of_k in parts.own]),
        gap=floats([[run.gap for run in of_k] for of_k in parts.runs]),
        silhouette=floats(silhouette),
        reference=floats(reference),
        stability=floats(stable),
        stability_error=floats(errors),
        price=floats(price),
        price_proven=floats(proven),
        smallest=ints([[int(xp.min(s.counts)) for s in of_k] for of_k in parts.own]),
        largest=ints([[int(xp.max(s.counts)) for s in of_k] for of_k in parts.own]),
        all_objective=floats([[s.objective * unit / n for s in of_k] for of_k in parts.of_all]),
        all_silhouette=floats([[s.silhouette for s in of_k] for of_k in parts.of_all]),
        all_price_proven=floats(all_proven),
        n_samples=n,
        n_drawn=m,
        recommended=chosen.n_clusters,
        reason=chosen.reason,
        recommended_shares=bounds.shares,
        shares_reason=bounds.reason,
    )


def prices_lost(
    found: list[list[Survey]], upper: list[list[float]]
) -> tuple[list[list[float]], list[list[float]]]:
    """Return the shares of the free objective that are lost, and those proven to be lost."""
    price, proven = [], []
    for of_k, above in zip(found, upper, strict=True):
        free = max(max(s.free, s.objective) for s in of_k)
        by = free if free > 0.0 else math.inf  # all rows are equal: nothing can be lost
        lost = [(free - s.objective) / by for s in of_k[1:]]
        certain = [max(0.0, (free - u) / by) for u in above[1:]]
        price.append([0.0, *lost])
        # By rounding alone an upper bound can lie below the objective.
        proven.append([0.0, *(min(a, b) for a, b in zip(lost, certain, strict=True))])
    return price, proven


def standard_error(values: list[float]) -> float:
    """Return the standard error of a mean."""
    mean = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (len(values) - 1) / len(values))
