"""A run's state on disk: atomic, hashed, exact, and unable to run code.

Layout of a run's folder::

    RUN/checkpoints/epoch-000012/state.safetensors   the tensors
                                 state.json          everything else
                                 manifest.json       format version; size and SHA-256 of both

A checkpoint is written into a temporary sibling folder, flushed to the disk file by file with the
manifest last, and renamed as a whole. Whatever stops the process, a folder named ``epoch-…`` is
complete, and older checkpoints go only after a newer one stands. Reading verifies every byte
before it parses any: a damaged checkpoint is never loaded, and never answered by a fresh start.
There is no pickle anywhere.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import safetensors
import safetensors.torch
import torch

from ...algos.core.errors import CheckpointError, InvalidTypeError, MissingFileError, OutputError
from ...common.files import other_advice, remove_folder, remove_leftovers, write_folder
from ...common.untrusted import parse_json
from .packing import JSON, check_json, pack, unpack

__all__ = [
    "Checkpoint",
    "CheckpointWarning",
    "check_begun",
    "checkpoint_folder",
    "has_epoch",
    "is_begun",
    "latest_checkpoint",
    "load_checkpoint",
    "pack",
    "prune",
    "save_checkpoint",
    "unpack",
]

FORMAT = "dualclust-checkpoint"
VERSION = 1
_LONGEST_MANIFEST = 4096
_ANOTHER = "To fix this, go on from another checkpoint of the run, or copy this one again"
_TENSORS, _METADATA, _MANIFEST = "state.safetensors", "state.json", "manifest.json"


class CheckpointWarning(UserWarning):
    """A damaged checkpoint was passed over for an older one."""


class Checkpoint(NamedTuple):
    """What was saved, verified.

    Attributes
    ----------
    tensors : dict from name to tensor, on the CPU, bit for bit as saved.
    metadata : dict. The JSON values as saved.
    folder : Path. Where it was read.
    """

    tensors: dict[str, torch.Tensor]
    metadata: dict[str, JSON]
    folder: Path


def checkpoint_folder(run: str | Path, epoch: int) -> Path:
    """Return the folder of the checkpoint of `run` after `epoch` epochs."""
    return Path(run) / "checkpoints" / f"epoch-{epoch:06d}"


def save_checkpoint(
    folder: str | Path,
    tensors: Mapping[str, torch.Tensor],
    metadata: Mapping[str, JSON],
    *,
    keep: int = 2,
    inside: Path | None = None,
) -> Path:
    """Write a checkpoint, all of it or nothing.

    Parameters
    ----------
    folder : path. Its final place, from `checkpoint_folder`. A checkpoint that stands there is
        replaced.
    tensors : mapping from name to dense tensor, on any device, of any dtype of safetensors.
        Views and shared memory are saved as independent copies.
    metadata : mapping from str to JSON values: str, int, float (also inf and nan), bool, None,
        list and dict with str keys.
    keep : int, 1 or more. How many checkpoints to keep, this one and the ones of earlier epochs.
    inside : Path, optional. A folder above it that is there, and is not made again.

    Returns
    -------
    folder : Path.

    Raises
    ------
    InvalidTypeError
        If a value cannot be saved without loss. Nothing is written.
    OutputError
        If the disk is full or the folder cannot be written. What stood before stands unchanged.
    """
    folder = Path(folder)
    files = {_TENSORS: _tensor_bytes(tensors), _METADATA: _json_bytes(dict(metadata))}
    files[_MANIFEST] = _manifest_bytes(files)
    # Left by a process that was killed in the middle of saving.
    remove_leftovers(folder.parent)
    try:
        write_folder(folder, files, aside=_aside(folder), inside=inside)
    except OutputError as error:
        said = OutputError(f"cannot save the checkpoint: {error}")
        stands, how = "", "start the run again"
        if is_begun(inside or folder.parent.parent):
            stands, how = "Earlier checkpoints are unchanged. ", "resume the run"
        advice = f"{stands}To fix this, free disk space and {how}, or write it elsewhere"
        raise other_advice(said, advice) from error
    prune(folder, keep=keep)
    return folder


def load_checkpoint(folder: str | Path) -> Checkpoint:
    """Read and verify one checkpoint.

    Raises
    ------
    MissingFileError
        If `folder` does not exist.
    CheckpointError
        If a file is missing, or its size or SHA-256 differs from the manifest's; the message
        names the file, what was expected and what was found.
    """
    folder = Path(folder)
    if not folder.is_dir():
        msg = f"no checkpoint at {folder}. To fix this, look at the path"
        raise MissingFileError(msg)
    manifest = _read_manifest(folder / _MANIFEST)
    contents = {}
    for name, entry in manifest.items():
        content = contents[name] = _read_file(folder / name, entry["bytes"])
        found = _entry(content)
        if found != entry:
            expected, got = entry["sha256"], found["sha256"]
            msg = f"{folder / name} is damaged: expected sha256 {expected}, got {got}. {_ANOTHER}"
            raise CheckpointError(msg)
    try:
        tensors = safetensors.torch.load(contents[_TENSORS])
        metadata = parse_json(contents[_METADATA])
    except (safetensors.SafetensorError, ValueError, RuntimeError, KeyError) as error:
        msg = f"{folder} matches its manifest but does not parse: {error}. {_ANOTHER}"
        raise CheckpointError(msg) from error
    if not isinstance(metadata, dict):
        what = type(metadata).__name__
        msg = f"{folder / _METADATA}: expected a table, got {what}. {_ANOTHER}"
        raise CheckpointError(msg)
    return Checkpoint(tensors, metadata, folder)


def has_epoch(run: str | Path) -> bool:
    """Whether a folder holds a checkpoint, damaged or not."""
    home = Path(run) / "checkpoints"
    return home.is_dir() and bool(_epochs(home))


def is_begun(run: str | Path) -> bool:
    """Whether a run has begun in a folder, so that it can be resumed."""
    return (Path(run) / "starts").is_dir() or has_epoch(run)


def check_begun(run: str | Path) -> None:
    """Refuse a folder in which no run has begun.

    Raises
    ------
    MissingFileError
    """
    if not is_begun(run):
        raise _no_checkpoint(Path(run))


def latest_checkpoint(run: str | Path) -> Checkpoint:
    """Read the newest checkpoint of a run that is complete and undamaged.

    A damaged one is passed over with a `CheckpointWarning` that says what is wrong with it.

    Raises
    ------
    MissingFileError
        If `run` does not exist, or holds no checkpoint. Never answered by a fresh start.
    CheckpointError
        If every checkpoint is damaged; the message says what is wrong with each.
    """
    home = Path(run) / "checkpoints"
    found = _epochs(home) if home.is_dir() else {}
    if not found:
        raise _no_checkpoint(Path(run))
    complaints = []
    for epoch in sorted(found, reverse=True):
        try:
            checkpoint = load_checkpoint(found[epoch])
        except CheckpointError as error:
            complaints.append(str(error))
            continue
        for complaint in complaints:
            msg = f"DAMAGED CHECKPOINT passed over: {complaint}. Using {checkpoint.folder}"
            warnings.warn(msg, CheckpointWarning, stacklevel=2)
        return checkpoint
    told = "; ".join(complaint.removesuffix(f". {_ANOTHER}") for complaint in complaints)
    msg = (
        f"no checkpoint of {run} is intact: {told}. "
        f"To fix this, copy one of them again, or train into another folder"
    )
    raise CheckpointError(msg)


def prune(newest: Path, *, keep: int = 2) -> None:
    """Remove what is older than the `keep` newest, and what a newer one has replaced.

    What cannot be removed stays: a checkpoint too many is no reason to end a run.

    Parameters
    ----------
    newest : Path. The checkpoint that the run is at; those of later epochs are not touched.
    keep : int, 1 or more.
    """
    try:
        epochs = _epochs(newest.parent)
    except OSError:  # the folder has vanished: the next file that the run writes there says so
        return
    own = next((epoch for epoch, path in epochs.items() if path == newest), 0)
    # Later epochs may stand there, of a run that went further: not ours to remove.
    older = sorted((epoch for epoch in epochs if epoch < own), reverse=True)
    idle = [path for path in epochs.values() if _aside(path).exists()]
    for path in [*map(_aside, idle), *(epochs[epoch] for epoch in older[max(keep, 1) - 1 :])]:
        with contextlib.suppress(OSError):
            remove_folder(path)


def _no_checkpoint(run: Path) -> MissingFileError:
    what = "does not exist. To fix this, look at the path"
    if (run / "config.toml").is_file():
        what = "holds no checkpoint yet. To fix this, start the run again with its settings"
    elif run.is_dir():
        what = "holds no checkpoint. To fix this, look at the path"
    return MissingFileError(f"cannot resume: the run folder {run} {what}")


def _tensor_bytes(tensors: Mapping[str, torch.Tensor]) -> bytes:
    copies = {}
    for name, tensor in tensors.items():
        if name == "__metadata__":
            msg = "tensors must not hold the name '__metadata__', which the format reserves"
            raise InvalidTypeError(msg)
        if not isinstance(tensor, torch.Tensor) or tensor.layout != torch.strided:
            msg = f"tensors[{name!r}] must be a dense tensor, got {type(tensor).__name__}"
            raise InvalidTypeError(msg)
        # The format knows neither views nor shared memory.
        plain = tensor.detach().to("cpu")
        copies[name] = plain.clone(memory_format=torch.contiguous_format)
    try:
        return safetensors.torch.save(copies)
    except (safetensors.SafetensorError, KeyError, ValueError) as error:
        msg = f"tensors cannot be saved: {error}"
        raise InvalidTypeError(msg) from error


def _json_bytes(value: dict[str, JSON]) -> bytes:
    check_json(value, "metadata")
    return (json.dumps(value, indent=1) + "\n").encode()


def _entry(content: bytes) -> dict[str, Any]:
    return {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def _manifest_bytes(files: Mapping[str, bytes]) -> bytes:
    entries = {name: _entry(content) for name, content in files.items()}
    return _manifest_text(VERSION, entries)


def _manifest_text(version: Any, entries: Mapping[str, Any]) -> bytes:
    manifest = {"format": FORMAT, "version": version, "files": entries}
    return (json.dumps(manifest, indent=1) + "\n").encode()


def _read_manifest(path: Path) -> dict[str, Any]:
    content = _read_file(path, None)
    try:
        manifest = parse_json(content)
        version, entries = manifest["version"], manifest["files"]
        entries = {name: entries[name] for name in (_TENSORS, _METADATA)}
        # The manifest holds nothing free: its values determine its bytes, so that a flipped bit
        # shows even where it would not change the meaning.
        canonical = _manifest_text(version, entries)
        shapes = [set(entry) for entry in entries.values()]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        msg = f"{path} is damaged: expected a manifest, got {content[:40]!r}. {_ANOTHER}"
        raise CheckpointError(msg) from error
    if isinstance(version, int) and version > VERSION:
        msg = f"{path} has format version {version}, this program reads {VERSION}. To fix: upgrade"
        raise CheckpointError(msg)
    if content != canonical or version is not VERSION or shapes != [{"bytes", "sha256"}] * 2:
        expected = hashlib.sha256(canonical).hexdigest()
        found = hashlib.sha256(content).hexdigest()
        msg = (
            f"{path} is damaged: expected version {VERSION} and sha256 {expected}, got {found}. "
            f"{_ANOTHER}"
        )
        raise CheckpointError(msg)
    return entries


def _read_file(path: Path, expected: int | None) -> bytes:
    """Read a file of the length that the manifest says, or of a manifest's where it is None."""
    try:
        there = path.stat().st_size
        if there == expected or (expected is None and there <= _LONGEST_MANIFEST):
            return path.read_bytes()
    except OSError as error:
        msg = (
            f"{path} cannot be read: expected a file of a complete checkpoint, got {error}. "
            f"{_ANOTHER}"
        )
        raise CheckpointError(msg) from error
    what = f"at most {_LONGEST_MANIFEST}" if expected is None else expected
    msg = f"{path} is damaged: expected bytes {what}, got {there}. {_ANOTHER}"
    raise CheckpointError(msg)


def _aside(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.old")


def _epochs(home: Path) -> dict[int, Path]:
    found = {}
    # In this order a checkpoint under its own name hides one that was set aside.
    for pattern in (r"\.epoch-(\d{6,})\.old", r"epoch-(\d{6,})"):
        for path in home.iterdir():
            match = re.fullmatch(pattern, path.name)
            if match and path.is_dir():
                found[int(match[1])] = path
    return found
