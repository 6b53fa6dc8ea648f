r"""k-means whose clusters keep their sizes between bounds, on the sphere or in Euclidean space.

Problem: for features ``x_i`` with weights ``w_i`` find labels and centers that

maximize ``sum_i w_i s_{i, y_i}``   subject to   ``l_k <= n_k <= u_k``           (CoKe Eq. 3 and 6)

with the scores of `lloyd`: ``s_ik = x_i . c_k`` ("cosine"), or half the squared distance to the
mean of all features minus that to the center ("euclidean").

Method: alternation of two steps. For fixed centers, `offline.assign_source` finds labels from the
prices of the iteration before, and proves how far they can be from the best. For fixed labels, the
centers are directions of sums (CoKe Eq. 12), or means. Neither step lowers the objective, the first
up to its proven gap. Rows are read block by block, from memory or from a `FeatureSource`, on one
rank or many. Bounds that allow all sizes need no prices: then this is `lloyd.kmeans`.

Where there are many rows, the first iterations read a sample of them (`_sampled_start`), labels are
found roughly while many of them change, and afterwards centers go beyond the means of the labels
until these settle (`_over_relaxation`).

Rows whose cluster is known (`fixed`) and pairs that must not be (`forbidden`) are part of the
problem: labels, certificate and proofs of infeasibility respect them (`_restrictions`).

==============  ============  =======  =====================================
paper           here          shape    meaning
==============  ============  =======  =====================================
:math:`x_i`     ``features``  (n, d)   unit vectors, or points
:math:`c_k`     ``centers``   (k, d)   unit vectors, or points
:math:`\mu_i`   ``labels``    (n,)     cluster of each sample
:math:`w_i`     ``weights``   (n,)     1 by default; sizes count samples
==============  ============  =======  =====================================
"""

from __future__ import annotations

from typing import NamedTuple

import array_api_compat as compat

from ..bounds.sizes import SizeBounds, check_bounds
from ..core.checks import check_interval, check_per_cluster, check_same_place
from ..core.errors import InvalidValueError
from ..core.types import Array
from ..offline.assignment import OfflineAssignment
from ..scores.deadline import Deadline, agreed, deadline_of
from ..scores.sources import FeatureSource
from ._cluster_sums import best_centers, gathered_sums
from ._empty_clusters import relocate_empty
from ._frame import check_reach, fits_alone, frame_of
from ._labels import MANY, NEAR, Labeler, at_no_prices, next_drifts
from ._over_relaxation import relaxed_centers
from ._restrictions import restrictions_of
from ._sampled_start import sampled_problem
from ._state import KMeansState, Progress, check_state
from .centers import CenterSums
from .lloyd import (
    KMeansResult,
    best_of,
    check_arguments,
    kmeans,
    share_changed,
)
from .start import kmeans_plus_plus

__all__ = [
    "ConstrainedKMeansResult",
    "KMeansResult",
    "KMeansState",
    "best_of",
    "constrained_kmeans",
    "kmeans",
    "kmeans_plus_plus",
]

SETTLED = 0.03  # share of the labels that change at the end of the iterations on a sample
MOST_SAMPLED = 20  # these iterations at most

# A step beyond the means changes about so many times the labels of a plain one.
SETTLING = 2.5


class ConstrainedKMeansResult(NamedTuple):
    """Result of `constrained_kmeans`.

    Attributes
    ----------
    centers : (k, d) array
        Unit rows, or means. If `max_iter` ended the run during steps beyond these, what such a step
        led to.
    assignment : OfflineAssignment
        Labels of this rank's samples for these centers, sizes, and their certificate.
    n_iter : int
        Iterations with a center update.
    converged : bool
        Whether a last update, to the means, changed at most the share `tol` of the labels.
    """

    centers: Array
    assignment: OfflineAssignment
    n_iter: int
    converged: bool

    @property
    def labels(self) -> Array:
        """Cluster of each of this rank's rows, (n_local,) int64."""
        return self.assignment.labels

    @property
    def counts(self) -> Array:
        """Size of each cluster over all ranks, (k,) int64."""
        return self.assignment.counts

    @property
    def gap(self) -> float:
        """Proven relative gap of the labels for these centers."""
        return self.assignment.gap

    @property
    def objective(self) -> float:
        """``sum_i w_i s_{i, y_i}``."""
        return self.assignment.objective


