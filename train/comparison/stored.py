"""What run folders say, read without loading a network: settings, figures of the epochs, labels.

A folder of ``dualclust train`` has settings from its start on, figures from its first epoch on, and
labels from its end on; one of a baseline (`baselines`) has all of it at once. Nothing is locked and
nothing is written, so that a run that goes on may be read at any time.
"""

from __future__ import annotations

import csv
import os
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from ...algos.bounds.sizes import SizeBounds
from ...algos.core.errors import InvalidValueError, MissingFileError, UsageError
from ...common.untrusted import parse_json, refuse
from ..config.run import RunConfig, dump_config, load_config
from ..config.schema import flat
from ..loop.heads import written_clusters
from ..loop.results import LABELS_FILE, is_finished, read_metrics
from ..report.heads import evaluated_clusters

__all__ = ["BASELINE_FILE", "StoredLabels", "StoredRun", "find_runs", "read_run"]

BASELINE_FILE = "baseline.json"
"""What the folder of a baseline has in place of ``config.toml``."""

Ints = NDArray[np.int64]


class StoredLabels(NamedTuple):
    """The labels of a finished run, of n samples.

    Attributes
    ----------
    ids : (n,) int64 array. Positions in the source, each once.
    labels, nearest : (n,) int64 arrays. Clusters inside the bounds, and without bounds.
    classes : (n,) int64 array or None. -1 where there is none.
    names : tuple of str or None. Files.
    """

    ids: Ints
    labels: Ints
    nearest: Ints
    classes: Ints | None = None
    names: tuple[str, ...] | None = None


class StoredRun(NamedTuple):
    """A run as its folder has it.

    Attributes
    ----------
    name : str. Of the folder.
    folder : Path
    method : str
    baseline : bool
    seed, n_clusters, epochs : int
    source, split : str. The data.
    settings : mapping from name to value. Empty of a baseline.
    records : tuple of mappings. The figures of each epoch so far.
    found : StoredLabels or None. Where the run has ended.
    lower, upper : (k,) int64 arrays or None. Sizes that were allowed.
    seconds : float or None. What its epochs took, by the clock.
    """

    name: str
    folder: Path
    method: str
    baseline: bool
    seed: int
    n_clusters: int
    epochs: int
    source: str
    split: str
    settings: Mapping[str, Any]
    records: tuple[Mapping[str, Any], ...]
    found: StoredLabels | None
    lower: Ints | None
    upper: Ints | None
    seconds: float | None

    @property
    def epoch(self) -> int:
        """The last epoch that is over."""
        return int(self.records[-1]["epoch"]) if self.records else 0

    @property
    def alarms(self) -> tuple[str, ...]:
        """Names of the alarms of the last epoch."""
        return tuple(self.records[-1].get("alarms", {})) if self.records else ()

    @property
    def state(self) -> str:
        """Whether it has ended, in words."""
        if "not finite" in self.alarms:
            return f"stopped in epoch {self.epoch}: not finite"
        if self.found is not None:
            return "ended"
        return f"epoch {self.epoch} of {self.epochs}"

    def evaluated(self, record: Mapping[str, Any]) -> int:
        """Return the number of clusters of the head that the figures of a record are of."""
        target = int(self.settings.get("heads.target", self.n_clusters))
        return evaluated_clusters(record, target=target, epochs=self.epochs)


def read_run(folder: str | Path) -> StoredRun:
    """Read a run folder, or that of a baseline.

    Raises
    ------
    MissingFileError
        If the folder holds neither.
    InvalidValueError, UsageError
        If a file of it is damaged, or of another version.
    """
    folder = Path(folder)
    if (folder / BASELINE_FILE).is_file():
        return _read_baseline(folder)
    if not (folder / "config.toml").is_file():
        msg = (
            f"{folder} holds no run: it has no config.toml. To fix this, name folders of "
            f"dualclust train, or the folder that dualclust compare has made"
        )
        raise MissingFileError(msg)
    config = load_config(folder / "config.toml")
    done = is_finished(folder, config)
    k = written_clusters(folder, config) if done else config.heads.target
    found = _read_labels(folder / LABELS_FILE, k) if done else None
    records = tuple(read_metrics(folder))
    low, high = _bounds(config, k, found)
    return StoredRun(
        name=folder.absolute().name,
        folder=folder,
        method=config.method,
        baseline=False,
        seed=config.seed,
        n_clusters=k,
        epochs=config.epochs,
        source=config.data.source,
        split=config.data.split,
        settings=dict(flat(tomllib.loads(dump_config(config)))),
        records=records,
        found=found,
        lower=low,
        upper=high,
        seconds=_seconds(folder, records),
    )


