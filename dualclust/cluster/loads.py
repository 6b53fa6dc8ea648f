"""``dualclust cluster`` with ``--sizes``: rows count in the bounds by what they take."""

from __future__ import annotations

import argparse
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..algos.bounds.loads import LoadBounds
from ..algos.clustering import BoundedKMeansResult, weighted_kmeans
from ..algos.offline.weighted import WeightedAssignment
from ..algos.scores.deadline import Deadline
from ..common.tables import csv_text
from .places import on_host, placed

__all__ = ["Loads", "cluster_by_load", "load_bounds", "loads_csv"]


class Loads(NamedTuple):
    """What clusters hold, and may hold, of the sizes of rows.

    Attributes
    ----------
    loads, lower, upper, overload : (k,) float64 arrays
        Overload is above 0 beyond the upper bound, below 0 short of the lower one.
    status : str
        "inside", or "inside up to one row".
    """

    loads: NDArray[np.float64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    overload: NDArray[np.float64]
    status: str

    def facts(self) -> dict[str, Any]:
        """Return what result.json says of them."""
        return {
            "smallest_load": float(self.loads.min()),
            "largest_load": float(self.loads.max()),
            "min_load": float(self.lower.min()),
            "max_load": float(self.upper.max()),
            "largest_overload": float(abs(self.overload).max()),
            "loads": self.status,
        }


def load_bounds(options: argparse.Namespace, sizes: Any) -> LoadBounds:
    """Return bounds on loads: --lower and --upper of the mean load, or loads as counts are given.

    Raises
    ------
    InfeasibleBoundsError, InvalidValueError
    """
    k, low, high = options.k, options.lower or 0.0, options.upper or np.inf
    shares = LoadBounds.from_ratios(sizes, k, lower=low, upper=high)
    least, most = shares.lower, shares.upper
    least = least if options.min_count is None else float(options.min_count)
    most = most if options.max_count is None else float(options.max_count)
    return LoadBounds.from_loads(sizes, k, lower=least, upper=most)


def cluster_by_load(
    options: argparse.Namespace, problem: Any, centers: Any, deadline: Deadline
) -> tuple[BoundedKMeansResult[WeightedAssignment], Loads]:
    """Cluster with bounds on loads from given centers."""
    bounds = load_bounds(options, placed(problem.sizes, options.device))
    how: dict[str, Any] = {"max_iter": options.max_iter, "tol": options.tol}
    how["time_limit"] = deadline
    found = weighted_kmeans(problem.source, bounds, centers, metric=options.metric, **how)
    one = found.assignment
    held, over = on_host(one.loads), on_host(one.overload)
    return found, Loads(held, on_host(bounds.lower), on_host(bounds.upper), over, one.status)


def loads_csv(loads: Loads, prices: NDArray[np.float64]) -> str:
    """Return a CSV table with a line for each cluster: load, bounds, overload, price of a unit."""
    columns: dict[str, Any] = {
        "cluster": range(len(prices)),
        "load": loads.loads,
        "min_load": loads.lower,
        "max_load": loads.upper,
        "overload": loads.overload,
        "price": prices,
    }
    return csv_text(columns, ".6g")
