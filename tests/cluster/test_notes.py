"""What a run says that nobody asked: what was clustered, defaults that may not fit, odd results."""

from __future__ import annotations

import json

import numpy as np
import pytest

from dualclust.cli.main import main

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 5))
DIRECTIONS = "rows are compared by their directions from the origin"
WEIGHTS = "sizes and their bounds count rows, not weights"


def table(path, names, x=X):
    lines = [",".join(map(repr, row[: len(names)])) for row in x.tolist()]
    path.write_text("\n".join([",".join(names), *lines, ""]))


def notes(tmp_path, capsys, name, *options):
    """The notes of a run, which are the same on the screen and in the file."""
    command = ["cluster", name, "-k", "3", "--out", str(tmp_path / "out"), *options]
    assert main(command) == 0
    found = json.loads((tmp_path / "out" / "result.json").read_text())["notes"]
    screen = [line for line in capsys.readouterr().out.splitlines() if line.startswith("note")]
    assert [line.removeprefix("note").strip() for line in screen] == found
    return found


@pytest.fixture(autouse=True)
def there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_named_columns_and_points_are_no_directions(tmp_path, capsys) -> None:
    pytest.importorskip("pyarrow")
    table(tmp_path / "X.csv", ["lat", "lon", "height", "age"])
    [note] = notes(tmp_path, capsys, "X.csv")
    assert note.startswith(DIRECTIONS)
    assert notes(tmp_path, capsys, "X.csv", "--overwrite", "--metric", "cosine") == []
    assert notes(tmp_path, capsys, "X.csv", "--overwrite", "--metric", "euclidean") == []
    table(tmp_path / "E.csv", ["e0", "e1", "e2", "e3"])
    assert notes(tmp_path, capsys, "E.csv", "--overwrite") == []
    np.save("X.npy", X)
    assert notes(tmp_path, capsys, "X.npy", "--overwrite") == []
    np.save("plane.npy", X[:, :2])
    [note] = notes(tmp_path, capsys, "plane.npy", "--overwrite")
    assert note.startswith(DIRECTIONS)


def test_a_dry_run_and_several_k_say_so_too(tmp_path, capsys) -> None:
    np.save("plane.npy", X[:, :2])
    for words in (["-k", "3", "--dry-run"], ["--k-range", "2:3", "--out", "choice"]):
        assert main(["cluster", "plane.npy", *words]) == 0
        out = capsys.readouterr().out
        assert "input               60 rows of 2 numbers\n" in out
        assert DIRECTIONS in out
    assert DIRECTIONS in json.loads((tmp_path / "choice" / "choice.json").read_text())["notes"][0]


def test_weights_do_not_count_in_sizes(tmp_path, capsys) -> None:
    np.save("X.npy", X)
    np.save("w.npy", np.arange(1, 61))
    weighted = ("--weights", "w.npy", "--overwrite")
    assert notes(tmp_path, capsys, "X.npy", *weighted) == [WEIGHTS]
    assert notes(tmp_path, capsys, "X.npy", *weighted, "--upper", "inf") == []


def test_fewer_clusters_than_asked_for(tmp_path, capsys) -> None:
    np.save("X.npy", np.ones((30, 4)))
    free = ("--lower", "0", "--upper", "inf", "--metric", "euclidean")
    found = notes(tmp_path, capsys, "X.npy", *free)
    assert found[0] == "2 of 3 clusters are empty"
    [note] = notes(tmp_path, capsys, "X.npy", "--overwrite")
    assert note.startswith("3 clusters have 1 different centers")


def test_what_was_clustered(tmp_path, capsys) -> None:
    pytest.importorskip("pyarrow")
    table(tmp_path / "X.csv", ["e0", "e1", "e2", "cost", "team"])
    text = (tmp_path / "X.csv").read_text().splitlines()
    rows = [line.rsplit(",", 2)[0] + f",{i + 1},{i % 4 - 1}" for i, line in enumerate(text[1:])]
    (tmp_path / "X.csv").write_text("\n".join([text[0], *rows, ""]))
    command = ["cluster", "X.csv", "-k", "3", "--weights", "cost", "--seeds", "team", "--upper"]
    assert main([*command, "inf"]) == 0
    out = capsys.readouterr().out
    assert "input               60 rows of 3 numbers: columns e0, e1, e2\n" in out
    assert "left out" not in out
    found = json.loads((tmp_path / "X-clusters" / "result.json").read_text())
    assert found["input"]["names"] == ["e0", "e1", "e2"]
    assert found["fixed_rows"] == 45
    labels = np.load(tmp_path / "X-clusters" / "labels.npy")
    known = np.arange(60) % 4 - 1
    np.testing.assert_array_equal(labels[known >= 0], known[known >= 0])
    np.save("w.npy", np.arange(1, 61))
    np.save("s.npy", known)
    same = ["cluster", "X.csv", "-k", "3", "--columns", "e*", "--weights", "w.npy", "--seeds"]
    assert main([*same, "s.npy", "--upper", "inf", "--out", "same"]) == 0
    assert "left out            'cost', 'team'\n" in capsys.readouterr().out
    assert (tmp_path / "same" / "model.npz").read_bytes() == (
        tmp_path / "X-clusters" / "model.npz"
    ).read_bytes()
