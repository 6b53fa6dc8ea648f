r"""Blocks of a source that workers compute before they are asked for.

Problem: scores of a block are a product of its rows with the centers. They need no prices, which
one thread learns in the meantime from a few rows, by steps that wait for each other. So workers
begin with the blocks that come next, and hold them until a pass asks for them.

=================  ===============  ==============  ==========================================
symbol             here             shape           meaning
=================  ===============  ==============  ==========================================
:math:`s_{i,k}`    ``block(a, b)``  (b - a, k)      scores of rows a to b of this rank
=================  ===============  ==============  ==========================================

A block that is asked for a second time is computed anew, and its scores are the same: whether one
was ready decides on no bit of a result, only on the time that it takes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from ..core.types import Array
from ..core.workers import begun
from .blocks import block_rows, row_blocks
from .sources import ScoreSource

__all__ = ["HELD_ENTRIES", "blocks_ahead"]

HELD_ENTRIES = 2**22
"""Scores that one context holds for later at most: 16 MiB of float32."""


@contextmanager
def blocks_ahead(
    source: ScoreSource, *, like: Array, edges: Iterable[tuple[int, int]] | None = None
) -> Iterator[ScoreSource]:
    """Let workers begin with the first blocks of a pass; yields the source that has them ready.

    Parameters
    ----------
    source : ScoreSource
    like : array
        Of the library and device of the scores. Where no workers share out its passes, and where
        ranks read a source together, nothing is begun.
    edges : iterable of (int, int), optional
        Blocks ``block(start, stop)`` in the order in which the pass will ask for them; those of
        `ScoreSource.map_blocks` by default.

    Raises
    ------
    Exception
        Whatever a block raises, when it is asked for.

    Notes
    -----
    Memory: up to `HELD_ENTRIES` scores in each context, until they are asked for or it ends. An
    assignment has three open at most, of the pass over all rows and of two samples; and one more,
    mostly empty, after a reach that was wrong.

    Examples
    --------
    >>> import numpy as np
    >>> from dualclust.algos.core.workers import workers
    >>> from dualclust.algos.scores.sources import score_source
    >>> source = score_source(np.eye(4))
    >>> with workers(2), blocks_ahead(source, like=np.zeros(1)) as ready:
    ...     print(ready.block(0, 4))
    [[1. 0. 0. 0.]
     [0. 1. 0. 0.]
     [0. 0. 1. 0.]
     [0. 0. 0. 1.]]
    """
    if edges is None:
        edges = row_blocks(source.group.n_local, block_rows(source.n_clusters, like=like))

    def scores(edge: tuple[int, int]) -> Array:
        return source.block(*edge)

    like_of_pass = None if source.in_turn else like
    with begun(scores, _held(edges, source.n_clusters), like=like_of_pass) as block:
        yield source._replace(block=lambda start, stop: block((start, stop)))


def _held(edges: Iterable[tuple[int, int]], k: int) -> Iterator[tuple[int, int]]:
    """The first blocks that have `HELD_ENTRIES` scores at most, together."""
    n_held = 0
    for start, stop in edges:
        n_held += k * (stop - start)
        if n_held > HELD_ENTRIES:
            return
        yield start, stop
