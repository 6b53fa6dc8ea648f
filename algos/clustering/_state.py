r"""The state of k-means between two iterations: all that the next one depends on.

A run that is stopped goes on from it, and ends with the bits of a run that was not. So it holds
what the labels of an iteration have taught about the prices of the next ones, too.

==============  ============  =======  =====================================
symbol          here          shape    meaning
==============  ============  =======  =====================================
:math:`c_k`     ``centers``   (k, d)   unit vectors, or points
:math:`\pi_k`   ``prices``    (k,)     of the bounds, in units of score
:math:`y_i`     ``labels``    (n,)     cluster of each of this rank's samples
==============  ============  =======  =====================================
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import array_api_compat as compat

from ..core.checks import (
    check_count,
    check_finite,
    check_interval,
    check_kind,
    check_labels,
    check_same_place,
    check_shape,
)
from ..core.types import Array
from ._frame import Frame

__all__ = ["KMeansState", "Progress", "check_state"]


class KMeansState(NamedTuple):
    """Everything that the next iteration depends on; `progress` receives it.

    Attributes
    ----------
    centers : (k, d) array
    prices : (k,) float64 array
        Prices of the bounds, in units of score; 0 without bounds.
    n_iter : int
        Center updates so far.
    labels : (n_local,) int64 array
        Labels of this rank's rows, for these centers.
    objective : float
        Objective over all rows.
    converged : bool
        Whether a last update, to the means, changed at most the share `tol` of the labels.
    gap : float
        Proven relative gap of the labels; 0 without bounds.
    drifts : (k,) float64 array, or None
        About how much each price changes in an iteration, in units of score; None if that is not
        known.
    changed : float
        Share of the labels that the last update changed; 1 before the first.
    upper_bound, rounding : float
        What proves the gap, as in `OfflineAssignment`; infinity and 0 where nothing does.
    """

    centers: Array
    prices: Array
    n_iter: int
    labels: Array
    objective: float
    converged: bool = False
    gap: float = 0.0
    drifts: Array | None = None
    changed: float = 1.0
    upper_bound: float = math.inf
    rounding: float = 0.0


Progress = Callable[[KMeansState, float], None]


def check_state(state: KMeansState, frame: Frame, centers: Array) -> None:
    """Raise unless a state fits the rows of this rank and centers of this shape."""
    k, d = centers.shape
    check_kind("state", state, KMeansState, "pass what `progress` was given")
    check_shape("state.centers", state.centers, (k, d))
    check_finite("state.centers", state.centers)
    check_shape("state.prices", state.prices, (k,))
    check_finite("state.prices", state.prices)
    check_labels("state.labels", state.labels, frame.source.group.n_local, k)
    if state.drifts is not None:
        check_shape("state.drifts", state.drifts, (k,))
        check_finite("state.drifts", state.drifts)
        least = float(compat.array_namespace(state.drifts).min(state.drifts))
        check_interval("state.drifts", least, 0.0, math.inf)
    check_same_place(
        features=frame.origin,
        centers=state.centers,
        prices=state.prices,
        labels=state.labels,
        drifts=state.drifts,
    )
    check_count("state.n_iter", state.n_iter, 0)
    check_interval("state.changed", state.changed, 0.0, 1.0)
    check_interval("state.gap", state.gap, 0.0, math.inf)
