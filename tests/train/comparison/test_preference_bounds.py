"""A method is preferred by agreements that are given: each threshold, and each figure."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dualclust.train.comparison import agreements_of, prefer
from dualclust.train.comparison.matching import Agreements
from dualclust.train.comparison.preference import CAVEAT
from tests.train.comparison.stored_runs import TRUTH, N, run_of

METHODS = ("secu", "coke", "propos")


def runs_of(*seeds):
    """As many runs of each method, all with the same labels."""
    return [
        run_of(method, seed, TRUTH)
        for method, n in zip(METHODS, seeds, strict=True)
        for seed in range(n)
    ]


def agreeing(runs, values):
    """ARIs by the methods of both runs, and by two runs of their names."""
    ari = np.eye(len(runs))
    for i, one in enumerate(runs):
        for j, other in enumerate(runs[:i]):
            methods = tuple(sorted((one.method, other.method)))
            value = values.get((other.name, one.name), values.get(methods, 0.9))
            ari[i, j] = ari[j, i] = value
    return Agreements(ari, ari, (), N)


def preferred(values, seeds=(2, 2, 2)):
    runs = runs_of(*seeds)
    return prefer(runs, agreeing(runs, values))


def test_one_must_be_found_by_others_clearly_more():
    """By more than two standard errors, which are 0.04 here: 0.1 more is enough."""
    near = {("coke", "propos"): 0.5, ("coke", "secu"): 0.7}
    spread = {
        ("secu-seed0", "propos-seed0"): 0.74,
        ("secu-seed0", "propos-seed1"): 0.74,
        ("secu-seed1", "propos-seed0"): 0.90,
        ("secu-seed1", "propos-seed1"): 0.90,
    }
    found = preferred(near | spread)
    secu, coke, propos = found.candidates
    # secu: 0.72 and 0.80; coke: 0.6 twice; propos: (0.74 + 0.9 + 1.0) / 4 = 0.66 twice.
    assert (secu.found, coke.found, propos.found) == pytest.approx((0.76, 0.6, 0.66))
    assert (secu.error, coke.error, propos.error) == pytest.approx((0.04, 0.0, 0.0))
    assert found.method == "secu"
    assert found.run == "secu-seed1"
    turned = {(f"secu-seed{'10'[int(a[-1])]}", b): value for (a, b), value in spread.items()}
    assert preferred(near | turned).run == "secu-seed0"
    assert found.notes == (CAVEAT,)
    assert found.verdict == (
        "secu is preferred: its 2 runs come back (ARI 0.90 with each other), and other methods "
        "agree with them most (ARI 0.76; next propos, 0.66). Look at secu-seed1 first."
    )
    found = preferred(near | spread | {("coke", "secu"): 0.65})  # 0.075 more than propos
    assert found.method is None
    assert "secu and propos are as good as each other: other methods agree with them by ARI" in (
        found.verdict
    )
    assert "and seeds move that by 0.04. More seeds may tell" in found.verdict
    assert found.notes == ()


@pytest.mark.parametrize(("mean", "method"), [(0.32, None), (0.28, "secu")])
def test_errors_of_both_count(mean, method):
    """Errors of 0.03 and 0.04 are 0.05 together: 0.09 more is not enough, and 0.11 is."""
    values = {("propos", "secu"): 0.8}
    for seed, change in enumerate((-0.06, 0.06)):
        for other in (0, 1):
            values[f"secu-seed{seed}", f"coke-seed{other}"] = 0.5 + change
            values[f"coke-seed{other}", f"propos-seed{seed}"] = mean + 4 / 3 * change
    found = preferred(values)
    secu, _, propos = found.candidates
    assert (secu.error, propos.error) == pytest.approx((0.03, 0.04))
    assert secu.found - propos.found == pytest.approx((0.5 - mean) / 2)
    assert found.method == method


@pytest.mark.parametrize(("value", "left"), [(0.75, False), (0.7499, True)])
def test_clusters_come_back_from_three_quarters_on(value, left):
    found = preferred({("coke", "coke"): value, ("propos", "secu"): 0.95})
    coke = found.candidates[1]
    assert (coke.repeated, bool(coke.against)) == (value, left)
    if left:
        assert coke.against == (
            "its clusters do not come back with another seed (ARI 0.75, and 0.75 is asked for)"
        )
        assert found.notes[0] == f"coke is left out: {coke.against}."


def test_repeated_is_the_mean_of_all_pairs_of_runs():
    values = {
        ("secu-seed0", "secu-seed1"): 0.9,
        ("secu-seed0", "secu-seed2"): 0.8,
        ("secu-seed1", "secu-seed2"): 0.76,
        ("coke", "secu"): 0.5,
        ("propos", "secu"): 0.7,
    }
    found = preferred(values, (3, 2, 1))
    secu, _, propos = found.candidates
    assert secu.repeated == pytest.approx(0.82)
    assert secu.found == pytest.approx((2 * 0.5 + 0.7) / 3)
    assert secu.runs == ("secu-seed0", "secu-seed1", "secu-seed2")
    assert math.isnan(propos.repeated)
    assert (propos.error, propos.against) == (0.0, "")
    assert found.verdict.startswith(
        "No method is preferred: chance cannot be told from merit by one run of a method (propos)."
    )
    assert (found.notes, found.run) == ((), None)


def test_what_is_not_known_is_left_out_of_means():
    runs = runs_of(2, 2, 2)
    agreements = agreeing(runs, {("coke", "secu"): 0.5})
    agreements.ari[0, 2:] = agreements.ari[2:, 0] = math.nan
    agreements.ari[1, 2] = math.nan
    secu = prefer(runs, agreements).candidates[0]
    assert secu.found == pytest.approx((0.5 + 0.9 + 0.9) / 3)
    assert secu.error == 0.0


@pytest.mark.parametrize(("moved", "against"), [(40, ""), (41, "bounds alone moved 10% of the ")])
def test_bounds_may_move_a_tenth(moved, against):
    runs = runs_of(2, 2, 2)
    nearest = np.where(np.arange(N) < moved, (TRUTH + 1) % 4, TRUTH)
    runs[2] = run_of("coke", 0, TRUTH, nearest=nearest)
    coke = prefer(runs, agreements_of(runs)).candidates[1]
    assert coke.against.startswith(against)
    assert bool(coke.against) == bool(against)
    if against:
        assert coke.against == "bounds alone moved 10% of the samples of coke-seed0"


def test_a_run_without_labels_speaks_against_its_method():
    runs = runs_of(2, 2, 2)
    runs[3] = run_of("coke", 1, None)
    found = prefer(runs, agreements_of(runs))
    assert found.candidates[1].against == "coke-seed1 has no labels"
    assert found.reason == "No method is preferred: 1 of 6 runs have not ended."
