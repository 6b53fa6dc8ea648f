"""A model as one safetensors file: numbers, and in its header all else, under one hash.

The header has one entry of metadata, ``dualclust``: JSON with the SHA-256 of everything, and what
`spec.ModelSpec` says. The tensors are

=====================  ============================================================================
``network.*``          parameters and running statistics
``centers``            (k, d)
``prices``             (k,) float64, of the bounds, at the last labels of the training samples
``lower``, ``upper``   (k,) int64, sizes that were allowed
``counts``             (k,) int64, sizes of the last labels
``mean``, ``std``      (c,) or (d,) float32, subtracted and divided by; of images in units of 255
=====================  ============================================================================

A file is read in this order: the sizes that its header declares against the size of the file, the
hash, the description against its rules, the shapes of the network against the tensors. Nothing is
allocated by a number that has not been compared with the file's size, and no pickle is read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn

from ...algos.core.errors import CheckpointError, MissingFileError, UsageError
from ...common.tensor_headers import LONGEST_HEADER, parse_tensor_header
from ...common.untrusted import parse_json
from ..state.checkpoint import is_begun
from .classifier import build_classifier
from .exports import program_bytes
from .model import Model
from .spec import ModelSpec

__all__ = ["MODEL_FILE", "export_bytes", "load_model", "model_bytes"]

MODEL_FILE = "model.safetensors"
"""What it is called in a run folder."""

FORMAT = "dualclust-model"
VERSION = 1
_VECTORS = {
    "prices": torch.float64,
    "lower": torch.int64,
    "upper": torch.int64,
    "counts": torch.int64,
}


def model_bytes(spec: ModelSpec, tensors: Mapping[str, Tensor]) -> bytes:
    """Return the file of a model; the same model gives the same bytes.

    Parameters
    ----------
    spec : ModelSpec
    tensors : mapping from name to tensor, on any device. As in the table above.
    """
    plain = {
        name: tensor.detach().to("cpu").clone(memory_format=torch.contiguous_format)
        for name, tensor in sorted(tensors.items())
    }
    model = {"format": FORMAT, "version": VERSION, **spec.as_mapping()}
    text = json.dumps({"model": model, "sha256": _digest(model, plain)}, sort_keys=True)
    return safetensors.torch.save(plain, {"dualclust": text})


def load_model(
    path: str | Path, *, network: nn.Module | None = None, device: str | torch.device = "cpu"
) -> Model:
    """Load a trained model from a file or a run folder; `dualclust.load` is this function.

    Parameters
    ----------
    path : path. A file that ``dualclust export`` wrote, or the folder of a finished run.
    network : nn.Module, optional. The encoder, where the run had one of the user's own, or one of
        timm or transformers that is not to be built by its name. Its parameters are overwritten by
        those of the file.
    device : where the network runs.

    Returns
    -------
    model : Model

    Raises
    ------
    MissingFileError
        If there is no such file, or the folder holds no finished run.
    CheckpointError
        If the file is damaged, is no model, or is of a newer version.
    UsageError
        If it is a program (`torch.export`, ONNX), which its own runtime reads; or `network` is
        missing, or is given and not needed.
    MissingExtraError
        If the encoder is one of timm or transformers, which is not installed.

    Notes
    -----
    Needs torch and safetensors, and Pillow where pictures are to be decoded. Runs no code of the
    file. Takes one pass over it, and twice its size in memory.
    """
    found = _read(path)
    try:
        classifier = build_classifier(found.spec, found.tensors, network)
    except CheckpointError as error:
        if network is None:
            raise _damaged(found.path, str(error)) from error
        msg = (
            f"{found.path} does not fit the module: {error}. "
            f"To fix this, pass the network that the run was started with"
        )
        raise CheckpointError(msg) from error
    vectors = {name: found.tensors[name].numpy() for name in _VECTORS}
    return Model(found.spec, classifier.to(device), **vectors)


def export_bytes(
    path: str | Path, *, to: str = "safetensors", network: nn.Module | None = None
) -> bytes:
    """Return a trained model as the content of one file.

    Parameters
    ----------
    path : path. The folder of a finished run, or a model.
    to : ``"safetensors"``, for `load_model`; or a key of `exports.PROGRAMS`, for other runtimes.
    network : nn.Module, optional. As of `load_model`; a file of safetensors needs none.

    Raises
    ------
    CheckpointError, MissingFileError, UsageError, MissingExtraError
        As of `load_model` and `exports.program_bytes`.
    """
    if to == "safetensors":
        return _read(path).content
    return program_bytes(load_model(path, network=network), to)


class _File(NamedTuple):
    """A model file, verified."""

    path: Path
    content: bytes
    spec: ModelSpec
    tensors: dict[str, Tensor]


def _read(path: str | Path) -> _File:
    """Read and verify the file of a model."""
    path = _file_of(Path(path))
    try:
        with path.open("rb") as file:
            head = file.read(8)
            length, there = int.from_bytes(head, "little"), path.stat().st_size
            if len(head) < 8 or length > min(there - 8, LONGEST_HEADER):
                what = f"its header declares {length} bytes, and it has {there}"
                raise _damaged(path, what)
            content = head + file.read()
    except OSError as error:
        msg = (
            f"cannot read {path}: {error.strerror or error}"
            ". To fix this, look at who may read it, or copy it again"
        )
        raise MissingFileError(msg) from error
    text = _checked_header(content, path)
    try:
        tensors = safetensors.torch.load(content)
    except (safetensors.SafetensorError, ValueError, KeyError, RuntimeError) as error:
        raise _damaged(path, str(error)) from error
    spec = _read_spec(text, tensors, path)
    _check_tensors(spec, tensors, path)
    return _File(path, content, spec, tensors)


def _file_of(path: Path) -> Path:
    """The file of a model, of a path that may be a run folder."""
    if path.is_dir():
        file = path / MODEL_FILE
        if file.is_file():
            return file
        what = "holds no run. To fix this, look at the path"
        if (path / "config.toml").is_file():
            what = f"holds a run that has not ended. To fix this, end it: dualclust resume {path}"
            if not is_begun(path):
                what = "holds a run that ended before its first epoch. To fix this, start it again"
        msg = f"no {MODEL_FILE} in {path}, which {what}"
        raise MissingFileError(msg)
    if not path.is_file():
        msg = f"no model at {path}. To fix this, name a run folder, or a file of dualclust export"
        raise MissingFileError(msg)
    runtimes = {".onnx": "onnxruntime", ".pt2": "torch.export.load"}
    if path.suffix.lower() in runtimes:
        msg = (
            f"{path} is a program for {runtimes[path.suffix.lower()]}. "
            f"To fix this, export the run with --to safetensors, or run the program there"
        )
        raise UsageError(msg)
    return path


def _checked_header(content: bytes, path: Path) -> str:
    """Compare the sizes that a header declares with the file's; returns the metadata."""
    length = int.from_bytes(content[:8], "little")
    try:
        metadata, _ = parse_tensor_header(content[8 : 8 + length], len(content) - 8 - length)
        return metadata["dualclust"]
    except (ValueError, KeyError) as error:
        msg = f"its header is not one of a model ({type(error).__name__}: {error})"
        raise _damaged(path, msg) from error


