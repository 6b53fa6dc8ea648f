"""SeCu on the built-in digits over many seeds, and what each ingredient is worth.

Each row is the recipe `secu_digits` with some settings changed; ACC, NMI and ARI are means and
standard deviations over seeds, of the last epoch of a run of fixed length. Labels are used for
these figures only.

    python benchmarks/digits.py                 # the table below, about 8 minutes on one core
    python benchmarks/digits.py --seeds 3 --only recipe
"""

from __future__ import annotations

import argparse
import platform
import statistics
import tempfile
import time
from pathlib import Path

import torch

import dualclust
from dualclust.cli.train import read_recipe
from dualclust.train.config.run import override
from dualclust.train.data.samples import load_source
from dualclust.train.loop import train
from dualclust.train.loop.metrics import Agreement, evaluate, kmeans_on_pixels

VARIANTS: dict[str, tuple[int, list[str]]] = {
    "recipe": (10, []),
    "no bounds (greedy labels)": (5, ["assignment.lower=0", "assignment.upper=inf"]),
    "lower bound only": (5, ["assignment.upper=inf"]),
    "one head": (5, ["heads.clusters=[10]"]),
    "random centers": (5, ["heads.init=random"]),
    "published temperatures": (
        5,
        ["loss.temperature=0.05", "loss.center_temperature=0.05"],
    ),
}


def row(name: str, found: list[Agreement], sizes: list[int], seconds: float) -> str:
    """One line of the table."""
    cells = []
    for values in list(zip(*found, strict=True))[:3]:
        cells.append(f"{statistics.mean(values):.3f} +- {statistics.pstdev(values):.3f}")
    worst = min(a.acc for a in found)
    extent = f"{min(sizes)}-{max(sizes)}" if sizes else ""
    return (
        f"| {name} | {len(found)} | {' | '.join(cells)} | {worst:.3f} | {extent} | {seconds:.1f} |"
    )


def main() -> None:
    """Print the table as Markdown."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seeds", type=int, help="number of seeds of every row")
    parser.add_argument("--only", choices=list(VARIANTS), help="run one row only")
    options = parser.parse_args()
    data = load_source("digits")
    versions = f"torch {torch.__version__}, dualclust {dualclust.__version__}"
    print(f"{platform.machine()}, one core, Python {platform.python_version()}, {versions}\n")
    print("| variant | seeds | ACC | NMI | ARI | worst ACC | sizes | CPU s per run |")
    print("|---|---|---|---|---|---|---|---|")
    started = time.process_time()
    baseline = [kmeans_on_pixels(data, 10, seed=s) for s in range(options.seeds or 10)]
    each = (time.process_time() - started) / len(baseline)
    print(row("k-means on pixels", [b for b in baseline if b], [], each))
    for name, (seeds, changes) in VARIANTS.items():
        if options.only not in (None, name):
            continue
        found, sizes = [], []
        started = time.process_time()
        for seed in range(options.seeds or seeds):
            config = override(read_recipe("secu_digits"), [*changes, f"seed={seed}"])
            with tempfile.TemporaryDirectory() as folder:
                result = train(config, Path(folder) / "run")
            agreement = evaluate(result.prediction.assignment.labels, data)
            assert agreement is not None
            found.append(agreement)
            sizes += result.prediction.assignment.counts.tolist()
        each = (time.process_time() - started) / len(found)
        print(row(name, found, sizes, each), flush=True)


if __name__ == "__main__":
    main()
