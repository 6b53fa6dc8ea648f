"""A run whose number of epochs changes while it goes, because a time decides it (`--time`).

After each epoch but the last, somebody says how many epochs the run has. Schedules follow from the
next step on. The checkpoint of that epoch holds the number, and ``config.toml`` says it, so that a
resumed run keeps it and ends as one that was not stopped. Beginnings keep their epochs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...common.files import write_file
from ..config.run import RunConfig, dump_config, load_config
from ..state.checkpoint import Checkpoint
from .run import Run
from .run_folder import SETTINGS

__all__ = ["FITTED", "Refit", "ask_again", "fitted", "keep_epochs"]

Refit = Callable[[dict[str, Any], int], int]
"""Takes the metrics of an epoch and the number of epochs; returns how many there shall be."""

FITTED = "fitted epochs"
"""Of a checkpoint: how many epochs the run has."""


def ask_again(run: Run, refit: Refit, record: dict[str, Any]) -> None:
    """Ask after an epoch how many there shall be; what the first rank hears holds for all."""
    if run.epoch == run.config.epochs:
        return  # it has been evaluated as the last one
    asked = refit(record, run.config.epochs) if run.ranks.first else 0
    epochs = max(run.epoch + 1, int(run.ranks.exchange(str(asked).encode())[0]))
    if epochs != run.config.epochs:
        run.set_epochs(epochs)


def fitted(config: RunConfig, checkpoint: Checkpoint) -> RunConfig:
    """Return the settings that a run goes on with: its epochs are those that were fitted last."""
    epochs = checkpoint.metadata.get(FITTED)
    return config if epochs is None else replace(config, epochs=epochs)


def keep_epochs(run: Run, folder: Path) -> None:
    """Say in the settings of the folder how many epochs a run has by now."""
    if run.fitted and run.ranks.first:
        kept = load_config(folder / SETTINGS)
        if kept.epochs != run.config.epochs:
            write_file(folder / SETTINGS, dump_config(replace(kept, epochs=run.config.epochs)))
