"""`--invalid drop`: the answer of the file without such rows, by the numbers of the input."""

from __future__ import annotations

import csv
import json
import threading

import numpy as np
import pytest

from dualclust.algos.scores.blocks import MOST_ROWS
from dualclust.cli.main import main
from dualclust.cluster import launch
from dualclust.cluster.valid_rows import KeptRows
from dualclust.common.formats.in_memory import HeldRows
from tests.cli.cluster_files import groups, listing
from tests.thread_ranks import on_threads

N, D = 200, 8
X = groups(n=N, d=D)[0].astype(np.float32)
BAD = np.asarray([0, 3, 4, 70, 199])
GOOD = np.setdiff1d(np.arange(N), BAD)
DROP = ("--invalid", "drop")
SAME = ("centers.npy", "sizes.csv", "model.npz")


def spoiled():
    """The rows, of which some hold NaN, infinity, or zeros."""
    x = X.copy()
    x[0, 3], x[3, 0], x[4, 7], x[70], x[199] = np.nan, np.inf, -np.inf, 0.0, np.nan
    return x


@pytest.fixture
def files(tmp_path):
    np.save(tmp_path / "all.npy", spoiled())
    np.save(tmp_path / "good.npy", X[GOOD])
    return tmp_path


def cluster(place, out, *options):
    return main(["cluster", str(place), "-k", "4", "--out", str(out), *map(str, options)])


