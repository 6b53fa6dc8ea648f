"""The header of a ``.safetensors`` file, compared with the length of the file.

A file is the length of its header, the header in JSON, and the numbers of all tensors, one after
the other. Each tensor says its type, its shape and its place; all three must agree, and the places
must cover the rest of the file without gap or overlap, as the format demands.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from .untrusted import parse_json

__all__ = ["LONGEST_HEADER", "Stored", "parse_tensor_header"]

LONGEST_HEADER = 2**25
"""Bytes of a header: 300,000 tensors of long names."""

_SIZES = {
    **dict.fromkeys(("F64", "I64", "U64", "C64"), 8),
    **dict.fromkeys(("F32", "I32", "U32"), 4),
    **dict.fromkeys(("F16", "BF16", "I16", "U16"), 2),
    **dict.fromkeys(("I8", "U8", "BOOL", "F8_E4M3", "F8_E5M2", "F8_E8M0"), 1),
}
"""Bytes of a number. Types of less than a byte are no type that is read here."""


class Stored(NamedTuple):
    """One tensor of a file.

    Attributes
    ----------
    dtype : str
        As the format calls it.
    shape : tuple of int
    begin : int
        Of its first byte, counted from the end of the header.
    """

    dtype: str
    shape: tuple[int, ...]
    begin: int


def parse_tensor_header(text: bytes, n_bytes: int) -> tuple[dict[str, str], dict[str, Stored]]:
    """Parse a header, and compare what it declares with what is there.

    Parameters
    ----------
    text : bytes
        The header.
    n_bytes : int
        What stands behind it in the file.

    Returns
    -------
    metadata : dict from str to str
    tensors : dict from name to Stored

    Raises
    ------
    ValueError
        If it is no header of a .safetensors file of this length; the message says why.

    Examples
    --------
    >>> parse_tensor_header(b'{"x": {"dtype": "F32", "shape": [9], "data_offsets": [0, 36]}}', 36)
    ({}, {'x': Stored(dtype='F32', shape=(9,), begin=0)})
    """
    header = parse_json(text)
    if not isinstance(header, dict):
        msg = "its header is no table"
        raise ValueError(msg)
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        msg = "its metadata is no table of texts"
        raise ValueError(msg)
    spans, tensors = [], {}
    for name, entry in header.items():
        tensors[name], end = _stored(name, entry)
        spans.append((tensors[name].begin, end))
    declared = sum(end - begin for begin, end in spans)
    if declared != n_bytes:
        msg = f"its tensors declare {declared} bytes, and {n_bytes} are there"
        raise ValueError(msg)
    place = 0
    for begin, end in sorted(spans):
        if begin != place:
            msg = f"its tensors overlap, or leave a gap, at byte {place}"
            raise ValueError(msg)
        place = end
    return metadata, tensors


def _stored(name: str, entry: Any) -> tuple[Stored, int]:
    """Return a tensor and the end of its bytes."""
    match entry:
        case {"dtype": str(dtype), "shape": list(shape), "data_offsets": [begin, end]}:
            numbers = [*shape, begin, end]
        case _:
            msg = f"its tensor {name[:60]!r} has no dtype, shape and two data_offsets"
            raise ValueError(msg)
    if not all(type(number) is int and number >= 0 for number in numbers):
        msg = f"its tensor {name[:60]!r} has a shape or offsets that are no whole numbers"
        raise ValueError(msg)
    size = _SIZES.get(dtype)
    if size is None:
        if end < begin:
            msg = f"its tensor {name[:60]!r} ends before it begins"
            raise ValueError(msg)
    elif end - begin != math.prod(shape) * size:
        msg = (
            f"its tensor {name[:60]!r} has offsets {begin} to {end} for "
            f"{math.prod(shape) * size} bytes"
        )
        raise ValueError(msg)
    return Stored(dtype, tuple(shape), begin), end
