"""The best of several starts: with bounds on sizes, and groups, linked rows or rows left out."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import array_api_compat as compat
import numpy as np

from ..algos.bounds.groups import GroupBounds
from ..algos.bounds.sizes import SizeBounds
from ..algos.clustering.constrained import constrained_kmeans
from ..algos.clustering.grouped import grouped_kmeans, linked_kmeans, trimmed_kmeans
from ..algos.clustering.weighted import weighted_kmeans
from ..algos.core.checks import check_count
from ..algos.core.errors import InvalidValueError
from ..algos.core.reads import entries
from ..algos.offline.grouped import assign_grouped
from ..algos.scores.deadline import deadline_of
from ..algos.scores.sources import ScoreSource
from ..cluster.groups import bounds_in_form, check_form, numbered_groups
from ..cluster.sparse_rows import SparseRows, sparse_kmeans
from ._inputs import bounds_of, moved_to
from ._loads import load_bounds
from ._starts import Data, starting_centers

__all__ = [
    "OF_ONE_KIND",
    "Grouping",
    "best_of_starts",
    "grouped_labels",
    "grouping_of",
    "labels_or_out",
]

Array = Any

OF_ONE_KIND = (
    "groups_", "group_counts_", "group_prices_", "out_price_", "loads_", "status_"
)  # fmt: skip
"""Attributes that a fit of another kind takes away."""


class Grouping(NamedTuple):
    """Bounds on groups of rows, and the values that stand for the groups."""

    bounds: GroupBounds
    names: Any


def _check_kinds(estimator: Any, data: Data, groups: Any, sizes: Any) -> None:
    """Refuse what groups, links, rows that stay out, and sizes of rows do not go with."""
    check_form("group_bounds", estimator.group_bounds)
    check_count("max_out", estimator.max_out, 0)
    out = f"max_out={estimator.max_out}"
    given = {
        "groups": groups is not None,
        "must_link": data.must_link is not None,
        "cannot_link": data.cannot_link is not None,
        out: estimator.max_out > 0,
        "sizes": sizes is not None,
        "sparse rows": isinstance(data.rows, SparseRows),
        "fixed": data.fixed is not None,
        "forbidden": data.forbidden is not None,
        "sample_weight": data.weights is not None,
    }
    what = next((name for name in list(given)[:5] if given[name]), None)
    if what is None:
        return
    goes_with = {
        "groups": ("fixed", "forbidden", "sample_weight"),
        "must_link": ("cannot_link", "sample_weight"),
        "cannot_link": ("sample_weight",),
    }
    good = (what, *goes_with.get(what, ()))
    other = next((name for name, there in given.items() if there and name not in good), None)
    if other is not None:
        msg = f"{what} does not go with {other}. To fix this, leave one of them out"
        raise InvalidValueError(msg)


def grouping_of(estimator: Any, groups: Any, rows: Array) -> Grouping | None:
    """Return the bounds on groups of rows, or None without groups.

    Parameters
    ----------
    estimator : the estimator
    groups : (n,) array-like, GroupBounds, or None
        Bounds of the caller's own are taken as they are.
    rows : (n, d) array
    """
    if groups is None:
        return None
    n, k = rows.shape[0], estimator.n_clusters
    if isinstance(groups, GroupBounds):
        moved = GroupBounds(*(moved_to(rows, part, "int64") for part in groups))
        _check_length(moved.groups, n)
        return Grouping(moved, np.arange(moved.n_groups))
    numbers, names = numbered_groups("groups", _on_host(groups))
    _check_length(numbers, n)
    form = check_form("group_bounds", estimator.group_bounds)
    return Grouping(bounds_in_form(form, moved_to(rows, numbers, "int64"), k), names)


def _on_host(values: Any) -> Any:
    return values.detach().cpu().numpy() if compat.is_torch_array(values) else values


def _check_length(numbers: Array, n: int) -> None:
    if numbers.shape[0] != n:
        msg = (
            f"groups must be of the {n} rows of X, got {numbers.shape[0]}"
            ". To fix this, give one for each row"
        )
        raise InvalidValueError(msg)


def best_of_starts(
    estimator: Any, data: Data, groups: Any, sizes: Any
) -> tuple[Any, dict[str, Any]]:
    """Return the result of the best start, and the attributes of its kind.

    Returns
    -------
    ConstrainedKMeansResult, or that of another kind
    dict
        Of `OF_ONE_KIND`.
    """
    _check_kinds(estimator, data, groups, sizes)
    grouping = grouping_of(estimator, groups, data.rows)
    best = _best(estimator, data, _run_of(estimator, data, grouping, sizes))
    found = best.assignment
    if sizes is not None:
        return best, {"loads_": found.loads, "status_": found.status}
    if grouping is not None:
        own = {"groups_": grouping.names, "group_counts_": found.group_counts}
        return best, own | {"group_prices_": found.group_prices}
    return best, {"out_price_": found.out_price} if estimator.max_out else {}


def _best(estimator: Any, data: Data, run: Callable[..., Any]) -> Any:
    """Return the first of the best results: loads inside come first, then the larger objective."""
    deadline = deadline_of(estimator.time_limit)  # of all starts together
    options = {name: getattr(estimator, name) for name in ("metric", "max_iter", "tol")}
    results: list[Any] = []
    for centers in starting_centers(estimator, data):
        if results and deadline is not None and deadline.is_late():
            break
        found = run(data.source, centers=centers, **options, time_limit=deadline)
        if estimator.verbose:
            gap = found.assignment.gap
            print(f"start {len(results) + 1}: {found.n_iter} updates, gap {gap:.1e}")
        results.append(found)
    outside = "inside up to one row"
    return max(results, key=lambda r: (r.assignment.status != outside, r.assignment.objective))


def _run_of(
    estimator: Any, data: Data, grouping: Grouping | None, sizes: Any
) -> Callable[..., Any]:
    """Return the function that clusters from given centers."""
    if sizes is not None:
        return partial(weighted_kmeans, bounds=load_bounds(estimator, data.rows, sizes))
    bounds = bounds_of(estimator, data.rows.shape[0], data.rows)
    pairs: dict[str, Any] = {"must_link": data.must_link, "cannot_link": data.cannot_link}
    if any(part is not None for part in pairs.values()):
        gap = estimator.gap
        return partial(linked_kmeans, bounds=bounds, weights=data.weights, gap=gap, **pairs)
    if estimator.max_out:
        low, high = (entries("bounds", side) for side in (bounds.lower, bounds.upper))
        most = estimator.max_out
        return partial(trimmed_kmeans, max_out=most, min_count=low, max_count=high)
    rules: dict[str, Any] = {
        "weights": data.weights,
        "fixed": data.fixed,
        "forbidden": data.forbidden,
    }
    if grouping is not None:
        return partial(grouped_kmeans, bounds=bounds, groups=grouping.bounds, **rules)
    if estimator.warm_start and hasattr(estimator, "prices_"):
        rules["prices"] = moved_to(data.rows, estimator.prices_, "float64")
    kmeans = sparse_kmeans if isinstance(data.rows, SparseRows) else constrained_kmeans
    return partial(kmeans, bounds=bounds, gap=estimator.gap, **rules)


def grouped_labels(
    estimator: Any,
    groups: Any,
    rows: Array,
    scores: ScoreSource,
    bounds: SizeBounds | None,
    weights: Array | None,
) -> Array:
    """Return the clusters of rows of groups: inside bounds, or at the prices of the fit.

    Parameters
    ----------
    scores : ScoreSource
        With bounds, of the weights as well.
    bounds : SizeBounds or None
    weights : (n,) float64 array or None
    """
    if not hasattr(estimator, "group_prices_"):
        msg = "groups were not given to fit, and have no prices. To fix this, fit with groups"
        raise InvalidValueError(msg)
    if bounds is not None or isinstance(groups, GroupBounds):
        grouping = grouping_of(estimator, groups, rows)
        assert grouping is not None
        if bounds is not None:
            return assign_grouped(scores, bounds, grouping.bounds).labels
        numbers = grouping.bounds.groups
        if grouping.bounds.n_groups != len(estimator.groups_):
            msg = (
                f"groups must be those of fit, got {grouping.bounds.n_groups} of them in place of "
                f"{len(estimator.groups_)}. To fix this, give the groups of rows alone"
            )
            raise InvalidValueError(msg)
    else:
        own = numbered_groups("groups", _on_host(groups), estimator.groups_).numbers
        _check_length(own, rows.shape[0])
        numbers = moved_to(rows, own, "int64")
    prices = moved_to(rows, estimator.prices_, "float64")
    of_groups = moved_to(rows, estimator.group_prices_, "float64")
    xp = compat.array_namespace(prices)
    table = prices + xp.concat([of_groups, xp.zeros_like(prices)[None, :]])  # -1 is the last row
    places = xp.where(numbers < 0, xp.full_like(numbers, table.shape[0] - 1), numbers)

    def best(start: int, stop: int) -> Array:
        block = xp.astype(scores.block(start, stop), xp.float64)
        block = block - block[:, :1]  # as the solver counts: differences keep digits
        block = block if weights is None else block * weights[start:stop, None]
        return xp.argmax(block + xp.take(table, places[start:stop], axis=0), axis=1)

    return xp.concat(list(scores.map_blocks(best, like=prices, at_least_one=True)))


def labels_or_out(estimator: Any, distances: Array, *, bounded: bool) -> Array:
    """Return the cluster of each row at the prices of the fit, -1 where staying out is worth more.

    Parameters
    ----------
    distances : (n, k) array
        Of `transform`.
    bounded : bool
        Refused: only rows of a fit stay out by their number.
    """
    if bounded:
        msg = (
            f"bounded does not go with max_out={estimator.max_out}, which counts rows of fit"
            ". To fix this, leave out bounded"
        )
        raise InvalidValueError(msg)
    xp = compat.array_namespace(distances)
    costs = xp.astype(distances, xp.float64)
    costs = costs if estimator.metric == "cosine" else 0.5 * costs * costs
    costs = costs - moved_to(distances, estimator.prices_, "float64")
    labels, least = xp.argmin(costs, axis=1), xp.min(costs, axis=1)
    return xp.where(least > -estimator.out_price_, xp.full_like(labels, -1), labels)
