"""Tensors of ``.safetensors`` and PyTorch files, read in place and without pickles.

A ``.safetensors`` file is a length, a header in JSON, and plain numbers. PyTorch's own format is a
zip archive whose pickle torch reads by its loader for tensors alone (``weights_only``), under a
mode that makes tensors without values; these say where in the file their numbers lie.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ...algos.core.errors import DualclustError, InvalidTypeError
from ..array_headers import BROKEN, content_offset
from ..tensor_headers import LONGEST_HEADER, parse_tensor_header
from ..untrusted import MOST_ENTRIES
from .checks import (
    Array,
    check_numbers,
    check_shape,
    load_extra,
    pick_array,
    refuse,
    refuse_options,
)
from .plain import PlainRows, plain_rows
from .rows import Selection

__all__ = ["open_safetensors", "open_torch"]

TYPES = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "BF16": "<u2",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "<i1",
    "U64": "<u8",
    "U32": "<u4",
    "U16": "<u2",
    "U8": "<u1",
    "BOOL": "?",
    "C64": "<c8",
}
"""Types of the numbers of a .safetensors file."""

OF_TORCH = {
    "float64": "<f8",
    "float32": "<f4",
    "float16": "<f2",
    "bfloat16": "<u2",
    "bool": "?",
    "complex64": "<c8",
    "complex128": "<c16",
    **{f"int{8 * size}": f"<i{size}" for size in (1, 2, 4, 8)},
    **{f"uint{8 * size}": f"<u{size}" for size in (1, 2, 4, 8)},
}


def _stored(name: object, found: str, types: Mapping[str, str]) -> np.dtype[Any]:
    """Return the dtype of a tensor's numbers."""
    if found not in types:
        rule = "Embeddings are real numbers of a type that NumPy has, or bfloat16"
        fix = "save them as another type: x.to(torch.float16)"
        refuse(name, f"holds numbers of type {found}", rule, fix, InvalidTypeError)
    dtype = np.dtype(types[found])
    check_numbers(name, dtype)
    return dtype


def open_safetensors(path: Path, selection: Selection) -> PlainRows:
    """Find the rows of one tensor of a .safetensors file."""
    refuse_options(path, "a .safetensors file", selection, "array")
    rule = "It begins with the length of a header, which names its tensors"
    again = "write or copy the file again"
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        text = file.read(min(length, LONGEST_HEADER))
    if length > LONGEST_HEADER:
        refuse(path, f"declares a header of {length} bytes", rule, again)
    if len(text) < length:
        refuse(path, "is cut off within its header", rule, again)
    try:
        _, stored = parse_tensor_header(text, path.stat().st_size - 8 - length)
    except ValueError as error:
        refuse(path, f"is damaged or cut off ({error})", rule, again)
    arrays = {key: Array(each.dtype, each.shape) for key, each in stored.items()}
    key, part = pick_array(path, arrays, selection.array, what="tensor")
    name, (found, shape) = f"{path}:{key}", arrays[key]
    dtype = _stored(name, found, TYPES)
    check_shape(name, shape)
    offset = 8 + length + stored[key].begin
    n, d = shape
    bfloat16 = found == "BF16"
    return plain_rows(name, path, (n, d), dtype, offset=offset, bfloat16=bfloat16, part=part)


def open_torch(path: Path, selection: Selection) -> PlainRows:
    """Find the rows of one tensor of a PyTorch file."""
    refuse_options(path, "a PyTorch file", selection, "array")
    load_extra("torch", "train", path, "a PyTorch file")
    tensors, ends = _tensors(path)
    arrays = {
        key: Array(str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape))
        for key, tensor in tensors.items()
    }
    key, part = pick_array(path, arrays, selection.array, what="tensor")
    tensor, (found, shape) = tensors[key], arrays[key]
    name = f"{path}:{key}" if key else str(path)
    dtype = _stored(name, found, OF_TORCH)
    check_shape(name, shape)
    n, d = shape
    strides = tuple(tensor.stride())
    by_columns = d > 1 and strides[0] == 1 and strides[1] == n
    if not by_columns and not tensor.is_contiguous():
        rule = "The rows of a tensor must lie one after the other"
        fix = "save a copy that does: torch.save(x.contiguous(), path)"
        refuse(name, f"holds a view of a larger tensor (strides {strides})", rule, fix)
    begin = tensor.untyped_storage()._checkpoint_offset
    offset = begin + tensor.storage_offset() * dtype.itemsize
    if offset + n * d * dtype.itemsize > ends.get(begin, 0):
        rule = "The numbers of a tensor must lie in its own entry of the archive"
        refuse(name, "promises more numbers than are there", rule, "write or copy it again")
    bfloat16 = found == "bfloat16"
    return plain_rows(
        name,
        path,
        (n, d),
        dtype,
        offset=offset,
        by_columns=by_columns,
        bfloat16=bfloat16,
        part=part,
    )


