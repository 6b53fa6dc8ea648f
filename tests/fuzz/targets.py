"""What is fuzzed: each target takes bytes and may raise errors of ours alone.

A target writes the bytes to a file where its reader wants one; the file lies in memory where the
system has such a folder. `SEEDS` are small files of each format, made here.
"""

from __future__ import annotations

import functools
import hashlib
import io
import json
import os
import tempfile
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from dualclust.algos.core.errors import DualclustError
from dualclust.cluster.checkpoint import MAGIC, load_state, save_state
from dualclust.common.array_headers import check_array_file, read_header
from dualclust.common.formats import open_rows
from dualclust.common.tensor_headers import parse_tensor_header
from dualclust.train.config.run import RunConfig, load_config
from dualclust.train.config.schema import dump_config

__all__ = ["TARGETS", "seeds", "taken"]


@functools.cache
def _folder() -> Path:
    place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    return Path(tempfile.mkdtemp(prefix="fuzz-", dir=place))


def _file(name: str, content: bytes) -> Path:
    path = _folder() / name
    path.write_bytes(content)
    return path


def npy(content: bytes) -> None:
    """The header of an .npy file."""
    read_header(io.BytesIO(content), "X.npy")


def npz(content: bytes) -> None:
    """All headers of an archive, as training looks at them before it reads."""
    check_array_file(_file("X.npz", content))


def embeddings(content: bytes) -> None:
    """The reader of the command: the kind of a file, its header, its rows."""
    for name in ("X.npy", "X.npz", "X.safetensors"):
        rows = open_rows(_file(name, content))
        rows.rows(0, min(rows.n_samples, 100))


def tensors(content: bytes) -> None:
    """The header of a .safetensors file; ValueError is what its callers turn into theirs."""
    try:
        parse_tensor_header(content, 96)
    except ValueError:
        return


def toml(content: bytes) -> None:
    """The settings of a run."""
    load_config(_file("config.toml", content))


def state(content: bytes) -> None:
    """The state of the command, under a hash that fits."""
    head = MAGIC + hashlib.sha256(content).hexdigest().encode() + b"\n"
    load_state(_file("X.state", head + content), {})


def checkpoint(content: bytes) -> None:
    """A checkpoint whose manifest fits: metadata and tensors are divided by the first NUL."""
    from dualclust.train.state.checkpoint import _manifest_bytes, load_checkpoint
    from dualclust.train.state.packing import unpack

    text, _, numbers = content.partition(b"\0")
    files = {"state.safetensors": numbers, "state.json": text}
    files["manifest.json"] = _manifest_bytes(files)
    for name, part in files.items():
        _file(name, part)
    found = load_checkpoint(_folder())
    unpack(found.tensors, found.metadata.get("state"))


def manifest(content: bytes) -> None:
    """The manifest of a checkpoint."""
    from dualclust.train.state.checkpoint import _read_manifest

    _read_manifest(_file("manifest.json", content))


def model(content: bytes) -> None:
    """An exported model, under a hash that fits where it can be made to."""
    from dualclust.train.models import load_model

    load_model(_file("m.safetensors", content))


def description(content: bytes) -> None:
    """What a model says of itself, under a hash that fits, beside tensors of a small one."""
    from safetensors.torch import save

    from dualclust.train.models.files import _digest, load_model

    try:
        model = json.loads(content)
        text = json.dumps({"model": model, "sha256": _digest(model, _tensors())}, sort_keys=True)
    except (ValueError, RecursionError):  # no JSON: `model` reads that
        return
    load_model(_file("d.safetensors", save(_tensors(), {"dualclust": text})))


@functools.cache
def _tensors() -> Any:
    from safetensors.torch import load

    return load(_small_model())


@functools.cache
def _small_model() -> bytes:
    from tests.bad_inputs.small_model import write_model

    return write_model(_folder() / "good.safetensors").read_bytes()


def picture(content: bytes) -> None:
    """A picture, as evaluation cuts it."""
    from dualclust.train.augment.crops import plain_cut
    from dualclust.train.data.picture_files import cut_picture
    from dualclust.train.data.splits import File

    cut_picture(File("a", memoryview(content)), lambda w, h: [plain_cut(w, h, size=8)], channels=3)


TARGETS: dict[str, Callable[[bytes], None]] = {
    each.__name__: each
    for each in (
        npy, npz, embeddings, tensors, toml, state, checkpoint, manifest, model, description,
        picture,
    )
}  # fmt: skip


def taken(target: Callable[[bytes], None], content: bytes) -> bool:
    """Whether a target took the bytes; False where it refused them by an error of ours.

    Any other exception goes through: it is a finding.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            target(content)
        except DualclustError:
            return False
    return True


def seeds(name: str) -> list[bytes]:
    """Small files of the format of a target."""
    array = np.arange(24, dtype=np.float32).reshape(8, 3)
    entry = {"dtype": "F32", "shape": [8, 3], "data_offsets": [0, 96]}
    header = json.dumps({"x": entry, "__metadata__": {"a": "b"}}).encode()
    tensor = len(header).to_bytes(8, "little") + header + array.tobytes()
    if name in ("npy", "embeddings", "npz"):
        return [_saved(np.save, array), _saved(np.savez, array), _saved(_packed, array), tensor]
    if name == "tensors":
        return [header]
    if name == "toml":
        whole = dump_config(RunConfig())
        parts = [f"[{part}" for part in whole.split("\n[")[1:]]  # a part is read ten times as fast
        return [text.encode() for text in (whole, whole.partition("\n[")[0], *parts)]
    if name == "state":
        path = _folder() / "good.state"
        save_state(path, {}, {"x": np.arange(3.0), "y": np.arange(2)})
        return [path.read_bytes()[len(MAGIC) + 65 :]]
    if name in ("checkpoint", "manifest", "model", "description"):
        return _of_training(name, tensor)
    return [_encoded(kind) for kind in ("PNG", "JPEG", "GIF", "BMP", "WEBP", "TIFF", "PPM")]


def _saved(save: Any, array: Any) -> bytes:
    file = io.BytesIO()
    save(file, array)
    return file.getvalue()


def _packed(file: Any, array: Any) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", _saved(np.save, array))


def _of_training(name: str, tensor: bytes) -> list[bytes]:
    from dualclust.train.state.checkpoint import _manifest_bytes
    from dualclust.train.state.packing import pack

    if name == "model":
        return [_small_model()]
    if name == "description":
        content = _small_model()
        header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
        return [json.dumps(json.loads(header["__metadata__"]["dualclust"])["model"]).encode()]
    text = json.dumps({"state": pack({0: (1, [2.5, None], {"a": "b"})})[1]}).encode()
    if name == "manifest":
        return [_manifest_bytes({"state.safetensors": tensor, "state.json": text})]
    return [text + b"\0" + tensor]


def _encoded(kind: str) -> bytes:
    from PIL import Image

    file = io.BytesIO()
    pixels = np.random.default_rng(0).integers(0, 256, (9, 12, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(file, kind)
    return file.getvalue()
