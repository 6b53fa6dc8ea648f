"""Read batches of samples that do not fit the device ahead of the step, in one thread.

The order and the numbers are those of samples that live on the device: the thread only fetches
bytes, and the training device normalizes them as always. Resident samples need no thread. At most
`AHEAD` batches wait for their step; one more is being read, and the step holds one.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import torch
from torch import Tensor

from ...common.devices import Sent, kind_of
from ..data.samples import Samples

__all__ = ["AHEAD", "on_host", "prefetch", "read_ahead"]

# Batches that wait, read, for their step: enough to ride out a slow one.
AHEAD = 3


# Reads one batch, as one tensor or several.
Job = Callable[[], tuple[Tensor, ...]]


@contextmanager
def prefetch(data: Samples, parts: Sequence[Tensor]) -> Iterator[Iterator[Tensor]]:
    """Iterate over the samples of each part, normalized and on the training device, in order.

    Leaving the block, also by an exception, ends the thread. What goes wrong in the thread is
    raised where its batch is asked for.

    Parameters
    ----------
    data : Samples
    parts : sequence of (b,) int64 tensors. Positions of the samples of each batch.

    Examples
    --------
    >>> from dualclust.train.data.samples import load_source
    >>> data = load_source("digits", resident="never")
    >>> with prefetch(data, torch.arange(10).split(5)) as batches:
    ...     [tuple(batch.shape) for batch in batches]
    [(5, 1, 8, 8), (5, 1, 8, 8)]
    """
    if data.resident:
        yield (data.take(ids) for ids in parts)
        return
    jobs = [partial(_fetch, data, ids) for ids in on_host(parts)]
    with read_ahead(jobs, data.mean.device) as batches:
        yield (data.finish(rows) for (rows,) in batches)


@contextmanager
def read_ahead(
    jobs: Sequence[Job], device: torch.device, stop: Callable[[], None] | None = None
) -> Iterator[Iterator[tuple[Tensor, ...]]]:
    """Iterate over what the jobs return, on the device, in their order; a thread does them.

    Leaving the block, also by an exception, ends the thread. What goes wrong in the thread is
    raised where its batch is asked for.

    Parameters
    ----------
    jobs : sequence of callables without arguments. Each returns tensors on the CPU.
    device : torch.device. Where the tensors go.
    stop : callable, optional. Called before the thread is waited for: it makes a job that is under
        way return or raise soon.
    """
    reader = _Reader(jobs, device)
    reader.thread.start()
    try:
        yield reader.batches()
    finally:
        reader.close(stop)


def on_host(parts: Sequence[Tensor]) -> list[Tensor]:
    """Copy the parts to the CPU at once: a copy for each would wait for the step each time."""
    if not parts:
        return []
    return list(torch.split(torch.cat(tuple(parts)).cpu(), [len(part) for part in parts]))


def _fetch(data: Samples, ids: Tensor) -> tuple[Tensor, ...]:
    return (data.fetch(ids),)


class _Reader:
    """A thread, and the few batches between it and the step."""

    def __init__(self, jobs: Sequence[Job], device: torch.device) -> None:
        self.jobs, self.copies = jobs, kind_of(device).copies(device)
        self.ready: queue.Queue[Sent | BaseException] = queue.Queue(AHEAD)
        self.closed = threading.Event()
        self.thread = threading.Thread(target=self._read, name="prefetch", daemon=True)

    def batches(self) -> Iterator[tuple[Tensor, ...]]:
        """Each batch, once it is there."""
        for _ in self.jobs:
            found = self.ready.get()
            if isinstance(found, BaseException):
                raise found
            rows = self.copies.receive(found)
            del found
            yield rows
            # Not held while the next one is waited for.
            del rows

    def close(self, stop: Callable[[], None] | None) -> None:
        """Let the thread end, wherever it is, and wait for it."""
        self.closed.set()
        if stop is not None:
            stop()
        while self.thread.is_alive():
            try:
                self.ready.get(timeout=0.01)
            except queue.Empty:
                continue

    def _read(self) -> None:
        try:
            for job in self.jobs:
                if not self._put(self.copies.send(job())):
                    return
        except BaseException as error:
            self._put(error)

    def _put(self, found: Sent | BaseException) -> bool:
        self.ready.put(found)  # `close` makes room
        return not self.closed.is_set()
