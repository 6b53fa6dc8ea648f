"""The state of a run in a few small files, with which another machine goes on.

A checkpoint of ResNet-34 with its moving average and its momentum is 300 MB, and a card that is
lent for minutes hands back less. So large tensors are rounded, each row to whole steps of its
largest entry; what goes on from here is not the same run to the last bit. A moving average is kept
as its difference to what it averages, which is small. Momentum forgets within ten steps: where
there is no room for it, it starts from zero. All else, labels, prices, statistics, is exact.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from dualclust.common.files import write_file
from dualclust.train.loop import Run
from dualclust.train.loop.resume_state import restore
from dualclust.train.state.checkpoint import Checkpoint
from dualclust.train.state.packing import pack

__all__ = ["FILE", "WHOLE", "bits_for", "has_state", "read_state", "write_state"]

FILE, WHOLE = 16_000_000, 56_000_000
"""Most bytes of a file, and of all."""
LARGE = 4_096
"""Entries from which on a tensor is rounded."""
TABLE = "state.json"


class Bits(NamedTuple):
    """Bits of an entry of the parameters, of their moving average, and of momentum."""

    weights: int
    target: int
    momentum: int


PLANS = (Bits(16, 8, 8), Bits(12, 4, 0))


def bits_for(sizes: Mapping[str, int], exact: int) -> Bits:
    """The first plan with which everything fits.

    Parameters
    ----------
    sizes : entries of large tensors by kind, as `Bits` names them.
    exact : int. Bytes of all else.

    Raises
    ------
    ValueError
        If none fits.
    """
    for bits in PLANS:
        total = exact + sum(sizes.get(kind, 0) * getattr(bits, kind) for kind in Bits._fields) // 8
        if total <= WHOLE:
            return bits
    msg = f"the state does not fit into {WHOLE:,} bytes, got {dict(sizes)} entries"
    raise ValueError(msg)


def has_state(folder: Path) -> bool:
    """Whether there is a state."""
    return (folder / TABLE).is_file()


def write_state(run: Run, folder: Path) -> None:
    """Write the state of a run; one that is there stays until the new one is whole."""
    tensors, tree = pack(run.state_dict())
    tensors = {name: tensor.detach().cpu() for name, tensor in tensors.items()}
    kinds = {name: _kind(name, tensor) for name, tensor in tensors.items()}
    sizes = dict.fromkeys(Bits._fields, 0)
    exact = 0
    for name, tensor in tensors.items():
        if kinds[name] in sizes:
            sizes[kinds[name]] += tensor.numel()
            exact += 4 * len(tensor)  # steps
        else:
            exact += _smallest(tensor).nbytes
    bits = bits_for(sizes, exact)
    rows: list[dict[str, Any]] = []
    parts: list[bytes] = []
    for name, tensor in tensors.items():
        width = getattr(bits, kinds[name], None)
        if width is None:
            kept = _smallest(tensor)
            made = [kept.tobytes()]
        else:
            other = tensors.get(_averaged(name)) if kinds[name] == "target" else None
            rounded = None if other is None else _rounded(other, bits.weights)
            kept, made = None, _packed(tensor if rounded is None else tensor - rounded, width)
        parts += made
        rows.append(
            {
                "name": name,
                "shape": list(tensor.shape),
                "dtype": str(tensor.dtype).removeprefix("torch."),
                "kept": None if kept is None else str(kept.dtype),
                "bits": width,
                "size": sum(map(len, made)),
            }
        )
    fresh = folder.with_name(f"{folder.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    whole = b"".join(parts)
    pieces = [whole[i : i + FILE] for i in range(0, len(whole), FILE)]
    for i, piece in enumerate(pieces):
        write_file(fresh / f"state-{i}.bin", piece)
    metadata = {"state": tree, "metrics": run.metrics_text, **run.identity()}
    table = {"files": len(pieces), "rows": rows, "metadata": metadata}
    write_file(fresh / TABLE, json.dumps(table))
    shutil.rmtree(folder, ignore_errors=True)
    fresh.replace(folder)


def read_state(run: Run, folder: Path) -> None:
    """Set a run to a state, once its settings, its images and its network fit.

    Raises
    ------
    CheckpointError
        If they do not.
    """
    table = json.loads((folder / TABLE).read_text(encoding="utf-8"))
    pieces = [(folder / f"state-{i}.bin").read_bytes() for i in range(table["files"])]
    whole, at = memoryview(b"".join(pieces)), 0
    tensors: dict[str, Tensor] = {}
    for row in table["rows"]:
        part, at = whole[at : at + row["size"]], at + row["size"]
        shape, dtype = tuple(row["shape"]), getattr(torch, row["dtype"])
        if row["bits"] is None:
            array = np.frombuffer(part, row["kept"]).reshape(shape).copy()
            tensors[row["name"]] = torch.from_numpy(array).to(dtype)
        else:
            tensors[row["name"]] = _unpacked(part, shape, row["bits"]).to(dtype)
    for name, tensor in tensors.items():
        if (other := tensors.get(_averaged(name))) is not None and _kind(name, tensor) == "target":
            tensor += other
    restore(run, Checkpoint(tensors, table["metadata"], folder), folder / TABLE)


def _kind(name: str, tensor: Tensor) -> str:
    if not tensor.is_floating_point() or tensor.numel() < LARGE or tensor.ndim < 2:
        return "exact"
    if name.endswith("momentum_buffer"):
        return "momentum"
    return "target" if name.startswith("state.method.target.") else "weights"


def _averaged(name: str) -> str:
    """What a tensor of the moving average is an average of; the name itself of no such tensor."""
    return re.sub(r"^state\.method\.target\.", "state.method.online.", name)


def _smallest(tensor: Tensor) -> Any:
    """A tensor's entries in the smallest type that holds them."""
    array = tensor.numpy()
    if array.dtype.kind != "i" or not array.size:
        return array
    return array.astype(np.result_type(*map(np.min_scalar_type, (array.min(), array.max()))))


