"""``dualclust cluster``: embeddings in, labels with sizes between bounds out.

The command needs torch only for several ranks or a GPU. The rows stay in the file: each pass over
them reads a block at a time (`embeddings`), so that memory depends on n only through the labels.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import __version__
from ..algos.bounds.sizes import SizeBounds
from ..algos.clustering.constrained import ConstrainedKMeansResult, KMeansState, constrained_kmeans
from ..algos.clustering.start import start_centers
from ..algos.core.checks import check_count, check_interval
from ..algos.core.errors import (
    InvalidValueError,
    MissingExtraError,
    MissingFileError,
    OutputError,
    UsageError,
)
from ..algos.scores.sources import FeatureSource
from ..common.files import write_folder
from ..common.ranks import Ranks, join_ranks
from ..common.watch import watched
from .agreement import agree
from .checkpoint import load_state, save_state
from .distances import squared_distances
from .embeddings import (
    check_embeddings,
    check_path,
    embedding_source,
    open_embeddings,
    read_weights,
)
from .formats import Ids, Rows, Selection, default_folder
from .output import Clusters, npy, result_of, sizes_csv, text
from .products import Multiply, products_on
from .shares import row_group
from .table import check_table, second_choices, written_table

__all__ = ["run_cluster"]


class _Problem(NamedTuple):
    """The problem, on the library and device that compute it."""

    source: FeatureSource
    bounds: SizeBounds
    weights: Any
    digest: str
    ids: Ids | None


def run_cluster(options: argparse.Namespace) -> int:
    """Read, cluster, write and report; return the exit code, the same on all ranks."""
    check_count("--threads", options.threads, 1)
    check_interval("--timeout", options.timeout, 0.0, 1e9, open_low=True)
    ranks = join_ranks(options.device, timeout=options.timeout)
    try:
        with products_on(options.threads) as multiply, watched(ranks):
            return agree(ranks, lambda: _run(options, ranks, multiply))
    finally:
        ranks.leave()


def _run(options: argparse.Namespace, ranks: Ranks, multiply: Multiply) -> int:
    _check_paths(options)
    out = options.out or default_folder(options.input)
    _check_options(options, out)
    problem = _open(options, ranks, multiply)
    result = _cluster(options, problem, ranks)
    found = _collect(result, problem)
    squared = None
    if options.metric == "euclidean":
        squared = squared_distances(
            problem.source, result.assignment.labels, result.centers, problem.weights
        )
    second = None
    if options.table is not None:
        second = second_choices(problem.source, found, options.metric, problem.weights)
    weight = len(found.labels) if problem.weights is None else float(problem.weights.sum())
    report = result_of(found, options, weight=weight, squared=squared)
    pictures: dict[str, bytes] = {}
    if options.report:
        from .report import draw_report

        pictures = draw_report(  # on all ranks: each reads its own rows of the sample
            problem.source,
            found,
            report,
            title=options.input.name,
            weights=None if problem.weights is None else _numpy(problem.weights),
        )
    if not ranks.first:
        return 0
    if sys.stderr.isatty():
        print(file=sys.stderr)
    files = {
        "labels.npy": npy(found.labels),
        "centers.npy": npy(found.centers),
        "sizes.csv": sizes_csv(found).encode(),
        "result.json": (json.dumps(report, indent=2) + "\n").encode(),
        **pictures,
    }
    with written_table(options.table, found.labels, second, options.id, problem.ids):
        write_folder(out, files)
    print(text(report), f"written to          {out}/", sep="\n")
    if options.table is not None:
        print(f"table               {options.table}")
    return 0


def _check_paths(options: argparse.Namespace) -> None:
    """Refuse names that no file can have."""
    paths = {"X.npy": options.input, "--weights": options.weights, "--out": options.out}
    paths |= {"--checkpoint": options.checkpoint, "--table": options.table}
    for name, path in paths.items():
        if path is not None:
            check_path(name, path)


def _check_options(options: argparse.Namespace, out: Path) -> None:
    """Refuse options that are wrong whatever the rows are."""
    if out.exists():
        msg = f"{out} exists. To fix this, name another folder with --out"
        raise OutputError(msg)
    if options.table is not None:
        check_table(options.table, options.id)
    check_count("--seed", options.seed, 0)
    check_count("-k", options.k, 1)
    check_interval("--lower", options.lower, 0.0, math.inf)
    if options.upper != math.inf:
        check_interval("--upper", options.upper, 0.0, math.inf)
    check_count("--max-iter", options.max_iter, 0)
    check_interval("--tol", options.tol, 0.0, 1.0)
    check_interval("--gap", options.gap, 0.0, 1.0)
    checkpoint = options.checkpoint
    if options.resume and checkpoint is None:
        msg = "--resume needs --checkpoint FILE, the state to continue from"
        raise UsageError(msg)
    if options.resume and not checkpoint.is_file():
        msg = f"no checkpoint at {checkpoint}. To fix this, leave out --resume to start afresh"
        raise MissingFileError(msg)
    if checkpoint is not None and checkpoint.exists() and not options.resume:
        msg = f"{checkpoint} exists. To fix this, continue with --resume, or name another file"
        raise OutputError(msg)
    if options.report:
        try:
            import matplotlib as _  # noqa: F401
        except ImportError as error:
            msg = "--report needs matplotlib. To fix this: pip install 'dualclust[train]'"
            raise MissingExtraError(msg) from error


def _open(options: argparse.Namespace, ranks: Ranks, multiply: Multiply) -> _Problem:
    rows: Rows = open_embeddings(options.input, _selection(options))
    n, k, place = rows.n_samples, options.k, dict[str, Any]()
    if n < k:  # before bounds are made, one per cluster
        msg = f"features must have at least one row per center, got {n} rows for k={k}"
        raise InvalidValueError(msg)
    weights: Any = None if options.weights is None else read_weights(options.weights, n)
    if options.device != "cpu":
        torch = _torch_on(options.device)
        place = {"xp": torch, "device": options.device}
        weights = None if weights is None else torch.from_numpy(weights).to(options.device)
    bounds = SizeBounds.from_ratios(
        k,
        n_samples=n,
        lower=options.lower,
        upper=options.upper,
        rounding=options.rounding,
        **place,
    )
    group = row_group(ranks, n)
    wanted = options.checkpoint is not None
    digest = check_embeddings(rows, options.metric, group, digest=wanted)
    source = embedding_source(rows, options.metric, group, device=options.device, multiply=multiply)
    return _Problem(source, bounds, weights, digest, rows.ids)


def _selection(options: argparse.Namespace) -> Selection:
    """Return what the options say about the file."""
    columns = tuple(name for part in options.columns for name in part.split(",") if name)
    return Selection(options.array or "", columns, options.id, options.dtype, options.dim)


def _torch_on(device: str) -> Any:
    """Return torch if it has the device."""
    try:
        import torch
    except ImportError as error:
        msg = f"--device {device} needs torch. To fix this: pip install 'dualclust[train]'"
        raise MissingExtraError(msg) from error
    if device.partition(":")[0] == "meta":
        msg = "--device meta has no values to compute with. To fix this, name cpu or cuda"
        raise UsageError(msg)
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:  # the second: torch built without CUDA
        msg = f"--device {device} is not there: {str(error).splitlines()[0]}"
        raise UsageError(msg) from error
    return torch


def _cluster(
    options: argparse.Namespace, problem: _Problem, ranks: Ranks
) -> ConstrainedKMeansResult:
    source = problem.source

    def progress(state: KMeansState, changed: float) -> None:
        if options.checkpoint is not None:
            labels = _numpy(source.group.gather(state.labels))
            if ranks.first:
                _save(options, problem, state, labels)
        if ranks.first and sys.stderr.isatty():
            share = f"{changed:.2%} of the labels changed"
            print(f"\rpass {state.n_iter}: {share}   ", end="", file=sys.stderr)

    if options.resume:
        state = _load(options, problem)
        centers = state.centers
    else:
        state = None
        centers = start_centers(
            source, options.k, seed=options.seed, metric=options.metric, weights=problem.weights
        )
    return constrained_kmeans(
        source,
        problem.bounds,
        centers,
        metric=options.metric,
        weights=problem.weights,
        max_iter=options.max_iter,
        tol=options.tol,
        gap=options.gap,
        state=state,
        progress=progress,
        empty=options.empty,
    )


def _collect(result: ConstrainedKMeansResult, problem: _Problem) -> Clusters:
    found = result.assignment
    return Clusters(
        labels=_numpy(problem.source.group.gather(found.labels)),
        centers=_numpy(result.centers),
        counts=_numpy(found.counts),
        lower=_numpy(problem.bounds.lower),
        upper=_numpy(problem.bounds.upper),
        prices=_numpy(found.prices),
        objective=found.objective,
        upper_bound=found.upper_bound,
        gap=found.gap,
        n_iter=result.n_iter,
        converged=result.converged,
    )


def _identity(options: argparse.Namespace, problem: _Problem) -> dict[str, Any]:
    """Return all that decides the answer, except the number of iterations: a checkpoint's run."""
    weights = None if problem.weights is None else _numpy(problem.weights)
    return {
        "version": __version__,
        "input": problem.digest,
        "rows": [problem.source.group.n_total, problem.source.n_features],
        "weights": None if weights is None else _digest(weights),
        "k": options.k,
        "bounds": _digest(_numpy(problem.bounds.lower), _numpy(problem.bounds.upper)),
        "metric": options.metric,
        "tol": options.tol,
        "gap": options.gap,
        "empty": options.empty,
        "seed": options.seed,
    }


