r"""A sample of the rows as a problem of its own, on which k-means makes its first iterations.

Problem: the first iterations of constrained k-means cost most. Centers that are mere rows move far,
and with them the prices of the bounds, so that many rows have to be looked at closely. How far
they move shows on a part of the rows as well: on `ROWS_PER_CLUSTER` rows a cluster, with bounds in
proportion, they cost a fraction. Later iterations need all rows: where few labels change, those of
a sample say little of the rest (benchmarks/results/kmeans.md).

All ranks take the same rows, from all over the data, and compute the same.

=====================  ==============  =======  ============================================
symbol                 here            shape    meaning
=====================  ==============  =======  ============================================
:math:`x_i`            ``features``    (m, d)   rows of the sample
:math:`l_k, u_k`       ``bounds``      (k,)     of the sample: ``m / n`` times, outward
:math:`w_i`            ``weights``     (m,)     or None
=====================  ==============  =======  ============================================
"""

from __future__ import annotations

from typing import NamedTuple

import array_api_compat as compat

from ..bounds.sizes import SizeBounds
from ..core.types import Array
from ..scores.sources import FeatureSource, feature_source
from ..scores.statistics import strided_ids
from ._frame import Frame

__all__ = ["SampledProblem", "sampled_problem"]

ROWS_PER_CLUSTER = 256

MOST_ENTRIES = 2**24
"""Entries of the rows of a sample at most: 64 MiB of float32."""

FEWEST_TIMES = 3
"""Rows of the whole problem over those of the sample at least, for the sample to be worth it."""


class SampledProblem(NamedTuple):
    """Some rows with their weights, and bounds on the sizes of their clusters."""

    features: FeatureSource
    bounds: SizeBounds
    weights: Array | None


def sampled_problem(frame: Frame, bounds: SizeBounds) -> SampledProblem | None:
    """Return a sample of the rows of all ranks, or None if it saves nothing or fills the memory.

    Notes
    -----
    All ranks call this together. Memory: `MOST_ENTRIES` entries at most.
    """
    xp, group = compat.array_namespace(bounds.lower), frame.raw.group
    n, m = group.n_total, ROWS_PER_CLUSTER * bounds.n_clusters
    if n < FEWEST_TIMES * m or m * frame.raw.n_features > MOST_ENTRIES:
        return None
    ids, weights = strided_ids(n, m, bounds.lower), None
    if frame.weights is not None:
        weights = xp.take(frame.weights, ids) * frame.weight_unit
        if not bool(xp.any(weights > 0.0)):
            return None
    # In integers, so that no rounding decides.
    lower, upper = bounds.lower * m // n, -(-bounds.upper * m // n)
    inside = SizeBounds.from_counts(
        lower, upper, n_samples=m, xp=xp, device=compat.device(bounds.lower)
    )
    rows = feature_source(frame.raw.take(ids))._replace(multiply=frame.raw.multiply)
    return SampledProblem(rows, inside, weights)
