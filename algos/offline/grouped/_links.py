"""Pairs of rows that must or must not be together, as blocks, partners and cliques: on the host."""

from __future__ import annotations

from typing import NamedTuple

from ...core.errors import InfeasibleBoundsError

__all__ = ["Links", "links_of"]

Pairs = list[tuple[int, int]]


class Links(NamedTuple):
    """Rows of all pairs.

    Attributes
    ----------
    blocks : list of lists of int
        Rows that must be together, the longest first; one row where only other pairs name it.
    partners : list of sets of int
        Of each block those that it must not be with.
    cliques : list of lists of int
        Blocks that are all partners of each other, at least two; no block is in two cliques.
    """

    blocks: list[list[int]]
    partners: list[set[int]]
    cliques: list[list[int]]


def links_of(must: Pairs, cannot: Pairs, k: int) -> Links:
    """Merge pairs into blocks, and cover those that must be apart by cliques.

    Raises
    ------
    InfeasibleBoundsError
        For rows that must be together and apart, a clique of more blocks than clusters, and for two
        clusters a cycle of an odd number of blocks.
    """
    blocks = _blocks(must, cannot)
    place = {row: b for b, rows in enumerate(blocks) for row in rows}
    partners: list[set[int]] = [set() for _ in blocks]
    for i, j in cannot:
        if place[i] == place[j]:
            _refuse(f"rows {i} and {j} must be together, by the pairs of must_link, and apart", k)
        partners[place[i]].add(place[j])
        partners[place[j]].add(place[i])
    links = Links(blocks, partners, _cliques(partners))
    for clique in links.cliques:
        if len(clique) > k:
            _refuse(f"rows {_rows(links, clique)} must all be apart", k)
    if k == 2 and (cycle := _odd_cycle(partners)):
        _refuse(f"rows {_rows(links, cycle)} must each be apart from the next, in a circle", k)
    return links


def _refuse(what: str, k: int) -> None:
    msg = f"no labels keep the links: {what}, in k={k} clusters. To fix this, leave out a pair"
    raise InfeasibleBoundsError(msg, clusters=tuple(range(k)), excess=1)


def _rows(links: Links, blocks: list[int]) -> str:
    """Write the first row of each block, cut after ten."""
    names = [str(links.blocks[b][0]) for b in blocks[:10]]
    names += [f"{len(blocks) - 10} more"] if len(blocks) > 10 else []
    return f"{', '.join(names[:-1])} and {names[-1]}"


def _blocks(must: Pairs, cannot: Pairs) -> list[list[int]]:
    """Return the rows that are linked by way of any pairs, and those of other pairs alone."""
    root: dict[int, int] = {}

    def top(row: int) -> int:
        root.setdefault(row, row)
        while root[row] != row:
            root[row] = root[root[row]]
            row = root[row]
        return row

    for i, j in must:
        a, b = top(i), top(j)
        root[max(a, b)] = min(a, b)
    for pair in cannot:
        for row in pair:
            top(row)
    found: dict[int, list[int]] = {}
    for row in sorted(root):
        found.setdefault(top(row), []).append(row)
    return sorted(found.values(), key=lambda rows: -len(rows))


def _cliques(partners: list[set[int]]) -> list[list[int]]:
    """Grow a clique from each block that is in none yet, those of most partners first."""
    free = {b for b, others in enumerate(partners) if others}
    found = []
    for b in sorted(free, key=lambda b: (-len(partners[b]), b)):
        if b not in free:
            continue
        clique, others = [b], partners[b] & free
        while others:
            nearest = max(others, key=lambda c: (len(partners[c] & others), -c))
            clique.append(nearest)
            others = others & partners[nearest]
        if len(clique) > 1:
            free.difference_update(clique)
            found.append(sorted(clique))
    return found


def _odd_cycle(partners: list[set[int]]) -> list[int]:
    """Return blocks each of which is a partner of the next, oddly many; empty if two colors do."""
    depth: dict[int, int] = {}
    parent: dict[int, int] = {}
    for start in range(len(partners)):
        if start in depth:
            continue
        depth[start], queue = 0, [start]
        for b in queue:  # breadth first: partners in one component differ by a step at most
            for other in sorted(partners[b]):
                if other not in depth:
                    depth[other], parent[other] = depth[b] + 1, b
                    queue.append(other)
                elif depth[other] == depth[b]:
                    up, down = [b], [other]
                    while up[-1] != down[-1]:
                        up.append(parent[up[-1]])
                        down.append(parent[down[-1]])
                    return up + down[-2::-1]
    return []
