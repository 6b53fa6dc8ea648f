r"""k-means on a stream: label each mini-batch once, under size bounds, and update the centers.

Problem: samples arrive in mini-batches and are not kept; maximize ``sum_i s_{i, y_i}`` as `kmeans`
does, with the share of each cluster between ``l_k`` and ``u_k``.

Method: the online assignment labels a batch under duals that every batch moves (`assignment`; CoKe
Eq. 10 and 11). Then each center becomes the mean of all samples ever assigned to it,

``m_k <- m_k + (sum_{y_i = k} w_i (x_i - m_k)) / W_k``,   ``W_k <- W_k + sum_{y_i = k} w_i``,

the step 1 / W_k of Sculley (WWW 2010); on the sphere the center is its direction, CoKe Eq. 13. No
size is enforced, since the length of a stream is unknown; `size_certificate` of the state's
assignment gives proven bounds.

=====================  ====================  =======  ============================================
symbol                 here                  shape    meaning
=====================  ====================  =======  ============================================
:math:`x_i`            ``features``          (b, d)   a mini-batch
:math:`m_k`            ``means``             (k, d)   float64
:math:`W_k`            ``weight``            (k,)     samples, or their weights, behind a mean
:math:`\rho, \rho'`    ``assignment.duals``  (k,)     prices
=====================  ====================  =======  ============================================
"""

from __future__ import annotations

import sys
from typing import NamedTuple

import array_api_compat as compat

from ..bounds.sizes import SizeBounds, check_bounds
from ..core.checks import (
    check_choice,
    check_count,
    check_finite,
    check_kind,
    check_real,
    check_same_place,
    check_shape,
)
from ..core.exact_sums import grid_of
from ..core.precision import at_least_float32
from ..core.projections import project_sphere
from ..core.reads import entries, read
from ..core.types import Array
from ..online.assignment import AssignmentState, assign, init_state
from ..online.step_sizes import StepRule, measured_steps
from ..scores.sources import check_weights
from ..scores.statistics import score_range
from ._cluster_sums import weighted_means, weighted_sums
from ._empty_clusters import EMPTY
from ._frame import unit_of_weights, weight_extremes
from .start import METRICS

__all__ = ["MiniBatchState", "MiniBatchStep", "init_minibatch", "minibatch_step"]

STREAM_SAMPLES_PER_CLUSTER = 1000  # length of the pass that the default step is meant for


class MiniBatchState(NamedTuple):
    """Everything that the next mini-batch depends on.

    Attributes
    ----------
    centers : (k, d) array
        Unit rows, or means, of the dtype of the first centers.
    means : (k, d) float64 array
        Means of the samples of each cluster so far.
    weight : (k,) float64 array
        Number of samples, or their weight, in each mean.
    assignment : AssignmentState
        Prices, and counts of all samples so far.
    steps : StepRule or None
        Dual step of the stream; None before the first batch, which determines it.
    """

    centers: Array
    means: Array
    weight: Array
    assignment: AssignmentState
    steps: StepRule | None


class MiniBatchStep(NamedTuple):
    """Labels of the batch, (b,) int64, and the state after it."""

    labels: Array
    state: MiniBatchState


def init_minibatch(
    centers: Array, bounds: SizeBounds, *, steps: StepRule | None = None
) -> MiniBatchState:
    """Return the state before the first mini-batch.

    Parameters
    ----------
    centers : (k, d) real array
        Unit rows for "cosine"; `kmeans_plus_plus` draws them from a first batch.
    bounds : SizeBounds
        Only its shares are used.
    steps : StepRule, optional
        Dual step; otherwise `measured_steps` with the range of scores of the first batch.
    """
    xp = check_real("centers", centers)
    check_bounds(bounds)
    if steps is not None:
        check_kind("steps", steps, StepRule, "take measured_steps(bounds), or build one")
    _, d = check_shape("centers", centers, (bounds.n_clusters, "d"))
    check_count("number of columns of centers", d, 1)
    check_same_place(centers=centers, bounds=bounds.lower)
    check_finite("centers", centers)
    means = xp.astype(centers, xp.float64)
    weight = xp.zeros((bounds.n_clusters,), dtype=xp.float64, device=compat.device(centers))
    return MiniBatchState(centers, means, weight, init_state(_endless(bounds)), steps)


