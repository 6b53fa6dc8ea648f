"""``dualclust compare``: several methods and k-means on one data set, under one budget.

``plan.json`` in the output folder keeps what was asked for and the settings that were chosen, so
that the same command, started again, has the same runs before it. It may ask for more methods and
seeds then, as long as each run keeps its budget.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ..algos.core.errors import DivergedError, OutputError, UsageError
from ..common.files import write_file
from ..common.memory import memory_errors
from ..common.ranks import ALONE
from ..common.untrusted import parse_json, parse_toml, refuse
from ..train.comparison import find_runs, read_run, run_baseline
from ..train.comparison.baselines import rows_digest
from ..train.comparison.stored import BASELINE_FILE
from ..train.config.run import RunConfig, dump_config, load_config, override
from ..train.config.schema import from_mapping
from ..train.data.samples import EmbeddingData, Samples, load_source
from ..train.data.sources import BUILT_IN, read_source
from ..train.data.splits import Reading
from ..train.loop import Execution, Loader
from ..train.loop.results import is_finished
from ..train.loop.run_folder import SETTINGS
from ..train.loop.train_and_resume import resume, train
from ..train.networks.own_modules import is_own
from ..train.own_data import Pace, seconds_of
from ..train.own_data.bases import METHODS
from ..train.own_data.epochs import lasting
from ..train.state.checkpoint import is_begun
from .clusters_option import one_of_clusters
from .report_runs import check_page, write_comparison
from .run_progress import RunProgress
from .train import check_device, paced, plain_warnings, under_way
from .train_settings import settings_of

__all__ = ["run_compare"]

PLAN = "plan.json"
WRITER = "dualclust compare"
MOST_PIXELS = 96
"""Side of the pictures that k-means sees at most: it holds all of them in float64."""

AGAIN = "the same command, which does not repeat what has ended"


def run_compare(options: argparse.Namespace) -> int:
    """Run what is missing, write the comparison, and return the exit code."""
    check_device(options.device)
    why = "most methods have one head, and labelings are compared at one k"
    options.clusters = one_of_clusters(options.clusters, why)
    methods = _methods(options)
    out = options.out or _default_folder(options)
    request = _request(options, methods)
    plan = _opened(out, request)
    page = out / "comparison.html"
    if not plan:  # else the folder is of this comparison, and so is what stands there
        check_page(page)
    features = {path: _features(path) for path in options.features}
    for method in methods:
        if method not in plan:
            plan[method] = _chosen(options, method, request["seconds_of_a_run"])
    text = {"written by": WRITER, "request": request}
    settings = {method: dump_config(config) for method, config in plan.items()}
    write_file(
        out / PLAN, json.dumps({**text, "settings": settings}, indent=1) + "\n", parents=True
    )
    jobs = [
        (f"{method}-seed{seed}", override(plan[method], [f"seed={seed}"]))
        for seed in range(options.seeds)
        for method in methods
    ]
    with plain_warnings():
        _run_baselines(options, out, plan[methods[0]], features)
        for number, (name, config) in enumerate(jobs, 1):
            title, seconds = f"{name} ({number} of {len(jobs)})", request["seconds_of_a_run"]
            _run_one(out / name, config, title, options.device, seconds)
    write_comparison(find_runs([out]), page, as_json=options.json)
    return 0


def _methods(options: argparse.Namespace) -> list[str]:
    """Return the methods that are asked for, once all numbers are what they should be."""
    methods = [name.strip() for name in options.methods.split(",")]
    strange = [name for name in methods if name not in METHODS]
    if strange or len(set(methods)) < len(methods):
        what = f"{strange[0]!r}" if strange else "a method twice"
        msg = (
            f"--methods must be some of {', '.join(METHODS)}, each once, with commas between, got "
            f"{what}. To fix this, name such ones"
        )
        raise UsageError(msg)
    # The first epoch of some methods only labels.
    stems = [path.stem for path in options.features]
    if twice := [stem for stem in stems if stems.count(stem) > 1]:
        msg = (
            f"--features must be files of different names, got {twice[0]!r} twice. "
            f"To fix this, rename one of them"
        )
        raise UsageError(msg)
    for flag, value, least in (("--seeds", options.seeds, 1), ("--epochs", options.epochs, 2)):
        if value is not None and value < least:
            rule = f"an integer, {least} or more"
            msg = f"{flag} must be {rule}, got {value}. To fix this, give such a one"
            raise UsageError(msg)
    if options.time is not None and options.epochs is not None:
        msg = "--time finds the epochs, and --epochs names them. To fix this, leave out one"
        raise UsageError(msg)
    if options.time is not None and options.data in BUILT_IN:
        msg = (
            f"--time is for data of one's own, and {options.data} is built in. To fix this, give "
            f"--epochs instead, for example --epochs 10"
        )
        raise UsageError(msg)
    return methods


def _default_folder(options: argparse.Namespace) -> Path:
    stem = Path(os.path.abspath(options.data)).stem
    k = "" if options.clusters is None else f"-k{options.clusters}"
    return Path("runs") / f"compare-{stem}{k}"


def _request(options: argparse.Namespace, methods: list[str]) -> dict[str, Any]:
    """Return what makes two runs of a comparison comparable."""
    budget = None
    if options.time is not None:
        budget = seconds_of(options.time) / (len(methods) * options.seeds)
    return {
        "data": options.data if options.data in BUILT_IN else os.path.abspath(options.data),
        "clusters": options.clusters,
        "seconds_of_a_run": budget,
        "epochs": options.epochs,
        "classes": options.classes,
        "bad": options.bad,
        "encoder": options.encoder,
        "weights": None if options.weights is None else os.path.abspath(options.weights),
        "fine_tune": options.fine_tune,
        "set": list(options.set),
        "device": options.device,
    }


def _opened(out: Path, request: dict[str, Any]) -> dict[str, RunConfig]:
    """Return the settings that an earlier start of the same comparison has chosen.

    Raises
    ------
    OutputError
        If the folder is somebody else's, or of another comparison.
    """
    path = out / PLAN
    if not path.is_file():
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            msg = (
                f"{out} exists, and holds no comparison. To fix this, name another folder with "
                f"--out"
            )
            raise OutputError(msg)
        return {}
    try:
        found = parse_json(path.read_text(encoding="utf-8"))
        settings, asked = dict(found["settings"]), dict(found["request"])
        if found["written by"] != WRITER:
            raise ValueError(found["written by"])
        plan = {
            str(method): from_mapping(RunConfig, parse_toml(text), f"{path}, {method}")
            for method, text in settings.items()
        }
    except (OSError, ValueError, KeyError, TypeError) as error:
        fix = "name another folder with --out"
        refuse(
            path, "is damaged", f"It must be the plan of a comparison ({error})", fix, OutputError
        )
    for name, value in request.items():
        if asked.get(name) != value:
            what = f"{name.replace('_', ' ')} = {asked.get(name)}, and not {value}"
            fix = "name another folder with --out"
            msg = f"{out} holds a comparison with {what}. To fix this, {fix}"
            raise OutputError(msg)
    return plan


def _chosen(options: argparse.Namespace, method: str, seconds: float | None) -> RunConfig:
    """Choose the settings of a method, as ``dualclust train`` does, and tell them."""
    if is_own(options.encoder):
        msg = (
            f"--encoder {options.encoder} is a module of your own, which 'train' takes, and "
            f"'compare' does not. To fix this, name one of timm or hf, or compare on its "
            f"features: dualclust embed RUN DATA --layer encoder --out X.npy"
        )
        raise UsageError(msg)
    built_in = options.data in BUILT_IN
    changes = list(options.set)
    if options.epochs is not None and not built_in:
        changes.insert(0, f"epochs={options.epochs}")
    asked = Namespace(
        method=method,
        data=options.data,
        recipe=None,
        clusters=options.clusters,
        time=None if seconds is None else f"{seconds:.3f}s",
        classes=options.classes,
        bad=options.bad,
        encoder=options.encoder,
        weights=options.weights,
        fine_tune=options.fine_tune,
        seed=None,
        set=changes,
        log=None,
        device=options.device,
    )
    try:
        found = settings_of(asked)
    except UsageError as error:
        if seconds is None:
            raise
        msg = f"of --time {options.time} a run of {method} has {seconds:.0f} s: {error}"
        raise UsageError(msg) from error
    if found.told:
        print(f"{method}: {found.told}", file=sys.stderr, flush=True)
    config = found.config
    if options.epochs is not None and built_in:
        config = lasting(config, options.epochs)
    return config


def _features(path: Path) -> NDArray[Any]:
    """Read rows of somebody else's encoder."""
    if path.suffix.lower() != ".npy":
        msg = f"--features must end in .npy, got {str(path)!r}. To fix this, name such a file"
        raise UsageError(msg)
    found = load_source(path)
    assert isinstance(found, EmbeddingData)
    rows: NDArray[Any] = np.asarray(found.rows)
    return rows


