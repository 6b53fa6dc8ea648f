"""The second device of the tests in place of a card: the same stages, at toy size, on the CPU.

What torch does for CUDA alone gets a stand-in here, and only while a rehearsal is active: the
capture of a step (recorded and done again operation by operation), optimizers that step in one
kernel, and a profiler that counts operations in place of kernels.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib import import_module
from typing import Any
from unittest import mock

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from dualclust.algos.losses.gatcluster.grouping import grouped_labels
from dualclust.train.methods.gatcluster import _targets

from .machine import ROOT, Machine, Profile, Quiet
from .needs import CannotRun

if not (ROOT / "tests" / "second_device.py").is_file():
    msg = f"--rehearse needs the folder tests of a checkout, and {ROOT} has none"
    raise CannotRun(msg)

from tests.second_device import DEVICE, Transfers, _Dispatch, second_device
from tests.train.tape import Tape

__all__ = ["Rehearsal"]


class Rehearsal(Machine):
    """The second device."""

    toy = True
    cache = 2**12
    compiler = "eager"
    name = "none: a rehearsal on the CPU"
    device = DEVICE

    def __init__(self) -> None:
        self.transfers = Transfers()

    @contextmanager
    def active(self) -> Iterator[None]:
        """Enter the second device, with what it needs beside it."""
        before = torch.get_num_threads()
        with ExitStack() as stack:
            stack.callback(torch.set_num_threads, before)
            torch.set_num_threads(1)
            self.transfers = stack.enter_context(second_device())
            for name in ("sgd", "adam"):
                module = import_module(f"torch.optim.{name}")
                check = mock.patch.object(module, "_device_dtype_check_for_fused")
                stack.enter_context(check)  # it lists the devices that torch has kernels for
            # A captured step takes all of 100 rounds: a sixth of a rehearsal, on 14 rows.
            short = partial(grouped_labels, max_iter=5)
            stack.enter_context(mock.patch.object(_targets, "grouped_labels", short))
            yield

    def describe(self) -> dict[str, Any]:
        """There is no card."""
        return {"card": self.name}

    def synchronize(self) -> None:
        """Nothing is left to wait for."""

    def seconds(self, function: Callable[[], object]) -> float:
        """Wall time."""
        start = time.perf_counter()
        function()
        return time.perf_counter() - start

    def quiet(self, function: Callable[[], object]) -> Quiet:
        """Count what the second device counts, in the second of two calls."""
        function()
        self.transfers.clear()
        function()
        return Quiet(dict(self.transfers.reads), dict(self.transfers.uploads))

    def profile(self, function: Callable[[], object], steps: int) -> Profile:
        """Count operations."""
        with _Operations() as seen:
            for _ in range(steps):
                function()
        return Profile(seen.counts.total() / steps, None)

    def capture(self) -> Callable[..., Any] | None:
        """Record the operations of a step on the tensors below those of the device."""
        return self._capture

    def adapt(self, optimizer: torch.optim.Optimizer) -> None:
        """Read the rate on the device, as on CUDA."""
        for group in optimizer.param_groups:
            group["fused"] = True

    def _capture(self, function: Callable[[], Any]) -> tuple[Any, Any]:
        tape, reads = Tape(), self.transfers.reads.total()
        with tape, _Dispatch(self.transfers):
            result = function()
        tape.result = result.inner
        with torch.no_grad():
            for whole, old in tape.before.values():
                whole.copy_(old)
        if self.transfers.reads.total() > reads:
            msg = "a value is read within a capture"
            raise RuntimeError(msg)
        return tape, result


class _Operations(TorchDispatchMode):
    """Counts what runs on the device."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        self.counts[str(function)] += 1
        return function(*args, **(kwargs or {}))
