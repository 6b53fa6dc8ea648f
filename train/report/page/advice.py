"""What to try next, from what a run shows: the diagnostics, not a model of the user's data."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from .state import RunState
from .symptoms import SYMPTOMS

__all__ = ["advice"]

UNSETTLED = 0.03
"""Churn in the last epoch above which labels are not settled."""

FALLING = 0.05
"""Share of the loss's fall in the last tenth of the epochs, above which it has not ended."""

MOVED = 0.1
"""Share of samples in other clusters than their best, above which bounds contradict the data."""

COPIES = 0.02
"""Share of samples that are copies of others, above which they weigh on the clusters."""

TWINS = 0.75
"""Share of a cluster's samples with one second choice, both ways, that makes two clusters one."""


def advice(state: RunState, parts: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """Return pairs of what is seen and what to try, the graver first.

    Parameters
    ----------
    state : RunState
    parts : mapping or None
        What `figures.found_parts` gave, where samples have been labeled.
    """
    found = [
        (f"Alarm in epoch {epoch}: {name}. {seen}.", SYMPTOMS[name].remedy)
        for name, (epoch, seen) in latest_alarms(state.records).items()
    ]
    if state.done:
        found += _unfinished(state.records)
    if parts is not None:
        found += _bounds(parts, state)
        found += _twins(parts)
        found += _copies(parts, state)
    return found


def latest_alarms(records: Sequence[Mapping[str, Any]]) -> dict[str, tuple[int, str]]:
    """Return the last epoch of each alarm, and what was seen there, deeper causes first."""
    last = {
        name: (int(record["epoch"]), str(seen))
        for record in records
        for name, seen in record.get("alarms", {}).items()
    }
    return {name: last[name] for name in SYMPTOMS if name in last}


def _unfinished(records: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    found = []
    churn = float(records[-1].get("churn") or 0.0)
    if churn > UNSETTLED:
        what = f"In the last epoch {churn:.1%} of the samples changed their cluster."
        found.append((what, "Train for more epochs, or lower optim.lr: labels are not settled."))
    losses = [float(r["loss"]) for r in records if isinstance(r.get("loss"), int | float)]
    tenth = max(1, len(losses) // 10)
    if len(losses) >= 10 and losses[0] > losses[-1]:
        late = (losses[-1 - tenth] - losses[-1]) / (max(losses) - losses[-1])
        if late > FALLING:
            what = f"{late:.0%} of the fall of the loss came in the last {tenth} epochs."
            found.append((what, "Train for more epochs: the loss was still falling."))
    return found


def _bounds(parts: Mapping[str, Any], state: RunState) -> list[tuple[str, str]]:
    share = parts["moved_total"] / state.n_samples
    if share <= MOVED:
        return []
    what = f"{share:.0%} of the samples would choose another cluster if there were no bounds."
    try_ = (
        "If groups of other sizes are plausible, widen assignment.lower and assignment.upper; if "
        "not, try another number of clusters."
    )
    return [(what, try_)]


def _twins(parts: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Clusters that would mostly exchange their samples with each other."""
    first = {i: nexts[0] for i, nexts in enumerate(parts["next"]) if nexts}
    pairs = [
        (i, int(j))
        for i, (j, share) in first.items()
        if i < j and share > TWINS and first.get(int(j), [-1, 0])[0] == i
        if first[int(j)][1] > TWINS
    ]
    k = len(parts["counts"])
    if not pairs or k < 4:
        return []
    named = ", ".join(f"{i} and {j}" for i, j in pairs[:5])
    more = f" and {len(pairs) - 5} more pairs" if len(pairs) > 5 else ""
    what = f"Clusters {named}{more} are each other's second choice for most of their samples."
    try_ = (
        f"Compare them in the gallery: if they show the same, try about {k - len(pairs)} clusters."
    )
    return [(what, try_)]


def _copies(parts: Mapping[str, Any], state: RunState) -> list[tuple[str, str]]:
    """Equal samples: more of them than a sample has neighbors are joined to each other alone."""
    copies = parts["alike"]["copies"] if parts["alike"] else 0
    if copies <= COPIES * state.n_samples:
        return []
    what = f"{copies / state.n_samples:.0%} of the samples are copies of others."
    return [(what, "Leave copies out: many of one picture become a cluster of their own.")]


def finite(value: Any) -> bool:
    """Whether a value of a record is a number that can be shown."""
    return isinstance(value, int | float) and math.isfinite(value)
