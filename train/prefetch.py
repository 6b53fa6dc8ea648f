"""Batches of samples that do not fit the device, read ahead of the step by one thread.

The order and the numbers are those of samples that live on the device: the thread only fetches
bytes, and they are normalized on the training device as ever. Resident samples are passed on
without a thread.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .data import Samples

__all__ = ["AHEAD", "prefetch"]

# Batches that wait, read, for their step: enough to ride out a slow one.
AHEAD = 3


class _Ready(NamedTuple):
    """A batch on its way to the device, and the event that says it has come."""

    rows: Tensor
    event: torch.cuda.Event | None


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
    >>> from dualclust.train.data import load_source
    >>> data = load_source("digits", resident="never")
    >>> with prefetch(data, torch.arange(10).split(5)) as batches:
    ...     [tuple(batch.shape) for batch in batches]
    [(5, 1, 8, 8), (5, 1, 8, 8)]
    """
    if data.resident:
        yield (data.take(ids) for ids in parts)
        return
    reader = _Reader(data, parts)
    reader.thread.start()
    try:
        yield reader.batches()
    finally:
        reader.close()


class _Reader:
    """A thread, and the few batches between it and the step."""

    def __init__(self, data: Samples, parts: Sequence[Tensor]) -> None:
        self.data, self.device = data, data.mean.device
        # One copy for all parts: a copy from the device for each would wait for the step.
        lengths = [len(ids) for ids in parts]
        ids = torch.cat(tuple(parts)).cpu() if parts else torch.zeros(0, dtype=torch.int64)
        self.parts = list(torch.split(ids, lengths))
        self.ready: queue.Queue[_Ready | BaseException] = queue.Queue(AHEAD)
        self.closed = threading.Event()
        self.thread = threading.Thread(target=self._read, name="prefetch", daemon=True)
        self.stream: Any = None
        if self.device.type == "cuda":
            self.stream = torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]

    def batches(self) -> Iterator[Tensor]:
        """Each batch, once it is there."""
        for _ in self.parts:
            found = self.ready.get()
            if isinstance(found, BaseException):
                raise found
            if found.event is not None:
                stream = torch.cuda.current_stream(self.device)
                stream.wait_event(found.event)
                # Its memory belongs to the reader's stream, and this one is not done with it.
                found.rows.record_stream(stream)
            yield self.data.finish(found.rows)

    def close(self) -> None:
        """Let the thread end, wherever it is, and wait for it."""
        self.closed.set()
        while self.thread.is_alive():
            try:
                self.ready.get(timeout=0.01)
            except queue.Empty:
                continue
        self.thread.join()

    def _read(self) -> None:
        try:
            for ids in self.parts:
                found = self._fetch(ids)
                if not self._put(found):
                    return
        except BaseException as error:
            self._put(error)

    def _put(self, found: _Ready | BaseException) -> bool:
        if self.closed.is_set():
            return False
        self.ready.put(found)
        return not self.closed.is_set()

    def _fetch(self, ids: Tensor) -> _Ready:
        rows = self.data.fetch(ids)
        if self.stream is None:
            return _Ready(rows, None)
        with torch.cuda.stream(self.stream):
            moved = rows.pin_memory().to(self.device, non_blocking=True)
            event = torch.cuda.Event()  # type: ignore[no-untyped-call]
            event.record(self.stream)
        # The pinned memory must outlive the copy from it.
        event.synchronize()
        return _Ready(moved, event)
