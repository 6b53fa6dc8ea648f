"""Train a run from its start, or resume it: epochs, checkpoints, results in a run folder.

Every random number comes from a named stream of the run's seed (`state.seeding`), and the state is
saved after each epoch, so that a run that was interrupted and resumed ends like one that was not,
to the last bit on the same machine and build. `run_folder` lists the files, `run` has the epoch,
`execution` the step, and `resume_state` what a resume checks and restores.
"""

from __future__ import annotations

import json
import math
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch

from ...algos.core.errors import DivergedError, OutputError, UsageError
from ...common.files import other_advice, remove_leftovers, write_file
from ...common.locks import only_writer
from ...common.ranks import ALONE, Ranks
from ..config.encoder import RANDOM, EncoderConfig
from ..config.run import RunConfig, dump_config, load_config
from ..data.samples import EmbeddingData
from ..data.sources import BUILT_IN
from ..methods.base import Prediction
from ..models.files import MODEL_FILE
from ..networks.network import OWN, own_name
from ..networks.normalization import merge_groups
from ..networks.pretrained import Pretrained, check_own, open_encoder, start_digest
from ..report.figures import write_curves
from ..state.checkpoint import check_begun, latest_checkpoint, prune
from .cpu_threads import threads
from .handshake import check_same_run
from .heads import (
    drop_model_of_another,
    head_of,
    settle_target,
    write_heads,
    written_clusters,
)
from .refit import fitted, keep_epochs
from .results import is_finished, read_metrics, write_metrics, write_results
from .resume_state import check_there, restore, run_and_save_epoch
from .run import Cut, Refit, Run
from .run_folder import SETTINGS, RunWarning, check_free, tell_skipped
from .run_page import ALL, PAGE, RunPage
from .starts import best_beginning, chosen_settings, is_undecided, settings_of
from .trackers import check_trackers, tracked
from .trained import trained_model

__all__ = ["RunResult", "resume", "train", "write_page"]

Progress = Callable[[dict[str, Any]], None]
Steps = Callable[[int, int], None]
Stops = Callable[[], bool]


class RunResult(NamedTuple):
    """What a finished run has.

    Attributes
    ----------
    folder : Path
    metrics : list of dict, one per epoch.
    prediction : Prediction. Labels of the target head and what certifies them.
    lower, upper : int. Smallest and largest size that the bounds allow.
    config : RunConfig
    """

    folder: Path
    metrics: list[dict[str, Any]]
    prediction: Prediction
    lower: int
    upper: int
    config: RunConfig


def train(
    config: RunConfig,
    folder: str | Path,
    *,
    device: str = "cpu",
    network: torch.nn.Module | None = None,
    ranks: Ranks = ALONE,
    progress: Progress | None = None,
    steps: Steps | None = None,
    stop: Stops | None = None,
    refit: Refit | None = None,
    cut: Cut | None = None,
    encoding: Steps | None = None,
) -> RunResult:
    """Train from the start and write the run folder.

    Parameters
    ----------
    config : RunConfig
    folder : path. Must not exist yet, or be empty: a run never overwrites another. What a start
        with the same settings has left, stopped before its first epoch, is taken over.
    device : str. "cpu", "cuda", "cuda:1", ...
    network : nn.Module, optional. The user's own encoder; see `Run`. Several beginnings train
        copies of it.
    ranks : Ranks. From `common.ranks.join_ranks`, under ``torchrun``; the first rank writes.
    progress : callable, optional. Gets the metrics of each epoch as a dict.
    steps : callable, optional. Gets, after each step, how many samples of the epoch have been
        used, and of how many.
    stop : callable, optional. Asked after each step, and with several ranks after each epoch; where
        it says yes, the state is saved and the run ends. See `common.stopping.stoppable`.
    refit, cut : callables, optional. Say after each epoch how many the run has, and after each step
        whether it ends there; see `Run`. Beginnings keep their epochs.
    encoding : callable, optional. As of `encoder.build_with_encoder`.

    Returns
    -------
    RunResult

    Raises
    ------
    OutputError
        If the folder has content, cannot be written, or is that of a living run.
    UsageError, InfeasibleBoundsError, MissingFileError
        If the settings do not fit the data. Nothing is written then.
    MissingExtraError
        If a tracker of the setting ``log`` is not installed. Nothing is written then.
    StoppedError
        If `stop` says yes. The run is saved and goes on with `resume`.

    Warns
    -----
    RunWarning
        If a folder is taken over, files cannot be read and are left out, or a tracker fails.
    """
    folder = Path(folder)
    if network is None:
        network = open_encoder(config.network, config.encoder, seed=config.seed)
    config = _named(config, network)
    kept = _kept(config)
    check_free(folder, kept)
    check_trackers(config.log)
    ranks.wait()  # before the first rank makes the folder that the others have just looked at
    with threads(config.threads):
        fresh = _maker(config, device, network, ranks, (steps, stop, encoding))
        run = fresh(config if config.starts is None else settings_of(config, 0))
        with _only_run(folder, ranks):
            if ranks.first:
                if check_free(folder, kept):  # another run may have begun since
                    remove_leftovers(folder)
                    msg = (
                        f"{folder} is of a start with the same settings, which ended before its "
                        f"first epoch: taken over"
                    )
                    warnings.warn(msg, RunWarning, stacklevel=2)
                write_file(folder / SETTINGS, kept)
                tell_skipped(folder, getattr(run.loader.shown, "skipped", ()), run.loader.n)
            if config.starts is not None:
                run = best_beginning(config, folder, fresh, progress)
            run.refit, run.cut = refit, cut
            return _finish(run, folder, progress)


