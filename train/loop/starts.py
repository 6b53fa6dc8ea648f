"""Several beginnings of a run, of which the best one without labels is continued.

Where a method is stuck after its first epochs, later ones seldom help, and its loss tells. Where
views are too strong for the data, or too weak, clusters are less apart. Classes are never read.

1. Beginning 0 has the seed of the run; beginning i has one drawn from it (`seed_of`), and views of
   strength ``views[i]``, in turn.
2. Each is an ordinary run of `StartsConfig.epochs` epochs in a folder ``starts/I`` of the run's,
   saved after each epoch; one that was interrupted goes on from there.
3. The one whose last epoch has the least mean loss is chosen, or the one whose labels have the
   largest silhouette, as `StartsConfig.by` asks, and ``starts.json`` says so. Its state becomes
   the first checkpoint of the run, which goes on with its seed and its views. One that diverged is
   not chosen; if all did, so has the run.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from ...algos.core.errors import CheckpointError, DivergedError
from ...algos.selection import cosine_silhouette
from ...common.files import write_file
from ...common.untrusted import parse_json
from ..config.run import RunConfig
from ..methods.base import evaluating
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

__all__ = ["beginning_words", "best_beginning", "chosen_settings", "is_undecided", "seed_of"]

CHOICE = "starts.json"


def seed_of(seed: int, number: int) -> int:
    """Return the seed of a beginning: the run's for the first, one drawn from it for another."""
    return seed if number == 0 else generator(seed, "starts", number).initial_seed()


def settings_of(config: RunConfig, number: int) -> RunConfig:
    """Return the settings of a beginning, which are also those that its continuation has."""
    assert config.starts is not None
    strength = config.starts.strength_of(number)
    views = {name: getattr(config, name) for name in ("augment", "second", "small")}
    milder = {name: v and v.milder(strength) for name, v in views.items()} if strength < 1 else {}
    return replace(config, seed=seed_of(config.seed, number), starts=None, **milder)


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
    epochs, figures = config.starts.epochs, dict[int, dict[str, float]]()
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
        figures[number] = {"loss": float(run.metrics[-1]["loss"])}
        if config.starts.by == "silhouette":
            figures[number]["silhouette"] = _silhouette(run)
    if not figures:
        raise diverged
    best = _best(figures, config.starts.by)
    run.ranks.wait()  # until the first rank has saved the last beginning: it may be the best
    run = fresh(settings_of(config, best))
    begun = load_checkpoint(checkpoint_folder(folder / "starts" / str(best), epochs))
    restore(run, begun, folder / "config.toml")
    if run.ranks.first:
        there = checkpoint_folder(folder, epochs)
        save_checkpoint(there, begun.tensors, begun.metadata, inside=folder)
        choice: dict[str, Any] = {"chosen": best, "seed": run.config.seed}
        of_each = [figures.get(number, {}) for number in counted]
        choice["losses"] = [found.get("loss") for found in of_each]
        if config.starts.by == "silhouette":
            choice["silhouettes"] = [found.get("silhouette") for found in of_each]
            choice["views"] = [config.starts.strength_of(number) for number in counted]
        write_file(folder / CHOICE, json.dumps(choice, indent=1) + "\n")
    run.ranks.wait()
    return run


def _best(figures: Mapping[int, Mapping[str, float]], by: str) -> int:
    """Return the beginning that goes on; the first of equal ones."""
    sign = 1.0 if by == "loss" else -1.0
    return min(figures, key=lambda number: sign * figures[number][by])


def _silhouette(run: Run) -> float:
    """How far the clusters of a beginning are apart, by the labels inside the bounds.

    Of plain samples: milder views would make any labels look better.
    """
    with torch.no_grad(), evaluating(run.method.network):
        found = run.method.predict(run.loader.apply_to_all(run.method.features))
    return cosine_silhouette(found.features, found.assignment.labels, found.centers.shape[0])


def beginning_words(folder: Path) -> str | None:
    """Say which beginning of a run went on, and by what; None if it had one, or nothing tells."""
    try:
        choice = parse_json((folder / CHOICE).read_text(encoding="utf-8"))
        figure = "silhouette" if "silhouettes" in choice else "loss"
        figures = choice["silhouettes" if figure == "silhouette" else "losses"]
        shown = ["none" if value is None else f"{value:.3f}" for value in figures]
        if len(set(views := choice.get("views", []))) > 1:
            shown = [f"{words} (views x {v:g})" for words, v in zip(shown, views, strict=True)]
        went_on = shown.pop(choice["chosen"])
        number = choice["chosen"] + 1
    except (OSError, ValueError, KeyError, IndexError, TypeError, AttributeError):
        return None  # what a finished run has reached does not depend on it
    of = f"beginning {number} of {len(figures)}"
    return (
        f"{of} went on: {figure} {went_on}; the other{'s' * (len(shown) > 1)}: {', '.join(shown)}"
    )
