r"""Values, silhouettes and sizes of several clusterings, in one pass over the rows.

Problem: k is chosen by comparing clusterings of the same rows. Reading rows from a file takes most
of the time, so every block is read once and multiplied by the centers of all clusterings together.

*Silhouette.* That of Rousseeuw (1987) needs all n^2 distances. The *simplified* silhouette
(Hruschka et al., 2004) takes the distance to a center instead of the mean distance to a cluster,

``s_i = (b_i - a_i) / max(a_i, b_i)``

``a_i = ||x_i - c_{y_i}||``,   ``b_i = min_{j != y_i} ||x_i - c_j||``

which costs what the labels cost. Both agree where the samples of a cluster coincide. On the sphere
the distance is the chord, ``sqrt(2 - 2 x . c)``.

*Bound.* With prices pi, the same pass adds up ``sum_i max_k (s_ik + pi_k)``, and so the upper bound
D(pi) of `certificates` on the value of any labels inside bounds: proven for rows that had no part
in finding centers or prices.

=====================  ===============  =========  ================================================
symbol                 here             shape      meaning
=====================  ===============  =========  ================================================
:math:`s_{ik}`         ``scores``       (b, k)     ``x . c``, or ``(||x||^2 - ||x - c||^2) / 2``
:math:`c_k`            ``centers``      (k, d)
:math:`\pi_k`          ``prices``       (k,)       of bounds, or None without
=====================  ===============  =========  ================================================
"""

from __future__ import annotations

import math
from typing import NamedTuple

import array_api_compat as compat

from ..bounds.sizes import SizeBounds, price_of_bounds
from ..clustering.start import METRICS
from ..core.checks import check_choice, check_labels, check_same_place, check_shape
from ..core.errors import InvalidValueError
from ..core.reads import entries, on_host
from ..core.segments import segment_counts
from ..core.types import Array
from ..scores.blocks import block_rows, row_blocks
from ..scores.sources import FeatureSource, largest_score

__all__ = ["Candidate", "Survey", "survey"]


class Candidate(NamedTuple):
    """Centers to evaluate, with prices where sizes have bounds.

    Attributes
    ----------
    centers : (k, d) array
        k >= 2; unit rows for "cosine".
    prices : (k,) float64 array, optional
        In units of score. Labels are the clusters of the largest score plus price.
    bounds : SizeBounds, optional
        Of all rows of the source, for `upper_bound`; with prices only.
    labels : (n_local,) int64 array, optional
        Labels to evaluate, instead of those that centers and prices give.
    """

    centers: Array
    prices: Array | None = None
    bounds: SizeBounds | None = None
    labels: Array | None = None


class Survey(NamedTuple):
    """What one pass finds about a candidate, over all rows of all ranks.

    Attributes
    ----------
    objective : float
        ``sum_i s_{i, y_i}``.
    free : float
        ``sum_i max_k s_ik``: the objective without bounds, for these centers.
    upper_bound : float
        No labels inside the bounds have a larger objective for these centers; `free` without
        bounds. Up to the rounding of the scores.
    silhouette : float
        Mean of the simplified silhouettes, in [-1, 1].
    counts : (k,) int64 array
    """

    objective: float
    free: float
    upper_bound: float
    silhouette: float
    counts: Array


def survey(
    source: FeatureSource, candidates: tuple[Candidate, ...], *, metric: str
) -> tuple[Survey, ...]:
    """Evaluate several clusterings of the same rows in one pass.

    Parameters
    ----------
    source : FeatureSource
        Unit rows for "cosine"; else rows around 0, where products lose the fewest digits.
    candidates : tuple of Candidate
    metric : {"cosine", "euclidean"}

    Returns
    -------
    tuple of Survey
        The same on all ranks; sums do not depend on how rows are shared out over ranks.

    Raises
    ------
    InvalidValueError, DeviceMismatchError
        For fewer than two centers, and shapes or places that do not fit.

    Notes
    -----
    Cost: one pass, O(n d sum k). Memory: one block of rows and the scores of all candidates.

    Examples
    --------
    >>> import numpy as np
    >>> from dualclust.algos.scores.sources import feature_source
    >>> x = np.asarray([[-5.5], [-4.5], [4.5], [5.5]])
    >>> two = Candidate(np.asarray([[-5.0], [5.0]]))
    >>> [found] = survey(feature_source(x), (two,), metric="euclidean")
    >>> found.counts, round(found.silhouette, 3), found.objective
    (array([2, 2]), 0.95, 50.0)
    """
    check_choice("metric", metric, METRICS)
    for candidate in candidates:
        _check(candidate, source)
    if not candidates:
        return ()
    tallies = [_Tally(candidate) for candidate in candidates]
    xp = compat.array_namespace(candidates[0].centers)
    centers = xp.concat([candidate.centers for candidate in candidates], axis=0)
    offsets = None if metric == "cosine" else -0.5 * xp.sum(centers * centers, axis=1)
    limit = 0.1 * math.sqrt(float(xp.finfo(centers.dtype).max) / source.n_features)
    edges = row_blocks(
        source.group.n_local, block_rows(int(centers.shape[0]), like=centers), at_least_one=True
    )
    for start, stop in edges:
        rows = source.rows(start, stop)
        if offsets is not None and on_host(rows):
            _check_span(largest_score(rows) <= limit)
        scores = source.multiply(rows, centers.T)
        if offsets is None:
            own = xp.full((stop - start, 1), 2.0, dtype=scores.dtype, device=compat.device(rows))
        else:
            scores, own = scores + offsets, xp.sum(rows * rows, axis=1)[:, None]
        first = 0
        for tally in tallies:
            tally.add(scores[:, first : first + tally.k], own, start, stop)
            first += tally.k
    return tuple(tally.result(source) for tally in tallies)