def _steps(tensor: Tensor, bits: int) -> tuple[Tensor, Tensor]:
    """Entries by rows, and the step of each row."""
    rows = tensor.float().reshape(len(tensor), -1)
    step = rows.abs().amax(1, keepdim=True) / (2 ** (bits - 1) - 1)
    return rows, torch.where(step > 0, step, 1.0)


def _rounded(tensor: Tensor, bits: int) -> Tensor:
    rows, step = _steps(tensor, bits)
    return ((rows / step).round() * step).reshape(tensor.shape)


def _packed(tensor: Tensor, bits: int) -> list[bytes]:
    if not bits:
        return []
    rows, step = _steps(tensor, bits)
    whole = ((rows / step).round() + 2 ** (bits - 1) - 1).flatten().to(torch.int32).numpy()
    return [step.numpy().tobytes(), *_bytes(whole.astype(np.uint16), bits)]


def _bytes(whole: Any, bits: int) -> Iterator[bytes]:
    """Whole numbers below 2^bits: full bytes, then halves of a byte in pairs."""
    if bits == 16:
        yield whole.astype("<u2").tobytes()
    if bits in (8, 12):
        yield (whole >> (bits - 8)).astype(np.uint8).tobytes()
    if bits in (4, 12):
        low = np.resize(whole & 15, len(whole) + len(whole) % 2).astype(np.uint8)
        yield (low[::2] | low[1::2] << 4).tobytes()


def _unpacked(part: memoryview, shape: tuple[int, ...], bits: int) -> Tensor:
    if not bits:
        return torch.zeros(shape)
    rows, count = shape[0], int(np.prod(shape))
    step, rest = np.frombuffer(part, "<f4", rows), part[4 * rows :]
    whole = np.zeros(count, np.int32)
    if bits == 16:
        whole += np.frombuffer(rest, "<u2")
    if bits in (8, 12):
        whole += np.frombuffer(rest, np.uint8, count).astype(np.int32) << (bits - 8)
    if bits in (4, 12):
        pairs = np.frombuffer(rest, np.uint8, offset=count if bits == 12 else 0)
        whole += np.stack([pairs & 15, pairs >> 4], 1).flatten()[:count]
    entries = (whole - (2 ** (bits - 1) - 1)).astype(np.float32).reshape(rows, -1)
    return torch.from_numpy(entries * step[:, None]).reshape(shape)
