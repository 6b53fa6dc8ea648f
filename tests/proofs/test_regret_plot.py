"""The figure of regret: its problems have the optimum they claim, and its numbers are the runs'."""

from __future__ import annotations

import csv
import math
import sys

import numpy as np
import pytest

from dualclust.algos.core.errors import MissingExtraError
from dualclust.algos.offline import assignment
from dualclust.algos.online import certificates
from dualclust.proofs import regret_plot


@pytest.mark.parametrize(("n", "k"), [(200, 2), (400, 10)])
def test_the_dual_value_is_the_optimum_but_for_a_few_units(n, k):
    scores, prices, limits = regret_plot.known_problem(n, k, 0)
    best = assignment.assign_exact(scores, limits).objective
    dual = certificates.dual_value(scores, prices, limits)
    assert best - 1e-9 <= dual <= best + 1.0
    assert certificates.dual_value(scores, 0.5 * prices, limits) > dual + 5.0 * (k > 2)


def test_the_orders_are_permutations_and_do_what_they_say():
    scores, prices, _ = regret_plot.known_problem(300, 3, 1)
    loss = scores.max(axis=1) - scores[np.arange(300), (scores + prices).argmax(axis=1)]
    for order in regret_plot.ORDERS:
        index = regret_plot._order(order, scores, prices, 1)
        assert sorted(index.tolist()) == list(range(300))
    assert (np.diff(loss[regret_plot._order("adversarial", scores, prices, 1)]) >= 0).all()
    best = (scores + prices).argmax(axis=1)[regret_plot._order("sorted", scores, prices, 1)]
    assert (np.diff(best) >= 0).all()


def test_runs_keep_what_the_theorem_says():
    for row in regret_plot.measure(500, 10, 0):
        if row.method == "plain update":
            assert row.violation <= row.bound_violation
            assert row.charged >= row.regret
        else:
            assert row.violation == 0
            assert row.charged == row.regret
        assert row.charged >= -1e-9


def test_a_power_has_its_exponent_and_a_curve_that_touches_zero_has_none():
    values = {n: np.asarray([2.0, 3.0, 2.5]) * n**0.7 for n in (10, 20, 40)}
    assert regret_plot._slope(values) == pytest.approx((0.7, 0.7, 0.7))
    assert regret_plot._slope({**values, 80: np.asarray([0.0, 1.0, 1.0])}) is None


def test_draw_writes_figure_and_data(tmp_path):
    folder, told = tmp_path / "made" / "here", []
    slopes = regret_plot.draw(
        folder, {4: (200, 400), 10: (200, 400)}, (4, 10), seeds=2, progress=told.append
    )
    assert (folder / "regret.png").read_bytes().startswith(b"\x89PNG")
    with (folder / "regret.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2 * 2 * 2 * 3 * 3
    assert tuple(rows[0]) == regret_plot.Row._fields
    assert len(told) == 4
    assert {s.quantity for s in slopes} == {"charged", "violation"}
    assert all(s.low <= s.slope <= s.high and math.isfinite(s.slope) for s in slopes)


def test_without_matplotlib_the_data_are_written(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match="matplotlib"):
        regret_plot.draw(tmp_path, {4: (200, 400)}, (4,), seeds=2)
    assert (tmp_path / "regret.csv").exists()
