"""Near-duplicates, and samples that are like no other, by the nearest neighbor of each.

No threshold says what a near-duplicate is: the most alike are shown with their cosine, and whoever
looks at them decides.
"""

from __future__ import annotations

from itertools import chain
from typing import NamedTuple

import numpy as np

from .state import Floats, Ints

__all__ = ["Alike", "groups_and_loners"]

GROUPS, ALONE = 12, 24
"""Groups on a page, and samples that are alone."""

SHARE = 20
"""Of so many samples one may be listed, lest half of a small folder is."""

COPY = 0.9999
"""Cosine from which two samples are the same to the encoder, but for rounding."""


class Alike(NamedTuple):
    """Positions of samples.

    Attributes
    ----------
    groups : list of lists of int. The most alike first.
    least : list of float. Least cosine of a pair that joined a group.
    alone : list of int. The farthest from all others first; none is in a group.
    copies : int. Samples whose nearest neighbor is their copy.
    """

    groups: list[list[int]]
    least: list[float]
    alone: list[int]
    copies: int


def groups_and_loners(near: Ints, cosines: Floats) -> Alike:
    """Join samples with their nearest neighbors, the most alike first, up to `GROUPS` groups.

    Copies are joined, and beside them one in `SHARE` of the samples; as many may be alone.

    Parameters
    ----------
    near : (n,) int64 array. The nearest other sample of each.
    cosines : (n,) float64 array

    Examples
    --------
    >>> groups_and_loners(np.array([1, 0, 1, 2]), np.array([1.0, 1.0, 0.8, 0.1]))
    Alike(groups=[[0, 1]], least=[1.0], alone=[], copies=2)
    """
    order = np.argsort(-cosines, kind="stable").tolist()
    copies, some = int((cosines >= COPY).sum()), len(order) // SHARE
    group_of: dict[int, int] = {}
    groups: dict[int, list[int]] = {}
    least: dict[int, float] = {}
    for i in order[: copies + some]:
        pair = i, int(near[i])
        joined = sorted({group_of[x] for x in pair if x in group_of})
        if not joined and len(groups) == GROUPS:
            break
        at = joined[0] if joined else len(group_of)
        before = chain(*(groups.pop(other) for other in joined))
        groups[at] = list(dict.fromkeys([*before, *pair]))
        group_of |= dict.fromkeys(groups[at], at)
        least[at] = float(cosines[i])
    alone = [i for i in reversed(order) if i not in group_of]
    return Alike(
        [groups[at] for at in sorted(groups)],
        [least[at] for at in sorted(groups)],
        alone[: min(some, ALONE)],
        copies,
    )
