"""The command ``dualclust``: one line in, files and a short report out, typed errors.

Exit codes are those of ``sysexits.h``: 0 done, 1 a claim of ``proofs`` does not stand, 2 usage,
65 unusable data, 66 missing input, 69 a missing extra, 70 a bug or a lost rank, 71 out of memory,
73 an output that cannot be written, 75 stopped on request, with what there is saved (a state that
`resume` goes on from, or the labels so far), 130 interrupted at once. An error is one line on
standard error and leaves no file.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .. import __version__
from ..algos.core.errors import DualclustError, MissingExtraError
from ..common.extras import needs_train
from ..common.memory import memory_error
from ..common.stopping import StoppedError
from ..train.config.methods import METHOD_OPTIONS
from ..train.config.run import LOGS
from . import assign, cluster, comparison, docs, models, proofs
from .compile_notice import announced_compilation

__all__ = ["build_parser", "main"]

EXAMPLES = """\
examples:
  dualclust cluster X.npy -k 100 --lower 0.9 --upper 1.1
  dualclust assign X-clusters Y.npy
  dualclust train secu --data digits
  dualclust resume runs/secu-digits-seed0
  dualclust compare --data photos/ -k 10 --time 1h
  dualclust proofs
  dualclust demo
  dualclust docs
"""

TIMEOUT: dict[str, Any] = {
    "type": float,
    "default": 600.0,
    "metavar": "SECONDS",
    "help": "with several ranks: how long one waits for another (default 600)",
}

# `train.methods.METHODS` has the same keys, but would load torch.
TRAIN_METHODS = tuple(METHOD_OPTIONS)

TRAIN_EXAMPLES = """\
examples:
  dualclust train secu --data digits
  dualclust train secu --data digits --seed 1 --set epochs=100 --set optim.lr=0.2
  dualclust train --data photos/ -k 10
  dualclust train secu --data photos/ -k 5,10,20
  dualclust train propos --data embeddings.npy -k 50 --time 20m
  dualclust train secu --data photos/ -k 10 --encoder timm/vit_small_patch14_dinov2.lvd142m
  dualclust train secu --data images.npz --recipe mine.toml --device cuda --log tensorboard
  torchrun --nproc-per-node 4 -m dualclust train coke --recipe coke_cifar10 --data CIFAR_FOLDER

settings come from a recipe (a TOML file, or the name of a built-in one), or are chosen by looking
at --data (the recipes METHOD_photos and METHOD_embeddings), then from --set; the run folder keeps
them as config.toml. Sub-folders of pictures are parts of their names; with --classes they are what
the result is compared with, and no step reads them.
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

    cluster.register(commands)
    assign.register(commands)
    _register_train(commands)
    resume = commands.add_parser(
        "resume",
        help="continue a run from its last epoch",
        description="Continue a run; it ends as if it had never been interrupted.",
        epilog=(
            "examples:\n  dualclust resume runs/secu-digits-seed0\n"
            "  dualclust resume runs/secu-photos-seed0 -k 20\n"
            "      write labels, model and page again, for the head of 20 clusters\n"
        ),
        formatter_class=raw,
    )
    resume.add_argument("run", type=Path, help="folder of a run of 'train'")
    resume.add_argument(
        "-k",
        "--clusters",
        type=int,
        metavar="K",
        help="write the results of this head (default: the one of the settings, or chosen)",
    )
    resume.add_argument("--device", default="cpu", help="cpu (default), cuda, cuda:1, ...")
    resume.add_argument("--timeout", **TIMEOUT)

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
    models.register(commands)
    comparison.register(commands, TRAIN_METHODS)
    docs.register(commands)
    return parser


