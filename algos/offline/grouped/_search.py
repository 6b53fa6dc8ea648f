"""Labels and prices of all nodes of a tree of bounds: the passes of `assignment`.

Nodes are the pairs of a group and a cluster whose bounds can bind, then the clusters; a pair's
parent is its cluster, a cluster's the root. A row is at the node of its group in its cluster, or at
the cluster where that pair has no node. The price of a node is that of a row there, in all.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import array_api_compat as compat

from ...bounds.groups import GroupBounds
from ...bounds.sizes import SizeBounds
from ...core.error_free import sum_of_differences
from ...core.errors import InfeasibleBoundsError, InvalidValueError
from ...core.reads import entries, read
from ...core.segments import segment_sum
from ...core.types import Array
from ...scores.sources import ScoreSource, score_source
from ...scores.statistics import places_of, strided_ids
from .._augmenting_paths import augmenting_paths
from .._candidates import Candidates, all_candidates, collect_candidates
from .._proof import rounding_of
from .._smoothed_dual import SmoothedDual, refine_prices
from ..assignment import assign_source

__all__ = ["Found", "Problem", "Proof", "problem_of", "solved"]

SMALL = 2**19
"""Scores of a problem whose rows keep all clusters, without a radius."""

COARSENING = 4
"""Of each group, one row in so many is in the next smaller problem."""

FREE_SHARE = 0.25
"""Share of the rows that the first radius leaves free, of a sample of them."""

WIDTH, GROWTH, MOST_PASSES = 16, 2, 12
"""Candidates of a row at first, their growth and that of the radius, and passes before all rows
keep all clusters."""

MOST_NODES = 2**10
"""Nodes up to which Newton's method refines prices before the paths: its matrices are dense."""

ON_BORDER, WINDOW = 4.0, 16.0
"""Rows on the border of each node at which Newton's method ends, and the lead in units of its last
temperature up to which rows may move on paths, at first."""

AT_EDGE = 0.1
"""Share of the prices at the edge of the radius from which on paths wait for the next pass."""


class Problem(NamedTuple):
    """Scores, the node of each pair of a group and a cluster, and bounds on all nodes.

    Nodes are the pairs whose bounds can bind, then the clusters; the root is last, and not here.
    Groups are counted from 1 on; 0 is that of the samples of none.
    """

    source: ScoreSource
    groups: Array
    cells: Array
    lower: Array
    upper: Array
    parents: Array

    @property
    def n_cells(self) -> int:
        """Number of nodes that are no clusters."""
        return int(self.parents.shape[0]) - self.source.n_clusters


class _Search(NamedTuple):
    """Where the next pass seeks candidates: around prices, within a radius, so many of a row."""

    prices: Array
    radius: float
    width: int = WIDTH
    n_passes: int = 0

    def is_whole(self, problem: Problem) -> bool:
        """Whether all clusters are candidates of all rows."""
        n, k = problem.source.group.n_total, problem.source.n_clusters
        return n * k <= SMALL or self.n_passes >= MOST_PASSES or k == 1

    def after(self, found: Found) -> _Search:
        """Return the next search, around what was found: with longer lists, and wider if stuck."""
        radius = GROWTH * self.radius if found.is_stuck else self.radius
        return _Search(found.prices, radius, GROWTH * self.width, self.n_passes + 1)


class Found(NamedTuple):
    """Labels, prices of all nodes, and whether the candidates allowed labels inside the bounds."""

    labels: Array
    prices: Array
    is_stuck: bool


class Proof(NamedTuple):
    """Value of the labels, sum of absolute scores, and what the labels can lack at most."""

    objective: float
    size: float
    lost: float


def problem_of(source: ScoreSource, bounds: SizeBounds, groups: GroupBounds) -> Problem:
    """Number the nodes: of the pairs of a group and a cluster, those whose bounds can bind."""
    xp, device = compat.array_namespace(bounds.lower), compat.device(bounds.lower)
    n_groups, k = groups.n_groups, source.n_clusters
    sizes = segment_sum(
        xp.ones_like(groups.groups)[:, None], groups.groups + 1, n_segments=n_groups + 1
    )[1:, :]
    binds = (groups.lower > 0) | (groups.upper < xp.minimum(sizes, bounds.upper))
    flat = xp.reshape(binds, (-1,))
    place = xp.cumulative_sum(xp.astype(flat, xp.int64)) - 1
    n_cells = int(place[-1]) + 1 if flat.shape[0] else 0
    chosen = places_of(flat)
    cluster = xp.arange(k, dtype=xp.int64, device=device)
    own = xp.reshape(place, (n_groups, k))
    cells = xp.where(binds, own, xp.zeros_like(own) + (cluster + n_cells))
    cells = xp.concat([(cluster + n_cells)[None, :], cells])
    ends = xp.zeros_like(cluster) + (n_cells + k)

    def nodes(of_groups: Array, of_clusters: Array) -> Array:
        return xp.concat([xp.take(xp.reshape(of_groups, (-1,)), chosen), of_clusters])

    return Problem(
        source=source,
        groups=groups.groups + 1,
        cells=cells,
        lower=nodes(groups.lower, bounds.lower),
        upper=nodes(groups.upper, bounds.upper),
        parents=xp.concat([chosen % k + n_cells, ends]),
    )


