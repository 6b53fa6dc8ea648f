"""Figures of a run for programs that draw them: TensorBoard, Weights & Biases, MLflow.

``metrics.jsonl`` is what a run has reached; a tracker gets a copy of each line as it is written,
from the first rank. No tracker can stop a run: one that fails gets no further figures, and a
warning says so. Each is an extra of its own (``pip install 'dualclust[wandb]'``).

==================  ===============================================================================
``"tensorboard"``   event files in ``RUN/tensorboard``: ``tensorboard --logdir runs``
``"wandb"``         a run of the project ``dualclust``, as the environment variables of W&B say
``"mlflow"``        a run of the experiment ``dualclust``, at the URI that MLflow is set to
==================  ===============================================================================

A resumed run continues the run that it began there, whose id ``trackers.json`` in the run folder
keeps. TensorBoard then gets all epochs again; the other two may lack the epoch after which the
process was killed.
"""

from __future__ import annotations

import json
import secrets
import tomllib
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from ...algos.core.errors import MissingExtraError
from ...common.files import write_file
from ...common.untrusted import parse_json
from ..config.run import RunConfig, dump_config
from ..config.schema import flat
from .run_folder import RunWarning

__all__ = ["IDS", "TRACKERS", "Tracker", "check_trackers", "tracked"]

PROJECT = "dualclust"
IDS = "trackers.json"


class Tracker(ABC):
    """A program that is sent the figures of a run.

    Parameters
    ----------
    config : RunConfig
    folder : Path. The run folder.
    known : str. The id that an earlier part of the run had, or empty.

    Attributes
    ----------
    id : str. What finds the run again; empty where nothing is needed.
    replay : bool. Whether a resumed run sends it the earlier epochs again.
    """

    id: str = ""
    replay: bool = True

    @abstractmethod
    def __init__(self, config: RunConfig, folder: Path, known: str) -> None: ...

    @abstractmethod
    def log(self, epoch: int, figures: Mapping[str, float]) -> None:
        """Take the figures of an epoch."""

    @abstractmethod
    def end(self, done: bool) -> None:
        """Close; `done` says whether the run has come to its end."""


class _TensorBoard(Tracker):
    def __init__(self, config: RunConfig, folder: Path, known: str) -> None:
        module: Any = import_module("torch.utils.tensorboard")
        # What an earlier part of the run wrote from this step on is not shown any more.
        self.writer = module.SummaryWriter(str(folder / "tensorboard"), purge_step=1)
        self.writer.add_text("settings", f"```toml\n{dump_config(config)}```", global_step=1)

    def log(self, epoch: int, figures: Mapping[str, float]) -> None:
        for name, value in figures.items():
            self.writer.add_scalar(name, value, global_step=epoch)
        self.writer.flush()

    def end(self, done: bool) -> None:
        self.writer.close()


class _WeightsAndBiases(Tracker):
    def __init__(self, config: RunConfig, folder: Path, known: str) -> None:
        module: Any = import_module("wandb")
        self.id, self.replay = known or secrets.token_hex(8), not known
        self.run = module.init(
            project=PROJECT,
            name=folder.absolute().name,
            id=self.id,
            resume="allow",
            dir=str(folder),
            config=tomllib.loads(dump_config(config)),
        )

    def log(self, epoch: int, figures: Mapping[str, float]) -> None:
        self.run.log(dict(figures), step=epoch)

    def end(self, done: bool) -> None:
        self.run.finish(exit_code=0 if done else 1)


class _MLflow(Tracker):
    def __init__(self, config: RunConfig, folder: Path, known: str) -> None:
        # The client, and not the functions of the module, which act on a run that may be another's.
        module: Any = import_module("mlflow")
        self.client, self.id, self.replay = module.MlflowClient(), known, not known
        if known:
            return
        found = self.client.get_experiment_by_name(PROJECT)
        place = self.client.create_experiment(PROJECT) if found is None else found.experiment_id
        run = self.client.create_run(place, run_name=folder.absolute().name)
        self.id = str(run.info.run_id)
        for name, value in flat(tomllib.loads(dump_config(config))):
            self.client.log_param(self.id, name, value)

    def log(self, epoch: int, figures: Mapping[str, float]) -> None:
        for name, value in figures.items():
            self.client.log_metric(self.id, name, value, step=epoch)

    def end(self, done: bool) -> None:
        self.client.set_terminated(self.id, status="FINISHED" if done else "KILLED")


