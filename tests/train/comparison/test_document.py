"""The page of several runs: every sentence and figure, against runs made by hand."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import numpy as np
import pytest

from dualclust.train.comparison import agreements_of, comparison_page, comparison_rows, prefer
from dualclust.train.comparison.document import NO_CLUSTERS
from dualclust.train.comparison.matching import Agreements
from dualclust.train.comparison.preference import Preference
from tests.cluster.test_cluster_report import Page
from tests.train.comparison.stored_runs import TRUTH, K, N, noisy, run_of


def page_of(runs, *, agreements=None, preference=None, folder=Path("runs")):
    """The page, its text without marks, and what its script reads."""
    agreements = agreements or agreements_of(runs)
    found = prefer(runs, agreements)
    rows = comparison_rows(runs, found)
    text = comparison_page(
        runs, rows, agreements, preference or found, title="a <title>", folder=folder
    )
    page = Page(text)
    return text, page.words, json.loads(page.inside["script"][0])


def part_of(text, start, end):
    """What stands between two marks, as words."""
    inner = text[text.index(start) : text.index(end, text.index(start))]
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", inner)).split())


def three():
    return [
        run_of("secu", 0, np.repeat(np.arange(K), (120, 110, 90, 80))),
        run_of("secu", 1, TRUTH),
        run_of("kmeans-pixels", 0, noisy(0.2, 3), baseline=True),
    ]


@pytest.mark.parametrize(
    ("change", "heading", "summary"),
    [
        (
            lambda runs: runs,
            "3 runs side by side",
            "1 method and 1 baseline, 4 clusters, 400 samples. All runs have ended.",
        ),
        (
            lambda runs: [*runs, run_of("coke", 0, None), run_of("coke", 1, None)],
            "5 runs side by side",
            "2 methods and 1 baseline, 4 clusters, 400 samples. 2 of the runs have not ended.",
        ),
        (lambda runs: runs[:1], "1 run side by side", "1 method, 4 clusters, 400 samples. All"),
        (lambda runs: runs[2:], "1 run side by side", "1 baseline, 4 clusters, 400 samples. All"),
        (
            lambda runs: [run_of("secu", 0, None, n_clusters=10), run_of("coke", 0, None)],
            "2 runs side by side",
            "2 methods, 4 or 10 clusters. 2 of the runs have not ended.",
        ),
        (
            lambda runs: [*runs, run_of("coke", 0, np.arange(1200) % K)],
            "4 runs side by side",
            "2 methods and 1 baseline, 4 clusters, 400 or 1,200 samples. All runs have ended.",
        ),
    ],
)
def test_what_is_compared_is_said_first(change, heading, summary):
    _, words, _ = page_of(change(three()))
    assert heading in words
    assert summary in words


def test_the_verdict_comes_with_its_notes():
    preference = Preference(None, None, "None of <them>.", ("One & two.", "Three."), ())
    runs = three()
    rows = comparison_rows(runs, prefer(runs, agreements_of(runs)))
    given = (runs, rows, agreements_of(runs))
    text = comparison_page(*given, preference, title="t", folder=Path("runs"))
    assert (
        "<p><strong>None of &lt;them&gt;.</strong></p>"
        '<ul class="plainlist"><li>One &amp; two.</li><li>Three.</li></ul>'
    ) in text
    alone = comparison_page(*given, preference._replace(notes=()), title="t", folder=Path("runs"))
    assert '<ul class="plainlist">' not in alone


def test_figures_are_in_the_columns_of_the_table(tmp_path):
    runs = three()
    home = tmp_path / "a" / "x y"
    home.mkdir(parents=True)
    (home / "report.html").write_text("")
    runs[1] = runs[1]._replace(folder=home, name="<b>")
    text, _, _ = page_of(runs, folder=tmp_path / "b")
    table = text[text.index('<table class="runs">') :]
    table = table[: table.index("</table>")]
    heads = re.findall(r"<th scope=col( class=\"left\")?>([^<]*)</th>", table)
    assert [name for _, name in heads] == [
        *("run", "sizes", "bounds", "moved", "loss", "churn", "repeats", "found by others"),
        "seconds",
    ]
    assert [name for kind, name in heads if kind] == ["run"]
    rows = table.split("<tr>")[2:]
    assert rows[0].startswith("<th scope=row>secu-seed0</th><td>80 to 120</td><td>80 to 120</td>")
    link = '<a href="../a/x%20y/report.html">&lt;b&gt;</a>'
    assert rows[1].startswith(f"<th scope=row>{link}</th><td>100 to 100</td>")
    assert "No step reads a class" not in text
    going = [*runs, run_of("coke", 0, None)]
    left = re.findall(r'<th scope=col class="left">([^<]*)</th>', page_of(going)[0])
    assert left == ["run", "state"]


def test_agreement_above_the_diagonal_is_nmi_and_below_it_ari():
    nmi = np.array([[1.0, 0.876, np.nan], [0.876, 1.0, 0.123], [np.nan, 0.123, 1.0]])
    ari = np.array([[1.0, 0.543, np.nan], [0.543, 1.0, -0.017], [np.nan, -0.017, 1.0]])
    agreements = Agreements(nmi, ari, ("This & that",), 1234)
    text, words, _ = page_of(three(), agreements=agreements)
    table = text[text.index('<table class="cells">') :]
    table = table[: table.index("</table>")]
    cells = re.findall(r"<t[hd][^>]*>[^<]*</t[hd]>", table)
    assert cells == [
        "<td></td>",
        '<th scope=col title="secu-seed0">1</th>',
        '<th scope=col title="secu-seed1">2</th>',
        '<th scope=col title="kmeans-pixels-seed0">3</th>',
        "<th scope=row>1 secu-seed0</th>",
        '<td class="same">–</td>',
        '<td data-share="0.876">0.88</td>',
        '<td title="not compared"></td>',
        "<th scope=row>2 secu-seed1</th>",
        '<td data-share="0.543">0.54</td>',
        '<td class="same">–</td>',
        '<td data-share="0.123">0.12</td>',
        "<th scope=row>3 kmeans-pixels-seed0</th>",
        '<td title="not compared"></td>',
        '<td data-share="0.000">-0.02</td>',
        '<td class="same">–</td>',
    ]
    assert "each two runs share 1,234 or more. This & that." in words
    none = page_of(three(), agreements=agreements._replace(fewest=0))[1]
    assert "Above the diagonal" not in none
    assert "This & that." in none


def settings_of(*changes):
    """Runs of methods a, b, ..., two each, that have these settings besides what they share."""
    shared = {"seed": 0, "optim.lr": 0.1, "same": True}
    return [
        run_of("abc"[i], seed, TRUTH, settings={"method": "abc"[i], **shared, "seed": seed} | own)
        for i, own in enumerate(changes)
        for seed in (0, 1)[: 2 - (i == 2)]
    ]


def test_settings_that_differ_and_those_of_some_methods_alone():
    runs = settings_of(
        {"flag": True, "own.x": 1, "epochs": 9},
        {"flag": False, "epochs": 9},
        {"flag": False, "optim.lr": 0.3, "own.x": "<1>", "epochs": 9},
    )
    text, _, _ = page_of([*runs, three()[2]._replace(settings={})])
    tables = re.findall(r"<details( open)?><summary>([^<]*)</summary>(.*?)</details>", text)
    assert [(is_open, title) for is_open, title, _ in tables] == [
        (" open", "2 settings"),
        ("", "1 setting that not all methods have"),
    ]
    shown = [part_of(inner, "<table", "</table>") for _, _, inner in tables]
    heads = "a 2 runs b 2 runs c 1 run"
    assert shown == [
        f"{heads} optim.lr 0.1 0.1 0.3 flag true false false",
        f"{heads} own.x 1 – <1>",
    ]


def test_runs_may_differ_in_their_seeds_alone():
    seeds_alone = "The runs differ in their seeds alone."
    assert seeds_alone in page_of(settings_of({}, {}))[1]
    assert seeds_alone in page_of(settings_of({}))[1]
    found = page_of(settings_of({}, {"x": 1}))[1]
    assert seeds_alone not in found
    assert "1 setting that not all methods have" in found


def test_bars_have_the_bounds_that_bind():
    labels = np.repeat(np.arange(K), (80, 120, 110, 90))
    uneven = {"lower": np.array([60, 70, 80, 90]), "upper": np.array([120, 130, 140, 110])}
    runs = [
        run_of("secu", 0, labels, **uneven),
        run_of("coke", 0, np.zeros(N, int), lower=np.full(K, 1), upper=np.full(K, N - 1)),
        run_of("propos", 0, TRUTH, lower=np.zeros(K, int), upper=np.full(K, N)),
        run_of("mi_margin", 0, None),
    ]
    data = page_of(runs)[2]
    assert data["sizes"] == [
        {
            "name": "secu-seed0",
            "counts": [120, 110, 90, 80],
            "lower": 60,
            "upper": 140,
            "bounds": "60 to 140",
        },
        {
            "name": "coke-seed0",
            "counts": [400, 0, 0, 0],
            "lower": 1,
            "upper": 399,
            "bounds": "1 to 399",
        },
        {
            "name": "propos-seed0",
            "counts": [100] * 4,
            "lower": None,
            "upper": None,
            "bounds": "none",
        },
    ]
    assert {name: data[name] for name in NO_CLUSTERS} == NO_CLUSTERS
    assert NO_CLUSTERS["exemplars"] == NO_CLUSTERS["moved"] == {"row": []}


def test_each_figure_has_a_panel_and_each_run_a_line():
    def records(*figures):
        known = {f"{kind}{name}": 0.1 for kind in ("argmax_", "test_") for name in ("nmi", "ari")}
        return tuple({"epoch": e, **known, **found} for e, found in enumerate(figures, 1))

    runs = [
        run_of(
            "secu",
            0,
            TRUTH,
            records=records(
                {"loss": 3.1234567, "churn": 0.5, "size_min": 9},
                {"loss": None, "argmax_acc": 0.5, "size_min": 8, "size_max": 20},
                {"loss": 2.0, "argmax_acc": 0.75, "churn": np.nan},
            ),
        ),
        run_of(
            "secu", 1, TRUTH, records=records({"loss": 4.0, "test_acc": 0.25, "argmax_acc": 1.0})
        ),
        run_of("coke", 0, None, records=records({"churn": 0.125})),
        run_of("kmeans", 0, TRUTH, baseline=True, records=records({"loss": 1.0, "churn": 0.1})),
    ]
    data = page_of(runs)[2]["curves"]
    first = {"name": "secu-seed0", "kind": 0}
    assert data == [
        {
            "title": "Loss of secu",
            "lines": [
                {**first, "x": [1, 3], "y": [3.1235, 2.0]},
                {"name": "secu-seed1", "kind": 1, "x": [1], "y": [4.0]},
            ],
        },
        {
            "title": "Churn: share of samples that changed cluster",
            "lines": [
                {**first, "x": [1], "y": [0.5]},
                {"name": "coke-seed0", "kind": 1, "x": [1], "y": [0.125]},
            ],
            "low": 0,
        },
        {
            "title": "ACC by the papers' protocol",
            "lines": [
                {**first, "x": [2, 3], "y": [0.5, 0.75]},
                {"name": "secu-seed1", "kind": 0, "x": [1], "y": [0.25]},
            ],
            "low": 0,
            "high": 1,
        },
        {
            "title": "Smallest cluster, labels of training",
            "lines": [{**first, "x": [1, 2], "y": [9.0, 8.0]}],
            "low": 0,
        },
        {
            "title": "Largest cluster, labels of training",
            "lines": [{**first, "x": [2], "y": [20.0]}],
            "low": 0,
        },
    ]
