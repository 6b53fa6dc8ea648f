"""Stage 3: a run of a paper, from its recipe: SeCu on CIFAR-10, then ProPos for what is left.

A run is the library's own: the settings of the recipe, its epochs, its evaluation. It is saved
every minute and when the budget ends, in the scratch folder, and goes on from there in the next
call to the same numbers. What is left behind is its curve, its figures and its settings.
"""

from __future__ import annotations

import hashlib
import json
import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from dualclust.cli.train import read_recipe
from dualclust.common.files import write_file
from dualclust.train.config.run import RunConfig, dump_config, override
from dualclust.train.loop import Run
from dualclust.train.loop.resume_state import restore, run_and_save_epoch
from dualclust.train.report.figures import write_curves
from dualclust.train.state.checkpoint import latest_checkpoint

from .needs import CannotRun
from .records import Row
from .runs import pictures
from .stages import Context, PartOf, Stage
from .timing import OutOfTime

__all__ = ["STAGE"]

SAVE = 60.0  # seconds between two checkpoints
MARGIN = 1.5  # an epoch must fit into what is left this many times
FIGURES = ("acc", "nmi", "ari")
FAST = {
    "execution.precision=bfloat16",
    "execution.channels_last=true",
    "execution.step=graph",
}
CUT = {
    "secu_cifar10": [
        "epochs=3",
        "batch_size=16",
        "network.name=digits-cnn",
        "network.width=2",
        "network.hidden=8",
        "network.out_dim=4",
        "heads.clusters=[3, 5]",
        "heads.target=3",
        "optim.warmup_epochs=1",
        "evaluation.every=2",
    ],
    "propos_cifar10": [
        "epochs=2",
        "batch_size=16",
        "network.name=digits-cnn",
        "network.width=2",
        "network.hidden=8",
        "network.out_dim=4",
        "network.predictor=8",
        "heads.clusters=[3]",
        "heads.target=3",
        "optim.warmup_epochs=1",
        "evaluation.every=2",
        "propos.n_init=1",
        "propos.sub_batches=2",
    ],
}


def _secu(context: Context) -> Iterator[Row]:
    """The whole run."""
    yield from _run(context, "secu_cifar10", ())


def _propos(context: Context) -> Iterator[Row]:
    """As far as the minutes of the stage reach; a run of 1000 epochs takes longer."""
    yield from _run(context, "propos_cifar10", ("data.test=none",), whole=False)


def settings(context: Context, recipe: str, changes: Sequence[str]) -> RunConfig:
    """A recipe on the data that is there, run as fast as the card allows.

    Raises
    ------
    CannotRun
        If no data is named, or nothing is where it is said to be.
    """
    config = override(read_recipe(recipe), changes)
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
        config = override(config, sorted(FAST))
    if not source.exists():
        msg = f"there is no data at {source} (--data, or the variable DUALCLUST_DATA)"
        raise CannotRun(msg)
    return override(config, [f"data.source={source}", *context.changes])


def _run(
    context: Context, recipe: str, changes: Sequence[str], *, whole: bool = True
) -> Iterator[Row]:
    """Train until the end or the budget; one row with the figures at that point."""
    config = settings(context, recipe, changes)
    folder = context.scratch / "runs" / f"{recipe}-{_key(context, config)}"
    run = _opened(context, config, folder)
    spent = _Spent(folder)

    def of_all() -> float:
        """Seconds of all calls together; no limit where a run must come to its end."""
        return math.inf if whole else context.total - context.before - context.budget.spent()

    def left() -> float:
        return min(of_all(), context.budget.left())

    try:
        ended = _train(context, run, folder, spent, left)
    finally:
        _report(context, recipe, run)
        spent.save()
    context.notes[_part(recipe)] = _note(run, recipe)
    yield _row(run, spent)
    if not ended and of_all() > MARGIN * spent.longest:
        raise OutOfTime  # the next call goes on


def _train(
    context: Context, run: Run, folder: Path, spent: _Spent, left: Callable[[], float]
) -> bool:
    """Train; returns whether the last epoch is over. What was done is saved at the end."""
    machine, last = context.machine, time.monotonic()
    while run.epoch < run.config.epochs:
        if left() <= MARGIN * spent.longest:
            return False
        began = time.monotonic()
        final = run.epoch + 1 == run.config.epochs
        # It may be the last of this call.
        near = left() <= (1 + 2 * MARGIN) * spent.longest
        if final or near or machine.toy or began - last > SAVE:
            run_and_save_epoch(run, folder)
            last = time.monotonic()
        else:
            run.run_epoch()
        machine.synchronize()
        spent.add(time.monotonic() - began)
    return True


class _Spent:
    """Seconds that a run has taken, over calls; beside its checkpoints."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "seconds.json"
        known = json.loads(self.file.read_text()) if self.file.is_file() else {}
        self.seconds, self.calls = known.get("seconds", 0.0), known.get("calls", 0) + 1
        self.longest = 0.0  # of the latest epochs: the first one of a call warms up

    def add(self, seconds: float) -> None:
        self.seconds += seconds
        self.longest = max(0.9 * self.longest, seconds)

    def save(self) -> None:
        write_file(self.file, json.dumps({"seconds": self.seconds, "calls": self.calls}))


def _opened(context: Context, config: RunConfig, folder: Path) -> Run:
    """A run at its last checkpoint, or at its start."""
    run = Run(config, str(context.machine.device))
    if list((folder / "checkpoints").glob("*")):
        restore(run, latest_checkpoint(folder), folder / "config.toml")
        print(f"  goes on after epoch {run.epoch} of {config.epochs}", flush=True)
        return run
    folder.mkdir(parents=True, exist_ok=True)
    write_file(folder / "config.toml", dump_config(config))
    run.init()
    return run


def _key(context: Context, config: RunConfig) -> str:
    """Names a run by what it depends on, so that no other is continued."""
    text = dump_config(config) + str(sorted(context.record.identity.items()))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _row(run: Run, spent: _Spent) -> Row:
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
        "minutes": spent.seconds / 60,
        "s an epoch": statistics.median(seconds) if seconds else None,
        "min-max": f"{min(seconds):.3g}-{max(seconds):.3g}" if seconds else None,
        "calls": spent.calls,
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
        f"Scored: {scored}; figures in percent; minutes of training and scoring alone. Curve: "
        f"`gpu/{recipe}.png`; epochs: `gpu/{recipe}.jsonl`; settings: `gpu/{recipe}.toml`."
    )


def _part(recipe: str) -> str:
    return {"secu_cifar10": "SeCu, CIFAR-10", "propos_cifar10": "ProPos, CIFAR-10"}[recipe]


def _parts() -> tuple[PartOf, ...]:
    runs: dict[str, Callable[[Context], Iterator[Row]]] = {
        "secu_cifar10": _secu,
        "propos_cifar10": _propos,
    }
    return tuple(PartOf(_part(name), run, guarded=False) for name, run in runs.items())


STAGE = Stage("paper", 20.0, _parts(), "A paper's run")
