"""`dualclust predict`, `embed` and `export`, on a run of a second; and what `train` prints."""

import csv
import io
import re

import numpy as np
import pytest
import torch

import dualclust
from dualclust.cli.main import main
from dualclust.cli.train import _agreement
from dualclust.train.loop import train
from tests.train.pictures import write_folder
from tests.train.runs import listing, tiny, write_images

SHORT = ("epochs=1", "optim.warmup_epochs=0", "heads.clusters=[10]", "evaluation.views=0")
SHORT += ("assignment.rounding=outward",)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with a run on pictures and one on arrays."""
    home = tmp_path_factory.mktemp("home")
    write_folder(home / "photos", 40, 10)
    write_images(home / "images.npz", n=60)
    train(tiny(home / "photos", "data.size=8", *SHORT), home / "run")
    train(tiny(home / "images.npz", *SHORT), home / "arrays")
    return home


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def dualclust_(*words):
    return main([str(word) for word in words])


def rows_of(text):
    return list(csv.DictReader(io.StringIO(text)))


def error_of(capsys, code, *words):
    assert dualclust_(*words) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert re.fullmatch(r"dualclust: error: [^\n]*\n", err), err
    return err


def test_predict_writes_a_table(home, elsewhere, capsys):
    """From any folder; in every format the same columns."""
    model = dualclust.load(home / "run")
    told = model.label(home / "photos")
    expected = {
        "path": [f"class{i % 10}/{i:03}.jpeg" for i in range(40)],
        "cluster": told.labels.tolist(),
        "probability": told.probability,
        "margin": told.margin,
        "runner_up": told.runner_up.tolist(),
    }
    order = np.argsort(expected["path"])
    expected["path"] = sorted(expected["path"])
    assert order[0] == 0
    assert dualclust_("predict", home / "run", home / "photos", "--table", "deep/l.csv") == 0
    out = capsys.readouterr().out
    assert re.search(r"labels +40, by the largest score \(argmax; no bounds\)", out)
    assert re.search(r"sizes +\d+ to \d+, \d+ of 10 clusters\nwritten to +deep/l\.csv", out)
    rows = rows_of((elsewhere / "deep" / "l.csv").read_text())
    assert list(rows[0]) == list(expected)
    for name in ("path", "cluster", "runner_up"):
        assert [row[name] for row in rows] == list(map(str, expected[name]))
    for name in ("probability", "margin"):
        np.testing.assert_allclose([float(row[name]) for row in rows], expected[name], rtol=1e-8)


@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".feather"])
def test_tables_of_arrow(home, elsewhere, suffix):
    pytest.importorskip("pyarrow")
    from pyarrow import feather, parquet

    path = f"l{suffix}"
    assert dualclust_("predict", home / "run", home / "photos", "--table", path) == 0
    table = parquet.read_table(path) if suffix == ".parquet" else feather.read_table(path)
    assert [str(kind) for kind in table.schema.types] == [
        "string", "int64", "double", "double", "int64",
    ]  # fmt: skip
    told = dualclust.load(home / "run").label(home / "photos")
    np.testing.assert_array_equal(table["cluster"].to_numpy(), told.labels)
    np.testing.assert_array_equal(table["margin"].to_numpy(), told.margin)


def test_predict_without_a_table_prints_one(home, elsewhere, capsys):
    assert dualclust_("predict", home / "arrays", home / "images.npz") == 0
    rows = rows_of(capsys.readouterr().out)
    assert [row["row"] for row in rows] == list(map(str, range(60)))
    model = dualclust.load(home / "arrays")
    labels = model.predict(home / "images.npz")
    assert [int(row["cluster"]) for row in rows] == labels.tolist()
    # The run's own table says the same of its own images.
    own = rows_of((home / "arrays" / "assignments.csv").read_text())
    assert [int(row["nearest"]) for row in own] == labels.tolist()
    # Bounded labels, by the prices.
    assert dualclust_("predict", home / "arrays", home / "images.npz", "--prices") == 0
    priced = rows_of(capsys.readouterr().out)
    assert [
        (row["cluster"], row["runner_up"]) for row in priced if float(row["margin"]) > 1e-4
    ] == [(row["cluster"], row["runner_up"]) for row in own if float(row["margin"]) > 1e-4]
    # One picture, and two.
    first = home / "photos" / "class0" / "000.jpeg"
    assert dualclust_("predict", home / "run", first) == 0
    (row,) = rows_of(capsys.readouterr().out)
    assert row["path"] == str(first)
    assert dualclust_("predict", home / "run", first, first) == 0
    assert len(rows_of(capsys.readouterr().out)) == 2


def test_embed(home, elsewhere, capsys):
    model = dualclust.load(home / "arrays")
    for layer in ("features", "encoder"):
        words = ["--layer", layer, "--out", f"{layer}.npy", "--batch-size", "7"]
        assert dualclust_("embed", home / "arrays", home / "images.npz", *words) == 0
        rows = np.load(f"{layer}.npy", allow_pickle=False)
        expected = model.embed(home / "images.npz", layer=layer)
        np.testing.assert_allclose(rows, expected, rtol=0, atol=1e-5)
        assert rows.dtype == np.float32
        said = f"{layer}.npy, 60 rows of {expected.shape[1]} numbers"
        assert said in capsys.readouterr().out
    # What was written is what `dualclust cluster` reads.
    assert dualclust_("cluster", "features.npy", "-k", "3") == 0


def test_export(home, elsewhere, capsys):
    assert dualclust_("export", home / "run") == 0
    assert (elsewhere / "run.safetensors").read_bytes() == (
        home / "run" / "model.safetensors"
    ).read_bytes()
    assert "written to    run.safetensors, " in capsys.readouterr().out
    model = dualclust.load("run.safetensors")
    labels = model.predict(home / "photos")
    assert (labels == dualclust.load(home / "run").predict(home / "photos")).all()
    assert dualclust_("predict", "run.safetensors", home / "photos", "--table", "l.csv") == 0
    assert dualclust_("export", "run.safetensors", "--to", "torch.export", "--out", "a/m.pt2") == 0
    x = model.inputs(home / "photos").read(0, 40)
    with torch.no_grad():
        scores, _ = torch.export.load("a/m.pt2").module()(x)
    assert (scores.argmax(1).numpy() == labels).all()


def test_what_is_refused(home, elsewhere, capsys):
    run, photos = home / "run", home / "photos"
    (elsewhere / "old.csv").write_text("mine")
    (elsewhere / "old.npy").write_text("mine")
    (elsewhere / "run.safetensors").write_text("mine")
    before, picture = listing(elsewhere), photos / "class0" / "000.jpeg"
    cases = [
        (66, "no model at gone", ["predict", "gone", photos]),
        (66, "which holds no run", ["predict", photos, photos]),
        (65, "damaged, or no model", ["predict", "old.npy", photos]),
        (66, "no data at 'gone'", ["predict", run, "gone"]),
        (65, "images must have shape", ["predict", run, home / "images.npz"]),
        (2, "--table must end in .csv, .parquet", ["predict", run, photos, "--table", "l.txt"]),
        (73, "old.csv exists", ["predict", run, photos, "--table", "old.csv"]),
        (65, "--batch-size must be at least 1, got 0", ["predict", "gone", "a", "--batch-size", 0]),
        (65, "--batch-size must be", ["embed", run, photos, "--out", "e.npy", "--batch-size", -1]),
        (2, "--split test is of a folder", ["predict", run, picture, "--split", "test"]),
        (2, "--split test is of", ["predict", run, picture, picture, "--split", "test"]),
        (2, "--split all", ["embed", run, picture, "--split", "all", "--out", "e.npy"]),
        (2, "not split into train and test", ["predict", run, photos, "--split", "test"]),
        (2, "no CUDA device", ["predict", run, photos, "--device", "cuda"]),
        (2, "--out must end in .npy", ["embed", run, photos, "--out", "x.csv"]),
        (73, "old.npy exists", ["embed", run, photos, "--out", "old.npy"]),
        (73, "run.safetensors exists", ["export", run]),
        (2, "--out must end in .onnx for --to onnx", ["export", run, "--to", "onnx", "--out", "x"]),
    ]
    for code, words, command in cases:
        assert words in error_of(capsys, code, *command)
    assert listing(elsewhere) == before


def test_a_broken_picture_leaves_no_table(home, elsewhere, capsys):
    folder = write_folder(elsewhere / "p", 4, 1)
    (folder / "class0" / "002.jpeg").write_bytes(b"no picture")
    stop = ["--bad", "stop"]
    said = error_of(capsys, 65, "predict", home / "run", folder, "--table", "l.csv", *stop)
    assert "cannot decode class0/002.jpeg" in said
    said = error_of(capsys, 65, "embed", home / "run", folder, "--out", "e.npy", *stop)
    assert "cannot decode class0/002.jpeg" in said
    assert {path.name for path in elsewhere.iterdir()} == {"p"}


def test_the_way_out_starts_with_what_train_printed(home, elsewhere, capsys):
    """On embeddings there is no gallery to look at."""
    rng = np.random.default_rng(0)
    np.save("X.npy", rng.normal(size=(60, 6)).astype(np.float32))
    off = ["rotate=0", "shear=0", "translate=0", "elastic=0", "contrast=0", "scale=[1, 1]"]
    changes = [*SHORT, *(f"augment.{one}" for one in off), "network.name=none", "threads=1"]
    words = [word for change in changes for word in ("--set", change)]
    assert dualclust_("train", "secu", "--data", "X.npy", "--recipe", "secu_digits", *words) == 0
    out = capsys.readouterr().out
    assert "gallery" not in out
    assert "written to    runs/secu-X-seed0/  (label more with: dualclust predict)" in out
    assert "agreement" not in out
    assert re.search(
        r"sizes +\d+ to \d+, bounds \d+ to \d+, violation 0; by argmax \d+ to \d+", out
    )
    assert dualclust_("predict", "runs/secu-X-seed0", "X.npy", "--table", "l.csv") == 0


def figures(**prefixes):
    found = {}
    for prefix, value in prefixes.items():
        prefix = "" if prefix == "bounded" else f"{prefix}_"
        found |= {f"{prefix}acc": value, f"{prefix}nmi": value / 2, f"{prefix}ari": value / 4}
    return found


def test_the_papers_protocol_is_printed_first():
    """Held-out samples where there are some, by argmax; labels inside the bounds are named so."""
    lines = _agreement(figures(test=0.5, argmax=0.6, bounded=0.7))
    assert lines == [
        "agreement     ACC 0.500  NMI 0.250  ARI 0.125  "
        "(held-out samples, argmax: the papers' protocol)",
        "              ACC 0.600  NMI 0.300  ARI 0.150  (training samples, argmax)",
        "              ACC 0.700  NMI 0.350  ARI 0.175  "
        "(training samples, labels inside the bounds)",
    ]
    first, second = _agreement(figures(argmax=0.6, bounded=0.7))
    assert first.endswith(
        "ACC 0.600  NMI 0.300  ARI 0.150  (all samples, argmax: the papers' protocol)"
    )
    assert second.endswith("ARI 0.175  (all samples, labels inside the bounds)")
    # Without bounds that bind, both are one.
    assert len(_agreement(figures(argmax=0.6, bounded=0.6))) == 1
    assert _agreement({"loss": 1.0}) == []