def _run_baselines(
    options: argparse.Namespace, out: Path, config: RunConfig, features: dict[Path, NDArray[Any]]
) -> None:
    """Cluster by k-means what has not been clustered yet."""
    kinds: dict[str, NDArray[Any] | None] = {}
    if not options.no_baselines:
        found = read_source(options.data, Reading(mapped=True, folders=config.data.folders))
        kinds["embeddings" if found.rows else "pixels"] = None
    kinds |= {f"features-{path.stem}": rows for path, rows in features.items()}
    loaded: dict[int, Samples] = {}
    drawn = config.data.limit > 0 or config.data.imbalance != 1.0  # by the seed
    for seed, name in ((seed, name) for seed in range(options.seeds) for name in kinds):
        folder = out / f"kmeans-{name}-seed{seed}"
        if (folder / BASELINE_FILE).is_file():
            _check_same_rows(folder, kinds[name])
            continue
        own = override(config, [f"seed={seed if drawn else config.seed}"])
        if own.encoder is not None and own.data.size > MOST_PIXELS:
            own = override(own, [f"data.size={MOST_PIXELS}"])  # not as large as an encoder's
        if own.seed not in loaded:
            cpu = Execution(own.execution, torch.device("cpu"))
            loaded[own.seed] = Loader(own, ALONE, cpu).data
        print(f"kmeans-{name}, seed {seed}", file=sys.stderr, flush=True)
        data = loaded[own.seed]
        with memory_errors("leave out k-means on all pixels: --no-baselines"):
            run_baseline(folder, own, data, name=name, seed=seed, features=kinds[name])


