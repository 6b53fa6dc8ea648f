"""A method is preferred without classes only where seeds and other methods both say so."""

from __future__ import annotations

import re

import numpy as np
import pytest

from dualclust.train.comparison import agreements_of, prefer
from tests.train.comparison.stored_runs import TRUTH, K, N, noisy, run_of

OTHER = (np.arange(N) // 7) % K  # another partition, the same with every seed
SHARES = {"secu": 0.01, "coke": 0.04, "propos": 0.04}


def runs_of(**changes):
    """Three methods near the truth, the first nearest, and one that repeats something else."""
    runs = [
        run_of(method, seed, noisy(share, 10 * at + seed))
        for at, (method, share) in enumerate(SHARES.items())
        for seed in (0, 1)
    ]
    runs += [run_of("kmeans-pixels", seed, OTHER, baseline=True) for seed in (0, 1)]
    return [run._replace(**changes.get(run.method, {})) for run in runs]


def preferred(runs):
    return prefer(runs, agreements_of(runs))


def test_the_method_that_comes_back_and_that_others_find_is_preferred():
    runs = runs_of()
    found = preferred(runs)
    assert found.method == "secu"
    assert found.run in ("secu-seed0", "secu-seed1")
    assert found.reason.startswith("secu is preferred: its 2 runs come back (ARI 0.9")
    assert "No class was read. Agreement is evidence, not proof" in found.reason
    ari = agreements_of(runs).ari
    secu, kmeans = found.candidates[0], found.candidates[3]
    assert secu.repeated == pytest.approx(ari[0, 1])
    assert secu.found == pytest.approx(ari[:2, 2:].mean())
    assert kmeans.repeated == 1.0
    assert kmeans.found == pytest.approx(ari[6:, :6].mean())
    spread = np.std(ari[:2, 2:].mean(axis=1), ddof=1) / np.sqrt(2)
    assert secu.error == pytest.approx(spread)


def test_a_method_that_only_repeats_itself_is_not_preferred():
    runs = [run for run in runs_of() if run.method in ("kmeans-pixels", "coke", "propos")]
    found = preferred(runs)
    assert found.method is None
    assert re.search("(coke and propos|propos and coke) are as good as each other", found.verdict)


def test_one_method_that_is_left_is_not_preferred_for_that():
    runs = [run_of(m, s, noisy(0.3, 10 * at + s)) for at, m in enumerate(SHARES) for s in (0, 1)]
    found = preferred(runs)
    assert found.verdict == "No method is preferred: none is left."
    assert len(found.notes) == 3
    found = preferred([*runs, *(run_of("kmeans-pixels", s, OTHER) for s in (0, 1))])
    assert found.verdict == "No method is preferred: kmeans-pixels alone is left."


NAN = {"epoch": 2, "loss": None, "alarms": {"not finite": "The loss became nan"}}
ALARM = {"epoch": 2, "loss": 1.0, "alarms": {"dead head": "seen"}}


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"records": (ALARM,)}, "secu-seed0 ended with an alarm (dead head)"),
        ({"records": (NAN,), "found": None}, "secu-seed0 ended with an alarm (not finite)"),
    ],
)
def test_a_method_that_failed_is_left_out(changes, why):
    found = preferred(runs_of(secu=changes))
    assert found.method != "secu"
    assert f"secu is left out: {why}." in found.reason


def with_labels(make):
    """The runs, with other labels of the first method."""
    runs = runs_of()
    for seed in (0, 1):
        labels = make(seed)
        nearest = labels
        if isinstance(labels, tuple):
            labels, nearest = labels
        runs[seed] = run_of("secu", seed, labels, nearest=nearest)
    return runs


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda seed: np.where(TRUTH == 3, 0, TRUTH), "has 1 of 4 clusters empty"),
        (lambda seed: (noisy(0.01, seed), noisy(0.2, 5)), "of the samples of secu-seed0"),
        (lambda seed: noisy(0.3, seed), "its clusters do not come back with another seed (ARI 0."),
    ],
    ids=["empty", "moved", "other seed"],
)
def test_labels_that_speak_against_a_method(make, why):
    found = preferred(with_labels(make))
    assert found.method != "secu"
    assert "secu is left out: " in found.reason
    assert why in found.reason


def test_bounds_that_move_few_samples_speak_against_nothing():
    found = preferred(with_labels(lambda seed: (noisy(0.01, seed), noisy(0.08, 5))))
    assert found.method == "secu"


def unfit():
    runs = runs_of()
    yield "one seed", runs[::2], "cannot be told from merit by one run of a method (secu, coke, "
    yield "one method", runs[:2], "there is one method, and two agree with each other alike"
    yield "two methods", runs[:4], "there are two methods, and two agree with each other alike"
    going = [*runs[:-1], run_of("kmeans-pixels", 1, None)]
    yield "going on", going, "1 of 8 runs have not ended"
    other = [*runs[:-1], runs[-1]._replace(n_clusters=5), runs[-1]._replace(n_clusters=5)]
    yield "other k", other, "the runs have 4 and 5 clusters"
    yield "data", [*runs[:-1], runs[-1]._replace(source="x.npz")], "not all runs are of the same"


@pytest.mark.parametrize(
    ("runs", "why"), [case[1:] for case in unfit()], ids=[c[0] for c in unfit()]
)
def test_where_nothing_can_be_said_the_reason_is(runs, why):
    found = preferred(runs)
    assert (found.method, found.run) == (None, None)
    assert found.reason.startswith("No method is preferred: ")
    assert why in found.reason


def test_runs_with_other_settings_are_other_methods():
    runs = runs_of()
    slow = {"method": "coke", "seed": 1, "optim.lr": 0.05}
    runs[3] = runs[3]._replace(settings=slow)
    names = [candidate.name for candidate in preferred(runs).candidates]
    assert names == ["secu", "coke (1)", "coke (2)", "propos", "kmeans-pixels"]
