"""Training runs of the stages: small data that is drawn here, and recipes cut to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dualclust.cli.train import read_recipe
from dualclust.train.config.run import RunConfig, override
from dualclust.train.loop import Run
from dualclust.train.loop.execution import Execution
from dualclust.train.loop.optim import learning_rate, set_rates
from dualclust.train.methods.base import Batch

from .machine import Machine

__all__ = ["METHODS", "batches_of", "begun", "digits_like", "pictures", "prepared", "steps_of"]

METHODS = ("secu", "coke", "propos", "gatcluster", "mi_margin")


def pictures(
    folder: Path, n: int, shape: Sequence[int], *, test: int = 0, classes: int = 10
) -> Path:
    """Write noisy copies of a few random pictures, split into train and test where asked."""
    rng = np.random.default_rng(0)
    kinds = rng.integers(0, 256, size=(classes, *shape)).astype(np.float32)
    file = folder / f"pictures-{n}-{'x'.join(map(str, shape))}-{test}.npz"
    if file.is_file():
        return file
    arrays = {}
    for name, count in (("train", n), ("test", test)) if test else (("", n),):
        prefix = f"{name}_" if name else ""
        member = np.arange(count) % classes
        noisy = kinds[member] + 30 * rng.standard_normal((count, *shape), np.float32)
        arrays[f"{prefix}images"] = np.clip(noisy, 0, 255).astype(np.uint8)
        arrays[f"{prefix}labels"] = member
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(file, **arrays)
    return file


def digits_like(machine: Machine, folder: Path, method: str, *changes: str) -> RunConfig:
    """The digits' recipe of a method on drawn images, cut to seconds."""
    n, side, batch = machine.size((765, 16, 128), (45, 8, 8))  # two lengths of batches, each often
    config = read_recipe(f"{method}_digits")
    width, hidden = machine.size((16, 64), (2, 8))
    out = [] if method == "mi_margin" else [f"network.out_dim={hidden}"]
    clusters = machine.size([10, 20], [3, 5]) if method in ("secu", "coke") else [10]
    return override(
        config,
        [
            f"data.source={pictures(folder, n, (side, side))}",
            "epochs=3",
            f"batch_size={batch}",
            f"heads.clusters={clusters}",
            f"heads.target={clusters[0]}",
            f"optim.warmup_epochs={min(1, config.optim.warmup_epochs)}",
            f"optim.frozen_epochs={int(method == 'coke')}",
            "evaluation.every=3",
            "evaluation.views=0",
            f"network.width={width}",
            f"network.hidden={hidden}",
            *out,
            *_own(machine, method),
            *changes,
        ],
    )


def _own(machine: Machine, method: str) -> list[str]:
    """What is left to cut of one method."""
    heads = ["heads.init=random"] if method in ("secu", "coke") else []
    if machine.toy and method == "gatcluster":
        return [
            "gatcluster.sub_batch=7",
            "gatcluster.repeats=1",
            "gatcluster.n_init=1",
            "batch_size=14",
        ]
    if machine.toy and method == "propos":
        return ["propos.n_init=1"]
    if machine.toy and method == "mi_margin":
        return ["mi_margin.newton_steps=3"]
    return heads


def prepared(machine: Machine, config: RunConfig, *, graph: bool = False) -> Run:
    """A run that has begun its first epoch, executed as its settings say, or as a graph.

    The settings of a run keep their own word for the step: what captures here is the machine's.
    """
    compiled = config.execution.step == "compile"
    if compiled:
        torch.compiler.reset()  # what was compiled for other networks counts against a limit
    run = Run(config, str(machine.device))
    if compiled:
        run.method.network.compile_with(machine.compiler)
    if graph:
        step = "compiled-graph" if compiled else "graph"
        options = replace(config.execution, step=step)
        run.execution = Execution(options, run.device, machine.capture())
        run.loader.execution = run.execution
        machine.adapt(run.optimizer)
    run.init()
    return run


def begun(run: Run) -> Run:
    """A run whose first epoch has begun, at the learning rate of its middle."""
    config = run.config
    run.method.begin_epoch(0, run.loader.apply_to_all)
    run.execution.begin_epoch(run.method, run.optimizer)
    middle = min(config.epochs - 0.5, config.optim.frozen_epochs + config.optim.warmup_epochs + 0.5)
    set_rates(run.optimizer, learning_rate(config.optim, config.epochs, middle))
    return run


def batches_of(run: Run, most: int) -> list[Batch]:
    """The first whole batches of an epoch, their views drawn, all of one length."""
    batches = run.loader.batches(run.epoch, run.method.order(run.epoch))[:most]
    batches = [ids for ids in batches if len(ids) == len(batches[0])]
    draws: list[Any] = [None] * len(batches)
    if hasattr(run.method, "draws"):  # what chance decides in a step
        draws = run.method.draws([len(ids) for ids in batches])
    with closing(run.loader.views(batches, run.epoch, run.method.views)) as drawn:
        return [
            Batch(ids, tuple(view.clone() for view in views), *([] if one is None else [one]))
            for (ids, views), one in zip(drawn, draws, strict=True)
        ]


def steps_of(run: Run, batches: Sequence[Batch]) -> list[Callable[[], object]]:
    """One call for each batch that takes its training step."""

    def step(batch: Batch) -> object:
        return run.execution.train_step(run.method, run.optimizer, batch)

    return [partial(step, batch) for batch in batches]
