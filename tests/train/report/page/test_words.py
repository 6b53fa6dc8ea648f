"""Sentences of a run's page: which figures they name, and when they are said."""

from __future__ import annotations

import html
import re

import numpy as np
import pytest

from dualclust.train.report.page import SYMPTOMS
from dualclust.train.report.page.advice import latest_alarms
from dualclust.train.report.page.words import fields_of
from tests.train.report.test_run_page import RECORD, found_of, state_of

LAST = {**RECORD, "epoch": 3, "loss": 1.23456, "lr": 0.012345, "churn": 0.0125}
CALM = {
    "moved_total": 0,
    "next": [[]] * 5,
    "counts": [18] * 5,
    "epoch": 1234,
    "left_out": 0,
    "alike": None,
}


def words_of(text):
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", text)).split())


def fields(parts=None, **changes):
    """Fields of the page of ninety samples in five clusters, within 14 to 22."""
    plain = {name: changes.pop(name) for name in ("records", "done", "stopped") if name in changes}
    found = found_of()
    state = state_of(found, **({"records": [LAST]} | plain))._replace(**changes)
    return {name: words_of(text) for name, text in fields_of(state, parts).items()}


# What is said first --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "parts", "summary"),
    [
        ({"done": False, "records": []}, None, "Epoch 0 of 4. The first epoch is under way; this"),
        ({"done": False}, None, "Epoch 3 of 4. Clusters are shown after the first evaluation"),
        (
            {},
            {**CALM, "counts": [7, 1200, 9]},
            "Epoch 3 of 4, the run has ended. Sizes inside the bounds are 7 to 1,200; no alarm in",
        ),
        (
            {"records": [{**LAST, "alarms": {"dead head": "Seen"}}]},
            CALM,
            "The last epoch raised an alarm: read the first card.",
        ),
        (
            {"records": [{**LAST, "alarms": {"dead head": "S", "one cluster": "S"}}]},
            None,
            "The last epoch raised 2 alarms: read the first card.",
        ),
        (
            {"stopped": "Out <of> memory.", "done": False},
            CALM,
            "Stopped in epoch 3 of 4. Out <of> memory.",
        ),
    ],
)
def test_what_is_said_first(changes, parts, summary):
    assert summary in fields(parts, **changes)["summary"]


@pytest.mark.parametrize(
    ("done", "stopped", "goes_on"),
    [(False, "", True), (True, "", False), (False, "Why.", False), (True, "Why.", False)],
)
def test_a_page_loads_itself_again_while_the_run_goes_on(done, stopped, goes_on):
    found = fields_of(state_of(found_of(), done=done, stopped=stopped), None)
    assert found["meta"] == ('<meta http-equiv="refresh" content="60">' if goes_on else "")
    assert ("the run has ended" in found["summary"]) == (done and not stopped)


def test_tiles_have_the_last_figures():
    assert fields()["tiles"] == (
        "Epoch 3 of 4 learning rate 0.0123 Loss 1.235 mean of the last epoch Sizes 18 to 19 labels "
        "of training Bounds 14 to 22 smallest to largest allowed Churn 1.2% changed in the last "
        "epoch Samples 90 without classes"
    )
    bare = {"records": [{"epoch": 2, "loss": None, "churn": None}], "lower": np.array([0, 5])}
    assert fields({**CALM, "counts": [4, 3000]}, **bare, upper=np.array([90, 30]), n_samples=90)[
        "tiles"
    ] == (
        "Epoch 2 of 4 Loss – mean of the last epoch Sizes 4 to 3,000 in bounds, epoch 1,234 Bounds "
        "none smallest to largest allowed Churn – changed in the last epoch Samples 90 without "
        "classes"
    )
    assert fields(records=[], done=False)["tiles"].startswith("Epoch 0 of 4 Loss – mean")


def test_a_method_without_steps_has_neither_rate_nor_churn():
    steps = {key: value for key, value in LAST.items() if key not in ("lr", "churn")}
    found = fields(records=[steps], method="graph")
    assert "rate" not in found["tiles"]
    assert "Churn" not in found["tiles"]
    assert "k-means with bounds, and stay inside them" in found["sizes_note"]


SCORED = {"argmax_acc": 0.51234, "argmax_nmi": 0.4}
CHOSEN = {"heads": {"best": 3, "judged": [], "reason": "3 stands out", "recommended": 3}}


