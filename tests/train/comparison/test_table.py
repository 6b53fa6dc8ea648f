"""The table of several runs cell by cell, and as CSV, text and Markdown line by line."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest

from dualclust.train.comparison import (
    COLUMNS,
    agreements_of,
    comparison_csv,
    comparison_markdown,
    comparison_rows,
    comparison_text,
    prefer,
)
from dualclust.train.comparison.table import protocol_note, shown_cells
from tests.train.comparison.stored_runs import TRUTH, K, N, run_of
from tests.train.comparison.test_comparison import HELD_OUT, SCORED


def rows_of(*runs):
    preference = prefer(runs, agreements_of(runs))
    return comparison_rows(runs, preference), preference


def test_every_cell_of_a_run():
    labels = np.repeat(np.arange(3), (200, 150, 50))
    alarm = {"dead head": "x", "one cluster": "y"}
    lost = {"epoch": 2, "loss": None, "churn": float("nan"), "alarms": alarm}
    records = ({"epoch": 1, "loss": 2.5, "churn": 0.5} | SCORED, lost)
    uneven = {"lower": np.array([1, 2, 3, 4]), "upper": np.array([200, 300, 250, 240])}
    run = run_of("secu", 4, labels, records=records, nearest=np.zeros(N, int), **uneven)
    ((row,), preference) = rows_of(run)
    assert row == dict.fromkeys(COLUMNS) | {
        **{"run": "secu-seed4", "method": "secu", "seed": 4, "state": "ended"},
        **{"epoch": 2, "epochs": 2, "clusters": 4, "samples": 400, "protocol": "argmax"},
        **{"acc": 0.9, "nmi": 0.8, "ari": 0.7},
        **{"bounded_acc": 0.5, "bounded_nmi": 0.4, "bounded_ari": 0.3},
        **{"smallest": 0, "largest": 200, "lower": 1, "upper": 300},
        **{"argmax_smallest": 0, "argmax_largest": 400, "moved": 0.5},
        **{"loss": 2.5, "churn": 0.5, "alarms": "dead head, one cluster"},
        **{"seconds": 3.0, "folder": "runs/secu-seed4"},
    }
    shown = {head: cells[0] for head, cells in zip(*transposed([row]), strict=True)}
    assert shown == {
        **{"run": "secu-seed4", "ACC": "0.900", "NMI": "0.800", "ARI": "0.700"},
        **{"ACC in bounds": "0.500", "sizes": "0 to 200", "bounds": "1 to 300", "moved": "50.0%"},
        **{"loss": "2.5", "churn": "50.0%", "alarms": "dead head, one cluster", "seconds": "3.0"},
    }
    assert "\r" not in comparison_csv([row])
    assert preference.candidates[0].runs == ("secu-seed4",)


def transposed(rows):
    heads, lines = shown_cells(rows)
    return heads, [list(column) for column in zip(*lines, strict=True)]


def test_figures_of_a_run_that_goes_on_are_those_of_training():
    records = (
        {"epoch": 1, "size_min": 3, "argmax_size_min": 1, "argmax_size_max": 7, "loss": 1.0},
        {"epoch": 2, "size_min": 4, "size_max": 9},
    )
    ((row,), _) = rows_of(run_of("secu", 0, None, records=records, seconds=None))
    known = {name: value for name, value in row.items() if value not in (None, "")}
    assert known == {
        **{"run": "secu-seed0", "method": "secu", "seed": 0, "state": "epoch 2 of 2"},
        **{"epoch": 2, "epochs": 2, "clusters": 4, "smallest": 4, "largest": 9},
        **{"argmax_smallest": 1, "argmax_largest": 7, "loss": 1.0, "folder": "runs/secu-seed0"},
    }
    assert row["seconds"] is None
    assert shown_cells([row])[0] == ["run", "state", "sizes", "loss"]


def test_each_run_has_what_is_known_of_its_method():
    runs = [
        run_of(m, s, np.roll(TRUTH, 9 * (m == "coke"))) for m in ("secu", "coke") for s in (0, 1)
    ]
    rows, preference = rows_of(*runs)
    assert [row["repeated"] for row in rows] == [1.0] * 4
    assert [row["found_by_others"] for row in rows] == [
        c.found for c in preference.candidates for _ in (0, 1)
    ]
    ((alone,), _) = rows_of(runs[0])
    assert (alone["repeated"], alone["found_by_others"]) == (None, None)


def test_the_protocol_is_that_of_the_last_evaluation():
    first = {name: value / 2 for name, value in (SCORED | HELD_OUT).items()}
    found = run_of("secu", 0, TRUTH, records=({"epoch": 1} | first, {"epoch": 2} | SCORED))
    other = run_of(
        "coke", 0, TRUTH, records=({"epoch": 1} | first, {"epoch": 2} | SCORED | HELD_OUT)
    )
    (one, two), _ = rows_of(found, other)
    assert (one["protocol"], one["acc"], one["bounded_acc"]) == ("held out, argmax", 0.3, 0.25)
    assert (two["acc"], two["nmi"], two["bounded_ari"]) == (0.6, 0.55, 0.3)
    assert protocol_note([one]).startswith("ACC, NMI, ARI: held out, argmax, the papers'")
    mixed = [one, one | {"protocol": "argmax"}]
    assert protocol_note(mixed).startswith("ACC, NMI, ARI: as the column protocol says, the")
    assert protocol_note([one | {"acc": None}]) == ""
    assert "protocol" in shown_cells(mixed)[0]
    assert "protocol" not in shown_cells([one, two])[0]


def test_a_head_that_was_not_evaluated_has_no_agreement():
    last = {"epoch": 2, "heads": {"best": 4}} | SCORED
    settings = {"method": "secu", "heads.target": 7}
    runs = [
        run_of("secu", 0, TRUTH, records=({"epoch": 1} | SCORED,), settings=settings),
        run_of("secu", 1, TRUTH, records=({"epoch": 1} | SCORED, last), settings=settings),
    ]
    (one, two), _ = rows_of(*runs)
    assert (one["protocol"], one["acc"]) == ("evaluated for k = 7 alone", None)
    assert (two["protocol"], two["acc"]) == ("argmax", 0.9)
    assert shown_cells([one])[0][:2] == ["run", "protocol"]


@pytest.mark.parametrize(
    ("lower", "upper", "words"),
    [
        ([0] * K, [N] * K, "none"),
        ([0] * K, [N + 1] * K, "none"),
        ([0, 1, 1, 1], [N - 1] * K, "at most 399"),
        ([1] * K, [N] * K, "at least 1"),
        ([1] * K, [N - 1] * K, "1 to 399"),
        ([1001] * K, [2000] * K, "at least 1,001"),
    ],
)
def test_bounds_in_words(lower, upper, words):
    nearest = (TRUTH + 1) % K
    run = run_of("secu", 0, TRUTH, nearest=nearest, lower=np.array(lower), upper=np.array(upper))
    rows, _ = rows_of(run)
    heads, ((*cells,),) = shown_cells(rows)
    shown = dict(zip(heads, cells, strict=True))
    assert shown["bounds"] == words
    assert shown.get("moved", "") == ("" if words == "none" else "100.0%")


def test_text_and_markdown_line_by_line():
    runs = [
        run_of("secu", 0, TRUTH, name="a|b", records=({"epoch": 2, "loss": 12.3456} | SCORED,)),
        run_of("coke", 0, None, name="longer", seconds=None, records=()),
    ]
    rows, preference = rows_of(*runs)
    assert comparison_text(rows, preference, ["One.", "Two."]).splitlines() == [
        "run     state           ACC    NMI    ARI  ACC in bounds       sizes     bounds  moved  "
        " loss  seconds",
        "a|b     ended         0.900  0.800  0.700          0.500  100 to 100  80 to 120   0.0%  "
        "12.35      3.0",
        "longer  epoch 0 of 2",
        "ACC, NMI, ARI: argmax, the papers' protocol; ACC in bounds: of the labels of the run",
        "One.",
        "Two.",
        preference.reason,
    ]
    lines = comparison_markdown(rows, preference).split("\n")
    assert lines[0].startswith("| run | state | ACC | NMI |")
    assert lines[1] == "|" + " --- |" * 11
    assert lines[2].startswith("| a\\|b | ended | 0.900 |")
    assert lines[4:] == [
        *("", f"{protocol_note(rows)}.", "", preference.reason, ""),
    ]
    bare = comparison_markdown(*rows_of(runs[1])).split("\n")
    assert bare[3] == ""
    assert bare[4].startswith("No method is preferred")


def test_csv_keeps_six_digits():
    rows, _ = rows_of(
        run_of("secu", 0, TRUTH, seconds=1234567.0, records=({"epoch": 2, "loss": 1 / 3},))
    )
    (row,) = csv.DictReader(io.StringIO(comparison_csv(rows)))
    assert (row["loss"], row["seconds"], row["seed"], row["acc"]) == (
        *("0.333333", "1.23457e+06"),
        *("0", ""),
    )
    assert tuple(row) == COLUMNS
