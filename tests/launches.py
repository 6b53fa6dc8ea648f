"""What the host asks of a device: operations, bytes, products, and what comes to the host.

Counted on the second device, around anything that runs there. An *operation* is one that PyTorch
dispatches and that computes or copies: views are none. Its *bytes* are those of its tensors, each
element once: what it reads and what it writes, and of an operation that picks elements only those
that it picks. A `sort` or `topk` goes over its input `SCANS` times, an estimate.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tests.second_device import SecondTensor, call_site, second_device, tensors

__all__ = ["Launches", "counted_launches"]

aten = torch.ops.aten
SCANS = {aten.sort: 6, aten.topk: 6, aten.argsort: 6}
PICKS = {aten.gather, aten.index, aten.index_select, aten.embedding, aten.take}
ADDS = {aten.index_add_, aten.index_add, aten.scatter_add_, aten.scatter_add, aten.index_put_}
PRODUCTS = {aten.mm, aten.addmm, aten.bmm, aten.baddbmm}
NO_WORK = {aten.detach, aten.alias, aten.lift_fresh, aten._unsafe_view, aten.empty, aten.empty_like}
NO_WORK |= {aten.new_empty, aten.empty_strided, aten.new_empty_strided, aten.set_, aten.view}
TO_HOST = {aten._local_scalar_dense, aten.is_nonzero, aten.equal}


@dataclass
class Launches:
    """Counts since `clear`; `names` and `lines` say of which operations, and who asked."""

    operations: int = 0
    size: int = 0
    multiplied: int = 0
    to_host: int = 0
    names: Counter[str] = field(default_factory=Counter)
    lines: Counter[str] = field(default_factory=Counter)
    reads: Counter[str] = field(default_factory=Counter)
    uploads: Counter[str] = field(default_factory=Counter)

    def clear(self) -> None:
        """Count from 0 again."""
        self.operations = self.size = self.multiplied = self.to_host = 0
        for each in (self.names, self.lines, self.reads, self.uploads):
            each.clear()

    def functions(self) -> Counter[str]:
        """Operations by the function that asks, of those that lines have been named of."""
        found: Counter[str] = Counter()
        for line, count in self.lines.items():
            place, _, function = line.partition(" ")
            found[f"{place.partition(':')[0]} {function}"] += count
        return found


def _bytes(tensor: torch.Tensor) -> int:
    """Bytes of the elements of a tensor that are not the same one repeated."""
    sizes = zip(tensor.shape, tensor.stride(), strict=True)
    return math.prod(n for n, stride in sizes if stride or not n) * tensor.itemsize


class _Counting(TorchDispatchMode):
    def __init__(self, found: Launches, *, name_lines: bool) -> None:
        super().__init__()
        self.found, self.name_lines = found, name_lines

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        result = function(*args, **(kwargs or {}))
        given = tensors([*args, *(kwargs or {}).values()])
        made = tensors([result])
        if any(isinstance(each, SecondTensor) for each in (*given, *made)):
            self._count(function, given, made)
        return result

    def _count(self, function: Any, given: list[torch.Tensor], made: list[torch.Tensor]) -> None:
        found, packet = self.found, function.overloadpacket
        if function.is_view or packet in NO_WORK:
            return
        leaves = [each for each in made if not isinstance(each, SecondTensor)]
        if packet in TO_HOST:
            found.to_host += given[0].itemsize if packet is not aten.equal else 1
        elif leaves:
            found.to_host += sum(map(_bytes, leaves))
        found.operations += 1
        found.names[packet.__name__] += 1
        if self.name_lines:
            found.lines[call_site()] += 1
        found.size += _traffic(packet, given, made)
        if packet in PRODUCTS:
            factors = [each for each in given if each.ndim >= 2][-2:]
            found.multiplied += 2 * factors[0].numel() * factors[1].shape[-1]


def _traffic(packet: Any, given: list[torch.Tensor], made: list[torch.Tensor]) -> int:
    """Bytes that an operation reads and writes."""
    written = sum(map(_bytes, made))
    if packet in PICKS:
        return 2 * written + sum(map(_bytes, given[1:]))
    if packet in ADDS:  # what is added to, is read and written where something is added
        return sum(map(_bytes, given[1:])) + 2 * min(_bytes(given[0]), _bytes(given[-1]))
    distinct = {id(each): each for each in given}.values()
    return SCANS.get(packet, 1) * sum(map(_bytes, distinct)) + written


@contextmanager
def counted_launches(*, name_lines: bool = False) -> Iterator[Launches]:
    """Make the second device, and count what is asked of it from now on."""
    found = Launches()
    with second_device() as transfers:
        found.reads, found.uploads = transfers.reads, transfers.uploads
        with _Counting(found, name_lines=name_lines):
            yield found
