"""The command ``dualclust``: one line in, files and a short report out, typed errors.

Exit codes are those of ``sysexits.h``: 0 done, 1 a claim of ``proofs`` does not stand, 2 usage,
65 unusable data, 66 missing input, 69 a missing extra, 70 a bug or a lost rank, 73 an output that
cannot be written, 130 interrupted. An error is one line on standard error and leaves no file.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from .. import __version__
from ..algos.core.errors import DualclustError, MissingExtraError
from ..train.config.methods import METHOD_OPTIONS
from . import proofs

__all__ = ["build_parser", "main"]

EXAMPLES = """\
examples:
  dualclust cluster X.npy -k 100 --lower 0.9 --upper 1.1
  dualclust train secu --data digits
  dualclust resume runs/secu-digits-seed0
  dualclust proofs
  dualclust demo
"""

CLUSTER_EXAMPLES = """\
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

# `train.methods.METHODS` has the same keys, but would load torch.
TRAIN_METHODS = tuple(METHOD_OPTIONS)

TRAIN_EXAMPLES = """\
examples:
  dualclust train secu --data digits
  dualclust train secu --data digits --seed 1 --set epochs=100 --set optim.lr=0.2
  dualclust train secu --data images.npz --recipe mine.toml --device cuda
  dualclust train propos --data photos/ --recipe mine.toml --set data.size=96
  torchrun --nproc-per-node 4 -m dualclust train coke --recipe coke_cifar10 --data CIFAR_FOLDER

settings come from a recipe (a TOML file, or the name of a built-in one), then from --set;
the run folder keeps them as config.toml.
"""


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        prog="dualclust",
        description="Size-constrained clustering and deep clustering.",
        epilog=EXAMPLES,
        formatter_class=raw,
    )
    parser.add_argument("--version", action="version", version=f"dualclust {__version__}")
    parser.add_argument("--debug", action="store_true", help="show tracebacks")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    cluster = commands.add_parser(
        "cluster",
        help="cluster the rows of a file, with sizes between bounds",
        description="Cluster embeddings so that every cluster size lies between two bounds.",
        epilog=CLUSTER_EXAMPLES,
        formatter_class=raw,
    )
    _add_cluster_options(cluster)

    train = commands.add_parser(
        "train",
        help="train a deep clustering method on images",
        description="Train a deep clustering method on unlabeled images.",
        epilog=TRAIN_EXAMPLES,
        formatter_class=raw,
    )
    train.add_argument("method", choices=TRAIN_METHODS, help="method to train")
    train.add_argument(
        "--data", default="digits", metavar="SOURCE", help="'digits' (built in), a folder or a file"
    )
    train.add_argument("--recipe", metavar="NAME", help="name of a built-in recipe, or a TOML file")
    train.add_argument("--seed", type=int, help="seed of every random number of the run")
    train.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="change one setting; may be repeated",
    )
    train.add_argument("--out", type=Path, metavar="DIR", help="folder of the run")
    train.add_argument("--device", default="cpu", help="cpu (default), cuda, cuda:1, ...")

    resume = commands.add_parser(
        "resume",
        help="continue a run from its last epoch",
        description="Continue a run; it ends as if it had never been interrupted.",
        epilog="example:\n  dualclust resume runs/secu-digits-seed0\n",
        formatter_class=raw,
    )
    resume.add_argument("run", type=Path, help="folder of a run of 'train'")
    resume.add_argument("--device", default="cpu", help="cpu (default), cuda, cuda:1, ...")

    demo = commands.add_parser(
        "demo",
        help="cluster handwritten digits with three seeds, and compare with k-means",
        description=(
            "Cluster scikit-learn's 1797 handwritten digits by SeCu with three seeds, and print\n"
            "accuracy and cluster sizes next to those of k-means on pixels."
        ),
        epilog="examples:\n  dualclust demo\n  dualclust demo --small --out /tmp/demo\n",
        formatter_class=raw,
    )
    demo.add_argument("--small", action="store_true", help="run one seed for a few epochs")
    demo.add_argument(
        "--out", type=Path, default=Path("runs/demo"), help="folder of the runs (default runs/demo)"
    )
    proofs.register(commands)
    return parser


def _add_cluster_options(cluster: argparse.ArgumentParser) -> None:
    add = cluster.add_argument
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
    _add_input_options(cluster)
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


def _add_input_options(cluster: argparse.ArgumentParser) -> None:
    """Add what tells the rows inside a file."""
    add = cluster.add_argument_group("what to read of the file").add_argument
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


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    options = build_parser().parse_args(arguments)
    try:
        code = _dispatch(options)
        sys.stdout.flush()
        return code
    except DualclustError as error:
        if options.debug:
            raise
        print(f"dualclust: error: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("dualclust: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output has stopped, e.g. `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if options.debug:
            raise
        what = f"{type(error).__name__}: {error}"
        print(f"dualclust: unexpected error: {what} (--debug shows where)", file=sys.stderr)
        return 70


def _dispatch(options: argparse.Namespace) -> int:
    if options.command == "cluster":
        from ..cluster.command import run_cluster
        from .first_call import announced_compilation

        with announced_compilation(sys.stderr):
            return run_cluster(options)
    if options.command == "proofs":
        return proofs.run_proofs(options)
    try:
        from . import train as train_commands
    except ModuleNotFoundError as error:
        msg = f"'{options.command}' needs {error.name}. To fix this: pip install 'dualclust[train]'"
        raise MissingExtraError(msg) from error
    return train_commands.run(options)