@pytest.mark.parametrize(
    ("records", "followed", "tile"),
    [
        ([{**LAST, **SCORED}, LAST], None, "ACC 0.512 argmax; NMI 0.400"),
        (
            [{**LAST, **SCORED, "test_acc": 0.25, "test_nmi": 0.125}, {**LAST, **SCORED}],
            None,
            "ACC 0.250 held-out samples, argmax; NMI 0.125",
        ),
        (
            [{**LAST, "argmax_acc": 0.1, "argmax_nmi": 0.2}, {**LAST, **SCORED}],
            None,
            "ACC 0.512 argmax; NMI 0.400",
        ),
        ([{**LAST, **SCORED}], (7, 1, 9), "ACC – not evaluated for k = 5; k = 7: 0.512"),
        ([{**LAST, **SCORED, **CHOSEN, "epoch": 4}], None, "ACC – not evaluated for k = 5; k = 3"),
        (
            [{**LAST, "effective_clusters": 4.25}, LAST],
            None,
            "In use 4.2 effective number of clusters",
        ),
        (
            [{**LAST, "effective_clusters": 4.25}, {**LAST, "effective_clusters": 3.5}],
            None,
            "In use 3.5 effective number of clusters",
        ),
        ([{**LAST, "effective_clusters": 4.25}], (7, 1, 9), "Samples 90 without classes"),
        ([{**LAST, "effective_clusters": np.nan}], None, "Samples 90 without classes"),
        ([{**LAST, "effective_clusters": 4.0, **CHOSEN, "epoch": 4}], None, "Samples 90 without"),
    ],
)
def test_agreement_is_that_of_the_head_that_is_shown(records, followed, tile):
    assert tile in fields(records=records, followed=followed)["tiles"]


def test_alarms_are_told_with_what_to_do():
    records = [
        {**LAST, "epoch": 1, "alarms": {"one cluster": "First"}},
        {**LAST, "epoch": 1200, "alarms": {"one cluster": "All of <90>", "not finite": "The loss"}},
        {**LAST, "epoch": 1300},
    ]
    causes = [SYMPTOMS[name] for name in ("not finite", "one cluster")]
    assert fields(records=records)["alarms"] == (
        f"Alarms Not finite , epoch 1,200: The loss. {causes[0].cause} What to do: "
        f"{causes[0].remedy} One cluster , epoch 1,200: All of <90>. {causes[1].cause} What to "
        f"do: {causes[1].remedy}"
    )
    assert latest_alarms(records) == {
        "not finite": (1200, "The loss"),
        "one cluster": (1200, "All of <90>"),
    }
    assert fields()["alarms"] == ""
    # What an alarm asks for stands in its own card.
    assert "No figure of this run asks for a change" in fields(CALM, records=records)["advice"]
    assert "Train for more" in fields(records=[{**LAST, "churn": 0.5}])["advice"]


def test_a_remedy_says_what_to_do_and_a_cause_what_happened():
    assert {name: symptom.remedy.split()[0] for name, symptom in SYMPTOMS.items()} == {
        "not finite": "Lower",
        "exploding weights": "Lower",
        "constant features": "Look",
        "dead head": "Start",
        "shuffled ids": "Return",
        "one cluster": "SeCu",
        "empty clusters": "Ask",
        "saturated prices": "Lower",
        "uniform predictions": "Lower",
    }


def test_other_fields():
    found = fields({**CALM, "left_out": 1500}, settings="a = true\n[data]\nsource = 'x <y>'\n")
    assert found["heading"] == "5 clusters of 90 samples by secu"
    assert found["settings"] == "a true data.source x <y>"
    assert found["versions"] == "torch 2"
    assert found["epoch_note"] == (
        "As of epoch 1,234. 1,500 images are left out, to keep the page small."
    )
    assert fields(CALM)["epoch_note"] == "As of epoch 1,234."
    assert fields()["epoch_note"] == fields()["heads"] == ""


@pytest.mark.parametrize("method", ["secu", "coke", "propos"])
def test_why_labels_of_training_may_leave_the_bounds(method):
    priced = method != "propos"
    for parts, bars in ((None, "by the labels of training."), (CALM, "inside the bounds; strokes")):
        note = fields(parts, method=method)["sizes_note"]
        assert note.partition(bars)[0].startswith("Bars: sizes ")
        assert ("at prices that move" in note) == priced
        assert ("those of propos, whose loss knows no bound" in note) != priced
