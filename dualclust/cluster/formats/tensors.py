"""Tensors of ``.safetensors`` and PyTorch files, read in place and without pickles.

A ``.safetensors`` file is a length, a header in JSON, and plain numbers. PyTorch's own format is a
zip archive whose pickle torch reads by its loader for tensors alone (``weights_only``), under a
mode that makes tensors without values; these say where in the file their numbers lie.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...algos.core.errors import InvalidTypeError
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
        text = file.read(min(length, 2**27))
    if len(text) < length:
        refuse(path, "is cut off within its header", rule, again)
    try:
        header = json.loads(text)
        header.pop("__metadata__", None)
        arrays = {
            key: Array(str(entry["dtype"]), tuple(int(n) for n in entry["shape"]))
            for key, entry in header.items()
        }
        places = {key: int(entry["data_offsets"][0]) for key, entry in header.items()}
        sizes = [n for array in arrays.values() for n in array.shape]
        if min([*sizes, *places.values()], default=0) < 0:
            raise ValueError
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError):
        refuse(path, "has a damaged header", rule, again)
    key = pick_array(path, arrays, selection.array, what="tensor")
    name, (found, shape) = f"{path}:{key}", arrays[key]
    dtype = _stored(name, found, TYPES)
    check_shape(name, shape)
    offset = 8 + length + places[key]
    n, d = shape
    return plain_rows(name, path, (n, d), dtype, offset=offset, bfloat16=found == "BF16")


def open_torch(path: Path, selection: Selection) -> PlainRows:
    """Find the rows of one tensor of a PyTorch file."""
    refuse_options(path, "a PyTorch file", selection, "array")
    load_extra("torch", "train", path, "a PyTorch file")
    tensors = _tensors(path)
    arrays = {
        key: Array(str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape))
        for key, tensor in tensors.items()
    }
    key = pick_array(path, arrays, selection.array, what="tensor")
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
    offset = tensor.untyped_storage()._checkpoint_offset + tensor.storage_offset() * dtype.itemsize
    bfloat16 = found == "bfloat16"
    return plain_rows(
        name, path, (n, d), dtype, offset=offset, by_columns=by_columns, bfloat16=bfloat16
    )


def _tensors(path: Path) -> dict[str, Any]:
    """Return all tensors of a file, without their values, by the keys that lead to them."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    rule = "A PyTorch file must hold a tensor, or dictionaries and lists of tensors"
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            order = [archive.read(name) for name in names if name.endswith("/byteorder")]
    except (zipfile.BadZipFile, OSError, RuntimeError, ValueError) as error:
        refuse(path, f"cannot be read ({error})", rule, "write or copy it again")
    if any(name.endswith("/constants.pkl") for name in names):
        fix = "save what the program computes: torch.save(x, path)"
        refuse(path, "holds a program (TorchScript or torch.export)", rule, fix)
    if order and order[0] == b"big":
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
    found_tensors: dict[str, Any] = {}
    _collect(content, "", found_tensors)
    return found_tensors


def _collect(content: Any, key: str, found: dict[str, Any]) -> None:
    import torch

    if isinstance(content, torch.Tensor):
        if content.layout is torch.strided and not content.is_quantized:
            found[key] = content.detach()
    elif isinstance(content, Mapping):
        for name, value in content.items():
            _collect(value, f"{key}.{name}" if key else str(name), found)
    elif isinstance(content, Sequence) and not isinstance(content, str | bytes):
        for i, value in enumerate(content):
            _collect(value, f"{key}.{i}" if key else str(i), found)
