"""`dualclust cluster --k-range`: its files, its words, and what it refuses."""

import csv
import io
import json
import math
import sys
import tracemalloc

import numpy as np
import pytest
from matplotlib.text import Text

from dualclust.algos.selection import ChoiceOfK, choose_k
from dualclust.cli.main import build_parser, main
from dualclust.cluster.choice import REFUSED, bounds_range, k_range
from dualclust.cluster.choice_figure import choice_figure, choice_png
from dualclust.cluster.choice_table import COLUMNS, choice_csv, choice_rows, choice_text
from tests.cli.cluster_files import error_of, groups, listing, save
from tests.problems import unit_rows

BOUNDS = "0.5:2,0.9:1.1"


def choice(path, *options, ks="2:6:2"):
    return main(["cluster", str(path), "--k-range", ks, *map(str, options)])


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """One run on four groups of equal size, and what it printed."""
    folder = tmp_path_factory.mktemp("choice")
    path = save(folder / "X.npy")
    assert choice(path, "--bounds-range", BOUNDS) == 0
    return folder


def test_the_files_say_what_the_function_finds(written):
    out = written / "X-choice"
    assert {p.name for p in out.iterdir()} == {"choice.csv", "choice.json", "choice.png"}
    result = json.loads((out / "choice.json").read_text())
    found = choose_k(
        unit_rows(groups()[0]), [2, 4, 6], shares=[(0.5, 2.0), (0.9, 1.1)], metric="cosine"
    )
    assert result["recommended_k"] == found.recommended == 4
    assert result["recommended_bounds"] == [0.9, 1.1]
    assert result["reason"] == found.reason
    assert (result["n_samples"], result["n_drawn"], result["seed"]) == (200, 200, 0)
    assert sorted(result["files"]) == ["choice.csv", "choice.json", "choice.png"]
    expected = choice_rows(found)
    assert len(result["rows"]) == len(expected) == 9
    for row, other in zip(result["rows"], expected, strict=True):
        assert tuple(row) == COLUMNS
        for name in COLUMNS:
            # Rows of unit length to the last bit or not: tied labels of a half may differ.
            near = 0.02 if name.startswith("stability") else 1e-6
            assert row[name] == pytest.approx(other[name], abs=near), name
    with (out / "choice.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert [int(line["k"]) for line in lines] == [2] * 3 + [4] * 3 + [6] * 3
    assert [line["upper"] for line in lines[:3]] == ["inf", "2", "1.1"]
    assert float(lines[4]["silhouette"]) == pytest.approx(result["rows"][4]["silhouette"], rel=1e-5)
    assert (out / "choice.png").read_bytes().startswith(b"\x89PNG")


def test_the_report_on_standard_output(tmp_path, capsys):
    path = save(tmp_path / "X.npy")
    assert choice(path, "--upper", "inf", "--out", tmp_path / "out", ks="3,4") == 0
    out, err = capsys.readouterr()
    assert err == ""
    about, *lines = out.splitlines()
    assert about == "input               200 rows of 8 numbers"
    assert lines[0].split() == [
        *("k", "sizes", "objective", "silhouette", "(none)", "stability", "price", "proven")
    ]
    assert [line.split()[0] for line in lines[1:5]] == ["3", "3", "4", "4"]
    assert "at least 0.9" in lines[2]
    assert "k = 4 stands out" in out
    assert lines[-1] == f"written to {tmp_path / 'out'}/"


def test_json_dry_run_and_overwrite(tmp_path, capsys):
    path = save(tmp_path / "X.npy")
    assert choice(path, "--dry-run") == 0
    assert "200 of 8 numbers, read twice" in capsys.readouterr().out
    assert [p.name for p in tmp_path.iterdir()] == ["X.npy"]
    assert choice(path, "--dry-run", "--json", "--bounds-range", "0.5:inf,0.9:1.1") == 0
    plan = json.loads(capsys.readouterr().out)
    assert (plan["n_samples"], plan["n_features"], plan["k_range"]) == (200, 8, [2, 4, 6])
    assert (plan["sample_rows"], plan["bounds_range"]) == (200, [[0.5, None], [0.9, 1.1]])
    assert (plan["runs_per_k"], plan["bounded_runs_per_k"]) == (24, 22)
    assert plan["seconds"] > 0.0
    assert plan["out"] == str(tmp_path / "X-choice")
    assert [p.name for p in tmp_path.iterdir()] == ["X.npy"]
    assert choice(path, "--json", ks="3") == 0
    printed = capsys.readouterr().out
    assert printed == (tmp_path / "X-choice" / "choice.json").read_text()
    before = listing(tmp_path / "X-choice")
    assert "--overwrite" in error_of(capsys, 73, "cluster", path, "--k-range", "3")
    assert choice(path, "--overwrite", ks="3") == 0
    assert listing(tmp_path / "X-choice") == before


def test_noise_and_a_sample(tmp_path, capsys):
    x = np.random.default_rng(0).normal(size=(9000, 4))
    assert choice(save(tmp_path / "X.npy", x), "--sample", 500, "--metric", "euclidean") == 0
    out = capsys.readouterr().out
    assert "no k stands out" in out
    assert "9,000 rows, figures of a sample of 500" in out


def test_without_matplotlib_the_picture_is_left_out_and_said_so(tmp_path, capsys, monkeypatch):
    for name in ("matplotlib", "matplotlib.figure", "matplotlib.backends.backend_agg"):
        monkeypatch.setitem(sys.modules, name, None)
    assert choice(save(tmp_path / "X.npy"), ks="3") == 0
    assert {p.name for p in (tmp_path / "X-choice").iterdir()} == {"choice.csv", "choice.json"}
    assert "choice.png          left out: pictures need matplotlib" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "ks"),
    [
        ("5", [5]),
        ("5,3,3", [3, 5]),
        ("2:4", [2, 3, 4]),
        ("5:12:5", [5, 10]),
        ("2:3,10:20:10", [2, 3, 10, 20]),
    ],
)
def test_ranges_of_k(text, ks):
    assert k_range(text) == ks


