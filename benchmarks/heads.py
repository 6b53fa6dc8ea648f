"""Several k in one run: which one is chosen without labels, and how good each head is by labels.

SeCu (or CoKe) on scikit-learn's digits as a stranger's file, with the settings that
``dualclust train secu --data digits.npz -k 5,8,10,12,20`` chooses. Classes score the heads
afterwards; no step and no choice reads them.

    python benchmarks/heads.py                  # three seeds, about 5 minutes on one core
    python benchmarks/heads.py --seeds 1 --epochs 20
"""

from __future__ import annotations

import argparse
import platform
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_digits

import dualclust
from dualclust.train.config.run import override
from dualclust.train.data.look import look_at
from dualclust.train.loop import Run
from dualclust.train.own_data import Machine, choose_settings

KS = (5, 8, 10, 12, 20)


def judged(
    folder: Path, method: str, seed: int, epochs: int | None
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Train, and return what was chosen, and each head with its ACC and NMI."""
    path, digits = folder / "digits.npz", load_digits()
    np.savez(path, images=np.uint8(digits.images * 15.9375), labels=digits.target)
    look = look_at(str(path), split="auto", folders="names")
    config = choose_settings(look, method, str(path), Machine(1), clusters=KS, epochs=epochs).config
    only = ["evaluation.heads=all", f"evaluation.every={config.epochs}", f"seed={seed}"]
    run = Run(override(config, only), "cpu")
    run.init()
    while run.epoch < config.epochs:
        run.run_epoch()
    last = run.metrics[-1]
    rows = []
    for one in last["heads"]["judged"]:
        head = config.heads.clusters.index(one["n_clusters"])
        before = "" if head == run.method.target else f"head{head}_"
        rows.append({**one, "acc": last[f"{before}acc"], "nmi": last[f"{before}nmi"]})
    return last["heads"], rows


def table(options: argparse.Namespace) -> Iterator[str]:
    """Yield the lines of the table."""
    yield (
        "| seed | k | views agree | silhouette | without clusters | trained | price | gap | sizes "
        "| ACC | NMI |"
    )
    yield "|---" * 11 + "|"
    for seed in range(options.seeds):
        with tempfile.TemporaryDirectory() as folder:
            entry, rows = judged(Path(folder), options.method, seed, options.epochs)
        for one in rows:
            mark = "**" if one["n_clusters"] == entry["recommended"] else ""
            yield (
                f"| {seed} | {mark}{one['n_clusters']}{mark} | {one['agreement']:.3f} +- "
                f"{one['agreement_error']:.3f} | {one['silhouette']:.3f} | {one['reference']:.3f} "
                f"| {one['trained']:.3f} | {100 * one['price']:.2f} % | {one['gap']:.0e} "
                f"| {one['smallest']}-{one['largest']} | {one['acc']:.3f} | {one['nmi']:.3f} |"
            )
        yield f"\n{entry['reason']}\n"


def main() -> None:
    """Print the table as Markdown."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--method", default="secu", choices=["secu", "coke"])
    parser.add_argument("--seeds", type=int, default=3, help="runs (default 3)")
    parser.add_argument("--epochs", type=int, help="of each (default: by the data)")
    options = parser.parse_args()
    began = time.process_time()
    versions = f"torch {torch.__version__}, dualclust {dualclust.__version__}"
    print(f"{platform.machine()}, one core, Python {platform.python_version()}, {versions}\n")
    for line in table(options):
        print(line, flush=True)
    print(f"{time.process_time() - began:.0f} CPU seconds")


if __name__ == "__main__":
    main()
