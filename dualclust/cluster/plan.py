"""``dualclust cluster --dry-run``: what a run would take, from the first blocks of the file.

Nothing is written. Time is that of k-means without bounds on a sample of the rows, for each update
and row, times what bounds cost more; the number of updates until labels settle is not known, so the
last number is a limit and not a forecast.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any, NamedTuple

import array_api_compat as compat
import numpy as np

from ..algos.bounds.forbidden_pairs import feasibility
from ..algos.bounds.infeasibility import infeasible
from ..algos.clustering.lloyd import kmeans
from ..algos.offline import DEFAULT_OPTIONS
from ..algos.scores.blocks import MOST_ROWS, block_rows
from ..algos.scores.sources import FeatureSource, alone
from ..common.formats import Rows
from ..common.ranks import Ranks
from .embeddings import check_embeddings, embedding_source
from .model import MODEL_FILE
from .notes import input_facts, input_lines, note_lines, notes_on_input
from .output import json_text
from .places import on_host
from .problem import Inputs, open_valid, read_inputs
from .progress import Meter, duration
from .threads import Multiply

__all__ = ["Cost", "expected_memory", "measured_cost", "show_plan"]

BOUNDED = 1.5
"""Time of an update inside bounds, in units of one of k-means without: 1 to 2 where measured, and
tens where bounds are hard to meet (half of the rows between two centers that are nearly one)."""

PROCESS = 200e6
"""Bytes of the process with NumPy, SciPy and the compiled kernels."""

PER_ROW, PER_CANDIDATE = 40.0, 16.0
"""Bytes of labels, flags and order of a row, and of one of its candidates."""

CANDIDATES = 3
"""Candidates that most rows have, of as many as the solver keeps."""

PAIRS_LOOKED_AT = 2**24
"""Pairs of row and cluster up to which forbidden ones are checked by a flow."""


class Cost(NamedTuple):
    """Seconds of one update on all rows of one process, and of the first look at them."""

    update: float
    look: float


def show_plan(
    options: argparse.Namespace, ranks: Ranks, multiply: Multiply, meter: Meter, out: Path
) -> int:
    """Check the options and the beginnings of all files, and print what a run would take.

    Raises
    ------
    DualclustError
        As the run itself would, but for wrong values in rows that are not looked at.
    """
    valid, _ = open_valid(options, ranks, meter, options.metric)
    problem = read_inputs(options, valid)
    rows = problem.rows
    n, d, k = rows.n_samples, rows.n_features, options.k
    checked = _check_pairs(problem)
    if options.invalid != "drop":
        check_embeddings(rows, options.metric, alone(rows_looked_at(n, k)))
    meter.begin("measuring a part of the rows")
    cost = measured_cost(rows, k, options.metric, multiply, device=options.device)
    meter.end()
    updates = options.max_iter
    factor = 1.0 if problem.bounds.is_free else BOUNDED
    each = cost.update * factor / ranks.world_size
    files = ["labels.npy", "centers.npy", "sizes.csv", MODEL_FILE, "result.json"]
    files += ["rows.csv", "report.html"] if options.report else []
    low, high = on_host(problem.bounds.lower), on_host(problem.bounds.upper)
    plan = {
        "n_samples": n,
        "n_features": d,
        "stored": str(getattr(rows, "stored", rows.dtype)),
        "computed": str(rows.dtype),
        "n_clusters": k,
        "mean_size": n / k,
        "min_count": int(low.min()),
        "max_count": int(high.max()),
        "feasible": True if checked else None,
        "memory_bytes": int(expected_memory(n, d, k, rows.dtype.itemsize)),
        "most_updates": updates,
        "seconds_per_update": each,
        "most_seconds": cost.look / ranks.world_size + each * (updates + 1),
        "out": str(out),
        "files": files,
        "table": None if options.table is None else str(options.table),
        "input": input_facts(rows),
        "notes": notes_on_input(options, rows, high),
    }
    if ranks.first:
        print(json_text(plan) if options.json else _text(plan), end="")
    return 0


def rows_looked_at(n: int, k: int) -> int:
    """Return how many of the first rows a plan looks at."""
    return min(n, max(MOST_ROWS, 4 * block_rows(k)))


def measured_cost(
    rows: Rows, k: int, metric: str, multiply: Multiply, *, device: str = "cpu"
) -> Cost:
    """Time k-means on the first blocks of a file, and scale it to all rows.

    Parameters
    ----------
    rows : Rows
    k : int
    metric : {"cosine", "euclidean"}
    multiply : callable
        As of `products_on`.
    device : str
    """
    n = rows.n_samples
    m = rows_looked_at(n, k)
    whole = embedding_source(rows, metric, alone(m), device=device, multiply=multiply)
    whole = whole._replace(take=lambda ids: whole.rows(0, m)[ids])
    like = whole.rows(0, 0)
    xp = compat.array_namespace(like)
    ids = xp.asarray(np.arange(k, dtype=np.int64) % m, device=compat.device(like))
    centers = xp.take(whole.rows(0, m), ids, axis=0)
    _timed(whole, centers, metric, 1)  # what is compiled or loaded on first use
    one, three = (_timed(whole, centers, metric, updates) for updates in (1, 3))
    update = max((three - one) / 2.0, one / 4.0)
    return Cost(update * n / m, one * n / m)


def expected_memory(n: int, d: int, k: int, itemsize: int) -> float:
    """Return about how many bytes a run holds at its peak, whatever the size of the file.

    Examples
    --------
    >>> [round(expected_memory(n, 64, 1000, 4) / 1e9, 1) for n in (10_000_000, 100_000_000)]
    [1.1, 5.9]
    """
    block = block_rows(k) * (3 * d * itemsize + k * (itemsize + 12.0))
    candidates = min(CANDIDATES * n, DEFAULT_OPTIONS.entries_of(n))
    sample = max(2**12, 32 * k) * d * 8.0 * 3.0
    return PROCESS + block + sample + 3.0 * k * d * 8.0 + PER_ROW * n + PER_CANDIDATE * candidates


def _timed(source: FeatureSource, centers: Any, metric: str, updates: int) -> float:
    start = time.perf_counter()
    kmeans(source, centers, metric=metric, max_iter=updates, tol=0.0, empty="keep")
    return time.perf_counter() - start


def _check_pairs(problem: Inputs) -> bool:
    """Raise if seeds and forbidden pairs leave no labels; return whether that was decided."""
    n, k = problem.rows.n_samples, problem.bounds.n_clusters
    if problem.fixed is None and problem.forbidden is None:
        return True
    if n * k > PAIRS_LOOKED_AT:
        return False
    allowed = np.ones((n, k), dtype=np.bool_)
    if problem.fixed is not None:
        fixed = on_host(problem.fixed)
        known = fixed >= 0
        allowed[known] = fixed[known, None] == np.arange(k)
    if problem.forbidden is not None:
        pairs = on_host(problem.forbidden)
        allowed[pairs[:, 0], pairs[:, 1]] = False
    low, high = on_host(problem.bounds.lower), on_host(problem.bounds.upper)
    found = feasibility(allowed, low.tolist(), high.tolist())
    if found.vector is not None:
        raise infeasible(found.vector)
    return True


def _text(plan: dict[str, Any]) -> str:
    p = plan
    n, k = p["n_samples"], p["n_clusters"]
    stored = p["stored"]
    stored += "" if stored == p["computed"] else f", computed in {p['computed']}"
    possible = "possible" if p["feasible"] else "possible but for seeds and forbidden pairs, which "
    possible += "" if p["feasible"] else "the run will check"
    lines = [
        *input_lines(p["input"]),
        f"rows                {n} of {p['n_features']} numbers, {stored}",
        f"clusters            {k}, mean size {p['mean_size']:.6g} rows",
        f"bounds              {p['min_count']} to {p['max_count']} rows: {possible}",
        f"memory              about {p['memory_bytes'] / 1e6:,.0f} MB",
        f"time                about {duration(p['seconds_per_update'])} for each update, "
        f"{duration(p['most_seconds'])} for all {p['most_updates']}; more where bounds are "
        f"hard to meet",
        f"updates             at most {p['most_updates']}, each of two passes over the rows or a "
        f"few more; fewer once --tol is met",
        f"would write         {p['out']}/: {', '.join(p['files'])}",
    ]
    if p["table"] is not None:
        lines.append(f"table               {p['table']}")
    lines += note_lines(p["notes"])
    return "\n".join([*lines, "nothing was written", ""])
