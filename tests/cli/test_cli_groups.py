"""`dualclust cluster`: bounds on groups of rows, linked rows, and rows that stay out."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

from dualclust.algos.bounds import GroupBounds, SizeBounds
from dualclust.algos.clustering import grouped_kmeans
from tests.cli.cluster_files import cluster, error_of

FILES = {"labels.npy", "centers.npy", "sizes.csv", "groups.csv", "result.json"}


@pytest.fixture(name="rows")
def rows_of_two_teams():
    rows = np.random.default_rng(0).normal(size=(90, 2))
    return rows, np.where(rows[:, 0] > 0.0, "red", "blue")


def read(folder):
    with (folder / "groups.csv").open() as file:
        lines = list(csv.DictReader(file))
    labels = np.load(folder / "labels.npy", allow_pickle=False)
    return labels, lines, json.loads((folder / "result.json").read_text())


def test_a_column_of_names_and_a_file_of_numbers_say_the_same(rows, tmp_path, capsys) -> None:
    x, teams = rows
    with (tmp_path / "t.csv").open("w", newline="") as file:
        lines = [(*row.tolist(), team) for row, team in zip(x, teams, strict=True)]
        csv.writer(file).writerows([("a", "b", "team"), *lines])
    np.save(tmp_path / "g.npy", (teams == "red").astype(np.int32))
    how = ("--metric", "euclidean", "--group-bounds", "0.8:1.2")
    path = tmp_path / "t.csv"
    assert cluster(path, *how, "--groups", "team", "--out", tmp_path / "a", k=3) == 0
    shown = capsys.readouterr().out
    assert "groups              2 of 90 samples, in each cluster 0.8 to 1.2 of their mean" in shown
    apart = ("--columns", "a,b", "--groups", tmp_path / "g.npy", "--out", tmp_path / "b")
    assert cluster(path, *how, *apart, k=3) == 0
    labels, lines, result = read(tmp_path / "a")
    assert {path.name for path in (tmp_path / "a").iterdir()} == FILES
    np.testing.assert_array_equal(labels, read(tmp_path / "b")[0])
    for line in lines:
        size = ((teams == line["group"]) & (labels == int(line["cluster"]))).sum()
        assert int(line["min_count"]) <= size == int(line["size"]) <= int(line["max_count"])
    assert [line["group"] for line in lines] == ["blue"] * 3 + ["red"] * 3
    facts = [result[key] for key in ("groups", "rows_in_groups", "group_violation", "violation")]
    assert facts == [2, 90, 0, 0]
    assert result["relative_gap"] == 0.0
    sizes = SizeBounds.from_ratios(3, n_samples=90)
    fair = GroupBounds.from_shares((teams == "red").astype(int), 3, lower=0.8, upper=1.2)
    centers = np.load(tmp_path / "a" / "centers.npy", allow_pickle=False)
    again = grouped_kmeans(x, sizes, fair, centers, metric="euclidean", max_iter=0)
    np.testing.assert_array_equal(again.assignment.labels, labels)


def test_rows_that_are_dropped_belong_to_no_group(rows, tmp_path) -> None:
    x, _ = rows
    x[:4] = np.nan
    np.save(tmp_path / "x.npy", x)
    families = np.full(90, "", "<U9")
    families[:8] = "same"
    np.save(tmp_path / "g.npy", families)
    how = ("--invalid", "drop", "--groups", tmp_path / "g.npy", "--group-bounds", "at-most-one")
    assert cluster(tmp_path / "x.npy", *how, "--out", tmp_path / "o", k=4) == 0
    labels, lines, result = read(tmp_path / "o")
    assert labels[:4].tolist() == [-1] * 4
    assert sorted(labels[4:8]) == [0, 1, 2, 3]
    assert (result["rows_in_groups"], len(lines)) == (4, 4)


def test_rows_that_stay_out(rows, tmp_path, capsys) -> None:
    x, _ = rows
    x[[3, 40]] = [[900.0, 0.0], [0.0, -700.0]]
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "c.npy", x[[0, 1]])
    start = ("--init", tmp_path / "c.npy", "--lower", 0.5, "--upper", "inf")
    for metric in ("euclidean", "cosine"):
        out = tmp_path / metric
        how = ("--max-out", 2, "--metric", metric, "--out", out)
        assert cluster(tmp_path / "x.npy", *how, *start, k=2) == 0
        assert "rows out            2 of at most 2: label -1" in capsys.readouterr().out
        labels = np.load(out / "labels.npy", allow_pickle=False)
        centers = np.load(out / "centers.npy", allow_pickle=False)
        result = json.loads((out / "result.json").read_text())
        kept = labels >= 0
        if metric == "euclidean":
            assert np.flatnonzero(~kept).tolist() == [3, 40]
            mean = ((x[kept] - centers[labels[kept]]) ** 2).sum(axis=1).mean()
            assert result["mean_squared_distance"] == pytest.approx(mean)
            assert result["mean_squared_distance_bound"] == pytest.approx(mean)
        else:
            unit = x / np.linalg.norm(x, axis=1, keepdims=True)
            mean = (unit[kept] * centers[labels[kept]]).sum(axis=1).mean()
            assert result["mean_similarity"] == pytest.approx(mean)
            assert result["mean_similarity_bound"] == pytest.approx(mean)
        assert (result["max_out"], result["rows_out"]) == (2, 2)
        assert (out / "model.npz").is_file()


def test_linked_rows_by_number_and_by_id(rows, tmp_path, capsys) -> None:
    x, _ = rows
    with (tmp_path / "t.csv").open("w", newline="") as file:
        lines = [(f"n{i}", *row) for i, row in enumerate(x.tolist())]
        csv.writer(file).writerows([("name", "a", "b"), *lines])
    links = [(i, i + 30, "must" if i % 2 else "cannot") for i in range(30)]
    for path, line in (("numbers.csv", "{},{},{}"), ("names.csv", "n{},n{},{}")):
        head = "row,other,link" if path == "numbers.csv" else "name,other,link"
        text = "\n".join([head, *(line.format(*link) for link in links)])
        (tmp_path / path).write_text(text + "\n")
    how = ("--metric", "euclidean", "--id", "name")
    for path in ("numbers.csv", "names.csv"):
        out = ("--links", tmp_path / path, "--out", tmp_path / path[:-4])
        assert cluster(tmp_path / "t.csv", *how, *out, k=3) == 0
        assert "links               15 pairs together, 15 pairs apart" in capsys.readouterr().out
    labels = np.load(tmp_path / "numbers" / "labels.npy", allow_pickle=False)
    assert (labels[1:30:2] == labels[31:60:2]).all()
    assert (labels[0:30:2] != labels[30:60:2]).all()
    same = np.load(tmp_path / "names" / "labels.npy", allow_pickle=False)
    np.testing.assert_array_equal(labels, same)
    result = json.loads((tmp_path / "names" / "result.json").read_text())
    assert (result["must_link_pairs"], result["cannot_link_pairs"]) == (15, 15)
    assert result["violation"] == 0


def test_pairs_of_a_row_that_is_dropped_say_nothing(rows, tmp_path) -> None:
    x, _ = rows
    x[0] = np.nan
    np.save(tmp_path / "x.npy", x)
    (tmp_path / "p.csv").write_text("row,other,link\n0,1,cannot\n2,3,cannot\n4,5,must\n")
    how = ("--invalid", "drop", "--links", tmp_path / "p.csv", "--out", tmp_path / "o")
    assert cluster(tmp_path / "x.npy", *how, k=2) == 0
    labels = np.load(tmp_path / "o" / "labels.npy", allow_pickle=False)
    assert labels[0] == -1
    assert labels[2] != labels[3]
    assert labels[4] == labels[5]
    result = json.loads((tmp_path / "o" / "result.json").read_text())
    assert (result["must_link_pairs"], result["cannot_link_pairs"]) == (1, 1)


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("row,other\n0,1\n", "has the columns 'row', 'other'"),
        ("row,other,link\n0,1,together\n", "has the link 'together' in line 2"),
        ("row,other,link\n0,95,must\n", "has the row '95' in line 2"),
        ("row,other,link\n0,1,must\n0,1,cannot\n", "rows 0 and 1 must be together"),
    ],
)
def test_links_that_are_wrong(rows, tmp_path, capsys, lines, words) -> None:
    np.save(tmp_path / "x.npy", rows[0])
    (tmp_path / "p.csv").write_text(lines)
    how = ("-k", 3, "--links", tmp_path / "p.csv")
    assert words in error_of(capsys, 65, "cluster", tmp_path / "x.npy", *how)


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (("--group-bounds", "0.8:1.2"), 2, "--group-bounds needs --groups"),
        (("--groups", "g.npy", "--group-bounds", "fair"), 65, "LOW:HIGH with 0 <= LOW <= 1"),
        (("--groups", "g.npy", "--group-bounds", "1.1:1.2"), 65, "got 1.1:1.2"),
        (("--groups", "none.npy"), 66, "no file at"),
        (("--groups", "short.npy"), 65, "Groups are a whole number or a text for each of the 90"),
        (("--groups", "x.npy"), 65, "holds float64 of shape (90, 2)"),
        (("--groups", "team"), 2, "--groups team is no file, so it must be a column"),
        (("--groups", "g.npy", "--report"), 2, "--groups does not go with --report"),
        (("--groups", "g.npy", "--max-out", 3), 2, "--groups does not go with --max-out"),
        (("--groups", "g.npy", "--group-bounds", "at-most-one"), 65, "no labels are inside"),
        (("--max-out", 3, "--weights", "w.npy"), 2, "--max-out does not go with --weights"),
        (("--links", "none.csv"), 66, "no file at none.csv, which --links names"),
        (("--links", "g.npy"), 65, "is an array of NumPy"),
        (("--links", "none.csv", "--seeds", "g.npy"), 2, "--links does not go with --seeds"),
        (("--groups", "g.npy", "--links", "none.csv"), 2, "--groups does not go with --links"),
        (("--max-out", 0), 65, "--max-out"),
        (("--max-out", 91), 65, "max_out must be at most the 90 rows"),
        (("--groups", "g.npy", "--metric", "precomputed"), 2, "--groups does not go with --metric"),
    ],
)
def test_what_is_refused(rows, tmp_path, monkeypatch, capsys, options, code, words) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", rows[0])
    np.save("g.npy", (rows[1] == "red").astype(int))
    np.save("short.npy", np.zeros(9, int))
    assert words in error_of(capsys, code, "cluster", "x.npy", "-k", 3, *options)
    assert not (tmp_path / "x-clusters").exists()