def lines_of(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def labels_of(folder, name="out"):
    return np.load(folder / name / "labels.npy")


def test_kept_rows_are_those_of_numpy() -> None:
    x = np.arange(40.0).reshape(20, 2)
    for dropped in ([], [0], [19], [0, 1, 2], [4, 5, 9, 18, 19], list(range(19))):
        numbers = np.asarray(dropped, dtype=np.int64)
        rows = KeptRows(HeldRows("x", [x], 0, 20, 2, x.dtype), numbers)
        want = np.delete(x, numbers, axis=0)
        n = rows.n_samples
        assert n == len(want)
        for start in range(n + 1):
            for stop in range(start, n + 1):
                np.testing.assert_array_equal(rows.rows(start, stop), want[start:stop])
        ids = np.random.default_rng(0).integers(n, size=30)
        np.testing.assert_array_equal(rows.take(ids), want[ids])
        places = rows.places(np.arange(20))
        np.testing.assert_array_equal(places[numbers], -1)
        np.testing.assert_array_equal(places[rows.numbers(np.arange(n))], np.arange(n))


def test_the_answer_of_the_good_rows(files, capsys) -> None:
    assert cluster(files / "good.npy", files / "want") == 0
    capsys.readouterr()
    assert cluster(files / "all.npy", files / "out", *DROP) == 0
    out = capsys.readouterr().out
    assert "input               195 rows of 8 numbers" in out
    assert "dropped             5 rows" in out
    assert ": 0, 3, 4, 70, 199\n" in out
    want, found = listing(files / "want"), listing(files / "out")
    assert {name: found[name] for name in SAME} == {name: want[name] for name in SAME}
    labels = labels_of(files)
    assert (labels[BAD] == -1).all()
    np.testing.assert_array_equal(labels[GOOD], labels_of(files, "want"))
    about = json.loads(found["result.json"])["input"]
    assert (about["rows"], about["dropped_rows"], about["dropped"]) == (195, 5, BAD.tolist())


def test_rows_of_zeros_have_a_place_where_points_are_compared(files) -> None:
    assert cluster(files / "all.npy", files / "out", *DROP, "--metric", "euclidean") == 0
    np.testing.assert_array_equal(np.flatnonzero(labels_of(files) == -1), [0, 3, 4, 199])


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_their_lines_of_a_table_are_empty(files, suffix) -> None:
    pytest.importorskip("pyarrow")
    table = files / f"t{suffix}"
    assert cluster(files / "all.npy", files / "out", *DROP, "--table", table) == 0
    if suffix == ".csv":
        lines = lines_of(table)
    else:
        import pyarrow.parquet as parquet

        read = parquet.read_table(table).to_pylist()
        lines = [{k: "" if v is None else str(v) for k, v in line.items()} for line in read]
    assert [line["row"] for line in lines] == [str(i) for i in range(N)]
    assert [i for i, line in enumerate(lines) if line["cluster"] == ""] == BAD.tolist()
    for i in BAD:
        assert {lines[i][name] for name in ("margin", "runner_up", "free_choice")} == {""}
    some = [int(lines[i]["cluster"]) for i in GOOD]
    np.testing.assert_array_equal(some, labels_of(files)[GOOD])


def test_the_report_names_rows_by_their_numbers_in_the_input(files) -> None:
    captions = "".join(f"row {i}\n" for i in range(N))
    (files / "captions.txt").write_text(captions)
    shown = ("--report", "--show", files / "captions.txt")
    assert cluster(files / "all.npy", files / "out", *DROP, *shown) == 0
    lines = lines_of(files / "out" / "rows.csv")
    rows = np.asarray([int(line["row"]) for line in lines])
    assert not set(rows) & set(BAD.tolist())
    np.testing.assert_array_equal([int(line["cluster"]) for line in lines], labels_of(files)[rows])
    page = (files / "out" / "report.html").read_text()
    assert f"row {rows[0]}" in page


def test_files_about_rows_count_those_of_the_input(files) -> None:
    """Weights, known clusters and forbidden pairs of dropped rows say nothing."""
    weights, seeds = np.arange(1.0, N + 1), np.full(N, -1)
    seeds[[0, 1, 2, 150]] = 0, 1, 2, 3
    pairs = np.asarray([[0, 0], [5, 1], [180, 2], [199, 3]])
    np.save(files / "w.npy", weights)
    np.save(files / "s.npy", seeds)
    np.save(files / "f.npy", pairs)
    options = [f for name in ("weights", "seeds", "forbidden") for f in (f"--{name}", name[0])]
    given = [str(files / f"{o}.npy") if len(o) == 1 else o for o in options]
    assert cluster(files / "all.npy", files / "out", *DROP, *given) == 0
    np.save(files / "w.npy", weights[GOOD])
    np.save(files / "s.npy", seeds[GOOD])
    np.save(files / "f.npy", np.asarray([[np.searchsorted(GOOD, 5), 1],
                                         [np.searchsorted(GOOD, 180), 2]]))  # fmt: skip
    assert cluster(files / "good.npy", files / "want", *given) == 0
    np.testing.assert_array_equal(labels_of(files)[GOOD], labels_of(files, "want"))
    found, want = listing(files / "out"), listing(files / "want")
    assert {name: found[name] for name in SAME} == {name: want[name] for name in SAME}


def test_a_stopped_run_goes_on(files) -> None:
    state = ("--checkpoint", files / "state", *DROP)
    last, options = ("--max-iter", 3, "--resume"), ("--tol", 0)
    assert cluster(files / "all.npy", files / "want", *options, "--max-iter", 3, *DROP) == 0
    assert cluster(files / "all.npy", files / "part", *options, "--max-iter", 1, *state) == 0
    assert cluster(files / "all.npy", files / "out", *options, *last, *state) == 0
    assert listing(files / "out") == listing(files / "want")
    stop = ("--checkpoint", files / "state", "--resume")
    assert cluster(files / "good.npy", files / "other", *options, *stop) == 65


def test_assign_labels_the_good_rows(files) -> None:
    assert cluster(files / "good.npy", files / "model") == 0
    for more in ((), ("--bounded",)):
        runs = {"all": DROP, "good": ()}
        for name, options in runs.items():
            place, out = files / f"{name}.npy", files / f"{name}{len(more)}"
            words = ["assign", files / "model", place, "--out", out, *options, *more]
            assert main([*map(str, words)]) == 0
        labels = labels_of(files, f"all{len(more)}")
        assert (labels[BAD] == -1).all()
        np.testing.assert_array_equal(labels[GOOD], labels_of(files, f"good{len(more)}"))
        result = json.loads((files / f"all{len(more)}" / "result.json").read_text())
        assert (result["n_samples"], result["input"]["dropped_rows"]) == (195, 5)
    words = ["assign", files / "model", files / "all.npy", *DROP, "--table", files / "t.csv"]
    assert main([*map(str, words)]) == 0
    lines = lines_of(files / "t.csv")
    assert [i for i, line in enumerate(lines) if line["cluster"] == ""] == BAD.tolist()


def test_a_comparison_of_several_k(files, capsys) -> None:
    words = ["cluster", str(files / "all.npy"), "--k-range", "2:3", *DROP]
    assert main([*words, "--out", str(files / "out")]) == 0
    about = json.loads((files / "out" / "choice.json").read_text())["input"]
    assert (about["rows"], about["dropped_rows"]) == (195, 5)


def test_a_file_of_nothing_else(files, capsys) -> None:
    np.save(files / "none.npy", np.full((5, 2), np.nan))
    assert cluster(files / "none.npy", files / "out", *DROP) == 65
    assert "has no row that can be clustered: all 5 are dropped" in capsys.readouterr().err


def test_a_dry_run_looks_at_the_rows(files, capsys) -> None:
    assert cluster(files / "all.npy", files / "out", "--dry-run") == 65
    assert "holds NaN or infinity in 4 rows, the first of them row 0" in capsys.readouterr().err
    assert cluster(files / "all.npy", files / "out", "--dry-run", *DROP) == 0
    out = capsys.readouterr().out
    assert "input               195 rows" in out
    assert "mean size 48.75 rows" in out


@pytest.mark.parametrize("shards", [False, True])
def test_ranks_give_the_same_bytes(tmp_path, monkeypatch, shards) -> None:
    pytest.importorskip("torch")
    n = 2 * MOST_ROWS + 900
    x = np.random.default_rng(0).normal(size=(n, 4)).astype(np.float32)
    x[:700] += 3
    x[np.random.default_rng(1).choice(n, 600, replace=False), 1] = np.nan
    x[: MOST_ROWS // 2 : 2] = np.inf  # the shares of ranks move far
    if shards:
        (tmp_path / "X").mkdir()
        for i, part in enumerate(np.array_split(x, 3)):
            np.savez_compressed(tmp_path / "X" / f"{i}.npz", part)
    else:
        np.save(tmp_path / "X.npy", x)
    place = tmp_path / ("X" if shards else "X.npy")
    options = (*DROP, "--max-iter", 2, "--tol", 0)
    assert cluster(place, tmp_path / "one", *options, "--table", tmp_path / "one.csv") == 0
    here = threading.local()

    def work(ranks):
        here.ranks = ranks
        return cluster(place, tmp_path / "many", *options, "--table", tmp_path / "many.csv")

    monkeypatch.setattr(launch, "join_ranks", lambda *_, **__: here.ranks)
    assert on_threads(3, work) == [0] * 3
    assert listing(tmp_path / "many") == listing(tmp_path / "one")
    assert (tmp_path / "many.csv").read_bytes() == (tmp_path / "one.csv").read_bytes()
    bad = ~np.isfinite(x).all(axis=1)
    np.testing.assert_array_equal(labels_of(tmp_path, "one") == -1, bad)
