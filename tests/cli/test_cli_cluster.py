"""`dualclust cluster`: what it writes, for which options and embeddings."""

import numpy as np
import pytest

from tests.cli.cluster_files import OUTPUTS, check, cluster, groups, listing, outputs, save
from tests.problems import unit_rows


def test_the_files_and_the_report(tmp_path, capsys):
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
    assert (report["min_count"], report["max_count"]) == (45, 55)
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
        (7, ["--lower", 1, "--upper", 1], (28, 29)),
        (7, ["--rounding", "inward"], (26, 31)),
        (7, ["--rounding", "nearest"], (26, 31)),
        (4, ["--lower", 0, "--upper", "inf"], (0, 200)),
        (6, ["--lower", 0.5, "--upper", "inf"], (16, 200)),
        (6, ["--min-count", 30], (30, 37)),
        (6, ["--min-count", 30, "--max-count", 40], (30, 40)),
        (6, ["--lower", 0, "--max-count", 34], (0, 34)),
        (1, [], (180, 200)),
        (200, [], (0, 2)),
        (4, ["--max-iter", 0], (45, 55)),
    ],
    ids=str,
)
def test_options_of_sizes(tmp_path, k, options, bounds):
    x, _ = groups()
    assert cluster(save(tmp_path / "X.npy", x), *options, k=k) == 0
    _, report = check(tmp_path / "X-clusters", x, k)
    assert (report["min_count"], report["max_count"]) == bounds
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


def test_more_rows_than_the_sample_for_the_start(tmp_path):
    x, member = groups(n=9000, k=6, d=16)
    assert cluster(save(tmp_path / "X.npy", x), "--seed", 3, k=6) == 0
    labels, _ = check(tmp_path / "X-clusters", x, 6)
    assert len(set(zip(labels.tolist(), member.tolist(), strict=True))) == 6


def test_the_output_folder_and_its_parents_are_made(tmp_path):
    path = save(tmp_path / "X.npy")
    assert cluster(path, "--out", tmp_path / "a" / "b" / "c") == 0
    assert {p.name for p in (tmp_path / "a" / "b" / "c").iterdir()} == OUTPUTS
    assert [p.name for p in (tmp_path / "a" / "b").iterdir()] == ["c"]


def test_the_default_output_is_next_to_a_relative_input(tmp_path, monkeypatch):
    (tmp_path / "data").mkdir()
    save(tmp_path / "data" / "my.embeddings.npy")
    monkeypatch.chdir(tmp_path)
    assert cluster("data/my.embeddings.npy") == 0
    assert (tmp_path / "data" / "my.embeddings-clusters").is_dir()