def minibatch_step(
    features: Array,
    state: MiniBatchState,
    bounds: SizeBounds,
    *,
    metric: str = "cosine",
    weights: Array | None = None,
    empty: str = "relocate",
) -> MiniBatchStep:
    """Label one mini-batch and update the centers with it.

    Parameters
    ----------
    features : (b, d) real array
        Finite; unit rows for "cosine". Half precision is computed in float32.
    state : MiniBatchState
        Of `init_minibatch`, or of the batch before.
    bounds : SizeBounds
        Only its shares are used; a known number of samples is ignored.
    metric : {"cosine", "euclidean"}
    weights : (b,) real array, optional
        At least 0; they weight the rows in the means. Shares count samples. A batch of weights that
        are all 0 moves prices and counts, and leaves centers and means as they are.
    empty : {"relocate", "keep"}
        Whether a cluster that never got a sample, but may have one, moves to the row farthest from
        its own center or stays.

    Returns
    -------
    MiniBatchStep
        `state` is not changed.

    Raises
    ------
    InvalidValueError, InvalidTypeError, DeviceMismatchError
        As `assign`.

    Notes
    -----
    Cost O(b k d); memory O(b k). The sums of a batch are exact: with these labels, any order of the
    rows gives the same sums. Source: CoKe Eq. 10, 11 and 13; means as in mini-batch k-means.

    Examples
    --------
    >>> import numpy as np
    >>> from dualclust.algos.bounds.sizes import SizeBounds
    >>> bounds = SizeBounds.for_stream(2, lower=0.8)
    >>> state = init_minibatch(np.asarray([[1.0], [9.0]]), bounds)
    >>> x = np.asarray([[0.0], [2.0], [8.0], [12.0]])
    >>> labels, state = minibatch_step(x, state, bounds, metric="euclidean")
    >>> labels, state.centers[:, 0]
    (array([0, 0, 1, 1]), array([ 1., 10.]))
    """
    check_real("features", features)
    check_kind(
        "state", state, MiniBatchState, "begin with dualclust.algos.clustering.init_minibatch"
    )
    check_bounds(bounds)
    k, d = state.centers.shape
    check_shape("bounds.lower", bounds.lower, (k,))
    b, _ = check_shape("features", features, ("b", d))
    check_same_place(features=features, centers=state.centers, bounds=bounds.lower, weights=weights)
    check_finite("features", features)
    check_choice("metric", metric, METRICS)
    check_choice("empty", empty, EMPTY)
    features = at_least_float32(features)
    xp, spherical = compat.array_namespace(features), metric == "cosine"
    if b == 0:
        labels = xp.zeros((0,), dtype=xp.int64, device=compat.device(features))
        return MiniBatchStep(labels, state)
    is_weighted = True
    if weights is not None:
        weights, is_weighted = _batch_weights(weights, b)
    origin = xp.zeros_like(state.means[0, :]) if spherical else xp.mean(state.means, axis=0)
    rows = features if spherical else xp.astype(features, xp.float64) - origin
    scores = _scores(rows, state, origin, spherical)
    endless, steps = _endless(bounds), state.steps
    if steps is None:
        n = STREAM_SAMPLES_PER_CLUSTER * k
        steps = measured_steps(endless, n_samples=n, scale=score_range(scores))
    labels, assignment = assign(scores, endless, state.assignment, steps=steps)
    if not is_weighted:
        return MiniBatchStep(labels, state._replace(assignment=assignment, steps=steps))
    means, weight = _add(rows, labels, weights, state.means - origin, state.weight)
    if empty == "relocate":
        idle = (assignment.counts == 0) & (bounds.upper_share > 0)
        means = _relocate_empty(rows, labels, weights, means, idle, spherical)
    means = means + origin
    found = project_sphere(means, xp.astype(state.centers, xp.float64)) if spherical else means
    centers = xp.astype(found, state.centers.dtype)
    return MiniBatchStep(labels, MiniBatchState(centers, means, weight, assignment, steps))


