"""One table that says which compiled engine runs which kernel, for which arrays.

A *kernel* is a function of `dualclust.algos` whose text is a readable loop over the array API:
that text is the reference, and it is what runs wherever the table has no row. An *engine* is a
function of the same name and signature, written for one array library on one kind of device.

=================  ============================================================
name               meaning
=================  ============================================================
``TABLE``          kernel name -> {(library, device kind): "module:function"}
``OPTIONAL``       the same of engines that run where ``engine("triton")`` asks for them
`kernel`           decorator that makes a reference text replaceable
`engine`           context manager: ``engine("reference")`` ignores the tables
`select`           the engine for these arrays, or None
=================  ============================================================

The table is data: dispatch, the conformance tests (one per row), the test of the table of
engines and the benchmarks all read it. Engines are imported on first use, so importing this package
loads neither numba nor torch.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Literal, ParamSpec, TypeVar

import array_api_compat as compat

__all__ = ["KERNELS", "OPTIONAL", "TABLE", "engine", "kernel", "placement", "select"]

P = ParamSpec("P")
R = TypeVar("R")

Placement = tuple[str, str]

TABLE: dict[str, dict[Placement, str]] = {
    "assign_stream": {
        ("numpy", "cpu"): "numba_engine:assign_stream",
        ("torch", "cpu"): "torch_cpu:assign_stream",
        ("torch", "cuda"): "torch_engine:assign_stream",
    },
    "select_candidates": {
        ("numpy", "cpu"): "numba_candidates:select_candidates",
        ("torch", "cpu"): "torch_cpu:select_candidates",
    },
    "candidates_of_blocks": {
        ("torch", "cuda"): "torch_lists:candidates_of_blocks",
    },
    "split_rows": {
        ("numpy", "cpu"): "numba_free_rows:split_rows",
        ("torch", "cpu"): "torch_cpu:split_rows",
        ("torch", "cuda"): "torch_lists:split_rows",
    },
    "soft_counts": {
        ("numpy", "cpu"): "numba_smoothed_dual:soft_counts",
        ("torch", "cpu"): "torch_cpu:soft_counts",
        ("torch", "cuda"): "torch_engine:soft_counts",
    },
    "curvature": {
        ("numpy", "cpu"): "numba_smoothed_dual:curvature",
        ("torch", "cpu"): "torch_cpu:curvature",
        ("torch", "cuda"): "torch_engine:curvature",
    },
    "curvature_product": {
        ("numpy", "cpu"): "numba_smoothed_dual:curvature_product",
        ("torch", "cpu"): "torch_cpu:curvature_product",
        ("torch", "cuda"): "torch_engine:curvature_product",
    },
    "eliminate": {
        ("torch", "cuda"): "torch_engine:eliminate",
    },
    "regrets": {
        ("numpy", "cpu"): "numba_candidates:regrets",
        ("torch", "cpu"): "torch_cpu:regrets",
        ("torch", "cuda"): "torch_lists:regrets",
    },
    "augmenting_paths": {
        ("numpy", "cpu"): "numba_augmenting_paths:augmenting_paths",
        ("torch", "cpu"): "torch_cpu:augmenting_paths",
        ("torch", "cuda"): "torch_lists:augmenting_paths",
    },
    "add_limbs": {
        ("numpy", "cpu"): "numba_engine:add_limbs",
    },
    "best_clusters": {
        ("numpy", "cpu"): "numba_engine:best_clusters",
        ("torch", "cuda"): "torch_engine:best_clusters",
    },
    "largest_scores": {
        ("numpy", "cpu"): "numba_candidates:largest_scores",
        ("torch", "cpu"): "torch_engine:largest_scores",
    },
    "segment_sum": {
        ("numpy", "cpu"): "numba_engine:segment_sum",
        ("torch", "cpu"): "torch_engine:segment_sum",
        ("torch", "cuda"): "torch_engine:segment_sum",
    },
    "shift_table": {
        ("torch", "cpu"): "torch_engine:shift_table",
    },
    "weight_table": {
        ("torch", "cpu"): "torch_engine:weight_table",
    },
}
"""The engine of each kernel, by library and kind of device; the page "Where it runs" shows it."""

OPTIONAL: dict[str, dict[Placement, str]] = {
    "best_products": {("torch", "cuda"): "triton_products:best_products"},
}
"""Engines for ``engine("triton")``: no card has run them (docs/decisions/0085-triton.md)."""

KERNELS: dict[str, Callable[..., Any]] = {}
"""Every replaceable function by name, filled by `kernel`; ``.reference`` is its own text."""

Mode = Literal["auto", "reference", "triton"]
_mode: ContextVar[Mode] = ContextVar("dualclust_engine", default="auto")


def placement(array: object) -> Placement:
    """Return the (library, device kind) under which the table files an array.

    The library is the name of its package ("numpy", "torch", "jax", "cupy", "array_api_strict"),
    the device kind what the library calls its device, without a number ("cpu", "cuda", "gpu").

    Examples
    --------
    >>> import numpy as np
    >>> placement(np.zeros(3))
    ('numpy', 'cpu')
    """
    if compat.is_numpy_array(array):  # the two that have engines, first because they are asked most
        return "numpy", "cpu"
    if compat.is_torch_array(array):
        return "torch", compat.device(array).type
    if not compat.is_array_api_obj(array):
        return type(array).__module__.partition(".")[0], "unknown"
    library = compat.array_namespace(array).__name__.removeprefix("array_api_compat.")
    return library.partition(".")[0], _device_kind(compat.device(array))


def _device_kind(device: Any) -> str:
    """Name of a kind of device, from what the library calls one of its devices."""
    if devices := getattr(device, "device_set", None):  # JAX: an array that is spread over several
        device = next(iter(devices))
    for attribute in ("platform", "type"):  # of JAX and of PyTorch's kind
        if isinstance(kind := getattr(device, attribute, None), str):
            return kind
    name = str(device).lower()  # "cpu", "CPU_DEVICE", "<CUDA Device 0>"
    return next((kind for kind in ("cpu", "cuda") if kind in name), name.partition(":")[0])


def select(name: str, array: object) -> Callable[..., Any] | None:
    """Return the engine of kernel `name` for `array`, importing it on first use, or None."""
    mode = _mode.get()
    if mode == "reference":
        return None
    place = placement(array)
    target = OPTIONAL.get(name, {}).get(place) if mode == "triton" else None
    target = target or TABLE.get(name, {}).get(place)
    return None if target is None else _load(target)


@functools.cache
def _load(target: str) -> Callable[..., Any]:
    module, _, function = target.partition(":")
    return getattr(import_module(f".{module}", __package__), function)  # type: ignore[no-any-return]


def kernel(reference: Callable[P, R]) -> Callable[P, R]:
    """Make a function replaceable by an engine; its own text stays the reference.

    The engine is chosen by the first positional argument, which must be an array.
    """
    name = reference.__name__

    @functools.wraps(reference)
    def dispatched(*args: P.args, **kwargs: P.kwargs) -> R:
        implementation = select(name, args[0]) or reference
        return implementation(*args, **kwargs)

    dispatched.reference = reference  # type: ignore[attr-defined]
    KERNELS[name] = dispatched
    return dispatched


@contextmanager
def engine(mode: Mode) -> Iterator[None]:
    """Choose whether compiled engines run or the readable text, in this thread or task.

    Parameters
    ----------
    mode : {"auto", "reference", "triton"}
        "auto" runs the engine of the table where there is one; "reference" always runs the
        readable text; "triton" runs kernels in Triton on CUDA where there are some, and otherwise
        what "auto" runs. Everything returns to the former mode on leaving the block.

    Raises
    ------
    ValueError
        If `mode` is none of the three.
    ModuleNotFoundError
        If `mode` is "triton" and Triton is not installed.

    Examples
    --------
    >>> import numpy as np
    >>> with engine("reference"):
    ...     print(select("assign_stream", np.zeros(3)))
    None
    """
    if mode not in ("auto", "reference", "triton"):
        msg = f"engine must be 'auto', 'reference' or 'triton', got {mode!r}"
        raise ValueError(msg)
    if mode == "triton" and find_spec("triton") is None:
        msg = (
            "engine='triton' needs the package triton, which is not installed. To fix this, "
            "install PyTorch's build for CUDA, which brings it along, or use engine='auto'"
        )
        raise ModuleNotFoundError(msg, name="triton")
    token = _mode.set(mode)
    try:
        yield
    finally:
        _mode.reset(token)
