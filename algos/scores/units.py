r"""Scores in a unit in which sums neither overflow nor vanish: powers of two, hence exact.

Problem: the best labels do not depend on the unit of the scores, float64 does. Two scores of 1e308
add up to infinity, a bound that is infinite proves nothing, a score times a weight that leaves the
range reads as a forbidden pair, and below 2e-308 prices have fewer digits than scores. So scores
of which the largest is not within 2^-100 ... 2^100 are multiplied by a power of two before
anything is computed, and what is found is multiplied back.

Almost all scores need nothing of this, and reading all of them for their largest would cost as
much as a pass. A few rows decide; a row that they do not know and that is out of range is met in a
pass over the scores (`shortlists`), which then says so with `ScoresOutOfRangeError`.

=================  ====================  ======  ================================================
symbol             here                  shape   meaning
=================  ====================  ======  ================================================
:math:`2^e`        ``source.exponent``   ()      unit: true scores are 2^e times those of a source
=================  ====================  ======  ================================================
"""

from __future__ import annotations

import math

import array_api_compat as compat

from ..core.types import Array
from .sources import ScoreSource, block_rows, largest_score, times_power_of_two

__all__ = ["FAR", "ScoresOutOfRangeError", "check_range", "in_range", "rescaled"]

FAR = 100  # exponent of the largest score, either sign, up to which nothing is done
LARGEST = {32: 2.0**FAR, 64: 2.0**900}  # in a pass, by the bits of the dtype


class ScoresOutOfRangeError(Exception):
    """Scores are so large that sums of them would overflow: they need another unit."""


def check_range(values: Array) -> bool:
    """Whether sums of any number of these finite scores, and of prices like them, stay finite."""
    xp = compat.array_namespace(values)
    return largest_score(values) <= LARGEST.get(xp.finfo(values.dtype).bits, LARGEST[32])


def in_range(source: ScoreSource, ids: Array) -> ScoreSource:
    """The source itself, or, where the rows `ids` say so, in another unit.

    Parameters
    ----------
    source : ScoreSource
    ids : (m,) int64 array
        A few rows of all ranks.

    Returns
    -------
    ScoreSource
    """
    largest = largest_score(source.take(ids))
    if largest > 0.0 and abs(math.frexp(largest)[1]) <= FAR:
        return source
    return rescaled(source)


def rescaled(source: ScoreSource) -> ScoreSource:
    """The source in float64, in a unit in which its largest finite score is within range.

    Parameters
    ----------
    source : ScoreSource

    Returns
    -------
    ScoreSource
        The same on all ranks. Scores keep all digits unless they are 2^-1122 times the largest.

    Notes
    -----
    Cost: one pass over all scores.

    Examples
    --------
    >>> import numpy as np
    >>> from dualclust.algos.scores.sources import score_source
    >>> found = rescaled(score_source(np.asarray([[2.0**1023, 1.0]])))
    >>> found.exponent, found.block(0, 1) == [[2.0**99, 2.0**-924]]
    (924, array([[ True,  True]]))
    """
    group, rows = source.group, block_rows(source.n_clusters)
    here = 0.0
    for start in range(0, group.n_local, rows):
        block = source.block(start, min(start + rows, group.n_local))
        here = max(here, largest_score(block))
    empty = source.block(0, 0)
    xp, device = compat.array_namespace(empty), compat.device(empty)
    of_ranks = group.gather(xp.asarray([here], dtype=xp.float64, device=device))
    largest = math.frexp(float(xp.max(of_ranks)))[1]
    exponent = max(largest - FAR, 0) + min(largest + FAR, 0)

    def scaled(block: Array) -> Array:
        return times_power_of_two(xp.astype(block, xp.float64), -exponent)

    return source._replace(
        block=lambda start, stop: scaled(source.block(start, stop)),
        take=lambda ids: scaled(source.take(ids)),
        exponent=source.exponent + exponent,
    )
