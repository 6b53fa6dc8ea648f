"""`dualclust cluster`: what it writes, and that an error is one line and leaves nothing."""

import csv
import json
import math

import numpy as np
import pytest

from dualclust.algos.clustering import start
from dualclust.cli.main import main
from dualclust.common import files
from tests.problems import unit_rows

OUTPUTS = {"labels.npy", "centers.npy", "sizes.csv", "result.json"}


def groups(n=200, k=4, d=8, spread=0.3, seed=0):
    rng = np.random.default_rng(seed)
    directions = unit_rows(rng.normal(size=(k, d)))
    member = np.arange(n) % k
    lengths = rng.uniform(0.1, 10.0, size=(n, 1))
    return lengths * (directions[member] + spread * rng.normal(size=(n, d)) / np.sqrt(d)), member


def save(path, array=None):
    np.save(path, groups()[0] if array is None else array)
    return path


def listing(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


def cluster(path, *options, k=4):
    return main(["cluster", str(path), "-k", str(k), *map(str, options)])


def outputs(folder):
    """The four files, read."""
    assert {path.name for path in folder.iterdir()} == OUTPUTS
    with (folder / "sizes.csv").open() as file:
        sizes = list(csv.DictReader(file))
    return (
        np.load(folder / "labels.npy", allow_pickle=False),
        np.load(folder / "centers.npy", allow_pickle=False),
        sizes,
        json.loads((folder / "result.json").read_text()),
    )


def check(folder, x, k):
    """Everything that the files say, recomputed from the rows of the input."""
    labels, centers, sizes, report = outputs(folder)
    x = unit_rows(np.asarray(x, np.float64))
    n = len(x)
    assert labels.shape == (n,)
    assert labels.dtype == np.int64
    assert centers.shape == (k, x.shape[1])
    np.testing.assert_allclose(np.linalg.norm(centers, axis=1), 1.0, atol=1e-6)
    counts = np.bincount(labels, minlength=k)
    assert [int(row["cluster"]) for row in sizes] == list(range(k))
    assert [int(row["size"]) for row in sizes] == counts.tolist()
    for row in sizes:
        assert int(row["lower"]) <= int(row["size"]) <= int(row["upper"])
    value = (x * centers.astype(np.float64)[labels]).sum() / n
    assert report["mean_similarity"] == pytest.approx(value, abs=1e-6)
    assert report["mean_similarity_bound"] >= report["mean_similarity"] - 1e-9
    assert report["relative_gap"] >= 0
    assert (report["n_samples"], report["n_clusters"], report["violation"]) == (n, k, 0)
    assert report["smallest_cluster"] == counts.min() >= report["lower_bound"]
    assert report["largest_cluster"] == counts.max() <= report["upper_bound"]
    return labels, report


def test_the_four_files_and_the_report(tmp_path, capsys):
    x, member = groups()
    path = save(tmp_path / "X.npy", x)
    before = path.read_bytes()
    assert cluster(path) == 0
    labels, report = check(tmp_path / "X-clusters", x, 4)
    pairs = set(zip(labels.tolist(), member.tolist(), strict=True))
    assert len(pairs) == 4  # the groups, each under one name, in the order of the rows
    assert report["converged"] is True
    assert report["seed"] == 0
    assert (report["lower"], report["upper"]) == (0.9, 1.1)
    assert (report["lower_bound"], report["upper_bound"]) == (45, 55)
    out, err = capsys.readouterr()
    assert err == ""
    assert "violation           0" in out
    assert f"written to          {tmp_path / 'X-clusters'}/" in out
    assert path.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["X-clusters", "X.npy"]


def test_every_label_is_the_best_at_the_prices_of_the_file(tmp_path):
    """Unequal groups, so that prices matter; rows shuffled, so that a wrong order shows."""
    rng = np.random.default_rng(1)
    x, member = groups(n=300, spread=0.8)
    x = x[rng.permutation(np.flatnonzero(member != 3)[:180])]
    assert cluster(save(tmp_path / "X.npy", x)) == 0
    labels, centers, sizes, _ = outputs(tmp_path / "X-clusters")
    prices = np.array([float(row["price"]) for row in sizes])
    priced = unit_rows(x) @ centers.T + prices
    worst = (priced.max(axis=1) - priced[np.arange(len(x)), labels]).max()
    assert worst <= 4e-6  # prices have six decimals
    assert np.abs(prices).max() > 1e-3


@pytest.mark.parametrize("gap", [0, 0.05])
def test_best_and_near_labels(tmp_path, gap):
    x, _ = groups(n=9000, k=10, spread=2.0)  # more scores than are always solved exactly
    assert cluster(save(tmp_path / "X.npy", x), "--gap", gap, "--max-iter", 3, k=10) == 0
    _, report = check(tmp_path / "X-clusters", x, 10)
    assert report["relative_gap"] <= gap


def test_a_seed_gives_the_same_bytes(tmp_path):
    path = save(tmp_path / "X.npy", groups(spread=3.0)[0])
    for name, seed in (("a", 5), ("b", 5), ("c", 6)):
        assert cluster(path, "--seed", seed, "--out", tmp_path / name) == 0
    a, b, c = (listing(tmp_path / name) for name in "abc")
    assert a == b
    assert a["centers.npy"] != c["centers.npy"]


@pytest.mark.parametrize(
    ("k", "options", "bounds"),
    [
        (4, ["--lower", 1, "--upper", 1], (50, 50)),
        (7, ["--lower", 1, "--upper", 1, "--rounding", "outward"], (28, 29)),
        (7, ["--rounding", "nearest"], (26, 31)),
        (4, ["--lower", 0, "--upper", "inf"], (0, 200)),
        (6, ["--lower", 0.5, "--upper", "inf"], (17, 200)),
        (1, [], (180, 200)),
        (200, [], (1, 1)),
        (4, ["--max-iter", 0], (45, 55)),
    ],
    ids=str,
)
def test_options_of_sizes(tmp_path, k, options, bounds):
    x, _ = groups()
    assert cluster(save(tmp_path / "X.npy", x), *options, k=k) == 0
    _, report = check(tmp_path / "X-clusters", x, k)
    assert (report["lower_bound"], report["upper_bound"]) == bounds
    if "inf" in options:
        assert report["upper"] == "inf"


@pytest.mark.parametrize(
    "dtype", ["float16", "float32", "float64", "longdouble", "int8", "int64", "uint8", ">f8", ">f4"]
)
def test_any_real_dtype(tmp_path, dtype):
    x = np.round(8 * groups()[0])
    x = np.abs(x) + 1 if dtype == "uint8" else x + (np.abs(x).sum(axis=1, keepdims=True) == 0)
    x = np.clip(x, -100, 100).astype(dtype)
    assert cluster(save(tmp_path / "X.npy", x)) == 0
    check(tmp_path / "X-clusters", x, 4)
    wide = dtype in ("float64", "longdouble", ">f8")
    centers = np.load(tmp_path / "X-clusters" / "centers.npy")
    assert centers.dtype == (np.float64 if wide else np.float32)


@pytest.mark.parametrize(
    "change",
    {
        "fortran": np.asfortranarray,
        "huge": lambda x: x * 1e300,
        "minute": lambda x: x * 1e-300,
        "equal rows": lambda x: np.repeat(x[:1], len(x), axis=0),
        "one column": lambda x: x[:, :1],
        "unequal lengths": lambda x: x * np.logspace(-100, 100, len(x))[:, None],
    }.items(),
    ids=lambda item: item[0],
)
def test_rows_of_any_length_and_layout(tmp_path, change):
    x = change[1](groups()[0])
    assert cluster(save(tmp_path / "X.npy", x)) == 0
    scaled = x / np.abs(x).max(axis=1, keepdims=True)
    check(tmp_path / "X-clusters", scaled, 4)


def test_the_length_of_a_row_does_not_matter(tmp_path):
    x, _ = groups()
    powers = 2.0 ** np.random.default_rng(0).integers(-3, 4, size=(200, 1))
    assert cluster(save(tmp_path / "A.npy", x)) == 0
    assert cluster(save(tmp_path / "B.npy", x * powers)) == 0
    assert listing(tmp_path / "A-clusters") == listing(tmp_path / "B-clusters")


def test_more_rows_than_the_sample_for_the_start(tmp_path, monkeypatch):
    monkeypatch.setattr(start, "FEWEST_SAMPLED", 64)
    x, member = groups(n=3000, k=6, d=16)
    assert cluster(save(tmp_path / "X.npy", x), "--seed", 3, k=6) == 0
    labels, _ = check(tmp_path / "X-clusters", x, 6)
    assert len(set(zip(labels.tolist(), member.tolist(), strict=True))) == 6


def test_the_output_folder_and_its_parents_are_made(tmp_path):
    path = save(tmp_path / "X.npy")
    assert cluster(path, "--out", tmp_path / "a" / "b" / "c") == 0
    assert {p.name for p in (tmp_path / "a" / "b" / "c").iterdir()} == OUTPUTS
    assert [p.name for p in (tmp_path / "a" / "b").iterdir()] == ["c"]


def test_a_relative_path_lands_beside_its_input(tmp_path, monkeypatch):
    (tmp_path / "data").mkdir()
    save(tmp_path / "data" / "my.embeddings.npy")
    monkeypatch.chdir(tmp_path)
    assert cluster("data/my.embeddings.npy") == 0
    assert (tmp_path / "data" / "my.embeddings-clusters").is_dir()


# Errors: (what is saved, options, exit code, words of the message) ------------------------------


def with_entry(value):
    x = groups()[0]
    x[17, 3] = x[30, 0] = value
    return x


def with_zero_row():
    x = groups()[0]
    x[42] = 0.0
    return x


BAD_FILES = {
    "missing": (None, 66, "no file at"),
    "folder": ("folder", 66, "is a folder without files"),
    "text": (b"1.0 2.0\n3.0 4.0\n", 65, "is text"),
    "empty file": (b"", 65, "is empty (0 bytes)"),
    "cut off": (b"cut", 65, "is cut off: its header promises"),
    "pickle": (b"\x80\x04K\x01.", 65, "is a Python pickle"),
    "object": (np.array([[1, "a"]], dtype=object), 65, "Python objects"),
    "archive": ("archive", 65, "is an .npz archive, by its first bytes"),
    "strings": (np.array([["a", "b"]]), 65, "holds text (<U1)"),
    "complex": (np.ones((9, 2), complex), 65, "complex numbers (complex128)"),
    "bool": (np.ones((9, 2), bool), 65, "truth values (bool)"),
    "dates": (np.zeros((9, 2), "M8[s]"), 65, "holds dates (datetime64[s])"),
    "record": (np.zeros(9, [("a", "f4")]), 65, "records with the fields 'a'"),
    "scalar": (np.float64(3.0), 65, "holds a single number"),
    "one axis": (np.ones(9), 65, "has the shape (9,)"),
    "three axes": (np.ones((9, 2, 2)), 65, "has the shape (9, 2, 2)"),
    "no row": (np.ones((0, 2)), 65, "has the shape (0, 2): no rows"),
    "no column": (np.ones((9, 0)), 65, "has the shape (9, 0): rows without numbers"),
    "NaN": (with_entry(math.nan), 65, "NaN or infinity in 2 rows, the first of them row 17"),
    "infinity": (with_entry(-math.inf), 65, "NaN or infinity in 2 rows, the first of them row 17"),
    "zero row": (with_zero_row(), 65, "only zeros in row 42"),
}


def error_of(capsys, code, *arguments):
    """Run and return the one line of the error."""
    assert main([str(a) for a in arguments]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("dualclust: error: ")
    assert err.count("\n") == 1, err
    assert err.endswith("\n")
    assert "Traceback" not in err
    return err


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_file_that_cannot_be_clustered(tmp_path, capsys, name):
    content, code, words = BAD_FILES[name]
    path = tmp_path / "X.npy"
    if isinstance(content, bytes):
        path.write_bytes(
            save(tmp_path / "Y.npy").read_bytes()[:200] if content == b"cut" else content
        )
    elif isinstance(content, str) and content == "folder":
        path.mkdir()
    elif isinstance(content, str):
        np.savez(tmp_path / "X.npz", a=np.ones((9, 2)))
        (tmp_path / "X.npz").rename(path)
    elif content is not None:
        np.save(path, content, allow_pickle=True)
    before = listing(tmp_path)
    error = error_of(capsys, code, "cluster", path, "-k", 3)
    assert words in error
    assert str(path) in error
    assert listing(tmp_path) == before


BAD_OPTIONS = {
    "k zero": (["-k", 0], "n_clusters must be at least 1, got 0"),
    "k negative": (["-k", -3], "n_clusters must be at least 1, got -3"),
    "k above n": (["-k", 201], "at least one row per center, got 200 rows for k=201"),
    "k beyond memory": (["-k", 999999999999], "got 200 rows for k=999999999999"),
    "k above n, no bounds": (
        ["-k", 201, "--lower", 0, "--upper", "inf"],
        "at least one row per center, got 200 rows for k=201",
    ),
    "lower too large": (["-k", 7, "--lower", 1], "lower bounds add up to 203 samples, 3 more"),
    "upper too small": (
        ["-k", 7, "--lower", 0, "--upper", 1],
        "upper bounds add up to 196 samples, 4 fewer",
    ),
    "tolerance": (["-k", 4, "--tol", 2], "--tol must lie in [0, 1], got 2.0"),
    "gap": (["-k", 4, "--gap", "nan"], "--gap must lie in [0, 1], got nan"),
    "crossed": (["-k", 4, "--lower", 0.9, "--upper", 0.5], "lower bound"),
    "negative ratio": (["-k", 4, "--lower=-1"], "lower must lie in [0, inf"),
    "NaN ratio": (["-k", 4, "--lower", "nan"], "lower must lie in [0, inf"),
    "infinite lower": (["-k", 4, "--lower", "inf"], "lower must be finite"),
    "iterations": (["-k", 4, "--max-iter", -1], "max_iter must be at least 0"),
}


@pytest.mark.parametrize("name", BAD_OPTIONS)
def test_options_that_do_not_fit_the_rows(tmp_path, capsys, name):
    options, words = BAD_OPTIONS[name]
    path = save(tmp_path / "X.npy")
    before = listing(tmp_path)
    assert words in error_of(capsys, 65, "cluster", path, *options)
    assert listing(tmp_path) == before


@pytest.mark.parametrize("name", ["", ".", "/", "a" * 300, "b" * 5000, "nul\0.npy"])
@pytest.mark.parametrize("option", ["X.npy", "--weights", "--out", "--checkpoint"])
def test_names_that_no_file_can_have(tmp_path, capsys, option, name):
    path = save(tmp_path / "X.npy")
    before = listing(tmp_path)
    given = [name] if option == "X.npy" else [path, option, name]
    error = error_of(capsys, 2, "cluster", *given, "-k", 4)
    assert f"{option} must be the path of a file or folder, got" in error
    assert "To fix this, give another path" in error
    assert listing(tmp_path) == before


def test_a_device_without_values(tmp_path, capsys):
    pytest.importorskip("torch")
    path = save(tmp_path / "X.npy")
    for device in ("meta", "meta:0"):
        error = error_of(capsys, 2, "cluster", path, "-k", 4, "--device", device)
        assert "--device meta has no values to compute with" in error


def test_resume_without_a_state(tmp_path, capsys):
    path = save(tmp_path / "X.npy")
    before = listing(tmp_path)
    error = error_of(capsys, 2, "cluster", path, "-k", 4, "--resume")
    assert "--resume needs --checkpoint" in error
    state = tmp_path / "state"
    error = error_of(capsys, 66, "cluster", path, "-k", 4, "--resume", "--checkpoint", state)
    assert f"no checkpoint at {state}" in error
    assert listing(tmp_path) == before


def test_a_negative_seed(tmp_path, capsys):
    assert cluster(save(tmp_path / "X.npy"), "--seed", -1) in (2, 65)
    assert "seed" in capsys.readouterr().err


def test_an_existing_output_is_left_alone(tmp_path, capsys):
    path = save(tmp_path / "X.npy")
    assert cluster(path) == 0
    capsys.readouterr()
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("mine")
    before = listing(tmp_path)
    for out in ("X-clusters", "empty", "file"):
        error = error_of(capsys, 73, "cluster", path, "-k", 4, "--out", tmp_path / out)
        assert f"{tmp_path / out} exists" in error
        assert "--out" in error
    assert "X-clusters exists" in error_of(capsys, 73, "cluster", path, "-k", 4)
    error = error_of(capsys, 73, "cluster", path, "-k", 4, "--out", tmp_path / "file" / "deeper")
    assert "cannot write into" in error
    assert listing(tmp_path) == before


def test_a_full_disk_leaves_nothing(tmp_path, capsys, monkeypatch):
    path = save(tmp_path / "X.npy")
    before, whole = listing(tmp_path), files._write_flushed

    def full(file, parts):
        if file.name == "sizes.csv":
            raise OSError(28, "No space left on device")
        return whole(file, parts)

    monkeypatch.setattr(files, "_write_flushed", full)
    error = error_of(capsys, 73, "cluster", path, "-k", 4)
    assert "X-clusters: No space left on device" in error
    assert listing(tmp_path) == before


def test_an_interrupt_while_writing_leaves_nothing(tmp_path, capsys, monkeypatch):
    path = save(tmp_path / "X.npy")
    before = listing(tmp_path)

    def interrupted(file, parts):
        raise KeyboardInterrupt

    monkeypatch.setattr(files, "_write_flushed", interrupted)
    assert cluster(path) == 130
    assert capsys.readouterr().err == "dualclust: interrupted\n"
    monkeypatch.undo()
    assert listing(tmp_path) == before
