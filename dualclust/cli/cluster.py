"""``dualclust cluster``: its options and its help. `dualclust.cluster.command` runs it."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..algos.bounds.sizes import ROUNDING
from ..algos.clustering.start import METRICS
from ..algos.core.errors import UsageError
from .group_options import add_group_options

__all__ = [
    "EXAMPLES",
    "add_bound_options",
    "add_machine_options",
    "add_reading_options",
    "add_shared_output",
    "register",
    "run_cluster",
]

OWN_METRICS = ("haversine", "precomputed")
"""Metrics of clusters with medoids (`dualclust.cluster.whole`, which takes a while to import)."""

DESCRIPTION = """\
Cluster embeddings so that every cluster size lies between two bounds.

The defaults are for embeddings: directions are compared (--metric cosine), and sizes stay between
0.9 and 1.1 of the mean size n/k. The estimator ConstrainedKMeans stands in for scikit-learn's
KMeans instead: there the default is euclidean, without bounds.
"""

EXAMPLES = """\
examples:
  dualclust cluster X.npy -k 100
      sizes between 0.9 and 1.1 times n/k, results in X-clusters/
  dualclust cluster X.npy -k 1000 --min-count 50 --upper inf --out result --report
      no cluster below 50 rows, no upper bound; with pictures
  dualclust cluster X.npy --k-range 5:50:5 --bounds-range 0.5:2,0.9:1.1
      which k stands out, and what bounds cost: a table and a picture in X-choice/
  dualclust cluster X.npy -k 10 --graph 15
      in a graph of neighbors, for embeddings of a trained encoder: docs/guides/graph.md
  dualclust cluster X.npy -k 1000 --dry-run
      what it would take: rows, sizes, memory, time, files; nothing is written
  dualclust cluster X.npy -k 1000 --invalid drop
      rows with NaN, infinity or missing values get the label -1
  dualclust cluster X.npy -k 1000 --metric euclidean --weights w.npy --gap 0
      squared distances, weighted rows, the best labels there are for the final centers
  dualclust cluster places.csv -k 20 --columns lat,lon --metric haversine --max-count 90
      depots at 20 of the places, at most 90 places each, by the sum of the ways in km
  dualclust cluster D.npy -k 20 --metric precomputed
      n x n distances of any kind, in the place of rows
  dualclust cluster pupils.csv -k 4 --metric euclidean --groups family --group-bounds at-most-one
      brothers in different classes; with --group-bounds 0.8:1.2 fair shares of each group
  dualclust cluster stops.csv -k 8 --metric euclidean --sizes demand --max-count 90 --lower 0
      trucks that carry 90 units, however many stops; demand is a column
  dualclust cluster X.npy -k 100 --links pairs.csv
      pairs of rows together or apart: pairs.csv has the columns row, other, link (must, cannot)
  dualclust cluster X.npy -k 100 --max-out 50
      the 50 rows that cost most stay out, with the label -1
  dualclust cluster X.parquet -k 100 --columns embedding --id url --table labels.parquet
      a table in, and a table with the same ids out
  dualclust cluster X.parquet -k 100 --columns embedding --report --show caption
      a page about the result, with the captions of exemplars and doubtful rows
  dualclust cluster X.parquet -k 100 --columns embedding --id url --seeds known.csv
      rows whose cluster is known: known.csv has the columns url and cluster
  dualclust cluster Y.npy -k 100 --start X-clusters --bounds sizes.csv
      from the centers and prices of an earlier result, with bounds of each cluster's own
  dualclust cluster X.npy -k 1000 --checkpoint X.state --resume
      continue where an earlier call with --checkpoint X.state was stopped; same bytes in the end
  torchrun --nproc-per-node 4 -m dualclust cluster X.npy -k 1000
      four processes share out the rows; same labels as one

X.npy holds n rows of d numbers (float16, 32, 64 or integers), the embeddings. Instead of it:
  X.npz, X.pt, X.safetensors, X.h5      the only array, or one by name: X.npz:features
  X.npz of scipy.sparse.save_npz        sparse rows, as of TF-IDF; without their zeros where wide
  X.parquet, X.arrow, X.feather         a column of lists, or columns of numbers
  X.csv, X.tsv, X.csv.gz                a line of names, then numbers
  X.txt, X.vec, X.w2v                   a word and its numbers in each line (GloVe, word2vec)
  X.fvecs, X.bvecs, X.fbin, ...         vectors of search engines
  shards/, 'shards/part-*.npy'          files of one format in natural order, one after the other
  X.bin --dtype float16 --dim 768       raw numbers
  -                                     standard input, in any of these formats
