"""How far the labelings of several runs agree, on the samples that two of them share.

Samples are matched by their ids, the positions in the source. Where that could deceive, because the
sources differ or the files behind an id do, two runs are not compared, and the reason is told.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...algos.clustering.metrics import clustering_scores
from ..data.sources import BUILT_IN
from .stored import StoredLabels, StoredRun

__all__ = ["Agreements", "agreements_of"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Agreements(NamedTuple):
    """Agreement of each of r runs with each other one.

    Attributes
    ----------
    nmi, ari : (r, r) float64 arrays. Of the labels inside the bounds; NaN where two runs were not
        compared, 1 on the diagonal of a run that has labels.
    reasons : tuple of str. Why some pairs were not compared, each reason once.
    fewest : int. Samples that the pair with the fewest shares; 0 without a pair.
    """

    nmi: Floats
    ari: Floats
    reasons: tuple[str, ...]
    fewest: int


def agreements_of(runs: Sequence[StoredRun]) -> Agreements:
    """Compare each two of the runs that have labels.

    Notes
    -----
    Cost O(r^2 (n log n + k^2)) for r runs of n samples.
    """
    r = len(runs)
    nmi, ari = np.full((r, r), np.nan), np.full((r, r), np.nan)
    reasons: dict[str, None] = {}
    shared: list[int] = []
    for i, one in enumerate(runs):
        if one.found is None:
            reasons[f"{one.name} has no labels before its end ({one.state})"] = None
            continue
        nmi[i, i] = ari[i, i] = 1.0
        for j, other in enumerate(runs[:i]):
            if other.found is None:
                continue
            pair = _match(other, one)
            if isinstance(pair, str):
                reasons[pair] = None
                continue
            scores = clustering_scores(other.found.labels[pair[0]], one.found.labels[pair[1]])
            nmi[i, j] = nmi[j, i] = scores.nmi
            ari[i, j] = ari[j, i] = scores.ari
            shared.append(len(pair[0]))
    return Agreements(nmi, ari, tuple(reasons), min(shared, default=0))


def _match(one: StoredRun, other: StoredRun) -> tuple[Ints, Ints] | str:
    """Positions of the shared samples in both runs, or why there is nothing to compare."""
    a, b = one.found, other.found
    assert a is not None
    assert b is not None
    places = [(_place(run.source), run.split) for run in (one, other)]
    named = a.names is not None and b.names is not None
    if places[0] != places[1] and not named:
        told = " and ".join(" of ".join(reversed(place)) for place in places)
        return f"runs of different data are not compared: {told}"
    _, at, to = np.intersect1d(a.ids, b.ids, assume_unique=True, return_indices=True)
    if len(at) == 0:
        return f"{one.name} and {other.name} share no sample"
    if _differ(a, b, at, to):
        changed = "runs of different data are not compared" if places[0] != places[1] else ""
        what = changed or f"the data at {one.source} has changed between two runs"
        return f"{what}: {one.name} and {other.name} have other files or classes under one id"
    return at, to


def _differ(a: StoredLabels, b: StoredLabels, at: Ints, to: Ints) -> bool:
    """Whether what is known of the shared samples is not the same."""
    if a.names is not None and b.names is not None:
        if any(a.names[i] != b.names[j] for i, j in zip(at.tolist(), to.tolist(), strict=True)):
            return True
    return (
        a.classes is not None
        and b.classes is not None
        and not np.array_equal(a.classes[at], b.classes[to])
    )


def _place(source: str) -> str:
    return source if source in BUILT_IN else os.path.realpath(source)
