r"""k-means without bounds, on the sphere or in Euclidean space, on one rank or many.

Problem: for features ``x_i`` with weights ``w_i`` find labels and centers that

maximize ``sum_i w_i s_{i, y_i}``                                    (CoKe Eq. 3, no bounds)

with ``s_ik = x_i . c_k`` for unit features and unit centers ("cosine"), or, for squared distance
("euclidean"), ``s_ik = (||x_i - m||^2 - ||x_i - c_k||^2) / 2`` with m the mean of all features:
half the squared distance to the mean minus that to the center.

Method (Lloyd, 1982): the best cluster of each row, then the best center of each cluster, until no
label changes; neither step lowers the objective. Rows are read block by block, once per iteration,
and the centers come from integer sums, the same for any split of the rows.

==============  ============  =======  =====================================
symbol          here          shape    meaning
==============  ============  =======  =====================================
:math:`x_i`     ``features``  (n, d)   unit vectors, or points
:math:`c_k`     ``centers``   (k, d)   unit vectors, or points
:math:`y_i`     ``labels``    (n,)     cluster of each sample
:math:`w_i`     ``weights``   (n,)     1 by default
==============  ============  =======  =====================================
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol, TypeVar

import array_api_compat as compat

from ..bounds.sizes import SizeBounds
from ..core.checks import (
    check_choice,
    check_count,
    check_finite,
    check_interval,
    check_real,
    check_same_place,
    check_shape,
    shown,
)
from ..core.errors import InvalidTypeError, InvalidValueError
from ..core.precision import at_least_float32
from ..core.reads import entries
from ..core.types import Array
from ..scores.deadline import Deadline, deadline_of, is_over
from ..scores.nearest import best_clusters, best_without_scores
from ..scores.sources import FeatureSource, Group
from ._cluster_sums import PassSums, best_centers, gathered_sums
from ._empty_clusters import EMPTY, relocate_empty
from ._frame import Frame, check_reach, frame_of, map_rows
from ._state import KMeansState, Progress, check_state
from .centers import CenterSums
from .start import METRICS

__all__ = [
    "KMeansResult",
    "KMeansState",
    "best_of",
    "check_arguments",
    "kmeans",
    "nearest_labels",
    "share_changed",
    "updated_centers",
]


class KMeansResult(NamedTuple):
    """Result of `kmeans`.

    Attributes
    ----------
    labels : (n_local,) int64 array
        Nearest centers of this rank's rows.
    centers : (k, d) array
        Unit rows, or means.
    counts : (k,) int64 array
        Sizes over all ranks.
    objective : float
        ``sum_i w_i s_{i, y_i}``.
    n_iter : int
        Iterations with a center update.
    converged : bool
        Whether the last update changed at most the share `tol` of the labels.
    """

    labels: Array
    centers: Array
    counts: Array
    objective: float
    n_iter: int
    converged: bool


class HasObjective(Protocol):
    """Any result that `best_of` compares."""

    @property
    def objective(self) -> float:
        """Value to maximize."""


R = TypeVar("R", bound=HasObjective)


def best_of(run: Callable[[int], R], seeds: Iterable[int]) -> R:
    """Return the result with the largest objective of several runs; ties go to the lowest seed.

    Parameters
    ----------
    run : callable
        ``run(seed)`` returns a `ConstrainedKMeansResult`, a `KMeansResult`, or another result with
        an ``objective``.
    seeds : iterable of int
        At least one.

    Returns
    -------
    The result of `run` for the best seed. Memory: two results at a time.

    Examples
    --------
    >>> import numpy as np
    >>> from dualclust.algos.clustering.start import start_centers
    >>> from dualclust.algos.scores.sources import feature_source
    >>> x = np.asarray([[0.0], [1.0], [10.0], [11.0], [20.0], [21.0]])
    >>> def run(seed):
    ...     start = start_centers(feature_source(x), 3, seed=seed, metric="euclidean")
    ...     return kmeans(x, start, metric="euclidean")
    >>> sorted(best_of(run, range(5)).centers[:, 0].tolist())
    [0.5, 10.5, 20.5]
    """
    best: R | None = None
    for seed in sorted(seeds):
        found = run(seed)
        if best is None or found.objective > best.objective:
            best = found
    if best is None:
        msg = "seeds must hold at least one seed, got none. To fix this, pass at least one"
        raise InvalidValueError(msg)
    return best


def kmeans(
    features: Array | FeatureSource,
    centers: Array,
    *,
    metric: str = "cosine",
    weights: Array | None = None,
    max_iter: int = 100,
    tol: float = 0.0,
    empty: str = "relocate",
    state: KMeansState | None = None,
    progress: Progress | None = None,
    time_limit: float | Deadline | None = None,
) -> KMeansResult:
    """Cluster features without bounds on the sizes: Lloyd's algorithm, on one or many ranks.

    Parameters
    ----------
    features, centers, metric, weights, max_iter, tol, empty, state, progress, time_limit
        As in `constrained_kmeans`.

    Returns
    -------
    KMeansResult
        Every label is the best for the centers returned; ties go to the lowest cluster.

    Raises
    ------
    InvalidValueError, InvalidTypeError, DeviceMismatchError
        As `constrained_kmeans`.

    Notes
    -----
    Guarantee: the objective never falls, beyond rounding. Cost: one pass of O(n k d) per iteration;
    memory: labels, and one block of rows and scores.
    Claims: docs/claims.md#P19.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.asarray([[0.0], [1.0], [10.0], [13.0]])
    >>> found = kmeans(x, x[:2], metric="euclidean")
    >>> found.centers[:, 0], found.labels, found.converged
    (array([ 0.5, 11.5]), array([0, 0, 1, 1]), True)
    """
    like = check_arguments(features, centers, metric, max_iter, tol, empty, None, progress)
    xp, (k, _), deadline = compat.array_namespace(like), centers.shape, deadline_of(time_limit)
    frame = frame_of(features, metric, weights)
    if state is None:
        check_reach(frame, centers)
        centers = xp.astype(centers, like.dtype)
        labels, sums, value = _nearest(frame, frame.inside(centers))
        prices = xp.zeros((k,), dtype=xp.float64, device=compat.device(like))
        state = KMeansState(centers, prices, 0, labels, value)
    else:
        check_state(state, frame, centers)
        check_reach(frame, state.centers)
        sums = gathered_sums(frame, state.labels, k)
    while state.n_iter < max_iter and not state.converged:
        if is_over(deadline, frame.raw.group, like=centers):
            break
        movable = (sums.counts == 0) & (empty == "relocate")
        centers = updated_centers(frame, sums, state.labels, state.centers, movable)
        before = sums, state.labels
        labels, sums, value = _nearest(frame, frame.inside(centers), before)
        changed = share_changed(frame.source.group, labels, state.labels)
        state = KMeansState(
            centers,
            state.prices,
            state.n_iter + 1,
            labels,
            value,
            changed <= tol,
            changed=changed,
        )
        if progress is not None:
            progress(state, changed)
    return KMeansResult(
        state.labels, state.centers, sums.counts, state.objective, state.n_iter, state.converged
    )


def updated_centers(
    frame: Frame, sums: CenterSums, labels: Array, centers: Array, movable: Array
) -> Array:
    """Return the best centers for the labels; centers of movable empty clusters are moved."""
    return relocate_empty(frame, labels, best_centers(frame, sums, centers), movable)


def share_changed(group: Group, labels: Array, previous: Array) -> float:
    """Return the share of all rows of all ranks whose label changed."""
    xp = compat.array_namespace(labels)
    changed = xp.sum(xp.astype(labels != previous, xp.int64))
    return int(xp.sum(group.gather(xp.reshape(changed, (1,))))) / group.n_total


def _nearest(
    frame: Frame, centers: Array, before: tuple[CenterSums, Array] | None = None
) -> tuple[Array, CenterSums, float]:
    """Return the best cluster of each row, the cluster sums and the objective, in one pass.

    `before` as in `PassSums`.
    """
    sums = PassSums(frame, centers.shape[0], before)
    labels, value, _ = nearest_labels(frame, centers, sums)
    return labels, sums.total(), value


def nearest_labels(
    frame: Frame, centers: Array, sums: PassSums | None = None
) -> tuple[Array, float, float]:
    """Return the best cluster of each row, the objective, and the size of its terms, in one pass.

    Parameters
    ----------
    frame : Frame
    centers : (k, d) array
        In the coordinates of the frame.
    sums : PassSums, optional
        Takes every block with its labels.

    Returns
    -------
    labels : (n_local,) int64 array
    value, size : float
        Sums over all rows of the best scores times weights, and of their absolute values.
    """
    xp, group, k = compat.array_namespace(centers), frame.source.group, centers.shape[0]
    offsets = xp.zeros_like(centers[:, 0])
    if not frame.spherical:
        offsets = -0.5 * xp.sum(centers * centers, axis=1)
    transposed, known = centers.T, None
    if frame.raw.largest is not None:  # rows of a device's memory: others would be read twice
        known = best_without_scores(frame.source, centers, offsets)

    def look(block: Array, start: int, stop: int) -> tuple[Array, Array]:
        if known is not None:
            own, best = (column[start:stop] for column in known)
        else:
            scores = frame.raw.multiply(frame.block(block, start, stop), transposed)
            own, best = best_clusters(scores, offsets)
        best = xp.astype(best, xp.float64)
        if frame.weights is not None:
            best = best * frame.weights[group.first_row + start : group.first_row + stop]
        if sums is not None:
            sums.add_block(block, start, own)
        return own, xp.stack([xp.sum(best), xp.sum(xp.abs(best))])

    device = compat.device(centers)
    labels = [xp.zeros((0,), dtype=xp.int64, device=device)]
    values = [xp.zeros((0,), dtype=xp.float64, device=device)]
    for own, value in map_rows(look, frame.raw, k):
        labels.append(own)
        values.append(value)
    parts = entries("values", group.gather(xp.concat(values)))
    value, size = (math.fsum(parts[j::2]) * frame.score_unit for j in range(2))
    return xp.concat(labels), value, size


def check_arguments(
    features: Array | FeatureSource,
    centers: Array,
    metric: str,
    max_iter: int,
    tol: float,
    empty: str,
    bounds: SizeBounds | None = None,
    progress: Progress | None = None,
) -> Array:
    """Check all arguments except the rows; return an empty array of the dtype to compute in."""
    if progress is not None and not callable(progress):
        msg = (
            f"progress must be callable, got {shown(progress)} ({type(progress).__name__})"
            ". To fix this, pass a function, or None"
        )
        raise InvalidTypeError(msg)
    n = "n" if bounds is None or bounds.n_samples is None else bounds.n_samples
    if isinstance(features, FeatureSource):
        like, d = features.rows(0, 0), features.n_features
        if n not in ("n", features.group.n_total):
            msg = (
                f"features must have bounds.n_samples={n} rows, got {features.group.n_total}"
                ". To fix this, make both of the same samples"
            )
            raise InvalidValueError(msg)
    else:
        check_real("features", features)
        _, d = check_shape("features", features, (n, "d"))
        like = features[:0, :]
    check_real("features", like)
    check_real("centers", centers)
    k, _ = check_shape("centers", centers, ("k" if bounds is None else bounds.n_clusters, d))
    check_count("number of centers", k, 1)
    check_same_place(
        features=like, centers=centers, bounds=None if bounds is None else bounds.lower
    )
    check_finite("centers", centers)
    check_choice("metric", metric, METRICS)
    check_choice("empty", empty, EMPTY)
    check_count("max_iter", max_iter, 0)
    check_interval("tol", tol, 0.0, 1.0)
    return at_least_float32(like)
