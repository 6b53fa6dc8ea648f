"""``dualclust predict``, ``embed`` and ``export``: what a trained run is for."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..algos.core.checks import check_count
from ..algos.core.errors import InvalidValueError, MissingExtraError, OutputError, UsageError
from ..common.extras import needs_train
from ..common.files import write_file
from ..common.tables import check_table_path, csv_text, write_table

if TYPE_CHECKING:
    from ..train.models import Labels, Model
    from ..train.models.arrays import Inputs

__all__ = ["COMMANDS", "register", "run"]

COMMANDS = ("predict", "embed", "export")

PREDICT_EXAMPLES = """\
examples:
  dualclust predict runs/secu-digits-seed0 digits --table labels.csv
  dualclust predict model.safetensors photos/ --table labels.parquet
  dualclust predict model.safetensors one.jpg two.png
      without --table the lines go to standard output

MODEL is the folder of a finished run, or a file of 'dualclust export'. DATA is what
'dualclust train --data' takes, or pictures. A line has the path of a picture (or the number of the
row), its cluster, the probability of that, the margin over the runner-up, and the runner-up.
A cluster is the one of the largest score (argmax), as the papers score images that training has not
seen. The labels that the run wrote for its own images, inside the bounds, are in assignments.csv;
--prices repeats them, ties aside, and keeps sizes near the bounds on samples like those.
"""

EMBED_EXAMPLES = """\
examples:
  dualclust embed runs/secu-digits-seed0 digits --out embeddings.npy
  dualclust embed model.safetensors photos/ --layer encoder --out embeddings.npy

Rows are in the order of the lines of 'dualclust predict'. "features" is what clusters are made of:
rows of unit length, or probabilities where the method clusters by those (gatcluster, mi_margin);
"encoder" is what the projector sees, which serves other tasks best.
"""

EXPORT_EXAMPLES = """\
examples:
  dualclust export runs/secu-digits-seed0 --out model.safetensors
      network, normalization, cut, centers, prices, bounds, versions; dualclust.load reads it
  dualclust export runs/secu-digits-seed0 --to torch.export --out model.pt2
      a program for torch.export.load: pixels in, scores and features out
  dualclust export runs/secu-digits-seed0 --to onnx --out model.onnx
      the same for onnxruntime (needs the extra 'onnx')
