"""A CUDA card: device events, synchronization warnings, the profiler, graphs."""

from __future__ import annotations

import subprocess
import warnings
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from .machine import ROOT, Machine, Profile, Quiet
from .needs import CannotRun

__all__ = ["Card"]


class Card(Machine):
    """A CUDA device.

    Parameters
    ----------
    device : str. "cuda", "cuda:1", ...

    Raises
    ------
    CannotRun
        If this torch sees no such card.
    """

    toy = False
    compiler = "inductor"

    def __init__(self, device: str = "cuda") -> None:
        try:
            self.device = torch.device(device)
        except RuntimeError as error:
            msg = f"--device must be cuda or cuda:N, got {device!r}"
            raise CannotRun(msg) from error
        if self.device.type != "cuda":
            msg = f"--device must be cuda or cuda:N, got {device!r}"
            raise CannotRun(msg)
        number = self.device.index or 0
        if not torch.cuda.is_available() or number >= torch.cuda.device_count():
            msg = (
                f"torch {torch.__version__} sees no CUDA device {device!r}. Without a card, "
                f"`python -m benchmarks.gpu --rehearse` runs every stage at toy size"
            )
            raise CannotRun(msg)
        self.device = torch.device("cuda", number)
        torch.cuda.set_device(self.device)
        self.facts = torch.cuda.get_device_properties(self.device)
        self.name = self.facts.name
        self.cache = int(getattr(self.facts, "L2_cache_size", 64 * 2**20))

    def active(self) -> AbstractContextManager[object]:
        """A card needs nothing."""
        return nullcontext()

    def describe(self) -> dict[str, Any]:
        """Card, driver, CUDA."""
        return {
            "card": self.name,
            "memory_gib": round(self.facts.total_memory / 2**30, 1),
            "multiprocessors": self.facts.multi_processor_count,
            "capability": f"{self.facts.major}.{self.facts.minor}",
            "l2_mib": round(self.cache / 2**20, 1),
            "driver": _driver(self.device.index or 0),
            "cuda": torch.version.cuda,
            "cudnn": torch.backends.cudnn.version(),
        }

    def synchronize(self) -> None:
        """Wait for the card."""
        torch.cuda.synchronize(self.device)

    def seconds(self, function: Callable[[], object]) -> float:
        """Time a call by device events."""
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        self.synchronize()
        start.record()
        function()
        stop.record()
        stop.synchronize()
        return float(start.elapsed_time(stop)) / 1e3

    def quiet(self, function: Callable[[], object]) -> Quiet:
        """Run with CUDA's warnings of synchronization; then, without any, with its errors."""
        self.synchronize()
        found: Counter[str] = Counter()
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            self._under("warn", function)
        for warning in said:
            if "called a synchronizing" in str(warning.message):
                found[_line(warning.filename, warning.lineno)] += 1
        if not found:
            self._under("error", function)
        return Quiet(dict(found), {})

    def _under(self, mode: str, function: Callable[[], object]) -> None:
        torch.cuda.set_sync_debug_mode(mode)
        try:
            function()
        finally:
            torch.cuda.set_sync_debug_mode("default")
        self.synchronize()

    def profile(self, function: Callable[[], object], steps: int) -> Profile:
        """Count kernels, and the time between the first and the last in which none runs."""
        self.synchronize()
        with profile(activities=[ProfilerActivity.CUDA]) as seen:
            for _ in range(steps):
                function()
            self.synchronize()
        spans = sorted(
            (event.time_range.start, event.time_range.end)
            for event in seen.events() or ()
            if event.device_type == torch.autograd.DeviceType.CUDA
        )
        return Profile(len(spans) / steps, _idle(spans))

    def capture(self) -> Callable[..., Any] | None:
        """CUDA's own."""
        return None

    def free(self) -> None:
        """Empty the allocator's cache."""
        torch.cuda.empty_cache()


def _idle(spans: list[tuple[float, float]]) -> float | None:
    """Share of the time between the first start and the last end in which nothing runs."""
    if not spans:
        return None
    busy, reached = 0.0, spans[0][0]
    for start, end in spans:
        busy += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    whole = reached - spans[0][0]
    return 1.0 - busy / whole if whole else None


def _driver(number: int) -> str:
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader", "-i", str(number)]
    try:
        return subprocess.run(query, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _line(file: str, line: int) -> str:
    path = Path(file)
    shown = path.resolve().relative_to(ROOT) if path.resolve().is_relative_to(ROOT) else path.name
    return f"{shown}:{line}"
