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
from ...core.errors import InfeasibleBoundsError, InvalidValueError
from ...core.reads import read
from ...core.segments import segment_sum
from ...core.types import Array
from ...scores.sources import ScoreSource, subsample
from ...scores.statistics import lead, places_of, scores_at, strided_ids
from .._all_scores import losses
from .._augmenting_paths import augmenting_paths
from .._candidates import all_candidates, collect_candidates
from .._proof import rounding_of
from .._smoothed_dual import RefinedPrices, SmoothedDual, refine_prices

__all__ = ["MOST_NODES", "Found", "Problem", "Proof", "problem_of", "solved"]

SMALL = 2**19
"""Scores of a problem whose rows keep all clusters, without a radius."""

COARSENING = 4
"""Of each group, one row in so many is in the next smaller problem."""

FREE_SHARE = 0.25
"""Share of the rows that the first radius around given prices leaves free, of some of them."""

WIDTH, GROWTH, MOST_PASSES = 16, 2, 12
"""Candidates of a row at first, their growth and that of the radius, and passes before all rows
keep all clusters."""

MOST_NODES = 2**10
"""Nodes up to which Newton's method refines prices before the paths: its matrices are dense."""

WINDOW = 16.0
"""Lead up to which rows may move on paths, at first, in units of the last temperature of Newton's
method, which ends with as many rows on a border as there are nodes."""


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

    def nodes(self, groups: Array, clusters: Array) -> Array:
        """The nodes of rows of some groups in some clusters, both (m,)."""
        xp = compat.array_namespace(groups)
        return xp.take(xp.reshape(self.cells, (-1,)), groups * self.source.n_clusters + clusters)

    def of_rows(self, prices: Array, groups: Array) -> Array:
        """What rows of some groups (m,) find added to their scores, (m, k)."""
        xp = compat.array_namespace(prices)
        table = xp.reshape(xp.take(prices, xp.reshape(self.cells, (-1,))), self.cells.shape)
        return xp.take(table, groups, axis=0)


class _Search(NamedTuple):
    """Where the next pass seeks candidates: around prices, all clusters in an infinite radius."""

    prices: Array
    radius: float
    n_passes: int = 0

    def after(self, found: Found) -> _Search:
        """Return the next search, around what was found: with longer lists, and wider if stuck."""
        radius = GROWTH * self.radius if found.is_stuck else self.radius
        is_last = self.n_passes + 1 == MOST_PASSES
        return _Search(found.prices, math.inf if is_last else radius, self.n_passes + 1)


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
    most = xp.minimum(groups.sizes[:-1, None], bounds.upper)
    binds = (groups.lower > 0) | (groups.upper < most)
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


def solved(problem: Problem, prices: Array | None) -> tuple[Found, Proof]:
    """Steps 1 to 4: labels, and the proof of how good they are."""
    search = _start(problem) if prices is None else _around(problem, prices)
    while True:
        found = _pass(problem, search)
        if not found.is_stuck:
            proof = _proof(problem, found)
            if proof.lost <= 0.0 or search.radius == math.inf:
                return found, proof
        elif search.radius == math.inf:
            msg = "no labels are inside the bounds, because of forbidden pairs"
            msg = f"{msg}. To fix this, allow more pairs, or widen the bounds"
            raise InfeasibleBoundsError(msg)
        search = search.after(found)


def _around(problem: Problem, prices: Array, radius: float = 0.0) -> _Search:
    """Begin around prices, within a radius that some rows tell where it is 0."""
    n, k = problem.source.group.n_total, problem.source.n_clusters
    if n * k <= SMALL or k == 1:
        return _Search(prices, math.inf)
    if radius == 0.0:
        some = strided_ids(n, min(n, 2**12), prices)
        radius = 0.5 * lead(_priced(problem, prices).take(some), FREE_SHARE)
    return _Search(prices, radius)


def _start(problem: Problem) -> _Search:
    """Step 1: prices of a smaller problem, and about how far the best ones can be from these."""
    xp = compat.array_namespace(problem.lower)
    nothing = _around(problem, xp.zeros_like(problem.lower, dtype=xp.float64), 1.0)
    if nothing.radius == math.inf:
        return nothing
    smaller = _coarser(problem)
    try:
        begun = search = _start(smaller)
        while True:
            found, is_whole = _pass(smaller, search), search.radius == math.inf
            search = search.after(found)
            if is_whole or not found.is_stuck:
                break
    except InvalidValueError:  # of a row of a part: what is wrong with all, the passes say
        return _around(problem, nothing.prices)
    moved = search.prices - begun.prices
    (typical,) = read(xp.sqrt(xp.mean(moved * moved)))
    # Four times as many rows are half as far off.
    return _around(problem, search.prices, typical)