"""

SUFFIXES = {"safetensors": ".safetensors", "torch.export": ".pt2", "onnx": ".onnx"}


def register(commands: Any) -> None:
    """Add the commands to the subparsers of ``dualclust``."""
    raw = argparse.RawDescriptionHelpFormatter
    predict = commands.add_parser(
        "predict",
        help="label images or embeddings with a trained run",
        description="Label samples with a trained run, or with a model exported from one.",
        epilog=PREDICT_EXAMPLES,
        formatter_class=raw,
    )
    _add_input(predict)
    add = predict.add_argument
    add("--table", type=Path, metavar="FILE", help=".csv, .parquet, .arrow or .feather to write")
    add("--prices", action="store_true", help="add the prices of the run's bounds to the scores")

    embed = commands.add_parser(
        "embed",
        help="embed images with the network of a trained run",
        description="Write a row of numbers for each sample.",
        epilog=EMBED_EXAMPLES,
        formatter_class=raw,
    )
    _add_input(embed)
    add = embed.add_argument
    add("--out", type=Path, required=True, metavar="X.npy", help=".npy file to write, (n, d)")
    add(
        "--layer",
        choices=["features", "encoder"],
        default="features",
        help="which rows (default features)",
    )

    export = commands.add_parser(
        "export",
        help="write a trained run as one file, for use elsewhere",
        description="Write the model of a finished run as one file.",
        epilog=EXPORT_EXAMPLES,
        formatter_class=raw,
    )
    add = export.add_argument
    add("model", type=Path, metavar="MODEL", help="folder of a finished run, or its model")
    add(
        "--to",
        choices=list(SUFFIXES),
        default="safetensors",
        help="what to write (default safetensors)",
    )
    add("--out", type=Path, metavar="FILE", help="default: the name of the run, in this folder")


def _add_input(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("model", type=Path, metavar="MODEL", help="folder of a finished run, or an exported model")
    add("data", nargs="+", metavar="DATA", help="a folder or file of data, or pictures")
    add("--split", default="auto", help="of data that comes split: train, test, all, ...")
    add(
        "--bad",
        choices=("skip", "stop"),
        default="skip",
        help="files of a folder that cannot be read: left out (default), or an error",
    )
    add("--batch-size", type=int, default=256, metavar="N", help="samples of a pass (default 256)")
    add("--device", default="cpu", help="cpu (default), cuda, cuda:1, ...")


def run(options: argparse.Namespace) -> int:
    """Run one of the three commands and return the exit code."""
    if options.command != "export":
        check_count("--batch-size", options.batch_size, 1)
    try:
        return {"predict": _predict, "embed": _embed, "export": _export}[options.command](options)
    except ModuleNotFoundError as error:
        if isinstance(error, MissingExtraError):
            raise
        msg = needs_train(f"'{options.command}'", error.name)
        raise MissingExtraError(msg) from error


def _predict(options: argparse.Namespace) -> int:
    if options.table is not None:
        check_table_path(options.table, "--table")
    model, samples = _opened(options)
    found = model.label(samples, priced=options.prices, batch_size=options.batch_size)
    if options.table is None:
        print(csv_text(_columns(samples, found)), end="")
        return 0
    write_table(options.table, _columns(samples, found))
    counts = np.bincount(found.labels, minlength=model.n_clusters)
    how = "score plus price" if options.prices else "score (argmax; no bounds)"
    print(
        f"labels        {samples.n}, by the largest {how}",
        f"sizes         {counts.min()} to {counts.max()}, "
        f"{int((counts > 0).sum())} of {model.n_clusters} clusters",
        f"written to    {options.table}",
        sep="\n",
    )
    return 0


def _columns(samples: Inputs, found: Labels) -> dict[str, Any]:
    name, values = "row", np.arange(samples.n)
    own: Any = values
    if samples.names is not None:
        name, own = "path", list(samples.names)
    return {
        name: own,
        "cluster": found.labels,
        "probability": found.probability,
        "margin": found.margin,
        "runner_up": found.runner_up,
    }


def _embed(options: argparse.Namespace) -> int:
    if options.out.suffix.lower() != ".npy":
        msg = f"--out must end in .npy, got {str(options.out)!r}. To fix this, write X.npy"
        raise UsageError(msg)
    _check_free(options.out)
    model, samples = _opened(options)
    if samples.n == 0:
        msg = f"{options.data[0]} holds no samples"
        raise InvalidValueError(msg)
    parts = model.passes(samples, options.batch_size, model.embedder(options.layer))
    shape: list[int] = []
    write_file(options.out, _npy(parts, samples.n, shape), parents=True)
    print(f"written to    {options.out}, {shape[0]} rows of {shape[1]} numbers")
    return 0


def _npy(parts: Iterator[Any], n: int, shape: list[int]) -> Iterator[bytes]:
    """Yield an .npy file of n rows that come some at a time; `shape` gets its shape."""
    for part in parts:
        rows = part.numpy()
        if not shape:
            shape += [n, rows.shape[1]]
            head = io.BytesIO()
            form = {
                "descr": np.lib.format.dtype_to_descr(rows.dtype),
                "fortran_order": False,
                "shape": (n, rows.shape[1]),
            }
            np.lib.format.write_array_header_1_0(head, form)
            yield head.getvalue()
        yield rows.tobytes()


def _export(options: argparse.Namespace) -> int:
    from ..train.models import export_bytes

    out = options.out
    if out is None:
        stem = options.model.resolve().name if options.model.is_dir() else options.model.stem
        out = Path(stem + SUFFIXES[options.to])
    if out.suffix.lower() != SUFFIXES[options.to]:
        msg = (
            f"--out must end in {SUFFIXES[options.to]} for --to {options.to}, got {str(out)!r}"
            f". To fix this, write for example {out.stem or 'model'}{SUFFIXES[options.to]}"
        )
        raise UsageError(msg)
    _check_free(out)
    content = export_bytes(options.model, to=options.to)
    write_file(out, content, parents=True)
    print(f"written to    {out}, {len(content):,} bytes")
    return 0


def _opened(options: argparse.Namespace) -> tuple[Model, Inputs]:
    """The model on its device, and the samples."""
    from ..train.models import load_model
    from .train import check_device

    check_device(options.device)
    _check_split(options)
    model = load_model(options.model, device=options.device)
    data = options.data[0] if len(options.data) == 1 else options.data
    samples = model.inputs(data, split=options.split, bad=options.bad)
    if samples.skipped:
        msg = (
            f"dualclust: {len(samples.skipped)} files cannot be read and are left out, the first: "
            f"{samples.skipped[0][1]}"
        )
        print(msg, file=sys.stderr)
    return model, samples


def _check_split(options: argparse.Namespace) -> None:
    """Refuse a part of pictures that are named one by one."""
    from ..train.data.folders import SUFFIXES as PICTURES

    data = [Path(one) for one in options.data]
    one_by_one = len(data) > 1 or (data[0].suffix.lower() in PICTURES and not data[0].is_dir())
    if one_by_one and options.split != "auto":
        msg = (
            f"--split {options.split} is of a folder or archive that comes split, and "
            f"{data[0].name} is a picture. To fix this, leave out --split"
        )
        raise UsageError(msg)


def _check_free(path: Path) -> None:
    if path.exists():
        msg = f"{path} exists. To fix this, name another file with --out"
        raise OutputError(msg)
