"""Settings of methods that fit features in one go, and the method where none is named.

A graph of neighbors and TEMI need features: embeddings, or an encoder that has learned before.
Nothing reads a class.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...algos.core.errors import MissingExtraError
from ..config.run import (
    AssignmentConfig,
    DataConfig,
    EvaluationConfig,
    HeadsConfig,
    LossConfig,
    NetworkConfig,
    OptimConfig,
    RunConfig,
)
from ..data.look import Look
from ..networks.on_machine import DEFAULT
from .bases import kind_of_data
from .candidates import as_numbers, check_candidates
from .encoders import Wanted, put_encoder

__all__ = [
    "FROM_SCRATCH",
    "GRAPH",
    "ON_FEATURES",
    "feature_settings",
    "method_for",
]

GRAPH, TEMI = "graph", "temi"
ON_FEATURES = (GRAPH, TEMI)
"""Methods without steps of the loop: their time is that of the features, and of `fit`."""

FROM_SCRATCH = "secu"
"""The method of a network that learns from its start, where none is named."""

LOWER, UPPER = 0.3, 2.5
"""Bounds on sizes: of a folder with one class ten times as large as another, tighter ones split the
large class (benchmarks/results/photographs.md)."""

PAIRS, TEMPERATURE = 1024, 0.1
"""Pairs of a step and temperature of TEMI, as released."""


DECODED_ONCE = 5000
"""Pictures up to which their squares stay in memory: 160 pixels wide, 0.4 GB. Of more, a file is
decoded whenever it is needed: when it is checked, encoded, and shown."""


TOLD = {
    GRAPH: [("graph.neighbors = 15", "each sample is joined to its nearest; k-means in the graph")],
    TEMI: [("temi.neighbors = 50", "a head that begins at a graph learns from pairs of neighbors")],
}


def method_for(look: Look, *, encoder: bool, fine_tune: bool, there: bool, card: bool) -> str:
    """Return the method for data, where the user names none.

    Parameters
    ----------
    look : Look
    encoder, fine_tune : bool. Whether the user names an encoder, and lets it learn.
    there : bool. Whether `networks.on_machine` finds one.
    card : bool. Whether the run is on a card.

    Raises
    ------
    MissingExtraError
        Of photographs on a CPU, if there is no encoder that has learned before.

    Examples
    --------
    >>> photos = Look("files", 500, 3, 180, 135)
    >>> method_for(photos, encoder=False, fine_tune=False, there=True, card=False)
    'graph'
    >>> method_for(photos, encoder=False, fine_tune=False, there=False, card=True)
    'secu'
    """
    kind = kind_of_data(look)
    if kind == "embeddings":
        return GRAPH
    if fine_tune or (kind == "strokes" and not encoder):
        return FROM_SCRATCH
    if encoder or there:
        return GRAPH
    if card:
        return FROM_SCRATCH
    msg = (
        f"photographs on a CPU need an encoder that has learned before, and {DEFAULT} is "
        f"not installed: from scratch nothing is found in hours. To fix this: pip install "
        f"'dualclust[photos]'; or name one, --encoder timm/NAME, or a method to learn from "
        f"scratch all the same, such as {FROM_SCRATCH}"
    )
    raise MissingExtraError(msg)


def feature_settings(
    look: Look,
    method: str,
    source: str,
    clusters: int | Sequence[int],
    *,
    threads: int,
    data: DataConfig | None = None,
    encoder: Wanted | None = None,
) -> tuple[RunConfig, tuple[tuple[str, str], ...]]:
    """Return the settings of a graph of neighbors, or of TEMI, each choice with its reason.

    Parameters
    ----------
    look : Look
    method : str. One of `ON_FEATURES`.
    source : str
    clusters : int, 2 or more.
    threads : int
    data : DataConfig, optional
    encoder : Wanted, optional. Of images; without one features are their pixels.

    Raises
    ------
    UsageError
        If several numbers of clusters are asked for.
    """
    numbers = as_numbers(clusters)
    check_candidates(method, numbers)
    images = look.kind != "embeddings"
    config = RunConfig(
        method=method,
        epochs=1,
        threads=threads,
        data=replace(data or DataConfig(), source=source),
        network=NetworkConfig(name="pixels" if images else "none", layers=0),
        heads=HeadsConfig(clusters=numbers, target=numbers[0]),
        assignment=AssignmentConfig(lower=LOWER, upper=UPPER, rounding="outward"),
        optim=OptimConfig(frozen_epochs=0),
        evaluation=EvaluationConfig(views=0),
    )
    if method == TEMI:
        config = replace(
            config,
            batch_size=PAIRS,
            data=replace(config.data, standardize=True),
            loss=LossConfig(temperature=TEMPERATURE),
        )
    told: list[tuple[str, str]] = []
    if encoder is not None:
        config, about = put_encoder(config, look, encoder)
        config = replace(config, network=replace(config.network, last_norm=False))
        told += [one for one in about if not one[0].startswith("encoder.")]
        if look.kind == "files" and look.n <= DECODED_ONCE:
            config = replace(config, data=replace(config.data, decode="once"))
            told.append(('data.decode = "once"', "files are decoded once; their squares are kept"))
    elif images:
        told.append(('network.name = "pixels"', "no encoder: rows are pixels; one: --encoder"))
    told += TOLD[method]
    told += [
        (f"heads.clusters = [{numbers[0]}]", "-k"),
        (f"assignment.lower = {LOWER}", "in units of n/k: folders are uneven, so that clusters"),
        (f"assignment.upper = {UPPER}", "may be small, and may be large"),
    ]
    return config, tuple(told)
