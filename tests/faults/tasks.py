"""What runs while faults happen: a training run and a clustering, each a tenth of a second.

A task knows the command that begins it, the one that goes on, and what it must have left in the
end, to the byte: what an undisturbed run leaves.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from dualclust.common.files import write_file
from dualclust.train.config.run import dump_config, override
from dualclust.train.loop import results, train_and_resume
from dualclust.train.state.checkpoint import is_begun
from tests.train.runs import contents, listing, tiny_recipe

__all__ = ["TASKS", "Clustering", "Task", "Training", "without_pictures"]

CHANGES = (
    "epochs=3",
    "batch_size=16",
    "heads.clusters=[4]",
    "heads.target=4",
    "network.name=none",
    "network.width=2",
    "network.out_dim=4",
    "network.layers=1",
    "evaluation.every=3",
    "evaluation.views=0",
    "assignment.rounding=outward",
    "data.standardize=true",
    "augment.scale=[1.0, 1.0]",
    *(f"augment.{name}=0.0" for name in ("rotate", "shear", "translate", "elastic", "contrast")),
)


@contextmanager
def without_pictures() -> Iterator[None]:
    """Write a few bytes for each picture of a run, which takes longer than all the rest."""

    def write(path: Path, *args: Any, **kwargs: Any) -> None:
        write_file(path, b"a picture")

    with (
        mock.patch.object(results, "write_sizes", write),
        mock.patch.object(results, "write_gallery", write),
        mock.patch.object(train_and_resume, "write_curves", write),
    ):
        yield


class Task(ABC):
    """Something that runs in a folder of its own.

    Parameters
    ----------
    home : Path
        Where its input lies, which every run reads.
    """

    name = ""

    @abstractmethod
    def __init__(self, home: Path) -> None: ...

    @abstractmethod
    def command(self, folder: Path) -> list[str]:
        """Arguments that begin the task in a folder, or go on with what is there."""

    @abstractmethod
    def left(self, folder: Path) -> dict[str, Any]:
        """What a finished task has left, to be compared."""


class Training(Task):
    """SeCu on rows, three epochs of two steps, and the results of a run."""

    name = "train"

    def __init__(self, home: Path) -> None:
        rng = np.random.default_rng(0)
        rows = rng.normal(size=(4, 6))[np.arange(32) % 4] + 0.1 * rng.normal(size=(32, 6))
        np.save(home / "rows.npy", rows.astype(np.float32))
        config = override(tiny_recipe("secu_digits", home / "rows.npy"), list(CHANGES))
        self.recipe = home / "recipe.toml"
        self.recipe.write_text(dump_config(config))

    def command(self, folder: Path) -> list[str]:
        """See `Task`."""
        run = folder / "run"
        if is_begun(run):
            return ["resume", str(run)]
        data = str(self.recipe.parent / "rows.npy")
        given = ["--data", data, "--recipe", str(self.recipe), "--out", str(run)]
        return ["train", "secu", *given]

    def left(self, folder: Path) -> dict[str, Any]:
        """See `Task`; metrics without the time that they took."""
        return {**contents(folder / "run"), "all": sorted(p.name for p in folder.iterdir())}


class Clustering(Task):
    """Three center updates of 200 rows with a checkpoint, and the output folder."""

    name = "cluster"

    def __init__(self, home: Path) -> None:
        rng = np.random.default_rng(1)
        self.rows = home / "X.npy"
        np.save(self.rows, rng.normal(size=(200, 5)))

    def command(self, folder: Path) -> list[str]:
        """See `Task`."""
        state, out = folder / "state", folder / "out"
        options = ["-k", "4", "--tol", "0", "--max-iter", "3", "--seed", "0"]
        places = ["--checkpoint", str(state), "--out", str(out)]
        more = ["--resume"] if state.is_file() else []
        # It was killed between its result and its end: the same result replaces it.
        more += ["--overwrite"] if out.exists() else []
        return ["cluster", str(self.rows), *options, *places, *more]

    def left(self, folder: Path) -> dict[str, Any]:
        """See `Task`."""
        return {
            "state": (folder / "state").read_bytes(),
            "all": sorted(p.name for p in folder.iterdir()),
            **listing(folder / "out"),
        }


TASKS: dict[str, type[Task]] = {task.name: task for task in (Training, Clustering)}
