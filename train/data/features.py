"""Keep the features of a frozen encoder on disk: they are computed once for all runs on them.

A file lies under the cache folder (`copies.cache_folder`) and is named by a hash of what its
features are made of. Its header says that in full, and has a hash of its numbers: features of
another encoder, of other samples or of a damaged file are never taken.

=================  =============================================================================
in the header      what it is
=================  =============================================================================
``encoder``        class or name of the encoder, and the SHA-256 of its parameters
``samples``        the SHA-256 of the samples, or of the names, lengths and times of their files
``input``          shape of a sample, how a picture is cut, mean and deviation
``computed``       device, threads, precision and version of PyTorch: what the last bit depends on
=================  =============================================================================
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...algos.core.errors import OutputError
from ...common.files import write_file
from ...common.tensor_headers import LONGEST_HEADER, parse_tensor_header
from .copies import cache_folder
from .pictures import PictureData
from .samples import EmbeddingData, Samples

__all__ = ["check_room", "feature_file", "read_features", "samples_digest", "write_features"]

FORMAT = "dualclust-features"
_KINDS: dict[str, np.dtype[Any]] = {"F32": np.dtype("<f4"), "F16": np.dtype("<f2")}
_CHUNK = 2**24


def feature_file(made_of: Mapping[str, str]) -> Path:
    """Return where features that are made of this lie, whether they are there or not."""
    name = hashlib.sha256(_text(made_of).encode()).hexdigest()[:32]
    return cache_folder() / "features" / f"{name}.safetensors"


def samples_digest(data: Samples) -> str:
    """Return a hash of every sample; of pictures in files, of what changes when a file does."""
    found = hashlib.sha256(repr((len(data.ids), data.shape)).encode())
    if isinstance(data, PictureData):
        for file in data.files:
            found.update(file.stamp().encode())
        return found.hexdigest()
    samples = data.rows if isinstance(data, EmbeddingData) else data.images
    found.update(str(samples.dtype).encode())
    for part in torch.split(samples, 1024):
        plain = part.cpu().contiguous().reshape(-1).view(torch.uint8)
        found.update(plain.numpy().data)
    return found.hexdigest()


def check_room(path: Path, size: int) -> None:
    """Refuse a place without room for features, before they are computed.

    Raises
    ------
    OutputError
    """
    place = next(folder for folder in path.parents if folder.exists())
    free = shutil.disk_usage(place).free
    if size > free:
        msg = (
            f"features of the frozen encoder take {size / 1e9:.1f} GB, and {place} has "
            f"{free / 1e9:.1f}. To fix this, name another place by the environment variable "
            f"DUALCLUST_CACHE, or set encoder.features='float16'"
        )
        raise OutputError(msg)


def write_features(path: Path, rows: Tensor, made_of: Mapping[str, str]) -> None:
    """Write features (n, d), float32 or float16, with what they are made of.

    Raises
    ------
    OutputError
        If the cache cannot be written.
    """
    array = rows.cpu().contiguous().numpy()
    kind = "F16" if array.dtype == np.float16 else "F32"
    said = {"format": FORMAT, "made_of": _text(made_of), "sha256": _sha256(array)}
    entry = {"dtype": kind, "shape": list(array.shape), "data_offsets": [0, array.nbytes]}
    header = json.dumps({"__metadata__": said, "features": entry}).encode()
    header += b" " * (-len(header) % 8)

    def parts() -> Iterator[bytes]:
        yield len(header).to_bytes(8, "little") + header
        yield from (bytes(part) for part in _chunks(array))

    try:
        write_file(path, parts(), parents=True)
    except OutputError as error:
        msg = (
            f"{error}. To fix this, name a place for features by the environment variable "
            f"DUALCLUST_CACHE"
        )
        raise OutputError(msg) from error


def read_features(path: Path, made_of: Mapping[str, str]) -> Tensor | None:
    """Read features (n, d) that are made of this; None if there are none, or they are damaged."""
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if length > LONGEST_HEADER:
                return None
            there = path.stat().st_size - 8 - length
            said, tensors = parse_tensor_header(file.read(length), there)
            stored = tensors["features"]
            array = np.fromfile(file, _KINDS[stored.dtype]).reshape(stored.shape)
    except (OSError, ValueError, KeyError):
        return None
    same = said.get("format") == FORMAT and said.get("made_of") == _text(made_of)
    if not same or array.ndim != 2 or said.get("sha256") != _sha256(array):
        return None
    return torch.from_numpy(array)


def _text(made_of: Mapping[str, str]) -> str:
    return json.dumps(dict(made_of), sort_keys=True)


def _chunks(array: Any) -> Iterator[memoryview]:
    flat = array.reshape(-1).view(np.uint8)
    yield from (flat[i : i + _CHUNK].data for i in range(0, len(flat), _CHUNK))


def _sha256(array: Any) -> str:
    found = hashlib.sha256()
    for part in _chunks(array):
        found.update(part)
    return found.hexdigest()
