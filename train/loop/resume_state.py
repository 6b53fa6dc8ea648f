"""The state from which a run is resumed: saved after each epoch, checked, and read back.

The folder of a checkpoint is named after the epochs that are over. One that was saved within an
epoch takes the place of the one at its beginning. The metrics lie beside the state, as the text
that they are in ``metrics.jsonl``: what an epoch costs does not grow with the epochs before it,
but for the bytes of their lines.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ...algos.core.errors import CheckpointError, OutputError
from ...common.files import other_advice
from ...common.stopping import StoppedError
from ..state.checkpoint import Checkpoint, checkpoint_folder, save_checkpoint
from ..state.packing import pack, unpack
from .refit import length_of, was_fitted
from .results import write_metrics, write_skipped
from .run import Run

__all__ = ["check_there", "restore", "run_and_save_epoch"]


def run_and_save_epoch(run: Run, folder: Path, *, inside: Path | None = None) -> dict[str, Any]:
    """Run one epoch; the first rank saves the state after it. Returns the epoch's metrics.

    Parameters
    ----------
    run : Run
    folder : Path. Where the checkpoints of the run lie.
    inside : Path, optional. The run folder, where `folder` is one below it.

    Raises
    ------
    StoppedError
        If the run was asked to stop (`Run.stop`); its state is saved. Ranks stop together.
    OutputError
        If the state cannot be saved; the one before stands.
    """
    try:
        record = run.run_epoch()
    except StoppedError:
        _save(run, folder, inside or folder)
        raise
    _save(run, folder, inside or folder)
    if run.stop is not None and run.ranks.any(run.stop()):
        run.ranks.wait()  # until the first rank has saved
        msg = f"stopped after epoch {run.epoch} of {run.config.epochs}"
        raise StoppedError(msg)
    return record


def _save(run: Run, folder: Path, home: Path) -> None:
    """Write the state and the metrics, if this is the first rank."""
    if not run.ranks.first:
        return
    check_there(home)
    tensors, tree = pack(run.state_dict())
    metadata = {"state": tree, "metrics": run.metrics_text, **run.identity(), **length_of(run)}
    # Made again, the run folder would be one without its settings.
    save_checkpoint(checkpoint_folder(folder, run.epoch), tensors, metadata, inside=home)
    try:
        write_metrics(folder, run.metrics_text)
        write_skipped(folder, run.loader.shown)
    except OutputError as error:
        advice = "The epoch is saved. To fix this, make room and resume the run"
        raise other_advice(error, advice) from error


def check_there(folder: Path, name: str = "") -> None:
    """Refuse to go on once somebody has removed the run folder, or a file that is always there.

    Raises
    ------
    OutputError
    """
    if (folder / name).exists():
        return
    msg = (
        f"the run folder {folder} has gone while the run was under way. "
        f"To fix this, put it back and resume it if it holds a checkpoint, or begin again in "
        f"another folder"
    )
    raise OutputError(msg)


def restore(run: Run, checkpoint: Checkpoint, settings: Path) -> None:
    """Set a run to a saved state, once its settings, its images and its network fit.

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
    _check_network(run, checkpoint)
    try:
        state = unpack(checkpoint.tensors, checkpoint.metadata["state"])
        run.load_state_dict(state)
        run.fitted = was_fitted(checkpoint.metadata)
        # Earlier versions kept the metrics in the state.
        text = checkpoint.metadata.get("metrics")
        for record in state["metrics"] if text is None else map(json.loads, text.splitlines()):
            run.add_record(record)
    except (KeyError, RuntimeError, ValueError, TypeError, AttributeError, IndexError) as error:
        msg = (
            f"the checkpoint {checkpoint.folder} does not fit this version: {error}. "
            f"To fix this, resume with the version that wrote it"
        )
        raise CheckpointError(msg) from error


def _check_network(run: Run, checkpoint: Checkpoint) -> None:
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
