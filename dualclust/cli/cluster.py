"""``dualclust cluster``: its options and its help. `dualclust.cluster.command` runs it."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

__all__ = ["EXAMPLES", "add_input_options", "register", "run_cluster"]

EXAMPLES = """\
examples:
  dualclust cluster X.npy -k 100
      sizes between 0.9 and 1.1 times n/k, results in X-clusters/
  dualclust cluster X.npy -k 1000 --lower 0.5 --upper inf --out result --report
      no cluster below half the mean size, no upper bound; with pictures
  dualclust cluster X.npy -k 1000 --metric euclidean --weights w.npy --gap 0
      squared distances, weighted rows, the best labels there are for the final centers
  dualclust cluster X.npy -k 1000 --checkpoint X.state --resume
      continue where an earlier call with --checkpoint X.state was stopped; same bytes in the end
  dualclust cluster X.parquet -k 100 --columns embedding --id url --table labels.parquet
      a table in, and a table with the same ids out
  torchrun --nproc-per-node 4 -m dualclust cluster X.npy -k 1000
      four processes share out the rows; same labels as one

X.npy holds n rows of d numbers (float16, 32, 64 or integers), the embeddings. Instead of it:
  X.npz, X.pt, X.safetensors, X.h5      the only array, or one by name: X.npz:features
  X.parquet, X.arrow, X.feather         a column of lists, or columns of numbers
  X.csv, X.tsv                          a line of names, then numbers
  shards/, 'shards/part-*.npy'          files of one format in natural order, one after the other
  X.bin --dtype float16 --dim 768       raw numbers
Parquet, Arrow and CSV need pyarrow (pip install 'dualclust[parquet]'), .h5 needs h5py
('dualclust[hdf5]'), .pt needs torch. Rows are read a block at a time and may be larger than memory;
packed files and tables are first copied, unpacked, into a temporary file (TMPDIR). With "cosine",
rows are scaled to unit length, so that clusters are directions. Written to the output folder, all
of it or, after an error, nothing:
  labels.npy    (n,) int64      centers.npy  (k, d): unit rows, or means
  sizes.csv     cluster, size, its bounds, its price
  result.json   sizes, violation, objective, its bound, the gap
  report.html, report.png      with --report: sizes, prices, margins, a map
With --table, also one line per row: its id (or number), cluster, margin, the second best cluster.
The margin is by how much score plus price of the cluster exceed those of the second best.
"""


def register(commands: Any) -> None:
    """Add the command to the subparsers of ``dualclust``."""
    parser = commands.add_parser(
        "cluster",
        help="cluster the rows of a file, with sizes between bounds",
        description="Cluster embeddings so that every cluster size lies between two bounds.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("input", type=Path, metavar="X.npy", help="n rows of d numbers: a file, folder or pattern")
    add("-k", type=int, required=True, metavar="K", help="number of clusters")
    add(
        "--lower",
        type=float,
        default=0.9,
        metavar="R",
        help="smallest size, in units of n/k (default 0.9)",
    )
    add(
        "--upper",
        type=float,
        default=1.1,
        metavar="R",
        help="largest size, in units of n/k; inf for none (default 1.1)",
    )
    add(
        "--rounding",
        choices=["inward", "outward", "nearest"],
        default="inward",
        help="how to round a bound to whole samples (default inward)",
    )
    add(
        "--metric",
        choices=["cosine", "euclidean"],
        default="cosine",
        help="cluster directions (cosine) or points (euclidean; default cosine)",
    )
    add_input_options(parser)
    add("--weights", type=Path, metavar="W.npy", help="(n,) weights of the rows, none negative")
    add(
        "--max-iter",
        type=int,
        default=20,
        metavar="N",
        help="limit of center updates (default 20)",
    )
    add(
        "--tol",
        type=float,
        default=1e-3,
        metavar="T",
        help="stop when at most this share of the labels changes (default 0.001)",
    )
    add(
        "--gap",
        type=float,
        default=1e-4,
        metavar="G",
        help="relative gap to prove for the final labels; 0 for optimal labels (default 0.0001)",
    )
    add(
        "--empty",
        choices=["relocate", "keep"],
        default="relocate",
        help="what to do with the center of an empty cluster (default relocate)",
    )
    add("--seed", type=int, default=0, help="seed of the starting centers (default 0)")
    add(
        "--checkpoint",
        type=Path,
        metavar="FILE",
        help="save the state to this file after each center update",
    )
    add("--resume", action="store_true", help="continue from the state in --checkpoint")
    add("--report", action="store_true", help="add report.html and report.png (needs matplotlib)")
    add("--out", type=Path, metavar="DIR", help="output folder (default X-clusters, next to X.npy)")
    add(
        "--table",
        type=Path,
        metavar="FILE",
        help="also write a line for each row, with its id: .csv, .parquet or .arrow",
    )
    add("--device", default="cpu", help="cpu (default), cuda, cuda:1, ...")
    add(
        "--threads",
        type=int,
        default=1,
        metavar="N",
        help="threads that multiply rows by centers (default 1); the result has the same bytes for "
        "any number of threads or ranks, but not always on another processor, BLAS or GPU",
    )
    add(
        "--timeout",
        type=float,
        default=1800.0,
        metavar="S",
        help="seconds to wait for another rank under torchrun (default 1800)",
    )


def run_cluster(options: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    from ..cluster import command

    return command.run_cluster(options)


def add_input_options(parser: argparse.ArgumentParser) -> None:
    """Add what tells the rows inside a file."""
    add = parser.add_argument_group("what to read of the file").add_argument
    add("--array", metavar="NAME", help="array of an .npz, .pt, .safetensors or .h5 file")
    add(
        "--columns",
        action="append",
        default=[],
        metavar="NAMES",
        help="columns of a table, with commas between; 'x*' names all that begin with x "
        "(default: the only column of lists, or all columns)",
    )
    add("--id", metavar="NAME", help="column or array with the ids of the rows, for --table")
    add(
        "--dtype",
        metavar="TYPE",
        help="of raw numbers (float16, bfloat16, int8, >f4, ...), or of the numbers of a CSV file",
    )
    add("--dim", type=int, metavar="D", help="numbers per row of raw numbers")
