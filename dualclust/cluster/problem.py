"""The problem of ``dualclust cluster``: rows, bounds, weights, seeds, and where to start.

Small files are read first and all rows last: a wrong option ends the run before the first pass.
"""

from __future__ import annotations

import argparse
import hashlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .. import __version__
from ..algos.bounds.sizes import SizeBounds
from ..algos.core.errors import InvalidValueError
from ..algos.scores.sources import FeatureSource
from ..common.handshake import check_same
from ..common.ranks import Ranks
from .embeddings import check_embeddings, embedding_source, open_embeddings, read_weights
from .exchange import exchange_bytes, row_group
from .formats import Rows
from .options import selection_of
from .pairs import read_forbidden, read_seeds
from .places import device_place, on_host, placed
from .progress import Meter
from .shown import ShownColumn, open_shown
from .sizes import bounds_of
from .start import Given, given_start
from .threads import Multiply

__all__ = ["Inputs", "Problem", "digest_of", "open_problem", "read_inputs", "same_facts"]

OWN_TO_A_RANK = {"device", "input", "out", "progress", "threads", "timeout"}
"""Options that may differ between ranks: where a rank computes, and by which path it reads."""


class Inputs(NamedTuple):
    """What the options name, on the library and device that compute it.

    Attributes
    ----------
    rows : Rows
    bounds : SizeBounds
    weights : (n,) float64 array, or None
    fixed : (n,) int64 array, or None
    forbidden : (m, 2) int64 array, or None
    start : Given or None
        None where centers are drawn.
    shown : ShownColumn or None
        What the report shows of rows.
    """

    rows: Rows
    bounds: SizeBounds
    weights: Any
    fixed: Any
    forbidden: Any
    start: Given | None
    shown: ShownColumn | None


class Problem(NamedTuple):
    """The inputs, once all rows were looked at.

    Attributes
    ----------
    rows, bounds, weights, fixed, forbidden, start, shown
        As in `Inputs`.
    source : FeatureSource
        The rows as they are compared.
    digest : str
        Hash of all rows; empty without a checkpoint.
    """

    rows: Rows
    bounds: SizeBounds
    weights: Any
    fixed: Any
    forbidden: Any
    start: Given | None
    shown: ShownColumn | None
    source: FeatureSource
    digest: str


def read_inputs(options: argparse.Namespace) -> Inputs:
    """Read everything that the options name but the rows."""
    rows: Rows = open_embeddings(options.input, selection_of(options))
    n, k, device = rows.n_samples, options.k, options.device
    if n < k:
        msg = (
            f"-k must be at most the number of rows, got {k} for the {n} rows of {rows.name}"
            ". To fix this, ask for fewer clusters"
        )
        raise InvalidValueError(msg)
    bounds = bounds_of(options, n, **device_place(device))
    start = given_start(options.init, options.start, k, rows.n_features, options.metric)
    weights = None if options.weights is None else read_weights(options.weights, n)
    fixed = forbidden = None
    if options.seeds is not None:
        fixed = read_seeds(options.seeds, rows, k, options.id)
    if options.forbidden is not None:
        forbidden = read_forbidden(options.forbidden, rows, k, options.id)
    shown = None
    if options.show is not None:
        shown = open_shown(options.show, options.input, selection_of(options), n)
    weights, fixed, forbidden = (placed(a, device) for a in (weights, fixed, forbidden))
    return Inputs(rows, bounds, weights, fixed, forbidden, start, shown)


def open_problem(
    options: argparse.Namespace, ranks: Ranks, multiply: Multiply, meter: Meter
) -> Problem:
    """Read the inputs, and look at every row once.

    Raises
    ------
    UsageError
        On every rank, if one has other options, inputs or versions than another.
    """
    inputs = read_inputs(options)
    if ranks.world_size > 1:
        check_same(same_facts(options, inputs), lambda content: exchange_bytes(ranks, content))
    group = row_group(ranks, inputs.rows.n_samples)
    rows = meter.reading(inputs.rows)
    meter.begin("checking the rows", group.n_local, group.first_row)
    wanted = options.checkpoint is not None
    digest = check_embeddings(rows, options.metric, group, digest=wanted)
    source = embedding_source(rows, options.metric, group, device=options.device, multiply=multiply)
    return Problem(*inputs, source, digest)


def digest_of(*arrays: Any) -> str | None:
    """Return the hash of some arrays; None if there is none."""
    there = [on_host(array) for array in arrays if array is not None]
    if not there:
        return None
    return hashlib.sha256(b"".join(array.tobytes() for array in there)).hexdigest()


def same_facts(options: argparse.Namespace, inputs: Inputs) -> dict[str, str]:
    """Return what must be the same on all ranks; of rows what is known without reading them."""
    given = {
        f"--{name.replace('_', '-')}": "given" if isinstance(value, Path) else str(value)
        for name, value in vars(options).items()
        if name not in OWN_TO_A_RANK
    }
    rows, bounds, start = inputs.rows, inputs.bounds, inputs.start
    return {
        "dualclust": __version__,
        "numpy": np.__version__,
        **given,
        "rows of the input": f"{rows.n_samples} of {rows.n_features} {rows.dtype}",
        "the bounds": str(digest_of(bounds.lower, bounds.upper)),
        "the weights": str(digest_of(inputs.weights)),
        "the seeds": str(digest_of(inputs.fixed)),
        "the forbidden pairs": str(digest_of(inputs.forbidden)),
        "the start": str(digest_of(*(start or ()))),
    }