def find_runs(paths: Sequence[str | Path]) -> list[StoredRun]:
    """Read several runs; of a folder that is no run, the runs directly in it.

    Parameters
    ----------
    paths : sequence of paths

    Returns
    -------
    list of StoredRun
        With names that differ, by as many parts of their paths as that takes; in order of `paths`.

    Raises
    ------
    UsageError
        If a run is named twice.
    MissingFileError, InvalidValueError
        As of `read_run`.
    """
    folders = [folder for path in map(Path, paths) for folder in _runs_in(path)]
    places = [os.path.realpath(folder) for folder in folders]
    for i, place in enumerate(places):
        if place in places[:i]:
            msg = f"the run {folders[i]} is named twice. To fix this, name each run once"
            raise UsageError(msg)
    parts = [Path(place).parts for place in places]
    names = []
    for own in parts:
        length = 1
        while length < len(own) and sum(own[-length:] == p[-length:] for p in parts) > 1:
            length += 1
        names.append("/".join(own[-length:]))
    return [
        read_run(folder)._replace(name=name) for folder, name in zip(folders, names, strict=True)
    ]


def _runs_in(path: Path) -> list[Path]:
    if not path.is_dir():
        msg = f"no run at {path}. To fix this, name folders of dualclust train"
        raise MissingFileError(msg)
    if _is_run(path):
        return [path]
    inside = sorted(one for one in path.iterdir() if one.is_dir() and _is_run(one))
    return inside or [path]  # which `read_run` then refuses


def _is_run(path: Path) -> bool:
    return any((path / name).is_file() for name in ("config.toml", BASELINE_FILE))


def _seconds(folder: Path, records: Sequence[Mapping[str, Any]]) -> float | None:
    """Sum what the epochs took, those of beginnings that did not go on included."""
    choice = folder / "starts.json"
    more: list[Mapping[str, Any]] = []
    if choice.is_file():
        chosen = _chosen(choice)
        starts = sorted((folder / "starts").glob("*"))  # they may have been removed
        more = [record for one in starts if one.name != chosen for record in read_metrics(one)]
    times = [float(r["seconds"]) for r in (*records, *more) if "seconds" in r]
    return sum(times) if times else None


def _chosen(path: Path) -> str:
    """Read which beginning goes on."""
    try:
        return str(dict(parse_json(path.read_text(encoding="utf-8")))["chosen"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        _damaged(path, f"it does not name a beginning ({error})")


def _bounds(
    config: RunConfig, k: int, found: StoredLabels | None
) -> tuple[Ints | None, Ints | None]:
    if found is None:
        return None, None
    options = config.assignment
    bounds = SizeBounds.from_ratios(
        k,
        n_samples=len(found.ids),
        lower=options.lower,
        upper=options.upper,
        rounding=options.rounding,
    )
    return np.asarray(bounds.lower), np.asarray(bounds.upper)


def _read_baseline(folder: Path) -> StoredRun:
    path = folder / BASELINE_FILE
    try:
        about = parse_json(path.read_text(encoding="utf-8"))
        k, figures = int(about["clusters"]), dict(about["figures"])
        found = _read_labels(folder / LABELS_FILE, k)
        return StoredRun(
            name=folder.absolute().name,
            folder=folder,
            method=str(about["method"]),
            baseline=True,
            seed=int(about["seed"]),
            n_clusters=k,
            epochs=0,
            source=str(about["source"]),
            split=str(about["split"]),
            settings={},
            records=({"epoch": 0, **figures},),
            found=found,
            lower=np.zeros(k, dtype=np.int64),
            upper=np.full(k, len(found.ids), dtype=np.int64),
            seconds=float(about["seconds"]),
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        if isinstance(error, InvalidValueError):
            raise
        _damaged(path, f"it does not describe a baseline ({error})")


def _read_labels(path: Path, k: int) -> StoredLabels:
    try:
        columns = _columns(path)
        ids, labels = _numbers(columns["id"]), _numbers(columns["cluster"])
        nearest = _numbers(columns["nearest"])
        classes = None
        if "class" in columns:
            classes = _numbers([value or "-1" for value in columns["class"]])
    except (OSError, ValueError, KeyError, OverflowError, csv.Error) as error:
        _damaged(path, f"it has no numbers where they should be ({error})")
    for values in (labels, nearest):
        if values.min() < 0 or values.max() >= k:
            _damaged(path, f"its clusters are not in 0 to {k - 1}")
    if len(np.unique(ids)) < len(ids):
        _damaged(path, "an id is there twice")
    names = tuple(columns["file"]) if "file" in columns else None
    return StoredLabels(ids, labels, nearest, classes, names)


def _columns(path: Path) -> dict[str, tuple[str, ...]]:
    with path.open(newline="", encoding="utf-8") as file:
        lines = list(csv.reader(file))
    head, body = lines[0] if lines else [], lines[1:]
    return dict(zip(head, zip(*body, strict=True), strict=True))


def _numbers(values: Sequence[str]) -> Ints:
    return np.asarray([int(value) for value in values], dtype=np.int64)


def _damaged(path: Path, what: str) -> NoReturn:
    refuse(path, "is damaged", what[:1].upper() + what[1:], "restore it, or leave out this run")
