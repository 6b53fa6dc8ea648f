"""Samples of a model that come as arrays, in batches: their layout, their dtype, their values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...algos.core.errors import InvalidTypeError, InvalidValueError
from .spec import InputSpec

__all__ = ["BATCH", "Inputs", "of_array"]

BATCH = 256
"""Samples of a pass; what a pass returns does not depend on it, but for rounding."""


class Inputs(NamedTuple):
    """Samples that are read some at a time.

    Attributes
    ----------
    n : int
    read : callable. ``read(start, stop)`` returns these samples as a (b, c, h, w) uint8 or (b, d)
        floating tensor.
    names : tuple of str or None. The file of each sample.
    source : str. What messages call the samples.
    skipped : tuple of (name, reason). Files that cannot be read, and are no samples.
    """

    n: int
    read: Callable[[int, int], Tensor]
    names: tuple[str, ...] | None = None
    source: str = "data"
    skipped: tuple[tuple[str, str], ...] = ()

    def where(self, i: int) -> str:
        """Return the words that lead a reader of a message to a sample."""
        return f"row {i} of {self.source}" if self.names is None else self.names[i]

    def batches(self, size: int) -> Iterator[Tensor]:
        """Yield all samples in order, `size` at a time."""
        for start in range(0, self.n, size):
            yield self.read(start, min(self.n, start + size))


def of_array(array: NDArray[Any] | Tensor, spec: InputSpec, source: str = "data") -> Inputs:
    """Take an array or a tensor on the CPU as samples of a model; see `inputs.inputs_of`."""
    view = _images(array, spec) if spec.is_image else _rows(array, spec)

    def read(start: int, stop: int) -> Tensor:
        part = view[start:stop]
        if not isinstance(part, Tensor):
            # A copy: torch wants memory that it may write to, in the machine's order of bytes.
            native = part.dtype.newbyteorder("=")
            part = torch.from_numpy(np.array(part, dtype=native, order="C"))
        if not spec.is_image:
            _check_finite(part, start, source)
        return part

    return Inputs(len(view), read, source=source)


def _check_finite(rows: Tensor, start: int, source: str) -> None:
    """Refuse rows with numbers that float32, in which models compute, has not."""
    finite = rows.to(torch.float32).isfinite().all(dim=1)
    if bool(finite.all()):
        return
    row = int(finite.int().argmin())
    what = "NaN or infinity"
    if bool(rows[row].isfinite().all()):
        what = f"a number above {torch.finfo(torch.float32).max:.3g}"
    msg = (
        f"{source} holds {what} in row {start + row}. Embeddings are finite numbers of float32. "
        f"To fix this, drop such rows, or look at the program that wrote them"
    )
    raise InvalidValueError(msg)


def _images(array: Any, spec: InputSpec) -> Any:
    """View images of a known size as (n, c, h, w)."""
    c, h, w = spec.shape
    if str(array.dtype).removeprefix("torch.") != "uint8":
        msg = f"images must be uint8 (0 to 255), got {array.dtype}. To fix: scale, round and cast"
        raise InvalidTypeError(msg)
    shape = tuple(array.shape[1:])
    if shape == (c, h, w):
        return array
    if shape == (h, w, c):
        return array.permute(0, 3, 1, 2) if isinstance(array, Tensor) else np.moveaxis(array, 3, 1)
    if c == 1 and shape == (h, w):
        return array[:, None]
    also = f", (n, {h}, {w})" if c == 1 else ""
    msg = (
        f"images must have shape (n, {h}, {w}, {c}), (n, {c}, {h}, {w}){also}, as the model was "
        f"trained on, got {tuple(array.shape)}. To fix this, resize them, or pass the picture files"
    )
    raise InvalidValueError(msg)


def _rows(array: Any, spec: InputSpec) -> Any:
    """Check embeddings of a known length."""
    (d,) = spec.shape
    floating = (
        array.dtype.is_floating_point if isinstance(array, Tensor) else array.dtype.kind == "f"
    )
    if not floating or array.dtype.itemsize > 8:
        msg = f"embeddings must be floats, got {array.dtype}. To fix: cast to float32"
        raise InvalidTypeError(msg)
    if array.ndim != 2 or array.shape[1] != d:
        msg = (
            f"embeddings must have shape (n, {d}), as the model was trained on, got "
            f"{tuple(array.shape)}. To fix this, embed the samples by the same network"
        )
        raise InvalidValueError(msg)
    return array