def _coarser(problem: Problem) -> Problem:
    """One row in four of each group, with bounds in proportion, a little wider for clusters."""
    xp, n = compat.array_namespace(problem.lower), problem.source.group.n_total
    ids = xp.sort(xp.argsort(problem.groups, stable=True)[::COARSENING])
    share = ids.shape[0] / n
    low, high = (share * xp.astype(side, xp.float64) for side in (problem.lower, problem.upper))
    # Clusters have room for what rounding and chance make of a quarter: prices of bounds that bind
    # for that alone lead far off where many rows tie.
    room = min(problem.cells.shape[0], 1 + ids.shape[0] // (16 * problem.source.n_clusters))
    slack = room * xp.astype(problem.parents == problem.parents[-1], xp.float64)
    return problem._replace(
        source=subsample(problem.source, ids),
        groups=xp.take(problem.groups, ids),
        lower=xp.astype(xp.clip(xp.floor(low) - slack, min=0.0), xp.int64),
        upper=xp.astype(xp.ceil(high) + slack, xp.int64),
    )


def _priced(problem: Problem, prices: Array) -> ScoreSource:
    """The scores with the prices of each row's group added."""
    xp, source = compat.array_namespace(prices), problem.source

    def priced(scores: Array, groups: Array) -> Array:
        return xp.astype(scores, xp.float64) + problem.of_rows(prices, groups)

    return ScoreSource(
        source.n_clusters,
        block=lambda a, b: priced(source.block(a, b), problem.groups[a:b]),
        take=lambda ids: priced(source.take(ids), xp.take(problem.groups, ids)),
        group=source.group,
    )


def _pass(problem: Problem, search: _Search) -> Found:
    """Steps 2 and 3: candidates within a radius of the prices, Newton's method and paths."""
    prices, radius, n_passes = search
    xp, k = compat.array_namespace(prices), problem.source.n_clusters
    if radius == math.inf:
        candidates = all_candidates(problem.source, like=prices)
    else:
        box, width = 0.0 * prices[:k] + radius, min(WIDTH * GROWTH**n_passes, k)
        candidates = collect_candidates(_priced(problem, prices), -box, box, width=width)
    free, clusters = candidates.is_free, xp.astype(candidates.clusters, xp.int64)
    rows, labels = places_of(free), xp.astype(candidates.labels, xp.int64)
    # The candidates of a row are nodes: of its group in a cluster, or of the cluster.
    groups = xp.take(problem.groups, rows)[:, None] + xp.zeros_like(clusters)
    flat = (xp.reshape(part, (-1,)) for part in (groups, xp.clip(clusters, min=0)))
    nodes = xp.where(clusters >= 0, xp.reshape(problem.nodes(*flat), clusters.shape), clusters)
    nodes = xp.astype(nodes, xp.int32)
    values = candidates.values if radius == math.inf else scores_at(problem.source, rows, clusters)
    fixed = _counts(problem, labels, xp.astype(~free, xp.int64))
    window, limits = math.inf, [side - fixed[1] for side in (problem.lower, problem.upper)]
    if radius < math.inf and prices.shape[0] <= MOST_NODES and rows.shape[0]:
        refined = _newton(problem, values, nodes, fixed[0], search)
        prices, window = refined.prices, WINDOW * refined.temperature
    for reach in sorted({window, math.inf}):
        slots, moved, _, _, is_stuck = augmenting_paths(
            values,
            nodes,
            prices,
            lower=limits[0],
            upper=limits[1],
            window=reach,
            parents=problem.parents,
        )
        if not is_stuck:
            break
    if rows.shape[0]:
        own = xp.take_along_axis(clusters, slots[:, None], axis=1)[:, 0]
        place = xp.clip(xp.cumulative_sum(xp.astype(free, xp.int64)) - 1, min=0)
        labels = xp.where(free, xp.take(own, place), labels)
    return Found(labels, moved, is_stuck)


def _newton(
    problem: Problem, values: Array, nodes: Array, fixed: Array, search: _Search
) -> RefinedPrices:
    """Prices within the radius at which few rows are on a border; `fixed` rows have their nodes."""
    xp, (prices, radius, _) = compat.array_namespace(values), search
    each = xp.arange(prices.shape[0], dtype=xp.int64, device=compat.device(prices))
    fixed, lower, upper = (
        xp.astype(part, xp.float64) for part in (fixed, problem.lower, problem.upper)
    )
    dual = SmoothedDual(
        values=values,
        clusters=nodes,
        fixed_counts=fixed,
        lower=lower,
        upper=upper,
        low=prices - radius,
        high=prices + radius,
        tree=xp.astype(problem.parents[:, None] == each, xp.float64),
    )
    return refine_prices(dual, prices, start=0.5 * radius, fractional=float(prices.shape[0]))


def _counts(problem: Problem, labels: Array, counted: Array) -> tuple[Array, Array]:
    """How many of the rows that are counted are at each node itself, and how many in all."""
    xp, m = compat.array_namespace(labels), problem.parents.shape[0]
    own = segment_sum(counted[:, None], problem.nodes(problem.groups, labels), n_segments=m)
    below = segment_sum(own, problem.parents, n_segments=m + 1)[:m, :]
    return own[:, 0], xp.reshape(own + below, (-1,))


def _proof(problem: Problem, found: Found) -> Proof:
    """Step 4: what rows lose by their labels, and prices pay for bounds that are not met."""
    xp, prices = compat.array_namespace(found.prices), found.prices

    def of_block(start: int, stop: int) -> list[float]:
        rows = slice(start, stop)
        each = problem.of_rows(prices, problem.groups[rows])
        lost, own = losses(problem.source.block(start, stop), each, found.labels[rows])
        n_lossy = xp.sum(xp.astype(lost > 0.0, xp.int64))
        return read(xp.sum(lost), n_lossy, xp.sum(own), xp.sum(xp.abs(own)))

    blocks = list(problem.source.map_blocks(of_block, like=prices, at_least_one=True))
    lost, n_lossy, objective, size = (math.fsum(part) for part in zip(*blocks, strict=True))
    _, counts = _counts(problem, found.labels, xp.ones_like(found.labels))
    own = prices - xp.take(xp.concat([prices, xp.zeros_like(prices[:1])]), problem.parents)
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
