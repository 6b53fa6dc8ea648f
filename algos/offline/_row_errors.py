"""Rows that no solver can label: what is wrong with them, and the same error on every rank.

A row with NaN or plus infinity has no meaning, one with nothing but minus infinity has no cluster,
and one with scores that are too large needs another unit (`scores.statistics`). Ranks agree on the
first such row before any of them raises; in the same message they say how many free rows they have.
"""

from __future__ import annotations

import math

import array_api_compat as compat

from ..bounds.farkas import FarkasVector
from ..bounds.infeasibility import infeasible
from ..core.errors import InvalidValueError
from ..core.reads import entries
from ..core.types import Array
from ..scores.sources import ScoreSource
from ..scores.statistics import ScoresOutOfRangeError

__all__ = ["OUT_OF_RANGE", "agree", "what_is_wrong"]

NOT_FINITE, NO_CLUSTER, OUT_OF_RANGE = 0, 1, 2
"""What can be wrong with a row."""


def what_is_wrong(row: Array) -> int:
    """Tell why a row has no best cluster, or one whose score is out of range."""
    xp = compat.array_namespace(row)
    if not bool(xp.all(row < math.inf)):  # true for NaN too
        return NOT_FINITE
    return OUT_OF_RANGE if bool(xp.any(xp.isfinite(row))) else NO_CLUSTER


def agree(
    source: ScoreSource, wrong: tuple[int, int], n_free: int, *, like: Array
) -> tuple[int, int]:
    """Raise on every rank if any rank has met a row with which something is wrong.

    Returns the place of this rank's first free row among those of all ranks, and their number.
    """
    xp, group, n_clusters = compat.array_namespace(like), source.group, source.n_clusters
    here = [[group.first_row, n_free, *wrong]]
    of_ranks = group.gather(xp.asarray(here, dtype=xp.int64, device=compat.device(like)))
    facts = entries("ranks", xp.reshape(of_ranks, (-1,)))
    firsts, frees = facts[::4], facts[1::4]
    earlier = (m for first, m in zip(firsts, frees, strict=True) if first < group.first_row)
    pairs = zip(facts[2::4], facts[3::4], strict=True)
    row, kind = min((pair for pair in pairs if pair[0] >= 0), default=(-1, 0))
    if row < 0:
        return sum(earlier), sum(frees)
    if kind == OUT_OF_RANGE:
        raise ScoresOutOfRangeError
    if kind == NO_CLUSTER:
        none = (0,) * n_clusters
        raise infeasible(FarkasVector(none, none, 0, None, row))
    msg = (
        f"scores must be finite, or minus infinity for a forbidden pair: row {row} is not so. "
        f"To fix this, check the features and centers behind that row, or drop it"
    )
    raise InvalidValueError(msg)
