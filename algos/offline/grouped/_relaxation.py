"""Steps of `linked`: blocks of rows, their relaxation, and labels for them that break no pair."""

from __future__ import annotations

import math
from collections import Counter
from typing import NamedTuple

import array_api_compat as compat

from ...bounds.groups import GroupBounds
from ...bounds.sizes import SizeBounds
from ...core.errors import InfeasibleBoundsError
from ...core.reads import entries
from ...core.types import Array
from ...scores.sources import ScoreSource
from ..assignment import OfflineAssignment, assign_source
from ._links import Links
from ._search import MOST_NODES
from .assignment import GroupedAssignment, assign_grouped

__all__ = ["Problem", "Relaxed", "merged", "relaxed", "repaired", "tightened"]


class Problem(NamedTuple):
    """Scores of rows, means of blocks (B, k), the block of each row or -1, and bounds."""

    source: ScoreSource
    bounds: SizeBounds
    links: Links
    places: Array
    means: Array

    @property
    def n_units(self) -> int:
        """Number of blocks, and of rows in none."""
        linked = sum(map(len, self.links.blocks))
        return self.source.group.n_total - linked + len(self.links.blocks)

    def of_means(self) -> ScoreSource:
        """Return the scores, those of each block in place of its rows'."""
        is_single = all(len(rows) == 1 for rows in self.links.blocks)
        return self.source if is_single else self.with_rows(self.means)

    def with_rows(self, table: Array) -> ScoreSource:
        """Return the scores, those of rows in blocks replaced by the rows of a table."""
        xp, source = compat.array_namespace(table), self.source
        if not table.shape[0]:
            return source
        if all(len(rows) == 1 for rows in self.links.blocks):  # no means: nothing is rounded
            table = xp.astype(table, source.block(0, 0).dtype)

        def replaced(scores: Array, places: Array) -> Array:
            rows = xp.take(table, xp.clip(places, min=0), axis=0)
            return xp.where(places[:, None] >= 0, rows, xp.astype(scores, table.dtype))

        return source._replace(
            block=lambda start, stop: replaced(source.block(start, stop), self.places[start:stop]),
            take=lambda ids: replaced(source.take(ids), xp.take(self.places, ids)),
        )


def merged(source: ScoreSource, bounds: SizeBounds, links: Links) -> Problem:
    """Step 1: the mean scores of the rows of each block."""
    xp, device = compat.array_namespace(bounds.lower), compat.device(bounds.lower)
    blocks = links.blocks
    places = [-1] * source.group.n_total
    for b, rows in enumerate(blocks):
        for row in rows:
            places[row] = b
    sums = xp.zeros((0, source.n_clusters), dtype=xp.float64, device=device)
    # The longest blocks come first: the j-th rows of all that have one are added at once, in a unit
    # in which no sum overflows.
    longest = len(blocks[0]) if blocks else 0
    unit = 2.0 ** longest.bit_length()
    for j in range(longest):
        rows = [rows[j] for rows in blocks if len(rows) > j]
        ids = xp.asarray(rows, dtype=xp.int64, device=device)
        part = xp.astype(source.take(ids), xp.float64) / unit
        sums = part if j == 0 else xp.concat([sums[: len(rows), :] + part, sums[len(rows) :, :]])
    lengths = xp.asarray([[len(rows)] for rows in blocks], dtype=xp.float64, device=device)
    means = sums / (xp.reshape(lengths, (-1, 1)) / unit)
    places = xp.asarray(places, dtype=xp.int64, device=device)
    return Problem(source, bounds, links, places, means)


class Relaxed(NamedTuple):
    """Labels of a relaxation, and its bound.

    Attributes
    ----------
    labels : (n,) int64 array
    prices : (k,) float64 array
    upper_bound : float
    parts : list of counters
        Of each block, how many of its rows have which label.
    cells : dict
        Of each clique that has been broken, the clusters in which it is bounded.
    """

    labels: Array
    prices: Array
    upper_bound: float
    parts: list[Counter[int]]
    cells: dict[int, set[int]]


def relaxed(problem: Problem, prices: Array | None) -> Relaxed:
    """Step 2 without cliques: the plain program."""
    found = assign_source(problem.of_means(), problem.bounds, prices=prices, tol=0.0)
    return _relaxed(problem, found, {})


