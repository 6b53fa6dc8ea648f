"""Ask of each mechanism of the offline solver what it saves, on a panel of families.

Each instance is solved with every mechanism and then without one of them, by turns. The table
gives the ratio of CPU seconds, and of work: passes over scores, entries of candidates that Newton's
method reads, products with the curvature, and augmenting paths. A mechanism stays if it saves at
least a quarter on a family and costs no other more than a twentieth. Gaps have to agree.

    python -m benchmarks.ablation --rows 20000 --clusters 100
    python -m benchmarks.ablation --only averaged --families crowded "heavy 1.1" --tol 0 1e-3
"""

from __future__ import annotations

import argparse
import math
import platform
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple
from unittest.mock import patch

import numba
import numpy as np

import dualclust as dc
from dualclust.algos.offline import (
    _reduced,
    _search,
    _smoothed_dual,
    _trust_region,
)

from .families import FAMILIES, Instance

ReducedSolution = _reduced.ReducedSolution


class Switch(NamedTuple):
    """One mechanism: where the solver calls it, and what stands there when it is off."""

    module: Any
    name: str
    off: Any


def _nothing(*_: Any, **__: Any) -> None:
    return None


SWITCHES: dict[str, Switch] = {
    "averaged": Switch(_trust_region, "averaged_region", _nothing),
    "distinct rows": Switch(_search, "region_of_distinct_rows", _nothing),
    "few clusters": Switch(_search, "is_small", lambda *_: False),
    "no prices": Switch(_search, "labels_without_prices", _nothing),
    "ties before a pass": Switch(_search, "MOSTLY", 1.0),
    "held back": Switch(_reduced, "_is_held_back", lambda *_: False),
    "labels of one pass": Switch(_search, "_labeled_online", lambda _, search, __: search),
    "all scores in time": Switch(_search, "AS_LONG", math.inf),
    "repeated steps": Switch(_search, "extrapolated", _nothing),
    "near is near enough": Switch(_smoothed_dual, "EARLY_PROMISE", 0.0),
    "windows": Switch(_reduced, "MAX_WINDOWS", 0),
    "stuck paths": Switch(
        _reduced, "ReducedSolution", lambda *p: ReducedSolution(*p)._replace(is_stuck=False)
    ),
    "fractional rows": Switch(_trust_region, "LEAST_FRACTIONAL", 0.0),
    "moving region": Switch(_trust_region, "OFTEN_TRUNCATED", 1.0),
}
"""Mechanisms that are functions or numbers of a module, by name."""


@contextmanager
def without(name: str) -> Iterator[None]:
    """Turn one mechanism off inside the block; "all" leaves them as they are."""
    with ExitStack() as stack:
        if name in SWITCHES:
            module, attribute, off = SWITCHES[name]
            stack.enter_context(patch.object(module, attribute, off))
        yield


@contextmanager
def counted() -> Iterator[Counter[str]]:
    """Count the work of everything that is solved inside the block."""
    work: Counter[str] = Counter()

    def adding(real: Callable[..., Any], add: Callable[[tuple[Any, ...], Any], None]) -> Any:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            found = real(*args, **kwargs)
            add(args, found)
            return found

        return wrapped

    def rows(args: tuple[Any, ...], _: Any) -> None:
        work["passes"] += args[0].group.n_total

    def entries(args: tuple[Any, ...], _: Any) -> None:
        work["entries"] += args[0].size

    def products(_: tuple[Any, ...], __: Any) -> None:
        work["products"] += 1

    def paths(_: tuple[Any, ...], found: Any) -> None:
        work["paths"] += found[3]

    wrapped = (
        (_search, "collect_candidates", rows),
        (_trust_region, "collect_candidates", rows),
        (_smoothed_dual, "soft_counts", entries),
        (_smoothed_dual, "curvature_product", products),
        (_reduced, "augmenting_paths", paths),
    )
    with ExitStack() as stack:
        for module, name, add in wrapped:
            real = getattr(module, name)
            stack.enter_context(patch.object(module, name, adding(real, add)))
        yield work


class Run(NamedTuple):
    """One solve: CPU seconds, work, and the proven gap."""

    seconds: float
    work: Counter[str]
    gap: float


def solve(made: Instance, tol: float, name: str) -> Run:
    """Solve one instance without one mechanism."""
    with without(name), counted() as work:
        begin = time.process_time()
        found = dc.assign_offline(made.scores, made.bounds, prices=made.prices, tol=tol)
        seconds = time.process_time() - begin
    return Run(seconds, work, found.gap)


def argmax_seconds(made: Instance) -> float:
    """Least CPU seconds of a product and an argmax of this size."""
    (n, k), rng = made.scores.shape, np.random.default_rng(0)
    rows, centers = (rng.standard_normal((m, 64), dtype=np.float32) for m in (n, k))
    least = float("inf")
    for _ in range(3):
        begin = time.process_time()
        np.argmax(rows @ centers.T, axis=1)
        least = min(least, time.process_time() - begin)
    return least


def table(options: argparse.Namespace) -> Iterator[str]:
    """Yield the lines of the table as Markdown: one for each family, tolerance and mechanism."""
    yield "| family | tol | without | x argmax | time | passes | entries | products | paths | gap |"
    yield "|---|---|---|---|---|---|---|---|---|---|"
    names = ["all", *(options.only or SWITCHES)]
    for family in options.families or FAMILIES:
        made = FAMILIES[family](options.rows, options.clusters, options.seed)
        unit = argmax_seconds(made)
        for tol in options.tol:
            for name in names:  # compile, and touch the memory
                solve(made, tol, name)
            runs: dict[str, list[Run]] = {name: [] for name in names}
            for _ in range(options.rounds):
                for name in names:
                    runs[name].append(solve(made, tol, name))
            best = {name: min(r, key=lambda run: run.seconds) for name, r in runs.items()}
            whole = best["all"]
            for name, run in best.items():
                ratios = (
                    f"{run.work[key] / max(whole.work[key], 1):.2f}"
                    for key in ("passes", "entries", "products", "paths")
                )
                columns = (
                    family,
                    f"{tol:g}",
                    name,
                    f"{run.seconds / unit:.1f}",
                    f"{run.seconds / whole.seconds:.2f}",
                    *ratios,
                    f"{run.gap:.0e}",
                )
                yield f"| {' | '.join(columns)} |"


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--clusters", type=int, default=100)
    parser.add_argument("--tol", type=float, nargs="+", default=[1e-3, 0.0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, help="of the instances (default: drawn, and printed)")
    parser.add_argument("--only", nargs="+", choices=list(SWITCHES), metavar="MECHANISM")
    parser.add_argument("--families", nargs="+", choices=list(FAMILIES), metavar="FAMILY")
    parser.add_argument("--threads", type=int, default=1)
    return parser


def main() -> None:
    """Print the table."""
    options = build_parser().parse_args()
    if options.seed is None:
        options.seed = secrets.randbelow(2**31)
    numba.set_num_threads(options.threads)
    print(
        f"{options.rows} x {options.clusters}, seed {options.seed}, {options.threads} threads, "
        f"{platform.processor() or platform.machine()}, least of {options.rounds}\n"
    )
    for line in table(options):
        print(line, flush=True)


if __name__ == "__main__":
    main()