@pytest.mark.parametrize("text", ["2:3000000000", "2:9000000000000000000", "2:600,700:1200"])
def test_a_range_that_nobody_means_is_counted_and_not_built(tmp_path, capsys, text):
    """By the memory that it takes: a list of so many numbers would be 24 GB."""
    path = save(tmp_path / "X.npy")
    tracemalloc.start()
    error = error_of(capsys, 2, "cluster", path, f"--k-range={text}")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert "--k-range must name at most 1,000 numbers of clusters" in error
    assert "FIRST:LAST:STEP" in error
    assert peak < 2**24


def test_a_range_far_beyond_the_rows_is_refused(tmp_path, capsys):
    path = save(tmp_path / "X.npy")
    error = error_of(capsys, 65, "cluster", path, "--k-range=2:3000000000:1000000000")
    assert "--k-range must end at half the number of rows, or before, got 2000000002" in error


def test_ranges_of_bounds():
    assert bounds_range("0:inf, 1:1") == [(0.0, math.inf), (1.0, 1.0)]


@pytest.mark.parametrize("text", ["", "1:5", "x", "5:4", "2:8:0", "2:3:4:5", "2,,3", "2.5"])
def test_mistaken_ranges_of_k(tmp_path, capsys, text):
    path = save(tmp_path / "X.npy")
    error = error_of(capsys, 2, "cluster", path, f"--k-range={text}")
    assert "--k-range must be numbers from 2 on, or ranges FIRST:LAST:STEP" in error
    assert [p.name for p in tmp_path.iterdir()] == ["X.npy"]


@pytest.mark.parametrize("text", ["", "0.5", "1.1:2", "0.5:0.9", "a:b", "0.5:2:3", "nan:2", "-1:2"])
def test_mistaken_ranges_of_bounds(tmp_path, capsys, text):
    path = save(tmp_path / "X.npy")
    error = error_of(capsys, 2, "cluster", path, "--k-range=3", f"--bounds-range={text}")
    assert "--bounds-range must be pairs LOWER:UPPER in units of n/k" in error


@pytest.mark.parametrize(
    ("code", "options", "text"),
    [
        (2, ["--k-range", "3", "--weights", "w.npy"], "--weights is for one clustering"),
        (2, ["--k-range", "3", "--min-count", "5"], "--min-count is for one clustering"),
        (2, ["--k-range", "3", "--report"], "--report is for one clustering"),
        (2, ["--k-range", "3", "--gap", "0"], "--gap is for one clustering"),
        (2, ["--k-range", "3", "--bounds-range", "0.5:2", "--lower", "0.5"], "leave out --lower"),
        (65, ["--k-range", "3", "--sample", "5"], "--sample must be at least 6, got 5"),
        (65, ["--k-range", "5,101"], "--k-range must end at half the number of rows"),
        (2, ["-k", "3", "--bounds-range", "0.5:2"], "--bounds-range goes with --k-range"),
        (2, ["-k", "3", "--sample", "100"], "--sample goes with --k-range"),
    ],
    ids=str,
)
def test_options_that_do_not_go_together(tmp_path, capsys, code, options, text):
    path = save(tmp_path / "X.npy")
    assert text in error_of(capsys, code, "cluster", path, *options)
    assert [p.name for p in tmp_path.iterdir()] == ["X.npy"]


