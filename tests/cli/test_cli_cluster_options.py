"""`dualclust cluster`: bounds of each cluster's own, known rows, forbidden pairs, starts."""

from __future__ import annotations

import csv
import json
import re

import numpy as np
import pytest

from dualclust.cluster.pairs import read_seeds
from dualclust.common.formats import Selection, open_rows
from tests.cli.cluster_files import check, cluster, error_of, groups, listing, outputs, save


def table(path, lines):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(lines)
    return path


# Bounds ------------------------------------------------------------------------------------------

LOW, HIGH = [10, 60, 20, 70], [40, 90, 50, 90]


def test_bounds_of_each_cluster_and_the_file_that_is_written_is_one(tmp_path) -> None:
    path = save(tmp_path / "X.npy", groups(spread=2.0)[0])
    lines = [[j, "x", HIGH[j], LOW[j]] for j in (2, 0, 3, 1)]
    bounds = table(tmp_path / "b.csv", [["cluster", "note", "max_count", "min_count"], *lines])
    assert cluster(path, "--bounds", bounds, "--out", tmp_path / "a") == 0
    labels, _, sizes, report = outputs(tmp_path / "a")
    counts = np.bincount(labels, minlength=4)
    assert (LOW <= counts).all()
    assert (counts <= HIGH).all()
    assert [int(row["min_count"]) for row in sizes] == LOW
    assert [int(row["max_count"]) for row in sizes] == HIGH
    assert (report["lower"], report["upper"]) == (None, None)
    again = ("--bounds", tmp_path / "a" / "sizes.csv", "--out", tmp_path / "b")
    assert cluster(path, *again) == 0
    assert listing(tmp_path / "a") == listing(tmp_path / "b")


WRONG_BOUNDS = {
    "a word": ("0,1,many\n1,1,90\n2,,\n3,,\n", "line 2: max_count must be a whole number of rows"),
    "negative": ("0,-1,90\n1,,\n2,,\n3,,\n", "line 2: min_count must be a whole number of rows"),
    "a fraction": (
        "0,0.5,\n1,,\n2,,\n3,,\n",
        "min_count must be a whole number of rows, got '0.5'",
    ),
    "crossed": ("0,,\n1,50,40\n2,,\n3,,\n", "line 3: min_count 50 exceeds max_count 40"),
    "no such cluster": ("0,,\n1,,\n2,,\n4,,\n", "line 5: cluster must be at most 3 for -k 4"),
    "twice": ("0,,\n1,,\n2,,\n2,,\n", "line 5: cluster 2 is in line 4"),
    "not there": ("0,,\n1,,\n", "no line for cluster 2, 3"),
    "fields": ("0,,\n1,\n2,,\n3,,\n", "line 3 has 2 fields under 3 names"),
    "many": (
        "a,,\nb,,\nc,,\nd,,\n",
        "line 4: cluster must be the number of a cluster, got 'c'; and",
    ),
    "too much": ("0,90,\n1,90,\n2,90,\n3,,\n", "lower bounds add up to 270 samples, 70 more"),
}


@pytest.mark.parametrize("name", WRONG_BOUNDS)
def test_wrong_lines_of_bounds(tmp_path, capsys, name) -> None:
    lines, words = WRONG_BOUNDS[name]
    path, bounds = save(tmp_path / "X.npy"), tmp_path / "b.csv"
    bounds.write_text("cluster,min_count,max_count\n" + lines)
    before = listing(tmp_path)
    error = error_of(capsys, 65, "cluster", path, "-k", 4, "--bounds", bounds)
    assert words in error
    assert "b.csv" in error
    assert "To fix this, " in error
    assert listing(tmp_path) == before


