"""Heads for several numbers of clusters, as text, on the page and as curves."""

from __future__ import annotations

from dualclust.train.report.heads import HEADINGS, heads_text, used_text
from dualclust.train.report.page.heads import heads_curves, heads_html, latest_heads
from tests.train.report.page.test_words import LAST, fields, words_of


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
