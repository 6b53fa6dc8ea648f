"""The stages of papers' runs, from their recipes: SeCu, ProPos and CoKe on CIFAR-10.

A run is the library's own: the settings of the recipe, its epochs, its evaluation. It is saved
every minute and when the budget ends, in the scratch folder, and goes on from there in the next
call. Every few minutes, and when a call ends, its state is left in the results as well, in few and
small files: with those another machine goes on, not to the last bit (`portable`). What is left
behind at its end is its curve, its figures and its settings.
"""

from __future__ import annotations

import hashlib
import json
import math
import shutil
import statistics
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from dualclust.cli.train import read_recipe
from dualclust.common.files import write_file
from dualclust.train.config.run import RunConfig, dump_config, override
from dualclust.train.loop import Run
from dualclust.train.loop.resume_state import restore, run_and_save_epoch
from dualclust.train.report.figures import write_curves
from dualclust.train.state.checkpoint import latest_checkpoint

from .needs import CannotRun
from .portable import has_state, read_state, write_state
from .records import Row
from .runs import pictures
from .stages import Context, PartOf, Stage
from .timing import OutOfTime

__all__ = ["STAGES"]

SAVE = 60.0  # seconds between two checkpoints
STATE = 180.0  # and between two states for another machine
MARGIN = 1.5  # an epoch must fit into what is left this many times
FIGURES = ("acc", "nmi", "ari")
LAST = "execution.channels_last=true"
FAST = {  # channels last as an H200 had it (benchmarks/results/cuda.md)
    "secu_cifar10": ["execution.precision=bfloat16", LAST],
    "propos_cifar10": ["execution.precision=bfloat16", "data.test=none"],
    "coke_cifar10": ["execution.precision=bfloat16", LAST],
}
SMALL = [
    "batch_size=16",
    "network.name=digits-cnn",
    "network.width=2",
    "network.hidden=8",
    "network.out_dim=4",
    "heads.target=3",
    "optim.warmup_epochs=1",
    "evaluation.every=2",
]
CUT = {
    "secu_cifar10": [*SMALL, "epochs=3", "heads.clusters=[3, 5]"],
    "propos_cifar10": [
        *SMALL,
        "epochs=2",
        "network.predictor=8",
        "heads.clusters=[3]",
        "propos.n_init=1",
        "propos.sub_batches=2",
    ],
    "coke_cifar10": [*SMALL, "epochs=2", "network.predictor=8", "heads.clusters=[3, 5]"],
}


def settings(context: Context, recipe: str) -> RunConfig:
    """A recipe on the data that is there, run as fast as the card allows.

    Raises
    ------
    CannotRun
        If no data is named, or nothing is where it is said to be.
    """
    config = read_recipe(recipe)
    machine = context.machine
    if machine.toy:
        source = pictures(context.scratch, 40, (32, 32, 3), test=20, classes=3)
        config = override(config, CUT[recipe])
    elif context.data is None:
        msg = (
            "this stage needs CIFAR-10: name its folder, or cifar10_jpeg.npz, by --data or in the "
            "variable DUALCLUST_DATA"
        )
        raise CannotRun(msg)
    else:
        source = Path(context.data).resolve()
        config = override(config, FAST[recipe])
    if not source.exists():
        msg = f"there is no data at {source} (--data, or the variable DUALCLUST_DATA)"
        raise CannotRun(msg)
    return override(config, [f"data.source={source}", *context.changes])


def _run(context: Context, recipe: str) -> Iterator[Row]:
    """Train until the end or the budget; one row with the figures at that point."""
    config = settings(context, recipe)
    folder = context.scratch / "runs" / f"{recipe}-{_key(context, config)}"
    state = context.out / f"state-{recipe}"
    run = _opened(context, config, folder, state)
    try:
        ended = _train(context, run, folder, state)
    finally:
        _report(context, recipe, run)
    context.notes[NAMES[recipe]] = _note(run, recipe)
    yield _row(context, run)
    if not ended:
        raise OutOfTime  # the next call goes on
    shutil.rmtree(state, ignore_errors=True)