def test_files_that_are_no_bounds(tmp_path, capsys) -> None:
    path, bounds = save(tmp_path / "X.npy"), tmp_path / "b.csv"
    command = ("cluster", path, "-k", 4, "--bounds")
    assert "no file at" in error_of(capsys, 66, *command, bounds)
    assert "is an .npy file" in error_of(capsys, 65, *command, path)
    bounds.write_text("cluster,size,lower,upper\n0,1,2,3\n")
    error = error_of(capsys, 65, *command, bounds)
    assert "rename them (lower to min_count, upper to max_count)" in error


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--lower", 0.5, "--min-count", 3), "--lower and --min-count both bound one side"),
        (("--upper", 2, "--max-count", 90), "--upper and --max-count both bound one side"),
        (("--bounds", "b.csv", "--lower", 1), "--lower and --bounds both bound one side"),
        (("--bounds", "b.csv", "--rounding", "inward"), "--rounding is of shares of n/k"),
        (
            ("--min-count", 3, "--max-count", 90, "--rounding", "outward"),
            "--min-count and --max-count are in rows",
        ),
        (("--init", "random", "--start", "a"), "--init and --start both say where to start"),
    ],
    ids=str,
)
def test_two_answers_to_one_question(tmp_path, capsys, options, words) -> None:
    path = save(tmp_path / "X.npy")
    error = error_of(capsys, 2, "cluster", path, "-k", 4, *options)
    assert words in error
    assert "To fix this, leave" in error


# Known rows and forbidden pairs ------------------------------------------------------------------

KNOWN = {5: 3, 6: 3, 17: 0, 100: 2, 199: 1}


def labels_of(folder):
    return outputs(folder)[0]


def test_known_rows_by_array_by_table_and_by_id(tmp_path) -> None:
    pytest.importorskip("pyarrow")
    x = groups(spread=2.0)[0]
    path = save(tmp_path / "X.npy", x)
    fixed = np.full(200, -1)
    fixed[list(KNOWN)] = list(KNOWN.values())
    pairs = list(KNOWN.items())
    given = {
        "array": (path, (), save(tmp_path / "s.npy", fixed)),
        "rows": (
            path,
            (),
            table(tmp_path / "s.csv", [["cluster", "row"], *((c, r) for r, c in pairs)]),
        ),
    }
    names = [f"c{j}" for j in range(8)]
    lines = [[f"id {i}", *row] for i, row in enumerate(x.tolist())]
    rows = table(tmp_path / "T.csv", [["name", *names], *lines])
    ids = table(tmp_path / "i.csv", [["name", "cluster"], *((f"id {r}", c) for r, c in pairs)])
    given["ids"] = (rows, ("--id", "name"), ids)
    for name, (source, options, seeds) in given.items():
        out = tmp_path / name
        assert cluster(source, *options, "--seeds", seeds, "--out", out) == 0
        labels, report = check(out, x, 4, fixed=pairs)
        assert report["fixed_rows"] == 5
        np.testing.assert_array_equal(labels, labels_of(tmp_path / "array"))
    free = tmp_path / "free"
    assert cluster(path, "--out", free) == 0
    assert labels_of(free)[list(KNOWN)].tolist() != list(
        KNOWN.values()
    )  # so the seeds say something


def test_the_table_that_is_written_is_one_of_seeds(tmp_path) -> None:
    path = save(tmp_path / "X.npy", groups(spread=2.0)[0])
    made = tmp_path / "labels.csv"
    assert cluster(path, "--table", made, "--out", tmp_path / "a") == 0
    assert cluster(path, "--seeds", made, "--out", tmp_path / "b", "--seed", 9) == 0
    np.testing.assert_array_equal(labels_of(tmp_path / "a"), labels_of(tmp_path / "b"))


def test_forbidden_pairs_by_array_and_by_table(tmp_path) -> None:
    x = groups(spread=2.0)[0]
    path = save(tmp_path / "X.npy", x)
    assert cluster(path, "--out", tmp_path / "free") == 0
    free = labels_of(tmp_path / "free")
    pairs = np.stack([np.arange(30), free[:30]], axis=1)
    array = save(tmp_path / "f.npy", pairs)
    lines = table(tmp_path / "f.csv", [["row", "cluster"], *pairs.tolist()])
    for name, file in (("array", array), ("table", lines)):
        assert cluster(path, "--forbidden", file, "--out", tmp_path / name) == 0
        _, report = check(tmp_path / name, x, 4, forbidden=pairs)
        assert report["forbidden_pairs"] == 30
    assert listing(tmp_path / "array") == listing(tmp_path / "table")


