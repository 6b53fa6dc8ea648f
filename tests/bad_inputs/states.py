"""Settings and states of strangers: TOML, JSON, checkpoints, tensors, exported models."""

from __future__ import annotations

import functools
import hashlib
import json
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch

from dualclust.cluster.checkpoint import MAGIC, load_state
from dualclust.train.config.run import load_config
from dualclust.train.models import load_model
from dualclust.train.models.files import _digest
from dualclust.train.state.checkpoint import _manifest_bytes, load_checkpoint
from tests.bad_inputs.arrays import embeddings, of_file
from tests.bad_inputs.judge import Bad

RIGHT = {
    ("n_samples", "1000000000000"), ("n_samples", "0"), ("temperature", "3.5"),
    ("temperature", "1000000000000"), ("autocast", "True"),
}  # fmt: skip
"""What a model may say of itself."""

__all__ = ["state_cases", "tensor_file"]

DEEP = "[" * 100_000
JSONS = (
    "", "{", "[]", "null", "3", '"x"', "{}", '{"a": 1, "a": 2}', DEEP, '{"a":' * 50_000, "NaN",
    "9" * 5000, '"\\ud800"', "\ufeff{}", "{'a': 1}", "[1,]", "\0",
)  # fmt: skip
ENTRIES: tuple[Any, ...] = (
    None, 3, [], "x", {}, {"dtype": "F32"}, {"dtype": "F32", "shape": [8, 3]},
    *({"dtype": kind, "shape": [8, 3], "data_offsets": [0, 96]}
      for kind in (None, 3, "F64", "X9", "", "f32", "BOOL", "C64")),
    *({"dtype": "F32", "shape": shape, "data_offsets": [0, 96]}
      for shape in (None, 24, "83", [-8, -3], [8.0, 3], [True, 24], [2**63, 2**63], [9, 3],
                    [[8], 3], ["8", 3], [float("inf"), 3], [], [24], [8, 3, 1], [0, 3])),
    *({"dtype": "F32", "shape": [8, 3], "data_offsets": places}
      for places in (None, 3, [], [0], [0, 96, 96], [96, 0], [-96, 0], [1, 97], [0, 2**64],
                     ["0", 96], [0.0, 96], [float("nan"), 96], [2**70, 2**70 + 96], [0, True])),
)  # fmt: skip
TOMLS = (
    "=", "a", "a =", "[a", "a = 1\na = 2", "a = " + "[" * 5000, "a." * 3000 + "b = 1", "\0",
    "a = " + "9" * 5000, "epochs = 1e999", "epochs = nan", "epochs = -1", "epochs = '3'", "x = 1",
    "epochs = 0", "epochs = true", "epochs = []", "method = 3", "method = 'gone'",
    "[optim]\nlr = -1", "[optim]\nlr = nan", "[optim]\nlr = inf", "optim = 3", "[optim]\nLR = 1",
    "[[optim]]\nlr = 1",
    "[network]\nwidth = -3", "[data]\nsize = -1", "[data]\nsource = 3",
    "[data]\nsource = 2020-01-01", "seed = -1", "seed = 1.5", "a = {" * 3000, "a = '''",
    "[heads]\nclusters = [1]", "[heads]\nclusters = []", "[heads]\nclusters = ['3']",
    "[augment]\ncrop = [2, 1]", "[augment]\ncrop = [0]", "[execution]\nbatch = 0", '"\\ud800" = 1',
    "[secu]\nx = 1", "[coke]\n", "a = 1 # \x01", "[evaluation]\nevery = 0", "\ufeffepochs = 0",
)  # fmt: skip


