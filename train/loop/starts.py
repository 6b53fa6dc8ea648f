"""Several beginnings of a run, of which the one with the least loss is continued.

Where a method is stuck after its first epochs, later ones seldom help, and its loss tells. Classes
are never read.

1. Beginning 0 has the seed of the run; beginning i has one drawn from it (`seed_of`).
2. Each is an ordinary run of `StartsConfig.epochs` epochs in a folder ``starts/I`` of the run's,
   saved after each epoch; one that was interrupted goes on from there.
3. The one whose last epoch has the least mean loss is chosen, and ``starts.json`` says so. Its
   state becomes the first checkpoint of the run, which goes on with its seed. One that diverged is
   not chosen; if all did, so has the run.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...algos.core.errors import CheckpointError, DivergedError
from ...common.files import write_file
from ...common.untrusted import parse_json
from ..config.run import RunConfig
from ..state.checkpoint import (
    checkpoint_folder,
    has_epoch,
    latest_checkpoint,
    load_checkpoint,
    save_checkpoint,
)
from ..state.seeding import generator
from .resume_state import restore, run_and_save_epoch
from .run import Run

__all__ = ["best_beginning", "chosen_settings", "is_undecided", "seed_of"]

CHOICE = "starts.json"


def seed_of(seed: int, number: int) -> int:
    """Return the seed of a beginning: the run's for the first, one drawn from it for another."""
    return seed if number == 0 else generator(seed, "starts", number).initial_seed()


def settings_of(config: RunConfig, number: int) -> RunConfig:
    """Return the settings of a beginning, which are also those that its continuation has."""
    return replace(config, seed=seed_of(config.seed, number), starts=None)


def is_undecided(folder: Path) -> bool:
    """Whether a run has begun and not yet chosen which beginning goes on."""
    return (folder / "starts").is_dir() and not (folder / CHOICE).is_file()


def chosen_settings(config: RunConfig, folder: Path) -> RunConfig:
    """Return the settings that a run goes on with, once its beginning is chosen.

    Raises
    ------
    CheckpointError
        If the file of the choice is missing or damaged, or names no beginning of these settings.
    """
    if config.starts is None:
        return config
    path = folder / CHOICE
    try:
        number = parse_json(path.read_text(encoding="utf-8"))["chosen"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        msg = f"{path} does not say which beginning was chosen ({error}). To fix this, restore it"
        raise CheckpointError(msg) from error
    if type(number) is not int or number not in range(config.starts.count):
        msg = (
            f"{path} names beginning {number!r}, and the settings have {config.starts.count}, "
            f"counted from 0. To fix this, restore the settings that the run was started with"
        )
        raise CheckpointError(msg)
    return settings_of(config, number)


def best_beginning(
    config: RunConfig,
    folder: Path,
    fresh: Callable[[RunConfig], Run],
    progress: Callable[[dict[str, Any]], None] | None = None,
) -> Run:
    """Run the beginnings, choose one, and return the run at its end.

    Parameters
    ----------
    config : RunConfig. Its `starts` is not None.
    folder : Path. The run folder.
    fresh : function of settings. Makes an initialized run.
    progress : callable, optional. Gets the metrics of each epoch, with ``start``, the number of
        the beginning.

    Raises
    ------
    DivergedError
        If all beginnings diverged.
    """
    assert config.starts is not None
    epochs, losses = config.starts.epochs, {}
    counted = range(config.starts.count)
    for number in counted:
        home = folder / "starts" / str(number)
        run = fresh(settings_of(config, number))
        if has_epoch(home):
            restore(run, latest_checkpoint(home), folder / "config.toml")
        try:
            while run.epoch < epochs:
                record = run_and_save_epoch(run, home, inside=folder)
                if progress is not None:
                    progress({"start": number, **record})
        except DivergedError as error:
            diverged = error.with_traceback(None)  # which would hold the whole run
            continue
        losses[number] = float(run.metrics[-1]["loss"])
    if not losses:
        raise diverged
    best = min(losses, key=losses.__getitem__)
    run.ranks.wait()  # until the first rank has saved the last beginning: it may be the best
    run = fresh(settings_of(config, best))
    begun = load_checkpoint(checkpoint_folder(folder / "starts" / str(best), epochs))
    restore(run, begun, folder / "config.toml")
    if run.ranks.first:
        there = checkpoint_folder(folder, epochs)
        save_checkpoint(there, begun.tensors, begun.metadata, inside=folder)
        choice = {"chosen": best, "seed": run.config.seed, "losses": list(map(losses.get, counted))}
        write_file(folder / CHOICE, json.dumps(choice, indent=1) + "\n")
    run.ranks.wait()
    return run
