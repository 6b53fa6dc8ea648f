r"""Choosing k and bounds: clusterings of one sample for several k, judged on it and on all rows.

1. *Sample*: rows from all over the data, in memory. With m rows a cluster of the largest k, the
   centers of a sample lose about 1/m of the squared distances on other rows (a mean of m rows has
   1/m of their variance): 1 % for 128 rows.
2. *For each k*: k-means without bounds, then with each bounds from there, on two halves of the
   sample, for several splits, and on all of it (`_runs`); and on rows without clusters
   (`reference`).
3. *Survey*: all clusterings are judged on the sample, and again on all rows of all ranks, which are
   read once for all k together (`survey`).
4. *Price of balance*: what bounds lose of the free objective V,
   ``(V - V_bounded) / V >= (V - D) / V``. For V we take the best labels without bounds for any
   centers found for this k, those of the bounded runs included, so that a price is never negative.
   D is the upper bound on labels inside the bounds for the bounded run's centers: so much is lost
   there, whatever the labels. On all rows D is that of the sample's prices (weak duality), so one
   pass proves it.
5. *Recommendation*: `recommendation`.

=====================  ==============  =======  ===================================================
symbol                 here            shape    meaning
=====================  ==============  =======  ===================================================
k                      ``ks``          (a,)     numbers of clusters
l, u                   ``shares``      (b, 2)   bounds in units of n / k; row 0 is without
\-                     figures         (a, b)   for each k and bounds
=====================  ==============  =======  ===================================================
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import array_api_compat as compat

from ..clustering.start import METRICS, power_of_two
from ..core.checks import check_choice, check_count, check_finite, check_interval, shown
from ..core.errors import InvalidTypeError, InvalidValueError
from ..core.types import Array
from ..scores.sources import FeatureSource, feature_source
from ..scores.statistics import strided_ids
from ._runs import FREE, Run, Shares, bounds_of, halves, runs_of, stabilities
from .reference import reference_rows
from .result import ChoiceOfK, Parts, result_of
from .survey import Candidate, Survey, survey

__all__ = ["choose_k", "drawn_sample", "sample_rows"]

FEWEST_ROWS, ROWS_PER_CLUSTER = 2**12, 128
"""Rows of the sample at least, and for each cluster of the largest k."""

Progress = Callable[[int, int], None]


def choose_k(
    features: Array | FeatureSource,
    ks: Sequence[int],
    *,
    shares: Sequence[Shares] = (),
    metric: str = "cosine",
    seed: int = 0,
    n_drawn: int | None = None,
    n_splits: int = 5,
    n_init: int = 2,
    progress: Progress | None = None,
) -> ChoiceOfK:
    """Compare several numbers of clusters, and several bounds, and recommend one if it stands out.

    Parameters
    ----------
    features : (n, d) real array, or FeatureSource
        Finite; unit rows for "cosine".
    ks : sequence of int
        Numbers of clusters, each at least 2, rising.
    shares : sequence of pairs (lower, upper), optional
        Bounds to compare, in units of the mean size n / k, with ``lower <= 1 <= upper``; rounded
        outward. Clustering without bounds is always compared.
    metric : {"cosine", "euclidean"}
    seed : int in [0, 2^63)
        Determines the sample, the splits and all starts.
    n_drawn : int, optional
        Rows of the sample, at least twice the largest k; by default 128 for each cluster of the
        largest k and at least 4096, or all rows if there are not more.
    n_splits : int >= 2
        Splits into halves, for stability.
    n_init : int >= 1
        Starts of each k-means without bounds.
    progress : callable, optional
        Called as ``progress(done, total)`` after each k.

    Returns
    -------
    ChoiceOfK

    Raises
    ------
    InvalidValueError, InvalidTypeError, DeviceMismatchError
        For ks, shares and numbers out of range, fewer rows than 2 k, and features that
        `constrained_kmeans` refuses.

    Notes
    -----
    Cost, for each k: ``n_init + 1`` k-means runs on the sample and one for each bounds, ``n_init``
    and one for each bounds on half of it ``2 n_splits`` times, and one on a reference of as many
    rows as the sample; one more without bounds wherever those with bounds end in better centers.
    Then one pass over all rows, O(n d (1 + b) sum k) for b bounds, unless the sample has them all.
    Memory: sample and reference, one of them in float64, the labels of each run on the sample, and
    the scores of one block of rows for all clusterings.
    Guarantee: ``0 <= price_proven <= price``; labels, hence all figures, are the same for any
    number of ranks. Which k is recommended is a heuristic, whose errors are measured
    (`benchmarks/results/choice.md`).

    Examples
    --------
    >>> import numpy as np
    >>> corners = np.asarray([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0]])
    >>> rng = np.random.default_rng(0)
    >>> x = corners[rng.integers(3, size=300)] + rng.normal(size=(300, 2))
    >>> found = choose_k(x, [2, 3, 4], shares=[(0.5, 2.0)], metric="euclidean")
    >>> found.recommended, found.recommended_shares, bool(found.price[1, 1] < 0.01)
    (3, (0.5, 2.0), True)
    """
    source = features if isinstance(features, FeatureSource) else feature_source(features)
    numbers, pairs = _numbers(ks), _pairs(shares)
    check_choice("metric", metric, METRICS)
    if check_count("seed", seed, 0) >= 2**63:
        msg = f"seed must be below 2^63, got {seed}. To fix this, pass a smaller number"
        raise InvalidValueError(msg)
    check_count("n_splits", n_splits, 2)
    check_count("n_init", n_init, 1)
    rows = drawn_sample(source, numbers[-1], n_drawn, seed)
    inner, unit, rows = _around_mean(source, rows, metric)
    m = int(rows.shape[0])
    splits = [halves(m, seed + 1 + t, rows) for t in range(n_splits)]
    null = reference_rows(rows, metric=metric, seed=seed)
    runs: list[list[Run]] = []
    found: list[list[list[float]]] = []
    plain: list[Run] = []
    for done, k in enumerate(numbers):
        options: dict[str, Any] = {"metric": metric, "seed": seed, "n_init": n_init}
        agreements, start = stabilities(rows, k, pairs, splits, **options)
        found.append(agreements)
        runs.append(runs_of(rows, k, pairs, centers=start, **options))
        plain += runs_of(null, k, (FREE,), metric=metric, seed=seed, n_init=1)
        if progress is not None:
            progress(done + 1, len(numbers))
    own = _surveyed(feature_source(rows), runs, pairs, metric)
    whole = source.group.n_total == m
    of_all = own if whole else _surveyed(inner, runs, pairs, metric, judged=False)
    reference = survey(
        feature_source(null), tuple(Candidate(run.centers) for run in plain), metric=metric
    )
    return result_of(
        Parts(numbers, pairs, runs, found, own, of_all, list(reference)),
        rows,
        unit * unit,
        source.group.n_total,
    )


def sample_rows(n: int, most: int, *, n_drawn: int | None = None) -> int:
    """Return how many of n rows `choose_k` draws, for the largest k it looks at.

    Examples
    --------
    >>> sample_rows(10**6, 10), sample_rows(10**6, 100), sample_rows(500, 10)
    (4096, 12800, 500)
    """
    if n_drawn is None:
        n_drawn = max(FEWEST_ROWS, ROWS_PER_CLUSTER * most)
    return min(check_count("n_drawn", n_drawn, 2 * most), n)


def _numbers(ks: Sequence[int]) -> list[int]:
    if isinstance(ks, str) or not isinstance(ks, Sequence):
        msg = (
            f"ks must be a sequence of ints, got {shown(ks)} ({type(ks).__name__})"
            ". To fix this, pass a list such as [5, 10, 20]"
        )
        raise InvalidTypeError(msg)
    numbers = [check_count(f"ks[{i}]", k, 2) for i, k in enumerate(ks)]
    if not numbers or any(a >= b for a, b in pairwise(numbers)):
        msg = f"ks must be rising numbers, at least one, got {shown(ks)}. To fix this, sort them"
        raise InvalidValueError(msg)
    return numbers


def _pairs(shares: Sequence[Shares]) -> tuple[Shares, ...]:
    """Return `FREE` and the pairs given, checked."""
    pairs = [FREE]
    for i, pair in enumerate(shares):
        if isinstance(pair, str) or not isinstance(pair, Sequence) or len(pair) != 2:
            msg = (
                f"shares[{i}] must be a pair (lower, upper), got {shown(pair)}"
                ". To fix this, pass for example (0.9, 1.1)"
            )
            raise InvalidTypeError(msg)
        low = check_interval(f"shares[{i}][0]", pair[0], 0.0, 1.0)
        high = math.inf
        if pair[1] != math.inf:
            high = check_interval(f"shares[{i}][1]", pair[1], 1.0, math.inf)
        if (low, high) not in pairs:
            pairs.append((low, high))
    return tuple(pairs)


def drawn_sample(source: FeatureSource, most: int, n_drawn: int | None, seed: int) -> Array:
    """Return the rows of the sample, in memory, the same on all ranks."""
    n, like = source.group.n_total, source.rows(0, 0)
    if n < 2 * most:
        msg = (
            f"features must have at least two rows per cluster, got {n} rows for k={most}. To fix "
            f"this, ask for fewer clusters"
        )
        raise InvalidValueError(msg)
    m = sample_rows(n, most, n_drawn=n_drawn)
    xp, device = compat.array_namespace(like), compat.device(like)
    ids = xp.arange(n, dtype=xp.int64, device=device)
    if m < n:
        ids = (strided_ids(n, m, like) + seed * 0x9E3779B1 % n) % n
    return source.take(ids)


def _around_mean(
    source: FeatureSource, rows: Array, metric: str
) -> tuple[FeatureSource, float, Array]:
    """Return source and sample around the sample's mean, with entries of about 1; and the unit."""
    if metric == "cosine":
        return source, 1.0, rows
    xp = compat.array_namespace(rows)
    check_finite("features", rows)
    unit = power_of_two(float(xp.max(xp.abs(rows))), rows.dtype, xp)
    inverse = 1.0 / unit
    origin = xp.astype(xp.mean(xp.astype(rows, xp.float64) * inverse, axis=0), rows.dtype)
    inner = source._replace(
        rows=lambda start, stop: source.rows(start, stop) * inverse - origin,
        take=lambda ids: source.take(ids) * inverse - origin,
        largest=None,
    )
    return inner, unit, rows * inverse - origin


def _surveyed(
    source: FeatureSource,
    runs: list[list[Run]],
    pairs: tuple[Shares, ...],
    metric: str,
    *,
    judged: bool = True,
) -> list[list[Survey]]:
    """Survey all runs in one pass; with their own labels if these are of the rows of `source`."""
    candidates = []
    for of_k in runs:
        for pair, run in zip(pairs, of_k, strict=True):
            k, n = int(run.centers.shape[0]), source.group.n_total
            bounds = None if run.prices is None else bounds_of(pair, k, n, run.centers)
            labels = run.labels if judged else None
            candidates.append(Candidate(run.centers, run.prices, bounds, labels))
    found = iter(survey(source, tuple(candidates), metric=metric))
    return [[next(found) for _ in pairs] for _ in runs]
