"""The output of ``dualclust cluster``: numbers about a result, as text and as files."""

from __future__ import annotations

import argparse
import io
import json
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..common.tables import csv_text
from .in_groups import GroupCounts
from .loads import Loads
from .sizes import COLUMNS

__all__ = ["Clusters", "json_text", "npy", "result_of", "sizes_csv", "text"]


MEANS = ("mean_similarity", "mean_squared_distance", "mean_distance")


class Clusters(NamedTuple):
    """A result as NumPy arrays, with the labels of all rows.

    Attributes
    ----------
    labels : (n,) int64 array
    centers : (k, d) array
    counts : (k,) int64 array
    lower, upper : (k,) int64 arrays
    prices : (k,) float64 array
    objective, upper_bound, gap : float
    n_iter : int
    converged : bool
    medoids : (k,) int64 array, or None
        Numbers of the rows that stand for the clusters, where these have no means.
    groups : GroupCounts or None
    loads : Loads or None
    is_partial : bool
        Whether rows may stay out: they have the label -1.
    """

    labels: NDArray[np.int64]
    centers: NDArray[np.floating[Any]]
    counts: NDArray[np.int64]
    lower: NDArray[np.int64]
    upper: NDArray[np.int64]
    prices: NDArray[np.float64]
    objective: float
    upper_bound: float
    gap: float
    n_iter: int
    converged: bool
    medoids: NDArray[np.int64] | None = None
    groups: GroupCounts | None = None
    loads: Loads | None = None
    is_partial: bool = False


def result_of(
    found: Clusters, options: argparse.Namespace, *, weight: float, squared: float | None
) -> dict[str, Any]:
    """Return the contents of result.json.

    Parameters
    ----------
    found : Clusters
    options : argparse.Namespace
        Of the command: `lower` and `upper` are shares, or None for bounds in rows.
    weight : float
        Sum of the weights of rows that are in; their number without weights.
    squared : float or None
        `squared_distances` for "euclidean".
    """
    n, counts = len(found.labels), found.counts
    outside = np.maximum(found.lower - counts, counts - found.upper)
    if found.medoids is not None:
        value = {
            "mean_distance": max(0.0, -found.objective) / weight,
            "mean_distance_bound": max(0.0, -found.upper_bound) / weight,
        }
    elif squared is None:
        out = n - counts.sum() if found.is_partial else 0  # each counts as if at its center
        value = {
            "mean_similarity": (found.objective - out) / weight,
            "mean_similarity_bound": (found.upper_bound - out) / weight,
        }
    else:
        lost = 2.0 * max(0.0, found.upper_bound - found.objective)
        value = {
            "mean_squared_distance": squared / weight,
            "mean_squared_distance_bound": max(0.0, squared - lost) / weight,
        }
    return {
        "n_samples": n,
        "n_clusters": len(counts),
        "metric": options.metric,
        "lower": options.lower,
        "upper": "inf" if options.upper == np.inf else options.upper,
        "min_count": int(found.lower.min()),
        "max_count": int(found.upper.max()),
        "smallest_cluster": int(counts.min()),
        "largest_cluster": int(counts.max()),
        "violation": max(0, int(outside.max())),
        **({} if found.groups is None else found.groups.facts(options.group_bounds)),
        **({} if found.loads is None else found.loads.facts()),
        **(
            {"max_out": options.max_out, "rows_out": n - int(counts.sum())}
            if found.is_partial
            else {}
        ),
        **value,
        "relative_gap": found.gap,
        "passes": found.n_iter,
        "converged": found.converged,
        "seed": options.seed,
    }


def text(result: dict[str, Any]) -> str:
    """Return the report for standard output, but for what is said of the input."""
    r = result
    converged = "converged" if r["converged"] else "stopped at the limit"
    name = next(name for name in MEANS if name in r)
    beyond = "exceed" if name == "mean_similarity" else "are below"
    what = "centers" if name != "mean_distance" else "medoids"
    title = name.replace("_", " ").replace("squared distance", "sq. distance")
    unit = " km" if r.get("metric") == "haversine" else ""
    return "\n".join(
        [
            f"clusters            {r['n_clusters']} of {r['n_samples']} samples, "
            f"{r['passes']} passes, {converged}",
            f"sizes               {r['smallest_cluster']} to {r['largest_cluster']}, "
            f"bounds {r['min_count']} to {r['max_count']}",
            *_more_bounds(r),
            f"violation           {r['violation']}",
            f"{title:<20}{r[name]:.6f}{unit}",
            f"certificate         no labels inside the bounds {beyond} "
            f"{r[name + '_bound']:.6f}{unit} for these {what} (gap {r['relative_gap']:.1e})",
        ]
    )


def _more_bounds(r: dict[str, Any]) -> list[str]:
    """Return lines about groups, loads, links, and rows that stay out."""
    lines = []
    if "loads" in r:
        span = f"{r['smallest_load']:g} to {r['largest_load']:g}"
        bounds = f"{r['min_load']:g} to {r['max_load']:g}"
        lines.append(f"loads               {span}, bounds {bounds}: {r['loads']}")
    if "groups" in r:
        form = r["group_bounds"].replace("-", " ")
        form = f"{form.replace(':', ' to ')} of their mean" if ":" in form else form
        lines.append(
            f"groups              {r['groups']} of {r['rows_in_groups']} samples, in each cluster "
            f"{form}: violation {r['group_violation']}"
        )
    if "must_link_pairs" in r:
        must, cannot = r["must_link_pairs"], r["cannot_link_pairs"]
        lines.append(f"links               {must} pairs together, {cannot} pairs apart")
    if "rows_out" in r:
        lines.append(f"rows out            {r['rows_out']} of at most {r['max_out']}: label -1")
    return lines


def sizes_csv(found: Clusters) -> str:
    """Return a CSV table with one line per cluster: size, bounds, price."""
    clusters = range(len(found.counts))
    columns = clusters, found.counts, found.lower, found.upper, found.prices
    return csv_text(dict(zip(COLUMNS, columns, strict=True)), ".6f")


def json_text(result: dict[str, Any]) -> str:
    """Return the content of result.json, which ``--json`` prints."""
    return json.dumps(result, indent=2) + "\n"


def npy(array: NDArray[Any]) -> bytes:
    """Return the bytes of an .npy file."""
    content = io.BytesIO()
    np.save(content, array, allow_pickle=False)
    return content.getvalue()