def constrained_kmeans(
    features: Array | FeatureSource,
    bounds: SizeBounds,
    centers: Array,
    *,
    metric: str = "cosine",
    weights: Array | None = None,
    fixed: Array | None = None,
    forbidden: Array | None = None,
    prices: Array | None = None,
    max_iter: int = 100,
    tol: float = 1e-3,
    gap: float = 1e-4,
    state: KMeansState | None = None,
    progress: Progress | None = None,
    empty: str = "relocate",
    time_limit: float | Deadline | None = None,
) -> ConstrainedKMeansResult:
    """Cluster features so that every cluster size lies between its bounds.

    Parameters
    ----------
    features : (n, d) real array, or FeatureSource
        Finite; unit rows for "cosine"; n = ``bounds.n_samples``. Half precision is computed in
        float32.
    bounds : SizeBounds
        Bounds for all rows, on the library and device of the features.
    centers : (k, d) real array
        Rows to start from, unit rows for "cosine"; see `start_centers`, or with `fixed`
        `seeded_centers`. Converted to the dtype of the features.
    metric : {"cosine", "euclidean"}
    weights : (n,) real array, optional
        Weights of all rows of all ranks, at least 0; they count in centers and objective. Sizes
        count samples.
    fixed : (n,) int64 array, optional
        The cluster of each row of all ranks that is known, and -1 for a free row.
    forbidden : (m, 2) int64 array, optional
        Pairs of a row, counted over all ranks, and a cluster that it must not join.
    prices : (k,) float64 array, optional
        Prices to start from, in units of score, such as those of a similar problem.
    max_iter : int
        Most center updates from all rows, >= 0, including those of `state`; 0 only labels for
        `centers`. A run that it ends may return centers beyond the means of their labels.
    tol : float in [0, 1]
        Stop once a step to the means changed at most this share of the labels.
    gap : float in [0, 1]
        Relative gap to prove for the final labels; 0 for the best labels of the final centers.
    state : KMeansState, optional
        State to continue from. With the other arguments unchanged, the further iterations are
        those of an uninterrupted run, to the last bit. `centers` and `prices` are then not used.
    progress : callable, optional
        Called as ``progress(state, churn)`` after each center update and its labels.
    empty : {"relocate", "keep"}
        Whether the center of a cluster that got no sample, but may have one, moves to the sample
        farthest from its own center that is free and may join it, or stays.
    time_limit : float >= 0, or Deadline, optional
        Seconds after which the run ends with the labels of its last iteration, and the gap that is
        proven for them; or `dualclust.interruptible`. A step that has begun comes to its end.

    Returns
    -------
    ConstrainedKMeansResult

    Raises
    ------
    InfeasibleBoundsError
        If fixed rows or forbidden pairs leave no labels inside the bounds; with the clusters and
        the counts that prove it.
    InvalidValueError, InvalidTypeError, DeviceMismatchError
        For NaN and infinity, and shapes, values or places that do not fit.

    Notes
    -----
    Guarantee: ``lower <= counts <= upper``, fixed rows keep their label, no pair is a forbidden
    one, and the objective never falls between two iterations by more than the proven gap of the
    labels: 0.001 of its size, or 0.01 for the first labels, those of the first iteration, and after
    an iteration in which more than a tenth of the labels changed. The gap is relative to the best
    labels that keep all of these.
    For more than 65,536 scores: without `prices`, `fixed` and `forbidden`, up to 20 updates on 256
    rows a cluster come first, if there are three times as many rows, those of the sample have no
    more than 2^24 entries, and centers are not far out of it; and between the first iterations and
    the last, centers go beyond the means of the labels
    (docs/decisions/0053-fewer-iterations.md).
    Cost: O(n k d) per iteration. Without fixed rows and forbidden pairs, bounds that exclude no
    labels cost no more than `kmeans`, which then runs. With them the solver runs whatever the
    bounds are; m pairs cost O(m log m) once, and then O(n k) for each pass over the scores.
    Memory: labels and candidates of free samples, O(n), the pairs, and one block of rows and
    scores; the rows of a source are never in memory all at once.
    Source: CoKe Eq. 3, 6 and 12 as batch alternation; the solver is ours (`offline`).

    Examples
    --------
    >>> import numpy as np
    >>> from dualclust.algos.bounds.sizes import SizeBounds
    >>> x = np.asarray([[1.0, 0.0], [0.8, 0.6], [0.6, 0.8], [0.0, 1.0]])
    >>> bounds = SizeBounds.from_ratios(2, n_samples=4, lower=1.0)
    >>> constrained_kmeans(x, bounds, x[::3]).labels
    array([0, 0, 1, 1])

    The second row is known to be of cluster 1, and the third must not join it:

    >>> known, pairs = np.asarray([-1, 1, -1, -1]), np.asarray([[2, 1]])
    >>> constrained_kmeans(x, bounds, x[::3], fixed=known, forbidden=pairs).labels
    array([0, 1, 0, 1])
    """
    check_bounds(bounds)
    if bounds.n_samples is None:
        msg = "bounds must be of a known number of samples, got those of a stream"
        raise InvalidValueError(msg)
    check_interval("gap", gap, 0.0, 1.0)
    like = check_arguments(features, centers, metric, max_iter, tol, empty, bounds, progress)
    xp = compat.array_namespace(like)
    check_same_place(bounds=bounds.lower, prices=prices)
    prices = check_per_cluster("prices", prices, bounds.n_clusters)
    restrictions = None
    if fixed is not None or forbidden is not None:
        restrictions = restrictions_of(fixed, forbidden, bounds)
    if restrictions is None and bounds.is_free:
        return _of_free(
            kmeans(
                features,
                centers,
                metric=metric,
                weights=weights,
                max_iter=max_iter,
                tol=tol,
                empty=empty,
                state=state,
                progress=progress,
                time_limit=time_limit,
            )
        )
    frame = frame_of(features, metric, weights)
    if state is not None:
        check_state(state, frame, centers)
    check_reach(frame, centers if state is None else state.centers)
    centers = xp.astype(centers, like.dtype) if state is None else state.centers
    labeler = Labeler(frame, bounds, restrictions, deadline_of(time_limit)).in_time(centers)
    if state is None:
        if not max_iter:
            found = labeler.labels(centers, prices, gap)
            return ConstrainedKMeansResult(centers, found, 0, False)
        state = _first_state(labeler, centers, prices, metric, empty)
    before = None
    while state.n_iter < max_iter and not state.converged and not labeler.is_over():
        sums = gathered_sums(frame, state.labels, bounds.n_clusters, before)
        before = sums, state.labels
        after = _updated(labeler, sums, state, tol, empty, knows_prices=prices is not None)
        if after.objective < state.objective and labeler.is_over():
            break  # what a search that was cut short has found is worth less
        state = after
        if progress is not None:
            progress(state, state.changed)
    final = _final_labels(labeler, state, gap)
    return ConstrainedKMeansResult(state.centers, final, state.n_iter, state.converged)


