"""Steps of `linked`: blocks of rows, their relaxation, and labels for them that break no pair."""

from __future__ import annotations

import math
from typing import NamedTuple

import array_api_compat as compat

from ...bounds.groups import GroupBounds
from ...bounds.sizes import SizeBounds
from ...core.errors import InfeasibleBoundsError
from ...core.reads import entries
from ...core.types import Array
from ...scores.sources import ScoreSource
from ..assignment import assign_source
from ._links import Links
from ._search import MOST_NODES
from .assignment import assign_grouped

__all__ = [
    "Problem",
    "Relaxed",
    "completed",
    "merged",
    "n_moved",
    "relaxed",
    "repaired",
    "tightened",
]


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
            factors=None,
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
    parts : list of dicts
        Of each block, how many of its rows have which label.
    of_blocks : list of int
        The label of all its rows, or -1.
    cells : dict
        Of each clique that has been broken, the clusters in which it is bounded.
    clique_prices : (c, k) float64 array, or None
        Of these cliques.
    """

    labels: Array
    prices: Array
    upper_bound: float
    parts: list[dict[int, int]]
    of_blocks: list[int]
    cells: dict[int, set[int]]
    clique_prices: Array | None = None


def relaxed(problem: Problem, prices: Array | None) -> Relaxed:
    """Step 2 without cliques: the plain program."""
    found = assign_source(problem.of_means(), problem.bounds, prices=prices, tol=0.0)
    parts = _parts(problem, found.labels)
    return Relaxed(found.labels, found.prices, found.upper_bound, parts, _whole(parts), {})


def tightened(problem: Problem, bound: Relaxed) -> Relaxed | None:
    """Step 2 with bounds on the cliques that labels have broken, or None where none is new.

    Nor where they are too many for Newton's method: paths alone would take minutes.
    """
    links, cells, is_new = problem.links, {c: {*over} for c, over in bound.cells.items()}, False
    for c, clique in enumerate(links.cliques):
        counts: dict[int, int] = {}
        for b in clique:
            for label, n in bound.parts[b].items():
                counts[label] = counts.get(label, 0) + n
        over = {label for label, n in counts.items() if n > _most(links, c)}
        is_new = is_new or not over <= cells.get(c, set())
        if over:
            cells.setdefault(c, set()).update(over)
    is_few = sum(map(len, cells.values())) + problem.source.n_clusters <= MOST_NODES
    return _with_cliques(problem, bound, cells) if is_new and is_few else None


def _most(links: Links, clique: int) -> int:
    """Return how many rows of a clique a cluster takes at most: those of its largest block."""
    return max(len(links.blocks[b]) for b in links.cliques[clique])


def _with_cliques(problem: Problem, bound: Relaxed, cells: dict[int, set[int]]) -> Relaxed:
    xp, device = compat.array_namespace(bound.prices), compat.device(bound.prices)
    n, k, links = problem.source.group.n_total, problem.source.n_clusters, problem.links
    groups, upper = [-1] * n, []
    for number, (c, clusters) in enumerate(cells.items()):
        rows = [row for b in links.cliques[c] for row in links.blocks[b]]
        for row in rows:
            groups[row] = number
        upper += [_most(links, c) if j in clusters else len(rows) for j in range(k)]
    table = xp.reshape(xp.asarray(upper, dtype=xp.int64, device=device), (len(cells), k))
    numbers = xp.asarray(groups, dtype=xp.int64, device=device)
    bounds = GroupBounds.from_counts(numbers, k, upper=table)
    prices = xp.zeros(table.shape, dtype=xp.float64, device=device)
    if bound.clique_prices is not None:
        prices = xp.concat([bound.clique_prices, prices[bound.clique_prices.shape[0] :, :]])
    start = bound.prices, prices
    try:
        found = assign_grouped(problem.of_means(), problem.bounds, bounds, prices=start)
    except InfeasibleBoundsError as error:
        names = [links.blocks[links.cliques[c][0]][0] for c in cells]
        shown = ", ".join(f"group {g} has row {row}" for g, row in enumerate(names[:10]))
        msg = f"with groups of rows that must all be apart ({shown}), {error}"
        raise InfeasibleBoundsError(msg, clusters=error.clusters, excess=error.excess) from error
    parts = _parts(problem, found.labels)
    return Relaxed(
        found.labels,
        found.prices,
        found.upper_bound,
        parts,
        _whole(parts),
        cells,
        found.group_prices,
    )


def _whole(parts: list[dict[int, int]]) -> list[int]:
    return [next(iter(part)) if len(part) == 1 else -1 for part in parts]


def _parts(problem: Problem, labels: Array) -> list[dict[int, int]]:
    """Return how many rows of each block have which label."""
    xp, device = compat.array_namespace(labels), compat.device(labels)
    blocks = problem.links.blocks
    ids = xp.asarray([row for rows in blocks for row in rows], dtype=xp.int64, device=device)
    flat = iter(entries("labels", xp.take(labels, ids)))
    parts: list[dict[int, int]] = []
    for rows in blocks:
        counts: dict[int, int] = {}
        for _ in rows:
            label = int(next(flat))
            counts[label] = counts.get(label, 0) + 1
        parts.append(counts)
    return parts


def repaired(problem: Problem, bound: Relaxed) -> list[int] | None:
    """Step 3: a cluster for each block that none of its partners has, or None where it is stuck.

    Blocks that keep their label are those of no broken pair, and of each pair the one that comes
    first: of more partners, then of more rows.
    """
    links, bounds = problem.links, problem.bounds
    order = sorted(
        range(len(links.blocks)), key=lambda b: (-len(links.partners[b]), -len(links.blocks[b]), b)
    )
    labels = [-1] * len(links.blocks)
    room = [int(most) for most in entries("upper", bounds.upper)]
    waiting = []
    for b in order:
        label = bound.of_blocks[b]
        if label < 0 or any(labels[other] == label for other in links.partners[b]):
            waiting.append(b)
        else:
            labels[b] = label
            room[label] -= len(links.blocks[b])
    for b in waiting:
        size, taken = len(links.blocks[b]), {labels[other] for other in links.partners[b]}
        worth = entries("worth", problem.means[b, :] + bound.prices)
        free = [j for j in range(len(room)) if j not in taken and room[j] >= size]
        best = max(free, key=lambda j: worth[j], default=-1)
        if best < 0 or worth[best] == -math.inf:
            return None
        labels[b] = best
        room[best] -= size
    return labels


def completed(problem: Problem, bound: Relaxed, of_blocks: list[int]) -> Array | None:
    """Return the best labels of all rows with those of blocks given, or None if there are none."""
    if of_blocks == bound.of_blocks:
        return bound.labels
    like = bound.prices
    xp, device = compat.array_namespace(like), compat.device(like)
    own = xp.asarray(of_blocks, dtype=xp.int64, device=device)
    clusters = xp.arange(problem.source.n_clusters, dtype=xp.int64, device=device)
    only = xp.where(clusters == own[:, None], problem.means, xp.full_like(problem.means, -math.inf))
    source = problem.with_rows(only)
    try:
        return assign_source(source, problem.bounds, prices=like, tol=0.0).labels
    except InfeasibleBoundsError:
        return None


def n_moved(problem: Problem, bound: Relaxed, labels: Array) -> int:
    xp = compat.array_namespace(labels)
    is_other = (problem.places >= 0) & (labels != bound.labels)
    return int(xp.sum(xp.astype(is_other, xp.int64)))