def _train(context: Context, run: Run, folder: Path, state: Path) -> bool:
    """Train; returns whether the last epoch is over. What was done is saved at the end."""
    machine, left = context.machine, context.budget.left
    saved = kept = time.monotonic()
    longest = 0.0  # of the latest epochs: the first one of a call warms up
    while run.epoch < run.config.epochs:
        if left() <= MARGIN * longest:
            write_state(run, state)
            return False
        began = time.monotonic()
        final = run.epoch + 1 == run.config.epochs
        # It may be the last of this call.
        near = left() <= (1 + 2 * MARGIN) * longest
        if final or near or machine.toy or began - saved > SAVE:
            run_and_save_epoch(run, folder)
            saved = time.monotonic()
        else:
            run.run_epoch()
        if began - kept > STATE:
            write_state(run, state)
            _report(context, folder.name.rpartition("-")[0], run)
            kept = time.monotonic()
        machine.synchronize()
        longest = max(0.9 * longest, time.monotonic() - began)
    return True


def _opened(context: Context, config: RunConfig, folder: Path, state: Path) -> Run:
    """A run at its last checkpoint, at the state that another machine has left, or at its start."""
    run = Run(config, str(context.machine.device))
    here = bool(list((folder / "checkpoints").glob("*")))
    if not here:
        folder.mkdir(parents=True, exist_ok=True)
        write_file(folder / "config.toml", dump_config(config))
    if here:
        restore(run, latest_checkpoint(folder), folder / "config.toml")
    elif has_state(state):
        read_state(run, state)
    else:
        run.init()
        return run
    where = "" if here else f", from {state.name}"
    print(f"  goes on after epoch {run.epoch} of {config.epochs}{where}", flush=True)
    return run


def _key(context: Context, config: RunConfig) -> str:
    """Names a run by what it depends on, so that no other is continued."""
    text = dump_config(config) + str(sorted(context.record.identity.items()))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _row(context: Context, run: Run) -> Row:
    evaluated = [record for record in run.metrics if "acc" in record]
    row: Row = {"epochs": f"{run.epoch} of {run.config.epochs}", "seed": run.config.seed}
    if evaluated:
        last = evaluated[-1]
        row["scored after"] = last["epoch"]
        for prefix, name in (("test_", "test"), ("", "train")):
            for figure in FIGURES:
                if prefix + figure in last:
                    row[f"{name} {figure.upper()}"] = 100 * last[prefix + figure]
    seconds = [record["seconds"] for record in run.metrics]
    return row | {
        "minutes": sum(seconds) / 60,
        "s an epoch": statistics.median(seconds) if seconds else None,
        "min-max": f"{min(seconds):.3g}-{max(seconds):.3g}" if seconds else None,
        "calls": context.record.calls,
        "steps": run.execution.choice.step,
    }


def _report(context: Context, recipe: str, run: Run) -> None:
    """Write what is small: the curve, the metrics of each epoch, the settings."""
    if not run.metrics:
        return
    context.out.mkdir(parents=True, exist_ok=True)
    write_curves(context.out / f"{recipe}.png", run.metrics)
    lines = "".join(json.dumps(record) + "\n" for record in run.metrics)
    write_file(context.out / f"{recipe}.jsonl", lines)
    write_file(context.out / f"{recipe}.toml", dump_config(run.config))


def _note(run: Run, recipe: str) -> str:
    data = run.config.data
    scored = (
        "test images by the clusters of the training images"
        if data.test == "test"
        else (f"the images of split {data.split!r}, which it trains on")
    )
    return (
        f"Scored: {scored}; figures in percent; minutes of training alone. Curve: "
        f"`gpu/{recipe}.png`; epochs: `gpu/{recipe}.jsonl`; settings: `gpu/{recipe}.toml`."
    )


NAMES = {
    "secu_cifar10": "SeCu, CIFAR-10",
    "propos_cifar10": "ProPos, CIFAR-10",
    "coke_cifar10": "CoKe, CIFAR-10",
}
STAGES = tuple(
    Stage(
        recipe.partition("_")[0],
        math.inf,
        (PartOf(name, partial(_run, recipe=recipe), guarded=False),),
        f"A paper's run: {name}",
    )
    for recipe, name in NAMES.items()
)