def _updated(
    labeler: Labeler,
    sums: CenterSums,
    state: KMeansState,
    tol: float,
    empty: str,
    *,
    knows_prices: bool,
) -> KMeansState:
    """One iteration: centers for the labels of the state, or beyond, and labels for these."""
    is_plain = not labeler.is_large or not SETTLING * tol < state.changed <= MANY
    centers = _next_centers(labeler, sums, state, empty, beyond=not is_plain)
    # Prices of mere rows, whose lengths they make up for, mislead those of means.
    is_first = not state.n_iter and state.changed == 1.0
    prices = state.prices if knows_prices or not is_first else None
    found = labeler.near_labels(centers, prices, state.drifts, state.changed)
    changed = share_changed(labeler.frame.source.group, found.labels, state.labels)
    return KMeansState(
        centers=centers,
        prices=found.prices,
        n_iter=state.n_iter + 1,
        labels=found.labels,
        objective=found.objective,
        converged=is_plain and changed <= tol,
        gap=found.gap,
        drifts=next_drifts(state, found.prices),
        changed=changed,
        upper_bound=found.upper_bound,
        rounding=found.rounding,
    )


def _final_labels(labeler: Labeler, state: KMeansState, gap: float) -> OfflineAssignment:
    """Return labels for the centers of a state that prove the gap, or as much as can be proven."""
    known = labeler.proven(state, 2.0 if labeler.is_over() else gap)
    if known is None:
        known = labeler.labels(state.centers, state.prices, gap, state.drifts)
        if known.gap > gap:  # a search that was cut short may prove less than the state does
            known = labeler.proven(state, known.gap) or known
    return known


