"""Theorem R with upper bounds: what prices they allow (R4), what not (R7), and what is open (R8).

The proof of R4 is in `theorem_r.regret`, with the others.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..references import online_runs, price_steps
from ..references.online_runs import Floats
from ..registry.claims import Status, claim
from . import regret

__all__: list[str] = []


@claim(
    id="R4",
    paper="dualclust",
    place="Theorem R, 4",
    statement="With lower and upper bounds no price exceeds K (K-1) r / 2 + (K+1) (7K-6) eta / 6;"
    " with upper bounds alone (K-1) r + 2 K eta. Divided by h this bounds the violation.",
    hypotheses="0 <= l <= u <= 1, sum l <= 1 <= sum u, prices start at 0, K >= 2.",
    status=Status.HOLDS,
    derivation="Records of |rho - rho'|, and the sums of the m largest rho at the time of one."
    " Proof of R4 in `regret`; z3 proves its steps for K <= 4. That a bound independent of N"
    " exists was open; its best constant is.",
    covers=("online.duals.update_duals", "online.duals.assign_batch"),
)
def two_sided_is_bounded() -> float:
    """Return the worst excess over the bounds on random, tied, sorted and steered streams.

    Single steps are checked by z3 for all real numbers.
    """
    bound = regret.largest_price_two_sided
    worst = max(price_steps.two_sided_unproven(k, bound) for k in range(2, 5))
    for scores, low, high, h, b, run in online_runs.dyadic_runs(4, two_sided=True):
        k = scores.shape[-1]
        most = regret.largest_price_two_sided(k, regret.reach_of(scores), h * b)
        worst = max(worst, float(run.lower.max()) - most, float(run.upper.max()) - most)
        alone = online_runs.run_online(scores, 0.0 * low, high, step_size=h, batch=b)
        most = (k - 1) * regret.reach_of(scores) + 2 * k * h * b
        worst = max(worst, float(alone.upper.max()) - most)
    rows, high, h = _steered_upper()
    run = online_runs.run_online(rows, 0.0 * high, high, step_size=h)
    return max(worst, float(run.upper.max()) - (2.0 + 6.0 * h))


def _steered_upper() -> tuple[Floats, Floats, float]:
    """Return the stream that pushes the sum of three upper prices beyond 2 r.

    Return its rows, upper shares and h.
    """
    high, h = np.asarray([0.0, 0.5, 0.5]), 1.0 / 32.0
    calls = iter(range(10**6))

    def wish(prices: Floats, wins: list[int]) -> int:
        first = 0 if next(calls) // 300 % 2 else 1  # by turns: load 0 while both are free, load 1
        if first in wins:
            return first
        return max((1, 2), key=lambda j: float(prices[j]))

    return online_runs.steered_scores(wish, 2400, 0.0 * high, high, step_size=h), high, h


@claim(
    id="R7",
    paper="dualclust",
    place="Theorem R, 4",
    statement="The constant of R2 carries over to upper prices: sum rho' <= (K-1) r + K eta.",
    hypotheses="Upper bounds alone already refute it.",
    status=Status.REFUTED,
    derivation="""With u = (0, 1/2, 1/2) a price rho'_0 never falls. Load 0 and 1 to r while 2 is
    free: (1, 1, 0) r. Label 2 until 1 and 2 are level: (1, 1/2, 1/2) r, the sum unchanged. Now 0
    can win again, up to r above the others: (4/3, 1/3, 1/3) r. Load 1 once more to r: (4/3, 1, 0)
    r, whose sum is 7/3 r > 2 r; repeated, it tends to 5/2 r. R4 is what holds instead.""",
    counterexample="K = 3, u = (0, 1/2, 1/2), r = 1, h = 1/32, the stream of `_steered_upper`.",
    covers=("online.duals.update_duals",),
)
def one_sided_constant() -> float:
    """Return how far the sum of upper prices stays below 7/3 r less 2 eta, or below the bound."""
    rows, high, h = _steered_upper()
    run = online_runs.run_online(rows, 0.0 * high, high, step_size=h)
    most = float(run.upper.sum(axis=-1).max())
    return max(0.0, regret.sum_of_prices(3, 1.0, h) - most, 7.0 / 3.0 - 2.0 * h - most)


@claim(
    id="R8",
    paper="dualclust",
    place="Theorem R, open",
    statement="With lower and upper bounds no price exceeds (r + 2 eta) H_{K-1} + 2 eta.",
    hypotheses="As R4.",
    status=Status.OPEN,
    derivation="R4 proves a constant that is quadratic in K. For l = u the induction of R3 bounds"
    " rho - rho' from above, as unclipped steps inside M do not raise its sum over M; for l < u"
    " they can. No counterexample is known; the check is a search for one by steered"
    " adversaries, not a proof.",
    covers=("online.duals.update_duals",),
)
def two_sided_conjecture() -> float:
    """Return the worst excess over the conjectured bound; positive would refute it."""
    rng, worst, h = np.random.default_rng(8), 0.0, 1.0 / 32.0
    for trial in range(6):
        k, calls = 3 + trial % 3, iter(range(10**6))
        low = rng.dirichlet(np.ones(k)) * (1.0, 0.8, 0.5)[trial // 2]
        high = np.minimum(1.0, low * (1.0, 1.4, 2.5)[trial // 2])

        def wish(prices: Floats, wins: list[int], calls: Iterator[int] = calls) -> int:
            if next(calls) // 200 % 2:  # by turns: push cluster 0 down, raise it
                return 0 if 0 in wins else max(wins, key=lambda j: float(prices[j]))
            return regret.lowest_other(prices, wins)

        rows = online_runs.steered_scores(wish, 800, low, high, step_size=h)
        run = online_runs.run_online(rows, low, high, step_size=h)
        most = regret.largest_price(k, 1.0, 2.0 * h)
        worst = max(worst, float(run.lower.max()) - most, float(run.upper.max()) - most)
    return worst