class _Tally:
    """Sums of one candidate: integers, and a float for each block, whose edges are fixed."""

    def __init__(self, candidate: Candidate) -> None:
        self.candidate, self.k = candidate, int(candidate.centers.shape[0])
        self.sums: list[Array] = []
        self.counts: Array | None = None

    def add(self, scores: Array, own: Array, start: int, stop: int) -> None:
        """Add a block; `own` minus twice a score is a squared distance."""
        xp, labels = compat.array_namespace(scores), self.candidate.labels
        scores, own = xp.astype(scores, xp.float64), xp.astype(own, xp.float64)
        prices = self.candidate.prices
        priced = scores if prices is None else scores + prices
        if labels is None:
            label = xp.astype(xp.argmax(priced, axis=1), xp.int64)
        else:
            label = labels[start:stop]
        clusters = xp.arange(self.k, dtype=xp.int64, device=compat.device(scores))
        is_own = clusters == label[:, None]
        at_label = xp.take_along_axis(scores, label[:, None], axis=1)[:, 0]
        others = xp.max(xp.where(is_own, xp.full_like(scores, -math.inf), scores), axis=1)
        a, b = (xp.sqrt(xp.clip(own[:, 0] - 2.0 * s, min=0.0)) for s in (at_label, others))
        farther = xp.maximum(a, b)
        ratio = (b - a) / xp.where(farther > 0.0, farther, xp.ones_like(farther))
        parts = [at_label, xp.max(scores, axis=1), xp.max(priced, axis=1), ratio]
        self.sums.append(xp.stack([xp.sum(part) for part in parts])[None, :])
        counts = segment_counts(label, n_segments=self.k)
        self.counts = counts if self.counts is None else self.counts + counts

    def result(self, source: FeatureSource) -> Survey:
        """Add up the blocks of all ranks."""
        group, bounds = source.group, self.candidate.bounds
        xp = compat.array_namespace(self.candidate.centers)
        blocks = group.gather(xp.concat(self.sums, axis=0))
        sums = entries("sums", xp.reshape(blocks, (-1,)))
        value, free, priced, ratio = (math.fsum(sums[j::4]) for j in range(4))
        assert self.counts is not None
        counts = xp.sum(group.gather(self.counts[None, :]), axis=0)
        upper = free
        if bounds is not None and self.candidate.prices is not None:
            upper = priced + price_of_bounds(self.candidate.prices, bounds)
        _check_span(math.isfinite(value + upper + ratio))
        return Survey(value, free, upper, ratio / group.n_total, counts)


def _check_span(fits: bool) -> None:
    if not fits:
        msg = (
            "features must be finite, with squared distances that do not overflow, got others. "
            "To fix this, drop or scale down the rows that lie far out"
        )
        raise InvalidValueError(msg)


def _check(candidate: Candidate, source: FeatureSource) -> None:
    centers, bounds = candidate.centers, candidate.bounds
    k, _ = check_shape("centers", centers, ("k", source.n_features))
    if k < 2:
        msg = (
            f"centers must be at least two, got {k}: a silhouette compares two clusters"
            ". To fix this, leave this candidate out"
        )
        raise InvalidValueError(msg)
    check_same_place(
        features=source.rows(0, 0),
        centers=centers,
        prices=candidate.prices,
        labels=candidate.labels,
        bounds=None if bounds is None else bounds.lower,
    )
    if candidate.prices is not None:
        check_shape("prices", candidate.prices, (k,))
    if candidate.labels is not None:
        check_labels("labels", candidate.labels, source.group.n_local, k)
    if bounds is not None and (bounds.n_clusters, bounds.n_samples) != (k, source.group.n_total):
        msg = (
            f"bounds must be of {source.group.n_total} samples and {k} clusters, got "
            f"{bounds.n_samples} and {bounds.n_clusters}"
            ". To fix this, make both of the same samples"
        )
        raise InvalidValueError(msg)
