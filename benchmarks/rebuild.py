"""Compare what two trees of the library compute, to the bit: before and after a rebuild.

    git archive a2f8382 | tar -x -C OLD
    python benchmarks/rebuild.py OLD .

Each tree computes in a process of its own, on one core: the same assignments, k-means and
pseudo-labels and, with ``--train``, two epochs of each method on the digits. A tree may have the
names of before the rebuild (a2f8382) or those of today. Printed is a line for each case: equal, or
the fields that are not. ``--time N,K`` prints CPU times beside argmax instead, the trees by turns.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

METHODS = ("secu", "coke", "propos", "gatcluster", "mi_margin")
TIMED = ("argmax", "ours_stream", "ours_default", "ours_exact")
REPEATS = 7

Digests = dict[str, dict[str, Any]]


def digest(values: Any) -> str:
    """Return a digest of the bits of an array, its dtype and its shape."""
    array = np.ascontiguousarray(values)
    head = repr((array.dtype.str, array.shape)).encode()
    return hashlib.sha256(head + array.tobytes()).hexdigest()[:12]


def names() -> SimpleNamespace:
    """Return the functions of this tree, under today's names."""
    dc = import_module("dualclust")
    new = hasattr(dc.SizeBounds, "from_counts")
    tol, most = ("tol", "max_iter") if new else ("tolerance", "n_iter")
    return SimpleNamespace(
        dc=dc,
        bounds=dc.SizeBounds.from_counts if new else dc.from_counts,
        assign_source=dc.assign_source if new else dc.solve,
        fairness="fairness_weight" if new else "balance",
        tol=lambda value: {tol: value},
        steps=lambda n, share: {most: n, tol: share},
    )


def instances(largest: int) -> Iterator[tuple[str, Any, Any]]:
    """Yield unit rows and centers: the digits, and mixtures of the benchmark of assignment."""
    from sklearn.datasets import load_digits

    rows = load_digits().data.astype(np.float32)
    x = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    yield "digits", x, x[np.linspace(0, len(x) - 1, 10).astype(int)]
    for n, k in ((2000, 20), (20_000, 50)):
        if n <= largest:
            yield f"mixture {n:,} x {k}", *import_module("assignment").data(n, k)