def _first_state(
    labeler: Labeler, centers: Array, prices: Array | None, metric: str, empty: str
) -> KMeansState:
    """Return the first labels of all rows, after iterations on a sample where these help."""
    drifts, changed = None, 1.0
    if prices is None and labeler.is_large and labeler.restrictions is None:
        sampled = _settled_on_sample(labeler, centers, metric, empty)
        if sampled is not None:
            centers, prices, drifts, changed = sampled
    found = labeler.near_labels(centers, prices, drifts, changed)
    return KMeansState(
        centers,
        found.prices,
        0,
        found.labels,
        found.objective,
        gap=found.gap,
        drifts=drifts,
        changed=changed,
        upper_bound=found.upper_bound,
        rounding=found.rounding,
    )


def _settled_on_sample(
    labeler: Labeler, centers: Array, metric: str, empty: str
) -> tuple[Array, Array, Array | None, float] | None:
    """Return centers and prices from a sample, how far prices still move, and how many labels.

    None where no sample helps, or where centers are rows that lie far out of it.
    """
    sample = sampled_problem(labeler.frame, labeler.bounds)
    if sample is None or not fits_alone(sample.features, metric, sample.weights, centers):
        return None
    states: list[KMeansState] = []
    found = constrained_kmeans(
        sample.features,
        sample.bounds,
        centers,
        metric=metric,
        weights=sample.weights,
        max_iter=MOST_SAMPLED,
        tol=SETTLED,
        gap=NEAR,
        progress=lambda state, _: states.append(state),
        empty=empty,
        time_limit=agreed(labeler.deadline, labeler.frame.raw.group, like=centers),
    )
    if not states:  # the time was up before
        return None
    return found.centers, found.assignment.prices, states[-1].drifts, states[-1].changed


def _next_centers(
    labeler: Labeler, sums: CenterSums, state: KMeansState, empty: str, *, beyond: bool
) -> Array:
    """Return the best centers for the labels, or those `beyond`.

    With `empty` "relocate", centers of empty clusters move to a row.
    """
    frame, upper = labeler.frame, labeler.bounds.upper
    xp = compat.array_namespace(upper)
    centers = best_centers(frame, sums, state.centers)
    if beyond:
        centers = relaxed_centers(state.centers, centers, spherical=frame.spherical)
    movable = (sums.counts == 0) & (upper > 0)
    if empty != "relocate" or not bool(xp.any(movable)):
        return centers
    if labeler.restrictions is not None:  # a row of weight 0 is nobody's new center
        free = labeler.restrictions.relocatable(movable, frame.source.group.n_total)
        free = xp.astype(free, xp.float64)
        frame = frame._replace(weights=free if frame.weights is None else free * frame.weights)
    return relocate_empty(frame, state.labels, centers, movable)


def _of_free(found: KMeansResult) -> ConstrainedKMeansResult:
    """Return the result of free k-means: nearest centers are the best labels."""
    assignment = at_no_prices(found.labels, found.counts, found.objective)
    return ConstrainedKMeansResult(found.centers, assignment, found.n_iter, found.converged)
