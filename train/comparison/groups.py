"""Which runs are repetitions of each other: those whose settings differ in the seed alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from .stored import StoredRun

__all__ = ["Group", "groups_of"]

_NOT_A_METHOD = ("seed", "threads", "log", "data.source")
"""Settings in which repetitions may differ: chance, speed, and where the same data lies."""


class Group(NamedTuple):
    """Runs of one method with the same settings, but for the seed.

    Attributes
    ----------
    name : str. The method, with a number where it has several settings.
    members : tuple of int. Positions of the runs.
    """

    name: str
    members: tuple[int, ...]


def groups_of(runs: Sequence[StoredRun]) -> list[Group]:
    """Return the groups of runs, in the order in which their methods come first."""
    keys = [_but_seed(run) for run in runs]
    methods: dict[str, list[Any]] = {}
    for run, key in zip(runs, keys, strict=True):
        variants = methods.setdefault(run.method, [])
        if key not in variants:
            variants.append(key)
    found = []
    for method, variants in methods.items():
        for number, key in enumerate(variants, 1):
            name = method if len(variants) == 1 else f"{method} ({number})"
            found.append(Group(name, tuple(i for i, own in enumerate(keys) if own == key)))
    return found


def _but_seed(run: StoredRun) -> tuple[Any, ...]:
    own = (item for item in run.settings.items() if item[0] not in _NOT_A_METHOD)
    return (run.method, run.n_clusters, *sorted((name, str(value)) for name, value in own))
