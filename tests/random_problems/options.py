"""Options of the offline solver at their extremes, so that small problems take every path.

By its defaults a problem of 2**16 scores is solved at once. With the sizes of `small_options` all
steps run on some tens of rows: samples, regions, passes, limits of memory, online passes.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import fields
from typing import Any

import numpy as np

from dualclust.algos.core.errors import InvalidValueError
from dualclust.algos.offline import DEFAULT_OPTIONS, SolverOptions

__all__ = ["draw_options"]

SMALL: dict[str, Any] = {
    "full_entries": 0, "few_clusters": 0, "max_entries": 64, "entries_per_row": 0.0,
    "min_sample_rows": 2, "sample_rows_per_cluster": 1, "sample_width": 2, "pass_width": 2,
    "typical_rows": 2, "chunk_rows": 3,
}  # fmt: skip
"""Sizes at which a problem of some tens of rows has all steps of one of millions."""

MOST = 2**20
"""Largest whole number drawn: a larger one changes nothing on some tens of rows."""

MOST_PASSES = 16
"""Largest number of passes: a larger one is time."""


def draw_options(rng: np.random.Generator) -> SolverOptions:
    """The defaults, or those of small problems, or any values; a part of them at extremes."""
    kind = rng.random()
    if kind < 0.35:
        return DEFAULT_OPTIONS
    chosen: dict[str, Any] = {}
    if kind < 0.85:
        chosen = {name: value for name, value in SMALL.items() if rng.random() < 0.9}
    share = rng.choice([0.0, 0.05, 0.2, 0.6])
    for field in fields(SolverOptions):
        if rng.random() >= share:
            continue
        value = _extreme(rng, field.name, field.default)
        with suppress(InvalidValueError):  # of what says nothing, as a sample of no rows
            SolverOptions(**{field.name: value})
            chosen[field.name] = value
    return SolverOptions(**chosen)


def _extreme(rng: np.random.Generator, name: str, default: Any) -> Any:
    """A value that the field's type allows: 0, 1, small, near the default, or huge."""
    if isinstance(default, int):
        most = MOST_PASSES if name == "max_passes" else MOST
        return int(rng.choice([0, 1, 2, 3, 5, 17, max(default // 2, 0), default, most]))
    values = [0.0, 1e-300, 1e-9, 0.1, 0.5, 0.999, 1.0, 2.0, 1e9, 1e300, default]
    return float(rng.choice(values))
