"""A time by which work is to end with what it has, the same on all ranks.

Problem: a search that is asked for labels within some seconds looks at the clock between its steps.
Ranks must end together, or those that go on would wait for the others: they end once one of them is
late. Nothing else of a result depends on a clock.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import array_api_compat as compat

from ..core.checks import check_interval
from ..core.types import Array
from .sources import Group

__all__ = ["Deadline", "deadline_of", "is_over"]


class Deadline:
    """The time at which a search is to end, counted from when this is made.

    Parameters
    ----------
    seconds : float >= 0
        0 ends it at the first look at the clock.
    clock : callable, optional
        Seconds from any start; `time.monotonic` by default.

    Raises
    ------
    InvalidTypeError, InvalidValueError
        For what is no finite number of seconds.

    Examples
    --------
    >>> now = 0.0
    >>> deadline = Deadline(5.0, clock=lambda: now)
    >>> deadline.is_late()
    False
    >>> now = 5.0
    >>> deadline.is_late()
    True
    """

    def __init__(self, seconds: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.stop = clock() + check_interval("time_limit", seconds, 0.0, math.inf)

    def is_late(self) -> bool:
        """Tell whether it is over here; other ranks may see another clock (`is_over`)."""
        return self.clock() >= self.stop


def deadline_of(time_limit: float | Deadline | None) -> Deadline | None:
    """Return the deadline of an argument: in so many seconds from now, one that runs, or none.

    Examples
    --------
    >>> deadline_of(None) is None, deadline_of(0.0).is_late()
    (True, True)
    """
    if time_limit is None or isinstance(time_limit, Deadline):
        return time_limit
    return Deadline(time_limit)


def is_over(deadline: Deadline | None, group: Group, *, like: Array) -> bool:
    """Tell all ranks alike whether it is over on any of them; all call this together.

    Examples
    --------
    >>> import numpy as np
    >>> from dualclust.algos.scores.sources import alone
    >>> is_over(Deadline(0.0), alone(3), like=np.zeros(1))
    True
    """
    if deadline is None:
        return False
    if group.is_alone:
        return deadline.is_late()
    xp = compat.array_namespace(like)
    late = xp.asarray([int(deadline.is_late())], dtype=xp.int64, device=compat.device(like))
    return bool(xp.any(group.gather(late) > 0))
