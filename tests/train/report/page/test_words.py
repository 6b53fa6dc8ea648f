"""Sentences of a run's page: which figures they name, and when they are said."""

from __future__ import annotations

import html
import json
import re

import numpy as np
import pytest

from dualclust.train.report.heads import HEADINGS, heads_text, used_text
from dualclust.train.report.page import SYMPTOMS, found_parts, run_page
from dualclust.train.report.page.advice import advice, finite, latest_alarms
from dualclust.train.report.page.document import _curves, _nothing
from dualclust.train.report.page.heads import heads_curves, heads_html, latest_heads
from dualclust.train.report.page.words import fields_of
from tests.cluster.test_cluster_report import Page
from tests.train.report.test_run_page import RECORD, found_of, state_of

LAST = {**RECORD, "epoch": 3, "loss": 1.23456, "lr": 0.012345, "churn": 0.0125}
CALM = {"moved_total": 0, "next": [[]] * 5, "counts": [18] * 5, "epoch": 1234, "left_out": 0}


def words_of(text):
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", text)).split())


def data_of(text):
    return json.loads(Page(text).inside["script"][0])


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


# What to try next ----------------------------------------------------------------------------


def said(records, parts=CALM, **changes):
    return [words for words, _ in advice(state_of(found_of(), records=records, **changes), parts)]


def falling(losses):
    return [{**RECORD, "epoch": i + 1, "loss": loss} for i, loss in enumerate(losses)]


def test_labels_are_unsettled_above_three_in_a_hundred():
    assert said([{**LAST, "churn": 0.03}]) == []
    assert said([{**LAST, "churn": 0.0301}]) == [
        "In the last epoch 3.0% of the samples changed their cluster."
    ]
    assert said([{**LAST, "churn": 0.5}], done=False) == []
    assert said([{**LAST, "churn": None}]) == []


@pytest.mark.parametrize(
    ("losses", "share"),
    [
        ([*range(20, 10, -1)], "11% of the fall of the loss came in the last 1 epochs."),
        ([*range(20, 11, -1)], None),  # nine epochs tell nothing
        ([100, *[11] * 18, 10, 5], "6% of the fall of the loss came in the last 2 epochs."),
        ([100, *[10] * 18, 5], "5% of the fall of the loss came in the last 2 epochs."),
        ([105, *[10] * 17, 10, 5], None),  # five in a hundred, and no more
        ([10, 110, *[20] * 16, 19, 9], "11% of the fall of the loss came in the last 2 epochs."),
        ([9, 110, *[20] * 16, 19, 9], None),  # no lower than in the beginning
        ([8, 110, *[20] * 16, 19, 9], None),
    ],
)
def test_a_loss_that_was_still_falling(losses, share):
    found = said(falling(losses))
    assert found == ([] if share is None else [share])
    records = [*falling(losses)[:3], {**RECORD, "loss": None}, *falling(losses)[3:]]
    assert said(records) == found


def test_bounds_contradict_the_data_above_a_tenth():
    assert said([LAST], {**CALM, "moved_total": 9}) == []
    (words,) = said([LAST], {**CALM, "moved_total": 10})
    assert words.startswith("11% of the samples would choose another cluster")


def twins(pairs, k, share=0.8):
    nexts = [[] for _ in range(k)]
    for i, j in pairs:
        nexts[i], nexts[j] = [[j, share], [k - 1, 0.1]], [[i, share]]
    return {**CALM, "next": nexts, "counts": [9] * k}


def test_twins_are_each_others_second_choice():
    found = advice(state_of(found_of(), records=[LAST]), twins([(0, 2), (1, 3)], 6))
    assert found == [
        (
            "Clusters 0 and 2, 1 and 3 are each other's second choice for most of their samples.",
            "Compare them in the gallery: if they show the same, try about 4 clusters.",
        )
    ]
    assert said([LAST], twins([(0, 1)], 4)) != []
    assert said([LAST], twins([(0, 1)], 3)) == []
    assert said([LAST], twins([(0, 1)], 5, share=0.75)) == []
    for one_sided in ([[[1, 0.9]], [[0, 0.75]], [], []], [[[1, 0.75]], [[0, 0.9]], [], []]):
        assert said([LAST], {**CALM, "next": one_sided}) == []
    assert said([LAST], {**CALM, "next": [[[1, 0.9]], [[2, 0.9]], [[3, 0.9]], []]}) == []
    assert said([LAST], {**CALM, "next": [[[1, 0.9]], [], [], []]}) == []


def test_five_pairs_of_twins_are_named():
    six = [(2 * i, 2 * i + 1) for i in range(6)]
    five = "0 and 1, 2 and 3, 4 and 5, 6 and 7, 8 and 9"
    assert said([LAST], twins(six[:5], 12))[0].startswith(f"Clusters {five} are each")
    assert said([LAST], twins(six, 12))[0].startswith(f"Clusters {five} and 1 more pairs are each")
    eight = [*six, (12, 13), (14, 15)]
    assert "and 3 more pairs" in said([LAST], twins(eight, 16))[0]


def test_numbers_are_finite():
    values = (1, 0.5, np.nan, np.inf, None, "1")
    assert [finite(value) for value in values] == [True, True, False, False, False, False]


# The whole page ------------------------------------------------------------------------------