TRACKERS: dict[str, tuple[type[Tracker], str]] = {
    "tensorboard": (_TensorBoard, "torch.utils.tensorboard"),
    "wandb": (_WeightsAndBiases, "wandb"),
    "mlflow": (_MLflow, "mlflow"),
}
"""The trackers, and the module that each needs, by the names that the setting ``log`` takes."""


def check_trackers(names: Sequence[str]) -> None:
    """Refuse trackers that are not installed.

    Raises
    ------
    MissingExtraError
        With the package and how to install it.
    """
    for name in names:
        try:
            import_module(TRACKERS[name][1])
        except ImportError as error:
            msg = (
                f"log={name!r} needs the package {name}, which cannot be imported ({error}). "
                f"To fix this: pip install 'dualclust[{name}]', or leave it out of log"
            )
            raise MissingExtraError(msg) from error


@contextmanager
def tracked(
    config: RunConfig, folder: Path, over: Sequence[Mapping[str, Any]]
) -> Iterator[Callable[[Mapping[str, Any]], None]]:
    """Give the figures of a run to the trackers of its settings, until the block ends.

    Parameters
    ----------
    config : RunConfig
    folder : Path. The run folder.
    over : the records of the epochs that are over.

    Yields
    ------
    function of the record of an epoch, which the trackers get; each at once.

    Warns
    -----
    RunWarning
        If a tracker fails; it gets nothing more.
    """
    living: dict[str, Tracker] = {}
    ids = _ids(folder) if config.log else {}

    def guarded(name: str, call: Callable[[], None]) -> None:
        try:
            call()
        except Exception as error:  # of a program that is not ours, often of a network
            living.pop(name, None)
            msg = (
                f"{name} gets no more figures: {type(error).__name__}: {error}. The run goes on, "
                f"and metrics.jsonl has them all"
            )
            warnings.warn(msg, RunWarning, stacklevel=2)

    def begin(name: str) -> None:
        living[name] = TRACKERS[name][0](config, folder, ids.get(name, ""))
        if living[name].id and living[name].id != ids.get(name):
            ids[name] = living[name].id
            write_file(folder / IDS, json.dumps(ids, indent=1) + "\n")
        for record in over if living[name].replay else ():
            living[name].log(int(record["epoch"]), _figures(record))

    def log(record: Mapping[str, Any]) -> None:
        for name, tracker in list(living.items()):
            guarded(name, partial(tracker.log, int(record["epoch"]), _figures(record)))

    for name in config.log:
        guarded(name, partial(begin, name))
    done = False
    try:
        yield log
        done = True
    finally:
        for name, tracker in list(living.items()):
            guarded(name, partial(tracker.end, done))


def _figures(record: Mapping[str, Any]) -> dict[str, float]:
    told = ("epoch", "alarms", "heads")
    figures = {name: float(value) for name, value in record.items() if name not in told}
    for head in record.get("heads", {}).get("judged", ()):
        k = head["n_clusters"]
        figures |= {f"k{k}_{name}": float(v) for name, v in head.items() if name != "n_clusters"}
    return figures


def _ids(folder: Path) -> dict[str, str]:
    """Ids that an earlier part of the run had, by the names of the trackers."""
    path = folder / IDS
    if not path.is_file():
        return {}
    try:
        found = dict(parse_json(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError, RecursionError) as error:
        msg = f"{path} cannot be read ({error}): trackers begin new runs"
        warnings.warn(msg, RunWarning, stacklevel=2)
        return {}
    return {str(name): str(value) for name, value in found.items()}
