"""What z3 proved, refuted or does not know; and that its encodings are those of the code."""

from __future__ import annotations

import math
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
import z3

from dualclust.algos import bounds
from dualclust.algos.core.errors import InfeasibleBoundsError
from dualclust.algos.online import duals
from dualclust.proofs.references import feasible_sizes, price_steps, smt
from dualclust.proofs.theorem_r import regret


def test_proved_refuted_and_unknown(monkeypatch):
    x, y = z3.Reals("x y")
    assert smt.unproven(x > y, y > x) == 0.0
    assert smt.unproven(x > y, y > 1) == 1.0
    n = z3.Ints("a b c")
    cubes = [v > 0 for v in n] + [n[0] ** 3 + n[1] ** 3 == n[2] ** 3]
    monkeypatch.setattr(smt, "EFFORT", 1000)
    assert smt.unproven(*cubes) == math.inf
    assert smt.counterexample(*cubes) is None


def test_a_counterexample_is_in_fractions():
    x, n = z3.Real("x"), z3.Int("n")
    assert smt.counterexample(3 * x == 1, n == -2) == {"x": Fraction(1, 3), "n": Fraction(-2)}
    assert smt.counterexample(x > 0, x < 0) is None


@pytest.mark.parametrize("two_sided", [False, True])
def test_the_step_is_that_of_the_code(rng, two_sided):
    k, b, h = 3, 4, 0.5
    step = price_steps._step(k, z3.RealVal(1), two_sided=two_sided)
    for _ in range(20):
        lower, upper = rng.integers(0, 4, size=(2, k)) / 4.0
        upper = upper * two_sided
        low, high = rng.integers(0, 3, size=k) / 8.0, rng.integers(3, 9, size=k) / 8.0
        high = high if two_sided else np.ones(k)
        sizes = rng.multinomial(b, np.ones(k) / k)
        found = duals.update_duals(
            duals.Duals(lower, upper),
            sizes,
            b,
            duals.DualRule(lower_share=low, upper_share=high, step_size=h),
        )
        values = {"p": lower, "q": upper, "f": h * sizes, "g": h * b * low, "v": h * b * high}
        numbers = [
            (z3.Real(f"{name}{i}"), z3.RealVal(str(Fraction(v))))
            for name, row in values.items()
            for i, v in enumerate(row.tolist())
        ]
        for terms, wanted in ((step.lower_after, found.lower), (step.upper_after, found.upper)):
            got = [z3.simplify(z3.substitute(term, *numbers)).as_fraction() for term in terms]
            assert [float(value) for value in got] == wanted.tolist()


def test_what_z3_proves_it_does_not_prove_of_less():
    for k in (2, 3, 4):
        assert price_steps.sum_unproven(k, lambda k, r, eta: (k - 1) * r + (k - 1) * eta) == 1.0
        half = price_steps.two_sided_unproven(k, lambda k, r, eta: k * r / 4)
        assert half == 1.0
        assert price_steps.two_sided_unproven(k, regret.largest_price_two_sided) == 0.0


@pytest.mark.parametrize("without", price_steps.HYPOTHESES)
def test_a_run_that_the_code_does_not_repeat_is_no_control(without, monkeypatch):
    assert price_steps.run_stays_below(regret.sum_of_prices, without) == 0.0
    with monkeypatch.context() as patch:
        patch.setattr(duals, "update_duals", lambda prices, *a, **k: prices)
        assert price_steps.run_stays_below(regret.sum_of_prices, without) > 1.0
    assert price_steps.run_stays_below(regret.sum_of_prices, None) == math.inf


def test_the_condition_on_sizes_is_that_of_the_code():
    lists = [(a, b, c) for a in range(3) for b in range(3) for c in range(3)]
    for low in lists[::2]:
        for high in lists[::5]:
            terms = [[z3.IntVal(v) for v in row] for row in (low, high)]
            room = z3.is_true(z3.simplify(feasible_sizes._room(*terms, z3.IntVal(4))))
            try:
                bounds.SizeBounds.from_counts(list(low), list(high), n_samples=4)
            except InfeasibleBoundsError:
                assert not room
            else:
                assert room


def test_the_claims_load_without_the_provers():
    program = (
        "import sys; from dualclust.proofs import registry; registry.load();"
        "sys.exit(any(m in sys.modules for m in ('z3', 'cvxpy', 'torch')))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