def solved(problem: Problem, bounds: SizeBounds, prices: Array | None) -> tuple[Found, Proof]:
    """Steps 1 to 4: labels, and the proof of how good they are."""
    search = _first_search(problem, bounds) if prices is None else _begun(problem, prices)
    while True:
        found = _pass(problem, search)
        if not found.is_stuck:
            proof = _proof(problem, found)
            if proof.lost <= 0.0 or search.is_whole(problem):
                return found, proof
        elif search.is_whole(problem):
            msg = "no labels are inside the bounds, because of forbidden pairs"
            msg = f"{msg}. To fix this, allow more pairs, or widen the bounds"
            raise InfeasibleBoundsError(msg)
        search = search.after(found)


def _first_search(problem: Problem, bounds: SizeBounds) -> _Search:
    """Begin at the prices of a smaller problem, or at 0 where that one has no labels.

    Its errors would name rows of a sample: what is wrong with all rows, the passes say.
    """
    try:
        return _begun(problem, *_start_prices(problem, bounds))
    except InvalidValueError:
        if problem.source.group.n_total * problem.source.n_clusters <= SMALL:
            raise
        xp = compat.array_namespace(problem.lower)
        return _begun(problem, xp.zeros_like(problem.lower, dtype=xp.float64))


def _begun(problem: Problem, prices: Array, radius: float | None = None) -> _Search:
    """Begin around prices, within a radius that a sample tells where none is known."""
    search = _Search(prices, radius or 1.0)
    if radius is not None or search.is_whole(problem):
        return search
    return _Search(prices, _first_radius(problem, prices))


def _start_prices(problem: Problem, bounds: SizeBounds) -> tuple[Array, float | None]:
    """Step 1: prices of a smaller problem, and about how far the best ones can be from these."""
    xp = compat.array_namespace(problem.lower)
    n, k = problem.source.group.n_total, problem.source.n_clusters
    if n * k <= SMALL:
        alone = assign_source(problem.source._replace(exponent=0), bounds, tol=1e-3).prices
        of_cells = xp.take(alone, problem.parents[: problem.n_cells] - problem.n_cells)
        return xp.concat([of_cells, alone]), None
    smaller, sizes = _coarser(problem)
    prices, radius = _start_prices(smaller, sizes)
    search = _begun(smaller, prices, radius)
    for _ in range(MOST_PASSES):
        found = _pass(smaller, search)
        search = search.after(found)
        if not found.is_stuck:
            break
    moved = xp.abs(search.prices - prices)
    (typical,) = read(xp.sqrt(xp.mean(moved * moved)))
    # Four times as many rows are half as far off.
    return search.prices, typical if typical > 0.0 else None


