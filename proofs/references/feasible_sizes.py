"""When sizes between bounds exist, for z3: over all reals and over all whole numbers, at each K.

Sizes ``l_k <= n_k <= u_k`` with sum N exist if and only if ``l_k <= u_k`` for all k and
``sum l <= N <= sum u``. *Only if*: z3 finds no sizes without room. *If*: the sizes are written
down, each cluster taking as much of the rest as it may, and z3 finds no bounds with room that they
miss. Both in linear arithmetic, once over the reals and once over the integers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...algos import bounds
from ...algos.core.errors import InfeasibleBoundsError
from . import smt
from .smt import Term

__all__ = ["real_ratios_mislead", "room_unproven", "rounding_unproven"]


def _room(low: Sequence[Term], high: Sequence[Term], n: Term) -> Term:
    """Return what `bounds` demands before it accepts."""
    import z3

    ordered = [a <= b for a, b in zip(low, high, strict=True)]
    return z3.And(*ordered, z3.Sum(low) <= n, n <= z3.Sum(high))


def _filled(low: Sequence[Term], high: Sequence[Term], n: Term) -> list[Term]:
    """Return the sizes from the lower bounds up.

    Each cluster in turn takes as much of the rest as fits.
    """
    import z3

    rest, sizes = n - z3.Sum(low), []
    for a, b in zip(low, high, strict=True):
        more = z3.If(rest < b - a, rest, b - a)
        sizes.append(a + more)
        rest = rest - more
    return sizes


def _valid(sizes: Sequence[Term], low: Sequence[Term], high: Sequence[Term], n: Term) -> Term:
    import z3

    inside = [z3.And(a <= s, s <= b) for s, a, b in zip(sizes, low, high, strict=True)]
    return z3.And(*inside, z3.Sum(sizes) == n)


def room_unproven(k: int, *, whole: bool) -> float:
    """Return whether "sizes exist if and only if there is room" can fail for k clusters."""
    import z3

    several, one = (z3.Ints, z3.Int) if whole else (z3.Reals, z3.Real)
    low, high, sizes = (several([f"{name}{i}" for i in range(k)]) for name in "lus")
    n = one("n")
    room = _room(low, high, n)
    only_if = smt.unproven(_valid(sizes, low, high, n), z3.Not(room))
    return only_if + smt.unproven(room, z3.Not(_valid(_filled(low, high, n), low, high, n)))


def rounding_unproven() -> float:
    """Return whether a whole size can lie in [a, b] and not in [ceil(a), floor(b)], a and b real.

    With that, room for the rounded bounds decides ratios, a = gamma N / K and b = gamma' N / K.
    """
    import z3

    a, b, size = z3.Real("a"), z3.Real("b"), z3.Int("s")
    inside = z3.And(a <= z3.ToReal(size), z3.ToReal(size) <= b)
    rounded = z3.And(_ceil(a) <= size, size <= z3.ToInt(b))
    return smt.unproven(inside != rounded)


def _ceil(value: Term) -> Term:
    import z3

    return -z3.ToInt(-value)


def real_ratios_mislead(k: int) -> float:
    """Control: 0 if z3 finds N with room for gamma = gamma' = 1 in reals only; `bounds` refuses it.

    Without rounding, the condition on ratios promises sizes that do not exist.
    """
    import z3

    n, share = z3.Int("n"), z3.Real("a")
    found = smt.counterexample(n >= 100, k * share == z3.ToReal(n), k * _ceil(share) > n)
    if found is None:
        return math.inf
    try:
        bounds.SizeBounds.from_ratios(
            k, n_samples=int(found["n"]), lower=1.0, upper=1.0, rounding="inward"
        )
    except InfeasibleBoundsError:
        return 0.0
    return 1.0