def _relaxed(
    problem: Problem, found: OfflineAssignment | GroupedAssignment, cells: dict[int, set[int]]
) -> Relaxed:
    """Count the labels of each block."""
    xp, blocks = compat.array_namespace(found.labels), problem.links.blocks
    ids = [row for rows in blocks for row in rows]
    ids = xp.asarray(ids, dtype=xp.int64, device=compat.device(found.labels))
    flat = iter(entries("labels", xp.take(found.labels, ids)))
    parts = [Counter(int(next(flat)) for _ in rows) for rows in blocks]
    return Relaxed(found.labels, found.prices, found.upper_bound, parts, cells)


def tightened(problem: Problem, bound: Relaxed) -> Relaxed | None:
    """Step 2 with bounds on the cliques that labels have broken, or None where none is new.

    Nor where they are too many for Newton's method: paths alone would take minutes.
    """
    links, cells = problem.links, {c: {*over} for c, over in bound.cells.items()}
    for c, clique in enumerate(links.cliques):
        counts = sum((bound.parts[b] for b in clique), Counter[int]())
        over = {label for label, n in counts.items() if n > _most(links, c)}
        if over:
            cells[c] = cells.get(c, set()) | over
    n_nodes = sum(map(len, cells.values())) + problem.source.n_clusters
    if cells == bound.cells or n_nodes > MOST_NODES:
        return None
    xp, device = compat.array_namespace(bound.prices), compat.device(bound.prices)
    n, k = problem.source.group.n_total, problem.source.n_clusters
    groups, upper = [-1] * n, []
    for number, (c, clusters) in enumerate(cells.items()):
        rows = [row for b in links.cliques[c] for row in links.blocks[b]]
        for row in rows:
            groups[row] = number
        upper += [_most(links, c) if j in clusters else len(rows) for j in range(k)]
    table = xp.reshape(xp.asarray(upper, dtype=xp.int64, device=device), (len(cells), k))
    numbers = xp.asarray(groups, dtype=xp.int64, device=device)
    bounds = GroupBounds.from_counts(numbers, k, upper=table)
    start = bound.prices, xp.zeros(table.shape, dtype=xp.float64, device=device)
    try:
        found = assign_grouped(problem.of_means(), problem.bounds, bounds, prices=start)
    except InfeasibleBoundsError as error:
        names = [links.blocks[links.cliques[c][0]][0] for c in cells]
        shown = ", ".join(f"group {g} has row {row}" for g, row in enumerate(names[:10]))
        msg = f"with groups of rows that must all be apart ({shown}), {error}"
        raise InfeasibleBoundsError(msg, clusters=error.clusters, excess=error.excess) from error
    return _relaxed(problem, found, cells)


def _most(links: Links, clique: int) -> int:
    """Return how many rows of a clique a cluster takes at most: those of its largest block."""
    return max(len(links.blocks[b]) for b in links.cliques[clique])


def repaired(problem: Problem, bound: Relaxed) -> Array | None:
    """Step 3: labels that keep all links, or None where it is stuck.

    Blocks that keep their label are those of no broken pair, and of each pair the one that comes
    first: of more partners, then of more rows. The others get the best cluster in turn that none of
    their partners has, and all rows without links the best labels in what room is left.
    """
    links, blocks = problem.links, problem.links.blocks
    order = sorted(range(len(blocks)), key=lambda b: (-len(links.partners[b]), -len(blocks[b]), b))
    whole = [next(iter(part)) if len(part) == 1 else -1 for part in bound.parts]
    labels, waiting = [-1] * len(blocks), []
    room = [int(most) for most in entries("upper", problem.bounds.upper)]
    for b in order:
        label = whole[b]
        if label < 0 or any(labels[other] == label for other in links.partners[b]):
            waiting.append(b)
        else:
            labels[b] = label
            room[label] -= len(blocks[b])
    for b in waiting:
        size, taken = len(blocks[b]), {labels[other] for other in links.partners[b]}
        worth = entries("worth", problem.means[b, :] + bound.prices)
        free = [j for j in range(len(room)) if j not in taken and room[j] >= size]
        best = max(free, key=lambda j: worth[j], default=-1)
        if best < 0 or worth[best] == -math.inf:
            return None
        labels[b] = best
        room[best] -= size
    if not waiting:
        return bound.labels
    xp, device = compat.array_namespace(bound.prices), compat.device(bound.prices)
    own = xp.asarray(labels, dtype=xp.int64, device=device)
    clusters = xp.arange(problem.source.n_clusters, dtype=xp.int64, device=device)
    only = xp.where(clusters == own[:, None], problem.means, xp.full_like(problem.means, -math.inf))
    source = problem.with_rows(only)
    try:
        return assign_source(source, problem.bounds, prices=bound.prices, tol=0.0).labels
    except InfeasibleBoundsError:
        return None
