"""The problem of ``dualclust cluster``: rows, bounds, weights, seeds, and where to start.

Small files are read first and all rows last: a wrong option ends the run before the first pass.
"""

from __future__ import annotations

import argparse
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..algos.bounds.sizes import SizeBounds
from ..algos.core.errors import InvalidValueError, MissingExtraError, UsageError
from ..algos.scores.sources import FeatureSource
from ..common.ranks import Ranks
from .embeddings import check_embeddings, embedding_source, open_embeddings, read_weights
from .formats import Rows
from .options import selection_of
from .pairs import read_forbidden, read_seeds
from .products import Multiply
from .progress import Meter
from .ranks import row_group
from .shown import ShownColumn, open_shown
from .sizes import bounds_of
from .start import Given, given_start

__all__ = ["Problem", "device_place", "on_host", "open_problem", "placed"]


class Problem(NamedTuple):
    """The problem, on the library and device that compute it.

    Attributes
    ----------
    rows : Rows
    source : FeatureSource
        The same rows as they are compared.
    bounds : SizeBounds
    weights : (n,) float64 array, or None
    fixed : (n,) int64 array, or None
    forbidden : (m, 2) int64 array, or None
    start : Given or None
        None where centers are drawn.
    shown : ShownColumn or None
        What the report shows of rows.
    digest : str
        Hash of all rows; empty without a checkpoint.
    """

    rows: Rows
    source: FeatureSource
    bounds: SizeBounds
    weights: Any
    fixed: Any
    forbidden: Any
    start: Given | None
    shown: ShownColumn | None
    digest: str


def open_problem(
    options: argparse.Namespace, ranks: Ranks, multiply: Multiply, meter: Meter
) -> Problem:
    """Read everything that the options name, and look at every row once."""
    rows: Rows = open_embeddings(options.input, selection_of(options))
    n, k, device = rows.n_samples, options.k, options.device
    if n < k:
        msg = f"-k must be at most the number of rows, got {k} for the {n} rows of {rows.name}"
        raise InvalidValueError(msg)
    bounds = bounds_of(options, n, **device_place(device))
    start = given_start(options.init, options.start, k, rows.n_features, options.metric)
    weights = None if options.weights is None else read_weights(options.weights, n)
    fixed = forbidden = None
    if options.seeds is not None:
        fixed = read_seeds(options.seeds, rows, k, options.id)
    if options.forbidden is not None:
        forbidden = read_forbidden(options.forbidden, rows, k, options.id)
    shown = open_shown(options.show, options.input, selection_of(options), n)
    group = row_group(ranks, n)
    meter.begin("checking the rows", group.n_local, group.first_row)
    wanted = options.checkpoint is not None
    digest = check_embeddings(meter.reading(rows), options.metric, group, digest=wanted)
    source = embedding_source(
        meter.reading(rows), options.metric, group, device=device, multiply=multiply
    )
    weights, fixed, forbidden = (placed(a, device) for a in (weights, fixed, forbidden))
    return Problem(rows, source, bounds, weights, fixed, forbidden, start, shown, digest)


def device_place(device: str) -> dict[str, Any]:
    """Return the library and the device of new arrays, as keywords; none on the host.

    Raises
    ------
    MissingExtraError
        If the device needs torch, and it is not installed.
    UsageError
        If the device is not there.
    """
    return {} if device == "cpu" else {"xp": _torch_on(device), "device": device}


def placed(array: NDArray[Any] | None, device: str) -> Any:
    """Return an array on the device that computes; None stays None."""
    if array is None or device == "cpu":
        return array
    import torch

    return torch.from_numpy(array).to(device)


def on_host(array: Any) -> NDArray[Any]:
    """Return an array as a NumPy array."""
    return array if isinstance(array, np.ndarray) else np.asarray(array.cpu())


def _torch_on(device: str) -> Any:
    """Return torch if it has the device."""
    try:
        import torch
    except ImportError as error:
        msg = f"--device {device} needs torch. To fix this: pip install 'dualclust[train]'"
        raise MissingExtraError(msg) from error
    if device.partition(":")[0] == "meta":
        msg = "--device meta has no values to compute with. To fix this, name cpu or cuda"
        raise UsageError(msg)
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:  # the second: torch built without CUDA
        msg = f"--device {device} is not there: {str(error).splitlines()[0]}"
        raise UsageError(msg) from error
    return torch