def _tensors(path: Path) -> tuple[dict[str, Any], dict[int, int]]:
    """Return all tensors of a file, without their values, and where its entries begin and end."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    rule = "A PyTorch file must hold a tensor, or dictionaries and lists of tensors"
    order = b""
    try:
        with zipfile.ZipFile(path) as archive, path.open("rb") as file:
            infos = archive.infolist()
            names = [info.filename for info in infos]
            _check_entries(path, infos)
            places = [(content_offset(file, info), info.file_size) for info in infos]
            for info in infos:
                if info.filename.endswith("/byteorder") and info.file_size < 16:
                    order = archive.read(info)
    except DualclustError:
        raise
    except BROKEN as error:
        refuse(path, f"cannot be read ({error})", rule, "write or copy it again")
    if any(name.endswith("/constants.pkl") for name in names):
        fix = "save what the program computes: torch.save(x, path)"
        refuse(path, "holds a program (TorchScript or torch.export)", rule, fix)
    if order == b"big":
        fix = "save it again on the machine that reads it"
        refuse(path, "was written on a big-endian machine", "Numbers must be little-endian", fix)
    try:
        with FakeTensorMode():
            content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises nearly anything for a damaged file
        text = str(error) or type(error).__name__
        if "Weights only load failed" in text:
            fix = "save the tensor alone: torch.save({'X': x}, path)"
            found = "holds Python objects other than tensors, which could run code when loaded"
            refuse(path, found, rule, fix)
        refuse(path, f"cannot be read ({text.splitlines()[0]})", rule, "write or copy it again")
    return _collected(content), {place: place + size for place, size in places}


def _check_entries(path: Path, infos: list[zipfile.ZipInfo]) -> None:
    """Refuse what torch.save does not write, and what would be unpacked without a limit."""
    again = "save it again with torch.save"
    if len(infos) > MOST_ENTRIES:
        rule = f"A PyTorch file has {MOST_ENTRIES} entries at most"
        refuse(path, f"has {len(infos)} entries", rule, "save the tensor alone")
    seen: set[str] = set()
    for info in infos:
        name = info.filename
        if name in seen:
            rule = "Entries are told apart by their names"
            refuse(path, f"has several entries of the name {name!r}", rule, again)
        seen.add(name)
        if info.compress_type != zipfile.ZIP_STORED:
            refuse(path, f"has a packed entry {name!r}", "torch.save packs nothing", again)
        if name.endswith("data.pkl") and info.file_size > LONGEST_HEADER:
            rule = f"The description of tensors has {LONGEST_HEADER} bytes at most"
            refuse(path, f"describes them in {info.file_size} bytes", rule, "save the tensor alone")


def _collected(content: Any) -> dict[str, Any]:
    """Return the tensors in nested containers, by the keys that lead to them.

    A container that stands in several places, or in itself, is looked into once.
    """
    import torch

    found: dict[str, Any] = {}
    seen: set[int] = set()
    waiting = [("", content)]
    while waiting:
        key, value = waiting.pop()
        if isinstance(value, torch.Tensor):
            if value.layout is torch.strided and not value.is_quantized:
                found[key] = value.detach()
        elif isinstance(value, Mapping | list | tuple) and id(value) not in seen:
            seen.add(id(value))
            pairs = value.items() if isinstance(value, Mapping) else enumerate(value)
            inner = [(f"{key}.{name}" if key else str(name), item) for name, item in pairs]
            waiting.extend(reversed(inner))
    return found
