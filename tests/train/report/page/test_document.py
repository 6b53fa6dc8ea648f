"""What the script of a run's page reads: curves, and a page before the first evaluation."""

from __future__ import annotations

import json

import numpy as np

from dualclust.train.report.page import found_parts, run_page
from dualclust.train.report.page.document import _curves, _nothing
from tests.cluster.test_cluster_report import Page
from tests.train.report.page.test_words import LAST
from tests.train.report.test_run_page import found_of, state_of


def data_of(text):
    return json.loads(Page(text).inside["script"][0])


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
        **{"rows": {}, "images": [], "next": [[]] * 5, "classes": None, "alike": None},
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
