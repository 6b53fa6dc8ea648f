"""What is wrong with the options of ``dualclust cluster`` whatever the rows are.

Defaults that depend on other options are filled in here: a side without a count and without a file
of bounds has its share of n/k.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

from ..algos.bounds.sizes import ROUNDING
from ..algos.clustering.start import METRICS
from ..algos.core.checks import check_count, check_interval
from ..algos.core.errors import (
    InvalidValueError,
    MissingFileError,
    OutputError,
    UsageError,
)
from ..common.formats import Selection
from .checkpoint import is_state
from .embeddings import check_path
from .start import INITS
from .table import check_table
from .values_of_rows import column_of

__all__ = [
    "LOWER",
    "UPPER",
    "check_machine",
    "check_options",
    "check_paths",
    "check_sizes",
    "fill_in_metric",
    "fill_in_sizes",
    "selection_of",
]

BESIDES = ("show", "weights", "seeds", "groups", "sizes")
"""Options that may name a column of the input, which is then not clustered."""

LOWER, UPPER = 0.9, 1.1
"""Shares of n/k unless others are asked for."""

GRAPH_LOWER, GRAPH_UPPER = 0.3, 2.5
"""The same with --graph: data of encoders is seldom balanced."""

PATHS = (
    "weights",
    "groups",
    "sizes",
    "bounds",
    "seeds",
    "forbidden",
    "links",
    "start",
    "checkpoint",
    "table",
    "out",
)


def check_paths(options: argparse.Namespace, first: str = "X.npy") -> None:
    """Refuse names that no file can have.

    Parameters
    ----------
    options : argparse.Namespace
    first : str
        What the help calls the input.
    """
    check_path(first, options.input)
    for name in PATHS:
        path: Path | None = getattr(options, name, None)
        if path is not None:
            check_path(f"--{name}", path)


def check_options(options: argparse.Namespace) -> None:
    """Refuse options that are wrong whatever the rows are, and fill in defaults."""
    if options.table is not None:
        check_table(options.table, options.id)
    fill_in_metric(options)
    check_count("--seed", options.seed, 0)
    check_count("-k", options.k, 1)
    check_sizes(options)
    fill_in_sizes(options)
    check_count("--max-iter", options.max_iter, 0)
    check_interval("--tol", options.tol, 0.0, 1.0)
    check_interval("--gap", options.gap, 0.0, 1.0)
    if options.time is not None:
        check_interval("--time", options.time, 0.0, 1e9)
    if options.init is not None and options.start is not None:
        msg = "--init and --start both say where to start. To fix this, leave one of them out"
        raise UsageError(msg)
    if options.init is None and options.start is None:
        options.init = INITS[0]
    _check_checkpoint(options)
    if options.show is not None and not options.report:
        msg = "--show is about the page of --report. To fix this, add --report, or leave it out"
        raise UsageError(msg)


def check_machine(options: argparse.Namespace) -> None:
    """Refuse numbers of threads and seconds that mean nothing."""
    check_count("--threads", options.threads, 1)
    check_interval("--timeout", options.timeout, 0.0, 1e9, open_low=True)


def check_sizes(options: argparse.Namespace) -> None:
    """Refuse bounds that no rows could keep, two bounds for one side, and rounding of none.

    Raises
    ------
    UsageError
        For a share and a count of one side, a file of bounds and either, or ``--rounding`` where no
        side is a share.
    InvalidValueError
        For shares that are no shares of n/k, and negative counts.
    """
    for share, count in (("lower", "min_count"), ("upper", "max_count")):
        given = [name for name in (share, count) if getattr(options, name) is not None]
        flags = [f"--{name.replace('_', '-')}" for name in given]
        if len(flags) == 2:
            msg = (
                f"{flags[0]} and {flags[1]} both bound one side, the first in units of n/k and "
                f"the second in rows. To fix this, leave one of them out"
            )
            raise UsageError(msg)
        if flags and options.bounds is not None:
            msg = (
                f"{flags[0]} and --bounds both bound one side. To fix this, leave out {flags[0]}, "
                f"or change the column {count} of the file"
            )
            raise UsageError(msg)
    _check_share("--lower", options.lower, "--min-count")
    _check_share("--upper", options.upper, "--max-count")
    for name in ("min_count", "max_count"):
        if getattr(options, name) is not None:
            check_count(f"--{name.replace('_', '-')}", getattr(options, name), 0)
    _check_rounding(options)


def fill_in_metric(options: argparse.Namespace) -> None:
    """Fill in the default metric, and keep whether it was asked for."""
    options.metric_given = options.metric is not None
    options.metric = options.metric or METRICS[0]


def fill_in_sizes(options: argparse.Namespace) -> None:
    """Fill in the default share of each side that has no bound."""
    if options.bounds is None:
        in_graph = getattr(options, "graph", None) is not None
        if options.lower is None and options.min_count is None:
            options.lower = GRAPH_LOWER if in_graph else LOWER
        if options.upper is None and options.max_count is None:
            options.upper = GRAPH_UPPER if in_graph else UPPER


def _check_rounding(options: argparse.Namespace) -> None:
    """Refuse rounding of bounds that are all in rows, and fill in the default."""
    in_rows = options.min_count is not None and options.max_count is not None
    if options.rounding is not None and (in_rows or options.bounds is not None):
        which = "--min-count and --max-count are" if in_rows else "--bounds is"
        msg = (
            f"--rounding is of shares of n/k to whole rows, and {which} in rows. To fix this, "
            f"leave out --rounding"
        )
        raise UsageError(msg)
    options.rounding = options.rounding or ROUNDING[0]


def selection_of(options: argparse.Namespace) -> Selection:
    """Return what the options say about the file of rows."""
    columns = tuple(name for part in options.columns for name in part.split(",") if name)
    values = [getattr(options, name, None) for name in BESIDES]  # of `cluster` alone
    besides = [column_of(value) for value in values if value is not None]
    return Selection(
        options.array or "",
        columns,
        options.id,
        options.dtype,
        options.dim,
        options.offset,
        tuple(column for column in besides if column is not None),
        options.invalid == "drop",
    )


def _check_share(flag: str, share: float | None, count: str) -> None:
    """Refuse a share of n/k that all clusters cannot have: below 0, or on the wrong side of 1."""
    if share is None or (flag == "--upper" and share == math.inf):
        return
    check_interval(flag, share, 0.0, math.inf)
    is_lower = flag == "--lower"
    if share > 1.0 if is_lower else share < 1.0:
        limit = "at most 1" if is_lower else "at least 1"
        msg = (
            f"{flag} is in units of the mean size n/k and must be {limit}, got {share:g}. "
            f"To fix this, give a number of rows with {count}, or another share"
        )
        raise InvalidValueError(msg)


def _check_checkpoint(options: argparse.Namespace) -> None:
    checkpoint = options.checkpoint
    if options.resume and checkpoint is None:
        msg = (
            "--resume needs --checkpoint FILE, the state to continue from"
            ". To fix this, give --checkpoint FILE as well"
        )
        raise UsageError(msg)
    if options.resume and not checkpoint.is_file():
        msg = f"no checkpoint at {checkpoint}. To fix this, leave out --resume to start afresh"
        raise MissingFileError(msg)
    if checkpoint is not None and checkpoint.exists() and not options.resume:
        how = "continue with --resume, or " if is_state(checkpoint) else ""
        msg = f"{checkpoint} exists. To fix this, {how}name another file"
        raise OutputError(msg)
