"""``dualclust cluster --k-range``: several k and bounds compared, instead of one clustering.

The rows are read twice, however many k there are: to check them, and to judge all clusterings of a
sample at once.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from ..algos.core.checks import check_count
from ..algos.core.errors import InvalidValueError, MissingExtraError, UsageError
from ..algos.scores.sources import Group, alone
from ..algos.selection import choose_k, sample_rows
from ..common.formats import Rows, default_folder
from ..common.ranks import Ranks
from .choice_figure import choice_png
from .choice_forecast import choice_forecast
from .choice_table import choice_csv, choice_of, choice_text
from .embeddings import check_embeddings, embedding_source
from .exchange import row_group
from .launch import on_ranks
from .notes import input_facts, input_lines, note_lines, notes_on_input
from .options import LOWER, UPPER, check_paths, check_sizes, fill_in_metric
from .output import json_text
from .output_folder import check_folder, replace_folder
from .places import device_place
from .problem import open_valid
from .progress import Meter, duration
from .threads import Multiply

__all__ = ["bounds_range", "expected_time", "k_range", "run_choice"]

Shares = tuple[float, float]

N_SPLITS, N_INIT = 5, 2

MOST_KS = 1000
"""Most numbers of clusters that are compared."""

REFUSED = {
    "weights": None,
    "seeds": None,
    "forbidden": None,
    "min_count": None,
    "max_count": None,
    "bounds": None,
    "init": None,
    "start": None,
    "checkpoint": None,
    "table": None,
    "report": False,
    "show": None,
    "resume": False,
    "max_iter": 100,
    "tol": 1e-3,
    "gap": 1e-4,
    "time": None,
    "empty": "relocate",
    "rounding": None,
}
"""Options of one clustering, and the values that they have if they are not given."""


def run_choice(options: argparse.Namespace) -> int:
    """Read, compare, write and report; return the exit code, the same on all ranks."""
    return on_ranks(options, _run)


def k_range(text: str, flag: str = "--k-range") -> list[int]:
    """Read numbers of clusters: numbers and ranges FIRST:LAST or FIRST:LAST:STEP, with commas.

    Parameters
    ----------
    text : str
    flag : str
        What the numbers were given by, for messages.

    Raises
    ------
    UsageError

    Examples
    --------
    >>> k_range("5:20:5"), k_range("2:4,10")
    ([5, 10, 15, 20], [2, 3, 4, 10])
    """
    parts: list[range] = []
    for part in text.split(","):
        try:
            numbers = [int(number) for number in part.split(":")]
        except ValueError:
            numbers = []
        fits = 1 <= len(numbers) <= 3
        numbers = numbers * 2 if len(numbers) == 1 else numbers
        first, last, step = (*numbers, 1, 1, 1)[:3]
        if not fits or first < 2 or last < first or step < 1:
            msg = (
                f"{flag} must be numbers from 2 on, or ranges FIRST:LAST:STEP, with commas "
                f"between, got {part!r}. To fix this, write for example 5:50:5 or 5,10,20"
            )
            raise UsageError(msg)
        parts.append(range(first, last + 1, step))
    # Counted before any list is built: a slip of a few zeros would fill the memory.
    count = sum((part[-1] - part[0]) // part.step + 1 for part in parts)
    if count > MOST_KS:
        msg = (
            f"{flag} must name at most {MOST_KS:,} numbers of clusters, since each takes work of "
            f"its own, got {count:,} in {text!r}. To fix this, give a step: FIRST:LAST:STEP"
        )
        raise UsageError(msg)
    return sorted(set[int]().union(*parts))


def bounds_range(text: str) -> list[Shares]:
    """Read bounds LOWER:UPPER in units of n/k, with commas between; UPPER may be inf.

    Raises
    ------
    UsageError

    Examples
    --------
    >>> bounds_range("0.5:2,0.9:inf")
    [(0.5, 2.0), (0.9, inf)]
    """
    pairs = []
    for part in text.split(","):
        try:
            low, high = (float(number) for number in part.split(":"))
        except ValueError:
            low = high = math.nan
        if not (0.0 <= low <= 1.0 <= high):
            msg = (
                f"--bounds-range must be pairs LOWER:UPPER in units of n/k, with commas between, "
                f"0 <= LOWER <= 1 <= UPPER, got {part!r}. To fix this, write for example "
                f"0.5:2,0.9:1.1 (inf: no upper bound)"
            )
            raise UsageError(msg)
        pairs.append((low, high))
    return pairs


def _run(options: argparse.Namespace, ranks: Ranks, multiply: Multiply, meter: Meter) -> int:
    check_paths(options)
    fill_in_metric(options)
    ks, shares = _compared(options)
    out = options.out or default_folder(options.input, "-choice")
    check_folder(out, overwrite=options.overwrite)
    device_place(options.device)
    rows, _ = open_valid(options, ranks, meter, options.metric)
    n = rows.n_samples
    if n < 2 * ks[-1]:
        msg = (
            f"--k-range must end at half the number of rows, or before, got {ks[-1]} for the {n} "
            f"rows of {rows.name}"
            ". To fix this, ask for fewer clusters"
        )
        raise InvalidValueError(msg)
    if options.dry_run:
        meter.begin("comparing on a part of the rows")
        seconds = expected_time(options, rows, ks, shares, multiply) / ranks.world_size
        meter.end()
        _show_plan(options, ranks, rows, ks, shares, {"seconds": seconds, "out": str(out)})
        return 0
    group = row_group(ranks, n)
    if options.invalid != "drop":
        meter.begin("checking the rows", group)
        check_embeddings(meter.reading(rows), options.metric, group)
    source = embedding_source(
        meter.reading(rows), options.metric, group, device=options.device, multiply=multiply
    )
    found = choose_k(
        source,
        ks,
        shares=shares,
        metric=options.metric,
        seed=options.seed,
        n_drawn=options.sample,
        n_splits=N_SPLITS,
        n_init=N_INIT,
        progress=_shown(meter, ks, group),
    )
    meter.end()
    if not ranks.first:
        return 0
    files, left_out = {"choice.csv": choice_csv(found).encode()}, ""
    try:
        files["choice.png"] = choice_png(found)
    except MissingExtraError as error:
        left_out = f"choice.png          left out: {error}"
    result = choice_of(found, options.metric, options.seed)
    result["input"] = input_facts(rows)
    result["notes"] = notes_on_input(options, rows, np.empty(0, np.int64))
    result["files"] = [*files, "choice.json"]
    text = json.dumps(result, indent=2) + "\n"
    replace_folder(out, files | {"choice.json": text.encode()}, overwrite=options.overwrite)
    if options.json:
        print(text, end="")
        return 0
    about = [*input_lines(result["input"]), *note_lines(result["notes"])]
    print(*about, choice_text(found), *filter(None, [left_out]), f"written to {out}/", sep="\n")
    return 0


def _shown(meter: Meter, ks: list[int], group: Group) -> Callable[[int, int], None]:
    """Show the first k, and return what shows each further one, and then the look at all rows."""

    def begin(done: int) -> None:
        what = "judging all rows" if done == len(ks) else f"k = {ks[done]}, {done + 1} of {len(ks)}"
        meter.begin(what, group)

    def progress(done: int, total: int) -> None:
        meter.tell(f"k = {ks[done - 1]} done, {done} of {total}")
        begin(done)

    begin(0)
    return progress


def _compared(options: argparse.Namespace) -> tuple[list[int], list[Shares]]:
    """Return the k and the bounds to compare; refuse flags that are about one clustering."""
    for name, absent in REFUSED.items():
        if getattr(options, name, absent) != absent:
            flag = f"--{name.replace('_', '-')}"
            msg = (
                f"{flag} is for one clustering, and --k-range compares several, with settings of "
                f"its own. To fix this, leave it out here, and give it with -k afterwards"
            )
            raise UsageError(msg)
    check_count("--seed", options.seed, 0)
    check_sizes(options)
    ks = k_range(options.k_range)
    if options.sample is not None:
        check_count("--sample", options.sample, 2 * ks[-1])
    if options.bounds_range is None:
        low = LOWER if options.lower is None else options.lower
        return ks, [(low, UPPER if options.upper is None else options.upper)]
    if options.lower is not None or options.upper is not None:
        flag = "--lower" if options.lower is not None else "--upper"
        msg = f"--bounds-range and {flag} both bound the sizes. To fix this, leave out {flag}"
        raise UsageError(msg)
    return ks, bounds_range(options.bounds_range)


def expected_time(
    options: argparse.Namespace,
    rows: Rows,
    ks: list[int],
    shares: list[Shares],
    multiply: Multiply,
    *,
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """Return about how many seconds a run of one process will take."""
    group, metric, device = alone(rows.n_samples), options.metric, options.device
    source = embedding_source(rows, metric, group, device=device, multiply=multiply)
    return choice_forecast(
        source,
        ks,
        shares,
        metric=metric,
        seed=options.seed,
        n_drawn=options.sample,
        n_splits=N_SPLITS,
        n_init=N_INIT,
        clock=clock,
    )


def _show_plan(
    options: argparse.Namespace,
    ranks: Ranks,
    rows: Rows,
    ks: list[int],
    shares: list[Shares],
    known: dict[str, Any],
) -> None:
    """Print what it would take."""
    plan = _plan(rows.n_samples, rows.n_features, ks, shares, options.sample) | known
    plan["input"] = input_facts(rows)
    if ranks.first:
        print(json_text(plan) if options.json else _plan_text(plan), end="")


def _plan(n: int, d: int, ks: list[int], shares: list[Any], sample: int | None) -> dict[str, Any]:
    """Return what it would take."""
    m = sample_rows(n, ks[-1], n_drawn=sample)
    return {
        "n_samples": n,
        "n_features": d,
        "k_range": ks,
        "bounds_range": [[low, None if math.isinf(high) else high] for low, high in shares],
        "sample_rows": m,
        "sample_bytes": 8 * m * d,
        "runs_per_k": N_INIT * (1 + 2 * N_SPLITS) + 2,
        "bounded_runs_per_k": len(shares) * (1 + 2 * N_SPLITS),
    }


def _plan_text(plan: dict[str, Any]) -> str:
    p, count = plan, len(plan["k_range"])
    size = p["sample_bytes"] / 2**20
    lines = [
        *input_lines(p["input"]),
        f"rows                {p['n_samples']:,} of {p['n_features']:,} numbers, read twice",
        f"sample              {p['sample_rows']:,} rows in memory, {size:,.0f} MiB",
        f"runs                {count} x {p['runs_per_k']} of k-means, "
        f"{count} x {p['bounded_runs_per_k']} with bounds",
        f"time                about {duration(p['seconds'])}",
        f"would write         {p['out']}/",
        "nothing was written",
    ]
    return "\n".join([*lines, ""])
