"""Labels for centers and centers for labels, in turn: the loop of `grouped` and `weighted`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import array_api_compat as compat

from ..bounds.sizes import SizeBounds
from ..core.errors import InvalidValueError
from ..core.types import Array
from ..scores.deadline import Deadline, deadline_of
from ..scores.sources import FeatureSource, ScoreSource
from ._cluster_sums import best_centers, gathered_sums
from ._frame import Frame, frame_of, scores_of
from .lloyd import check_arguments, share_changed

__all__ = ["BoundedKMeansResult", "alternated", "checked"]

PATIENCE = 5
"""Iterations without a better one that end the search: labels that are not optimal, or tie, may
take turns for ever. One ends it as much as 2 % below (docs/decisions/0083-weights.md)."""


class _Assignment(Protocol):
    @property
    def labels(self) -> Array: ...
    @property
    def objective(self) -> float: ...
    @property
    def status(self) -> str: ...


Found = TypeVar("Found", bound=_Assignment)


class BoundedKMeansResult(NamedTuple, Generic[Found]):
    """Result of `grouped_kmeans`, `linked_kmeans`, `trimmed_kmeans` and `weighted_kmeans`.

    Attributes
    ----------
    centers : (k, d) array
    assignment : GroupedAssignment, LinkedAssignment, PartialAssignment or WeightedAssignment
        Labels for these centers, and their certificate.
    n_iter : int
        Updates of the centers.
    converged : bool
        Whether the last update changed at most the share `tol` of the labels, or labels got no
        better any more.
    """

    centers: Array
    assignment: Found
    n_iter: int
    converged: bool


def checked(
    features: Array | FeatureSource,
    centers: Array,
    metric: str,
    max_iter: int,
    tol: float,
    bounds: SizeBounds | None,
    weights: Array | None = None,
) -> tuple[Frame, Array]:
    """Return the frame of the features, and centers of their dtype."""
    like = check_arguments(features, centers, metric, max_iter, tol, "keep", bounds)
    if isinstance(features, FeatureSource) and not features.group.is_alone:
        msg = "features must be of one rank, got those of several. To fix this, gather them first"
        raise InvalidValueError(msg)
    frame = frame_of(features, metric, weights)
    return frame, compat.array_namespace(like).astype(centers, like.dtype)


def alternated(
    frame: Frame,
    centers: Array,
    labels_of: Callable[[ScoreSource, Found | None], Found],
    max_iter: int,
    tol: float,
    time_limit: float | Deadline | None,
) -> BoundedKMeansResult[Found]:
    """Return the best labels and centers until labels stay, get no better, or time is up.

    Loads inside their bounds come before loads that are not, then the larger objective counts.
    """
    xp, k, deadline = compat.array_namespace(centers), centers.shape[0], deadline_of(time_limit)

    def found_at(centers: Array, before: Found | None) -> Found:
        return labels_of(scores_of(frame, frame.inside(centers)), before)

    def rank(found: Found) -> tuple[bool, float]:
        return found.status != "inside up to one row", found.objective

    found = found_at(centers, None)
    best, best_at, last, n_iter, converged = found, centers, 0, 0, False
    while n_iter < max_iter and not converged and not (deadline and deadline.is_late()):
        # Rows that stay out are added up as well, as one cluster more.
        labels = xp.where(found.labels < 0, xp.full_like(found.labels, k), found.labels)
        sums = gathered_sums(frame, labels, k + 1)
        centers = best_centers(frame, sums, xp.concat([centers, centers[:1, :]]))[:k, :]
        after, n_iter = found_at(centers, found), n_iter + 1
        if rank(after) > rank(best):
            best, best_at, last = after, centers, n_iter
        changed = share_changed(frame.source.group, after.labels, found.labels)
        found, converged = after, changed <= tol or n_iter - last >= PATIENCE
    return BoundedKMeansResult(best_at, _in_unit(best, frame.score_unit), n_iter, converged)


def _in_unit(found: Any, unit: float) -> Any:
    """Return prices and values, found in the frame, in units of score of the features."""
    names = "prices", "group_prices", "out_price", "objective", "upper_bound", "rounding"
    return found._replace(
        **{name: unit * getattr(found, name) for name in names if hasattr(found, name)}
    )
