"""Labels of rows for centers that are given: nearest, at given prices, or inside bounds.

Rows are read a block at a time. The nearest center of a row does not depend on the other rows of
its file, but for ties: scores are computed around the mean of the centers, not of the rows.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, NamedTuple

import array_api_compat as compat
import numpy as np

from ..algos.bounds.sizes import SizeBounds
from ..algos.core.reads import read
from ..algos.offline.assignment import assign_source
from ..algos.scores.nearest import best_clusters
from ..algos.scores.sources import FeatureSource, ScoreSource, product_source
from .distances import around, blocks
from .model import Model
from .output import Clusters
from .places import on_host, placed

__all__ = ["Labeled", "around_centers", "label_rows", "stored_bounds", "whole_result"]


def stored_bounds(
    model: Model, n: int, *, rounding: str = "outward"
) -> tuple[list[int], list[int]]:
    """Return the bounds of a model for n rows: the same shares of all rows, in whole rows.

    Parameters
    ----------
    model : Model
    n : int
    rounding : {"outward", "inward", "nearest"}
        As in `SizeBounds.from_ratios`.

    Examples
    --------
    >>> one = np.asarray([1.0])
    >>> stored = Model(one[:, None], one * 0, *np.asarray([[60], [50], [70]]), "euclidean", 100)
    >>> stored_bounds(stored, 25)
    ([12], [18])
    >>> stored_bounds(stored, 25, rounding="inward")
    ([13], [17])
    """
    low, high = (
        [Fraction(int(size) * n, model.n_samples) for size in side]
        for side in (model.lower, model.upper)
    )
    if rounding == "nearest":
        return [round(share) for share in low], [round(share) for share in high]
    down, up = (math.floor, math.ceil) if rounding == "outward" else (math.ceil, math.floor)
    return [down(share) for share in low], [up(share) for share in high]


class Labeled(NamedTuple):
    """Labels of this rank's rows; the rest is of all rows.

    Attributes
    ----------
    labels : (n_local,) int64 array
    objective : float
        Sum of the scores, without prices.
    bound, gap : float
        Of all labels inside the bounds, and how far these are from it; infinite without bounds.
    prices : (k,) float64 array
    """

    labels: Any
    objective: float
    bound: float
    gap: float
    prices: Any


def around_centers(
    source: FeatureSource, model: Model, dtype: Any, device: str
) -> tuple[FeatureSource, Any]:
    """Return rows and centers around the mean of the centers, so that scores keep their digits."""
    centers = placed(model.centers.astype(dtype), device)
    if model.metric == "cosine":
        return source, centers
    xp = compat.array_namespace(centers)
    origin = xp.mean(centers, axis=0)
    return around(source, origin), centers - origin


def label_rows(
    source: FeatureSource,
    centers: Any,
    model: Model,
    *,
    bounds: SizeBounds | None,
    priced: bool,
    gap: float,
) -> Labeled:
    """Label the rows of a source.

    Parameters
    ----------
    source, centers
        As of `around_centers`.
    model : Model
    bounds : SizeBounds or None
        With bounds, labels are the best inside them, to a proven gap.
    priced : bool
        Without bounds: whether the prices of the model are added to the scores.
    gap : float
        Relative gap to prove, with bounds.
    """
    xp = compat.array_namespace(centers)
    offsets = None
    if model.metric == "euclidean":
        offsets = -0.5 * xp.sum(centers * centers, axis=1)
    scores = product_source(source, centers, offsets=offsets)
    prices = xp.asarray(model.prices, device=compat.device(centers))
    if bounds is None:
        return _best(scores, prices if priced else xp.zeros_like(prices))
    found = assign_source(scores, bounds, prices=prices, tol=gap)
    return Labeled(found.labels, found.objective, found.upper_bound, found.gap, found.prices)


def _best(scores: ScoreSource, prices: Any) -> Labeled:
    """Return the cluster of the largest score plus price of each row; ties go to the lowest."""
    xp, group, k = compat.array_namespace(prices), scores.group, scores.n_clusters
    labels = [xp.zeros((0,), dtype=xp.int64, device=compat.device(prices))]
    values = []
    for start, stop in blocks(group.n_local, k, like=prices):
        block = xp.astype(scores.block(start, stop), xp.float64)
        own, _ = best_clusters(block, prices)
        values.append(xp.sum(xp.take_along_axis(block, own[:, None], axis=1)))
        labels.append(own)
    value = math.fsum(group.gather(np.asarray(read(*values), dtype=np.float64)).tolist())
    return Labeled(xp.concat(labels), value, math.inf, math.inf, prices)


def whole_result(
    found: Labeled, bounds: SizeBounds | None, source: FeatureSource, centers: Any
) -> Clusters:
    """Return the result with the labels of all rows of all ranks, as NumPy arrays."""
    labels = on_host(source.group.gather(found.labels))
    k, n = centers.shape[0], len(labels)
    none = np.zeros(k, dtype=np.int64)
    return Clusters(
        labels=labels,
        centers=on_host(centers),
        counts=np.bincount(labels, minlength=k).astype(np.int64),
        lower=none if bounds is None else on_host(bounds.lower),
        upper=none + n if bounds is None else on_host(bounds.upper),
        prices=on_host(found.prices),
        objective=found.objective,
        upper_bound=found.bound,
        gap=found.gap,
        n_iter=0,
        converged=True,
    )