def test_k_and_a_range_exclude_each_other(tmp_path, capsys):
    for options in ([], ["-k", "3", "--k-range", "3"]):
        with pytest.raises(SystemExit) as stop:
            main(["cluster", str(tmp_path / "X.npy"), *options])
        assert stop.value.code == 2
        assert "--k-range" in capsys.readouterr().err


def test_what_a_range_refuses_has_the_defaults_of_the_command():
    options = build_parser().parse_args(["cluster", "X.npy", "--k-range", "3"])
    assert {name: getattr(options, name) for name in REFUSED} == REFUSED


def test_table_and_picture_for_a_page():
    x = groups()[0]
    found = choose_k(unit_rows(x), [2, 4], n_splits=2, n_init=1)
    assert choice_png(found) == choice_png(found)  # no dates, no random names
    words = [text.get_text() for text in choice_figure(found).findobj(Text)]
    assert not any("price of balance" in word for word in words)  # nothing was asked about bounds
    assert "data without clusters" in words
    assert choice_csv(found).count("\n") == 3
    assert "\n".join(choice_text(found).splitlines()[-1:]) == found.reason


FIGURES = {
    "objective": ("objective", 1.0),
    "gap": ("gap", 1.0),
    "silhouette": ("silhouette", 1.0),
    "stability": ("stability", 1.0),
    "stability_error": ("stability_error", 1.0),
    "price_percent": ("price", 100.0),
    "price_proven_percent": ("price_proven", 100.0),
    "smallest": ("smallest", 1.0),
    "largest": ("largest", 1.0),
    "all_objective": ("all_objective", 1.0),
    "all_silhouette": ("all_silhouette", 1.0),
    "all_price_proven_percent": ("all_price_proven", 100.0),
}
"""Columns of the table, and the figure of each with its unit."""


def test_each_column_and_each_word_is_its_figure():
    """Of a choice whose figures are all different, so that none can stand for another."""
    rng, shape = np.random.default_rng(0), (2, 3)
    made = {name: rng.uniform(0.01, 0.99, shape) for name, _ in FIGURES.values()}
    made |= {name: rng.integers(10, 99, shape) for name in ("smallest", "largest")}
    found = ChoiceOfK(
        ks=np.asarray([4, 7]),
        shares=np.asarray([[0.0, math.inf], [0.5, 2.0], [0.9, 1.1]]),
        reference=np.asarray([0.125, 0.375]),
        n_samples=1234,
        n_drawn=500,
        recommended=4,
        reason="Four.",
        recommended_shares=(0.5, 2.0),
        shares_reason="Half.",
        **made,
    )
    rows = choice_rows(found)
    lines = choice_text(found).splitlines()[1:]
    for at, (row, line) in enumerate(zip(rows, lines, strict=False)):
        i, j = divmod(at, 3)
        assert (row["k"], row["reference_silhouette"]) == ((4, 7)[i], (0.125, 0.375)[i])
        assert (row["lower"], row["upper"]) == ((0.0, "inf"), (0.5, 2.0), (0.9, 1.1))[j]
        for column, (name, unit) in FIGURES.items():
            assert row[column] == pytest.approx(unit * float(made[name][i, j]), rel=1e-12)
        words = line.split()
        lost = 100.0 * made["price"][i, j], 100.0 * made["all_price_proven"][i, j]
        expected = [
            f"{made['objective'][i, j]:.4g}",
            f"{made['silhouette'][i, j]:.3f}",
            f"{found.reference[i]:.3f}",
            *(f"{made['stability'][i, j]:.2f}", "+-", f"{made['stability_error'][i, j]:.2f}"),
            *([f"{lost[0]:.2f}", "%", f"{lost[1]:.2f}", "%"] if j else []),
        ]
        assert words[0] == str(row["k"])
        assert words[-len(expected) :] == expected
    assert set(COLUMNS) - set(FIGURES) == {"k", "lower", "upper", "reference_silhouette"}
    table = list(csv.DictReader(io.StringIO(choice_csv(found))))
    for row, line in zip(rows, table, strict=True):
        assert float(line["lower"]) == row["lower"]
        for column in FIGURES:
            assert float(line[column]) == pytest.approx(row[column], rel=1e-5)
    assert "1,234 rows, figures of a sample of 500" in choice_text(found)


def test_each_k_is_shown_as_it_begins(tmp_path, monkeypatch, capsys):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    path = save(tmp_path / "X.npy", groups(n=200)[0])
    assert choice(path, ks="2,4") == 0
    shown = screen.getvalue()
    places = [
        shown.index(f"] {what}")
        for what in (
            "opening X.npy",
            "checking the rows",
            "k = 2, 1 of 2",
            "k = 4, 2 of 2: k = 2 done, 1 of 2",
            "judging all rows: k = 4 done, 2 of 2",
        )
    ]
    assert places == sorted(places)
