"""A time by which work is to end with what it has, the same on all ranks.

Problem: a search that is asked for labels within some seconds, or until somebody interrupts it,
looks between its steps whether it is to end. Ranks must end together, or those that go on would
wait for the others: they end once one of them is late. Nothing else of a result depends on a clock.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import array_api_compat as compat

from ..core.checks import check_interval
from ..core.types import Array
from .sources import Group

__all__ = ["Deadline", "agreed", "deadline_of", "is_over"]


class Deadline:
    """The time at which a search is to end, counted from when this is made, or on request.

    Parameters
    ----------
    seconds : float >= 0, optional
        0 ends it at the first look at the clock; None leaves it to `asked` alone.
    clock : callable, optional
        Seconds from any start; `time.monotonic` by default.
    asked : callable, optional
        Says whether somebody has asked for the end, as by Ctrl-C (`dualclust.interruptible`).

    Attributes
    ----------
    is_timed : bool
        Whether it comes by the clock, so that a search begins no step that may take much longer.

    Raises
    ------
    InvalidTypeError, InvalidValueError
        For what is no finite number of seconds.

    Notes
    -----
    A copy is the deadline itself: whoever ends it ends all searches that hold it.

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

    def __init__(
        self,
        seconds: float | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        asked: Callable[[], bool] | None = None,
    ) -> None:
        self.clock, self.asked, self.is_timed = clock, asked, seconds is not None
        self.stop = math.inf
        if seconds is not None:
            self.stop = clock() + check_interval("time_limit", seconds, 0.0, math.inf)

    def is_late(self) -> bool:
        """Tell whether it is over here; other ranks may see another clock (`is_over`)."""
        return (self.asked is not None and self.asked()) or self.clock() >= self.stop

    def earlier(self, seconds: float) -> Deadline:
        """Return one that comes so many seconds before, and on request when this does.

        Examples
        --------
        >>> Deadline(5.0, clock=lambda: 0.0).earlier(2.0).stop
        3.0
        """
        made = Deadline(clock=self.clock, asked=self.is_late)
        made.stop, made.is_timed = self.stop - seconds, self.is_timed
        return made

    def __deepcopy__(self, memo: object) -> Deadline:
        return self  # as scikit-learn copies the parameters of an estimator


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


def agreed(deadline: Deadline | None, group: Group, *, like: Array) -> Deadline | None:
    """Return a deadline as all ranks see it, for work that each of them does by itself.

    Ranks that compute the same on the same rows look at it equally often, hence together.

    Examples
    --------
    >>> import numpy as np
    >>> from dualclust.algos.scores.sources import alone
    >>> agreed(Deadline(0.0), alone(3), like=np.zeros(1)).is_late()
    True
    """
    if deadline is None or group.is_alone:
        return deadline
    same = Deadline(asked=lambda: is_over(deadline, group, like=like))
    same.is_timed = deadline.is_timed
    return same
