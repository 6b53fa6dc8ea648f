"""``dualclust train``, ``resume`` and ``demo``, which need the extra ``train`` (torch and more)."""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from ..algos.core.checks import check_interval
from ..algos.core.errors import DualclustError, InvalidValueError, UsageError
from ..common.devices import kind_of
from ..common.memory import memory_errors
from ..common.ranks import Ranks, join_ranks
from ..common.stopping import StoppedError, stoppable
from ..common.watch import watched
from ..train.config.run import dump_config, load_config, override
from ..train.data.samples import load_source
from ..train.loop.metrics import Agreement, evaluate, kmeans_on_pixels
from ..train.loop.run_folder import RunWarning
from ..train.loop.starts import beginning_words
from ..train.loop.train_and_resume import RunResult, resume, train
from ..train.own_data import Pace
from ..train.report.heads import evaluated_clusters, heads_text
from ..train.state.checkpoint import CheckpointWarning, is_begun
from .demo_folders import run_folder
from .run_progress import RunProgress
from .train_settings import read_recipe, settings_of

__all__ = ["check_device", "paced", "plain_warnings", "read_recipe", "run", "under_way"]

LESS_MEMORY = "lower batch_size, data.limit or the sizes of the network"
DEMO_SEEDS = (0, 1, 2)
SMALL = ["epochs=12", "optim.warmup_epochs=3", "evaluation.every=12"]


def run(options: argparse.Namespace) -> int:
    """Run one of the three commands and return the exit code."""
    with plain_warnings():
        return {"train": _train, "resume": _resume, "demo": _demo}[options.command](options)


@contextmanager
def under_way(
    folder: Path, ranks: Ranks, shown: RunProgress, again: str = ""
) -> Iterator[dict[str, Any]]:
    """Yield what `train` and `resume` need, and say how to go on where a run is stopped."""
    again = again or f"dualclust resume {folder}"

    def how() -> str:
        return f"go on: {again}" if is_begun(folder) else "give the same command again"

    try:
        with (
            memory_errors(LESS_MEMORY),
            stoppable() as stop,
            shown,
            watched(ranks, told=False, how=how),
        ):
            yield {
                "device": ranks.device,
                "ranks": ranks,
                "progress": shown.epoch,
                "steps": shown.step,
                "stop": stop,
                "encoding": shown.encoding,
            }
    except KeyboardInterrupt as end:
        told = f"to go on after its last epoch: {again}"
        if not is_begun(folder):
            told = "no epoch was finished, and the same command begins again"
        raise KeyboardInterrupt(told) from end
    except StoppedError as end:
        msg = f"{end}; all of it is saved. To go on: {again}"
        raise StoppedError(msg) from end


