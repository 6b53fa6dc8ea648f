r"""Rows that one cluster alone may take, and the room that is left to the others.

Problem: an online pass keeps room for what clusters are still owed, but not for rows that have no
choice. A row that is fixed in a cluster which is full by then, or which comes when only other
clusters are owed rows, would have to go where it must not.

1. *Count* the forced rows of each cluster in a pass over all rows (`forced_counts`).
2. *Set aside* their room: the other rows are labeled under bounds less these counts
   (`remaining_bounds`).
3. *Label* forced rows by their cluster, and the others under what is left (`assign_remaining`). If
   the others may go anywhere, caps and completion now end inside the bounds for any scores.

=====================  ===========  =======  =====================================================
symbol                 here         shape    meaning
=====================  ===========  =======  =====================================================
:math:`s_{i,k}`        ``scores``   (b, k)   minus infinity forbids a pair
:math:`f_k`            ``forced``   (k,)     rows with one finite score, in column k
:math:`l_k - f_k`      ``lower``    (k,)     of `remaining_bounds`, at least 0
=====================  ===========  =======  =====================================================
"""

from __future__ import annotations

import array_api_compat as compat

from ..bounds.sizes import SizeBounds
from ..core.reads import on_host, read
from ..core.segments import segment_sum
from ..core.types import Array
from ..online.assignment import AssignmentState, assign
from ..online.step_sizes import StepRule

__all__ = ["FORBIDDEN", "assign_remaining", "forced_counts", "remaining_bounds"]

FORBIDDEN = -1e37
"""Score of a forbidden pair in an online pass, which takes finite scores."""


def forced_counts(scores: Array) -> Array:
    """Count the rows of a block that one cluster alone may take, (k,) int64.

    Examples
    --------
    >>> import numpy as np
    >>> forced_counts(np.asarray([[0.5, -np.inf], [0.1, 0.2], [0.3, -np.inf]]))
    array([2, 0])
    """
    xp, (b, k) = compat.array_namespace(scores), scores.shape
    if not b or (k > 1 and on_host(scores) and bool(xp.all(xp.isfinite(scores)))):
        return xp.zeros((k,), dtype=xp.int64, device=compat.device(scores))
    own = xp.astype(xp.argmax(scores, axis=1), xp.int64)
    own = xp.where(_is_forced(scores), own, xp.full_like(own, k))
    return segment_sum(xp.ones_like(own)[:, None], own, n_segments=k + 1)[:k, 0]


def remaining_bounds(bounds: SizeBounds, forced: Array) -> SizeBounds | None:
    """Return the bounds of the rows that have a choice.

    Parameters
    ----------
    bounds : SizeBounds
        Of all rows, of a known number.
    forced : (k,) int64 array
        Forced rows of each cluster, of all ranks.

    Returns
    -------
    SizeBounds or None
        None if the forced rows alone leave no labels inside the bounds.

    Examples
    --------
    >>> import numpy as np
    >>> bounds = SizeBounds.from_counts([2, 1], [3, 4], n_samples=6)
    >>> left = remaining_bounds(bounds, np.asarray([2, 0]))
    >>> left.lower, left.upper, left.n_samples
    (array([0, 1]), array([1, 4]), 4)
    >>> remaining_bounds(bounds, np.asarray([4, 0])) is None
    True
    """
    xp, n = compat.array_namespace(forced), bounds.n_samples or 0
    lower, upper = xp.clip(bounds.lower - forced, min=0), bounds.upper - forced
    taken, owed, room, least = read(xp.sum(forced), xp.sum(lower), xp.sum(upper), xp.min(upper))
    n_free, counts = n - int(taken), xp.astype(forced, xp.float64)
    if least < 0 or not owed <= n_free <= room:
        return None
    low, high = (
        xp.clip((share * n - counts) / max(1, n_free), min=0.0, max=1.0)
        for share in (bounds.lower_share, bounds.upper_share)
    )
    return SizeBounds(low, high, lower, upper, n_free)


def assign_remaining(
    scores: Array, bounds: SizeBounds, state: AssignmentState, steps: StepRule
) -> tuple[Array, AssignmentState]:
    """Label the forced rows of a block by their cluster, and the others online.

    Parameters
    ----------
    scores : (b, k) array
    bounds : SizeBounds
        Of `remaining_bounds`.
    state : AssignmentState
        Of the rows that have a choice; forced rows do not move it.
    steps : StepRule

    Returns
    -------
    labels : (b,) int64 array
    state : AssignmentState
    """
    xp, b = compat.array_namespace(scores), scores.shape[0]
    forced = xp.astype(_is_forced(scores), xp.int64)
    n_free = b - int(read(xp.sum(forced))[0])
    # Rows with a choice come first by a sort: not every library has boolean indices.
    order = xp.argsort(forced, stable=True)
    free, rest = order[:n_free], order[n_free:]
    some = xp.clip(xp.take(scores, free, axis=0), min=FORBIDDEN)
    chosen, state = assign(some, bounds, state, steps=steps)
    own = xp.astype(xp.argmax(xp.take(scores, rest, axis=0), axis=1), xp.int64)
    return xp.take(xp.concat([chosen, own]), xp.argsort(order)), state


def _is_forced(scores: Array) -> Array:
    """Which rows have one finite score, (b,) bool."""
    xp = compat.array_namespace(scores)
    return xp.sum(xp.astype(xp.isfinite(scores), xp.int64), axis=1) == 1
