"""Ctrl-C that ends a search with the best labels so far, for those who ask for it.

Without it, Ctrl-C raises KeyboardInterrupt in the middle of a search, and what this has found is
lost.
"""

from __future__ import annotations

import math
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from ..algos.scores.deadline import Deadline
from ..common.stopping import Stop, stoppable

__all__ = ["ended_by_interrupt", "interruptible"]


@contextmanager
def interruptible(*, time_limit: float | None = None) -> Iterator[Deadline]:
    """Let Ctrl-C end the searches that take this limit with the best labels so far.

    The first Ctrl-C (SIGINT) inside the block ends each search with ``time_limit=limit`` after the
    step in hand, as if its time were up: labels inside their bounds, and the gap that is proven for
    them. The second raises KeyboardInterrupt wherever the program is.

    Parameters
    ----------
    time_limit : float >= 0, optional
        Seconds from here on, after which they end as well.

    Yields
    ------
    Deadline
        For ``time_limit=`` of `assign_offline`, `assign_exact`, `assign_source`, `kmeans`,
        `constrained_kmeans` and the estimators. After the block it limits nothing.

    Raises
    ------
    KeyboardInterrupt
        At the second Ctrl-C. Outside the main thread, where Python delivers no signal, and where
        the process ignores SIGINT, nothing changes: the limit is one of time alone.
    InvalidValueError, InvalidTypeError
        For what is no number of seconds.

    Notes
    -----
    Handlers that were there before are back after the block. A block within another takes its
    signals. Whatever else runs inside the block goes on until the second Ctrl-C, so let it hold the
    search alone. ``limit.is_late()`` tells inside the block whether the limit has come.

    Examples
    --------
    >>> import numpy as np
    >>> import dualclust as dc
    >>> scores = np.random.default_rng(0).normal(size=(20_000, 50))
    >>> bounds = dc.SizeBounds.from_ratios(50, n_samples=20_000, lower=0.9, upper=1.1)
    >>> with dc.interruptible() as limit:
    ...     found = dc.assign_offline(scores, bounds, time_limit=limit)
    >>> found.gap <= 1e-4  # nobody has interrupted it
    True
    """
    limit = Deadline(time_limit)
    try:
        with ended_by_interrupt(limit):
            yield limit
    finally:
        limit.stop = math.inf


@contextmanager
def ended_by_interrupt(deadline: Deadline) -> Iterator[Stop]:
    """Let Ctrl-C inside the block end the searches of a deadline, as `interruptible` does."""
    # A job in the background of a script ignores the terminal's Ctrl-C, and goes on to do so.
    ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    signals = () if ignored else (signal.SIGINT,)
    with stoppable(signals, then="ends with the best labels so far") as stop:
        deadline.asked = stop
        try:
            yield stop
        finally:
            deadline.asked = None