def test_curves_are_of_the_head_that_training_follows():
    found = found_of()
    own = {panel["title"]: panel for panel in _curves(state_of(found))}
    assert own["Sizes by the labels of training"]["marks"] == [
        ["lower bound", 14],
        ["upper bound", 22],
    ]
    other = {p["title"]: p for p in _curves(state_of(found)._replace(followed=(7, 3, 40)))}
    assert list(other) == [
        "Loss",
        "Learning rate",
        "Churn: share of samples that changed cluster (head of 7 clusters)",
        "Sizes by the labels of training (head of 7 clusters)",
    ]
    sizes = other["Sizes by the labels of training (head of 7 clusters)"]
    assert sizes["marks"] == [["lower bound", 3], ["upper bound", 40]]
    same = _curves(state_of(found)._replace(followed=(5, 3, 90)))
    assert [panel["title"] for panel in same] == list(own)
    assert same[3]["marks"] == [["lower bound", 3]]
    uneven = state_of(found)._replace(lower=np.array([0, 5, 4]), upper=np.array([30, 90, 40]))
    assert _curves(uneven)[3]["marks"] == []  # the smallest is 0, the largest all


def test_before_an_evaluation_the_page_has_sizes_of_training_and_nothing_else():
    state = state_of(found_of(), records=[LAST])
    found = _nothing(state, np.array([0.1, 0.0, 0.0, 0.0, -0.1]))
    columns = {name: [] for name in ("row", "cluster", "second", "free", "near", "margin", "loss")}
    assert found == {
        "counts": [19, 18, 18, 18, 18],
        "lower": [14] * 5,
        "upper": [22] * 5,
        "held": [1, 0, 0, 0, -1],
        "prices": [0.1, 0.0, 0.0, 0.0, -0.1],
        **{"movedIn": [0] * 5, "movedOut": [0] * 5, "margins": None, "maps": None},
        **dict.fromkeys(("exemplars", "random", "doubtful", "moved"), columns),
        **{"rows": {}, "images": [], "next": [[]] * 5, "classes": None},
    }
    for prices in (None, np.full(5, 0.5)):
        data = data_of(run_page(state._replace(prices=prices)))
        assert data["prices"] == [0.0 if prices is None else 0.5] * 5
        assert "trained" not in data
    assert data_of(run_page(state, found_parts(found_of(), None)))["trained"] == [
        19,
        18,
        18,
        18,
        18,
    ]


# Heads for several numbers of clusters -------------------------------------------------------


def judged(k, agreement):
    return {
        "n_clusters": k,
        "agreement": agreement,
        "agreement_error": 0.0123,
        "silhouette": 0.25,
        "reference": 0.125,
        "smallest": 3,
        "largest": 40,
        "price": 0.0312,
        "gap": 2e-9,
    }


ENTRY = {
    "judged": [judged(5, 0.812345), judged(10, 0.5)],
    "best": 5,
    "recommended": 5,
    "reason": "5 stands out",
}


def test_heads_as_text():
    lines = heads_text(ENTRY, 5).splitlines()
    assert lines == [
        " k     views agree  silhouette  (none)  sizes   price    gap",
        " 5  0.812 +- 0.012       0.250   0.125   3-40  3.12 %  2e-09 *",
        "10  0.500 +- 0.012       0.250   0.125   3-40  3.12 %  2e-09",
        "5 stands out",
    ]
    assert heads_text(ENTRY, 10).splitlines()[2].endswith("2e-09 *")
    assert heads_text(ENTRY, 10).splitlines()[1].endswith("2e-09")


def test_which_head_the_results_are_of():
    none = {**ENTRY, "recommended": None}
    assert used_text(ENTRY, 5) == "5 stands out"
    assert used_text(ENTRY, 10) == "k = 10 is used, as asked; 5 stands out"
    assert used_text(none, 5) == "5 stands out; the results are of k = 5"
    assert used_text(none, 10) == "k = 10 is used, as asked; 5 stands out"
    assert used_text(none, 5, done=False) == "until the end k = 5 is shown; 5 stands out"


def test_heads_on_the_page():
    records = [LAST, {**LAST, "epoch": 1200, "heads": ENTRY}, {**LAST, "epoch": 1201}]
    assert latest_heads(records) == (1200, ENTRY)
    assert latest_heads([LAST]) is None
    assert heads_html([LAST], 5, done=True) == ""
    found = words_of(heads_html(records, 10, done=True))
    cells = "0.012 0.250 0.125 3-40 3.12 % 2e-09"
    assert found.startswith(
        "Numbers of clusters Epoch 1,200: k = 10 is used, as asked; 5 stands out. "
        f"{' '.join(HEADINGS)} 5 0.812 +- {cells} 10 (shown) 0.500 +- {cells} “Views agree”: "
    )
    assert "until the end k = 5 is shown" in heads_html(records, 5, done=False)
    assert "5 (shown)" in fields(records=records)["heads"]
    assert "until the end" in fields(records=records, done=False)["heads"]


def test_curves_of_heads():
    other = {**ENTRY, "judged": [judged(5, 0.9), judged(10, 1 / 3)]}
    records = [{**LAST, "heads": ENTRY}, LAST, {**LAST, "epoch": 9, "heads": other}]
    assert heads_curves([LAST]) == []
    assert heads_curves(records) == [
        {
            "title": "Agreement of two views, by number of clusters",
            "lines": [
                {"name": "k = 5", "x": [3, 9], "y": [0.81234, 0.9]},
                {"name": "k = 10", "x": [3, 9], "y": [0.5, 0.33333]},
            ],
            "high": 1,
        }
    ]
