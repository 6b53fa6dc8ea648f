"""Statements about all numbers at once: z3 finds none that violates one, or says which do.

A statement is proved by asking for its negation. "No such numbers" (unsat) is a proof for every
real input at the sizes written out; an answer is a counterexample in fractions. What z3 leaves
undecided proves nothing and counts as infinitely wrong.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

__all__ = ["Term", "counterexample", "unproven"]

Term = Any  # a z3 expression: z3 carries no types

EFFORT = 20_000_000  # of z3's own units, so that the verdict is the same on every machine


def unproven(*conditions: Term) -> float:
    """Return whether the conditions can be met: 0 if never, 1 if they can, inf if z3 does not know.

    Parameters
    ----------
    *conditions : z3 expressions
        The hypotheses of a statement, and its negation.
    """
    import z3

    verdict = _solver(conditions).check()
    if verdict == z3.unsat:
        return 0.0
    return 1.0 if verdict == z3.sat else math.inf


def counterexample(*conditions: Term) -> dict[str, Fraction] | None:
    """Return the values by name of the variables that meet the conditions.

    Return None where z3 has none.
    """
    import z3

    solver = _solver(conditions)
    if solver.check() != z3.sat:
        return None
    model = solver.model()
    found = {}
    for variable in model.decls():
        value = model[variable]
        exact = value.as_long() if z3.is_int_value(value) else value.as_fraction()
        found[variable.name()] = Fraction(exact)
    return found


def _solver(conditions: tuple[Term, ...]) -> Any:
    import z3

    solver = z3.Solver()
    solver.set("rlimit", EFFORT)
    solver.add(*conditions)
    return solver
