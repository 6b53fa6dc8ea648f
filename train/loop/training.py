"""The training loop: epochs, schedules, evaluation, a run folder, exact resume.

Every random number comes from a named stream of the run's seed (`state.seeding`), and the state is
saved after each epoch, so that a run that was interrupted and resumed ends like one that was not,
to the last bit on the same machine and build.

A run folder holds

=======================  ===========================================================================
file                     what it is
=======================  ===========================================================================
``config.toml``          the settings; with the code, all that is needed to repeat the run
``metrics.jsonl``        one line per epoch: loss, learning rate, sizes; ACC, NMI, ARI where known
``checkpoints/``         what `resume` reads: the last two epochs, hashed, without pickle
``starts/``              the beginnings of the run, where it has several
``starts.json``          which of them went on
``assignments.csv``      id, cluster, margin of every image; its class where known
``centers.npy``          (k, d) unit centers of the target head
``weights.safetensors``  the network's parameters
``gallery.png``          what to look at, as are ``sizes.png`` and ``curves.png``
=======================  ===========================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple

import torch

from ...algos.core.errors import OutputError
from ...common.files import remove_leftovers, write_file
from ...common.locks import LOCK_FILES, only_writer
from ...common.ranks import ALONE, Ranks
from ..config.run import RunConfig, dump_config, load_config
from ..data.samples import EmbeddingData
from ..methods.base import Prediction
from ..report.figures import write_curves
from ..state.checkpoint import check_begun, latest_checkpoint
from .results import write_metrics, write_results
from .run import Run
from .starts import best_beginning, chosen_settings, is_undecided, settings_of
from .stored_run import restore, run_and_save_epoch

__all__ = ["RunResult", "resume", "train"]

Progress = Callable[[dict[str, Any]], None]


class RunResult(NamedTuple):
    """What a finished run has.

    Attributes
    ----------
    folder : Path
    metrics : list of dict, one per epoch.
    prediction : Prediction. Labels of the target head and what certifies them.
    lower, upper : int. Smallest and largest size that the bounds allow.
    """

    folder: Path
    metrics: list[dict[str, Any]]
    prediction: Prediction
    lower: int
    upper: int


def train(
    config: RunConfig,
    folder: str | Path,
    *,
    device: str = "cpu",
    network: torch.nn.Module | None = None,
    ranks: Ranks = ALONE,
    progress: Progress | None = None,
) -> RunResult:
    """Train from the start and write the run folder.

    Parameters
    ----------
    config : RunConfig
    folder : path. Must not exist yet, or be empty: a run never overwrites another.
    device : str. "cpu", "cuda", "cuda:1", ...
    network : nn.Module, optional. The user's own encoder; see `Run`. Several beginnings train
        copies of it.
    ranks : Ranks. From `common.ranks.join_ranks`, under ``torchrun``; the first rank writes.
    progress : callable, optional. Gets the metrics of each epoch as a dict.

    Returns
    -------
    RunResult

    Raises
    ------
    OutputError
        If the folder has content, cannot be written, or is that of a living run.
    UsageError, InfeasibleBoundsError, MissingFileError
        If the settings do not fit the data. Nothing is written then.
    """
    folder = Path(folder)
    _check_empty(folder)
    ranks.wait()  # before the first rank makes the folder that the others have just looked at
    with _threads(config.threads):
        fresh = _maker(config, device, network, ranks)
        run = fresh(config if config.starts is None else settings_of(config, 0))
        with _only_run(folder, ranks):
            if ranks.first:
                _check_empty(folder)  # another run may have begun since
                write_file(folder / "config.toml", dump_config(config))
            if config.starts is not None:
                run = best_beginning(config, folder, fresh, progress)
            return _finish(run, folder, progress)


def resume(
    folder: str | Path,
    *,
    device: str = "cpu",
    network: torch.nn.Module | None = None,
    ranks: Ranks = ALONE,
    progress: Progress | None = None,
) -> RunResult:
    """Continue a run from its last epoch; a finished run only writes its results again.

    Raises
    ------
    MissingFileError
        If the folder, its settings or its checkpoints are not there; never a fresh start.
    CheckpointError
        If no checkpoint is intact, or it does not fit the settings.
    OutputError
        If the folder is that of a living run.
    """
    folder = Path(folder)
    check_begun(folder)
    config = load_config(folder / "config.toml")
    with _only_run(folder, ranks), _threads(config.threads):
        checkpoint = None if is_undecided(folder) else latest_checkpoint(folder)
        if ranks.first:
            remove_leftovers(folder)
        if checkpoint is None:
            fresh = _maker(config, device, network, ranks)
            run = best_beginning(config, folder, fresh, progress)
        else:
            run = Run(chosen_settings(config, folder), device, network, ranks)
            restore(run, checkpoint, folder / "config.toml")
        return _finish(run, folder, progress)


def _check_empty(folder: Path) -> None:
    """Refuse a folder with content, other than that somebody writes or wrote there."""
    if folder.exists() and (
        not folder.is_dir() or any(path.name not in LOCK_FILES for path in folder.iterdir())
    ):
        started = (folder / "checkpoints").is_dir()
        other = f", or continue that run with: dualclust resume {folder}" if started else ""
        msg = f"{folder} exists and is not empty. To fix this, choose another folder{other}"
        raise OutputError(msg)


def _only_run(folder: Path, ranks: Ranks) -> AbstractContextManager[None]:
    """Keep other runs out of a folder; its first rank is the one that writes."""
    return only_writer(folder) if ranks.first else nullcontext()


def _maker(
    config: RunConfig, device: str, network: torch.nn.Module | None, ranks: Ranks
) -> Callable[[RunConfig], Run]:
    """Return a function that makes an initialized run; each beginning gets its own network."""

    def fresh(settings: RunConfig) -> Run:
        own = network if config.starts is None else deepcopy(network)
        run = Run(settings, device, own, ranks)
        run.init()
        return run

    return fresh


def _finish(run: Run, folder: Path, progress: Progress | None) -> RunResult:
    """Run the epochs that are left, saving each, then write the results."""
    while run.epoch < run.config.epochs:
        record = run_and_save_epoch(run, folder)
        if progress is not None:
            progress(record)
    prediction, method = run.predict(), run.method
    bounds = method.bounds[method.target]
    if run.ranks.first:
        write_metrics(folder, run.metrics)
        write_results(folder, prediction, bounds, run.loader.data, method.network)
        write_curves(folder / "curves.png", run.metrics)
        if not isinstance(run.loader.data, EmbeddingData):
            method.write_pictures(folder, run.loader.data, prediction)
    run.ranks.wait()
    limits = int(bounds.lower.min()), int(bounds.upper.max())
    return RunResult(folder, run.metrics, prediction, *limits)


@contextmanager
def _threads(count: int) -> Iterator[None]:
    """Run with `count` CPU threads, if it is not 0."""
    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)
