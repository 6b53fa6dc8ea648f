"""``dualclust cluster``: embeddings in, labels with sizes between bounds out. Needs no torch."""

from __future__ import annotations

import argparse
import csv
import io
import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .algos.bounds import SizeBounds, from_ratios
from .algos.certificates import violation
from .algos.checks import check_count
from .algos.errors import InvalidTypeError, InvalidValueError, MissingFileError, OutputError
from .algos.kmeans import KMeansResult, constrained_kmeans, kmeans_plus_plus
from .algos.projections import project_sphere
from .algos.transport import EXACT_ENTRIES

__all__ = ["read_embeddings", "run_cluster"]

START_ROWS_PER_CLUSTER = 50
"""k-means++ draws its starting centers from a sample of this many rows per cluster."""


def run_cluster(options: argparse.Namespace) -> int:
    """Read, cluster, write, report; returns the exit code."""
    out = options.out or options.input.with_name(f"{options.input.stem}-clusters")
    if out.exists():
        msg = f"{out} exists. To fix this, name another folder with --out, or remove it"
        raise OutputError(msg)
    check_count("--seed", options.seed, 0)
    features = read_embeddings(options.input)
    n, k = len(features), options.k
    bounds = from_ratios(
        k,
        n_samples=n,
        lower=options.min_size,
        upper=options.max_size,
        rounding=options.rounding,
    )
    rng = np.random.default_rng(options.seed)
    sample = rng.permutation(n)[: max(1000, START_ROWS_PER_CLUSTER * k)]
    start = kmeans_plus_plus(features[sample], rng.random(k))
    exact = n * k <= EXACT_ENTRIES if options.exact is None else options.exact
    result = constrained_kmeans(
        features, bounds, start, n_iter=options.iterations, exact=exact, progress=_progress
    )
    if sys.stderr.isatty():
        print(file=sys.stderr)
    report = _report(result, bounds, options)
    _write_folder(
        out,
        {
            "labels.npy": _npy(result.assignment.labels),
            "centers.npy": _npy(result.centers),
            "sizes.csv": _sizes_csv(result, bounds).encode(),
            "result.json": (json.dumps(report, indent=2) + "\n").encode(),
        },
    )
    print(_text(report), f"written to          {out}/", sep="\n")
    return 0


def read_embeddings(path: Path) -> NDArray[np.floating[Any]]:
    """Read (n, d) numbers from an ``.npy`` file and scale each row to unit length.

    Raises
    ------
    MissingFileError
        If there is no file at `path`.
    InvalidTypeError, InvalidValueError
        If it is not an .npy file of real numbers, not 2-D, empty, not finite, or has a zero row.
    """
    if not path.is_file():
        msg = f"no file at {path}"
        raise MissingFileError(msg)
    try:
        array = np.load(path, allow_pickle=False, mmap_mode="r")
    except (ValueError, OSError, EOFError) as error:
        msg = f"{path} is not a readable .npy file: {error}"
        raise InvalidValueError(msg) from error
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "fiu":
        kind = array.dtype if isinstance(array, np.ndarray) else "an archive of several arrays"
        msg = f"{path} must hold one array of real numbers, got {kind}"
        raise InvalidTypeError(msg)
    if array.ndim != 2 or array.size == 0:
        msg = f"{path} must have shape (n, d) with n, d >= 1, got {array.shape}"
        raise InvalidValueError(msg)
    wide = array.dtype.kind == "f" and array.dtype.itemsize >= 8
    with np.errstate(over="ignore"):  # what does not fit becomes infinite, and is named below
        features = np.array(array, dtype=np.float64 if wide else np.float32)
    bad = np.flatnonzero(~np.isfinite(features).all(axis=1))
    if len(bad):
        msg = f"{path} must be finite, got NaN or infinity in row {bad[0]} ({len(bad)} such rows)"
        raise InvalidValueError(msg)
    zero = np.flatnonzero(~features.any(axis=1))
    if len(zero):
        msg = (
            f"{path} has a zero row, {zero[0]} ({len(zero)} such rows), which has no direction. "
            f"To fix this, drop those rows"
        )
        raise InvalidValueError(msg)
    unit: NDArray[np.floating[Any]] = project_sphere(features)
    return unit


def _progress(done: int, changed: float) -> None:
    if sys.stderr.isatty():
        print(f"\rpass {done}: {changed:.2%} of the labels changed   ", end="", file=sys.stderr)


def _report(
    result: KMeansResult, bounds: SizeBounds, options: argparse.Namespace
) -> dict[str, Any]:
    n = bounds.n_samples or 0
    counts = result.assignment.state.counts
    gap = max(0.0, result.assignment.upper_bound - result.assignment.objective)
    return {
        "n_samples": n,
        "n_clusters": bounds.n_clusters,
        "min_size": options.min_size,
        "max_size": options.max_size if np.isfinite(options.max_size) else "inf",
        "lower_bound": int(bounds.lower.min()),
        "upper_bound": int(bounds.upper.max()),
        "smallest_cluster": int(counts.min()),
        "largest_cluster": int(counts.max()),
        "violation": violation(counts, bounds),
        "mean_similarity": result.assignment.objective / n,
        "mean_similarity_bound": result.assignment.upper_bound / n,
        "relative_gap": gap / max(abs(result.assignment.upper_bound), 1e-300),
        "passes": result.n_iter,
        "converged": result.converged,
        "seed": options.seed,
    }


def _text(report: dict[str, Any]) -> str:
    r = report
    converged = "converged" if r["converged"] else "stopped at the limit"
    return "\n".join(
        [
            f"clusters            {r['n_clusters']} of {r['n_samples']} samples, "
            f"{r['passes']} passes, {converged}",
            f"sizes               {r['smallest_cluster']} to {r['largest_cluster']}, "
            f"bounds {r['lower_bound']} to {r['upper_bound']}",
            f"violation           {r['violation']}",
            f"mean similarity     {r['mean_similarity']:.6f}",
            f"certificate         no labels inside the bounds exceed "
            f"{r['mean_similarity_bound']:.6f} for these centers (gap {r['relative_gap']:.1e})",
        ]
    )


def _sizes_csv(result: KMeansResult, bounds: SizeBounds) -> str:
    state = result.assignment.state
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["cluster", "size", "lower", "upper", "price"])
    prices = state.duals.lower - state.duals.upper
    columns = (state.counts, bounds.lower, bounds.upper, prices)
    for i, (size, low, high, price) in enumerate(zip(*columns, strict=True)):
        table.writerow([i, int(size), int(low), int(high), f"{price:.6f}"])
    return text.getvalue()


def _npy(array: NDArray[Any]) -> bytes:
    content = io.BytesIO()
    np.save(content, array, allow_pickle=False)
    return content.getvalue()


def _write_folder(folder: Path, files: dict[str, bytes]) -> None:
    """Write all files or none: into a folder beside, which is then renamed."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    except OSError as error:
        msg = f"cannot write into {folder.parent}: {error.strerror or error}"
        raise OutputError(msg) from error
    try:
        for name, content in files.items():
            (temporary / name).write_bytes(content)
        temporary.chmod(0o755)
        temporary.rename(folder)
    except BaseException as error:  # an interrupt, too, leaves nothing behind
        shutil.rmtree(temporary, ignore_errors=True)
        if not isinstance(error, OSError):
            raise
        msg = f"cannot write {folder}: {error.strerror or error}"
        raise OutputError(msg) from error
