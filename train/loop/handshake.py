"""Ranks begin only what is the same run on all of them: settings, images, versions, weights.

A rank that was started with another seed, or on a machine with another copy of the data or another
version of PyTorch, would go on without an error, and its labels would be of no run at all.
"""

from __future__ import annotations

import hashlib

import torch

from ...common.handshake import check_same
from ..state.packing import pack
from .run import Run
from .trained import dualclust_version

__all__ = ["check_same_run"]


def check_same_run(run: Run) -> None:
    """Refuse ranks that would take different steps, before the next one.

    Raises
    ------
    UsageError
        On every rank, naming what differs and on which rank.
    """
    if run.ranks.world_size == 1:
        return
    images = run.identity()["images"]
    settings = dict(
        line.split(" = ", 1) for line in _settings(run.identity()["config"]) if " = " in line
    )
    facts = {
        "dualclust": dualclust_version(),
        "torch": str(torch.__version__),
        **settings,
        "images": images,
        "epochs that are over": str(run.epoch),
        "weights": _digest(run),
    }
    check_same(facts, run.ranks.exchange)


def _settings(config: str) -> list[str]:
    """Lines of a TOML file, each with the name of its table."""
    table, lines = "", []
    for line in config.splitlines():
        if line.startswith("["):
            table = line.strip("[]") + "."
        else:
            lines.append(table + line)
    return lines


def _digest(run: Run) -> str:
    """Return a digest of all that the steps change, to the bit."""
    tensors, _ = pack(run.method.state_dict())
    found = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        found.update(repr((name, str(tensor.dtype), tuple(tensor.shape))).encode())
        plain = tensor.detach().to("cpu").contiguous().reshape(-1).view(torch.uint8)
        found.update(plain.numpy().data)
    return found.hexdigest()[:16]
