"""Bounds on groups and on loads beside OR-tools, k-means-constrained and HiGHS.

Groups: the whole network by OR-tools' min-cost flow, rows to (group, cluster) to cluster, costs
scaled to integers by 10^6. Loads: rows with whole sizes as so many units, which a user of a library
without sizes would repeat: by OR-tools' flow, and by k-means-constrained on repeated rows. Such
rows may be split among clusters; "split" counts them, and "off" is how far a load lies outside of
its bounds, in units, after each row has gone where most of it is.

    pip install ortools k-means-constrained
    python benchmarks/constraint_peers.py --n 2000 --k 20
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from constraints import groups_of
from families import FAMILIES, Instance
from numpy.typing import NDArray

from dualclust.algos.bounds import GroupBounds, LoadBounds
from dualclust.algos.offline.grouped import assign_grouped
from dualclust.algos.offline.weighted import assign_weighted

PANEL = "normal", "mixture 0.7", "crowded", "heavy 1.1"
UNIT = 10**6
"""A score of 1 in the integers of a flow."""

Ints = NDArray[np.int64]


def costs(scores: NDArray[Any]) -> Ints:
    """Costs of the pairs as integers, row by row."""
    return np.rint(-UNIT * scores.astype(float)).astype(np.int64).ravel()


def grouped_flow(made: Instance, groups: GroupBounds) -> Ints:
    """Labels by OR-tools: a lower bound of an arc is a demand at its end and a supply behind it."""
    from ortools.graph.python import min_cost_flow

    (n, k), n_groups = made.scores.shape, groups.n_groups
    low, high = (np.asarray(b) for b in (made.bounds.lower, made.bounds.upper))
    cells = n + np.arange(n_groups * k)
    clusters = n + n_groups * k + np.arange(k)
    flow = min_cost_flow.SimpleMinCostFlow()
    add = flow.add_arcs_with_capacity_and_unit_cost
    head = n + np.asarray(groups.groups)[:, None] * k + np.arange(k)
    arcs = add(np.repeat(np.arange(n), k), head.ravel(), np.ones(n * k), costs(made.scores))
    room = (groups.upper - groups.lower).ravel()
    add(cells, np.tile(clusters, n_groups), room, np.zeros(n_groups * k))
    add(clusters, np.full(k, clusters[-1] + 1), high - low, np.zeros(k))
    flow.set_nodes_supplies(np.arange(n), np.ones(n))
    flow.set_nodes_supplies(cells, -groups.lower.ravel())
    flow.set_nodes_supplies(clusters, groups.lower.sum(axis=0) - low)
    flow.set_node_supply(clusters[-1] + 1, int(low.sum()) - n)
    if flow.solve() != flow.OPTIMAL:
        msg = "OR-tools has found no optimum"
        raise RuntimeError(msg)
    return flow.flows(arcs).reshape(n, k).argmax(axis=1)


def units_flow(scores: NDArray[Any], bounds: LoadBounds) -> NDArray[Any]:
    """Units of each row in each cluster, by OR-tools: (n, k)."""
    from ortools.graph.python import min_cost_flow

    n, k = scores.shape
    sizes = bounds.sizes.astype(np.int64)
    low, high = np.ceil(bounds.lower).astype(int), np.floor(bounds.upper).astype(int)
    flow = min_cost_flow.SimpleMinCostFlow()
    add = flow.add_arcs_with_capacity_and_unit_cost
    clusters = n + np.arange(k)
    tail, head = np.repeat(np.arange(n), k), np.tile(clusters, n)
    arcs = add(tail, head, np.repeat(sizes, k), costs(scores))
    add(clusters, np.full(k, n + k), high - low, np.zeros(k))
    flow.set_nodes_supplies(np.arange(n), sizes)
    flow.set_nodes_supplies(clusters, -low)
    flow.set_node_supply(n + k, int(low.sum() - sizes.sum()))
    if flow.solve() != flow.OPTIMAL:
        msg = "OR-tools has found no optimum"
        raise RuntimeError(msg)
    return flow.flows(arcs).reshape(n, k)


def units_repeated(x: NDArray[Any], centers: NDArray[Any], bounds: LoadBounds) -> NDArray[Any]:
    """Units of each row in each cluster, by k-means-constrained on repeated rows."""
    from k_means_constrained import KMeansConstrained

    sizes, k = bounds.sizes.astype(np.int64), len(centers)
    sides = {"size_min": int(np.ceil(bounds.lower[0])), "size_max": int(bounds.upper[0])}
    model = KMeansConstrained(k, max_iter=1, n_init=1, **sides)
    model.cluster_centers_ = centers
    labels = model.predict(np.repeat(x, sizes, axis=0), **sides)
    rows = np.repeat(np.arange(len(x)), sizes)
    return np.bincount(rows * k + labels, minlength=len(x) * k).reshape(len(x), k)


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    """CPU seconds and the result."""
    begun = time.process_time()
    found = call()
    return time.process_time() - begun, found


def groups_table(options: argparse.Namespace) -> None:
    """Print value and seconds for bounds on four groups."""
    print("| family | ours, s | OR-tools, s | x ours | value beside ours |")
    print("|---|---|---|---|---|")
    rows = np.arange(options.n)
    for family in PANEL:
        made = FAMILIES[family](options.n, options.k, options.seed)
        own = groups_of(made, options.seed)
        groups = GroupBounds.from_shares(own, options.k, lower=0.8, upper=1.25)
        assign_grouped(made.scores, made.bounds, groups)  # compiles
        ours, found = timed(partial(assign_grouped, made.scores, made.bounds, groups))
        theirs, labels = timed(partial(grouped_flow, made, groups))
        value = made.scores.astype(float)[rows, labels].sum()
        off = (value - found.objective) / abs(found.objective)
        print(f"| {family} | {ours:.3f} | {theirs:.2f} | {theirs / ours:.0f} | {off:+.0e} |")


def loads_table(options: argparse.Namespace) -> None:
    """Print value, seconds and violation for rows of 1 to 10 units, in 0.9 to 1.1 of the mean."""
    n, k = options.n, options.k
    print("| rows | method | s | value above ours | rows split | off, units |")
    print("|---|---|---|---|---|---|")
    for noise in (0.5, 1.5):
        rng = np.random.default_rng(options.seed)
        centers = rng.normal(size=(k, 16))
        member = rng.choice(k, n, p=rng.dirichlet(np.full(k, 3.0)))
        x = centers[member] + noise * rng.normal(size=(n, 16))
        sizes = rng.integers(1, 11, n).astype(float)
        bounds = LoadBounds.from_ratios(sizes, k, lower=0.9, upper=1.1)
        scores = x @ centers.T - 0.5 * (centers**2).sum(axis=1)
        call_ours = partial(assign_weighted, scores, bounds, weights=sizes)  # a unit counts once
        call_ours()  # compiles
        took, found = timed(call_ours)
        name = f"mixture, noise {noise:g}"
        print(f"| {name} | ours, {found.status}, gap {found.gap:.0e} | {took:.3f} | 0 | 0 | 0 |")
        peers = {
            "OR-tools, units": partial(units_flow, scores, bounds),
            "k-means-constrained, repeated rows": partial(units_repeated, x, centers, bounds),
        }
        for method, call in peers.items():
            took, units = timed(call)
            split = int(((units > 0).sum(axis=1) > 1).sum())
            whole = units.argmax(axis=1)
            loads = np.bincount(whole, weights=sizes, minlength=k)
            off = np.maximum(loads - bounds.upper, bounds.lower - loads).max().clip(0)
            value = (units * scores).sum()
            more = (value - found.objective) / abs(found.objective)
            print(f"| {name} | {method} | {took:.2f} | {more:+.0e} | {split} | {off:.0f} |")


def main() -> None:
    """Print both tables as Markdown."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--n", type=int, default=2_000)
    parser.add_argument("--k", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    groups_table(options)
    print()
    loads_table(options)


if __name__ == "__main__":
    main()
