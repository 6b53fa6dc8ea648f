"""Each CUDA row of the table against the text that it stands for, on fresh random instances."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import dualclust  # noqa: F401 - registers the kernels
from dualclust.backends import KERNELS, TABLE, select

from ..records import Row
from ..stages import Context, attempted
from .problems import PROBLEMS, Instance

__all__ = ["compare_kernels"]

VALUES = 1e-9  # relative to the largest entry: sums in another order
SAME = 1e-12  # two clusters that are worth the same to this, relative, may stand for each other


def compare_kernels(context: Context) -> Iterator[Row]:
    """One row for each kernel that has an engine for CUDA."""
    for name in [name for name, row in TABLE.items() if ("torch", "cuda") in row]:
        yield from attempted(context, {"kernel": name}, lambda name=name: _compare(name, context))


def _compare(name: str, context: Context) -> Row:
    if name not in PROBLEMS:
        msg = f"no instances of {name}: add them to benchmarks/gpu/conformance/problems.py"
        raise LookupError(msg)
    seed = context.seed
    rng = np.random.default_rng(seed)
    device = context.machine.device
    engine = select(name, torch.zeros(1, device=device))
    if engine is None:
        msg = f"{name} has no engine on {device}"
        raise LookupError(msg)
    worst, wrong, compared, excused = 0.0, "", 0, 0
    for instance in PROBLEMS[name](rng, not context.machine.toy):
        off, alike = _difference(name, engine, instance, device)
        compared, excused = compared + 1, excused + alike
        worst = max(worst, off)
        if not off <= VALUES and not wrong:
            wrong = instance.name
    return {
        "instances": compared,
        "seed": seed,
        "off": worst,
        "ties decided otherwise": excused,
        "verdict": "ok" if not wrong else "differs",
        "first wrong": wrong,
    }


def _difference(
    name: str, engine: Callable[..., Any], instance: Instance, device: torch.device
) -> tuple[float, int]:
    """Largest relative difference, and whether labels differ where they may."""
    reference = KERNELS[name].reference  # type: ignore[attr-defined]
    with np.errstate(invalid="ignore", over="ignore"):
        expected = _tuple(reference(*instance.arrays, **instance.options))
    found = _tuple(
        engine(
            *(_there(array, device) for array in instance.arrays),
            **{key: _there(value, device) for key, value in instance.options.items()},
        )
    )
    got = [_here(value) for value in found]
    if name == "candidates_of_blocks":  # a row that cannot be used has none
        most, usable = instance.options["width"] + 1, expected[2] > 0
        if not np.array_equal(np.minimum(got[2], most), np.minimum(expected[2], most)):
            return np.inf, 0
        got, expected = ([a[usable] for a in (*some[:2], some[3])] for some in (got, expected))
    if name == "soft_counts":  # an engine may leave rows and entries without weight out
        curvature, k = KERNELS["curvature"].reference, len(instance.arrays[2])  # type: ignore[attr-defined]
        got, expected = (
            [*some[:3], curvature(*some[3:], n_clusters=k)] for some in (got, expected)
        )
    if name == "assign_stream" and not np.array_equal(got[0], expected[0]):
        return (0.0, 1) if _is_a_tie(reference, instance, got[0], expected[0]) else (np.inf, 0)
    return max(_off(g, e) for g, e in zip(got, expected, strict=True)), 0


def _is_a_tie(
    reference: Callable[..., Any], instance: Instance, got: NDArray[Any], expected: NDArray[Any]
) -> bool:
    """Whether two labels first differ where both clusters are worth the same, to rounding."""
    scores, rho, rho_up, counts = instance.arrays
    first = int(np.flatnonzero(got != expected)[0])
    start = first - first % instance.options["chunk_size"]
    _, rho, rho_up, counts, _ = reference(scores[:start], rho, rho_up, counts, **instance.options)
    worth = scores[first].astype(np.float64) + rho - rho_up
    a, b = worth[got[first]], worth[expected[first]]
    open_ = counts[got[first]] < instance.options["upper"][got[first]]
    return bool(open_ and abs(a - b) <= SAME * max(1.0, abs(b)))


def _off(got: Any, expected: Any) -> float:
    """Largest difference, relative to the largest finite entry; infinite where kinds differ."""
    a, b = np.asarray(got), np.asarray(expected)
    if a.shape != b.shape or a.dtype.kind != b.dtype.kind:
        return np.inf
    if a.dtype.kind != "f":
        return 0.0 if np.array_equal(a, b) else np.inf
    finite = np.isfinite(b)
    if not np.array_equal(finite, np.isfinite(a)) or not np.array_equal(a[~finite], b[~finite]):
        return np.inf
    if not finite.any():
        return 0.0
    return float(np.abs(a[finite] - b[finite]).max() / max(1.0, np.abs(b[finite]).max()))


def _there(value: Any, device: torch.device) -> Any:
    return torch.asarray(value, device=device) if isinstance(value, np.ndarray) else value


def _here(value: Any) -> Any:
    return value.detach().cpu().numpy() if isinstance(value, torch.Tensor) else value


def _tuple(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)
