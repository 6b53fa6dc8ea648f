"""How long ``dualclust cluster --k-range`` will take, from fewer splits for the largest k.

The work of a k is that of its runs of k-means, about in proportion to k and to the rows of the
sample, and of its part of one look at all rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from ..algos.scores.blocks import block_rows
from ..algos.scores.sources import FeatureSource, feature_source
from ..algos.selection import choose_k, sample_rows
from ..algos.selection.choice import drawn_sample
from ..algos.selection.survey import Candidate, survey

__all__ = ["choice_forecast"]

FEWEST, PART, SPLITS = 8192, 4, 2
"""A sample of more rows is cut to a quarter, or so many; and it is split so many times."""


def choice_forecast(
    source: FeatureSource,
    ks: Sequence[int],
    shares: Sequence[tuple[float, float]],
    *,
    metric: str,
    seed: int,
    n_drawn: int | None,
    n_splits: int,
    n_init: int,
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """Return about how many seconds `choose_k` will take.

    Parameters
    ----------
    source : FeatureSource
        All rows, of one rank.
    ks, shares, metric, seed, n_drawn, n_splits, n_init
        As of `choose_k`.
    clock : callable, optional
        Seconds from any start.
    """
    n, k = source.group.n_total, ks[-1]
    whole = sample_rows(n, k, n_drawn=n_drawn)
    m = min(whole, max(FEWEST, whole // PART, 2 * k))
    rows = drawn_sample(source, k, m, seed)

    def compare(some: Any) -> None:
        choose_k(
            some,
            [k],
            shares=shares,
            metric=metric,
            seed=seed,
            n_drawn=len(some),
            n_splits=SPLITS,
            n_init=n_init,
        )

    for timed in (rows[: 4 * k], rows):  # the first time, for what is compiled on first use
        begun = clock()
        compare(timed)
        seconds = clock() - begun
    some = min(n, block_rows(k))
    begun = clock()
    source.rows(0, some)
    reading = 2.0 * (clock() - begun) * n / some
    begun = clock()
    survey(feature_source(rows), (Candidate(rows[:k]),) * (1 + len(shares)), metric=metric)
    judging = (clock() - begun) * n / m if whole < n else 0.0
    work = _runs(n_splits, n_init, len(shares)) / _runs(SPLITS, n_init, len(shares))
    return reading + (judging + seconds * work * whole / m) * sum(ks) / k


def _runs(n_splits: int, n_init: int, n_bounds: int) -> int:
    """Return how many runs on the whole sample take as long as all those of a k."""
    return n_init + 2 + n_init * n_splits + n_bounds * (1 + n_splits)
