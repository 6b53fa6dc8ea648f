"""The state of ``dualclust cluster`` on disk: one file, atomic, hashed, no pickle.

Layout, in this order::

    dualclust cluster checkpoint 1     the format
    <64 hex digits>                    SHA-256 of everything below
    {"run": {...}, "arrays": [...]}    JSON, one line
    raw bytes                          the arrays of the line above, little-endian, one by one

Whatever stops the process, a checkpoint that exists is complete (`common.files`). It holds the
settings and a hash of the input; a run with other settings or another input refuses it.
"""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..algos.core.errors import CheckpointError, MissingFileError
from ..common.files import write_file
from ..common.untrusted import parse_json

__all__ = ["is_state", "load_state", "save_state"]

MAGIC = b"dualclust cluster checkpoint 1\n"
_HASH = 64
_TYPES = ("|i1", "|u1", *(f"<{kind}{size}" for kind in "fiu" for size in (2, 4, 8)))
"""What NumPy would parse, as a list of fields or in other ways, is not given to it."""


def save_state(path: Path, run: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
    """Write a checkpoint, all of it or nothing.

    Parameters
    ----------
    path : Path
        An existing checkpoint is replaced.
    run : dict of JSON values
        The run that the state belongs to; `load_state` requires the same.
    arrays : dict of numeric arrays

    Raises
    ------
    OutputError
        If the disk is full or the folder cannot be written; an earlier checkpoint stays.
    """
    parts, entries = [], []
    for name, array in arrays.items():
        little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        entries.append({"name": name, "dtype": little.dtype.str, "shape": list(array.shape)})
        parts.append(little.tobytes())
    line = json.dumps({"run": run, "arrays": entries}, sort_keys=True) + "\n"
    parts.insert(0, line.encode())
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    write_file(path, [MAGIC, digest.hexdigest().encode() + b"\n", *parts], parents=True)


def is_state(path: Path) -> bool:
    """Whether a file begins as a checkpoint does."""
    try:
        with path.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def load_state(path: Path, run: dict[str, Any]) -> dict[str, NDArray[Any]]:
    """Read a checkpoint of this very run.

    Parameters
    ----------
    path : Path
    run : dict of JSON values
        As given to `save_state`.

    Returns
    -------
    dict of arrays, bit for bit as saved

    Raises
    ------
    MissingFileError
        If there is no file at `path`.
    CheckpointError
        If the file is no checkpoint, is damaged, or belongs to other settings or another input.
    """
    if not path.is_file():
        msg = f"no checkpoint at {path}. To fix this, leave out --resume to start afresh"
        raise MissingFileError(msg)
    content = path.read_bytes()
    start = len(MAGIC) + _HASH + 1
    if not content.startswith(MAGIC) or len(content) < start:
        msg = (
            f"{path} is not a checkpoint of 'dualclust cluster'. "
            f"To fix this, name the file that --checkpoint wrote"
        )
        raise CheckpointError(msg)
    body = memoryview(content)[start:]
    if hashlib.sha256(body).hexdigest().encode() + b"\n" != content[len(MAGIC) : start]:
        msg = (
            f"{path} is damaged: its hash does not fit. "
            f"To fix this, start afresh with another --checkpoint"
        )
        raise CheckpointError(msg)
    line, _, values = bytes(body).partition(b"\n")
    try:
        header = parse_json(line)
        saved, arrays = dict(header["run"]), _arrays(header["arrays"], values)
    except (ValueError, KeyError, TypeError) as error:
        msg = (
            f"{path} has a hash that fits, and is no checkpoint ({error}). "
            f"To fix this, start afresh with another --checkpoint"
        )
        raise CheckpointError(msg) from error
    wanted = json.loads(json.dumps(run))
    if saved != wanted:
        names = sorted(k for k in {*saved, *wanted} if saved.get(k) != wanted.get(k))
        changes = ", ".join(f"{k}: {saved.get(k)!r} there, {wanted.get(k)!r} here" for k in names)
        msg = (
            f"{path} belongs to another run ({changes}). "
            f"To fix this, use its settings, or another --checkpoint"
        )
        raise CheckpointError(msg)
    return arrays


def _arrays(entries: Any, values: bytes) -> dict[str, NDArray[Any]]:
    """Return arrays whose types and shapes say exactly how many bytes there are.

    Raises
    ------
    ValueError, KeyError, TypeError
        If they say something else.
    """
    arrays, place = {}, 0
    for entry in entries:
        kind, shape = entry["dtype"], tuple(entry["shape"])
        if kind not in _TYPES or not all(type(n) is int and n >= 0 for n in shape):
            msg = f"an array of type {str(kind)[:60]!r} and shape {str(shape)[:60]}"
            raise ValueError(msg)
        dtype = np.dtype(kind)
        size = math.prod(shape) * dtype.itemsize
        if size > len(values) - place:
            msg = f"an array of {size} bytes, and {len(values) - place} are there"
            raise ValueError(msg)
        array = np.frombuffer(values, dtype, math.prod(shape), place).reshape(shape)
        arrays[str(entry["name"])] = array.astype(dtype.newbyteorder("="))
        place += size
    if place != len(values):
        msg = f"{len(values) - place} bytes too many"
        raise ValueError(msg)
    return arrays
