"""One step of the prices in real arithmetic, for z3: what it keeps, and what breaks without why.

**Encoding.** Prices, scores and the step may be divided by ``eta = h b`` without changing a label,
so that eta = 1 is no restriction and everything below is linear. A batch of m <= b samples takes
``f_k = c_k / b`` of them to cluster k, owes it ``g_k = m l_k / b`` and grants ``v_k = m u_k / b``:

``rho_k  <- max(0, rho_k  + g_k - f_k)``     ``sum g <= sum f = m / b <= 1``
``rho'_k <- max(0, rho'_k + f_k - v_k)``     ``g_k <= v_k, sum f <= sum v``

Scores of range r by which some row chose j exist if and only if ``pi_k <= pi_j + r`` for all k,
``pi = rho - rho'``: that is all a label says about prices. Real f, g and v cover every batch size,
every m, all shares and all scores at once; unsat is the induction step of theorem R at its K.

**Controls.** Without a hypothesis there must be a violation: a run from prices of 0, one sample a
step, that z3 finds in fractions and `duals.update_duals` repeats.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from ...algos.online import duals
from . import smt
from .smt import Term

__all__ = [
    "HYPOTHESES",
    "largest_unproven",
    "rise_unproven",
    "run_stays_below",
    "sum_unproven",
    "sums_of_largest",
    "two_sided_unproven",
]

HYPOTHESES = ("best labels", "shares of one")

Bound = Callable[[int, Term, Term], Term]  # of K, r and eta


class Step(NamedTuple):
    """Prices before and after a batch, and what is known about all of it; lists of length k."""

    lower: list[Term]
    upper: list[Term]
    lower_after: list[Term]
    upper_after: list[Term]
    known: list[Term]


def _moved(price: Term, change: Term) -> Term:
    """Return ``max(0, price + change)``."""
    import z3

    return z3.If(price + change > 0, price + change, 0)


def _wins(prices: Sequence[Term], j: int, reach: Term) -> Term:
    """Return the condition that some scores of range `reach` make j the best label."""
    import z3

    return z3.And([price <= prices[j] + reach for price in prices])


def _step(k: int, reach: Term, *, two_sided: bool) -> Step:
    """Return any batch at any prices; without upper bounds rho' is 0 and stays there."""
    import z3

    lower, taken, owed = (z3.Reals([f"{name}{i}" for i in range(k)]) for name in "pfg")
    upper, granted = (z3.Reals([f"{name}{i}" for i in range(k)]) for name in "qv")
    known = [value >= 0 for value in (*lower, *upper, *taken, *owed, reach)]
    known += [z3.Sum(taken) <= 1, z3.Sum(owed) <= z3.Sum(taken), z3.Sum(taken) <= z3.Sum(granted)]
    known += [g <= v for g, v in zip(owed, granted, strict=True)]
    known += [v <= z3.Sum(taken) for v in granted]
    if not two_sided:
        known += [q == 0 for q in upper] + [v == z3.Sum(taken) for v in granted]
    prices = [p - q for p, q in zip(lower, upper, strict=True)]
    known += [z3.Implies(f > 0, _wins(prices, j, reach)) for j, f in enumerate(taken)]
    lower_after = [_moved(p, g - f) for p, f, g in zip(lower, taken, owed, strict=True)]
    upper_after = [_moved(q, f - v) for q, f, v in zip(upper, taken, granted, strict=True)]
    return Step(lower, upper, lower_after, upper_after, known)


def rise_unproven(moved: Callable[[Term, Term], Term] | None = None) -> float:
    """Return whether, against R1, some price of any real numbers rises by less than its step."""
    import z3

    price, change = z3.Reals("p c")
    return smt.unproven(price >= 0, (moved or _moved)(price, change) - price < change)


def sum_unproven(k: int, bound: Bound) -> float:
    """Return whether, against R2, a step from ``sum rho <= bound`` leads beyond the bound."""
    import z3

    reach = z3.Real("r")
    step, most = _step(k, reach, two_sided=False), bound(k, reach, 1)
    start = smt.unproven(reach >= 0, most < 0)
    beyond = z3.Sum(step.lower_after) > most
    return start + smt.unproven(*step.known, z3.Sum(step.lower) <= most, beyond)


def sums_of_largest(k: int, reach: Term) -> list[Term]:
    """Return B_1 to B_k of R3 by their recursion, in units of eta."""
    bounds = [(k - 1) * reach + k]
    for m in range(k - 1, 0, -1):
        bounds.insert(0, m * (bounds[0] + reach) / (m + 1) + 1)
    return bounds


