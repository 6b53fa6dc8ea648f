"""Compare two trees of the library on the panel of families, by turns, on one thread and more.

    git worktree add OLD 7e5270fb
    python -m benchmarks.beside OLD . --sizes 50000,200 100000,400 --tol 0 1e-4 --threads 1 2

Each tree solves in a process of its own, the same scores and bounds; these come from the families
of this tree (`families.py`). A row has the least CPU seconds of both on one thread, what of them
the second tree takes, the same for the wall time on each number of threads, and the gaps. Seeds are
drawn and printed if none are given. `--only` names families. Wall times need a machine with nothing
else to do; ratios of CPU seconds, of the least of some rounds, bear other work.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np


class Run(NamedTuple):
    """One solve: seconds of the clock and of the processor, and the gap that it proves."""

    wall: float
    cpu: float
    gap: float


class Tree:
    """A tree of the library that solves instances from files, in a process of its own."""

    def __init__(self, path: Path) -> None:
        command = [sys.executable, str(Path(__file__).resolve()), "--solve"]
        where = os.environ | {"PYTHONPATH": str(path.resolve()), "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            command, cwd=path, env=where, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(self, file: str, tol: float, threads: int) -> Run:
        """Solve the instance of a file to a gap."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps([file, tol, threads]) + "\n")
        self.process.stdin.flush()
        return Run(*json.loads(self.process.stdout.readline()))

    def close(self) -> None:
        """End the process."""
        self.process.communicate()


def serve() -> None:
    """Solve what standard input asks for, with the library of this process's path."""
    import dualclust as dc
    from dualclust.cluster.threads import products_on

    known, instance = "", {}
    for line in sys.stdin:
        file, tol, threads = json.loads(line)
        if file != known:
            known, instance = file, dict(np.load(file))
            counts = (instance.pop(name).tolist() for name in ("lower", "upper"))
            bounds = dc.SizeBounds.from_counts(*counts, n_samples=len(instance["scores"]))
        with products_on(threads):
            start = time.perf_counter(), time.process_time()
            found: Any = (
                dc.assign_exact(bounds=bounds, **instance)
                if tol == 0.0
                else dc.assign_offline(bounds=bounds, tol=tol, **instance)
            )
            end = time.perf_counter(), time.process_time()
        print(json.dumps([end[0] - start[0], end[1] - start[1], float(found.gap)]), flush=True)


def compared(trees: list[Tree], file: str, tol: float, threads: list[int], rounds: int) -> str:
    """Solve one instance by turns; return the cells of its row after those that name it."""
    best: dict[tuple[int, int], Run] = {}
    for turn in range(rounds + 1):
        for which, tree in enumerate(trees):
            for number in threads:
                run, key = tree.run(file, tol, number), (which, number)
                if turn and (key not in best or run.wall < best[key].wall):  # the first compiles
                    best[key] = run
    old, new = best[0, threads[0]], best[1, threads[0]]
    walls = " | ".join(f"{best[1, n].wall / best[0, n].wall:.2f}" for n in threads)
    cells = f"{old.cpu:.3f} | {new.cpu:.3f} | {new.cpu / old.cpu:.2f} | {walls}"
    return f"{cells} | {old.gap:.0e}, {new.gap:.0e} |"


def main() -> None:
    """Print the table as Markdown."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("trees", type=Path, nargs=2, help="two checkouts, the older one first")
    parser.add_argument("--sizes", nargs="+", default=["50000,200"], help="rows,clusters")
    parser.add_argument("--tol", type=float, nargs="+", default=[0.0], help="gaps; 0 is exact")
    parser.add_argument("--threads", type=int, nargs="+", default=[1], help="numbers of threads")
    parser.add_argument("--only", nargs="+", help="families, all by default")
    parser.add_argument("--seeds", type=int, nargs="+", help="drawn by default")
    parser.add_argument("--rounds", type=int, default=3, help="how often each runs")
    options = parser.parse_args()
    from .families import FAMILIES

    seeds = options.seeds or [secrets.randbelow(2**16)]
    heads = " | ".join(f"wall, {n} threads" for n in options.threads)
    print(f"{options.rounds} rounds, seeds {seeds}\n")
    print(f"| family | size | seed | tol | old, CPU s | new | new over old | {heads} | gaps |")
    print("|" + "---|" * (8 + len(options.threads)))
    trees, ratios = [Tree(path) for path in options.trees], []
    with tempfile.TemporaryDirectory() as folder:
        for name in options.only or FAMILIES:
            for n, k in (map(int, size.split(",")) for size in options.sizes):
                for seed in seeds:
                    made = FAMILIES[name](n, k, seed)
                    given = {"scores": made.scores} | (
                        {} if made.prices is None else {"prices": made.prices}
                    )
                    bounds = {"lower": made.bounds.lower, "upper": made.bounds.upper}
                    file = str(Path(folder) / f"{name}-{n}-{k}-{seed}.npz")
                    np.savez(file, **given, **bounds)
                    for tol in options.tol:
                        cells = compared(trees, file, tol, options.threads, options.rounds)
                        ratios.append([float(c) for c in cells.split(" | ")[2:-1]])
                        print(f"| {name} | {n:,} x {k:,} | {seed} | {tol:g} | {cells}", flush=True)
                    Path(file).unlink()
    for tree in trees:
        tree.close()
    means, most = np.exp(np.log(ratios).mean(axis=0)), np.max(ratios, axis=0)
    print(f"\ngeometric means {np.round(means, 2).tolist()}, largest {most.tolist()}")


if __name__ == "__main__":
    if sys.argv[1:] == ["--solve"]:
        serve()
    else:
        main()
