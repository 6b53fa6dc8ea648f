"""The table beside the labels: margins, second choices, identifiers."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import numpy as np
import pytest

from dualclust.cli.main import main
from tests.cli.cluster_files import error_of, listing
from tests.cluster.written_formats import (
    IDS,
    N,
    X,
    cluster,
    write_csv,
    write_parquet,
)


@pytest.mark.parametrize("options", [(), ("--metric", "euclidean", "--weights", "w.npy")])
def test_margins_and_second_choices(tmp_path, monkeypatch, options) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("X.npy", X)
    weights = np.random.default_rng(0).uniform(0.5, 2.0, size=N)
    np.save("w.npy", weights)
    assert cluster("X.npy", "out", *options, "--table", "t.csv", "--gap", "0") == 0
    with open("t.csv") as file:
        lines = list(csv.DictReader(file))
    centers = np.load("out/centers.npy").astype(np.float64)
    with open("out/sizes.csv") as file:
        prices = np.asarray([float(line["price"]) for line in csv.DictReader(file)])
    x = X / np.linalg.norm(X, axis=1, keepdims=True)
    scores = x @ centers.T
    if options:
        scores = weights[:, None] * (X @ centers.T - 0.5 * (centers**2).sum(axis=1))
    free = np.asarray([int(line["free_choice"]) for line in lines])
    tol = 1e-5 * np.abs(scores).max()
    np.testing.assert_allclose(scores[np.arange(N), free], scores.max(axis=1), atol=tol)
    scores = scores + prices
    labels = np.load("out/labels.npy")
    assert [int(line["cluster"]) for line in lines] == labels.tolist()
    own = scores[np.arange(N), labels]
    scores[np.arange(N), labels] = -np.inf
    margins = np.asarray([float(line["margin"]) for line in lines])
    tol = 1e-5 * np.abs(own).max()
    np.testing.assert_allclose(margins, own - scores.max(axis=1), atol=tol)
    assert margins.min() >= -tol
    others = np.asarray([int(line["runner_up"]) for line in lines])
    np.testing.assert_allclose(scores[np.arange(N), others], scores.max(axis=1), atol=tol)


@pytest.mark.parametrize("name", ["t.parquet", "t.arrow", "deep/t.feather"])
def test_tables_of_arrow(tmp_path, name) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    write_parquet(tmp_path / "X.parquet")
    csv_file, other = tmp_path / "t.csv", tmp_path / name
    for i, path in enumerate((csv_file, other)):
        options = ("--columns", "emb", "--id", "year", "--table", str(path))
        assert cluster(tmp_path / "X.parquet", tmp_path / f"out{i}", *options) == 0
    if other.suffix == ".parquet":
        table = pq.read_table(other)
    else:
        with pa.OSFile(str(other)) as file:
            table = pa.ipc.open_file(file).read_all()
    assert table.column_names == ["year", "cluster", "margin", "runner_up", "free_choice"]
    assert table.schema.field("year").type == pa.int64()  # as in the input
    with csv_file.open() as file:
        lines = list(csv.DictReader(file))
    for key in ("year", "cluster", "runner_up", "free_choice"):
        assert table[key].to_pylist() == [int(line[key]) for line in lines]
    assert table["margin"].to_pylist() == pytest.approx([float(ln["margin"]) for ln in lines])


def test_ids_of_an_archive_in_a_parquet_table(tmp_path) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    np.savez(tmp_path / "X.npz", X=X, key=np.array(IDS, dtype="S"))
    options = ("--id", "key", "--table", str(tmp_path / "t.parquet"))
    assert cluster(f"{tmp_path / 'X.npz'}:X", tmp_path / "out", *options) == 0
    assert pq.read_table(tmp_path / "t.parquet")["key"].to_pylist() == IDS


def test_one_cluster_has_no_second(tmp_path) -> None:
    np.save(tmp_path / "X.npy", X[:3])
    arguments = ["cluster", str(tmp_path / "X.npy"), "-k", "1", "--table"]
    assert main([*arguments, str(tmp_path / "t.csv")]) == 0
    text = (tmp_path / "t.csv").read_text()
    assert text == "row,cluster,margin,runner_up,free_choice\n0,0,,,0\n1,0,,,0\n2,0,,,0\n"
    pq = pytest.importorskip("pyarrow.parquet")
    assert main([*arguments, str(tmp_path / "t.parquet"), "--out", str(tmp_path / "b")]) == 0
    assert pq.read_table(tmp_path / "t.parquet")["margin"].to_pylist() == [None] * 3


def test_a_table_that_cannot_be_written(tmp_path, capsys) -> None:
    np.save(tmp_path / "X.npy", X)
    (tmp_path / "there.csv").write_text("mine")
    before = listing(tmp_path)
    start = ("cluster", tmp_path / "X.npy", "-k", 4, "--table")
    error = error_of(capsys, 2, *start, tmp_path / "t.npy")
    assert "must end in .csv, .parquet, .arrow, .feather" in error
    assert "Labels alone are in labels.npy of the output folder" in error
    error = error_of(capsys, 73, *start, tmp_path / "there.csv")
    assert "there.csv exists. To fix this, name another file with --table" in error
    error = error_of(capsys, 2, *start, tmp_path / "t.csv", "--id", "cluster")
    assert "--table has a column 'cluster' of its own" in error
    assert listing(tmp_path) == before


def test_a_folder_that_cannot_be_written_takes_the_table_with_it(tmp_path, monkeypatch) -> None:
    np.save(tmp_path / "X.npy", X)
    before, replace = listing(tmp_path), os.replace

    def full(source, target):
        if Path(target) == tmp_path / "out":
            assert (tmp_path / "t.csv").exists()
            raise OSError(28, "No space left on device")
        replace(source, target)

    monkeypatch.setattr(os, "replace", full)
    assert cluster(tmp_path / "X.npy", tmp_path / "out", "--table", str(tmp_path / "t.csv")) == 73
    assert listing(tmp_path) == before


def test_ids_that_have_changed_meanwhile(tmp_path, capsys, monkeypatch) -> None:
    write_csv(tmp_path / "X.csv")
    from dualclust.cluster import command

    collect = command._collect

    def shorten(*arguments):
        text = (tmp_path / "X.csv").read_text()
        (tmp_path / "X.csv").write_text(text[: text.index("100,")])
        return collect(*arguments)

    monkeypatch.setattr(command, "_collect", shorten)
    table = str(tmp_path / "t.csv")
    assert cluster(tmp_path / "X.csv", tmp_path / "out", "--id", "url", "--table", table) == 65
    assert "would have 200 lines, and the input has 100 ids by now" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["X.csv"]