def test_the_page_knows_the_choices_that_rows_have(tmp_path) -> None:
    path, known = save(tmp_path / "X.npy"), np.full(200, -1)
    assert cluster(path, "--out", tmp_path / "free") == 0
    known[::4] = labels_of(tmp_path / "free")[::4]
    seeds = save(tmp_path / "seeds.npy", known)
    assert cluster(path, "--seeds", seeds, "--report", "--out", tmp_path / "out") == 0
    page = (tmp_path / "out" / "report.html").read_text()
    (margins,) = re.findall(r'"margins": ?(\{[^}]*\})', page)
    assert json.loads(margins)["n"] == 150  # a row without another choice has no margin


def csv_of(text):
    return lambda folder: (folder / "s.csv").write_text(text)


WRONG_PAIRS = {
    "no column": (csv_of("id,cluster\n3,1\n"), "has the columns 'id', 'cluster'"),
    "a word": (csv_of("row,cluster\n3,one\n"), "has the cluster 'one' in line 2"),
    "no such cluster": (csv_of("row,cluster\n3,1\n4,4\n"), "has the cluster '4' in line 3"),
    "no such row": (csv_of("row,cluster\n200,1\n"), "has the row '200' in line 2"),
    "two clusters": (
        csv_of("row,cluster\n3,1\n3,2\n"),
        "puts row 3 into cluster 1 and into cluster 2",
    ),
    "fields": (csv_of("row,cluster\n3\n"), "has 1 fields in line 2, under 2 names"),
    "too many": (
        csv_of("row,cluster\n" + "".join(f"{i},1\n" for i in range(60))),
        "fixed puts 60 rows into cluster 1, which takes at most 55",
    ),
    "a picture": (
        lambda folder: (folder / "s.csv").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(99)),
        "is a PNG picture",
    ),
    "short": (
        lambda folder: save(folder / "s.npy", np.zeros(199, int)),
        "holds int64 of shape (199,)",
    ),
    "floats": (
        lambda folder: save(folder / "s.npy", np.zeros(200)),
        "holds float64 of shape (200,)",
    ),
    "label": (
        lambda folder: save(folder / "s.npy", np.full(200, 4)),
        "has a label outside -1 to 3: 4 at 0, and 199 more",
    ),
}


@pytest.mark.parametrize("name", WRONG_PAIRS)
def test_wrong_files_of_known_rows(tmp_path, capsys, name) -> None:
    write, words = WRONG_PAIRS[name]
    path = save(tmp_path / "X.npy")
    write(tmp_path)
    [seeds] = tmp_path.glob("s.*")
    before = listing(tmp_path)
    error = error_of(capsys, 65, "cluster", path, "-k", 4, "--seeds", seeds)
    assert words in error
    assert "To fix this, " in error
    assert listing(tmp_path) == before


def test_ids_that_no_row_or_two_rows_have(tmp_path, capsys) -> None:
    np.savez(tmp_path / "X.npz", x=groups()[0], name=np.asarray(["a", "b", "a", *"c" * 197]))
    command = ("cluster", tmp_path / "X.npz", "-k", 4, "--id", "name", "--seeds")
    seeds = table(tmp_path / "s.csv", [["name", "cluster"], ["z", 1], ["b", 1]])
    assert "has 1 ids that no row of" in error_of(capsys, 65, *command, seeds)
    seeds = table(tmp_path / "s.csv", [["name", "cluster"], ["a", 1]])
    error = error_of(capsys, 65, *command, seeds)
    assert "names the id 'a', which rows 0 and 2 of" in error


def test_ids_go_on_from_shard_to_shard(tmp_path) -> None:
    x = groups(spread=2.0)[0]
    (tmp_path / "X").mkdir()
    for part in range(2):
        rows = slice(100 * part, 100 * part + 100)
        names = np.asarray([f"id {i}" for i in range(200)])[rows]
        np.savez(tmp_path / "X" / f"{part}.npz", x=x[rows], name=names)
    lines = [["name", "cluster"], *([f"id {r}", c] for r, c in KNOWN.items())]
    seeds = table(tmp_path / "s.csv", lines)
    rows = open_rows(tmp_path / "X", Selection(array="x", id="name"))
    fixed = read_seeds(seeds, rows, 4, "name")
    assert {int(row): int(fixed[row]) for row in np.flatnonzero(fixed >= 0)} == KNOWN


# Starts ------------------------------------------------------------------------------------------