def _read_spec(text: str, tensors: Mapping[str, Tensor], path: Path) -> ModelSpec:
    try:
        entry = parse_json(text)
        model, expected = dict(entry["model"]), entry["sha256"]
        canonical = json.dumps(entry, sort_keys=True)
        kind, version = model.pop("format"), model.pop("version")
    except (ValueError, KeyError, TypeError) as error:
        raise _damaged(path, f"its description does not parse ({error})") from error
    if text != canonical:  # a flipped bit shows even where it changes no meaning, as in 1E-5
        raise _damaged(path, "its description is not as it was written")
    if kind != FORMAT:
        raise _damaged(path, f"its format is {kind!r}, and not {FORMAT!r}")
    if version != VERSION:
        msg = (
            f"{path} has version {version!r} of the format, and this dualclust reads {VERSION}. "
            f"To fix this, install the dualclust that wrote it"
        )
        raise CheckpointError(msg)
    found = _digest({"format": kind, "version": version, **model}, tensors)
    if found != expected:
        raise _damaged(path, f"its SHA-256 is {found}, and should be {expected}")
    try:
        return ModelSpec.from_json(model, str(path))
    except UsageError as error:
        raise _damaged(path, str(error)) from error


def _check_tensors(spec: ModelSpec, tensors: Mapping[str, Tensor], path: Path) -> None:
    """Refuse tensors that are not those of the table above; the network knows its own shapes."""
    k, inputs = spec.n_clusters, spec.input.shape[0]
    expected = {name: (dtype, (k,)) for name, dtype in _VECTORS.items()}
    expected |= {name: (torch.float32, (inputs,)) for name in ("mean", "std")}
    for name, (dtype, shape) in expected.items():
        found = tuple(tensors[name].shape) if name in tensors else "no such tensor"
        if found != shape:
            raise _damaged(path, f"{name} must have shape {shape}, got {found}")
        if tensors[name].dtype != dtype:
            raise _damaged(path, f"{name} must be {dtype}, got {tensors[name].dtype}")
    centers = tensors.get("centers")
    if centers is None or centers.ndim != 2 or len(centers) != k:
        raise _damaged(path, f"centers must have shape ({k}, d)")
    if centers.dtype != getattr(torch, spec.dtype):
        raise _damaged(path, f"centers must be torch.{spec.dtype}, got {centers.dtype}")
    if not bool((tensors["std"] > 0).all()):
        raise _damaged(path, "std must be above 0, as what is divided by it")
    for name, tensor in tensors.items():
        # A module of somebody's own may keep infinities, as masks of attention do.
        own = bool(spec.own_network or spec.encoder) and name.startswith("network.encoder.")
        if bool((tensor.isnan() if own else ~tensor.isfinite()).any()):
            raise _damaged(path, f"{name} must be finite, and holds NaN or infinity")


def _digest(model: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> str:
    found = hashlib.sha256(json.dumps(model, sort_keys=True).encode())
    for name, tensor in sorted(tensors.items()):
        found.update(repr((name, str(tensor.dtype), tuple(tensor.shape))).encode())
        found.update(np.ascontiguousarray(tensor.reshape(-1).view(torch.uint8).numpy()).data)
    return found.hexdigest()


def _damaged(path: Path, what: str) -> CheckpointError:
    msg = f"{path} is damaged, or no model: {what}. To fix this, export or copy it again"
    return CheckpointError(msg)
