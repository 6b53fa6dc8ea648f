"""What a run's page advises: each threshold, and the words for what was seen."""

from __future__ import annotations

import numpy as np
import pytest

from dualclust.train.report.page.advice import advice, finite
from tests.train.report.page.test_words import CALM, LAST
from tests.train.report.test_run_page import RECORD, found_of, state_of


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


def test_copies_are_left_out_above_a_fiftieth():
    of = [said([LAST], {**CALM, "alike": {"copies": copies}}) for copies in (0, 1, 2)]
    assert of == [[], [], ["2% of the samples are copies of others."]]


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
