"""`dualclust assign`: labels of new rows, and errors that say what does not fit."""

from __future__ import annotations

import csv
import json
import shutil

import numpy as np
import pytest

from dualclust.cli.main import main
from dualclust.cluster import assign as assign_command
from tests.cli.cluster_files import cluster, error_of, groups, listing, save
from tests.problems import unit_rows

ROWS = {"n": 600, "k": 6, "d": 5, "spread": 2.0}


@pytest.fixture(scope="module", params=["cosine", "euclidean"])
def model(request, tmp_path_factory):
    """(metric, training rows, folder with a model of them)."""
    folder = tmp_path_factory.mktemp("model")
    x = groups(**ROWS)[0]
    # Unequal groups, so that bounds and prices matter.
    x = x[np.random.default_rng(0).integers(600, size=600) // 2]
    x = x + 1e-3 * np.random.default_rng(1).normal(size=x.shape)
    x = x + 50.0 if request.param == "euclidean" else x
    path = save(folder / "X.npy", x)
    options = ("--metric", request.param, "--gap", 0, "--out", folder / "out")
    assert cluster(path, *options, k=6) == 0
    return request.param, x, folder / "out"


def assign(*arguments):
    return main(["assign", *map(str, arguments)])


def arrays(folder):
    with np.load(folder / "model.npz") as archive:
        return archive["centers"], archive["prices"]


def scores_of(model, x):
    """Scores from the files, by their definition."""
    metric, _, folder = model
    centers = arrays(folder)[0].astype(np.float64)
    if metric == "cosine":
        return unit_rows(x) @ centers.T
    return -0.5 * ((x[:, None] - centers[None]) ** 2).sum(axis=2)


def read(folder):
    assert {p.name for p in folder.iterdir()} == {"labels.npy", "sizes.csv", "result.json"}
    labels = np.load(folder / "labels.npy", allow_pickle=False)
    with (folder / "sizes.csv").open() as file:
        sizes = list(csv.DictReader(file))
    assert [int(row["size"]) for row in sizes] == np.bincount(labels, minlength=6).tolist()
    return labels, sizes, json.loads((folder / "result.json").read_text())


def near(model):
    """Rows near those of the model."""
    x = model[1]
    return x[:137] + 0.1 * np.random.default_rng(5).normal(size=(137, x.shape[1]))


def mean_of(model, scores, labels, y):
    own = scores[np.arange(len(labels)), labels]
    return own.mean() if model[0] == "cosine" else -2.0 * own.mean()


def test_the_nearest_center_of_each_row(tmp_path, capsys, model) -> None:
    y = near(model)
    assert assign(model[2], save(tmp_path / "Y.npy", y)) == 0
    labels, sizes, result = read(tmp_path / "Y-assigned")
    scores = scores_of(model, y)
    np.testing.assert_array_equal(labels, scores.argmax(axis=1))
    assert labels.dtype == np.int64
    name = "mean_similarity" if model[0] == "cosine" else "mean_squared_distance"
    assert result[name] == pytest.approx(mean_of(model, scores, labels, y), rel=1e-6)
    assert (result["labels"], result["n_samples"], result["metric"]) == ("nearest", 137, model[0])
    assert {float(row["price"]) for row in sizes} == {0.0}
    out, err = capsys.readouterr()
    assert err == ""
    assert "137 rows, the nearest centers" in out


def test_stored_prices_give_the_training_rows_their_labels(tmp_path, capsys, model) -> None:
    _, x, folder = model
    path, made = save(tmp_path / "X.npy", x), tmp_path / "a" / "l.npy"
    assert assign(folder / "model.npz", path, "--prices", "--json", "--out", made) == 0
    result = json.loads(capsys.readouterr().out)
    labels, want = np.load(made), np.load(folder / "labels.npy")
    priced = scores_of(model, x) + arrays(folder)[1]
    # What the rows are worth does not include the prices.
    name = "mean_similarity" if model[0] == "cosine" else "mean_squared_distance"
    assert result[name] == pytest.approx(mean_of(model, scores_of(model, x), labels, x), rel=1e-6)
    assert result["labels"] == "prices"
    line = np.arange(len(x))
    lost = priced.max(axis=1) - priced[line, want]
    scale = np.abs(priced).max()
    assert (lost[labels != want] <= 1e-9 * scale).all()  # ties
    assert (labels == want).mean() > 0.98
    assert assign(folder, path, "--out", tmp_path / "nearest.npy") == 0
    nearest = np.load(tmp_path / "nearest.npy")
    assert (nearest != want).sum() > 2 * (labels != want).sum()  # so the prices say something


def test_bounded_keeps_the_shares_of_the_model(tmp_path, model, capsys) -> None:
    y, folder = near(model), model[2]
    path = save(tmp_path / "Y.npy", y)
    assert assign(folder, path, "--bounded", "--gap", 0) == 0
    labels, sizes, result = read(tmp_path / "Y-assigned")
    counts = np.bincount(labels, minlength=6)
    low, high = (90 * 137 // 600, -(-110 * 137 // 600))
    assert {(int(r["min_count"]), int(r["max_count"])) for r in sizes} == {(low, high)}
    assert (low <= counts.min(), counts.max() <= high) == (True, True)
    assert (result["min_count"], result["max_count"], result["violation"]) == (low, high, 0)
    assert result["relative_gap"] == pytest.approx(0.0, abs=1e-12)
    scores = scores_of(model, y)
    # No two rows gain by exchanging their clusters.
    own = scores[np.arange(137), labels]
    gain = scores[:, labels] + scores[:, labels].T - own[:, None] - own[None]
    assert gain.max() <= 1e-6 * np.abs(scores).max()
    assert "no labels inside the bounds" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "low", "high"),
    [
        (("--min-count", 21), 21, 26),
        (("--lower", 1), 22, 26),
        (("--bounded", "--lower", 0, "--upper", "inf"), 0, 137),
        (("--max-count", 23, "--bounded"), 20, 23),
        (("--bounded", "--rounding", "outward"), 20, 26),
        (("--bounded", "--rounding", "inward"), 21, 25),
        (("--bounded", "--rounding", "nearest"), 21, 25),
        (("--max-count", 24, "--rounding", "inward"), 21, 24),
        (("--lower", 1, "--upper", 1.2, "--rounding", "inward", "--min-count"), None, None),
    ],
    ids=str,
)
def test_other_bounds(tmp_path, capsys, model, options, low, high) -> None:
    path = save(tmp_path / "Y.npy", near(model))
    if low is None:
        error = error_of(capsys, 2, "assign", model[2], path, *options, 3)
        assert "--lower and --min-count both bound one side" in error
        return
    assert assign(model[2], path, *options) == 0
    labels, sizes, _ = read(tmp_path / "Y-assigned")
    counts = np.bincount(labels, minlength=6)
    assert {(int(r["min_count"]), int(r["max_count"])) for r in sizes} == {(low, high)}
    assert low <= counts.min()
    assert counts.max() <= high


