"""Settings that are chosen without labels, beside their neighbors, on several sets of images.

For each set the settings of ``dualclust train METHOD --data SET -k K`` are chosen as the command
chooses them, and changed one at a time. A line of JSON is printed for each run, with agreement with
the classes (acc, nmi) and three figures that need no class:

``loss``        of the last epoch; losses of other views, heads and temperatures do not compare
``silhouette``  of the labels among the features, by cosine distances
``seeds``       NMI between the labels of two runs, the mean over pairs of seeds

The tables then tell how far the choice is from the best neighbor, by ACC, and what each figure
would have picked. True labels are used for these figures only.

    python -m benchmarks.own_data digits letters shapes --seeds 2 --share 0.1
    python -m benchmarks.own_data mnist cifar10 --mnist mnist.npz --cifar10 cifar10_jpeg.npz
    python -m benchmarks.own_data patches faces --patches pictures --faces lfw_subset.npy
    python -m benchmarks.own_data digits --changes "rate x 3" --runs runs.jsonl  # goes on later
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

import numpy as np
import torch

import dualclust
from benchmarks import image_sets
from benchmarks.image_sets import ImageSet
from dualclust.algos.selection import cosine_silhouette
from dualclust.train.config.run import AugmentConfig, RunConfig, override
from dualclust.train.data.look import look_at
from dualclust.train.loop import Run, train
from dualclust.train.loop.metrics import agreement, kmeans_on_pixels
from dualclust.train.own_data import Machine, choose_settings
from dualclust.train.own_data.epochs import lasting

Record = dict[str, Any]
Change = Callable[[RunConfig], RunConfig]

CHOSEN = "as chosen"


class Choice(NamedTuple):
    """What is chosen for a set of images."""

    name: str
    config: RunConfig


def _scaled(table: str, names: Iterable[str], factor: float) -> Change:
    def change(config: RunConfig) -> RunConfig:
        part = getattr(config, table)
        values = {name: factor * getattr(part, name) for name in names}
        return override(config, [f"{table}.{name}={value!r}" for name, value in values.items()])

    return change


def _views(of: Callable[[AugmentConfig], AugmentConfig]) -> Change:
    def change(config: RunConfig) -> RunConfig:
        second = None if config.second is None else of(config.second)
        return replace(config, augment=of(config.augment), second=second)

    return change


def _strength(strength: float) -> Change:
    """Views of one strength, and no beginnings that try several."""
    milder = _views(lambda view: view.milder(strength))
    return lambda config: replace(milder(config), starts=None)


def _narrower(config: RunConfig) -> RunConfig:
    return replace(config, network=replace(config.network, width=config.network.width // 2))


def _one_head(config: RunConfig) -> RunConfig:
    return replace(config, heads=replace(config.heads, clusters=(config.heads.target,)))


CHANGES: dict[str, Change] = {
    CHOSEN: lambda config: config,
    "temperature / 3": _scaled("loss", ("temperature", "center_temperature"), 1 / 3),
    "temperature x 3": _scaled("loss", ("temperature", "center_temperature"), 3.0),
    "rate / 3": _scaled("optim", ("lr", "center_lr"), 1 / 3),
    "rate x 3": _scaled("optim", ("lr", "center_lr"), 3.0),
    "flips switched": _views(lambda view: replace(view, flip=not view.flip)),
    "views as they are": _strength(1.0),
    "views halved": _strength(0.5),
    "width / 2": _narrower,
    "one head": _one_head,
    "bounds 0.9 to 1.1": lambda c: override(c, ["assignment.lower=0.9", "assignment.upper=1.1"]),
    "epochs / 2": lambda config: lasting(config, max(1, config.epochs // 2)),
}


def choose(name: str, images: ImageSet, folder: Path, method: str, share: float) -> Choice:
    """Store a set of images and choose its settings as the command would, on one core."""
    source = folder / f"{name}.npz"
    np.savez(source, images=images.images, labels=images.labels)
    look, machine = look_at(source), Machine(1)
    k = len(np.unique(images.labels))
    chosen = choose_settings(look, method, str(source), machine, clusters=k)
    epochs = max(1, round(share * chosen.config.epochs))
    chosen = choose_settings(look, method, str(source), machine, clusters=k, epochs=epochs)
    return Choice(name, chosen.config)


def run_one(choice: Choice, change: str, seed: int) -> Record:
    """Train once, with an evaluation at the end; figures, and the labels for those over seeds."""
    started = time.process_time()
    config = replace(CHANGES[change](choice.config), seed=seed)
    config = replace(config, evaluation=replace(config.evaluation, every=config.epochs + 1))
    with tempfile.TemporaryDirectory() as folder:
        run = train(config, Path(folder) / "run")
        begun = Path(folder) / "run" / "starts.json"
        starts = json.loads(begun.read_text(encoding="utf-8")) if begun.exists() else {}
    last, (features, centers, found, *_) = run.metrics[-1], run.prediction
    return {
        **{"set": choice.name, "method": config.method, "n": len(features), "change": change},
        **{"seed": seed, "epochs": config.epochs},
        **{name: last[name] for name in ("acc", "nmi", "loss")},
        **{"silhouette": cosine_silhouette(features, found.labels, len(centers))},
        **{name: starts[name] for name in ("chosen", "silhouettes") if name in starts},
        **{"sizes": [int(found.counts.min()), int(found.counts.max())]},
        **{"cpu": round(time.process_time() - started, 1), "labels": found.labels.tolist()},
    }


def summary(records: Iterable[Record]) -> dict[str, Record]:
    """Means over the seeds of one set, by change, in the order of `CHANGES`."""
    rows: dict[str, Record] = {}
    found = list(records)
    for change in CHANGES:
        own = [record for record in found if record["change"] == change]
        if not own:
            continue
        rows[change] = {
            name: mean(r[name] for r in own) for name in ("acc", "nmi", "loss", "silhouette")
        }
        rows[change] |= {"accs": [r["acc"] for r in own], "cpu": mean(r["cpu"] for r in own)}
        pairs = combinations([torch.tensor(r["labels"]) for r in own], 2)
        both = [agreement(a, b).nmi for a, b in pairs]
        rows[change]["seeds"] = mean(both) if both else None
    return rows


def picked(rows: Mapping[str, Record]) -> dict[str, str]:
    """The change that ACC, and each figure without classes, would have picked."""
    found = {"acc": max(rows, key=lambda c: rows[c]["acc"])}
    found["silhouette"] = max(rows, key=lambda c: rows[c]["silhouette"])
    twice = {c: row["seeds"] for c, row in rows.items() if row["seeds"] is not None}
    if twice:
        found["seeds"] = max(twice, key=lambda c: twice[c])
    return found


def tables(records: Iterable[Record], pixels: Mapping[str, float]) -> str:
    """The table of each set, and one of what would have been picked."""
    by_set: dict[str, list[Record]] = {}
    for record in records:
        by_set.setdefault(record["set"], []).append(record)
    lines: list[str] = []
    last = [
        "| set | k-means on pixels | as chosen | best by ACC | by silhouette | by seeds |",
        "|---|---|---|---|---|---|",
    ]
    for name, own in by_set.items():
        rows = summary(own)
        lines += [
            f"\n{name}: {own[0]['n']:,} images, {own[0]['method']}\n",
            "| change | ACC | by seed | NMI | loss | silhouette | seeds | CPU s |",
            "|---|---|---|---|---|---|---|---|",
        ]
        for change, row in rows.items():
            seeds = "" if row["seeds"] is None else f"{row['seeds']:.3f}"
            accs = ", ".join(f"{acc:.3f}" for acc in row["accs"])
            lines.append(
                f"| {change} | {row['acc']:.3f} | {accs} | {row['nmi']:.3f} | {row['loss']:.3f} | "
                f"{row['silhouette']:.3f} | {seeds} | {row['cpu']:.0f} |"
            )
        if CHOSEN in rows:
            picks = picked(rows)
            cells = [f"{rows[p]['acc']:.3f} ({p})" for p in picks.values()]
            cells += [""] * (3 - len(cells))
            known = f"{pixels[name]:.3f}" if name in pixels else ""
            last.append(f"| {name} | {known} | {rows[CHOSEN]['acc']:.3f} | {' | '.join(cells)} |")
    return "\n".join([*lines, "", *last])


STORED: dict[str, Callable[[int, Path], ImageSet]] = {
    "mnist": image_sets.mnist,
    "cifar10": image_sets.cifar10,
    "patches": image_sets.patches,
    "faces": image_sets.faces,
}


def image_set(name: str, options: argparse.Namespace) -> ImageSet:
    """Load or draw a set of images."""
    if name in STORED:
        file = getattr(options, name)
        if file is None:
            msg = f"{name} needs its file or folder. To fix this, give --{name} PATH"
            raise SystemExit(msg)
        return STORED[name](options.n, file)
    if name == "letters":
        return image_sets.letters(options.n, image_sets.fonts(options.fonts))
    return image_sets.digits(options.n) if name == "digits" else image_sets.shapes(options.n)


def main() -> None:
    """Run what is not there yet, and print the tables as Markdown."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.own_data",
        description=__doc__,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    add = parser.add_argument
    names = ("digits", "letters", "shapes", *STORED)
    add("sets", nargs="+", choices=names, help="sets of images")
    add("--method", choices=("secu", "coke"), default="secu", help="secu (default) or coke")
    add("--changes", nargs="+", choices=list(CHANGES), help="runs to make; all by default")
    add("--n", type=int, default=2000, help="images of a set, at most (default 2000)")
    add("--seeds", type=int, default=1, help="number of seeds (default 1)")
    add("--share", type=float, default=1.0, help="share of the chosen epochs that a run has")
    add("--runs", type=Path, help="file of the lines of JSON; runs that it has are not repeated")
    for name in STORED:
        where = os.environ.get(f"DUALCLUST_{name.upper()}")
        path = Path(where) if where else None
        add(f"--{name}", type=Path, default=path, help=f"or $DUALCLUST_{name.upper()}")
    add("--fonts", type=Path, help="folder with more fonts for the letters")
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(
        f"{platform.machine()}, one core, Python {platform.python_version()}, torch "
        f"{torch.__version__}, dualclust {dualclust.__version__}"
    )
    with tempfile.TemporaryDirectory() as folder:
        sets = {name: image_set(name, options) for name in options.sets}
        choices = {
            name: choose(name, images, Path(folder), options.method, options.share)
            for name, images in sets.items()
        }
        records = list(_runs(choices, options))
        pixels = {}
        for name, choice in choices.items():
            data, k = Run(choice.config, "cpu").loader.data, choice.config.heads.target
            known = kmeans_on_pixels(data, k, seed=0)
            pixels[name] = known.acc if known is not None else 0.0
    print(tables(records, pixels))


def _stored(file: Path | None) -> list[Record]:
    if file is None or not file.exists():
        return []
    found = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    return [record for record in found if "silhouette" in record]  # others are of older programs


def _runs(choices: Mapping[str, Choice], options: argparse.Namespace) -> Iterator[Record]:
    """Each run, made or found in the file; seed after seed, so that an early end has tables."""
    names = ("set", "method", "n", "change", "seed", "epochs")
    there = {tuple(record[name] for name in names): record for record in _stored(options.runs)}
    for seed in range(options.seeds):
        for name, choice in choices.items():
            n = look_at(choice.config.data.source).n
            for change in options.changes or CHANGES:
                changed = CHANGES[change](choice.config)
                if change != CHOSEN and changed == choice.config:
                    continue  # few images have one head already
                epochs = changed.epochs
                record = there.get((name, options.method, n, change, seed, epochs))
                if record is None:
                    record = run_one(choice, change, seed)
                    if options.runs is not None:
                        with options.runs.open("a", encoding="utf-8") as file:
                            file.write(json.dumps(record) + "\n")
                shown = {key: value for key, value in record.items() if key != "labels"}
                print(json.dumps(shown), flush=True)
                yield record


if __name__ == "__main__":
    main()