def _endless(bounds: SizeBounds) -> SizeBounds:
    """Return bounds with the same shares for a stream of unknown length."""
    xp = compat.array_namespace(bounds.lower)
    none, all_ = xp.zeros_like(bounds.lower), xp.full_like(bounds.upper, sys.maxsize)
    return bounds._replace(lower=none, upper=all_, n_samples=None)


def _batch_weights(weights: Array, b: int) -> tuple[Array, bool]:
    """Return the weights of a batch, checked, and whether any of them is above 0."""
    xp = check_real("weights", weights)
    check_shape("weights", weights, (b,))
    (some,) = read(xp.any(weights != 0))  # also of NaN, which is refused
    if some:
        return check_weights("weights", weights, b), True
    return xp.astype(weights, xp.float64), False


def _scores(rows: Array, state: MiniBatchState, origin: Array, spherical: bool) -> Array:
    xp = compat.array_namespace(rows)
    if spherical:
        return xp.matmul(rows, xp.astype(state.centers, rows.dtype).T)
    # Use the centers of the state, rounded to their dtype, so that `predict` gives these labels.
    centers = xp.astype(state.centers, xp.float64) - origin
    return xp.matmul(rows, centers.T) - 0.5 * xp.sum(centers * centers, axis=1)


def _add(
    rows: Array, labels: Array, weights: Array | None, means: Array, weight: Array
) -> tuple[Array, Array]:
    """Add a batch to means and weights; its sums are integers."""
    xp = compat.array_namespace(means)
    k, heaviest, lightest = means.shape[0], 1.0, 1.0
    if weights is None:
        weights = xp.ones_like(rows[:, 0], dtype=xp.float64)
        (largest,) = read(xp.max(xp.abs(rows)))
    else:
        largest, heaviest, lightest = read(xp.max(xp.abs(rows)), *weight_extremes(weights))
    weight_unit, finest = unit_of_weights(heaviest, lightest)
    grid = grid_of(largest, rows.shape[0], finest=finest)
    sums = weighted_sums(rows, weights / weight_unit, labels, grid, n_clusters=k)
    mean, added = weighted_means(sums, grid)
    added = added * weight_unit
    weight = weight + added
    share = added / xp.where(weight > 0, weight, xp.ones_like(weight))
    # The mean of a first batch replaces a center without samples, whatever its value.
    moved = means + (mean - means) * share[:, None]
    return xp.where((share == 1.0)[:, None], mean, moved), weight


def _relocate_empty(
    rows: Array, labels: Array, weights: Array | None, means: Array, idle: Array, spherical: bool
) -> Array:
    """Move idle means to the rows of the batch farthest from their centers (`_empty_clusters`)."""
    xp = compat.array_namespace(means)
    k = means.shape[0]
    which = [j for j, one in enumerate(entries("idle", xp.astype(idle, xp.int64))) if one]
    if not which:
        return means
    own = project_sphere(means) if spherical else means
    apart = rows - xp.take(own, labels, axis=0)
    far = xp.sum(apart * apart, axis=1)
    far = far if weights is None else far * weights
    n_moved = min(len(which), far.shape[0])  # the standard knows no slice beyond the end
    order = xp.argsort(far, descending=True, stable=True)[:n_moved]
    distances, index = entries("far", xp.take(far, order)), list(range(k))
    for turn, j in enumerate(which):
        if turn < len(distances) and distances[turn] > 0.0:
            index[j] = k + turn
    chosen = xp.asarray(index, dtype=xp.int64, device=compat.device(means))
    return xp.take(xp.concat([means, xp.take(rows, order, axis=0)]), chosen, axis=0)