def _register_train(commands: Any) -> None:
    """Add ``train`` to the subparsers."""
    train = commands.add_parser(
        "train",
        help="train a deep clustering method on images",
        description="Train a deep clustering method on unlabeled images.",
        epilog=TRAIN_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    train.add_argument(
        "method",
        nargs="?",
        choices=TRAIN_METHODS,
        help="method to train (default: by the data; of photographs and embeddings a graph of "
        "neighbors, else secu)",
    )
    train.add_argument(
        "--data",
        metavar="SOURCE",
        help="'digits' (built in), a folder or a file (default: that of the recipe, or digits)",
    )
    train.add_argument("--recipe", metavar="NAME", help="name of a built-in recipe, or a TOML file")
    _add_encoder(train)
    train.add_argument(
        "-k",
        "--clusters",
        "--k-range",
        metavar="K",
        help="number of clusters; of several (5,10,20 or 5:20:5) the one that stands out without "
        "labels (secu and coke: a head for each)",
    )
    train.add_argument(
        "--time",
        metavar="T",
        help="fit network and epochs (not of beginnings) to a time, such as 20m (own data alone)",
    )
    train.add_argument(
        "--classes", action="store_true", help="sub-folders are classes, to compare clusters with"
    )
    train.add_argument(
        "--bad",
        choices=("skip", "stop"),
        help="picture files that cannot be read: left out and listed (default), or an error",
    )
    train.add_argument("--seed", type=int, help="seed of every random number of the run")
    train.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="change one setting; may be repeated",
    )
    train.add_argument("--out", type=Path, metavar="DIR", help="folder of the run")
    train.add_argument(
        "--log",
        action="append",
        choices=LOGS,
        metavar="NAME",
        help="also give the figures to tensorboard, wandb or mlflow; may be repeated",
    )
    train.add_argument("--device", default="cpu", help="cpu (default), cuda, cuda:1, ...")
    train.add_argument("--timeout", **TIMEOUT)


def _add_encoder(train: argparse.ArgumentParser) -> None:
    """Add what says which network begins with what it has learned."""
    train.add_argument(
        "--encoder",
        metavar="NAME",
        help="an encoder that has learned before: efficientnet/lite2, timm/NAME, hf/NAME, "
        "module:Class of your own, or a file .pt2 (torch.export), .pt (TorchScript), .onnx; where "
        "photographs come without a method, or for graph and temi, the default is the best known "
        "one whose weights are on this machine",
    )
    train.add_argument(
        "--weights",
        metavar="PATH",
        help="its weights on this machine: file or folder",
    )
    train.add_argument(
        "--fine-tune",
        action="store_true",
        help="let the encoder learn (default: its features are computed once)",
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    begun = time.perf_counter()
    parser = build_parser()
    options = parser.parse_args(arguments)
    if options.command == "train":
        options.begun = begun  # since when `--time` passes
        if not (options.method or options.data or options.recipe or options.encoder):
            parser.error("train takes a METHOD, or --data, which a method is chosen for")
    try:
        code = _dispatch(options)
        sys.stdout.flush()
        return code
    except StoppedError as end:
        print(f"dualclust: {end}", file=sys.stderr)
        return end.exit_code
    except DualclustError as error:
        if options.debug:
            raise
        print(f"dualclust: error: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt as stop:
        print("; ".join(["dualclust: interrupted", *map(str, stop.args)]), file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output has stopped, e.g. `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if options.debug:
            raise
        if (refused := memory_error(error, "give it less at once, or more memory")) is not None:
            print(f"dualclust: error: {refused}", file=sys.stderr)
            return refused.exit_code
        what = f"{type(error).__name__}: {error}"
        print(f"dualclust: unexpected error: {what} (--debug shows where)", file=sys.stderr)
        return 70


def _dispatch(options: argparse.Namespace) -> int:
    if options.command == "cluster":
        with announced_compilation(sys.stderr):
            return cluster.run_cluster(options)
    if options.command == "assign":
        with announced_compilation(sys.stderr):
            return assign.run_assign(options)
    if options.command == "proofs":
        return proofs.run_proofs(options)
    if options.command == "docs":
        return docs.run_docs(options)
    if options.command in models.COMMANDS:
        return models.run(options)
    if options.command in comparison.COMMANDS:
        return comparison.run(options)
    try:
        from . import train as train_commands
    except ModuleNotFoundError as error:
        msg = needs_train(f"'{options.command}'", error.name)
        raise MissingExtraError(msg) from error
    return train_commands.run(options)
