"""Which runs are of the same samples, and what names runs alike."""

from __future__ import annotations

import numpy as np
import pytest

from dualclust.train.comparison import agreements_of
from dualclust.train.comparison.groups import groups_of
from dualclust.train.comparison.matching import _match
from tests.train.comparison.stored_runs import TRUTH, N, noisy, run_of

FILES = tuple(f"{i}.png" for i in range(N))


def reasons(*runs):
    return agreements_of(runs).reasons


def test_the_fewest_samples_that_two_runs_share():
    def part(name, start, stop):
        return run_of(name, 0, TRUTH[start:stop], ids=np.arange(start, stop))

    runs = [part("secu", 0, 300), part("coke", 100, 400), part("propos", 250, 400)]
    found = agreements_of(runs)
    assert (found.fewest, found.reasons) == (50, ())
    assert np.isfinite(found.ari).all()
    assert np.isfinite(found.nmi).all()
    one = agreements_of([part("secu", 0, 201), part("coke", 200, 400)])
    assert one.fewest == 1
    assert agreements_of([part("secu", 0, 9), part("coke", 9, 20)]).fewest == 0
    assert agreements_of(runs[:1]).fewest == 0


def test_a_run_without_labels_agrees_with_none():
    runs = [run_of("secu", 0, TRUTH), run_of("coke", 0, None), run_of("propos", 0, noisy(0.1, 0))]
    found = agreements_of(runs)
    assert found.reasons == ("coke-seed0 has no labels before its end (epoch 2 of 2)",)
    known = np.isfinite(found.ari)
    assert known.tolist() == [[True, False, True], [False, False, False], [True, False, True]]
    np.testing.assert_array_equal(known, np.isfinite(found.nmi))
    np.testing.assert_array_equal(found.nmi.diagonal(), [1.0, np.nan, 1.0])
    np.testing.assert_array_equal(found.ari, found.ari.T)
    np.testing.assert_array_equal(found.nmi, found.nmi.T)


def test_scores_are_of_the_samples_that_both_have():
    one = run_of("secu", 0, [0, 1, 2, 3, 0], ids=np.array([9, 3, 5, 7, 1]))
    other = run_of("coke", 0, [1, 1, 2, 2], ids=np.array([5, 7, 8, 9]))
    at, to = _match(one, other)
    assert at.tolist() == [2, 3, 0]
    assert to.tolist() == [0, 1, 3]


@pytest.mark.parametrize("side", [0, 1])
def test_files_tell_that_data_is_the_same_where_both_runs_have_them(side):
    runs = [run_of("secu", 0, TRUTH, source="a"), run_of("coke", 0, TRUTH, source="b")]
    named = run_of("secu", 0, TRUTH, names=FILES, source="ab"[side])
    runs[side] = named
    (reason,) = reasons(*runs)
    assert reason == "runs of different data are not compared: auto of b and auto of a" or (
        reason.startswith("runs of different data are not compared: auto of ")
    )
    same = [run_of("secu", 0, TRUTH), run_of("coke", 0, TRUTH)]
    same[side] = run_of("secu", 0, TRUTH, names=FILES)
    assert reasons(*same) == ()
    classes = [run_of("secu", 0, TRUTH), run_of("coke", 0, TRUTH)]
    classes[side] = run_of("secu", 0, TRUTH, classes=TRUTH)
    assert reasons(*classes) == ()


def test_one_other_file_or_class_tells_that_data_has_changed():
    renamed = (*FILES[:-1], "other.png")
    one = run_of("secu", 0, TRUTH, names=FILES, classes=TRUTH)
    for changes in ({"names": renamed}, {"classes": np.where(np.arange(N) == 7, 3 - TRUTH, TRUTH)}):
        other = run_of("coke", 0, TRUTH, **({"names": FILES, "classes": TRUTH} | changes))
        assert reasons(one, other) == (
            "the data at digits has changed between two runs: secu-seed0 and coke-seed0 have "
            "other files or classes under one id",
        )
    part = run_of("coke", 0, TRUTH[:9], ids=np.arange(9), names=renamed[:9], classes=TRUTH[:9])
    assert reasons(one, part) == ()


def test_a_place_has_one_name_and_a_built_in_set_is_no_place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to("x.npz")
    runs = [
        run_of("secu", seed, TRUTH, source=source)
        for seed, source in enumerate(("x.npz", str(tmp_path / "x.npz"), "link"))
    ]
    assert reasons(*runs) == ()
    built_in = run_of("secu", 0, TRUTH, source="digits")
    folder = run_of("secu", 1, TRUTH, source=str(tmp_path / "digits"))
    (reason,) = reasons(built_in, folder)
    assert reason.startswith("runs of different data are not compared: auto of digits and auto of")


def test_repetitions_differ_in_seeds_threads_and_places():
    plain = {"method": "secu", "seed": 0, "optim.lr": 0.1}
    settings = [
        plain,
        plain | {"seed": 1},
        plain | {"threads": 2},
        plain | {"log": ["wandb"]},
        plain | {"data.source": "y"},
        plain | {"optim.lr": 0.2},
        {"optim.lr": 0.1, "seed": 3, "method": "secu"},
    ]
    runs = [run_of("secu", i, TRUTH, settings=own) for i, own in enumerate(settings)]
    runs.append(run_of("secu", 9, TRUTH, settings=plain, n_clusters=5))
    runs.append(run_of("coke", 0, TRUTH, settings=plain))
    assert groups_of(runs) == [
        ("secu (1)", (0, 1, 2, 3, 4, 6)),
        ("secu (2)", (5,)),
        ("secu (3)", (7,)),
        ("coke", (8,)),
    ]
