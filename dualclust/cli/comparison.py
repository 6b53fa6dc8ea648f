"""``dualclust report`` and ``compare``: runs side by side, those that are there and new ones."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..algos.core.errors import MissingExtraError
from ..common.extras import needs_train

__all__ = ["COMMANDS", "COMPARE_EXAMPLES", "EXAMPLES", "register", "run"]

COMMANDS = ("report", "compare")

EXAMPLES = """\
examples:
  dualclust report runs/secu-photos-seed0
      write the page of this run again, from its last checkpoint
  dualclust report runs/secu-photos-seed0 runs/coke-photos-seed0
  dualclust report runs/compare-photos-k10 --out today.html
      all runs in that folder, on one page, with a table as .csv and .md beside it

Runs may be going on. Figures are those that the runs have stored; labelings are compared where
two runs have labels of the same samples, matched by their ids. Only the page and the tables are
written.
"""

COMPARE_EXAMPLES = """\
examples:
  dualclust compare --data photos/ -k 10 --time 2h
  dualclust compare --data photos/ -k 10 --methods secu,coke --seeds 3 --epochs 50
  dualclust compare --data X.npy -k 50 --seeds 2
  dualclust compare --data photos/ -k 10 --features dino.npy

Each method gets settings by looking at the data, as 'dualclust train' chooses them, and the same
time (or epochs); k-means is added, on pixels (or on embeddings) and on --features. Each run has a
folder of its own in the output folder. The same command goes on where it was stopped: what has
ended is not repeated. At the end comparison.html, .csv and .md put the runs side by side, and say
which method is preferred without classes, or why none is.
"""


def register(commands: Any, methods: Sequence[str]) -> None:
    """Add the commands to the subparsers of ``dualclust``.

    Parameters
    ----------
    commands : the subparsers.
    methods : sequence of str
        Names of the methods that may be compared.
    """
    raw = argparse.RawDescriptionHelpFormatter
    report = commands.add_parser(
        "report",
        help="write the page of a run again, or put several runs side by side",
        description="Write the page of a run again, or a page that puts several side by side.",
        epilog=EXAMPLES,
        formatter_class=raw,
    )
    add = report.add_argument
    add("runs", nargs="+", type=Path, metavar="RUN", help="folder of a run, or of several runs")
    add(
        "--out",
        type=Path,
        metavar="FILE.html",
        help="page of several runs (default comparison.html in the folder that holds them all)",
    )
    add("--json", action="store_true", help="print the figures of several runs as JSON alone")
    add("--device", default="cpu", help="for the page of one run: cpu (default), cuda, ...")

    compare = commands.add_parser(
        "compare",
        help="train several methods on your data under one budget, and put them side by side",
        description="Train several methods under one budget, and put them side by side.",
        epilog=COMPARE_EXAMPLES,
        formatter_class=raw,
    )
    add = compare.add_argument
    add("--data", default="digits", metavar="SOURCE", help="as of 'train' (default digits)")
    add("-k", "--clusters", metavar="K", help="number of clusters")
    default = ",".join(name for name in methods if name not in ("graph", "self_label", "temi"))
    add("--methods", default=default, metavar="A,B", help=f"default {default}")
    add("--seeds", type=int, default=1, metavar="N", help="runs of each method (default 1)")
    shared = "time of all runs together, such as 2h, shared equally; one that is late ends earlier"
    add("--time", metavar="T", help=shared)
    add("--epochs", type=int, metavar="E", help="epochs of each run (default: by the data)")
    add(
        "--features",
        action="append",
        default=[],
        type=Path,
        metavar="X.npy",
        help="also k-means on these rows, one for each sample; may be repeated",
    )
    add("--encoder", metavar="NAME", help="for every method, as of 'train': timm/NAME or hf/NAME")
    add("--weights", metavar="PATH", help="its weights on this machine: file or folder")
    add("--fine-tune", action="store_true", help="let the encoder learn (default: it is frozen)")
    add("--no-baselines", action="store_true", help="leave out k-means on pixels or embeddings")
    add("--classes", action="store_true", help="sub-folders are classes, to compare clusters with")
    add("--bad", choices=("skip", "stop"), help="picture files that cannot be read, as of 'train'")
    add(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="change one setting of every method; may be repeated",
    )
    add("--out", type=Path, metavar="DIR", help="output folder (default runs/compare-DATA-kK)")
    add("--json", action="store_true", help="print the figures as JSON alone, when done")
    add("--device", default="cpu", help="cpu (default), cuda, cuda:1, ...")


def run(options: argparse.Namespace) -> int:
    """Run one of the two commands and return the exit code."""
    try:
        if options.command == "report":
            from .report_runs import run_report

            return run_report(options)
        from .compare_methods import run_compare

        return run_compare(options)
    except ModuleNotFoundError as error:
        if isinstance(error, MissingExtraError):
            raise
        msg = needs_train(f"'{options.command}'", error.name)
        raise MissingExtraError(msg) from error
