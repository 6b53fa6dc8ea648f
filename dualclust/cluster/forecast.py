"""How long a clustering will take, from the same clustering of samples of its rows.

Problem: the time of an update and the number of updates depend on the data, both by factors of ten.
On a sample of the rows, with bounds in proportion, both can be seen. Samples grow by doubling, as
long as they cost little beside what is expected of all rows; a straight line through the times of
the largest and of one of a quarter of its rows tells the time of all rows, with what each pass
reads (benchmarks/results/dry_run.md).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import array_api_compat as compat

from ..algos.bounds.sizes import SizeBounds
from ..algos.clustering.constrained import constrained_kmeans
from ..algos.clustering.start import sample_rows
from ..algos.offline import DEFAULT_OPTIONS
from ..algos.scores.blocks import block_rows
from ..algos.scores.sources import FeatureSource, feature_source
from ..algos.scores.statistics import strided_ids

__all__ = ["Forecast", "forecast"]

MORE = 1.25
"""Scores of the smallest sample, in units of those below which a problem is solved at once."""

AT_LEAST, SHARE = 1.0, 0.1
"""A larger sample is tried if it will take at most a second, or so much of the time of all rows."""

LEAST_SLOPE = 0.25
"""Of the line, in units of the time of a row of the largest sample."""

OTHER_PASSES = 4
"""Over the rows, beside those of the updates: a check, the first and final labels, a measure."""


class Forecast(NamedTuple):
    """What a run is expected to take.

    Attributes
    ----------
    seconds : float
    updates : int
        Of the largest sample.
    rows : int
        Of that sample.
    """

    seconds: float
    updates: int
    rows: int


class _Run(NamedTuple):
    """A clustering of a sample: its rows, seconds and updates."""

    rows: int
    seconds: float
    updates: int


def forecast(
    source: FeatureSource,
    bounds: SizeBounds,
    draw: Callable[[], Any],
    *,
    weights: Any | None,
    clock: Callable[[], float] = time.perf_counter,
    **options: Any,
) -> Forecast:
    """Cluster samples of the rows, and say how long all of them will take.

    Parameters
    ----------
    source : FeatureSource
        All rows, of one rank.
    bounds : SizeBounds
        Of all rows.
    draw : callable
        Returns the starting centers.
    weights : (n,) float64 array, optional
    clock : callable, optional
        Seconds from any start.
    options
        Of `constrained_kmeans`.
    """
    n, k = source.group.n_total, bounds.n_clusters
    begun = clock()
    centers = draw()
    first = clock() - begun
    begun, some = clock(), min(n, block_rows(k))
    source.rows(0, some)
    of_a_row = (clock() - begun) / max(some, 1)
    m = sample_rows(n, k)
    if n * k > DEFAULT_OPTIONS.full_entries:  # a sample is solved as all rows are
        m = max(m, int(MORE * DEFAULT_OPTIONS.full_entries / k))
    m = n if 2 * m > n else m
    warm = dict(options, max_iter=min(options["max_iter"], 1))
    _run(source, bounds, centers, weights, m, clock, warm)  # what is compiled on first use
    runs = [_run(source, bounds, centers, weights, m, clock, options)]
    while 4 * runs[-1].rows <= n:
        last = runs[-1]
        if 2.0 * last.seconds > max(AT_LEAST, SHARE * _extended(runs, n)):
            break
        runs.append(_run(source, bounds, centers, weights, 2 * last.rows, clock, options))
    last = runs[-1]
    reading = of_a_row * n * (last.updates + OTHER_PASSES)
    return Forecast(first + reading + _extended(runs, n), last.updates, last.rows)


def _run(
    source: FeatureSource,
    bounds: SizeBounds,
    centers: Any,
    weights: Any | None,
    m: int,
    clock: Callable[[], float],
    options: dict[str, Any],
) -> _Run:
    """Cluster m rows from all over the data, with bounds in proportion."""
    n, xp = source.group.n_total, compat.array_namespace(bounds.lower)
    ids = xp.sort(strided_ids(n, m, bounds.lower))
    some = feature_source(source.take(ids))._replace(multiply=source.multiply)
    place = {"xp": xp, "device": compat.device(bounds.lower)}
    inside = SizeBounds.from_counts(
        bounds.lower * m // n, -(-bounds.upper * m // n), n_samples=m, **place
    )
    own = None if weights is None else xp.take(weights, ids)
    begun = clock()
    found = constrained_kmeans(some, inside, centers, weights=own, **options)
    return _Run(m, clock() - begun, found.n_iter)


def _extended(runs: list[_Run], n: int) -> float:
    """Return the seconds of n rows by the largest run and one of a quarter of its rows."""
    last, before = runs[-1], runs[max(len(runs) - 3, 0)]
    slope = last.seconds / last.rows
    if len(runs) > 1:
        rise = (last.seconds - before.seconds) / (last.rows - before.rows)
        slope = max(rise, LEAST_SLOPE * slope)
    return last.seconds + slope * (n - last.rows)