def paced(pace: Pace | None, shown: RunProgress) -> dict[str, Any]:
    """Return what `train` needs for a run that ends at a time; nothing for another."""
    if pace is None:
        return {}

    def refit(record: dict[str, Any], epochs: int) -> int:
        fits = pace(record, epochs)
        shown.set_epochs(fits)
        return fits

    return {"refit": refit, "cut": pace.is_over}


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Print what a run warns of as one line, without the place in the code."""
    shown = warnings.showwarning

    def show(message: Any, category: type[Warning], *place: Any, **options: Any) -> None:
        if issubclass(category, (RunWarning, CheckpointWarning)):
            print(f"dualclust: {message}", file=sys.stderr)
        else:
            shown(message, category, *place, **options)

    with warnings.catch_warnings():
        # How many pixels are too many is a setting, data.max_pixels.
        warnings.filterwarnings("ignore", "Image size .* exceeds limit")
        for category in (RunWarning, CheckpointWarning):
            warnings.simplefilter("always", category)
        warnings.showwarning = show
        yield


def _train(options: argparse.Namespace) -> int:
    check_device(options.device)
    config, told, pace, network = settings_of(options)
    stem = Path(os.path.abspath(config.data.source)).stem
    folder = options.out or Path("runs") / f"{config.method}-{stem}-seed{config.seed}"
    check_interval("--timeout", options.timeout, 0.0, 1e9, open_low=True)
    ranks = join_ranks(options.device, timeout=options.timeout)
    if told and ranks.first:
        print(told, file=sys.stderr, flush=True)
    shown = RunProgress(f"{config.method} on {stem}", config, shown=ranks.first)
    with under_way(folder, ranks, shown) as given:
        result = train(config, folder, network=network, **paced(pace, shown), **given)
    return _end(result, ranks)


def _resume(options: argparse.Namespace) -> int:
    check_device(options.device)
    check_interval("--timeout", options.timeout, 0.0, 1e9, open_low=True)
    ranks = join_ranks(options.device, timeout=options.timeout)
    title = f"resuming {options.run}"
    try:
        config = load_config(options.run / "config.toml")
    except DualclustError:
        config = None  # `resume` says what is wrong
    shown = RunProgress(title, config, resumed=True, shown=ranks.first)
    with under_way(options.run, ranks, shown) as given:
        result = resume(options.run, n_clusters=options.clusters, **given)
    return _end(result, ranks)


def _end(result: RunResult, ranks: Ranks) -> int:
    if ranks.first:
        _print_result(result)
    ranks.leave()
    return 0


class _Row(NamedTuple):
    seed: int
    kmeans: Agreement
    secu: Agreement
    smallest: int
    largest: int
    seconds: float


def _demo(options: argparse.Namespace) -> int:
    data = load_source("digits")
    seeds = DEMO_SEEDS[:1] if options.small else DEMO_SEEDS
    base = override(read_recipe("secu_digits"), SMALL if options.small else [])
    rows, inside, bounds = [], True, ""
    for seed in seeds:
        config = override(base, [f"seed={seed}"])
        started = time.perf_counter()
        folder = run_folder(options.out, f"seed{seed}", dump_config(config))
        with RunProgress(f"seed {seed}", config) as shown:
            result = train(config, folder, progress=shown.epoch, steps=shown.step)
        seconds = time.perf_counter() - started
        kmeans = kmeans_on_pixels(data, config.heads.target, seed=seed)
        secu = evaluate(result.prediction.assignment.labels, data)
        if kmeans is None or secu is None:
            msg = "the digits must come with their classes"
            raise InvalidValueError(msg)
        sizes = result.prediction.assignment.counts
        inside = inside and result.prediction.assignment.violation == 0
        bounds = f"{result.lower} to {result.upper}"
        rows.append(_Row(seed, kmeans, secu, int(sizes.min()), int(sizes.max()), seconds))
    print(_table(rows, bounds, inside), f"look at {options.out}/seed0/gallery.png", sep="\n")
    return 0 if inside else InvalidValueError.exit_code


def _table(rows: list[_Row], bounds: str, inside: bool) -> str:
    head = "seed        k-means on pixels         SeCu                      sizes      seconds"
    lines = [
        "1797 handwritten digits, 10 clusters; no label is used in training",
        "",
        head,
        "            ACC    NMI    ARI         ACC    NMI    ARI",
    ]

    def figures(values: Any) -> str:
        return "  ".join(f"{v:.3f}" for v in values[:3])

    for r in rows:
        sizes = f"{r.smallest}-{r.largest}"
        lines.append(
            f"{r.seed:<10}  {figures(r.kmeans)}       {figures(r.secu)}       "
            f"{sizes:9}  {r.seconds:6.1f}"
        )
    for name, of in (("mean", np.mean), ("std", np.std)):
        if len(rows) > 1:
            both = [figures(of([getattr(r, m) for r in rows], axis=0)) for m in ("kmeans", "secu")]
            lines.append(f"{name:<10}  {both[0]}       {both[1]}")
    verdict = "every cluster size is inside" if inside else "SOME CLUSTER SIZE IS OUTSIDE"
    return "\n".join([*lines, "", f"{verdict} its bounds, {bounds}"])


def _print_result(result: RunResult) -> None:
    found = result.prediction.assignment
    sizes = found.counts
    last, gap, violation = result.metrics[-1], found.gap, found.violation
    config = result.config
    of = evaluated_clusters(last, target=config.heads.target, epochs=config.epochs)
    agreement = _agreement(last)
    if agreement and of != len(sizes):
        words = f"not evaluated for {len(sizes)} clusters; metrics.jsonl has that of {of}"
        agreement = [f"{'agreement':<13} {words}"]
    lines = [*agreement, f"clusters      {len(sizes)} of {int(sizes.sum())} samples"]
    nearest = torch.bincount(result.prediction.nearest, minlength=len(sizes))
    free = f"{int(nearest.min())} to {int(nearest.max())}"
    print(
        *lines,
        f"sizes         {int(sizes.min())} to {int(sizes.max())}, bounds {result.lower} to "
        f"{result.upper}, violation {violation}; by argmax {free}",
        f"certificate   labels within {gap:.2e} of the best ones inside the bounds",
        sep="\n",
    )
    if (begun := beginning_words(result.folder)) is not None:
        print(f"{'begun':<13} {begun}")
    gallery = (result.folder / "gallery.png").is_file()
    look = "look at gallery.png; " if gallery else ""
    if "heads" in last:
        print(heads_text(last["heads"], len(sizes)))
    print(f"written to    {result.folder}/  ({look}label more with: dualclust predict)")


def _agreement(figures: dict[str, Any]) -> list[str]:
    """Lines of agreement with the classes, that of the papers' protocol first."""
    of = "training samples" if "test_acc" in figures else "all samples"
    kinds = {
        "test_": "held-out samples, argmax: the papers' protocol",
        "argmax_": f"{of}, argmax" + ("" if "test_acc" in figures else ": the papers' protocol"),
        "": f"{of}, labels inside the bounds",
    }
    names = "acc", "nmi", "ari"
    if [figures.get(f"argmax_{n}") for n in names] == [figures.get(n) for n in names]:
        del kinds[""]  # no bound binds: the labels are the same
    lines: list[str] = []
    for prefix, what in kinds.items():
        if f"{prefix}acc" in figures:
            shown = "  ".join(f"{n.upper()} {figures[prefix + n]:.3f}" for n in names)
            lines.append(f"{'' if lines else 'agreement':<13} {shown}  ({what})")
    return lines


def check_device(device: str) -> None:
    """Refuse a device that is not there, or that nothing is tested on."""
    try:
        kind = torch.device(device).type
    except RuntimeError as error:
        msg = (
            f"--device must name a torch device such as cpu or cuda, got {device!r}"
            ". To fix this, name a device that is there"
        )
        raise UsageError(msg) from error
    if kind not in ("cpu", "cuda"):
        msg = f"--device must be cpu or cuda, got {device!r}: nothing else is tested"
        raise UsageError(msg)
    if not kind_of(kind).available():
        msg = f"--device {device}: this PyTorch sees no CUDA device. To fix this, use --device cpu"
        raise UsageError(msg)