def tensor_file(header: Any, values: bytes, *, length: int | None = None) -> bytes:
    """The bytes of a .safetensors file with this header."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + values


def tensor_headers() -> Iterator[tuple[str, bytes]]:
    """Files that lie in one field of their header."""
    values = bytes(96)
    good = {"dtype": "F32", "shape": [8, 3], "data_offsets": [0, 96]}
    for i, text in enumerate(JSONS):
        yield f"json-{i}", tensor_file(text.encode("utf-8", "surrogatepass"), values)
    for i, entry in enumerate(ENTRIES):
        yield f"entry-{i}", tensor_file({"x": entry}, values)
    for i, metadata in enumerate((3, [], "x", {"a": 3}, {"a": None}, {"a": {}})):
        yield f"metadata-{i}", tensor_file({"__metadata__": metadata, "x": good}, values)
    for length in (0, 1, 2**25 + 1, 2**26, 2**62, 2**64 - 1):
        yield f"length-{length}", tensor_file({"x": good}, values, length=length)
    half = {"dtype": "F32", "shape": [4, 3], "data_offsets": [0, 48]}
    yield "overlap", tensor_file({"x": half, "y": half}, values)
    yield "gap", tensor_file({"x": half}, values)
    yield "twice", tensor_file(b'{"x":' + json.dumps(good).encode() + b',"x":3}', values)
    content = tensor_file({"x": good}, values)
    for end in (0, 7, 8, 9, 40, len(content) - 1):
        yield f"cut-{end}", content[:end]
    yield "longer", content + b"\0"


def state_cases(model: Path) -> Iterator[Bad]:
    """All of them; `model` is an exported model, in which lies are told."""
    for i, text in enumerate(TOMLS):
        content = text.encode("utf-8", "surrogatepass")
        yield of_file(f"toml-{i}", "config.toml", content, load_config)
    yield of_file("toml-latin", "config.toml", b"a = '\xff'", load_config)
    for name, content in tensor_headers():
        yield of_file(f"safetensors-{name}", "X.safetensors", content, embeddings)
        yield of_file(f"export-{name}", "m.safetensors", content, load_model)
    for name, content in exported(model.read_bytes()):
        yield of_file(f"export-{name}", "m.safetensors", content, load_model)
    yield from checkpoints()
    yield from cluster_states()


def exported(content: bytes) -> Iterator[tuple[str, bytes]]:
    """Models under a hash that fits, of which one value is another."""
    tensors = safetensors.torch.load(content)
    length = int.from_bytes(content[:8], "little")
    entry = json.loads(json.loads(content[8 : 8 + length])["__metadata__"]["dualclust"])
    wrong = (None, -1, 0, 3.5, "x", [], {}, [3], True, 10**12, float("nan"))
    for name in entry["model"]:
        for i, value in enumerate(wrong):
            if name in ("dualclust", "torch", "own_network", "method") and value == "x":
                continue
            if value == entry["model"][name] or (name, repr(value)) in RIGHT:
                continue
            yield f"{name}-{i}", model_of({**entry["model"], name: value}, tensors)
    for name in ("centers", "prices", "lower", "upper", "counts", "mean", "std"):
        for how in ("missing", "nan", "long", "dtype"):
            own = {key: value for key, value in tensors.items() if key != name or how != "missing"}
            if how == "nan":
                own[name] = torch.full(tensors[name].shape, float("nan"))
            if how == "long":
                own[name] = torch.cat([tensors[name]] * 2)
            if how == "dtype":
                own[name] = tensors[name].to(torch.float16)
            yield f"{name}-{how}", model_of(entry["model"], own)


def model_of(model: Any, tensors: dict[str, torch.Tensor]) -> bytes:
    """The file of a model that says this of itself."""
    text = json.dumps({"model": model, "sha256": _digest(model, tensors)})
    return safetensors.torch.save(tensors, {"dualclust": text})


def checkpoints() -> Iterator[Bad]:
    """Checkpoints of a run: manifests that lie, and contents that fit theirs."""
    good = {
        "state.safetensors": safetensors.torch.save({"x": torch.ones(3)}),
        "state.json": b'{"state": 3}\n',
    }

    def of(name: str, files: dict[str, bytes]) -> Bad:
        def write(folder: Path) -> None:
            (folder / "e").mkdir()
            for file, content in files.items():
                (folder / "e" / file).write_bytes(content)

        return Bad(f"checkpoint-{name}", lambda folder: load_checkpoint(folder / "e"), "e", write)

    for i, text in enumerate(JSONS):
        content = text.encode("utf-8", "surrogatepass")
        yield of(f"manifest-{i}", {**good, "manifest.json": content})
        if "{}" not in text:
            own = {**good, "state.json": content}
            yield of(f"metadata-{i}", {**own, "manifest.json": _manifest_bytes(own)})
    yield from manifests(of, good)
    for name, content in tensor_headers():
        own = {**good, "state.safetensors": content}
        if name not in ("json-6", "entry-27", "entry-28"):  # no embeddings, but tensors
            yield of(f"tensors-{name}", {**own, "manifest.json": _manifest_bytes(own)})


def manifests(of: Callable[..., Bad], good: dict[str, bytes]) -> Iterator[Bad]:
    """Manifests with one value that is not theirs, and checkpoints without a file."""
    manifest = json.loads(_manifest_bytes(good))
    for key in ("format", "version", "files"):
        for i, value in enumerate((None, -1, 2, "x", [], {}, True, {"state.json": 3})):
            content = (json.dumps({**manifest, key: value}, indent=1) + "\n").encode()
            yield of(f"{key}-{i}", {**good, "manifest.json": content})
    for name in good:
        for key in ("bytes", "sha256"):
            for i, value in enumerate((None, -1, 3, "x", [], 1e9, True)):
                files = {**manifest["files"], name: {**manifest["files"][name], key: value}}
                content = (json.dumps({**manifest, "files": files}, indent=1) + "\n").encode()
                yield of(f"{name}-{key}-{i}", {**good, "manifest.json": content})
    for name in (*good, "manifest.json"):
        whole = {**good, "manifest.json": _manifest_bytes(good)}
        yield of(f"no-{name}", {key: value for key, value in whole.items() if key != name})


def cluster_states() -> Iterator[Bad]:
    """States of the command, under a hash that fits."""
    good = {"name": "x", "dtype": "<f8", "shape": [2]}
    entries: tuple[Any, ...] = (
        None, 3, "x", {}, [3], [None], [[]], [{}], [good, good], [{"name": "x"}],
        *([{**good, "dtype": kind}]
          for kind in ("O", "<,8", "|V8", "<U9", "x", "", None, "<f99", "<c8")),
        *([{**good, "shape": shape}] for shape in (None, 2, "2", [-2], [2.0], [2**62, 2**62], [3],
                                                   [1], [[2]], [True, 2], [0, -1])),
    )  # fmt: skip
    call = functools.partial(load_state, run={})
    for i, value in enumerate(entries):
        body = json.dumps({"run": {}, "arrays": value}).encode() + b"\n" + bytes(16)
        yield of_file(f"state-arrays-{i}", "X.state", hashed(body), call)
    for i, text in enumerate(JSONS):
        body = text.encode("utf-8", "surrogatepass") + b"\n"
        yield of_file(f"state-json-{i}", "X.state", hashed(body), call)
    for i, run in enumerate((None, 3, [], "x", {"k": 3})):
        body = json.dumps({"run": run, "arrays": []}).encode() + b"\n"
        if run != []:  # the same as an empty table
            yield of_file(f"state-run-{i}", "X.state", hashed(body), call)
    whole = hashed(json.dumps({"run": {}, "arrays": [good]}).encode() + b"\n" + bytes(16))
    rng = np.random.default_rng(0)
    for place in sorted({0, 31, 40, *rng.integers(96, len(whole), 9).tolist()}):
        content = bytearray(whole)
        content[place] ^= 4
        yield of_file(f"state-bit-{place}", "X.state", bytes(content), call)
    for end in (0, 20, 31, 95, 96, 97, len(whole) - 1):
        yield of_file(f"state-cut-{end}", "X.state", whole[:end], call)


def hashed(body: bytes) -> bytes:
    """A state of the command with this content."""
    return MAGIC + hashlib.sha256(body).hexdigest().encode() + b"\n" + body
