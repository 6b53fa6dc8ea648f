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
from ..algos.clustering.neighbor_graph import NeighborGraph
from ..algos.core.errors import InvalidValueError
from ..algos.scores.sources import FeatureSource
from ..common.formats import Rows
from ..common.handshake import check_same
from ..common.ranks import Ranks
from .embeddings import check_embeddings, embedding_source, invalid_rows, open_embeddings
from .exchange import exchange_bytes, row_group
from .graph import in_graph
from .groups import Groups
from .in_groups import read_groups
from .loads import load_bounds
from .options import selection_of
from .pairs import read_forbidden, read_links, read_seeds, seeds_of_column
from .places import device_place, on_host, placed
from .progress import Meter
from .shown import ShownColumn, open_shown
from .sizes import bounds_of
from .start import Given, given_start
from .table import WORD
from .threads import Multiply
from .valid_rows import KeptRows
from .values_of_rows import checked_weights, column_of, numbers_in_column, read_weights

__all__ = [
    "Inputs",
    "Problem",
    "digest_of",
    "open_problem",
    "open_valid",
    "read_inputs",
    "same_facts",
]

OWN_TO_A_RANK = {"device", "input", "metric_given", "out", "progress", "threads", "timeout"}
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
    groups : Groups or None
        On the host.
    links : pair of (a, 2) and (b, 2) int64 arrays, or None
        Rows that must be together, and rows that must not.
    sizes : (n,) float64 array, or None
        What rows count in bounds on loads; on the host.
    """

    rows: Rows
    bounds: SizeBounds
    weights: Any
    fixed: Any
    forbidden: Any
    start: Given | None
    shown: ShownColumn | None
    groups: Groups | None
    links: tuple[Any, Any] | None
    sizes: Any


class Problem(NamedTuple):
    """The inputs, once all rows were looked at.

    Attributes
    ----------
    rows, bounds, weights, fixed, forbidden, start, shown, groups, links, sizes
        As in `Inputs`.
    source : FeatureSource
        The rows as they are compared.
    digest : str
        Hash of all rows; empty without a checkpoint.
    graph : NeighborGraph or None
        With ``--graph``: then `source` has the coordinates of the rows in it.
    """

    rows: Rows
    bounds: SizeBounds
    weights: Any
    fixed: Any
    forbidden: Any
    start: Given | None
    shown: ShownColumn | None
    groups: Groups | None
    links: tuple[Any, Any] | None
    sizes: Any
    source: FeatureSource
    digest: str
    graph: NeighborGraph | None = None


def open_valid(
    options: argparse.Namespace, ranks: Ranks, meter: Meter, metric: str, *, digest: bool = False
) -> tuple[Rows, str]:
    """Open the rows; with ``--invalid drop`` without those that cannot be clustered.

    Returns
    -------
    rows : Rows
    digest : str
        Hash of all rows of the input, if it was asked for and they were looked at.
    """
    meter.begin(f"opening {options.input.name}")
    rows: Rows = open_embeddings(options.input, selection_of(options))
    if options.invalid != "drop":
        return rows, ""
    group = row_group(ranks, rows.n_samples)
    meter.begin("looking for rows that are not finite", group)
    dropped, hashed = invalid_rows(meter.reading(rows), metric, group, digest=digest)
    return (KeptRows(rows, dropped) if len(dropped) else rows), hashed


def read_inputs(options: argparse.Namespace, rows: Rows) -> Inputs:
    """Read everything that the options name but the rows."""
    n, k, device = rows.n_samples, options.k, options.device
    if n < k:
        msg = (
            f"-k must be at most the number of rows, got {k} for the {n} rows of {rows.name}"
            ". To fix this, ask for fewer clusters"
        )
        raise InvalidValueError(msg)
    place = device_place(device)
    if options.sizes is None:
        bounds = bounds_of(options, n, **place)
    else:  # on loads, which `loads` makes of the options
        bounds = SizeBounds.from_counts([0] * k, n_samples=n, **place)
    start = given_start(options.init, options.start, k, rows.n_features, options.metric)
    # Files about rows count those of the input.
    kept = rows if isinstance(rows, KeptRows) else None
    whole = rows if kept is None else kept.inside
    weights, sizes = (_numbers(options, name, whole.n_samples) for name in ("weights", "sizes"))
    fixed, forbidden = _pairs(options, whole)
    groups = read_groups(options, selection_of(options), whole.n_samples)
    links = None
    if options.links is not None:
        key = options.id or (WORD if whole.ids is not None else None)
        links = read_links(options.links, whole, key)
    if kept is not None:
        weights = None if weights is None else checked_weights("--weights", kept.without(weights))
        fixed = None if fixed is None else kept.without(fixed)
        if forbidden is not None:
            forbidden[:, 0] = kept.places(forbidden[:, 0])
            forbidden = forbidden[forbidden[:, 0] >= 0]
        sizes = None if sizes is None else checked_weights("--sizes", kept.without(sizes))
        if groups is not None:
            groups = groups._replace(numbers=kept.without(groups.numbers))
        if links is not None:
            moved = [kept.places(pairs.reshape(-1)).reshape(-1, 2) for pairs in links]
            links = moved[0][(moved[0] >= 0).all(axis=1)], moved[1][(moved[1] >= 0).all(axis=1)]
    shown = None
    if options.show is not None:
        shown = open_shown(options.show, options.input, selection_of(options), whole.n_samples)
    weights, fixed, forbidden = (placed(a, device) for a in (weights, fixed, forbidden))
    if sizes is not None:
        load_bounds(options, sizes)  # refused before anything is clustered
    return Inputs(rows, bounds, weights, fixed, forbidden, start, shown, groups, links, sizes)


def _numbers(options: argparse.Namespace, name: str, n: int) -> Any:
    """Read a number of at least 0 for each row, by the option of this name."""
    value = getattr(options, name)
    if value is None:
        return None
    column = column_of(value)
    if column is None:
        return read_weights(value, n)
    place = options.input, selection_of(options), n
    return checked_weights(f"--{name} {column}", numbers_in_column(f"--{name}", column, *place))


def _pairs(options: argparse.Namespace, rows: Rows) -> tuple[Any, Any]:
    """Return known clusters of rows, and pairs of a row and a cluster that it must not join."""
    fixed = forbidden = None
    key = options.id or (WORD if rows.ids is not None else None)
    if options.seeds is not None:
        column = column_of(options.seeds)
        if column is None:
            fixed = read_seeds(options.seeds, rows, options.k, key)
        else:
            place = options.input, selection_of(options), rows.n_samples
            values = numbers_in_column("--seeds", column, *place)
            fixed = seeds_of_column(column, values, options.k)
    if options.forbidden is not None:
        forbidden = read_forbidden(options.forbidden, rows, options.k, key)
    return fixed, forbidden


def open_problem(
    options: argparse.Namespace, ranks: Ranks, multiply: Multiply, meter: Meter
) -> Problem:
    """Read the inputs, and look at every row once.

    Raises
    ------
    UsageError
        On every rank, if one has other options, inputs or versions than another.
    """
    wanted = options.checkpoint is not None
    # Of a graph rows are centered first, so that one of zeros has a direction.
    metric = options.metric if options.graph is None else "euclidean"
    valid, digest = open_valid(options, ranks, meter, metric, digest=wanted)
    inputs = read_inputs(options, valid)
    if ranks.world_size > 1:
        check_same(same_facts(options, inputs), lambda content: exchange_bytes(ranks, content))
    group = row_group(ranks, inputs.rows.n_samples)
    rows = meter.reading(inputs.rows)
    if options.invalid != "drop":
        meter.begin("checking the rows", group)
        digest = check_embeddings(rows, metric, group, digest=wanted)
    source = embedding_source(rows, metric, group, device=options.device, multiply=multiply)
    if options.graph is None:
        return Problem(*inputs, source, digest)
    meter.begin("finding neighbors", group)
    graph, coordinates = in_graph(options, source)
    return Problem(*inputs, coordinates, digest, graph)


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