def _coarser(problem: Problem) -> tuple[Problem, SizeBounds]:
    """One row in four of each group, with bounds that labels of as many rows can meet."""
    xp, device = compat.array_namespace(problem.lower), compat.device(problem.lower)
    n, k, n_cells = problem.source.group.n_total, problem.source.n_clusters, problem.n_cells
    order = xp.argsort(problem.groups, stable=True)
    ids = xp.sort(order[::COARSENING])
    m = int(ids.shape[0])
    # By what rounding and groups that do not divide by four can move the counts of clusters.
    slack = min(problem.cells.shape[0], 1 + m // (16 * k))
    nodes = xp.arange(problem.lower.shape[0], dtype=xp.int64, device=device)
    slack = xp.where(nodes >= n_cells, xp.full_like(nodes, slack), xp.zeros_like(nodes))
    low, high = (xp.astype(b, xp.float64) * (m / n) for b in (problem.lower, problem.upper))
    low = xp.clip(xp.astype(xp.floor(low), xp.int64) - slack, min=0)
    high = xp.astype(xp.ceil(high), xp.int64) + slack
    source = score_source(problem.source.take(ids))
    groups = xp.take(problem.groups, ids)
    sizes = SizeBounds.from_counts(low[n_cells:], high[n_cells:], n_samples=m, xp=xp, device=device)
    return problem._replace(source=source, groups=groups, lower=low, upper=high), sizes


def _priced(problem: Problem, prices: Array) -> ScoreSource:
    """The scores with the prices of each row's group added."""
    xp, source = compat.array_namespace(prices), problem.source
    k = source.n_clusters
    of_groups = xp.reshape(xp.take(prices, xp.reshape(problem.cells, (-1,))), problem.cells.shape)

    def block(start: int, stop: int) -> Array:
        own = xp.take(of_groups, problem.groups[start:stop], axis=0)
        return xp.astype(source.block(start, stop), xp.float64) + own

    def take(ids: Array) -> Array:
        own = xp.take(of_groups, xp.take(problem.groups, ids), axis=0)
        return xp.astype(source.take(ids), xp.float64) + own

    return ScoreSource(k, block=block, take=take, group=source.group)


def _first_radius(problem: Problem, prices: Array) -> float:
    """Half of the lead that a part of the rows do not have, of a sample."""
    xp, n = compat.array_namespace(prices), problem.source.group.n_total
    ids = strided_ids(n, min(n, 2**12), prices)
    ordered = xp.sort(_priced(problem, prices).take(ids), axis=1, descending=True)
    leads = xp.where(
        xp.isfinite(ordered[:, 1]),
        ordered[:, 0] - ordered[:, 1],
        xp.full_like(ordered[:, 0], math.inf),
    )
    leads = entries("leads", xp.sort(leads))
    positive = [lead for lead in leads if 0.0 < lead < math.inf]
    some = positive[int(FREE_SHARE * len(positive))] if positive else 1.0
    return 0.5 * some


def _pass(problem: Problem, search: _Search) -> Found:
    """Steps 2 and 3: candidates within a radius of the prices, Newton's method and paths."""
    xp, prices, k = compat.array_namespace(search.prices), search.prices, problem.source.n_clusters
    if search.is_whole(problem):
        candidates = all_candidates(problem.source, like=prices)
        values, radius = candidates.values, math.inf
    else:
        radius = search.radius
        box = xp.zeros((k,), dtype=xp.float64, device=compat.device(prices)) + radius
        source = _priced(problem, prices)
        candidates = collect_candidates(source, -box, box, width=min(search.width, k))
        values = _scores_of(problem, candidates)
    free, clusters = candidates.is_free, xp.astype(candidates.clusters, xp.int64)
    rows = places_of(free)
    # The candidates of a row are nodes: of its group in a cluster, or of the cluster.
    flat = xp.take(problem.groups, rows)[:, None] * k + xp.clip(clusters, min=0)
    nodes = xp.take(xp.reshape(problem.cells, (-1,)), xp.reshape(flat, (-1,)))
    nodes = xp.where(clusters >= 0, xp.reshape(nodes, clusters.shape), clusters)
    nodes = xp.astype(nodes, xp.int32)
    labels = xp.astype(candidates.labels, xp.int64)
    fixed = _node_counts(problem, labels, xp.astype(~free, xp.int64))
    window, n_nodes = math.inf, prices.shape[0]
    if math.isfinite(radius) and n_nodes <= MOST_NODES and rows.shape[0]:
        own_fixed = _own_counts(problem, labels, xp.astype(~free, xp.int64))
        dual = SmoothedDual(
            values=values,
            clusters=nodes,
            fixed_counts=xp.astype(own_fixed, xp.float64),
            lower=xp.astype(problem.lower, xp.float64),
            upper=xp.astype(problem.upper, xp.float64),
            low=prices - radius,
            high=prices + radius,
            tree=_tree(problem),
        )
        refined = refine_prices(dual, prices, start=0.5 * radius, fractional=ON_BORDER * n_nodes)
        at_edge = (refined.prices <= dual.low) | (refined.prices >= dual.high)
        (share,) = read(xp.mean(xp.astype(at_edge, xp.float64)))
        prices, window = refined.prices, WINDOW * refined.temperature
        if share > AT_EDGE:
            return Found(labels, prices, True)
    limits = {"lower": problem.lower - fixed, "upper": problem.upper - fixed}
    while True:
        slots, moved, _, _, is_stuck = augmenting_paths(
            values, nodes, prices, **limits, window=window, parents=problem.parents
        )
        if not is_stuck or window == math.inf:
            break
        window = math.inf
    if rows.shape[0]:
        own = xp.take_along_axis(clusters, slots[:, None], axis=1)[:, 0]
        place = xp.clip(xp.cumulative_sum(xp.astype(free, xp.int64)) - 1, min=0)
        labels = xp.where(free, xp.take(own, place), labels)
    return Found(labels, moved, is_stuck)


def _tree(problem: Problem) -> Array:
    """1 where the column is the parent of the row; 0 for clusters, below the root."""
    xp, n_nodes = compat.array_namespace(problem.lower), problem.parents.shape[0]
    nodes = xp.arange(n_nodes, dtype=xp.int64, device=compat.device(problem.lower))
    return xp.astype(problem.parents[:, None] == nodes, xp.float64)


def _own_counts(problem: Problem, labels: Array, counted: Array) -> Array:
    """How many of the rows that are counted are at each node itself."""
    xp, k = compat.array_namespace(labels), problem.source.n_clusters
    nodes = xp.take(xp.reshape(problem.cells, (-1,)), problem.groups * k + labels)
    return segment_sum(counted[:, None], nodes, n_segments=problem.parents.shape[0])[:, 0]


def _scores_of(problem: Problem, candidates: Candidates) -> Array:
    """The scores of the candidates, without prices; those of a row stay in their order."""
    xp = compat.array_namespace(candidates.values)
    rows = places_of(candidates.is_free)
    parts = [candidates.values[:0, :]]
    step = 2**13
    for start in range(0, rows.shape[0], step):
        some = xp.astype(problem.source.take(rows[start : start + step]), xp.float64)
        names = xp.astype(candidates.clusters[start : start + step, :], xp.int64)
        values = xp.take_along_axis(some, xp.clip(names, min=0), axis=1)
        parts.append(xp.where(names >= 0, values, xp.full_like(values, -math.inf)))
    return xp.concat(parts)


def _node_counts(problem: Problem, labels: Array, counted: Array) -> Array:
    """How many of the rows that are counted each node has, in all."""
    xp, k = compat.array_namespace(labels), problem.source.n_clusters
    of_clusters = segment_sum(counted[:, None], labels, n_segments=k)[:, 0]
    own = _own_counts(problem, labels, counted)
    return xp.concat([own[: problem.n_cells], of_clusters])


def _proof(problem: Problem, found: Found) -> Proof:
    """Step 4: what rows lose by their labels, and prices pay for bounds that are not met."""
    xp, prices = compat.array_namespace(found.prices), found.prices
    of_groups = xp.reshape(xp.take(prices, xp.reshape(problem.cells, (-1,))), problem.cells.shape)

    def of_block(start: int, stop: int) -> list[float]:
        scores = xp.astype(problem.source.block(start, stop), xp.float64)
        each = xp.take(of_groups, problem.groups[start:stop], axis=0)
        best = xp.argmax(scores + each, axis=1)[:, None]
        label = found.labels[start:stop, None]
        top, own = (
            [xp.take_along_axis(part, place, axis=1)[:, 0] for part in (scores, each)]
            for place in (best, label)
        )
        regret = xp.clip(sum_of_differences(top[0], own[0], top[1], own[1]), min=0.0)
        lossy = xp.sum(xp.astype(regret > 0.0, xp.int64))
        return read(xp.sum(regret), lossy, xp.sum(own[0]), xp.sum(xp.abs(own[0])))

    blocks = list(problem.source.map_blocks(of_block, like=prices, at_least_one=True))
    lost, n_lossy, objective, size = (math.fsum(part) for part in zip(*blocks, strict=True))
    counts = _node_counts(problem, found.labels, xp.ones_like(found.labels))
    above = xp.take(xp.concat([prices, xp.zeros_like(prices[:1])]), problem.parents)
    own = prices - above
    missed = xp.where(own > 0.0, counts - problem.lower, problem.upper - counts)
    slack = xp.abs(own) * xp.astype(xp.where(own == 0.0, xp.zeros_like(missed), missed), xp.float64)
    slack, n_slack, largest = read(
        xp.sum(slack), xp.sum(xp.astype(slack != 0.0, xp.int64)), xp.max(xp.abs(prices))
    )
    lost += slack
    # Prices carry the rounding of numbers of their size, once for each term; no more than that of
    # the objective explains a loss.
    explained = rounding_of(min(2.0 * largest * (n_lossy + n_slack), size))
    return Proof(objective, size, 0.0 if lost <= explained else lost + rounding_of(lost))