def resume(
    folder: str | Path,
    *,
    device: str = "cpu",
    network: torch.nn.Module | None = None,
    ranks: Ranks = ALONE,
    n_clusters: int | None = None,
    progress: Progress | None = None,
    steps: Steps | None = None,
    stop: Stops | None = None,
    encoding: Steps | None = None,
) -> RunResult:
    """Continue a run from its last epoch; a finished run only writes its results again.

    Parameters are those of `train`, and `n_clusters`: the head whose results are written, by
    default that of the settings, or the one that was chosen.

    Raises
    ------
    MissingFileError
        If the folder, its settings or its checkpoints are not there; never a fresh start.
    UsageError
        If `network` is not of the class that the run was started with, or is wanted and missing; or
        no head has `n_clusters`.
    CheckpointError
        If no checkpoint is intact, or it does not fit the settings; or a frozen encoder has other
        weights than it had.
    OutputError
        If the folder is that of a living run.
    StoppedError
        If `stop` says yes, as of `train`.
    """
    folder = Path(folder)
    check_begun(folder)
    config = load_config(folder / SETTINGS)
    check_own(config.network, network)
    check_trackers(config.log)
    if n_clusters is not None:
        head_of(config, n_clusters)
    with _only_run(folder, ranks), threads(config.threads):
        checkpoint = None if is_undecided(folder) else latest_checkpoint(folder)
        if ranks.first:
            remove_leftovers(folder)
            if checkpoint is not None:
                prune(checkpoint.folder)  # an earlier part may have failed to
        if checkpoint is None:
            fresh = _maker(config, device, network, ranks, (steps, stop, encoding))
            run = best_beginning(config, folder, fresh, progress)
        else:
            config = fitted(config, checkpoint)
            given = chosen_settings(config, folder), device, network, ranks
            run = Run(*given, fresh=False, encoding=encoding)
            run.on_step, run.stop = steps, stop
            restore(run, checkpoint, folder / SETTINGS)
            check_same_run(run)
        return _finish(run, folder, progress, n_clusters)


def write_page(
    folder: str | Path, *, device: str = "cpu", network: torch.nn.Module | None = None
) -> Path:
    """Write ``report.html`` of a run again, from its last checkpoint; nothing else is touched.

    The run may go on meanwhile: it then writes the page anew after its next epoch.

    Parameters
    ----------
    folder : path. A run folder.
    device : str. Where the pass over all samples runs.
    network : nn.Module, optional. As of `resume`.

    Returns
    -------
    Path
        Of the page.

    Raises
    ------
    MissingFileError, CheckpointError, UsageError
        As of `resume`; also before the beginning of a run that has several is chosen.
    """
    folder = Path(folder)
    check_begun(folder)
    if is_undecided(folder):
        msg = (
            f"{folder} has not chosen its beginning yet, so that it has no page. To fix this, "
            f"write it after the first epoch that follows, or go on: dualclust resume {folder}"
        )
        raise UsageError(msg)
    checkpoint = latest_checkpoint(folder)
    config = fitted(load_config(folder / SETTINGS), checkpoint)
    done = is_finished(folder, config)
    with threads(config.threads):
        check_own(config.network, network)
        run = Run(chosen_settings(config, folder), device, network, fresh=False)
        restore(run, checkpoint, folder / SETTINGS)
        merge_groups(run.method.network)  # of an epoch that was stopped inside
        if run.epoch == config.epochs:
            k = written_clusters(folder, config) if done else None
            settle_target(run.method, run.metrics, k)
        page = RunPage(run, folder)
        page.see(run.predict(), most=ALL)
    ends = [r for r in read_metrics(folder)[run.epoch :] if "not finite" in r.get("alarms", {})]
    if done or not is_finished(folder, config):  # else the run has just written its last page
        stopped = f"{ends[0]['alarms']['not finite']}." if ends else ""
        page.write(done=done, stopped=stopped, more=ends)
    return folder / PAGE


