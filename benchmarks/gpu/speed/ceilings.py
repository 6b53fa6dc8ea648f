"""What the card can do: bytes a second by a large copy, operations a second by large products."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import torch

from ..machine import Machine
from ..records import Row
from ..stages import Context
from ..timing import measure

__all__ = ["bandwidth", "matrix_rate", "measure_ceilings", "rotations", "share"]

SETS = 3
KINDS = {
    "float32": torch.float32,
    "tf32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float64": torch.float64,
}


def measure_ceilings(context: Context) -> Iterator[Row]:
    """The copy, then the products."""
    machine = context.machine
    count = machine.size(2**29, 2**12)
    pairs = [
        tuple(torch.rand(count, device=machine.device) for _ in range(2))
        for _ in range(machine.size(1, 2))
    ]
    found = measure(machine, [partial(b.copy_, a) for a, b in pairs], repeats=30)
    moved = 2 * 4 * count
    yield {"what": "copy", "size": f"{moved / 2**30:.3g} GiB", **found.row()} | {
        "GB/s": moved / found.median / 1e9
    }
    del pairs
    size = machine.size(8192, 16)
    for name, dtype in KINDS.items():
        n = size // 2 if dtype == torch.float64 else size
        with _tf32(name == "tf32"):
            calls = [_product(machine, n, dtype) for _ in range(SETS)]
            found = measure(machine, calls, repeats=15, most=3.0)
        rate = 2 * n**3 / found.median / 1e12
        size_shown = f"{n} x {n} x {n}"
        yield {"what": name, "size": size_shown, **found.row(), "TFLOP/s": rate}


def _product(machine: Machine, n: int, dtype: torch.dtype) -> Callable[[], object]:
    a, b = (torch.randn(n, n, device=machine.device, dtype=dtype) for _ in range(2))
    return lambda: a @ b


@contextmanager
def _tf32(on: bool) -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if on else "highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def bandwidth(context: Context) -> float | None:
    """Bytes a second of the copy; None where it was not measured."""
    return _of(context, "copy", "GB/s", 1e9)


def matrix_rate(context: Context, kind: str) -> float | None:
    """Operations a second of a product in a precision; None where it was not measured."""
    return _of(context, kind, "TFLOP/s", 1e12)


def _of(context: Context, what: str, column: str, unit: float) -> float | None:
    part = context.record.parts.get("ceilings")  # of this very stage, or of the one before
    rows = context.rates if part is None else part.rows
    return next((row[column] * unit for row in rows if row["what"] == what), None)


def rotations(machine: Machine, size: float, most: int = 64) -> int:
    """How many sets of inputs of `size` bytes it takes to exceed the cache four times."""
    return int(min(most, max(2, -(-4 * machine.cache // max(1, int(size))))))


def share(amount: float | None, seconds: float, rate: float | None) -> float | None:
    """Part of a ceiling that was reached; None where one of them is not known."""
    return None if not amount or not rate else amount / seconds / rate