def _save(
    options: argparse.Namespace,
    problem: _Problem,
    state: KMeansState,
    labels: NDArray[np.int64],
) -> None:
    arrays = {
        "centers": _numpy(state.centers),
        "prices": _numpy(state.prices),
        "n_iter": np.asarray(state.n_iter, dtype=np.int64),
        "labels": labels,
        "objective": np.asarray(state.objective, dtype=np.float64),
        "converged": np.asarray(state.converged, dtype=np.int64),
    }
    save_state(options.checkpoint, _identity(options, problem), arrays)


def _load(options: argparse.Namespace, problem: _Problem) -> KMeansState:
    arrays: dict[str, Any] = load_state(options.checkpoint, _identity(options, problem))
    group = problem.source.group
    arrays["labels"] = arrays["labels"][group.first_row : group.first_row + group.n_local]
    if options.device != "cpu":
        import torch

        for name in ("centers", "prices", "labels"):
            arrays[name] = torch.from_numpy(arrays[name]).to(options.device)
    return KMeansState(
        arrays["centers"],
        arrays["prices"],
        int(arrays["n_iter"]),
        arrays["labels"],
        float(arrays["objective"]),
        bool(arrays["converged"]),
    )


def _digest(*arrays: NDArray[Any]) -> str:
    return hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest()


def _numpy(array: Any) -> NDArray[Any]:
    return array if isinstance(array, np.ndarray) else np.asarray(array.cpu())