Parquet, Arrow and CSV need pyarrow (pip install 'dualclust[parquet]'), .h5 needs h5py
('dualclust[hdf5]'), .pt needs torch. Rows are read a block at a time and may be larger than memory;
packed files and tables are first copied, unpacked, into a temporary file (TMPDIR). With "cosine",
rows are scaled to unit length, so that clusters are directions. Written to the output folder, all
of it or, after an error, nothing:
  labels.npy    (n,) int64      centers.npy  (k, d): unit rows, or means
  medoids.npy   (k,) int64, instead of centers and model: --metric haversine, precomputed
  sizes.csv     cluster, size, min_count, max_count, price; --bounds reads it
  groups.csv    the same of each group in each cluster, instead of a model: --groups
  loads.csv     load, its bounds, overload, price of a unit, instead of a model: --sizes
  model.npz     centers, prices, sizes, metric: what 'dualclust assign' and --start read
  result.json   sizes, violation, objective, its bound, the gap
  rows.csv      with --report: exemplars, the most doubtful rows, rows that the bounds moved
  report.html   with --report: sizes, prices, margins, the price of balance, a map, such rows
With --table, also one line per row: its id (or number), cluster, margin, the second best cluster,
and the cluster it would choose without bounds. The margin is by how much score plus price of the
cluster exceed those of the second best.
"""


def register(commands: Any) -> None:
    """Add the command to the subparsers of ``dualclust``."""
    parser = commands.add_parser(
        "cluster",
        help="cluster the rows of a file, with sizes between bounds",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "input", type=Path, metavar="X.npy", help="n rows of d numbers: a file, folder or pattern"
    )
    number = parser.add_mutually_exclusive_group(required=True)
    number.add_argument("-k", type=int, metavar="K", help="number of clusters")
    number.add_argument(
        "--k-range",
        metavar="RANGE",
        help="compare several numbers of clusters instead: 5:50:5 (first, last, step), 5,10,20",
    )
    add_bound_options(parser, "default 0.9", "inf for none; default 1.1")
    add_group_options(parser)
    _add_choice(parser)
    _add_clustering(parser)
    _add_start(parser)
    add_reading_options(parser)
    _add_output(parser)
    _add_time(parser)
    add_machine_options(parser)


def run_cluster(options: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    if str(options.input) == "-":
        from ..cluster.standard_input import from_standard_input

        ending = "-clusters" if options.k_range is None else "-choice"
        with from_standard_input(options, ending):
            return run_cluster(options)
    one = "--graph" if options.graph is not None else None
    one = "--groups" if options.groups is not None else one
    one = "--sizes" if options.sizes is not None else one
    one = "--links" if options.links is not None else one
    one = "--max-out" if options.max_out is not None else one
    one = f"--metric {options.metric}" if options.metric in OWN_METRICS else one
    if options.k_range is not None and one is not None:
        msg = (
            f"{one} clusters one number of clusters, and --k-range compares several. To fix this, "
            "leave out one of them"
        )
        raise UsageError(msg)
    if options.k_range is not None:
        from ..cluster.choice import run_choice

        return run_choice(options)
    if options.bounds_range is not None or options.sample is not None:
        flag = "--sample" if options.bounds_range is None else "--bounds-range"
        msg = f"{flag} goes with --k-range. To fix this, replace -k by --k-range, or leave it out"
        raise UsageError(msg)
    from ..cluster import command

    return command.run_cluster(options)


def add_bound_options(
    parser: argparse.ArgumentParser, lower: str, upper: str, more: str = ""
) -> None:
    """Add bounds on sizes, with words for their defaults, and more words about all of them."""
    about = f"R is in units of the mean size n/k, N in rows; a side has one of them.{more}"
    add = parser.add_argument_group("bounds on the sizes", about).add_argument
    add("--lower", type=float, metavar="R", help=f"smallest size, in units of n/k ({lower})")
    add("--upper", type=float, metavar="R", help=f"largest size, in units of n/k ({upper})")
    add("--min-count", type=int, metavar="N", help="smallest size, in rows")
    add("--max-count", type=int, metavar="N", help="largest size, in rows")
    add(
        "--bounds",
        type=Path,
        metavar="FILE",
        help="a .csv with columns cluster, min_count, max_count: a line for each cluster",
    )
    add(
        "--rounding",
        choices=ROUNDING,
        help="of shares to whole rows: outward (default) keeps every share of n/k possible, "
        "inward keeps to the letter",
    )


def _add_choice(parser: argparse.ArgumentParser) -> None:
    about = "Writes choice.csv, choice.json and choice.png to the output folder X-choice/."
    add = parser.add_argument_group("with --k-range", about).add_argument
    add(
        "--bounds-range",
        metavar="PAIRS",
        help="bounds to compare, in units of n/k: 0.5:2,0.9:1.1 (default: --lower and --upper)",
    )
    add(
        "--sample",
        type=int,
        metavar="N",
        help="rows to cluster (default 128 for each cluster of the largest k, at least 4096); the "
        "result is judged on all rows",
    )


def _add_clustering(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("clustering").add_argument
    add(
        "--metric",
        choices=[*METRICS, *OWN_METRICS],
        help="cluster directions (cosine, the default) or points (euclidean) around their means; "
        "or, around rows of the input (medoids), by the sum of distances: places with latitude and "
        "longitude in degrees (haversine, in km), or a file of n x n distances (precomputed): "
        "docs/guides/distances.md",
    )
    add(
        "--graph",
        type=int,
        nargs="?",
        const=15,
        metavar="M",
        help="cluster in the graph of the M nearest neighbors (15) of each row, with bounds of 0.3 "
        "and 2.5: for embeddings of a trained encoder (docs/guides/graph.md)",
    )
    add(
        "--weights",
        type=Path,
        metavar="WHAT",
        help="weights of the rows, none negative: a column of the input, or a file (n numbers, "
        ".npy). Sizes count rows, not weights",
    )
    add(
        "--seeds",
        type=Path,
        metavar="WHAT",
        help="rows whose cluster is known: a column of the input (-1 or empty: not known), n "
        "labels (.npy), or a table (.csv, .parquet) with the columns cluster and row, or the "
        "column that --id names",
    )
    add(
        "--forbidden",
        type=Path,
        metavar="FILE",
        help="clusters that a row must not join: such a table, or m pairs row, cluster (.npy)",
    )
    add("--max-iter", type=int, default=100, metavar="N", help="most center updates (default 100)")
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


def _add_start(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("where to start").add_argument
    add(
        "--init",
        metavar="HOW",
        help="k-means++ (default), random for k rows, or a file of k rows of d numbers",
    )
    add(
        "--start",
        type=Path,
        metavar="MODEL",
        help="centers and prices of an earlier result: its folder, or model.npz",
    )
    add("--seed", type=int, default=0, help="seed of the starting centers (default 0)")
    add(
        "--checkpoint",
        type=Path,
        metavar="FILE",
        help="save the state to this file after each center update",
    )
    add("--resume", action="store_true", help="continue from the state in --checkpoint")


def add_reading_options(parser: argparse.ArgumentParser) -> None:
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
    add("--offset", type=int, metavar="B", help="bytes before the first of raw numbers (default 0)")
    add(
        "--invalid",
        choices=["stop", "drop"],
        default="stop",
        help="rows with NaN, infinity or a missing value, and for cosine those of zeros: an error "
        "(stop, the default), or left out, with the label -1 (drop)",
    )


def _add_time(parser: argparse.ArgumentParser) -> None:
    about = (
        "The first Ctrl-C ends a clustering like --time, with exit code 75;\n  "
        "with --checkpoint it saves the state instead. The second leaves at once."
    )
    parser.add_argument_group("when to stop", about).add_argument(
        "--time",
        type=float,
        metavar="S",
        help="end after about S seconds with the labels so far, inside their bounds, and the gap "
        "that is proven for them (default: when few labels change)",
    )


def _add_output(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("what to write").add_argument
    add("--out", type=Path, metavar="DIR", help="output folder (default X-clusters, next to X.npy)")
    add_shared_output(
        add, "time, phase, update, gap, pass, rows per second and time left, from the start,"
    )
    add("--report", action="store_true", help="add report.html, one page that loads nothing else")
    add(
        "--show",
        metavar="COLUMN",
        help="what the report shows of rows: a column of text, image paths or addresses, or a text "
        "file with one line for each row",
    )
    add("--dry-run", action="store_true", help="print what it would take, and write nothing")


def add_shared_output(add: Callable[..., Any], progress: str) -> None:
    """Add to a group what both commands say of what they write and how far they are."""
    add(
        "--overwrite",
        action="store_true",
        help="replace the output folder, if it holds the files of an earlier call and no other",
    )
    add(
        "--table",
        type=Path,
        metavar="FILE",
        help="also write a line for each row, with its id: .csv, .parquet or .arrow",
    )
    add("--json", action="store_true", help="print result.json, and nothing else, when done")
    add(
        "--progress",
        action=argparse.BooleanOptionalAction,
        help=f"{progress} on standard error (default: on a terminal)",
    )


def add_machine_options(parser: argparse.ArgumentParser) -> None:
    """Add what does not change the result."""
    add = parser.add_argument_group("machine").add_argument
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