def test_a_file_of_centers_is_where_it_starts(tmp_path) -> None:
    x = groups(spread=2.0)[0]
    path = save(tmp_path / "X.npy", x)
    centers = 5.0 * x[[3, 90, 44, 7]]
    start = save(tmp_path / "c.npy", centers)
    assert cluster(path, "--init", start, "--max-iter", 0, "--out", tmp_path / "a") == 0
    found = outputs(tmp_path / "a")[1]
    np.testing.assert_allclose(found, centers / np.linalg.norm(centers, axis=1)[:, None], atol=1e-6)


def test_random_rows_are_where_it_starts(tmp_path) -> None:
    x = groups(spread=2.0)[0]
    path = save(tmp_path / "X.npy", x)
    starts = []
    for seed in (0, 0, 1):
        out = tmp_path / f"{len(starts)}"
        options = ("--init", "random", "--seed", seed, "--max-iter", 0, "--out", out)
        assert cluster(path, *options) == 0
        starts.append(outputs(out)[1])
    unit = x / np.linalg.norm(x, axis=1)[:, None]
    nearest = (starts[0] @ unit.T).max(axis=1)
    np.testing.assert_allclose(nearest, 1.0, atol=1e-6)
    assert len(np.unique(starts[0], axis=0)) == 4
    np.testing.assert_array_equal(starts[0], starts[1])
    assert np.abs(starts[0] - starts[2]).max() > 1e-3
    options = ("--init", "random", "--max-iter", 0, "--out", tmp_path / "all")
    assert cluster(path, *options, k=200) == 0
    assert len(np.unique(outputs(tmp_path / "all")[1], axis=0)) == 200


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_a_result_goes_on_from_a_result(tmp_path, metric) -> None:
    path = save(tmp_path / "X.npy", groups(n=2000, k=8, spread=3.0)[0])
    options = ("--metric", metric, "--tol", 0)
    first, whole = tmp_path / "first", tmp_path / "whole"
    assert cluster(path, *options, "--max-iter", 5, "--out", first, k=8) == 0
    assert cluster(path, *options, "--max-iter", 9, "--out", whole, k=8) == 0
    for model in (first, first / "model.npz"):
        out = tmp_path / f"on {model.name}"
        assert cluster(path, *options, "--start", model, "--max-iter", 4, "--out", out, k=8) == 0
        _, centers, _, report = outputs(out)
        assert report["passes"] == 4
        assert report["init"] == "start"
        # The last labels of a result have a smaller gap than those within a run.
        assert np.abs(centers - outputs(whole)[1]).max() <= 0.02 * np.abs(centers).max()
    assert (
        cluster(path, *options, "--start", whole, "--max-iter", 0, "--out", tmp_path / "z", k=8)
        == 0
    )
    labels, _, _, again = outputs(tmp_path / "z")
    np.testing.assert_array_equal(labels, outputs(whole)[0])
    assert again["passes"] == 0


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (("--init", "gone.npy"), 66, "no file at gone.npy"),
        (("--init", "X.npy"), 65, "X.npy holds 200 rows of 8 numbers. --init is"),
        (("--init", "zero.npy"), 65, "holds only zeros in row 1"),
        (("--init", "nan.npy"), 65, "holds NaN or infinity"),
        (("--start", "gone"), 66, "no model at gone"),
        (("--start", "X.npy"), 65, "X.npy is an .npy file. A model is the file model.npz"),
        (("--start", "five"), 65, "five has 5 centers of 8 numbers, metric cosine. --start is a"),
        (("--start", "four", "--metric", "euclidean"), 65, "metric cosine"),
    ],
    ids=str,
)
def test_starts_that_do_not_fit(tmp_path, capsys, monkeypatch, options, code, words) -> None:
    monkeypatch.chdir(tmp_path)
    save(tmp_path / "X.npy")
    save(tmp_path / "zero.npy", np.eye(4, 8) * [[1], [0], [1], [1]])
    save(tmp_path / "nan.npy", np.full((4, 8), np.nan))
    for name, k in (("four", 4), ("five", 5)):
        assert cluster("X.npy", "--out", name, "--max-iter", 0, k=k) == 0
    capsys.readouterr()
    before = listing(tmp_path)
    assert words in error_of(capsys, code, "cluster", "X.npy", "-k", 4, *options)
    assert listing(tmp_path) == before
