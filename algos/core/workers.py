r"""Threads that share out a pass over rows, with its results in the order of the rows.

Problem: products and compiled kernels release Python's lock, so blocks of rows can be computed at
the same time. Sums and lists must not depend on which block is ready first.

1. *The caller decides.* A function of `algos` names no number of threads: whoever calls it opens
   `workers` around it, and every pass inside runs there. Without one, passes run as plain loops.
2. *Results come in order.* `map_in_order` hands them out as a loop would. What is added up or
   appended from them is the same to the last bit for any number of threads, as long as a block's
   result depends on the block alone.
3. *The caller works too.* It is one of the threads, and does a pass of one block alone: where the
   result that comes next is not ready, it computes the first block that no other has begun. A pass
   of a few short blocks would cost as much in threads that wake each other as in work.
4. *One level.* Inside a pass there are no workers: a pass within a pass is a loop, so that no
   thread ever waits for another's place in the pool.

NumPy arrays alone are shared out: PyTorch and JAX have threads of their own, and a GPU its queue.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sized
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from itertools import islice
from typing import NamedTuple, TypeVar

import array_api_compat as compat

from ._tasks import Task, Tasks
from .checks import check_count
from .types import Array

__all__ = ["map_in_order", "map_parts", "row_parts", "workers"]

T = TypeVar("T")
R = TypeVar("R")

AHEAD = 2
"""Items per thread that are begun before the caller has taken the result of the first."""

MOST_PARTS = 16
"""Parts of an array at most: more than threads, so that one that is late holds up little. So few
items, if they can be counted, are all begun at once."""

PART_ENTRIES = 2**16
"""Entries of a part of a matrix at least: what comes and goes meanwhile stays in a core's cache."""


class _Pool(NamedTuple):
    """Threads beside the caller's, and how many they are with it."""

    executor: ThreadPoolExecutor
    n_threads: int


_pool: ContextVar[_Pool | None] = ContextVar("dualclust_workers", default=None)


@contextmanager
def workers(n_threads: int) -> Iterator[None]:
    """Run the passes over rows inside this context on some threads, the caller's among them.

    Parameters
    ----------
    n_threads : int
        At least 1. It changes the time that a pass takes, and none of its bits, as long as products
        of matrices run on one thread each (`dualclust.cluster.threads`).

    Raises
    ------
    InvalidValueError, InvalidTypeError
        If `n_threads` is no integer of at least 1.

    Notes
    -----
    The threads end with the context, also by an error. Contexts may be nested, and opened by
    several threads at the same time: each has its own workers.

    Examples
    --------
    >>> import numpy as np
    >>> with workers(2):
    ...     list(map_in_order(lambda i: i * i, range(5), like=np.zeros(1)))
    [0, 1, 4, 9, 16]
    """
    check_count("n_threads", n_threads, 1)
    if n_threads == 1:
        token = _pool.set(None)
        try:
            yield
        finally:
            _pool.reset(token)
        return
    with ThreadPoolExecutor(n_threads - 1, thread_name_prefix="dualclust") as executor:
        token = _pool.set(_Pool(executor, n_threads))
        try:
            yield
        finally:
            _pool.reset(token)


def map_in_order(
    function: Callable[[T], R], items: Iterable[T], *, like: Array | None
) -> Iterator[R]:
    """Yield ``function(item)`` of each item, in their order, computed by workers and the caller.

    Parameters
    ----------
    function : callable
        Called by several threads at once.
    items : iterable
        Read by the caller's thread alone, `AHEAD` of each thread at a time; `MOST_PARTS` of them or
        fewer, if they can be counted, all at once.
    like : array, or None
        Of the library that computes. For other libraries than NumPy, or None, everything runs in
        the caller's thread, each item when its result is asked for.

    Raises
    ------
    Exception
        Whatever `function` raises, for the first item that does. Items that have not begun are then
        dropped, and none is still running.
    """
    pool = _pool_for(like)
    if pool is None:
        yield from map(function, items)
        return
    tasks = _tasks_of(pool, function)
    rest: Iterator[Task[T, R]] = map(Task, items)
    started: deque[Task[T, R]] = deque()
    ahead = AHEAD * pool.n_threads
    if isinstance(items, Sized) and len(items) <= MOST_PARTS:
        ahead = max(ahead, MOST_PARTS)

    def begin(most: int, *, for_caller: int) -> None:
        if more := list(islice(rest, most)):
            started.extend(more)
            tasks.offer(more, n_workers=max(len(more) - for_caller, 0))

    try:
        begin(ahead, for_caller=1)
        while started:
            while not started[0].is_done and tasks.do_here():
                pass
            result = started[0].result()
            started.popleft()
            begin(1, for_caller=0)
            yield result
            del result  # before the next one is there as well
    finally:
        tasks.withdraw(started)
        started.clear()  # errors that nobody will see hold frames, and these hold it


def _pool_for(like: Array | None) -> _Pool | None:
    """The workers of this context, if the library of an array leaves its threads to us."""
    return None if like is None or not compat.is_numpy_array(like) else _pool.get()


def _tasks_of(pool: _Pool, function: Callable[[T], R]) -> Tasks[T, R]:
    # What the caller has chosen holds in the workers too: the engine, how NumPy treats overflow.
    chosen = copy_context()
    chosen.run(_pool.set, None)
    return Tasks(function, pool.executor, most_workers=pool.n_threads - 1, context=chosen)


def row_parts(n_rows: int, least: int, *, like: Array) -> list[slice]:
    """Cut rows into parts that threads share out, whatever their number.

    Parameters
    ----------
    n_rows : int >= 0
    least : int >= 1
        Rows of a part at least: handing one out takes time as well.
    like : array
        Of the library that computes: rows that no thread of ours computes are one part.

    Returns
    -------
    list of slice
        At least one, `MOST_PARTS` at most.

    Examples
    --------
    >>> import numpy as np
    >>> row_parts(10, 4, like=np.zeros(1))
    [slice(0, 4, None), slice(4, 8, None), slice(8, 10, None)]
    """
    size = max(n_rows, 1)
    if compat.is_numpy_array(like):
        size = max(least, math.ceil(n_rows / MOST_PARTS))
    return [slice(start, min(start + size, n_rows)) for start in range(0, max(n_rows, 1), size)]


def map_parts(function: Callable[[Array], R], matrix: Array) -> Iterator[R]:
    """Yield ``function(rows)`` of the parts of a matrix, in their order, which threads share out.

    Parameters
    ----------
    function : callable
        Of some rows, each by itself: the parts depend on the shape of the matrix. Called by several
        threads at once.
    matrix : (n, k) array
        Of another library than NumPy it is one part.

    Raises
    ------
    Exception
        As in `map_in_order`.

    Examples
    --------
    >>> import numpy as np
    >>> list(map_parts(lambda rows: rows.shape, np.zeros((3 * 2**15, 2))))
    [(32768, 2), (32768, 2), (32768, 2)]
    """
    least = max(1, PART_ENTRIES // max(matrix.shape[1], 1))
    parts = row_parts(matrix.shape[0], least, like=matrix)
    return map_in_order(lambda rows: function(matrix[rows, :]), parts, like=matrix)
