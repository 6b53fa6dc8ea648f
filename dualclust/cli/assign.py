"""``dualclust assign``: its options and its help. `dualclust.cluster.assign` runs it."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ..algos.clustering.start import METRICS
from .cluster import (
    add_bound_options,
    add_machine_options,
    add_reading_options,
    add_shared_output,
)

__all__ = ["EXAMPLES", "register", "run_assign"]

DESCRIPTION = """\
Label new rows with the centers of an earlier result of 'dualclust cluster'.

By default every row gets its nearest center, and sizes are what they are. --bounded keeps the sizes
of these rows between bounds, by default the model's shares of all rows.
"""

EXAMPLES = """\
examples:
  dualclust assign X-clusters Y.npy
      the nearest center of each row of Y.npy, in Y-assigned/
  dualclust assign X-clusters Y.npy --bounded
      the best labels whose sizes are the shares of the model: between 0.9 and 1.1 of the mean
      size, if it was clustered so
  dualclust assign model.npz Y.npy --bounded --min-count 50 --upper inf
      at least 50 of these rows in each cluster, no upper bound
  dualclust assign X-clusters X.npy --prices --out again.npy
      at the stored prices, which give the rows of the model their labels again, but for ties
  dualclust assign X-clusters Y.parquet --columns embedding --id url --table Y-labels.parquet
      a table in, and a table with the same ids out

MODEL is an output folder of 'dualclust cluster', or the file model.npz in it. Y.npy is any file of
embeddings that 'dualclust cluster' reads, with as many numbers per row; it is read a block at a
time. Written to the output folder, all of it or, after an error, nothing:
  labels.npy    (n,) int64: the cluster of each row
  sizes.csv     cluster, size, min_count, max_count, price
  result.json   sizes, mean similarity or squared distance; with --bounded, the proven gap
"""


def register(commands: Any) -> None:
    """Add the command to the subparsers of ``dualclust``."""
    parser = commands.add_parser(
        "assign",
        help="label new rows with the centers of an earlier result",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("model", type=Path, metavar="MODEL", help="output folder of 'cluster', or its model.npz")
    add("input", type=Path, metavar="Y.npy", help="n rows of d numbers: a file, folder or pattern")
    _add_labeling(parser)
    default = "default: as the model"
    add_bound_options(parser, default, default, " A bound implies --bounded.")
    add_reading_options(parser)
    _add_output(parser)
    add_machine_options(parser)


def run_assign(options: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    if str(options.input) == "-":
        from ..cluster.standard_input import from_standard_input

        with from_standard_input(options, "-assigned"):
            return run_assign(options)
    from ..cluster import assign

    return assign.run_assign(options)


def _add_labeling(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("how to label").add_argument
    add(
        "--bounded",
        action="store_true",
        help="keep the sizes of these rows between the bounds below",
    )
    add(
        "--prices",
        action="store_true",
        help="add the stored prices to the scores, for rows like those of the model",
    )
    add(
        "--metric",
        choices=METRICS,
        help="an error unless the model has this metric (default: that of the model)",
    )
    add(
        "--gap",
        type=float,
        metavar="G",
        help="with --bounded: relative gap to prove; 0 for optimal labels (default 0.0001)",
    )


def _add_output(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("what to write").add_argument
    add(
        "--out",
        type=Path,
        metavar="OUT",
        help="output folder (default Y-assigned, next to Y.npy), or a file for the labels alone: "
        "its name ends in .npy",
    )
    add_shared_output(add, "rows per second and time left")
