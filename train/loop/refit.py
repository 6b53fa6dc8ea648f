"""A run whose number of epochs changes while it goes, because a time decides it (`--time`).

After each epoch but the last, somebody says how many epochs the run has (`Run.refit`). Schedules
follow from the next step on. The checkpoint of that epoch holds the number, and ``config.toml``
says it, so that a resumed run keeps it and ends as one that was not stopped. Beginnings keep their
epochs. Where an epoch is too coarse for the time, it ends inside, as the last (`Run.cut`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...common.files import write_file
from ..config.run import RunConfig, dump_config, load_config
from ..state.checkpoint import Checkpoint
from .run import Run
from .run_folder import SETTINGS

__all__ = ["fitted", "keep_epochs", "length_of", "was_fitted"]

FITTED = "fitted"
"""Of a checkpoint: what of the settings follows the number of epochs."""


def length_of(run: Run) -> dict[str, Any]:
    """Return what a checkpoint says of a run whose epochs have changed; nothing of another."""
    if not run.fitted:
        return {}
    config = run.config
    length = [config.epochs, config.optim.warmup_epochs, config.optim.frozen_epochs]
    return {FITTED: length}


def was_fitted(metadata: Mapping[str, Any]) -> bool:
    """Whether a checkpoint is of a run whose epochs have changed."""
    return FITTED in metadata


def fitted(config: RunConfig, checkpoint: Checkpoint) -> RunConfig:
    """Return the settings that a run goes on with: its epochs are those that were fitted last."""
    if not was_fitted(checkpoint.metadata):
        return config
    return _of_length(config, *checkpoint.metadata[FITTED])


def keep_epochs(run: Run, folder: Path) -> None:
    """Say in the settings of the folder how many epochs a run has by now."""
    if not (run.fitted and run.ranks.first):
        return
    kept = load_config(folder / SETTINGS)
    new = _of_length(kept, *length_of(run)[FITTED])
    if new != kept:
        write_file(folder / SETTINGS, dump_config(new))


def _of_length(config: RunConfig, epochs: int, warmup: int, frozen: int) -> RunConfig:
    optim = replace(config.optim, warmup_epochs=warmup, frozen_epochs=frozen)
    return replace(config, epochs=epochs, optim=optim)
