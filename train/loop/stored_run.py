"""A run and its folder: the state after each epoch is written, and read back to go on from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ...algos.core.errors import CheckpointError
from ..state.checkpoint import Checkpoint, checkpoint_folder, save_checkpoint
from ..state.packing import pack, unpack
from .results import write_metrics, write_skipped
from .run import Run

__all__ = ["restore", "run_and_save_epoch"]


def run_and_save_epoch(run: Run, folder: Path) -> dict[str, Any]:
    """Run one epoch; the first rank saves the state after it. Returns the epoch's metrics."""
    record = run.run_epoch()
    if run.ranks.first:
        tensors, tree = pack(run.state_dict())
        metadata = {"state": tree, **run.identity()}
        save_checkpoint(checkpoint_folder(folder, run.epoch), tensors, metadata)
        write_metrics(folder, run.metrics)
        write_skipped(folder, run.loader.data)
    return record


def restore(run: Run, checkpoint: Checkpoint, settings: Path) -> None:
    """Set a run to a saved state.

    Raises
    ------
    CheckpointError
        If the state is of other settings or images, naming the first difference, or of another
        version.
    """
    for name, ours in run.identity().items():
        theirs = checkpoint.metadata.get(name)
        if theirs == ours:
            continue
        lines = set(str(theirs).splitlines())
        changed = [line for line in ours.splitlines() if line not in lines]
        what = f"{settings} has {changed[0]!r}" if name == "config" and changed else f"other {name}"
        msg = (
            f"the checkpoint {checkpoint.folder} does not fit: {what}. "
            f"To fix this, restore what the run was started with"
        )
        raise CheckpointError(msg)
    _compare(run, checkpoint)
    try:
        run.load_state_dict(unpack(checkpoint.tensors, checkpoint.metadata["state"]))
    except (KeyError, RuntimeError, ValueError) as error:
        msg = f"the checkpoint {checkpoint.folder} does not fit this version: {error}"
        raise CheckpointError(msg) from error


def _compare(run: Run, checkpoint: Checkpoint) -> None:
    """Refuse the state of another network, naming the first tensor that differs."""
    ours, _ = pack(run.method.state_dict(), "state.method")
    kept = {k: v for k, v in checkpoint.tensors.items() if k.startswith("state.method.")}
    for name in sorted(ours.keys() | kept.keys()):
        a, b = (tuple(s[name].shape) if name in s else "no such tensor" for s in (ours, kept))
        if a != b:
            msg = (
                f"the checkpoint {checkpoint.folder} does not fit this version, or is of another "
                f"network: {name.removeprefix('state.method.')} has {b} there, {a} here. To fix "
                f"this, resume with the network that the run was started with "
                f"({run.config.network.name})"
            )
            raise CheckpointError(msg)
