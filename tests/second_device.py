"""A torch device that is not the CPU, on any machine: it says what a CUDA device would refuse.

Tensors of this device compute on the CPU, but say that they live on another device, which torch
knows (the type ``lazy`` has a device guard in CPU builds). While `second_device` is active,

- factories and copies with ``device=DEVICE`` make tensors of the device;
- an operation that mixes them with tensors of the CPU is refused, as CUDA refuses it: only numbers
  (tensors without axes) may come from the host, in operations that work element by element;
- ``numpy()`` and ``__array__`` are refused;
- every value that the host reads (``item``, ``bool``, ``tolist``, ``nonzero``, a copy to the CPU, a
  shape that depends on values) is counted by the line of the library that asks, and so is every
  copy from the host to the device.

Nothing here knows dualclust but by the folder of its files: the lines are counted there.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import cache
from pathlib import Path
from typing import Any

import torch
import torch._lazy.ts_backend
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import dualclust.algos
from dualclust.backends import TABLE
from dualclust.common.devices import KINDS, Kind

torch._lazy.ts_backend.init()

DEVICE = torch.device("lazy", 0)
LIBRARY = Path(dualclust.algos.__file__).parents[1]

aten = torch.ops.aten
# The host waits for a value: these return it, or need it for the shape of their result, or look at
# what a factorization reports.
READS = {
    aten._local_scalar_dense,
    aten.is_nonzero,
    aten.equal,
    aten.nonzero,
    aten.masked_select,
    aten._unique,
    aten._unique2,
    aten.unique_dim,
    aten.unique_consecutive,
    aten.bincount,
    aten._linalg_check_errors,
    aten._linalg_eigh,
    aten._linalg_svd,
    aten.linalg_eig,
    aten.linalg_lstsq,
    aten.multinomial,
    aten.histc,
}
# Shapes that depend on values unless a size is given.
SIZED = {aten.repeat_interleave}
# Masks are turned into positions first.
INDEXED = {aten.index, aten.index_put, aten.index_put_, aten._index_put_impl_, aten._unsafe_index}
# Numbers of the host may take part in these, though they are not marked as pointwise.
WITH_NUMBERS = {aten.copy_, aten.fill_, aten.index_put_, aten.index_put, aten._index_put_impl_}
COPIES = {aten.copy_, aten._to_copy}
# All other operations, nearly every one that runs, are looked up but once, by identity: PyTorch
# computes the hash of an operation in Python.
SPECIAL = {id(packet) for packet in READS | SIZED | INDEXED | COPIES}


class SecondTensor(torch.Tensor):
    """A tensor of the device; `inner` holds its values on the CPU."""

    inner: torch.Tensor

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> SecondTensor:
        made = torch.Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls,
            inner.shape,
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            device=DEVICE,
        )
        made.inner = inner
        return made  # type: ignore[no-any-return]

    def __repr__(self, **_: Any) -> str:  # type: ignore[override]
        return f"SecondTensor({self.inner})"

    @classmethod
    def __torch_dispatch__(
        cls, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        msg = f"{function} on a tensor of the second device, outside `second_device()`"
        raise RuntimeError(msg)


class Transfers:
    """What went from the device to the host and back: how often, and at which line."""

    def __init__(self) -> None:
        self.reads: Counter[str] = Counter()
        self.uploads: Counter[str] = Counter()

    def clear(self) -> None:
        """Count from 0 again."""
        self.reads.clear()
        self.uploads.clear()


class SecondGenerator(torch.Generator):
    """A generator of the device."""

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        """The device whose numbers it draws."""
        return DEVICE


class SecondKind(Kind):
    """What the library knows of the device: its generators, and that it has one precision."""

    def generator(self, device: torch.device) -> torch.Generator:
        """Return a generator that draws the numbers of the CPU."""
        return SecondGenerator()

    def autocast(
        self, device: torch.device, dtype: torch.dtype | None
    ) -> AbstractContextManager[Any]:
        """Return a context that changes nothing: torch has no lower precision for the device."""
        return nullcontext()


def is_second(value: object) -> bool:
    """Say whether a value is a tensor of the device."""
    return isinstance(value, SecondTensor)


class _Dispatch(TorchDispatchMode):
    """Runs each operation on the CPU, and wraps what belongs to the device."""

    def __init__(self, transfers: Transfers) -> None:
        super().__init__()
        self.transfers = transfers

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        ours: list[SecondTensor] = []
        others: list[torch.Tensor] = []
        inner, named = _unwrapped(args, ours, others), {}
        target, wanted = None, False
        if kwargs:
            named = dict(zip(kwargs, _unwrapped(kwargs.values(), ours, others), strict=True))
            target = kwargs.get("device")
            wanted = target is not None and torch.device(target).type == DEVICE.type
        kwargs = kwargs or {}
        if not ours and not wanted:
            return function(*args, **kwargs)
        if torch.is_inference_mode_enabled():  # which leaves it to us to take operations apart
            with self:
                made = function.decompose(*args, **kwargs)
            if made is not NotImplemented:
                return made
        packet = function.overloadpacket
        if target is not None:
            named["device"] = torch.device("cpu")
        special = id(packet) in SPECIAL
        if special and packet in COPIES:
            self._count_copy(packet, args, wanted, target)
        else:
            if ours and others:
                self._check(function, packet, others)
            if special:
                self._count_reads(packet, args, kwargs)
        result = function(*inner, **named)
        if packet is aten._to_copy and target is not None and not wanted:
            return result
        return args[0] if packet is aten.copy_ else _wrapped(function, result, ours)

    def _count_copy(self, packet: Any, args: Any, wanted: bool, target: Any) -> None:
        if packet is aten.copy_:
            source, sink = is_second(args[1]), is_second(args[0])
        else:
            source = is_second(args[0])
            sink = wanted if target is not None else source
        if source and not sink:
            self.transfers.reads[call_site()] += 1
        if sink and not source:
            self.transfers.uploads[call_site()] += 1

    def _count_reads(self, packet: Any, args: Any, kwargs: Any) -> None:
        masks = 0
        if packet in INDEXED:
            masks = sum(
                isinstance(i, torch.Tensor) and i.dtype in (torch.bool, torch.uint8)
                for i in args[1]
            )
            value = args[2] if len(args) > 2 else None
            if value is not None and value.numel() == 1:
                masks = 0  # filled under the mask
        sized = packet in SIZED and kwargs.get("output_size") is None
        if packet in READS or sized or masks:
            self.transfers.reads[call_site()] += max(1, masks)

    def _check(self, function: Any, packet: Any, others: list[torch.Tensor]) -> None:
        numbers = torch.Tag.pointwise in function.tags or packet in WITH_NUMBERS
        if numbers and all(tensor.ndim == 0 for tensor in others):
            return
        msg = (
            f"{function}: expected all tensors to be on the same device, got {DEVICE} and "
            f"{others[0].device} (shape {tuple(others[0].shape)})"
        )
        raise RuntimeError(msg)


def _unwrapped(
    values: Iterable[Any], ours: list[SecondTensor], others: list[torch.Tensor]
) -> list[Any]:
    """The values with what tensors of the device hold in their place; both kinds are listed."""
    found: list[Any] = []
    for value in values:
        kind = type(value)
        if kind in PLAIN:
            found.append(value)
        elif isinstance(value, SecondTensor):
            ours.append(value)
            found.append(value.inner)
        elif isinstance(value, torch.Tensor):
            others.append(value)
            found.append(value)
        elif isinstance(value, (list, tuple)):
            found.append(kind(_unwrapped(value, ours, others)))
        else:
            found.append(value)
    return found


def _wrapped(function: Any, result: Any, ours: list[SecondTensor]) -> Any:
    """What an operation returns as tensors of the device, those that it was given as themselves."""
    if type(result) is torch.Tensor and not function.is_view:  # nearly every operation
        for tensor in ours:
            if tensor.inner is result:
                return tensor
        return SecondTensor(result)
    known = {id(tensor.inner): tensor for tensor in ours}
    # A view of a tensor that is none of inference is none either, also in inference mode.
    plain = function.is_view and not any(tensor.is_inference() for tensor in ours)
    with torch.inference_mode(False) if plain else nullcontext():
        return each_tensor(lambda x: _outer(x, known), result)


def _outer(tensor: torch.Tensor, known: dict[int, SecondTensor]) -> torch.Tensor:
    return known[id(tensor)] if id(tensor) in known else SecondTensor(tensor)


def tensors(values: Iterable[Any]) -> list[torch.Tensor]:
    """The tensors among what an operation takes or returns, and in its lists, in order.

    Operations nest no deeper than that, so that PyTorch's walk through any tree, which takes most
    of the time of small operations, is not needed.
    """
    found: list[torch.Tensor] = []
    for value in values:
        if isinstance(value, torch.Tensor):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            found += [leaf for leaf in value if isinstance(leaf, torch.Tensor)]
    return found


PLAIN = {int, float, bool, type(None)}


def each_tensor(function: Callable[[torch.Tensor], torch.Tensor], value: Any) -> Any:
    """The same value with `function` of each tensor in its place."""
    if isinstance(value, torch.Tensor):
        return function(value)
    if isinstance(value, (list, tuple)):
        return type(value)(
            [
                function(each)
                if isinstance(each, torch.Tensor)
                else each
                if type(each) in PLAIN
                else each_tensor(function, each)
                for each in value
            ]
        )
    return value


MAKERS = {torch.tensor, torch.asarray, torch.as_tensor}
OUT = {torch.Tensor.numpy, torch.Tensor.__array__, torch.Tensor.__dlpack__}
LOOKED_AT = MAKERS | OUT | {torch.Tensor.tolist}


class _Functions(TorchFunctionMode):
    """The functions of torch that look at memory before an operation is dispatched."""

    def __init__(self, transfers: Transfers) -> None:
        super().__init__()
        self.transfers = transfers

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if function not in LOOKED_AT:
            return function(*args, **kwargs)
        if function in MAKERS:
            return self._made(function, args, dict(kwargs))
        if not isinstance(args[0], SecondTensor):
            return function(*args, **kwargs)
        if function in OUT:
            msg = f"can't convert a tensor of {DEVICE} to numpy. Use Tensor.cpu() first"
            raise TypeError(msg)
        self.transfers.reads[call_site()] += 1
        return args[0].inner.detach().tolist()

    def _made(self, function: Any, args: Any, kwargs: Any) -> Any:
        data, device = args[0], kwargs.pop("device", None)
        if isinstance(data, torch.Tensor):
            dtype = kwargs.get("dtype")
            moved = data.to(device=device or data.device, dtype=dtype or data.dtype)
            copies = function is torch.tensor or kwargs.get("copy")
            return moved.clone() if copies and moved is data else moved
        made = function(*args, **kwargs)
        if device is None or torch.device(device).type != DEVICE.type:
            return made if device is None else made.to(device)
        return made.to(DEVICE)


@cache
def in_library(file: str) -> Path | None:
    """Return the place of a file of the library in its folder; None for any other file."""
    path = Path(file)
    if path.is_relative_to(LIBRARY) and not path.is_relative_to(LIBRARY / "tests"):
        return path.relative_to(LIBRARY)
    return None


def call_site() -> str:
    """Return the innermost line of the library on the stack, as ``file:line function``."""
    frame = sys._getframe(1)
    while frame is not None:
        where = in_library(frame.f_code.co_filename)
        if where is not None:
            return f"{where}:{frame.f_lineno} {frame.f_code.co_name}"
        frame = frame.f_back  # type: ignore[assignment]
    return "outside of the library"


@contextmanager
def second_device() -> Iterator[Transfers]:
    """Make `DEVICE` a device like CUDA: factories, refusals, counts, and CUDA's rows of the table.

    Yields
    ------
    transfers : Transfers. What crosses between host and device, from now on.
    """
    transfers = Transfers()
    is_inner = DEVICE.type in KINDS  # of another, whose rows and kind stay
    rows = [row for row in TABLE.values() if ("torch", "cuda") in row]
    plain_run = threading.Thread.run

    def run(thread: threading.Thread) -> None:
        with _Functions(transfers), _Dispatch(transfers):  # a mode belongs to one thread
            plain_run(thread)

    with ExitStack() as stack:
        threading.Thread.run = run  # type: ignore[method-assign]
        stack.callback(setattr, threading.Thread, "run", plain_run)
        if not is_inner:
            KINDS[DEVICE.type] = SecondKind()
            stack.callback(KINDS.pop, DEVICE.type)
            for row in rows:
                row["torch", DEVICE.type] = row["torch", "cuda"]
                stack.callback(row.pop, ("torch", DEVICE.type))
        stack.enter_context(_Functions(transfers))
        stack.enter_context(_Dispatch(transfers))
        yield transfers
