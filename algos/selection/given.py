r"""Choosing among clusterings that are given: the heads of one network, each with its own k.

`choose_k` makes its clusterings and may repeat them on other rows. Those of a network cannot be
repeated so cheaply. What is there instead is how far their labels agree with those that they give
to other views of the same samples: the stability here. All else is that of `choose_k`: the
silhouette, that of rows without clusters, what bounds cost, and the rule (`recommendation`).

A network makes its rows so that they have clusters, and the rows of noise get some as well. So the
silhouette tells of k more than of whether there are clusters: that is told by the views, which are
as far apart as the data allow (`benchmarks/results/choice.md`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import array_api_compat as compat

from ..core.checks import (
    check_count,
    check_finite,
    check_interval,
    check_kind,
    check_real,
    check_shape,
)
from ..core.errors import InvalidValueError
from ..core.exact_sums import LIMIT
from ..core.reads import entries
from ..core.types import Array
from ..scores.blocks import block_rows, row_blocks
from ..scores.sources import FeatureSource, feature_source
from ._runs import FREE, runs_of
from .choice import drawn_sample
from .recommendation import recommend_k
from .reference import reference_rows
from .result import prices_lost, standard_error
from .survey import Candidate, Survey, survey

__all__ = ["ChoiceOfClustering", "JudgedClustering", "choose_clustering"]


class JudgedClustering(NamedTuple):
    """What a given clustering is worth, without classes; numbers of the host.

    Attributes
    ----------
    n_clusters : int
    agreement, agreement_error : float
        Mean of the agreements that were given, and its standard error; 0 of one.
    silhouette, reference : float
        Mean simplified silhouette, and that of rows without clusters of the same covariance.
    price, price_proven : float
        Share of the objective without bounds that is lost, and that any labels inside the bounds
        lose for these centers; in [0, 1] where scores are not negative.
    smallest, largest : int
        Sizes.
    """

    n_clusters: int
    agreement: float
    agreement_error: float
    silhouette: float
    reference: float
    price: float
    price_proven: float
    smallest: int
    largest: int


class ChoiceOfClustering(NamedTuple):
    """The clusterings, the k that stands out or None, the best in any case, and the reason."""

    judged: tuple[JudgedClustering, ...]
    recommended: int | None
    best: int
    reason: str


def choose_clustering(
    features: Array | FeatureSource,
    candidates: Sequence[Candidate],
    agreements: Sequence[Sequence[float]],
    *,
    seed: int = 0,
    n_drawn: int | None = None,
    agreeing: str = "labels of two views of the same samples",
) -> ChoiceOfClustering:
    """Compare clusterings that are given, and recommend one if it stands out.

    Parameters
    ----------
    features : (n, d) real array, or FeatureSource
        Unit rows, finite.
    candidates : sequence of Candidate
        By rising k, each with unit centers; with labels, prices and bounds where sizes have some.
    agreements : sequence of sequences of float
        For each candidate, how well its labels come back: one or more adjusted Rand indices.
    seed : int in [0, 2^63)
        Of the rows without clusters, and of the sample that they are like.
    n_drawn : int, optional
        Rows of that sample; as of `choose_k`.
    agreeing : str
        Whose agreements they are, for the reason.

    Returns
    -------
    ChoiceOfClustering

    Raises
    ------
    InvalidValueError, InvalidTypeError, DeviceMismatchError
        For rows and centers that are not finite or not of length 1 (up to 0.001), candidates that
        are none or do not rise, agreements that are none, and what `survey` refuses.

    Notes
    -----
    Cost: a pass over all rows, O(n d sum k), one more for their lengths, O(n d), and one run of
    k-means on the sample for each k.
    Guarantee: ``0 <= price_proven <= price``. Which one is recommended is a heuristic.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.asarray([[1.0, 0.0], [0.8, 0.6], [-1.0, 0.0], [-0.8, -0.6]] * 8)
    >>> two = Candidate(np.asarray([[3.0, 1.0], [-3.0, -1.0]]) / 10.0**0.5)
    >>> found = choose_clustering(x, [two], [[1.0, 1.0]])
    >>> found.judged[0].smallest, found.judged[0].agreement, found.best
    (16, 1.0, 2)
    """
    source = features if isinstance(features, FeatureSource) else feature_source(features)
    ks, stable = _checked(candidates, agreements)
    check_count("seed", seed, 0)
    _check_unit("features", source)
    rows = drawn_sample(source, ks[-1], n_drawn, seed)
    null = reference_rows(rows, metric="cosine", seed=seed)
    plain = [runs_of(null, k, (FREE,), metric="cosine", seed=seed, n_init=1)[0].centers for k in ks]
    references = survey(feature_source(null), tuple(map(Candidate, plain)), metric="cosine")
    found = survey(source, tuple(candidates), metric="cosine")
    judged = tuple(map(_judged, ks, stable, found, references))
    columns = list(zip(*judged, strict=True))
    silhouette, reference = (list(map(float, columns[i])) for i in (3, 4))
    agreement, error = (list(map(float, columns[i])) for i in (1, 2))
    chosen = recommend_k(ks, silhouette, reference, agreement, error, agreeing=agreeing)
    return ChoiceOfClustering(judged, chosen.n_clusters, chosen.best, chosen.reason)


def _checked(
    candidates: Sequence[Candidate], agreements: Sequence[Sequence[float]]
) -> tuple[list[int], list[list[float]]]:
    """Return the numbers of clusters, and the agreements as floats."""
    ks = []
    for i, candidate in enumerate(candidates):
        check_kind(f"candidates[{i}]", candidate, Candidate, "pass Candidate(centers)")
        name = f"candidates[{i}].centers"
        check_real(name, candidate.centers)
        ks.append(check_shape(name, candidate.centers, ("k", "d"))[0])
        check_finite(name, candidate.centers)
        _check_unit(name, feature_source(candidate.centers))
    if not ks or any(a >= b for a, b in pairwise(ks)):
        msg = (
            f"candidates must have rising numbers of clusters, at least one, got {ks}"
            ". To fix this, sort them, and pass one of each k"
        )
        raise InvalidValueError(msg)
    if len(agreements) != len(ks) or any(len(own) == 0 for own in agreements):
        msg = (
            f"agreements must have a list for each of the {len(ks)} candidates, none of them "
            f"empty, got {[len(own) for own in agreements]} entries"
            ". To fix this, compare labels at least once for each"
        )
        raise InvalidValueError(msg)
    stable = [
        [check_interval(f"agreements[{i}][{j}]", v, -1.0, 1.0) for j, v in enumerate(own)]
        for i, own in enumerate(agreements)
    ]
    return ks, stable


def _check_unit(name: str, source: FeatureSource) -> None:
    """Raise on all ranks unless all rows of all ranks are finite and of about length 1."""
    group, farthest = source.group, []
    like = source.rows(0, 0)
    xp = compat.array_namespace(like)
    one = xp.ones((1,), dtype=xp.float64, device=compat.device(like))
    for start, stop in row_blocks(group.n_local, block_rows(1), at_least_one=True):
        rows = xp.astype(source.rows(start, stop), xp.float64)
        lengths = xp.sqrt(xp.sum(rows * rows, axis=1))
        lengths = xp.where(xp.isfinite(lengths), lengths, xp.full_like(lengths, math.inf))
        lengths = xp.concat([one, lengths])
        farthest.append(lengths[xp.argmax(xp.abs(lengths - 1.0))][None])
    worst = max(entries("lengths", group.gather(xp.concat(farthest))), key=lambda v: abs(v - 1.0))
    if abs(worst - 1.0) > LIMIT - 1.0:
        msg = (
            f"{name} must be finite unit rows, got one of length {worst:g}. To fix this, drop rows "
            f"with NaN or infinity, and normalize the others with "
            f"dualclust.algos.core.project_sphere"
        )
        raise InvalidValueError(msg)


def _judged(
    n_clusters: int, agreements: list[float], own: Survey, reference: Survey
) -> JudgedClustering:
    xp = compat.array_namespace(own.counts)
    (price,), (proven,) = (
        [row[1] for row in part] for part in prices_lost([[own, own]], [[own.upper_bound] * 2])
    )
    mean = sum(agreements) / len(agreements)
    return JudgedClustering(
        n_clusters=n_clusters,
        agreement=mean,
        agreement_error=standard_error(agreements) if len(agreements) > 1 else 0.0,
        silhouette=own.silhouette,
        reference=reference.silhouette,
        price=price,
        price_proven=proven,
        smallest=int(xp.min(own.counts)),
        largest=int(xp.max(own.counts)),
    )