def largest_unproven(k: int) -> float:
    """Return whether, against R3, a step breaks one of ``T_m <= B_m``, which hold before it.

    T_m is the largest sum of m prices. By symmetry the one that breaks is of the first m.
    """
    import z3

    reach = z3.Real("r")
    step, most = _step(k, reach, two_sided=False), sums_of_largest(k, reach)
    for m in range(1, k + 1):
        step.known.extend(z3.Sum(some) <= most[m - 1] for some in combinations(step.lower, m))
    beyond = [z3.Sum(step.lower_after[:m]) > most[m - 1] for m in range(1, k + 1)]
    start = smt.unproven(reach >= 0, z3.Or([b < 0 for b in most]))
    return start + smt.unproven(*step.known, z3.Or(beyond))


def two_sided_unproven(k: int, bound: Bound) -> float:
    """Return whether a step breaks the invariants of R4 below a record X, or X exceeds the bound.

    The invariants: ``rho + rho' <= X``, ``sum rho' <= (k-1) X`` and ``E_m >= L_m``. All hold at
    prices of 0; a step that stays below X keeps them; the step that reaches X bounds it.
    """
    import z3

    reach, record = z3.Reals("r X")
    step = _step(k, reach, two_sided=True)
    least = [record]  # L_k, then down to L_1
    for m in range(k - 1, 0, -1):
        least.insert(0, m * (least[0] - reach) / (m + 2) - 1)

    def broken(lower: list[Term], upper: list[Term]) -> Term:
        room = [record - p for p in lower]
        few = [z3.Sum(e) < least[m - 1] for m in range(1, k + 1) for e in combinations(room, m)]
        loads = [p + q > record for p, q in zip(lower, upper, strict=True)]
        return z3.Or(*few, *loads, z3.Sum(upper) > (k - 1) * record)

    nothing = [z3.RealVal(0)] * k
    start = smt.unproven(reach >= 0, record >= 0, broken(nothing, nothing))
    before = [*step.known, z3.Not(broken(step.lower, step.upper))]
    after = [p - q for p, q in zip(step.lower_after, step.upper_after, strict=True)]
    below = [z3.And(p <= record, p >= -record) for p in after]
    kept = smt.unproven(*before, *below, broken(step.lower_after, step.upper_after))
    first = step.lower[0] - step.upper[0]
    reached = z3.Or(
        z3.And(first < record, after[0] == record), z3.And(first > -record, after[0] == -record)
    )
    return start + kept + smt.unproven(*before, *below, reached, record > bound(k, reach, 1))


def run_stays_below(bound: Bound, without: str | None, n_steps: int = 3) -> float:
    """Return how far every run of two clusters stays below the bound of R2 and a quarter.

    Parameters
    ----------
    bound : callable
        Of the number of clusters, the range r and eta.
    without : one of `HYPOTHESES`, or None for all of them
        "best labels": any label may come. "shares of one": the shares may add up to more.

    Returns
    -------
    float
        0 if z3 has a run beyond it and `duals.update_duals` repeats that run; inf without one.
    """
    import z3

    k, reach = 2, z3.Real("r")
    owed, labels = z3.Reals("g0 g1"), z3.Ints([f"y{t}" for t in range(n_steps)])
    known = [z3.And(g >= 0, g <= 1) for g in owed] + [reach >= 0]
    known += [z3.And(y >= 0, y < k) for y in labels]
    if without != HYPOTHESES[1]:
        known.append(z3.Sum(owed) <= 1)
    prices: list[Term] = [z3.RealVal(0)] * k
    for y in labels:
        if without != HYPOTHESES[0]:
            known += [z3.Implies(y == j, _wins(prices, j, reach)) for j in range(k)]
        prices = [_moved(p, owed[j] - z3.If(y == j, 1.0, 0.0)) for j, p in enumerate(prices)]
    found = smt.counterexample(*known, z3.Sum(prices) >= bound(k, reach, 1) + 0.25)
    if found is None:
        return float("inf")
    share, run = (
        np.asarray([float(found[f"g{j}"]) for j in range(k)]),
        duals.Duals(*np.zeros((2, k))),
    )
    for t in range(n_steps):
        sizes = (np.arange(k) == int(found[f"y{t}"])).astype(np.int64)
        run = duals.update_duals(
            run, sizes, 1, duals.DualRule(lower_share=share, upper_share=np.ones(k), step_size=1.0)
        )
    return max(0.0, float(bound(k, float(found["r"]), 1.0) + 0.25 - run.lower.sum()) - 1e-9)