def _only_run(folder: Path, ranks: Ranks) -> AbstractContextManager[None]:
    """Keep other runs out of a folder; its first rank is the one that writes."""
    return only_writer(folder) if ranks.first else nullcontext()


def _named(config: RunConfig, network: torch.nn.Module | None) -> RunConfig:
    """Settings that say whose network a run has, and what it starts from in any folder."""
    own, encoder = config.network.name, config.encoder
    if network is not None and not isinstance(network, Pretrained):
        if own.startswith(OWN):
            check_own(config.network, network)
        own = f"{OWN}{own_name(network)}"
    digest = start_digest(config, network)
    if digest:
        encoder = encoder or EncoderConfig()
        weights = encoder.weights
        if weights not in ("", RANDOM):
            weights = os.path.abspath(weights)
        encoder = replace(encoder, weights=weights, digest=encoder.digest or digest)
    table = getattr(config, config.method)
    if getattr(table, "init_from", ""):
        table = replace(table, init_from=os.path.abspath(table.init_from))
    named = replace(config.network, name=own)
    return replace(config, network=named, encoder=encoder, **{config.method: table})


def _kept(config: RunConfig) -> str:
    """Settings as the run folder keeps them: its data is found from any current folder."""
    source = config.data.source
    if source not in BUILT_IN:
        source = os.path.abspath(source)
    return dump_config(replace(config, data=replace(config.data, source=source)))


def _maker(
    config: RunConfig,
    device: str,
    network: torch.nn.Module | None,
    ranks: Ranks,
    asked: tuple[Steps | None, Stops | None, Steps | None],
) -> Callable[[RunConfig], Run]:
    """Return a function that makes an initialized run; each beginning gets its own network."""
    steps, stop, encoding = asked

    def fresh(settings: RunConfig) -> Run:
        own = network if config.starts is None else deepcopy(network)
        run = Run(settings, device, own, ranks, encoding=encoding)
        run.on_step, run.stop = steps, stop
        check_same_run(run)
        run.init()
        return run

    return fresh


def _finish(
    run: Run, folder: Path, progress: Progress | None, n_clusters: int | None = None
) -> RunResult:
    """Run the epochs that are left, saving each, then write the results."""
    page = RunPage(run, folder)
    run.on_prediction = page.see if run.ranks.first else None
    if run.epoch < run.config.epochs:
        config = run.config if run.ranks.first else replace(run.config, log=())
        with tracked(config, folder, list(run.metrics)) as track:
            while run.epoch < run.config.epochs:
                with _told(page):
                    record = run_and_save_epoch(run, folder)
                keep_epochs(run, folder)
                track(record)
                if run.ranks.first:
                    page.write()
                if progress is not None:
                    progress(record)
    settle_target(run.method, run.metrics, n_clusters)
    prediction, method = run.predict(), run.method
    bounds = method.bounds[method.target]
    low, high = int(bounds.lower.min()), int(bounds.upper.max())
    if run.ranks.first:
        try:
            _write(run, folder, prediction, page)
        except OutputError as error:
            advice = (
                "The run itself is saved. To fix this, make room and resume it: it then only "
                "writes its results"
            )
            raise other_advice(error, advice) from error
        check_there(folder, SETTINGS)
    run.ranks.wait()
    return RunResult(folder, run.metrics, prediction, low, high, run.config)


@contextmanager
def _told(page: RunPage) -> Iterator[None]:
    """Leave the alarm of a run that diverges in its folder; no checkpoint has it."""
    try:
        yield
    except DivergedError as error:
        run = page.run
        if run.ranks.first:
            seen = str(error).partition(". To fix")[0]
            what = seen[:1].upper() + seen[1:]
            last = {"epoch": run.epoch + 1, "loss": None, "alarms": {"not finite": what}}
            write_metrics(page.folder, run.metrics_text + json.dumps(last) + "\n")
            page.write(stopped=f"{what}.", more=[last])
        raise


def _write(run: Run, folder: Path, prediction: Prediction, page: RunPage) -> None:
    """Write the results of a finished run."""
    method, data = run.method, run.loader.shown
    bounds, followed = method.bounds[method.target], method.bounds[method.followed]
    low, high = int(followed.lower.min()), int(followed.upper.max())
    limits = float(low), math.inf if high >= run.loader.n else float(high)
    drop_model_of_another(folder, method)
    write_metrics(folder, run.metrics_text)
    write_results(folder, prediction, bounds, data, method.network)
    write_curves(folder / "curves.png", run.metrics, bounds=limits)
    model = trained_model(method, run.loader, prediction)
    write_heads(folder, method, run.metrics)
    if not isinstance(data, EmbeddingData):
        method.write_pictures(folder, data, prediction)
    page.see(prediction, most=ALL)
    page.write(done=True)
    write_file(folder / MODEL_FILE, model)  # last: where it stands, all results do
