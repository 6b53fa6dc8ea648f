"""What kinds of devices differ in, beside computing: the one module that asks which kind it is.

A kind says how random numbers are drawn on a device, how tensors come there while a step runs,
whether a step can be captured as a graph, and what the host pays to look at a value. All else is
the same operations on any device. Tests enter a kind of their own into `KINDS`.

==================  ==========  ==============  ====================================================
what                the host    CUDA            any other
==================  ==========  ==============  ====================================================
``reads_are_free``  yes         no              no: a value that the host looks at waits for all
                                                that was asked before it
``fused``           no          yes             no: optimizers that step in one kernel
``graphs``          no          yes             no: steps captured once and replayed
``searches``        no          yes             no: convolutions that can try several kernels
`Kind.copies`       nothing     from pinned     when the step asks for them
                                memory, beside
                                the step
==================  ==========  ==============  ====================================================
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor

__all__ = ["KINDS", "Captured", "Copies", "Kind", "Sent", "generator", "kind_of"]

Result = TypeVar("Result")


class Captured(Protocol):
    """A step that was captured."""

    def replay(self) -> None:
        """Do it again."""


class Sent(NamedTuple):
    """Tensors on their way to a device, and what says that they have come."""

    rows: tuple[Tensor, ...]
    event: Any = None


class Copies:
    """Brings tensors of the host to a device: a thread sends them, and the step receives them.

    This one copies when the step asks.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def send(self, rows: tuple[Tensor, ...]) -> Sent:
        """Start the copy; called by the thread."""
        return Sent(rows)

    def receive(self, sent: Sent) -> tuple[Tensor, ...]:
        """Return the tensors on the device; called by the step."""
        return tuple(x.to(self.device) for x in sent.rows)


class Kind:
    """A kind of device of which nothing is known but that it computes."""

    reads_are_free = False
    fused = False
    graphs = False
    searches = False

    def available(self) -> bool:
        """Say whether this machine has such a device."""
        return True

    def select(self, device: torch.device) -> None:
        """Make a device the one that this process means without a number."""

    def generator(self, device: torch.device) -> torch.Generator:
        """Return a generator of random numbers on the device."""
        return torch.Generator(device)

    def autocast(
        self, device: torch.device, dtype: torch.dtype | None
    ) -> AbstractContextManager[Any]:
        """Compute matrix products in a lower precision; with None, in that of their arguments."""
        if dtype is None and not torch.amp.is_autocast_available(device.type):
            return nullcontext()
        return torch.autocast(device.type, dtype, enabled=dtype is not None)

    def processor(self, device: torch.device) -> str:
        """Return what computes there: two that differ may differ in the last bit."""
        return torch.backends.cpu.get_cpu_capability()

    def free_memory(self, device: torch.device) -> int | None:
        """Bytes that are free on the device; None where samples of the host need no room."""
        return None

    def fast_bfloat16(self) -> bool:
        """Say whether convolutions take less time in bfloat16, as far as that is known."""
        return False

    def copies(self, device: torch.device) -> Copies:
        """Return what brings tensors to the device while steps run."""
        return Copies(device)

    def capture(self, function: Callable[[], Result]) -> tuple[Captured, Result]:
        """Record a function of no arguments; returns what replays it, and its result."""
        msg = "this kind of device has no graphs"
        raise NotImplementedError(msg)


class _Host(Kind):
    reads_are_free = True

    def fast_bfloat16(self) -> bool:
        """Ask the processor, not a clock: on one machine the answer is always the same."""
        able = torch.cpu.get_capabilities()
        return bool(able.get("avx512_bf16") or able.get("amx_bf16"))


class _Cuda(Kind):
    fused = True
    graphs = True
    searches = True

    def available(self) -> bool:
        return torch.cuda.is_available()

    def select(self, device: torch.device) -> None:
        torch.cuda.set_device(device)

    def processor(self, device: torch.device) -> str:
        return torch.cuda.get_device_name(device)

    def free_memory(self, device: torch.device) -> int | None:
        free, _ = torch.cuda.mem_get_info(device)
        return int(free)

    def copies(self, device: torch.device) -> Copies:
        return _PinnedCopies(device)

    def capture(self, function: Callable[[], Result]) -> tuple[Captured, Result]:
        """Capture a function; it does not run before the first replay.

        What other threads ask of the device meanwhile, as memory for batches to come, is not part
        of the graph and does not end it.
        """
        graph, stream = torch.cuda.CUDAGraph(), torch.cuda.current_stream()
        try:
            with torch.cuda.graph(graph, capture_error_mode="thread_local"):
                result = function()
        finally:
            torch.cuda.set_stream(stream)  # where a capture fails, torch stays on that of the graph
        return graph, result


class _PinnedCopies(Copies):
    """Copies from pinned memory on a stream of their own, so that no step waits for one."""

    def __init__(self, device: torch.device) -> None:
        super().__init__(device)
        self.stream: Any = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def send(self, rows: tuple[Tensor, ...]) -> Sent:
        with torch.cuda.stream(self.stream):
            moved = tuple(x.pin_memory().to(self.device, non_blocking=True) for x in rows)
            event = torch.cuda.Event()  # type: ignore[no-untyped-call]
            event.record(self.stream)
        # The pinned memory must outlive the copy from it.
        event.synchronize()
        return Sent(moved, event)

    def receive(self, sent: Sent) -> tuple[Tensor, ...]:
        stream = torch.cuda.current_stream(self.device)
        stream.wait_event(sent.event)
        # Its memory belongs to the copies' stream, and this one is not done with it.
        for rows in sent.rows:
            rows.record_stream(stream)
        return sent.rows


KINDS: dict[str, Kind] = {"cpu": _Host(), "cuda": _Cuda()}
"""Kinds by torch's name of the device type; any other is a `Kind`."""

_OTHER = Kind()


def kind_of(device: str | torch.device) -> Kind:
    """Return what is known of a device's kind.

    Examples
    --------
    >>> kind_of("cpu").reads_are_free, kind_of("cuda:1").graphs
    (True, True)
    """
    return KINDS.get(torch.device(device).type, _OTHER)


def generator(device: str | torch.device, seed: int) -> torch.Generator:
    """Return a fresh generator on a device."""
    return kind_of(device).generator(torch.device(device)).manual_seed(seed)
