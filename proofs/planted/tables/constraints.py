"""Errors planted in the library for the claims about groups and pairs of rows."""

from __future__ import annotations

from ..planting import PlantedError
from . import errors_in

PLANTED: tuple[PlantedError, ...] = (
    *errors_in(
        "algos.offline.grouped.assignment._result",
        ("dropped", "(groups.n_groups, k)) - prices,\n", "(groups.n_groups, k)),\n"),
        ("sign", "proof.objective + proof.lost,\n", "proof.objective - 1.0,\n"),
        claims=("L1",),
    ),
    *errors_in(
        "algos.offline.grouped._search.problem_of",
        ("dropped", "(groups.lower > 0) | ", ""),
        ("swapped bounds", "lower=nodes(groups.lower, ", "lower=nodes(groups.upper, "),
        claims=("L1",),
    ),
    *errors_in(
        "algos.offline.grouped._relaxation.merged",
        ("dropped", "sums / (xp.reshape(lengths, (-1, 1)) / unit)", "sums"),
        ("wrong constant", "[[len(rows)] for rows", "[[2.0] for rows"),
        claims=("L2",),
    ),
    *errors_in(
        "algos.offline.grouped._relaxation.repaired",
        ("dropped", "if j not in taken and ", "if "),
        ("sign", "label < 0 or any", "label < 0 and any"),
        claims=("L3",),
    ),
    *errors_in(
        "algos.online._group_plan.GroupPlan._successors",
        ("wrong constant", "self.totals[v] < self.high[v]", "self.totals[v] <= self.high[v]"),
        ("dropped", "yield from (root + 1 + h for h in self.movable[v])", "yield from ()"),
        claims=("L4",),
    ),
    *errors_in(
        "algos.online._group_plan.GroupPlan._note",
        ("dropped", "max(self.counts[g][k], self.lower[g][k])", "self.counts[g][k]"),
        claims=("L4",),
    ),
)
