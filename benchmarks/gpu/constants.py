"""Stage 1: constants of the card, of which a model makes milliseconds (`benchmarks/launches.py`).

===========  ===============================================================================
part         measures
===========  ===============================================================================
launches     what the host takes for an operation, a read and a replay; bytes to the host
ceilings     a large copy (bytes read and written), and large matrix products
suspects     operations whose rate nobody has measured, and on which much rests
===========  ===============================================================================
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial

import torch

from dualclust.common.devices import kind_of

from .records import Row
from .speed.ceilings import bandwidth, measure_ceilings, share
from .stages import Context, PartOf, Stage
from .timing import measure

__all__ = ["STAGE"]


def measure_launches(context: Context) -> Iterator[Row]:
    """Microseconds of the host, each the mean of many in a row."""
    machine = context.machine
    count = machine.size(2_000, 20)
    tiny = torch.zeros(8, device=machine.device)

    def many() -> torch.Tensor:
        for _ in range(count):
            tiny.add_(1.0)
        return tiny + 0.0

    captured, _ = (machine.capture() or kind_of(machine.device).capture)(many)
    of: dict[str, Callable[[], object]] = {
        "operation": many,
        "operation of a graph": captured.replay,
        "read": lambda: [float(tiny[0]) for _ in range(count)],
    }
    for what, function in of.items():
        function()
        machine.synchronize()
        best = min(_seconds(context, function) for _ in range(machine.size(5, 1)))
        yield {"what": what, "us": 1e6 * best / count}
    rows = torch.zeros(machine.size(2**26, 2**8), device=machine.device)
    best = min(_seconds(context, rows.cpu) for _ in range(machine.size(5, 1)))
    yield {"what": "to the host", "GB/s": 4 * rows.numel() / best / 1e9}


def _seconds(context: Context, function: Callable[[], object]) -> float:
    """Seconds of the clock until the device is done: the host is what is measured."""
    begun = time.perf_counter()
    function()
    context.machine.synchronize()
    return time.perf_counter() - begun


def measure_suspects(context: Context) -> Iterator[Row]:
    """Candidates by sorting, sums by cluster, and a maximum in float64."""
    machine = context.machine
    n, k, width = machine.size((8_192, 1_000, 17), (64, 20, 5))
    many = machine.size(8_800_000, 500)
    keys = torch.randint(0, 2**62, (n, k), device=machine.device)
    wide = torch.randn(n, k, device=machine.device, dtype=torch.float64)
    sums = torch.zeros(k, device=machine.device, dtype=torch.float64)
    places = torch.randint(0, k, (many,), device=machine.device)
    values = torch.rand(many, device=machine.device, dtype=torch.float64)
    calls: dict[str, tuple[Callable[[], object], int]] = {
        f"topk of int64, {n:,} x {k:,}, {width}": (partial(torch.topk, keys, width), 8 * n * k),
        f"index_add_ of float64, {many:,} onto {k:,}": (
            partial(sums.index_add_, 0, places, values),
            16 * many,
        ),
        f"maximum of float64, {n:,} x {k:,}": (partial(torch.amax, wide, 1), 8 * n * k),
    }
    for what, (call, size) in calls.items():
        found = measure(machine, [call], repeats=10, most=1.0)
        reached = share(size, found.median, bandwidth(context))
        yield {"what": what, **found.row(), "of peak": reached}


STAGE = Stage(
    "constants",
    1.0,
    (
        PartOf(
            "launches",
            measure_launches,
            "Microseconds of the clock until the card is done, least of five rows of 2,000.",
            seconds=15,
        ),
        PartOf(
            "ceilings",
            measure_ceilings,
            "`noise`: the same work measured twice, in turn; relative difference of the medians.",
            seconds=40,
        ),
        PartOf(
            "suspects",
            measure_suspects,
            "`of peak`: bytes read once, over the copy.",
            seconds=15,
        ),
    ),
    "Constants",
)