def results(x: Any, c: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each function and the digests of what it returns."""
    f, (n, k), s = names(), (len(x), len(c)), x @ c.T
    bounds = f.bounds([int(0.9 * n / k)] * k, [int(np.ceil(1.1 * n / k))] * k, n_samples=n)
    source = f.dc.product_source(f.dc.feature_source(x), c)
    for name, found in (
        ("assign_offline", f.dc.assign_offline(s, bounds)),
        ("assign_exact", f.dc.assign_exact(s, bounds)),
        ("assign_source, gap 0", f.assign_source(source, bounds, **f.tol(0.0))),
    ):
        yield name, _assignment(found)
    state, labels = f.dc.init_state(bounds), []
    for first in range(0, n, 500):
        part, state = f.dc.assign(
            s[first : first + 500], bounds, state, steps=f.dc.measured_steps(bounds)
        )
        labels.append(part)
    prices = state.duals.lower - state.duals.upper
    yield "assign", {"labels": digest(np.concatenate(labels)), "prices": digest(prices)}
    free = f.dc.kmeans(x, c, **f.steps(20, 0.0))
    yield "kmeans", {"labels": digest(free.labels), "centers": digest(free.centers)}
    start = f.dc.kmeans_plus_plus(x, np.random.default_rng(0).random(k))
    yield "kmeans_plus_plus", {"centers": digest(start)}
    for metric in ("cosine", "euclidean"):
        found = f.dc.constrained_kmeans(x, bounds, c, metric=metric, **f.steps(20, 1e-3))
        more = {"centers": digest(found.centers), "n_iter": found.n_iter}
        yield f"constrained_kmeans, {metric}", more | _assignment(found.assignment)
    e = np.exp(10.0 * s[:2000].astype(np.float64))
    soft = f.dc.pseudo_labels(e / e.sum(1, keepdims=True), **{f.fairness: 1.0})
    yield "pseudo_labels", {"labels": digest(soft.labels), "gap": float(soft.gap)}


def _assignment(found: Any) -> dict[str, Any]:
    of = {name: digest(getattr(found, name)) for name in ("labels", "counts", "prices")}
    return of | {name: float(getattr(found, name)) for name in ("objective", "gap")}


def trained(init: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each method and the digests of two epochs: state, labels, figures of the epochs."""
    new = find_spec("dualclust.train.loop").submodule_search_locations is not None  # type: ignore[union-attr]
    config_in, train_in, state_in = (
        ("config.run", "loop.train_and_resume", "state.checkpoint")
        if new
        else ("config", "loop", "checkpoint")
    )
    load, train, latest = (
        getattr(import_module(f"dualclust.train.{module}"), name)
        for module, name in (
            (config_in, "load_config"),
            (train_in, "train"),
            (state_in, "latest_checkpoint"),
        )
    )
    recipes = Path(import_module("dualclust.train.recipes").__path__[0])
    for method in METHODS:
        config = load(recipes / f"{method}_digits.toml")
        frozen = min(config.optim.frozen_epochs, 1)
        optim = replace(config.optim, warmup_epochs=0, frozen_epochs=frozen)
        config = replace(config, epochs=2, optim=optim, threads=1)
        if getattr(config, "starts", None) is not None:
            config = replace(config, starts=None)
        if init:
            config = replace(config, heads=replace(config.heads, init=init))
        with tempfile.TemporaryDirectory() as parent:
            folder = Path(parent) / "run"
            train(config, folder)
            tensors = {f"state of {n}": digest(t) for n, t in latest(folder).tensors.items()}
            lines = (folder / "metrics.jsonl").read_text().splitlines()
            rows = (folder / "assignments.csv").read_text().splitlines()[1:]
        labels = digest([int(row.split(",")[1]) for row in rows])
        figures = {
            f"{name} of epoch {i}": value
            for i, line in enumerate(map(json.loads, lines), 1)
            for name, value in line.items()
            if name != "seconds"
        }
        yield f"train {method}", tensors | {"labels": labels} | figures


def work(options: argparse.Namespace) -> Any:
    """Compute what this process is asked for, in its tree."""
    sys.path.insert(0, str(Path.cwd() / "benchmarks"))  # of this tree, whose names differ
    if options.time:
        return timed(*map(int, options.time.split(",")))
    found: Digests = {}
    for name, x, c in instances(options.largest):
        found |= {f"{case}, {name}": fields for case, fields in results(x, c)}
    if options.train:
        found |= dict(trained(options.init))
    return found


def timed(n: int, k: int) -> dict[str, list[float]]:
    """Return CPU seconds of argmax and of our methods on one mixture, by turns."""
    module = import_module("assignment")
    x, c = module.data(n, k)
    methods: dict[str, Callable[[Any, Any], Any]] = {m: getattr(module, m) for m in TIMED}
    seconds: dict[str, list[float]] = {name: [] for name in TIMED}
    for turn in range(REPEATS + 1):  # the first one warms up
        for name, method in methods.items():
            start = time.process_time()
            method(x, c)
            if turn:
                seconds[name].append(time.process_time() - start)
    return seconds


def in_tree(tree: Path, arguments: list[str]) -> Any:
    """Run this program as a worker in a tree, and return what it prints."""
    one_core = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", __file__, "--worker", *arguments],
        env=os.environ | one_core | {"PYTHONPATH": str(tree)},
        cwd=tree,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def compared(old: Digests, new: Digests) -> Iterator[str]:
    """Yield a line for each case: equal, or which of the old fields have changed."""
    for case, fields in old.items():
        other = new.get(case, {})
        changed = [name for name, value in fields.items() if other.get(name) != value]
        yield f"{case}: {', '.join(changed) if changed else 'equal'}"


def ratios(rows: list[dict[str, list[float]]]) -> str:
    """Return times as multiples of those of argmax beside them: the median over the turns."""
    parts = []
    for name in TIMED[1:]:
        every = [a / b for row in rows for a, b in zip(row[name], row["argmax"], strict=True)]
        parts.append(f"{name} {statistics.median(every):.1f} ({min(every):.1f}-{max(every):.1f})")
    return "; ".join(parts)


def main() -> int:
    """Compare two trees, or work in one."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("trees", nargs="*", type=Path, metavar="TREE", help="old, new")
    parser.add_argument("--train", action="store_true", help="two epochs of each method as well")
    parser.add_argument("--init", default="", help="where heads start: kmeans or random")
    parser.add_argument("--largest", type=int, default=20_000, help="rows of a mixture at most")
    parser.add_argument("--time", metavar="N,K", help="time this mixture instead")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        print(json.dumps(work(options)))
        return 0
    arguments = ["--largest", str(options.largest), "--init", options.init]
    arguments += ["--train"] * options.train
    old, new = (tree.resolve() for tree in options.trees)
    if options.time:
        rows: dict[Path, list[Any]] = {old: [], new: []}
        for _ in range(2):  # by turns, since the machine is not alone
            for tree in (old, new):
                rows[tree].append(in_tree(tree, ["--time", options.time]))
        for tree, name in ((old, "old"), (new, "new")):
            print(f"{name}: {ratios(rows[tree])}")
        return 0
    print(*compared(in_tree(old, arguments), in_tree(new, arguments)), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