def _check_same_rows(folder: Path, rows: NDArray[Any] | None) -> None:
    """Refuse other features under the name of those that were clustered before."""
    said = parse_json((folder / BASELINE_FILE).read_text(encoding="utf-8")).get("rows", "")
    if rows is not None and said != rows_digest(rows):
        msg = (
            f"{folder} is of other features of this name. To fix this, give the file another name, "
            f"or the comparison another --out"
        )
        raise OutputError(msg)


def _run_one(
    folder: Path, config: RunConfig, title: str, device: str, seconds: float | None = None
) -> None:
    """Train, resume, or leave a run as it is; one that is late has fewer epochs than planned."""
    begun = is_begun(folder)
    if begun:
        config = load_config(folder / SETTINGS)
        if is_finished(folder, config):
            return
    if begun and "not finite" in read_run(folder).alarms:
        print(f"dualclust: {folder} has diverged, and is left as it is", file=sys.stderr)
        return
    shown = RunProgress(title, config, resumed=begun)
    try:
        with under_way(folder, ALONE, shown, AGAIN) as given:
            given["device"] = device
            if begun:
                resume(folder, **given)
            else:
                pace = None
                if seconds is not None:
                    pace = Pace(seconds, time.perf_counter(), config.epochs)
                train(config, folder, **paced(pace, shown), **given)
    except DivergedError as error:
        print(f"dualclust: {folder}: {error}. The other runs go on", file=sys.stderr)
