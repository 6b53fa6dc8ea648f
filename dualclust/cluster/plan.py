"""``dualclust cluster --dry-run``: what a run would take, from samples of the rows.

Nothing is written. Time is that of samples of the rows, clustered as the run would (`forecast`).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ..algos.bounds.forbidden_pairs import feasibility
from ..algos.bounds.infeasibility import infeasible
from ..algos.offline import DEFAULT_OPTIONS
from ..algos.scores.blocks import MOST_ROWS, block_rows
from ..algos.scores.sources import alone
from ..common.ranks import Ranks
from .embeddings import check_embeddings, embedding_source
from .forecast import Forecast, forecast
from .model import MODEL_FILE
from .notes import input_facts, input_lines, note_lines, notes_on_input
from .output import json_text
from .places import on_host, placed
from .problem import Inputs, open_valid, read_inputs
from .progress import Meter, duration
from .start import drawn_centers
from .threads import Multiply

__all__ = ["expected_memory", "expected_time", "show_plan"]

PROCESS = 200e6
"""Bytes of the process with NumPy, SciPy and the compiled kernels."""

PER_ROW, PER_CANDIDATE = 40.0, 16.0
"""Bytes of labels, flags and order of a row, and of one of its candidates."""

CANDIDATES = 3
"""Candidates that most rows have, of as many as the solver keeps."""

PAIRS_LOOKED_AT = 2**24
"""Pairs of row and cluster up to which forbidden ones are checked by a flow."""


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
    meter.begin("clustering samples of the rows")
    expected = expected_time(options, problem, multiply)
    meter.end()
    seconds = expected.seconds / ranks.world_size
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
        "most_updates": options.max_iter,
        "updates": expected.updates,
        "seconds": seconds if options.time is None else min(seconds, options.time),
        "measured_rows": expected.rows,
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


def expected_time(
    options: argparse.Namespace,
    problem: Inputs,
    multiply: Multiply,
    *,
    clock: Callable[[], float] = time.perf_counter,
) -> Forecast:
    """Return what a run of one process will take; known rows and forbidden pairs are not counted.

    Parameters
    ----------
    options : argparse.Namespace
    problem : Inputs
    multiply : callable
        As of `products_on`.
    clock : callable, optional
        Seconds from any start.
    """
    rows, metric, start = problem.rows, options.metric, problem.start
    group = alone(rows.n_samples)
    source = embedding_source(rows, metric, group, device=options.device, multiply=multiply)

    def draw() -> Any:
        if start is not None:
            return placed(start.centers.astype(rows.dtype), options.device)
        how = {"init": options.init, "seed": options.seed, "metric": metric}
        return drawn_centers(source, options.k, weights=problem.weights, fixed=None, **how)

    names = ("metric", "max_iter", "tol", "gap", "empty")
    settings = {name: getattr(options, name) for name in names}
    return forecast(source, problem.bounds, draw, weights=problem.weights, clock=clock, **settings)


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
        f"time                about {duration(p['seconds'])}, by clustering {p['measured_rows']:,} "
        f"of the rows",
        f"updates             about {p['updates']}, at most {p['most_updates']}; each of two "
        f"passes over the rows or a few more",
        f"would write         {p['out']}/: {', '.join(p['files'])}",
    ]
    if p["table"] is not None:
        lines.append(f"table               {p['table']}")
    lines += note_lines(p["notes"])
    return "\n".join([*lines, "nothing was written", ""])
