r"""Sequential passes over rows that are shared out over ranks: one rank after the other.

Problem: in an online pass each label depends on the rows before it, so ranks cannot go through
their rows at the same time. They take turns instead, in the order of the rows: a rank goes through
some blocks of its own and hands on what the next row depends on, a few numbers per cluster. The
result is that of one rank to the last bit, no rank reads the rows of another, and the time is that
of one rank.

A turn is short (`TURN_ROWS`), because those who wait give up on a rank that says nothing for long.

==============  ===============  =======  =====================================================
symbol          here             shape    meaning
==============  ===============  =======  =====================================================
\-              ``turn``         ()       rows of one rank, and whether this is the rank
\-              ``arrays``       any      what the next row depends on, of one shape on all ranks
==============  ===============  =======  =====================================================
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import array_api_compat as compat

from ..core.types import Array
from .blocks import MOST_ROWS, row_blocks
from .sources import Group

__all__ = ["TURN_ROWS", "Turn", "hand_on", "turns_of"]

TURN_ROWS = 2**7 * MOST_ROWS
"""Rows of a turn: whole blocks, a million rows."""


class Turn(NamedTuple):
    """Rows `start` to `stop` of the rank whose turn it is; `is_own` on that rank alone."""

    start: int
    stop: int
    is_own: bool


def turns_of(group: Group, *, like: Array) -> Iterator[Turn]:
    """Yield the turns of all ranks, the same number on each, in the order of the rows.

    Parameters
    ----------
    group : Group
    like : array
        Of the library and device in which the ranks exchange arrays.

    Examples
    --------
    >>> import numpy as np
    >>> from dualclust.algos.scores.sources import alone
    >>> list(turns_of(alone(5), like=np.zeros(1)))
    [Turn(start=0, stop=5, is_own=True)]
    """
    if group.is_alone:
        for start, stop in row_blocks(group.n_local, TURN_ROWS):
            yield Turn(start, stop, is_own=True)
        return
    xp, device = compat.array_namespace(like), compat.device(like)
    own = xp.asarray([[group.first_row, group.n_local]], dtype=xp.int64, device=device)
    shares = group.gather(own)
    for rank in range(shares.shape[0]):
        first, n = (int(shares[rank, column]) for column in (0, 1))
        is_own = group.n_local > 0 and first == group.first_row
        for start, stop in row_blocks(n, TURN_ROWS):
            yield Turn(start, stop, is_own)


def hand_on(group: Group, turn: Turn, arrays: Sequence[Array]) -> list[Array]:
    """Return the arrays of the rank whose turn it was, on every rank.

    Parameters
    ----------
    group : Group
    turn : Turn
        That has just ended.
    arrays : sequence of array
        On the other ranks only shape, dtype and device matter.

    Examples
    --------
    >>> import numpy as np
    >>> from dualclust.algos.scores.sources import alone
    >>> hand_on(alone(5), Turn(0, 5, is_own=True), [np.asarray([1, 2])])
    [array([1, 2])]
    """
    if group.is_alone:
        return list(arrays)
    xp = compat.array_namespace(*arrays)
    sent = [array[None, ...] if turn.is_own else array[None, ...][:0, ...] for array in arrays]
    return [xp.squeeze(group.gather(array), axis=0) for array in sent]
