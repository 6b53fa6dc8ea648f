r"""A memory of the last features and of whose they are: a ring buffer as a pure function.

Problem (ProPos section 6.2, as MoCo does it): with fewer samples per cluster in a batch than it
takes to estimate a prototype, prototypes are means over the batch *and* the last m features of the
target network. A new batch overwrites the oldest entries.

=====================  ==============  =======  ================================================
paper                  here            shape    meaning
=====================  ==============  =======  ================================================
:math:`\mathcal{Q}`    ``rows``        (m, d)   features; the row at ``pushed mod m`` is oldest
\                      ``ids``         (m,)     int64: sample of each row; -1 where none yet
\                      ``pushed``      ()       int64: rows pushed so far, ever
=====================  ==============  =======  ================================================

Ids rather than labels, since labels change at every clustering: look them up when they are needed.
An empty place has row 0, id -1 and by `current_labels` label -1, which `prototypes` leaves out.
(The released queue starts with random features that bear the label of sample 0.)

All shapes are static and no value is read back: where a row goes is arithmetic on `pushed`, an
array. Nothing is written in place, so that a state that was saved stays what it was.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import array_api_compat as compat

from ...core.checks import check_count, check_real, check_same_place, check_shape
from ...core.errors import InvalidTypeError
from ...core.types import Array, Namespace

__all__ = ["MemoryQueue", "QueueContents", "contents", "current_labels", "init_queue", "push"]


class MemoryQueue(NamedTuple):
    """Rows (m, d), their ids (m,) int64, -1 where empty, and how many were pushed, () int64."""

    rows: Array
    ids: Array
    pushed: Array


class QueueContents(NamedTuple):
    """Rows (m, d) from oldest to newest, ids (m,), and which are filled (m,): the last ones."""

    rows: Array
    ids: Array
    filled: Array


def init_queue(
    size: int, n_features: int, *, xp: Namespace, dtype: Any = None, device: object | None = None
) -> MemoryQueue:
    """Return an empty queue of `size` rows, arrays of `xp` on `device`; float32 by default.

    Raises
    ------
    InvalidValueError
        If `size` or `n_features` is below 1.

    Examples
    --------
    >>> import numpy as np
    >>> init_queue(3, 2, xp=np).ids
    array([-1, -1, -1])
    """
    check_count("size", size, 1)
    check_count("n_features", n_features, 1)
    return MemoryQueue(
        xp.zeros((size, n_features), dtype=xp.float32 if dtype is None else dtype, device=device),
        xp.full((size,), -1, dtype=xp.int64, device=device),
        xp.zeros((), dtype=xp.int64, device=device),
    )


def push(queue: MemoryQueue, rows: Array, ids: Array) -> MemoryQueue:
    """Append rows in order, overwriting the oldest; of more than fit, the last ones stay.

    Parameters
    ----------
    queue : MemoryQueue of m rows
    rows : (b, d) real array
        Detached: a queue that holds the graphs of old steps keeps their memory. Any b; converted to
        the dtype of the queue.
    ids : (b,) integer array
        Nonnegative; not checked, since that would read values back.

    Returns
    -------
    MemoryQueue

    Raises
    ------
    InvalidValueError
        For other shapes.

    Notes
    -----
    Cost O(m d), a copy of the queue. Pushing two batches is pushing both at once. Source: ProPos
    section 6.2.

    Examples
    --------
    >>> import numpy as np
    >>> queue = init_queue(3, 1, xp=np, dtype=np.float64)
    >>> for i in (0, 2):
    ...     queue = push(queue, np.asarray([[1.0], [2.0]]) + i, np.asarray([i, i + 1]))
    >>> queue.ids, contents(queue).ids
    (array([3, 1, 2]), array([1, 2, 3]))
    """
    xp = check_real("rows", rows)
    m, d = check_shape("queue.rows", queue.rows, ("m", "d"))
    b, _ = check_shape("rows", rows, ("b", d))
    check_same_place(queue=queue.rows, rows=rows, ids=ids)
    check_shape("ids", ids, (b,))
    if not xp.isdtype(ids.dtype, "integral"):
        msg = f"ids must have an integer dtype, got {ids.dtype}. To fix this, use int64"
        raise InvalidTypeError(msg)
    if b == 0:
        return queue
    # Slot s receives row i if pushed + i = s mod m: i = offset, offset + m, ...; the last of them
    # below b stays.
    slots = xp.arange(m, dtype=xp.int64, device=compat.device(rows))
    offset = (slots - queue.pushed) % m
    written = offset < b
    source = xp.where(written, offset + m * ((b - 1 - offset) // m), xp.zeros_like(offset))
    new_rows = xp.astype(xp.take(rows, source, axis=0), queue.rows.dtype)
    new_ids = xp.take(xp.astype(ids, xp.int64), source, axis=0)
    return MemoryQueue(
        xp.where(written[:, None], new_rows, queue.rows),
        xp.where(written, new_ids, queue.ids),
        queue.pushed + b,
    )


def contents(queue: MemoryQueue) -> QueueContents:
    """Rows from the oldest to the newest; the empty places, if any, come first.

    Notes
    -----
    Cost O(m d). Shapes do not depend on how full the queue is: mask by ``filled``.

    Examples
    --------
    >>> import numpy as np
    >>> queue = push(init_queue(3, 1, xp=np), np.asarray([[5.0]]), np.asarray([7]))
    >>> contents(queue).ids, contents(queue).filled
    (array([-1, -1,  7]), array([False, False,  True]))
    """
    xp = check_real("queue.rows", queue.rows)
    m, _ = check_shape("queue.rows", queue.rows, ("m", "d"))
    places = xp.arange(m, dtype=xp.int64, device=compat.device(queue.rows))
    order = (queue.pushed + places) % m
    return QueueContents(
        xp.take(queue.rows, order, axis=0),
        xp.take(queue.ids, order, axis=0),
        places >= m - queue.pushed,
    )


def current_labels(ids: Array, labels: Array) -> Array:
    """Labels of now of the samples that a queue holds; -1 for its empty places.

    Parameters
    ----------
    ids : (m,) int64 array
        Of `contents`, or of the queue itself.
    labels : (n,) integer array
        By sample, as the last clustering left them.

    Returns
    -------
    (m,) int64 array

    Raises
    ------
    InvalidValueError
        If there are no labels.

    Examples
    --------
    >>> import numpy as np
    >>> current_labels(np.asarray([-1, 2, 0]), np.asarray([5, 6, 7]))
    array([-1,  7,  5])
    """
    check_same_place(ids=ids, labels=labels)
    xp = compat.array_namespace(ids)
    check_shape("ids", ids, ("m",))
    (n,) = check_shape("labels", labels, ("n",))
    check_count("the number of labels", n, 1)
    found = xp.take(xp.astype(labels, xp.int64), xp.clip(ids, min=0), axis=0)
    return xp.where(ids >= 0, found, xp.full_like(found, -1))