def test_shares_of_the_model_that_rounding_makes_impossible(tmp_path, capsys) -> None:
    exact = ("--lower", 1, "--upper", 1, "--out", tmp_path / "M")
    assert cluster(save(tmp_path / "X.npy"), *exact, k=4) == 0
    capsys.readouterr()
    path = save(tmp_path / "Y.npy", groups()[0][:101])
    options = ("--bounded", "--rounding", "inward")
    error = error_of(capsys, 65, "assign", tmp_path / "M", path, *options)
    assert "the bounds of the model, where the mean size n/k is 25.25 rows: " in error
    assert ", or leave out --rounding" in error


def test_a_file_of_bounds(tmp_path, model) -> None:
    path, bounds = save(tmp_path / "Y.npy", near(model)), tmp_path / "b.csv"
    bounds.write_text("cluster,min_count\n" + "".join(f"{j},{10 + j}\n" for j in range(6)))
    assert assign(model[2], path, "--bounds", bounds, "--out", tmp_path / "out") == 0
    labels, _, result = read(tmp_path / "out")
    assert result["labels"] == "bounded"
    assert (np.bincount(labels, minlength=6) >= 10 + np.arange(6)).all()


def test_ids_are_carried_through_in_any_format(tmp_path, model) -> None:
    pytest.importorskip("pyarrow")
    y, names = near(model), [f"c{j}" for j in range(5)]
    with (tmp_path / "Y.csv").open("w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(["name", *names])
        lines.writerows([f"row {i}", *row] for i, row in enumerate(y.tolist()))
    made = tmp_path / "labels.csv"
    assert assign(model[2], tmp_path / "Y.csv", "--id", "name", "--table", made) == 0
    labels = read(tmp_path / "Y-assigned")[0]
    with made.open() as file:
        rows = list(csv.DictReader(file))
    assert [row["name"] for row in rows] == [f"row {i}" for i in range(137)]
    assert [int(row["cluster"]) for row in rows] == labels.tolist()
    ordered = np.sort(scores_of(model, y), axis=1)
    margins = np.asarray([float(row["margin"]) for row in rows])
    np.testing.assert_allclose(margins, ordered[:, -1] - ordered[:, -2], rtol=1e-4, atol=1e-5)


def test_a_row_has_the_same_label_in_any_file(tmp_path, model) -> None:
    y = near(model)
    far = np.concatenate([y, 1e3 * y[:3]])
    for name, rows in (("all", y), ("some", y[40:60]), ("far", far)):
        assert assign(model[2], save(tmp_path / f"{name}.npy", rows)) == 0
    found = {n: read(tmp_path / f"{n}-assigned")[0] for n in ("all", "some", "far")}
    np.testing.assert_array_equal(found["all"][40:60], found["some"])
    np.testing.assert_array_equal(found["all"], found["far"][:137])


def test_threads_change_no_byte(tmp_path, model) -> None:
    path = save(tmp_path / "Y.npy", groups(n=9000, d=5, spread=2.0)[0])
    for threads in (1, 2):
        options = ("--bounded", "--threads", threads, "--out", tmp_path / f"{threads}")
        assert assign(model[2], path, *options) == 0
    assert listing(tmp_path / "1") == listing(tmp_path / "2")


def test_a_model_is_not_overwritten_by_its_labels(tmp_path, capsys, model) -> None:
    own = shutil.copytree(model[2], tmp_path / "own")
    before, path = listing(own), save(tmp_path / "Y.npy", near(model))
    error = error_of(capsys, 73, "assign", own, path, "--out", own, "--overwrite")
    assert "lies in the output folder" in error
    assert listing(own) == before


def test_json_and_overwrite(tmp_path, capsys, model) -> None:
    path, out = save(tmp_path / "Y.npy", near(model)), tmp_path / "Y-assigned"
    assert assign(model[2], path, "--json") == 0
    assert capsys.readouterr() == ((out / "result.json").read_text(), "")
    before = listing(tmp_path)
    error = error_of(capsys, 73, "assign", model[2], path)
    assert "or replace it with --overwrite" in error
    # Not even a folder of another command is replaced by labels alone, nor a file by anything.
    save(tmp_path / "l.npy", np.zeros(3))
    before = listing(tmp_path)
    options = ("--out", tmp_path / "l.npy", "--overwrite")
    error = error_of(capsys, 73, "assign", model[2], path, *options)
    assert "l.npy exists, and --overwrite replaces a folder of results, no single file" in error
    error = error_of(capsys, 73, "assign", model[2], path, *options[:2])
    assert "l.npy exists. To fix this, name another file with --out" in error
    assert listing(tmp_path) == before
    assert assign(model[2], path, "--bounded", "--overwrite") == 0
    assert read(out)[2]["labels"] == "bounded"


WRONG = {
    "no model": (("gone", "Y.npy"), 66, "no model at gone"),
    "no rows": (("M", "gone.npy"), 66, "no file at gone.npy"),
    "wide": (("M", "wide.npy"), 65, "holds rows of 6 numbers. The centers of M have 5 numbers"),
    "rows for a model": (("Y.npy", "Y.npy"), 65, "Y.npy is an .npy file. A model is the file"),
    "NaN": (("M", "nan.npy"), 65, "holds NaN or infinity in row 3"),
    "both": (("M", "Y.npy", "--bounded", "--prices"), 2, "--bounded finds prices of its own"),
    "priced bounds": (("M", "Y.npy", "--prices", "--lower", "1"), 2, "--bounded finds prices"),
    "gap": (("M", "Y.npy", "--bounded", "--gap", "2"), 65, "--gap must lie in [0, 1], got 2.0"),
    "gap of nothing": (("M", "Y.npy", "--gap", "0"), 2, "--gap is about sizes between bounds"),
    "gap at prices": (("M", "Y.npy", "--prices", "--gap", "0"), 2, "--gap is about sizes"),
    "rounding of nothing": (
        ("M", "Y.npy", "--rounding", "inward"),
        2,
        "--rounding is about sizes between bounds, and without --bounded there are none",
    ),
    "rounding of rows": (
        ("M", "Y.npy", "--min-count", "1", "--max-count", "99", "--rounding", "outward"),
        2,
        "--rounding is of shares of n/k to whole rows, and --min-count and --max-count are in rows",
    ),
    "rounding of a file": (
        ("M", "Y.npy", "--bounds", "b.csv", "--rounding", "inward"),
        2,
        "and --bounds is in rows. To fix this, leave out --rounding",
    ),
    "count": (
        ("M", "Y.npy", "--min-count", "23"),
        65,
        "--min-count 23 asks for 138 rows in 6 clusters, 1 more than the 137 rows of the file",
    ),
    "table": (("M", "Y.npy", "--table", "l.npy"), 2, "--table must end in .csv"),
    "threads": (("M", "Y.npy", "--threads", "0"), 65, "--threads must be at least 1, got 0"),
    "empty name": (("M", ""), 2, "Y.npy must be the path of a file or folder"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_labeled(tmp_path, capsys, monkeypatch, model, name) -> None:
    arguments, code, words = WRONG[name]
    monkeypatch.chdir(tmp_path)
    y = near(model)
    save(tmp_path / "Y.npy", y)
    save(tmp_path / "wide.npy", np.ones((9, 6)))
    save(tmp_path / "nan.npy", np.where(np.arange(137)[:, None] == 3, np.nan, y))
    (tmp_path / "M").mkdir()
    (tmp_path / "M" / "model.npz").write_bytes((model[2] / "model.npz").read_bytes())
    before = listing(tmp_path)
    assert words in error_of(capsys, code, "assign", *arguments)
    assert listing(tmp_path) == before


def test_another_metric_is_an_error(tmp_path, capsys, model) -> None:
    path = save(tmp_path / "Y.npy", near(model))
    other = {"cosine": "euclidean", "euclidean": "cosine"}[model[0]]
    error = error_of(capsys, 65, "assign", model[2], path, "--metric", other)
    assert f"is a model of --metric {model[0]}" in error
    assert assign(model[2], path, "--metric", model[0]) == 0


def test_stopped(tmp_path, capsys, monkeypatch, model) -> None:
    def stop(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(assign_command, "label_rows", stop)
    path = save(tmp_path / "Y.npy", near(model))
    assert assign(model[2], path) == 130
    assert capsys.readouterr().err == "dualclust: interrupted; nothing was written\n"
    assert [p.name for p in tmp_path.iterdir()] == ["Y.npy"]
